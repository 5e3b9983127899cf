"""What the certificate assumes of the platform, tried on this machine: rounding, elementary functions, Φ, the FFT."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from dpcalc.rounding import FUNCTION, NORMAL_TAIL, SMALLEST_NORMAL, TRANSFORM, UNIT

_SMALL_TAILS = {  # Φ(-v) to 20 digits, by continued fractions in 50-digit arithmetic
    0.5: 0.30853753872598689637,
    1.0: 0.15865525393145705142,
    3.0: 0.0013498980316300945267,
    6.0: 9.8658764503769814070e-10,
    13.0: 6.1171643995497273210e-39,
}


def self_test() -> dict[str, bool]:
    """Each assumption by name, and whether it held."""
    return {
        "rounding to nearest": _rounds_to_nearest(),
        "gradual underflow": SMALLEST_NORMAL / 2 > 0,
        "exp, expm1, log and log1p": _functions(),
        "normal distribution": _normal(),
        "fast Fourier transform": _transform(),
    }


def _rounds_to_nearest() -> bool:
    rng = np.random.default_rng(1)
    a, b = rng.random(200), rng.random(200)
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y)
        if abs(Fraction(x * y) - exact) > Fraction(UNIT) * exact:
            return False
    return bool(np.array_equal(a * b, np.array([x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)])))


def _functions() -> bool:
    """Against e^x = (e^{x/2})² and the series near 0, in rationals."""
    for x in np.linspace(-1.0, 1.0, 41).tolist():
        exact = sum((Fraction(x) ** k / math.factorial(k) for k in range(30)), Fraction(0))
        for value, truth in ((np.exp(x), exact), (np.expm1(x), exact - 1)):
            if abs(Fraction(float(value)) - truth) > Fraction(FUNCTION) * abs(truth):
                return False
    return bool(np.all(np.abs(np.log1p(np.expm1(_GRID)) - _GRID) <= 4 * FUNCTION * np.abs(_GRID)))


_GRID = np.geomspace(1e-12, 30.0, 60)


def _normal() -> bool:
    flat, steep = NORMAL_TAIL
    return all(
        abs(float(ndtr(-v)) - tail) <= (flat + steep * v * v) * 2 * UNIT * tail for v, tail in _SMALL_TAILS.items()
    )


def _transform() -> bool:
    """Products of whole numbers, which are exact by sums, within the bound that is charged for them."""
    rng = np.random.default_rng(2)
    for size in (64, 512, 4096):
        x, y = (rng.integers(0, 1000, size).astype(np.float64) for _ in range(2))
        exact = np.convolve(x, y)
        found = np.fft.irfft(np.fft.rfft(x, 2 * size) * np.fft.rfft(y, 2 * size), 2 * size)[: 2 * size - 1]
        bound = (3 * TRANSFORM * math.log2(2 * size) + 3) * UNIT * math.sqrt(float(x @ x)) * float(y.sum())
        if not np.abs(found - exact).max() <= bound:
            return False
    return True
