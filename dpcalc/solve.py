"""One search for every calibration: the last value within a limit, on the way from a safe value to one beyond it.

It ends always. What it answers was itself seen to be within the limit, so that a measure which is not monotone costs
tightness and never soundness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

# What is measured over what is allowed at a value: at most 1 within the limit; infinite is beyond it.
Ratio = Callable[[float], float]

_FAR = 8.0  # logarithms of ratios further apart are no line


class Ends(NamedTuple):
    """A value within a limit, and one beyond it."""

    within: float
    beyond: float


def solve(
    ratio: Ratio,
    within: float,
    beyond: float,
    *,
    width: float = 0.0,
    whole: bool = False,
    guesses: Iterable[float] = (),
) -> Ends:
    """Ends between these two, no further apart than a relative `width`, or next to each other among whole numbers.

    `guesses` are tried first, in turn, as far as they lie between the ends that are left by then. After that a power
    law through both ends says where to look, a third of `width` towards the end that is further away, so that both
    ends close in; two looks that do not halve the distance are followed by one in the middle. The two ends are taken
    on trust; the one within is measured by whoever needs it.
    """
    place, value_at = (math.log1p, math.expm1) if whole else (math.log, math.exp)
    low, high = place(within), place(beyond)
    at_low = at_high = math.nan
    left, idle = iter(guesses), 0
    half = abs(high - low) / 2
    while abs(beyond - within) > 1 if whole else abs(high - low) > width:
        guess = next((each for each in left if min(within, beyond) < each < max(within, beyond)), None)
        if guess is None:
            close = 3 / (1 + max(within, beyond)) if whole else width
            share = _share(at_low, at_high, close / 3 / abs(high - low)) if idle < 2 else 0.5
            guess = value_at(low + share * (high - low))
        if whole:
            guess = float(min(max(round(guess), min(within, beyond) + 1), max(within, beyond) - 1))
        at = math.log(min(max(ratio(guess), 1e-300), 1e300))
        if at <= 0:
            within, low, at_low = guess, place(guess), at
        else:
            beyond, high, at_high = guess, place(guess), at
        idle = idle + 1 if abs(high - low) > half else 0
        half = half if idle else abs(high - low) / 2
    return Ends(within, beyond)


def _share(at_low: float, at_high: float, edge: float) -> float:
    """Which part of the way to go: to where a line through both logarithms is 0, and a little further."""
    if not at_low <= 0 < at_high or at_high - at_low > _FAR:
        return 0.5
    edge = min(edge, 0.4)
    share = at_low / (at_low - at_high)
    return min(max(share + edge if share < 0.5 else share - edge, edge, 1e-3), 1 - edge, 1 - 1e-3)


def bracket(ratio: Ratio, start: float, factor: float, *, least: float, most: float) -> Ends | None:
    """Ends a `factor` apart (the last one less), sought from a start; None if there are none from least to most.

    A factor above 1 leads beyond the limit where the ratio grows with the value, one below 1 where it falls.
    """
    forward, value = ratio(start) <= 1, start
    while True:
        following = min(max(value * factor if forward else value / factor, least), most)
        if following == value:
            return None
        if (ratio(following) > 1) == forward:
            return Ends(value, following) if forward else Ends(following, value)
        value = following
