"""Elementary functions without cancellation, and normal tails, for which SciPy is imported when they are asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import Thread
from typing import Any

import numpy as np

from dpcalc.arrays import Floats


@cache
def _special() -> Any:
    """scipy.special, imported on the stack of another thread.

    CPython lays frames into blocks of 16 kB, and gives a block back whenever the only frame in it ends: where imports
    of SciPy happen to stand at the end of one, 6,000 blocks are taken and cleared, a fifth of all that a call takes.
    """
    thread = Thread(target=import_module, args=("scipy.special",))
    thread.start()
    thread.join()
    return import_module("scipy.special")


def ndtr(x: Floats | float) -> Floats:
    """Φ(x), within `rounding.NORMAL_TAIL`."""
    return np.asarray(_special().ndtr(x))


def log_ndtr(x: Floats | float) -> Floats:
    """log Φ(x)."""
    return np.asarray(_special().log_ndtr(x))


def ndtri(p: Floats | float) -> Floats:
    """The x with Φ(x) = p."""
    return np.asarray(_special().ndtri(p))


def exp_remainder(z: Floats) -> Floats:
    """e^z - 1 - z, to a few units of rounding."""
    found = np.asarray(np.expm1(z) - z)
    small = np.abs(z) < 0.02
    if np.any(small):
        z = np.asarray(z)[small]
        found[small] = z * z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7 * (1 + z / 8))))))
    return found


def exp_minus_ratio(numerator: Floats, denominator: float, rest: float = 0.0) -> Floats:
    """e^{-n/(d + rest)} to a few units of rounding however large n/d is: the rounding of the quotient is put back.

    `rest` is what a denominator that is itself a rounded product lacks: see `two_product`.
    """
    quotient = numerator / denominator
    product, error = two_product(quotient, np.asarray(denominator))
    missing = ((numerator - product) - error - quotient * rest) / denominator
    return np.asarray(np.exp(-quotient) * (1 - missing))


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a·b rounded, and what the rounding left out, exactly (Dekker 1971), for factors below 1e150."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * a
    high = scaled - (scaled - a)
    return high, a - high
