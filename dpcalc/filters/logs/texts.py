"""Columns of text in Arrow tables, letter by letter: what their own parsers take and dpcalc does not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.numbers import BLANKS

ZERO, _DOT = 48, 46
# What may follow a 0 that a number begins with: Arrow also takes 007, and as whole numbers 0x7.
_AFTER_ZERO = np.frombuffer(b".eE \t", dtype=np.uint8)


class Letters(NamedTuple):
    """The letters of all texts of a column one after another, and where each text starts and how long it is."""

    letters: NDArray[np.uint8]
    starts: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, column: Any) -> Letters:
        """Those of an Arrow array of strings."""
        _, places, data = column.buffers()
        ends = np.frombuffer(places, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
        letters = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]]
        return cls(letters, ends[:-1] - ends[0], np.diff(ends))

    def at(self, place: int) -> NDArray[np.uint8]:
        """The letter there of each text, or its last one; the texts must not be empty."""
        return self.letters.take(self.starts + np.minimum(place, self.lengths - 1))


def as_numbers(column: Any, kind: Any) -> Any:
    """A column of the texts of numbers as this type; raises ArrowInvalid where one is none, such as 007."""
    import pyarrow as pa
    from pyarrow import compute

    column = column.cast(pa.string())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    letters = Letters.of(column)
    if len(column) and letters.lengths.min() > 0:
        first, second = letters.at(0), letters.at(1)
        led = (first == ZERO) & (letters.lengths > 1) & ~np.isin(second, _AFTER_ZERO)
        if led.any():
            raise pa.ArrowInvalid("a leading zero")
        if (
            np.any((first < ZERO) & (first != _DOT))
            or letters.letters[letters.starts + letters.lengths - 1].min() <= 32
        ):
            column = compute.utf8_trim(column, BLANKS)
            if compute.any(compute.match_substring_regex(column, "^[+-]?0[0-9xX]")).as_py():
                raise pa.ArrowInvalid("a leading zero")
    return column.cast(kind)
