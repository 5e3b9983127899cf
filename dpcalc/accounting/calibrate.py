"""The value of one parameter that just keeps ε within a target, on the safe side of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcalc.errors import InputError

# A value is as good as the best one if moving it by this much the other way exceeds the target.
PRECISION = 1e-3
_DIGITS = 6
_MOST_EVALUATIONS = 200


@dataclass(frozen=True)
class Search:
    """Where to look: between `low` and `high` (open at zero and at infinity), from `guess`.

    `safe` says which way privacy improves: +1 if larger values lose less (noise), -1 if smaller ones do (a rate).
    """

    low: float
    high: float
    guess: float
    safe: int
    whole: bool = False


@dataclass(frozen=True)
class Solution:
    """The value and its ε; `at_bound` if the target is kept even at the end of the allowed range."""

    value: float
    epsilon: float
    at_bound: bool = False


def calibrate(epsilon_of: Callable[[float], float], *, target: float, search: Search) -> Solution:
    """The least safe value with epsilon_of(value) ≤ target, checked on both sides; raises if there is none.

    `epsilon_of` is an upper bound on ε, monotone up to its tolerance. The answer is certified by evaluation: its own
    ε is at most the target, and 0.1 % (or 1, for whole numbers) the other way it is not.
    """
    solver = _Solver(epsilon_of, target, search)
    within, beyond = solver.bracket()
    if beyond is None:
        return Solution(within, solver.epsilon(within), at_bound=True)
    value = solver.closest_whole(within, beyond) if search.whole else solver.closest_real(within, beyond)
    return Solution(value, solver.epsilon(value))


class _Solver:
    """Evaluations are dear (each is a certified composition), so every one is kept and used."""

    def __init__(self, epsilon_of: Callable[[float], float], target: float, search: Search) -> None:
        self._epsilon_of = epsilon_of
        self._target = target
        self._search = search
        self._known: dict[float, float] = {}

    def epsilon(self, value: float) -> float:
        if value not in self._known:
            if len(self._known) == _MOST_EVALUATIONS:
                raise InputError(f"no solution was found after {_MOST_EVALUATIONS} compositions")
            self._known[value] = self._epsilon_of(value)
        return self._known[value]

    def keeps(self, value: float) -> bool:
        return self.epsilon(value) <= self._target

    def bracket(self) -> tuple[float, float | None]:
        """A value that keeps the target and one that does not; None for the latter if all less safe ones keep it."""
        search = self._search
        value = min(max(search.guess, search.low), search.high)
        kept = self.keeps(value)
        # Walk towards danger while the target is kept, towards safety while it is not.
        away = -search.safe if kept else search.safe
        factor = 2.0
        while True:
            following = self._moved(value, factor**away)
            if following == value:
                if kept:
                    return value, None
                raise InputError(
                    f"no solution: even at {value:g} ε is {self.epsilon(value):.6g}, over {self._target:g}"
                )
            if self.keeps(following) != kept:
                return (value, following) if kept else (following, value)
            value, factor = following, min(factor * factor, 1e4)

    def _moved(self, value: float, factor: float) -> float:
        search = self._search
        moved = value * factor
        if search.whole:
            moved = float(math.floor(moved) if factor < 1 else math.ceil(moved))
        return min(max(moved, search.low), search.high)

    def closest_whole(self, within: float, beyond: float) -> float:
        """The last whole number that keeps the target: its neighbour does not."""
        while abs(within - beyond) > 1:
            middle = self._between(within, beyond)
            low, high = sorted((within, beyond))
            candidate = min(max(float(round(middle)), low + 1), high - 1)
            within, beyond = (candidate, beyond) if self.keeps(candidate) else (within, candidate)
        return within

    def closest_real(self, within: float, beyond: float) -> float:
        """A value of few digits that keeps the target while 0.1 % less safe does not."""
        safe = self._search.safe
        width, halve = math.inf, False
        while True:
            middle = math.sqrt(within * beyond) if halve else self._between(within, beyond)
            value = self._rounded(middle * (1 + safe * PRECISION / 4))
            if not min(within, beyond) < value < max(within, beyond):
                value = within
            if self.keeps(value):
                within, lesser = value, value * (1 - safe * PRECISION)
                if not self._allowed(lesser) or not self.keeps(lesser):
                    return value
                within = lesser
                while (beyond - within) * safe >= 0:  # the bound is not monotone here: look further
                    beyond = within * (1 - safe * PRECISION)
                    if not self._allowed(beyond):
                        return within
                    within, beyond = (beyond, beyond) if self.keeps(beyond) else (within, beyond)
            else:
                beyond = value
            narrower = abs(math.log(within / beyond))
            width, halve = narrower, narrower > width / 2

    def _allowed(self, value: float) -> bool:
        return self._search.low <= value <= self._search.high and value > 0

    def _between(self, one: float, other: float) -> float:
        """Where log ε, as a line in log value, meets the target; the geometric middle where that is no help."""
        (a, ea), (b, eb) = ((x, self.epsilon(x)) for x in (one, other))
        low, high = sorted((a, b))
        if 0 < ea < math.inf and 0 < eb < math.inf and ea != eb and self._target > 0:
            slope = math.log(b / a) / math.log(eb / ea)
            guess = a * math.exp(slope * math.log(self._target / ea))
            if low < guess < high:
                return guess
        return math.sqrt(low * high)

    def _rounded(self, value: float) -> float:
        """The next value of few digits on the safe side."""
        unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
        towards = math.ceil if self._search.safe > 0 else math.floor
        return float(f"{towards(value / unit) * unit:.{_DIGITS}g}")
