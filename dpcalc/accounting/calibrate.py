"""The parameter at which a composition just meets a target (ε, δ), on the safe side and re-checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpcalc.accounting.compose import compose, estimated_epsilon, upper_epsilon
from dpcalc.effort import WHOLE, within
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Guarantee
from dpcalc.mechanisms.base import Mechanism
from dpcalc.rounding import LEAST_DIVISOR
from dpcalc.solve import solve

Parts = Sequence[tuple[Mechanism, int]]

# Moving a real solution by this much the other way must exceed the target.
_NUDGE = 1e-3
# An estimate is worth no finer bracket, relatively.
_ROUGHLY = 1e-3
# How far below the target, relatively, a certified ε is near enough.
_JUST_BELOW = 4e-4
# Slopes of log ε over the logarithm of a value that are believed.
_FLATTEST, _STEEPEST = 0.05, 50.0
# Of a solution that is as short as what is told of it: typed back, that is within the target too.
_DIGITS = 4
# Every search ends: a bound that is not monotone could lead it round in circles.
_MOST_ROUNDS = 8
# Of the work that a call may take, for the search; and what one value may take, the same for all and for the last.
_SEARCHING, _PER_VALUE = 0.8, WHOLE / 8


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
    with within(_SEARCHING):
        search.expect_solution(safe, greedy)
        value = search.short(search.value(safe, greedy))
        beyond = search.beyond(value)
        too_much = search.upper(beyond)
    with within(most=_PER_VALUE):
        guarantee = compose(build(value), delta=delta, tolerance=tolerance)
    if guarantee.epsilon is None or guarantee.epsilon > epsilon:
        raise CertificationError(f"the solution {value:g} could not be certified on checking it again.")
    return Calibration(value=value, guarantee=guarantee, too_much=beyond, too_much_epsilon=too_much)


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
            with within(most=_PER_VALUE):
                self._known[value] = upper_epsilon(self.build(value), self.delta, self.tolerance)
        return self._known[value]

    def fits(self, value: float) -> bool:
        """Whether the composition at a value is certified within the target."""
        return self.upper(value) <= self.epsilon

    def estimate(self, value: float) -> float:
        """ε over its target at a value, fast and not certified."""
        return estimated_epsilon(self.build(value), self.delta) / self.epsilon

    def beyond(self, value: float) -> float:
        """The value a nudge less private."""
        if self.integer:
            return value + 1 if self.increasing else value - 1
        return value * (1 + _NUDGE) if self.increasing else value / (1 + _NUDGE)

    def expect_solution(self, safe: float, greedy: float) -> None:
        """Raise unless the target lies between the two ends of the range."""
        if self.estimate(safe) > 0.9 and not self.fits(safe):
            least = f"epsilon is {self.upper(safe):.6g}, above {self.epsilon:g}"
            raise InputError(f"no solution: even at the most private value {safe:g} {least}.")
        if self.estimate(greedy) < 1.1 and self.fits(greedy):
            raise self._never_exceeded(greedy)

    def _never_exceeded(self, greedy: float) -> InputError:
        return InputError(
            f"no solution: epsilon stays below {self.epsilon:g} up to the least private value {greedy:g}."
        )

    def value(self, safe: float, greedy: float) -> float:
        """A certified value that a nudge would take over the target."""
        good = safe
        for _ in range(_MOST_ROUNDS):
            found = solve(
                lambda value: self.upper(value) / self.epsilon,
                good,
                greedy,
                width=_NUDGE * (1 + 1e-9),
                whole=self.integer,
                guesses=self._guesses(safe, greedy) if good == safe else (),
            )
            good = found.within
            if found.beyond == greedy and self.fits(greedy):
                raise self._never_exceeded(greedy)
            if not self.fits(self.beyond(good)):
                return good
        raise CertificationError(f"near {good:g} the certified ε does not pass {self.epsilon:g} where it should.")

    def short(self, value: float) -> float:
        """The number of a few digits next to a solution, a little less private, if it is a solution too."""
        if self.integer:
            return value
        exact = Decimal(value)
        unit = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
        near = float(exact.quantize(unit, ROUND_CEILING if self.increasing else ROUND_FLOOR))
        return near if near > 0 and self.fits(near) and not self.fits(self.beyond(near)) else value

    def _guesses(self, safe: float, greedy: float) -> Iterator[float]:
        """Values about where the bound meets the target: the estimate's root, moved by secants of certified bounds.

        Then just before that, where the bound should fit, and a nudge on.
        """
        root = solve(self.estimate, safe, greedy, width=_ROUGHLY, whole=self.integer)
        value, sign = root.within, 1.0 if self.increasing else -1.0
        slope, before = self._slope(root.within, root.beyond), (math.nan, math.nan)
        for _ in range(_MOST_ROUNDS):
            yield value
            at = math.log(min(max(self.upper(value) / self.epsilon, LEAST_DIVISOR), 1e300))
            if -_JUST_BELOW <= at <= 0:
                break
            secant = sign * (at - before[1]) / math.log(value / before[0]) if value != before[0] else math.nan
            slope = secant if _FLATTEST < secant < _STEEPEST else slope
            before = value, at
            value *= math.exp(min(max(-sign * (at + _JUST_BELOW / 2) / slope, -1.0), 1.0))
            if self.integer and abs(value - before[0]) < 1:
                break
        yield self.beyond(value)
        for shift in (1.5e-4, 5e-4, 2e-3):
            further = value * (1 - sign * shift)
            yield further
            yield self.beyond(further)

    def _slope(self, within: float, beyond: float) -> float:
        """How fast the logarithm of the estimate grows towards the less private end, with that of the value."""
        found = math.log(self.estimate(beyond) / self.estimate(within)) / abs(math.log(beyond / within))
        return found if _FLATTEST < found < _STEEPEST else 1.0
