"""*Read*: certified ε at δ and δ at ε of a law, each direction by itself (L1, L3, L11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, UPPER, Direction, Law, times_exp
from dpcalc.arrays import Floats
from dpcalc.rounding import LEAST_DIVISOR, UNIT, accumulated

_FAINT = 1e-280  # masses below are counted at ∞ above and left out below
_TRUSTED = 0.25  # relative + slack must be less, or nothing is known
_TRIES = 30
_HALVINGS = 64
_NEARLY_ZERO = 1e-6


@dataclass(frozen=True)
class Curve:
    """δ(ε) from one side: `rest` + Σ mass·(1 - e^{ε - loss})₊, losses in increasing order."""

    upper: bool
    losses: Floats
    masses: Floats
    rest: float

    def delta(self, epsilon: float) -> float:
        """δ at ε ≥ 0: an upper bound, or a lower one. What is not a number bounds nothing: ∞ above and 0 below."""
        start = int(np.searchsorted(self.losses, epsilon))
        masses = self.masses[start:]
        with np.errstate(invalid="ignore", over="ignore"):
            terms = float(masses @ -np.expm1(epsilon - self.losses[start:]))
        if not math.isfinite(terms):
            return math.inf if self.upper else 0.0
        rounding = accumulated(len(masses) + 8)
        return (self.rest + terms) * (1 + rounding) if self.upper else max((self.rest + terms) * (1 - rounding), 0.0)

    def epsilon(self, delta: float) -> float:
        """ε at δ: at least the true one as an upper bound (∞ if none is found), at most as a lower one (or 0)."""
        guess = self._guess(delta)
        if self.upper and (guess is None or guess <= _NEARLY_ZERO) and self._holds(0.0, delta):
            return 0.0
        if guess is None:
            return math.inf if self.upper or self.rest > delta else 0.0
        stride = 16 * UNIT
        for _ in range(_TRIES):
            if self._holds(guess, delta):
                return max(guess, 0.0)
            guess += (stride if self.upper else -stride) * max(abs(guess), _NEARLY_ZERO)
            stride *= 8
            if guess <= 0 and not self.upper:
                return 0.0
        return math.inf if self.upper else 0.0

    def _holds(self, epsilon: float, delta: float) -> bool:
        """The inequality that certifies ε: δ(ε) ≤ δ above, δ(ε) > δ below; false where it is NaN."""
        return self.delta(epsilon) <= delta if self.upper else self.delta(epsilon) > delta

    def _guess(self, delta: float) -> float | None:
        """Where the bound meets δ, by a sum from the largest loss down."""
        losses, masses = self.losses[::-1], self.masses[::-1]
        origin = max(float(losses[0]) - 300, 0.0) if losses.size else 0.0  # e^±(loss - origin) are within the doubles
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shrunk = np.exp(origin - losses)
            p = np.cumsum(masses)
            q = np.cumsum(masses * shrunk)
            at_losses = p - q / shrunk
        target = delta - self.rest
        beyond = np.flatnonzero(at_losses[1:] > target)  # at the largest loss nothing is, but for rounding
        k = 1 + int(beyond[0]) if beyond.size else len(losses)
        if not target > 0 or k == 0 or not (p[k - 1] > target and q[k - 1] > 0):
            return None
        if not math.isfinite(q[k - 1]):  # losses further apart than doubles reach
            return self._halved(delta)
        found = origin + math.log((float(p[k - 1]) - target) / float(q[k - 1]))
        return found if math.isfinite(found) else None

    def _halved(self, delta: float) -> float:
        """The same by halving, between 0 and the largest loss."""
        low, high = 0.0, max(float(self.losses[-1]), 0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high if self.upper else low

    def slope(self, epsilon: float, delta: float) -> float:
        """-d log δ / dε, a hint."""
        start = int(np.searchsorted(self.losses, epsilon))
        return float(self.masses[start:] @ np.exp(epsilon - self.losses[start:])) / max(delta, LEAST_DIVISOR)


def curve(law: Law, direction: Direction, *, upper: bool) -> Curve:
    """One side of δ(ε) in one direction."""
    parts = law.components
    if len(parts) == 1:
        ((k, part),) = parts.items()
        losses, rows = law.losses(k), part.rows
    else:
        losses = np.concatenate([law.losses(k) for k in parts] or [np.zeros(0)])
        rows = np.concatenate([part.rows for part in parts.values()] or [np.zeros((3, 0))], axis=-1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _upper(law, direction, losses, rows) if upper else _lower(law, direction, losses, rows)


def _curve(upper: bool, losses: Floats, masses: Floats, rest: float) -> Curve:
    """Points in increasing order; what is not a number stays, and is seen."""
    if not np.all(losses[1:] >= losses[:-1]):
        order = np.argsort(losses, kind="stable")
        losses, masses = losses[order], masses[order]
    return Curve(upper, losses, masses, rest)


def _upper(law: Law, direction: Direction, losses: Floats, rows: Floats) -> Curve:
    """Points are raised by `shift`, weights by `relative`; what is too faint for doubles counts as infinite."""
    ledger, points = law.ledger, losses if direction == "remove" else -losses
    factors = law.log_factors(direction, losses)
    masses = times_exp(rows[UPPER], factors) * (1 + 2 * (ledger.relative + ledger.shift) + _of_factors(factors))
    rest = ledger.infinite if direction == "remove" else ledger.zero
    rest = (rest + _FAINT * len(losses)) * (1 + 2 * ledger.relative)
    rest = rest if ledger.relative + ledger.shift < _TRUSTED and math.isfinite(masses.sum()) else math.inf
    keep = ~(masses < _FAINT)  # so that NaN is kept, and seen
    return _curve(True, (points + ledger.shift + 4 * UNIT * (1 + np.abs(points)))[keep], masses[keep], rest)


def _lower(law: Law, direction: Direction, losses: Floats, rows: Floats) -> Curve:
    """Each name's own ratio of masses is its loss; names too faint for `lost` not to matter are ignored.

    What surely is at ∞ (at 0 for add) has no name and is disjoint from all of them (L3).
    """
    ledger, points = law.ledger, losses if direction == "remove" else -losses
    detected, other = (P_LOWER, Q_LOWER) if direction == "remove" else (Q_LOWER, P_LOWER)
    factors = law.log_factors(direction, losses)
    surely = ledger.surely_infinite if direction == "remove" else ledger.surely_zero
    rest = -math.expm1(-surely) * max(1 - accumulated(law.count + 16), 0.0)
    r = ledger.relative + ledger.slack + _of_factors(factors)
    if not (r < _TRUSTED and direction in law.lower):
        return Curve(False, np.zeros(0), np.zeros(0), rest)
    least = law.lost() / UNIT
    known = (rows[detected] > least) & (rows[other] > least)
    masses = times_exp(rows[detected], factors) * (1 - r)
    ratios = points + np.log(rows[detected] / rows[other]) + (math.log1p(-r) - math.log1p(r))
    keep = known & (masses > _FAINT)
    return _curve(False, (ratios - 8 * UNIT * (1 + np.abs(points) + np.abs(ratios)))[keep], masses[keep], rest)


def _of_factors(factors: Floats) -> float:
    """The relative error of e^factor, from the rounding of the factor itself."""
    return accumulated(8 + 8 * float(np.abs(factors).max(initial=0.0)))


def worst(values: Sequence[float]) -> float:
    """The largest; a maximum that swallows NaN would be a hole."""
    if any(math.isnan(value) for value in values):
        raise ArithmeticError("a bound that is not a number")
    return max(values)
