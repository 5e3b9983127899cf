"""The longest run, or the least noise, that keeps ε within a target; rounded to the safe side and checked again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dpcalc.errors import InputError
from dpcalc.hidden_state.analysis import Analysis, analyse
from dpcalc.hidden_state.request import Request

MOST_STEPS = 10**12
_LEAST, _MOST = 1e-12, 1e12  # of a noise level, in units of the smallest that could matter
_CLOSE = 1e-4  # relative width at which the search for a noise level stops


def longest_run(request: Request, *, target: float) -> Analysis:
    """The analysis of the largest number of steps whose ε is at most the target (whole epochs for cgd)."""
    unit = request.n // request.batch_size if request.algorithm == "cgd" and request.batch_size else 1

    def run(units: int) -> Analysis:
        return analyse(replace(request, steps=units * unit, epochs=None))

    shortest = run(1)
    if shortest.epsilon > target:
        raise InputError(
            f"even t = {unit} steps cost ε = {shortest.epsilon:.6g}, above the target {target:g}: add noise"
        )
    low, high, best = 1, 2, shortest
    while high * unit < MOST_STEPS:
        tried = run(high)
        if tried.epsilon > target:
            break
        low, high, best = high, high * 8, tried
    else:
        tried = run(MOST_STEPS // unit)
        if tried.epsilon <= target:
            return tried
        high = MOST_STEPS // unit
    while high - low > 1:
        middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
        tried = run(middle)
        if tried.epsilon <= target:
            low, best = middle, tried
        else:
            high = middle
    return best


def least_noise(request: Request, *, target: float, multiplier: bool) -> Analysis:
    """The analysis of the smallest σ (or z) whose ε is at most the target, to a relative 1e-4 on the safe side."""
    per_multiplier = request.sensitivity / (request.batch_size or request.n)

    def run(noise: float) -> Analysis:
        if multiplier:
            return analyse(replace(request, noise_multiplier=noise, sigma=None))
        return analyse(replace(request, sigma=noise, noise_multiplier=None))

    start = 1.0 if multiplier else per_multiplier
    high, low = _bracket(run, start, target)
    best = run(high)
    while high > low * (1 + _CLOSE):
        middle = math.sqrt(low * high)
        tried = run(middle)
        if tried.epsilon <= target:
            high, best = middle, tried
        else:
            low = middle
    return best


def _bracket(run: Callable[[float], Analysis], start: float, target: float) -> tuple[float, float]:
    """Noise that is enough, and noise that is not, a factor of two apart."""
    noise = start
    while run(noise).epsilon > target:
        noise *= 2
        if noise > start * _MOST:
            raise InputError(f"no noise keeps ε within {target:g}")
    while run(noise / 2).epsilon <= target:
        noise /= 2
        if noise < start * _LEAST:
            raise InputError(f"any noise keeps ε within {target:g}")
    return noise, noise / 2
