"""What a calibration may aim at, and the search for a number of a spec that just meets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpcalc.errors import InputError
from dpcalc.guarantee import LAST_DIGITS, exceeds
from dpcalc.mechanisms.base import Mechanism
from dpcalc.solve import solve

Parts = Sequence[tuple[Mechanism, int]]

# The search for a real solution ends here: moved by four times as much the other way, it exceeds the target.
_WIDTH = 2.5e-4


@dataclass(frozen=True)
class Target:
    """A quantity to keep within a limit; `at` is the δ of an ε, or the false positive rate of a true positive rate."""

    quantity: Literal["epsilon", "advantage", "tpr", "mu", "rho"]
    limit: float
    at: float | None = None

    def measure(self, parts: Parts, tolerance: float) -> float:
        """A certified upper bound on the quantity; infinite where there is none."""
        from dpcalc.spec.composition import Question

        if self.quantity == "epsilon":
            return _or_infinite(Question(delta=self.at, tolerance=tolerance).ask(parts).epsilon)
        found = Question(epsilon=0.0, tolerance=tolerance).ask(parts)
        if self.quantity == "tpr":
            return self._true_positive_rate(parts, found.mu if found.mu_kind == "exact" else None, tolerance)
        return _or_infinite({"mu": found.mu, "rho": found.rho, "advantage": found.delta}[self.quantity])

    def _true_positive_rate(self, parts: Parts, exact_mu: float | None, tolerance: float) -> float:
        from dpcalc.conversions import gdp_tradeoff
        from dpcalc.conversions.attack import least_true_positive_rate
        from dpcalc.spec.composition import Question

        assert self.at is not None
        if exact_mu is not None:
            return float(gdp_tradeoff(exact_mu, self.at))
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
    found = solve(lambda value: ratio(value) / (1 + LAST_DIGITS), safe, greedy, width=_WIDTH, whole=integer)
    return Solution(found.within, found.beyond, ratio(found.beyond))
