"""What a dominating pair says about itself, and the pairs that can be made from any pair.

A pair gives its own sampled, reversed or symmetrised form where it knows a better one; nobody asks for its class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Bools, Complexes, Floats
from dpcalc.pairs.cells import Cells, lacking, tail_errors
from dpcalc.pairs.moments import ROUNDING, chord_excess, mixed_losses
from dpcalc.rounding import OUTWARD, down, up


@dataclass(frozen=True)
class Need:
    """What an answer asks of a pair that can only be bounded, and of which there are so many `copies`.

    For removing and for adding: the order λ that decides, about which ε, and how far in ε bounds may be apart (∞ if it
    does not matter). `rare` is a probability that matters to nobody.
    """

    orders: tuple[float, float]
    epsilons: tuple[float, float]
    widths: tuple[float, float]
    copies: float
    rare: float

    def reversed(self) -> Need:
        """What the same answer asks of (Q, P)."""
        orders, epsilons, widths = (each[::-1] for each in (self.orders, self.epsilons, self.widths))
        return Need(orders, epsilons, widths, self.copies, self.rare)


class Pair(ABC):
    """A dominating pair (P, Q), known through its privacy loss L = log dP/dQ. Immutable, and hashable by value."""

    @abstractmethod
    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """P- and Q-mass of the cells that `edges` (non-decreasing losses e_0 ≤ … ≤ e_n) cut the line into.

        n + 2 values each: (-inf, e_0), [e_0, e_1), …, [e_n, inf]. The first Q-value includes Q(L = -inf); the
        last P-value includes P(L = inf). An atom on an edge may fall on either side, but with its P- and its
        Q-mass alike. Edges may be infinite. Each mass is accurate to a few units of rounding relative to the
        mass of the tail beyond it (differences of distribution functions are taken on the side of the tail), unless
        it leaves the range of doubles: a mass of 0 may be a positive one below 1e-300. Masses that add up to less
        than one leave the rest open: above it counts as infinite loss, below as nothing.
        """

    def cells(self, edges: Floats) -> Cells:
        """`masses` with bounds on their errors: those of differences of tails, unless a pair knows better."""
        p, q = self.masses(edges)
        return Cells(p, q, tail_errors(p, self.sharpness()), tail_errors(q, self.sharpness()))

    @classmethod
    def cells_of_all(cls, pairs: Sequence[Pair], edges: Floats) -> Cells:
        """The cells of some pairs of this class, each between its own row of edges."""
        found = [pair.cells(row) for pair, row in zip(pairs, edges, strict=True)]
        return Cells(*(np.stack(column) for column in zip(*found, strict=True)))

    @classmethod
    def masses_of_all(cls, pairs: Sequence[Pair], edges: Floats) -> tuple[Floats, Floats]:
        """The masses of some pairs of this class between the same edges, one row for each."""
        p, q = zip(*(pair.masses(edges) for pair in pairs), strict=True)
        return np.stack(p), np.stack(q)

    def sharpness(self) -> float:
        """The μ of the Gaussian whose distribution function the masses are made of, or 0."""
        return 0.0

    def log_mgf(self, exponents: Complexes) -> Complexes | None:  # noqa: ARG002
        """log E_P[exp(λL)] at complex λ with Re λ > 0, accurate but no bound; None where it is unknown or infinite."""
        return None

    def has_atoms(self) -> bool:
        """Whether single losses have positive probability, so that the transform does not die down."""
        return False

    def spacing(self) -> float | None:
        """The loss of which all atoms are multiples, for grids to be laid on; None if there are no such atoms."""
        return None

    def support(self) -> tuple[float, float]:
        """The smallest interval known to hold every finite loss, its ends exact or further out."""
        return -np.inf, np.inf

    def at_infinity(self) -> tuple[float, float]:
        """P(L = ∞) and Q(L = -∞), exact or above."""
        return 0.0, 0.0

    def surely_infinite(self) -> tuple[float, float]:
        """P(L = ∞) and Q(L = -∞), exact or below."""
        return 0.0, 0.0

    def missing(self) -> tuple[float, float]:
        """P- and Q-mass that is missing from 1, and that counts as a loss of ∞ and of -∞ in every bound from above."""
        p, q, p_error, q_error = self.cells(np.zeros(1))
        return lacking(p, p_error), lacking(q, q_error)

    def failure(self) -> float:
        """P(L = ∞) with what is missing, exact or above."""
        missing, infinite = self.missing()[0], self.at_infinity()[0]
        return up(infinite + missing, 1) if missing else infinite

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """Upper bounds on log E_Q[X^β - 1 - β(X - 1)], X = dP/dQ, for β > 1 or β < 0; inf where none is known.

        Over all X, or those above 1 alone (`side` 1) or below it (-1); see `moments`.
        """
        return chord_excess(self, powers, rate=1.0, side=side)

    def window(self, powers: Floats) -> tuple[float, float, Floats]:
        """Ends of the losses that matter for `log_excess`, and upper bounds on the log of what all others add to it.

        The latter whatever the rate of sampling.
        """
        return *self.support(), np.full(powers.shape, -np.inf)

    def rdp(self, orders: Floats) -> Floats:
        """Upper bounds on the Rényi divergence of P from Q at each order; inf where no finite one is known."""
        return np.asarray(np.logaddexp(0.0, self.log_excess(orders)) / (orders - 1) * (1 + ROUNDING))

    def two_sided_rdp(self, orders: Floats) -> Floats:
        """Upper bounds on the larger of the Rényi divergences of P from Q and of Q from P."""
        return np.maximum(self.rdp(orders), self.reversed().rdp(orders))

    @classmethod
    def two_sided_rdps(cls, pairs: Sequence[Pair], orders: Floats) -> Floats:
        """`two_sided_rdp` of some pairs of this class, one row for each."""
        return np.stack([pair.two_sided_rdp(orders) for pair in pairs])

    def reversed(self) -> Pair:
        """(Q, P)."""
        return ReversedPair(self)

    def mixed(self, rate: float) -> Pair:
        """((1-q)Q + qP, Q)."""
        return self if rate == 1.0 else MixturePair(self, rate)

    def unmixed(self) -> tuple[Pair, float]:
        """(P, Q) and q of a pair ((1-q)Q + qP, Q): the pair itself and 1 where it is not known as one."""
        return self, 1.0

    def lone_atoms(self, edges: Floats) -> Bools:
        """Which cells [e_0, e_1), … surely hold one finite loss at most; none where that is not known."""
        return np.zeros(len(edges) - 1, dtype=bool)

    def symmetric_form(self) -> Pair | None:
        """What `symmetrised` makes of this pair, where it knows a better form; None otherwise."""
        return None

    def excess(self) -> float:
        """By how much the masses may add up to more than 1, being bounds from above of those of a pair."""
        return 0.0

    def sharpened(self, need: Need) -> Pair:  # noqa: ARG002
        """This pair as tight as an answer needs it: itself, unless it can only be bounded."""
        return self

    def rough(self) -> Pair:
        """About this pair, quickly: for hints."""
        return self


Runs = tuple[tuple[tuple[Pair, Pair], int], ...]
"""Pairs for removing and for adding a record, each with how often they run."""


@dataclass(frozen=True)
class ReversedPair(Pair):
    """(Q, P) for the pair (P, Q)."""

    pair: Pair

    def sharpness(self) -> float:
        return self.pair.sharpness()

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        a, b = self.pair.masses(-edges[::-1])
        return b[..., ::-1], a[..., ::-1]

    def cells(self, edges: Floats) -> Cells:
        turned = self.pair.cells(-edges[::-1])
        return Cells(turned.q[::-1], turned.p[::-1], turned.q_error[::-1], turned.p_error[::-1])

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        return self.pair.log_mgf(-1 - exponents)

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """E_P[f_β(1/X)] = E_Q[f_{1-β}(X)]."""
        return self.pair.log_excess(1 - powers, -side)

    def has_atoms(self) -> bool:
        return self.pair.has_atoms()

    def excess(self) -> float:
        return self.pair.excess()

    def sharpened(self, need: Need) -> Pair:
        sharpened = self.pair.sharpened(need.reversed())
        return self if sharpened is self.pair else sharpened.reversed()

    def rough(self) -> Pair:
        rough = self.pair.rough()
        return self if rough is self.pair else rough.reversed()

    def spacing(self) -> float | None:
        return self.pair.spacing()

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        return -high, -low

    def at_infinity(self) -> tuple[float, float]:
        p, q = self.pair.at_infinity()
        return q, p

    def surely_infinite(self) -> tuple[float, float]:
        p, q = self.pair.surely_infinite()
        return q, p

    def reversed(self) -> Pair:
        return self.pair


@dataclass(frozen=True)
class MixturePair(Pair):
    """((1-q)Q + qP, Q) for the pair (P, Q), 0 < q < 1: the loss l becomes log(1 - q + q e^l)."""

    pair: Pair
    rate: float

    def sharpness(self) -> float:
        return self.pair.sharpness()

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        a, b = self.pair.masses(self._base_loss(edges))
        _, empty = self.pair.at_infinity()
        if empty > 0:  # a base loss of -∞ is the finite loss log(1 - q): both of its masses stay on one side of it
            b = self._moved(b, edges, empty)
        return (1 - self.rate) * b + self.rate * a, b

    @classmethod
    def masses_of_all(cls, pairs: Sequence[Pair], edges: Floats) -> tuple[Floats, Floats]:
        """In one go where all have the same rate and bases that have no loss of -∞."""
        bases, rates = zip(*(pair.unmixed() for pair in pairs), strict=True)
        alike = len({(type(base), rate) for base, rate in zip(bases, rates, strict=True)}) == 1
        if not alike or any(base.at_infinity()[1] > 0 for base in bases):
            return super().masses_of_all(pairs, edges)
        a, b = type(bases[0]).masses_of_all(bases, MixturePair(bases[0], rates[0])._base_loss(edges))
        return (1 - rates[0]) * b + rates[0] * a, b

    def unmixed(self) -> tuple[Pair, float]:
        return self.pair, self.rate

    def _base_loss(self, losses: Floats) -> Floats:
        """log((e^l - 1 + q) / q), -∞ where the mixture never is."""
        small = np.minimum(losses, 30.0)
        scaled = np.expm1(small) / self.rate
        with np.errstate(divide="ignore"):
            # Near log(1-q) the one form cancels, near 0 the other.
            low = np.log(np.maximum(np.exp(small) + np.expm1(small) * ((1 - self.rate) / self.rate), 0.0))
            near = np.where(scaled < -0.5, low, np.log1p(np.maximum(scaled, -0.5)))
        far = losses - np.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(losses, 30.0)))
        return np.where(losses > 30.0, far, near)

    def _moved(self, b: Floats, edges: Floats, empty: float) -> Floats:
        cell = int(np.searchsorted(edges, self._mixed_loss(-np.inf), side="right"))
        b = b.copy()
        b[0] = max(b[0] - empty, 0.0)
        b[cell] += empty
        return b

    def _mixed_loss(self, loss: float) -> float:
        if loss in (-np.inf, np.inf):
            return max(math.log1p(-self.rate), loss)
        return float(mixed_losses(np.array(loss), self.rate))

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        return chord_excess(self.pair, powers, rate=self.rate, side=side)

    def has_atoms(self) -> bool:
        return self.pair.has_atoms()

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        low = -np.inf if self.pair.at_infinity()[1] > 0 else low
        return self._mixed_loss(low) * OUTWARD, self._mixed_loss(high) * OUTWARD

    def at_infinity(self) -> tuple[float, float]:
        return self.rate * self.pair.at_infinity()[0], 0.0

    def surely_infinite(self) -> tuple[float, float]:
        return down(self.rate * self.pair.surely_infinite()[0]), 0.0
