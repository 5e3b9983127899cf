"""Which way numbers are rounded, and the few constants that say by how much: each stands beside the error it pays for.

Doubles round to nearest, so that one operation errs by at most `UNIT` of its result (IEEE 754); what is above the
truth stays so if it is raised by the errors that went into it, and that is all that "directed" means here. What the
constants assume of the platform is checked by `dpcalc.accounting.certified.self_test`.
"""

from __future__ import annotations

import math

UNIT = 2.0**-53
"""The relative error of one rounded operation."""

SMALLEST_NORMAL = 2.0**-1022
"""Results below this are not relative to anything any more: each may be off by as much."""

FAINT = 1e-300
"""A mass that a pair gives as 0 may be a positive one below this: exponentials lose digits from 2⁻¹⁰²² on."""

LEAST_DIVISOR = 1e-300
"""In the place of 0, and of what is smaller, under a fraction or a logarithm: its reciprocal is still a double."""

OVERFULL = 1e-9
"""Masses that add up to more than 1 by more than this, and than their errors, are not those of a pair."""

LARGEST_EXPONENT = 690.0
"""e^x and its products stay within the range of doubles up to here."""

OUTWARD = 1 + 64 * UNIT
"""Times a loss: further from 0 than the roundings of the masses and functions that it is made of can tell."""

FUNCTION = 4 * UNIT
"""Relative error of exp, expm1, log and log1p (glibc and numpy document at most 4 units in the last place)."""

TRANSFORM = 7.0
"""‖error of an FFT of N points‖₂ ≤ TRANSFORM · log₂N · UNIT · ‖input‖₂ (Higham 2002, Theorem 24.2)."""

NORMAL_TAIL = (8.0, 2.0)
"""ndtr(-v) errs by at most (8 + 2v²)·2·UNIT of itself (cephes documents 3.4e-14 up to v = 13; half of this seen)."""


def accumulated(operations: float) -> float:
    """The relative error of so many roundings in a row, or of a sum of so many non-negative terms (Higham, §3.1)."""
    return operations * UNIT / max(1 - operations * UNIT, 0.5)


def up(value: float, operations: float = 4) -> float:
    """A non-negative value, raised by the error of so many operations."""
    return value * (1 + 2 * operations * UNIT)


def down(value: float, operations: float = 4) -> float:
    """A non-negative value, lowered by the error of so many operations."""
    return value * max(1 - 2 * operations * UNIT, 0.0)


def times_up(value: float, count: int) -> float:
    """The smallest double that is at least count × value."""
    nearest = value * count
    if not math.isfinite(nearest):
        return nearest
    (top, bottom), (over, under) = value.as_integer_ratio(), nearest.as_integer_ratio()
    return nearest if over * bottom >= count * top * under else math.nextafter(nearest, math.inf)


def over_up(value: float, divisor: float) -> float:
    """The smallest double that is at least value / divisor, both of them positive."""
    nearest = value / divisor
    return math.nextafter(nearest, math.inf) if _excess(nearest, value, divisor) < 0 else nearest


def over_down(value: float, divisor: float) -> float:
    """The largest double that is at most value / divisor, both of them positive."""
    nearest = value / divisor
    return math.nextafter(nearest, 0.0) if _excess(nearest, value, divisor) > 0 else nearest


def _excess(quotient: float, value: float, divisor: float) -> int:
    """A number with the sign of quotient - value / divisor; 0 where that is beyond the doubles."""
    if not math.isfinite(quotient):
        return 0
    ratios = (float(each).as_integer_ratio() for each in (value, divisor, quotient))
    (top, bottom), (over, under), (found, part) = ratios
    return found * over * bottom - top * part * under
