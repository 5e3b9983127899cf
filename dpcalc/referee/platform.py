"""What the accountants assume of the machine, tried on it: each assumption against ball arithmetic at many points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from flint import arb, ctx
from scipy.special import ndtr

from dpcalc import rounding
from dpcalc.arrays import Floats
from dpcalc.referee.laws import normal_above

_BITS = 400


def tested() -> Iterator[tuple[str, bool, str]]:
    """Each assumption by name, whether it holds here, and the largest error that was seen relative to the allowed."""
    ctx.prec = _BITS
    yield _rounding()
    allowed = rounding.FUNCTION
    points = np.concatenate([np.linspace(-700, 700, 1501), np.geomspace(1e-18, 30, 400), -np.geomspace(1e-18, 30, 400)])
    positive = np.geomspace(1e-300, 1e300, 2001)
    yield _function("exp", np.exp, arb.exp, points, allowed)
    yield _function("expm1", np.expm1, arb.expm1, points, allowed)
    yield _function("log", np.log, arb.log, positive[np.abs(positive - 1) > 1e-3], allowed)
    yield _function("log1p", np.log1p, arb.log1p, np.concatenate([positive, -np.geomspace(1e-18, 0.999, 500)]), allowed)
    yield _normal()
    yield _transform()


def _rounding() -> tuple[str, bool, str]:
    holds = 1.0 + 2.0**-53 == 1.0 and 1.0 + 3 * 2.0**-54 == 1.0 + 2.0**-52 and 2.0**-1074 > 0.0
    return "rounding to nearest, with subnormal numbers", holds, "1 + 2⁻⁵³ is 1, 2⁻¹⁰⁷⁴ is not 0"


def _function(
    name: str, ours: Callable[[Floats], Floats], exact: Callable[[arb], arb], points: Floats, allowed: float
) -> tuple[str, bool, str]:
    values = ours(points)
    worst = max(
        _relative_error(float(value), exact(arb(float(point)))) for point, value in zip(points, values, strict=True)
    )
    return f"numpy.{name} to {allowed:.1e} of itself", worst <= allowed, f"at most {worst / allowed:.2f} of it was seen"


def _relative_error(value: float, exact: arb) -> float:
    if value == 0.0 or not math.isfinite(value) or abs(value) < 2.0**-1022:
        return 0.0  # beyond the range of doubles: paid for as underflow
    return float(abs(arb(value) / exact - 1).upper())


def _normal() -> tuple[str, bool, str]:
    constant, slope = rounding.NORMAL_TAIL
    worst = 0.0
    for v in np.linspace(0, 37, 1481):
        allowed = (constant + slope * v * v) * 2 * rounding.UNIT
        worst = max(worst, _relative_error(float(ndtr(-v)), normal_above(arb(float(v)))) / allowed)
    return "scipy.special.ndtr in the tail", worst <= 1, f"at most {worst:.2f} of the allowance was seen"


def _transform() -> tuple[str, bool, str]:
    """A product of two polynomials by zero-padded transforms, against the exact one."""
    from flint import arb_poly
    from scipy.fft import irfft, next_fast_len, rfft

    draw = np.random.default_rng(5)
    worst = 0.0
    for count in (60, 500, 4000):
        first, second = draw.random(count), np.exp(-draw.random(count) * 30)
        length = next_fast_len(2 * count, real=True)
        ours = irfft(rfft(first, length) * rfft(second, length), length)[: 2 * count - 1]
        exact = (arb_poly(first.tolist()) * arb_poly(second.tolist())).coeffs()
        size = max(float(np.linalg.norm(first) * second.sum()), float(first.sum() * np.linalg.norm(second)))
        allowed = (3 * rounding.TRANSFORM * math.log2(length) + 3) * rounding.UNIT * size
        error = max(float(abs(arb(float(a)) - b).upper()) for a, b in zip(ours, exact, strict=True))
        worst = max(worst, error / allowed)
    return "scipy.fft, products by transforms", worst <= 1, f"at most {worst:.2f} of the allowance was seen"
