"""Checks on what a conversion is given: an argument out of range (or two exchanged) must not become a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcalc.errors import InputError
from dpcalc.numbers import Range

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def expect(name: str, values: ArrayLike, allowed: Range) -> None:
    """Every value finite and within the range."""
    if isinstance(values, (int, float)):
        bad = [] if values in allowed else [float(values)]
    else:
        import numpy as np

        given = np.asarray(values, dtype=np.float64).ravel()
        low, high = float(np.min(given, initial=np.inf)), float(np.max(given, initial=-np.inf))
        fine = not given.size or (low in allowed and high in allowed)  # NaN is the smallest of all, and in no range
        bad = [] if fine else [value for value in given.tolist() if value not in allowed]
    if bad:
        raise InputError(f"Expected {name}={bad[0]} in {allowed}.")
