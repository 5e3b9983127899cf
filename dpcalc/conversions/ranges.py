"""Checks on what a conversion is given: an argument out of range (or two exchanged) must not become a number."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpcalc.errors import InputError
from dpcalc.numbers import Range


def expect(name: str, values: ArrayLike, allowed: Range) -> None:
    """Every value finite and within the range."""
    given = np.asarray(values, dtype=np.float64).ravel()
    low, high = float(np.min(given, initial=np.inf)), float(np.max(given, initial=-np.inf))
    if given.size and not (low in allowed and high in allowed):  # NaN is the smallest of all, and in no range
        bad = next(value for value in given.tolist() if value not in allowed)
        raise InputError(f"Expected {name}={bad} in {allowed}.")
