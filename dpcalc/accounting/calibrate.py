"""The parameter at which a composition just meets a target (ε, δ), on the safe side and re-checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dpcalc.accounting.compose import compose, estimated_epsilon, upper_epsilon
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Guarantee
from dpcalc.mechanisms.base import Mechanism

Parts = Sequence[tuple[Mechanism, int]]

# Moving a real solution by this much the other way must exceed the target.
_NUDGE = 1e-3
# An estimate is worth no finer bracket, in logarithms.
_ROUGHLY = 1e-3
# How far below the target, relatively, a certified ε is near enough.
_JUST_BELOW = 4e-4
# Every search ends: a bound that is not monotone could lead it round in circles.
_MOST_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The value found, its guarantee, and the next value that is too much, with its ε."""

    value: float
    guarantee: Guarantee
    too_much: float
    too_much_epsilon: float


def calibrate(
    build: Callable[[float], Parts],
    *,
    epsilon: float,
    delta: float,
    increasing: bool,
    low: float,
    high: float,
    integer: bool = False,
    tolerance: float = 1e-3,
) -> Calibration:
    """The least private `value` in [low, high] whose composition `build(value)` is certified (ε, δ)-DP.

    `increasing` says whether ε grows with the value (a count, a rate) or falls (a noise multiplier, a scale). Composing
    the answer gives at most ε; 0.1 % (or 1, for integers) the other way gives more. No such value raises InputError.
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"Expected epsilon={epsilon} in (0, inf).")
    if not 0 < delta < 1:
        raise InputError(f"Expected delta={delta} in (0, 1).")
    search = _Search(build, epsilon, delta, increasing, integer, tolerance)
    safe, greedy = (low, high) if increasing else (high, low)
    search.expect_solution(safe, greedy)
    value = search.whole(safe, greedy) if integer else search.real(safe, greedy)
    guarantee = compose(build(value), delta=delta, tolerance=tolerance)
    if guarantee.epsilon is None or guarantee.epsilon > epsilon:
        raise CertificationError(f"the solution {value:g} could not be certified on checking it again.")
    beyond = search.beyond(value)
    return Calibration(
        value=value,
        guarantee=guarantee,
        too_much=beyond,
        too_much_epsilon=search.upper(beyond),
    )


@dataclass(frozen=True)
class _Search:
    build: Callable[[float], Parts]
    epsilon: float
    delta: float
    increasing: bool
    integer: bool
    tolerance: float
    _known: dict[float, float] = field(default_factory=dict)

    def upper(self, value: float) -> float:
        """The certified ε at a value."""
        if value not in self._known:
            self._known[value] = upper_epsilon(self.build(value), self.delta, self.tolerance)
        return self._known[value]

    def fits(self, value: float) -> bool:
        """Whether the composition at a value is certified within the target."""
        return self.upper(value) <= self.epsilon

    def estimate(self, value: float) -> float:
        """log(ε / target) at a value, fast and not certified; infinite ones count as very large."""
        return self._log_ratio(estimated_epsilon(self.build(value), self.delta))

    def _log_ratio(self, epsilon: float) -> float:
        return math.log(min(max(epsilon, 1e-300), 1e308)) - math.log(self.epsilon)

    def beyond(self, value: float) -> float:
        """The value a nudge less private."""
        if self.integer:
            return value + 1 if self.increasing else value - 1
        return value * (1 + _NUDGE) if self.increasing else value / (1 + _NUDGE)

    def expect_solution(self, safe: float, greedy: float) -> None:
        """Raise unless the target lies between the two ends of the range."""
        if self.estimate(safe) > -0.1 and not self.fits(safe):
            least = f"epsilon is {self.upper(safe):.6g}, above {self.epsilon:g}"
            raise InputError(f"no solution: even at the most private value {safe:g} {least}.")
        if self.estimate(greedy) < 0.1 and self.fits(greedy):
            raise self._never_exceeded(greedy)

    def _never_exceeded(self, greedy: float) -> InputError:
        return InputError(
            f"no solution: epsilon stays below {self.epsilon:g} up to the least private value {greedy:g}."
        )

    def root(self, safe: float, greedy: float) -> tuple[float, float]:
        """A bracket (safe, greedy) around where the estimate meets the target, to 1e-3 relative or one integer."""
        low, high = math.log(safe), math.log(greedy)
        at_low, at_high = self.estimate(safe), self.estimate(greedy)
        for _ in range(80):
            if abs(high - low) <= _ROUGHLY or (self.integer and abs(math.exp(high) - math.exp(low)) < 1):
                break
            middle = low + (high - low) * self._regula_falsi(at_low, at_high)
            value = math.exp(middle)
            at = self.estimate(round(value) if self.integer else value)
            if at <= 0:
                low, at_low, at_high = middle, at, at_high / 2
            else:
                high, at_high, at_low = middle, at, at_low / 2
        return math.exp(low), math.exp(high)

    @staticmethod
    def _regula_falsi(at_low: float, at_high: float) -> float:
        """Where the chord crosses zero (Illinois), kept off the ends; the middle while the ends are far apart."""
        if at_high - at_low > 8:
            return 0.5
        return min(max(-at_low / max(at_high - at_low, 1e-300), 1e-3), 1 - 1e-3)

    def real(self, safe: float, greedy: float) -> float:
        """A certified value that a nudge would take over the target."""
        value = self._near_the_root(safe, greedy)
        for _ in range(_MOST_ROUNDS):
            if not self.fits(self.beyond(value)):
                return value
            # The estimate led to a value that is more private than it need be.
            value = self._bisect(value, self._too_much(value, greedy))
        raise CertificationError(f"near {value:g} the certified ε does not pass {self.epsilon:g} where it should.")

    def _near_the_root(self, safe: float, greedy: float) -> float:
        """A certified value, less than a nudge away from the root where the bound is as tight as that."""
        value = self.polished(safe, greedy)
        for shift in (0.0, 1.5e-4, 3e-4, 5e-4, 8e-4):
            further = value * (1 - shift if self.increasing else 1 + shift)
            if self.fits(further):
                return further
        return self._bisect(safe, value)

    def polished(self, safe: float, greedy: float) -> float:
        """Where the certified ε is just below the target: the estimate's root, moved by secants of certified bounds."""
        value, other = self.root(safe, greedy)
        slope = (self.estimate(other) - self.estimate(value)) / max(abs(math.log(other / value)), 1e-12)
        slope = abs(slope) if 0.05 < abs(slope) < 50 else 1.0
        sign = 1.0 if self.increasing else -1.0
        low, high = sorted((safe, greedy))
        before: tuple[float, float] | None = None
        for _ in range(_MOST_ROUNDS):
            value = float(round(value)) if self.integer else value
            at = self._log_ratio(self.upper(value))
            if -_JUST_BELOW <= at <= 0 or not math.isfinite(at):
                break
            if before is not None and before[0] != value:
                secant = sign * (at - before[1]) / math.log(value / before[0])
                slope = secant if 0.05 < secant < 50 else slope
            before = value, at
            moved = min(max(-sign * (at + _JUST_BELOW / 2) / slope, -1.0), 1.0)
            value = min(max(value * math.exp(moved), low), high)
            if self.integer and round(value) == before[0]:
                break
        return value

    def _too_much(self, value: float, greedy: float) -> float:
        """A less private value that does not fit, sought in growing strides."""
        stride = _NUDGE
        while abs(math.log(greedy / value)) > stride:
            further = value * math.exp(stride if self.increasing else -stride)
            if not self.fits(further):
                return further
            stride *= 2
        if self.fits(greedy):
            raise self._never_exceeded(greedy)
        return greedy

    def _bisect(self, good: float, bad: float) -> float:
        """The last certified value between one that fits and one that does not, to a quarter of a nudge."""
        while abs(math.log(good / bad)) > _NUDGE / 4:
            middle = math.sqrt(good) * math.sqrt(bad)
            good, bad = (middle, bad) if self.fits(middle) else (good, middle)
        return good

    def whole(self, safe: float, greedy: float) -> float:
        """The last integer before the certified bound passes the target."""
        found = self.polished(safe, greedy)
        step = 1 if greedy > safe else -1
        good, bad = float(safe), float(greedy)
        guess, width = float(round(found)), max(1, round(found * 3e-4))
        while abs(bad - good) > 1:
            guess = min(max(guess, min(good, bad) + 1), max(good, bad) - 1)
            if self.fits(guess):
                good, guess = guess, guess + step * width
            else:
                bad, guess = guess, guess - step * width
            if abs(bad - good) <= 4 * width:
                guess = float((int(good) + int(bad)) // 2)
            width *= 2
        return good
