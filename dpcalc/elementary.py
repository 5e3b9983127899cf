"""Elementary functions without cancellation."""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Floats


def exp_remainder(z: Floats) -> Floats:
    """e^z - 1 - z, to a few units of rounding."""
    series = z * z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7 * (1 + z / 8))))))
    return np.where(np.abs(z) < 0.02, series, np.expm1(z) - z)
