"""Plain decimal numbers in CSV text, parsed by NumPy a column at a time: the fast way without pyarrow."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.numbers import parse_number

_COMMA, _NEWLINE, _DOT, _ZERO = 44, 10, 46, 48
# Up to fifteen digits a number is an exact integer divided by an exact power of ten, so it is rounded correctly.
_LONGEST = 16
_FEW = 0.02


def parse_decimals(text: bytes, width: int, *, whole: Collection[int | None] = ()) -> list[Floats] | None:
    """The columns of lines of `width` numbers, most of them such as 12 or 0.125; None for any other text.

    In the columns `whole` only 0, 1, 2, … as integers are written will do.
    """
    if not text.endswith(b"\n"):
        text += b"\n"
    letters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((letters == _COMMA) | (letters == _NEWLINE))
    if ends.size % width or ends.size // width != text.count(b"\n"):
        return None
    if np.any(letters[ends[width - 1 :: width]] != _NEWLINE):
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    columns = []
    for column in range(width):
        first, last = starts[column::width], ends[column::width]
        if column in whole and not _are_integers(letters, first, last):
            return None
        found = _column(letters, first, last)
        if found is None:
            return None
        columns.append(found)
    return columns


def _are_integers(letters: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Whether all are digits without a leading zero, few enough to be exact."""
    lengths = ends - starts
    if np.any((lengths < 1) | (lengths >= _LONGEST) | ((letters[starts] == _ZERO) & (lengths > 1))):
        return False
    for place in range(int(lengths.max(initial=0))):
        letter = letters[np.minimum(starts + place, ends)]
        if np.any((place < lengths) & ((letter < _ZERO) | (letter > _ZERO + 9))):
            return False
    return True


def _column(letters: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats | None:
    lengths = ends - starts
    odd = (lengths < 1) | (lengths > _LONGEST)
    mantissa = np.zeros(starts.size, dtype=np.int64)
    dots = np.full(starts.size, -1, dtype=np.int64)
    for place in range(int(np.where(odd, 0, lengths).max())):
        inside = place < lengths
        letter = letters[np.minimum(starts + place, ends)]
        dot = inside & (letter == _DOT)
        digit = letter.astype(np.int64) - _ZERO
        counted = inside & ~dot
        odd |= (counted & ((digit < 0) | (digit > 9))) | (dot & (dots >= 0))
        mantissa = np.where(counted, 10 * mantissa + digit, mantissa)
        dots[dot] = place
    digits = lengths - (dots >= 0)
    odd |= (digits < 1) | (digits >= _LONGEST)
    # Dots are no digits, and the letter behind a text of one is a comma or the end of a line.
    odd |= (letters[starts] == _ZERO) & (letters[np.minimum(starts + 1, ends)] - np.uint8(_ZERO) <= 9)
    decimals = np.where(odd | (dots < 0), 0, lengths - dots - 1)
    values: Floats = mantissa / np.power(10.0, np.arange(_LONGEST))[decimals]
    return _with_odd_ones(values, np.flatnonzero(odd), letters, starts, ends)


def _with_odd_ones(
    values: Floats,
    odd: NDArray[np.int64],
    letters: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> Floats | None:
    """The few numbers that are written otherwise (1e-05), one by one; None if there are many or one is no number."""
    if odd.size > _FEW * values.size + 1:
        return None
    try:
        for place in odd.tolist():
            values[place] = parse_number(letters[starts[place] : ends[place]].tobytes().decode())
    except ValueError:
        return None
    return values
