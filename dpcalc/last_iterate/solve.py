"""The longest run, or the least noise, that keeps ε within a target; rounded to the safe side and checked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpcalc.errors import InputError
from dpcalc.last_iterate.analysis import Analysis, analyse
from dpcalc.last_iterate.request import Request, Unknown
from dpcalc.solve import bracket, solve

MOST_STEPS = 10**12
_FURTHEST = 1e12  # how far from a noise multiplier of 1 the search goes
_CLOSE = 1e-4  # relative width at which the search for a noise level stops


def longest_run(request: Request, *, target: float) -> Analysis:
    """The analysis of the largest number of steps whose ε is at most the target (whole epochs for cgd)."""
    if request.schedule is not None:
        raise InputError("`target_epsilon` needs constant `lr` and `sigma`: a schedule has a length of its own")
    unit = request.records // request.batch_size if request.algorithm == "cgd" and request.batch_size else 1
    most = MOST_STEPS // unit

    def of(units: float) -> Request:
        return replace(request, steps=int(units) * unit, epochs=None)

    ratio = _ratio(of, target)
    if ratio(1) > 1:
        least = ratio(1) * target
        raise InputError(f"even t = {unit} steps cost ε = {least:.6g}, above the target {target:g}: add noise")
    if ratio(most) <= 1:
        return analyse(of(most))
    ends = bracket(ratio, 1, 8, least=1, most=most)
    assert ends is not None  # the last number of steps is beyond
    return analyse(of(solve(ratio, *ends, whole=True).within))


def least_noise(request: Request, *, target: float, unknown: Unknown) -> Analysis:
    """The analysis of the smallest noise, in the unit asked for, whose ε is at most the target.

    To a relative 1e-4 on the safe side.
    """
    if request.schedule is not None:
        raise InputError("`target_epsilon` needs constant `lr` and `sigma`: a schedule sets the noise")
    unit = request.gradient_sensitivity / (request.batch_size or request.records) if unknown == "sigma" else 1.0

    def of(noise: float) -> Request:
        changes: dict[str, Any] = {unknown: noise * unit}
        return replace(request, **changes)

    ratio = _ratio(of, target)
    ends = bracket(ratio, 1.0, 1 / 2, least=1 / _FURTHEST, most=_FURTHEST)
    if ends is None:
        raise InputError(f"{'any' if ratio(1.0) <= 1 else 'no'} noise keeps ε within {target:g}")
    return analyse(of(solve(ratio, *ends, width=_CLOSE).within))


def _ratio(of: Callable[[float], Request], target: float) -> Callable[[float], float]:
    """ε of the best bound over the target, worked out once for each value."""
    return lru_cache(lambda value: analyse(of(value), only_best=True).epsilon / target)
