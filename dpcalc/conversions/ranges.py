"""Checks on what a conversion is given: an argument out of range (or two exchanged) must not become a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcalc.errors import InputError
from dpcalc.numbers import Range

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpcalc.arrays import Floats


def expect(name: str, values: ArrayLike, allowed: Range, *, single: bool = False) -> None:
    """Every value a number, finite and within the range; with `single` there is one."""
    if isinstance(values, (int, float)) and not isinstance(values, bool):
        bad = [] if values in allowed else [float(values)]
    else:
        import numpy as np

        given = numbers(values)
        if given is None or (single and given.ndim):
            raise InputError(f"Expected {name} in {allowed}, got {str(values)[:40]!r}.")
        low, high = float(np.min(given, initial=np.inf)), float(np.max(given, initial=-np.inf))
        fine = not given.size or (low in allowed and high in allowed)  # NaN is the smallest of all, and in no range
        bad = [] if fine else [value for value in given.ravel().tolist() if value not in allowed]
    if bad:
        raise InputError(f"Expected {name}={bad[0]} in {allowed}.")


def numbers(values: ArrayLike) -> Floats | None:
    """An array of real numbers, or None for anything else: text that looks like one, too."""
    import numpy as np

    try:
        found = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return found.astype(np.float64) if found.dtype.kind in "iuf" or not found.size else None
