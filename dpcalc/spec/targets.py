"""What a calibration may aim at, and the search for a number of a spec that just meets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpcalc.errors import InputError
from dpcalc.guarantee import exceeds
from dpcalc.mechanisms.base import Mechanism

Parts = Sequence[tuple[Mechanism, int]]

# A real solution moved by this much the other way exceeds the target; the search ends at a quarter of it.
_NUDGE = 1e-3


@dataclass(frozen=True)
class Target:
    """A quantity to keep within a limit; `at` is the δ of an ε, or the false positive rate of a true positive rate."""

    quantity: Literal["epsilon", "advantage", "tpr", "mu", "rho"]
    limit: float
    at: float | None = None

    def measure(self, parts: Parts, tolerance: float) -> float:
        """A certified upper bound on the quantity; infinite where there is none."""
        from dpcalc.accounting.gaussian import composed_mu
        from dpcalc.accounting.renyi import composed_rho
        from dpcalc.spec.composition import Question

        if self.quantity == "mu":
            return _or_infinite(composed_mu(parts))
        if self.quantity == "rho":
            return _or_infinite(composed_rho(parts))
        if self.quantity == "epsilon":
            return _or_infinite(Question(delta=self.at, tolerance=tolerance).ask(parts).epsilon)
        if self.quantity == "advantage":
            return _or_infinite(Question(epsilon=0.0, tolerance=tolerance).ask(parts).delta)
        return self._true_positive_rate(parts, tolerance)

    def _true_positive_rate(self, parts: Parts, tolerance: float) -> float:
        from dpcalc.accounting.gaussian import composed_mu, is_exactly_gaussian
        from dpcalc.conversions import gdp_tradeoff
        from dpcalc.conversions.attack import least_true_positive_rate
        from dpcalc.spec.composition import Question

        assert self.at is not None
        if is_exactly_gaussian(parts):
            return float(gdp_tradeoff(_or_infinite(composed_mu(parts)), self.at))
        return least_true_positive_rate(
            lambda epsilon: _or_infinite(Question(epsilon=epsilon, tolerance=tolerance).ask(parts).delta), self.at
        )


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


@dataclass(frozen=True)
class Solution:
    """A value that meets all targets, and the next one that does not, with how far it exceeds them."""

    value: float
    too_much: float
    excess: float


def search(ratio: Callable[[float], float], *, low: float, high: float, increasing: bool, integer: bool) -> Solution:
    """The least private value in [low, high] at which `ratio`, certified over allowed, is at most 1.

    `increasing` says whether the ratio grows with the value. Raises InputError if no value or every value fits.
    """
    safe, greedy = (low, high) if increasing else (high, low)
    if exceeds(ratio(safe), 1):
        raise InputError(f"no solution: even at the most private value {safe:g} the target is exceeded")
    if not exceeds(ratio(greedy), 1):
        raise InputError(f"no solution: the target is kept up to the least private value {greedy:g}")
    while abs(greedy - safe) > 1 if integer else abs(math.log(greedy / safe)) > _NUDGE / 4:
        middle = float(round((safe + greedy) / 2)) if integer else math.sqrt(safe) * math.sqrt(greedy)
        if exceeds(ratio(middle), 1):
            greedy = middle
        else:
            safe = middle
    return Solution(safe, greedy, ratio(greedy))
