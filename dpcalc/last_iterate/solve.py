"""The longest run, or the least noise, that keeps ε within a target; rounded to the safe side and checked again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpcalc.errors import InputError
from dpcalc.last_iterate.analysis import Analysis, analyse
from dpcalc.last_iterate.request import Request, Unknown

MOST_STEPS = 10**12
_FURTHEST = 1e12  # how far from a noise multiplier of 1 the search goes
_CLOSE = 1e-4  # relative width at which the search for a noise level stops

# A run whose ε grows with the argument.
_Run = Callable[[float], Analysis]


def longest_run(request: Request, *, target: float) -> Analysis:
    """The analysis of the largest number of steps whose ε is at most the target (whole epochs for cgd)."""
    if request.schedule is not None:
        raise InputError("--target-epsilon needs constant --lr and --sigma: a schedule has a length of its own")
    unit = request.n // request.batch_size if request.algorithm == "cgd" and request.batch_size else 1
    most = MOST_STEPS // unit

    def run(units: float) -> Analysis:
        return analyse(replace(request, steps=int(units) * unit, epochs=None), only_best=True)

    good = run(1)
    if good.epsilon > target:
        raise InputError(f"even t = {unit} steps cost ε = {good.epsilon:.6g}, above the target {target:g}: add noise")
    if (endless := run(most)).epsilon <= target:
        return analyse(endless.request)
    within, beyond = 1, min(8, most)
    while (tried := run(beyond)).epsilon <= target:
        within, good, beyond = beyond, tried, min(beyond * 8, most)
    return analyse(_close_in(run, (within, good), (beyond, tried), target=target, whole=True).request)


def least_noise(request: Request, *, target: float, unknown: Unknown) -> Analysis:
    """The analysis of the smallest noise, in the unit asked for, whose ε is at most the target.

    To a relative 1e-4 on the safe side.
    """
    if request.schedule is not None:
        raise InputError("--target-epsilon needs constant --lr and --sigma: a schedule sets the noise")
    unit = request.replace_one_sensitivity / (request.batch_size or request.n) if unknown == "sigma" else 1.0

    def run(inverse: float) -> Analysis:
        changes: dict[str, Any] = {unknown: unit / inverse}
        return analyse(replace(request, **changes), only_best=True)

    within = beyond = 1.0
    good = bad = run(1.0)
    while good.epsilon > target:
        if within < 1 / _FURTHEST:
            raise InputError(f"no noise keeps ε within {target:g}")
        beyond, bad, within = within, good, within / 2
        good = run(within)
    while bad.epsilon <= target:
        if beyond > _FURTHEST:
            raise InputError(f"any noise keeps ε within {target:g}")
        within, good, beyond = beyond, bad, beyond * 2
        bad = run(beyond)
    return analyse(_close_in(run, (within, good), (beyond, bad), target=target, whole=False).request)


def _close_in(
    run: _Run, good: tuple[float, Analysis], bad: tuple[float, Analysis], *, target: float, whole: bool
) -> Analysis:
    """The last good argument before ε exceeds the target, by interpolating log ε in log x from both sides."""

    def apart() -> bool:
        return bad[0] - good[0] > 1 if whole else bad[0] > good[0] * (1 + _CLOSE)

    def probe(x: float) -> None:
        nonlocal good, bad
        argument = float(round(x)) if whole else x
        if good[0] < argument < bad[0]:
            tried = run(argument)
            if tried.epsilon <= target:
                good = (argument, tried)
            else:
                bad = (argument, tried)

    while apart():
        before = bad[0] / good[0]
        guess = _interpolate(good, bad, target)
        # One step to either side of the guess: when it is right, both ends close in on it at once.
        margin = max(0.5 / guess, _CLOSE / 8) if whole else _CLOSE / 3
        probe(guess * (1 - margin))
        probe(guess * (1 + margin))
        if apart() and bad[0] / good[0] > math.sqrt(before):  # interpolation did worse than halving
            probe((good[0] + bad[0]) / 2)
    return good[1]


def _interpolate(good: tuple[float, Analysis], bad: tuple[float, Analysis], target: float) -> float:
    low, high = good[1].epsilon, bad[1].epsilon
    if not (0 < low < target < high < math.inf):
        return math.sqrt(good[0] * bad[0])
    share = math.log(target / low) / math.log(high / low)
    return float(good[0] * (bad[0] / good[0]) ** share)
