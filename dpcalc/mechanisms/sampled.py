"""Sampling as a wrapper on a mechanism, for every combination of sampler and adjacency that has a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import IncompatibleError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_rate
from dpcalc.pairs.base import Pair, Runs
from dpcalc.pairs.moments import ROUNDING
from dpcalc.pairs.profile import group_of_two
from dpcalc.pairs.sampled_curve import LEAST
from dpcalc.pairs.symmetrised import symmetrised

_FEW = 64  # runs of which a better last one is worth its while


def sampled(pairs: tuple[Pair, Pair], rate: float) -> tuple[Pair, Pair]:
    """((1-q)Q + qP, Q) for removing, and (Q, (1-q)Q + qP) for adding, each from its own direction of the base."""
    remove, add = pairs
    return remove.mixed(rate), add.reversed().mixed(rate).reversed()


def _smaller(first: float | None, second: float | None) -> float | None:
    return min((value for value in (first, second) if value is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class _Sampled(Mechanism):
    """What the samplers share: a base mechanism, run on a random batch."""

    base: Mechanism
    sampling_rate: float

    def __post_init__(self) -> None:
        expect_rate("sampling_rate", self.sampling_rate)
        if self.base.sampler() != "none":
            raise IncompatibleError(f"cannot sample a mechanism that is already sampled ({self.base.sampler()}).")

    def sampler(self) -> str:
        return self.scheme

    scheme: ClassVar[str]
    type: ClassVar[str] = "sampled"

    def _least_rdp(self, bound: Floats, orders: Floats) -> Floats:
        """That of the sampled pairs or divergences, and never more than the base's: sampling never weakens a mechanism.

        Divergences are jointly quasi-convex.
        """
        least = np.minimum(super()._least_rdp(bound, orders), self._unsampled().rdp(orders))
        excess = self._excess(orders)
        if excess is None:
            return least
        worse = np.maximum(np.maximum(*excess), LEAST)
        return np.minimum(least, np.logaddexp(0.0, worse) / (orders - 1) * (1 + ROUNDING))

    def _excess(self, orders: Floats) -> tuple[Floats, Floats] | None:  # noqa: ARG002
        """Upper bounds on log(E[X^α] - 1) and log(E[X^{1-α}] - 1), where the base knows more than its pairs."""
        return None

    def rdp_is_of_pairs(self) -> bool:
        """Where the sampled pairs are those of the base, mixed; other pairs may be worse than the base."""
        return self._is_mixture() and self.base.rdp_is_of_pairs()

    def _is_mixture(self) -> bool:
        return False

    def gdp(self) -> float | None:
        return _smaller(super().gdp(), self._unsampled().gdp())

    def gdp_is_exact(self) -> bool:
        return self.sampling_rate == 1.0 and self._unsampled().gdp_is_exact()

    def zcdp(self) -> float | None:
        return _smaller(super().zcdp(), self._unsampled().zcdp())

    def _unsampled(self) -> Mechanism:
        """The mechanism on all records, under this adjacency: what a rate of one gives."""
        return self.base

    def assumptions(self) -> tuple[str, ...]:
        return self.base.assumptions()

    def spec(self) -> Mapping[str, Any]:
        return {**self.base.spec(), "sampling": {"scheme": self.scheme, "rate": self.sampling_rate}}


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(_Sampled):
    """The base mechanism on a batch that holds each record independently with probability `sampling_rate`.

    Add-remove: ((1-q)Q + qP, Q) and (Q, (1-q)Q + qP) dominate the two directions (Zhu, Dong, Wang 2022, Thm 11).
    Replace-one, `base` stated for adding or removing one record: a record turned into its opposite where noise on the
    line has a monotone likelihood ratio (docs/certificate.md), else one removal and one addition, as a group.
    """

    scheme: ClassVar[str] = "poisson"

    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base.adjacency != "add-remove":
            raise IncompatibleError(
                "Poisson sampling needs the base mechanism under add-remove: amplification compares a batch with and "
                f"without one record, and this one is stated under {self.base.adjacency}."
            )

    @cached_property
    def _one_record(self) -> tuple[Pair, Pair]:
        return sampled(self.base.pairs(), self.sampling_rate)

    @property
    def _pairs(self) -> tuple[Pair, Pair]:
        if self.adjacency == "add-remove":
            return self._one_record
        if self.sampling_rate == 1.0:
            return self._unsampled().pairs()
        turned = self._turned
        pair = turned[0] if turned else group_of_two(*self._one_record)
        return pair, pair

    @cached_property
    def _turned(self) -> tuple[Pair, Pair] | None:
        return self.base.turned(self.sampling_rate)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pairs

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """The base's own, sampled. Under replace-one a record is turned into its opposite; where that is unknown, it is
        replaced by one that contributes nothing, which is a removal.
        """
        if self.adjacency == "replace-one" and self.sampling_rate == 1.0:
            return self._unsampled().attained_pairs()
        turned = self._turned if self.adjacency == "replace-one" else None
        if turned:
            return turned[1], turned[1]
        attained = self.base.attained_pairs()
        if attained == self.base.pairs():
            return self._one_record
        return attained and sampled(attained, self.sampling_rate)

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:
        """Where the base's data may be chosen, they are bad for the whole list, sampled."""
        if self.adjacency == "replace-one" or self.sampling_rate == 1.0:
            return super().attained_runs(count, order)
        attained = self.base.attained_sampled(self.sampling_rate, order)
        if attained == self.base.pairs():
            return ((self._one_record, count),)
        return attained and ((sampled(attained, self.sampling_rate), count),)

    def _is_mixture(self) -> bool:
        return self.adjacency == "add-remove"

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:
        """The last of a few runs is what the base attains there, sampled; it is removed, or replaced by nothing."""
        last = self.base.attained_last(1, order) if count <= _FEW and self.sampling_rate < 1 else None
        if last is None:
            return None
        first = self.attained_runs(count - 1, order) if count > 1 else ()
        return None if first is None else (*first, *((sampled(pairs, self.sampling_rate), 1) for pairs, _ in last))

    def _unsampled(self) -> Mechanism:
        return self.base if self.adjacency == "add-remove" else self.base.as_replace_one()

    def _excess(self, orders: Floats) -> tuple[Floats, Floats] | None:
        known = self.adjacency == "add-remove" and self.sampling_rate < 1
        return self.base.sampled_excess(self.sampling_rate, orders) if known else None

    def theorem(self) -> str:
        if self.adjacency == "add-remove":
            return "Zhu, Dong, Wang 2022, Theorem 11: Poisson subsampling, both directions"
        if self._turned:
            return "Poisson subsampling; replace-one: a record turned into its opposite (Neyman, Pearson 1933)"
        return "Poisson subsampling; replace-one as a group of one removal and one addition"

    def assumptions(self) -> tuple[str, ...]:
        lines = (*super().assumptions(), "each record enters each batch independently with the stated rate")
        if self.adjacency == "replace-one":
            lines += ("the stated sensitivity bounds the effect of adding or removing one record",)
        return lines


@dataclass(frozen=True, kw_only=True)
class FixedSizeSampled(_Sampled):
    """The base mechanism on a uniform batch of fixed size, drawn without replacement: rate = batch / data set size.

    Replace-one: C_p of the base's trade-off curve (Bok et al., Definition 4.7, Proposition D.4).
    Add-remove: a batch holds the record with probability γ, and then becomes a batch of the other data set by
    *replacing* it; so ((1-γ)Q + γP, Q), with (P, Q) dominating the base under replace-one, and its reverse dominate
    by advanced joint convexity (Balle, Barthe, Gaboardi 2018, Theorem 2).
    """

    scheme: ClassVar[str] = "fixed-size"

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        return self.base.adjacency

    @cached_property
    def _pairs(self) -> tuple[Pair, Pair]:
        if self.base.adjacency == "replace-one":
            first, second = self.base.pairs()
            if first != second:
                raise IncompatibleError("fixed-size sampling under replace-one needs a base with a symmetric pair.")
            pair = first if self.sampling_rate == 1.0 else symmetrised(first.mixed(self.sampling_rate))
            return pair, pair
        return sampled(self.base.replaced()[0], self.sampling_rate)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pairs

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """All other records are alike, and this one, where it is in the batch, stands in the place of one of them.

        Under replace-one what it is replaced by is like the others too: one side of C_p at a time, since which of the
        two is worse depends on the outcome, and the data do not change between releases.
        """
        replaces = self.base.adjacency == "replace-one"
        attained = self.base.attained_pairs() if replaces else self.base.replaced()[1]
        return attained and sampled(attained, self.sampling_rate)

    def _is_mixture(self) -> bool:
        return self.base.adjacency == "replace-one"

    def _excess(self, orders: Floats) -> tuple[Floats, Floats] | None:
        """Where a record is replaced, the sum of both, (2 - q) times: see lemma R4 in docs/certificate.md.

        The batch's δ at 1 + q(z-1) is at most q times (1-β)δ₁(z) + βδ₂(z), δ₁ that of batches with and without it
        and δ₂ of replacing it (Balle, Barthe, Gaboardi 2018, Theorem 2). Those are two members of what is described,
        which may be bad at different z; β is between q and 1.
        """
        excess = self._unsampled().sampled_excess(self.sampling_rate, orders) if self.sampling_rate < 1 else None
        if excess is None or self.base.adjacency == "add-remove":
            return excess
        both = np.logaddexp(*excess) + np.log1p(1 - self.sampling_rate) + ROUNDING * (1 + np.abs(excess).max(axis=0))
        return both, both

    def _unsampled(self) -> Mechanism:
        return self.base if self.base.adjacency == "replace-one" else self.base.as_replace_one()

    def gdp_is_exact(self) -> bool:
        return self.base.adjacency == "replace-one" and super().gdp_is_exact()

    def theorem(self) -> str:
        if self.base.adjacency == "replace-one":
            return "sampling without replacement, C_p of the base (Bok et al., Proposition D.4)"
        return "sampling without replacement, coupled by replacing one record (advanced joint convexity)"

    def assumptions(self) -> tuple[str, ...]:
        return (*super().assumptions(), "each batch is a uniform draw of fixed size without replacement")
