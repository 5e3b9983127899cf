"""Where rows of numbers are kept and which of them a product takes, so that no record has a say in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpcalc.arrays import Floats

# float32 in training; the tests also run the layers in float64.
Array: TypeAlias = NDArray[Any]
Part: TypeAlias = slice | NDArray[np.int64]

_ALIGNMENT = 64
# Numbers that are copied to double precision at once.
_COPIED = 1 << 15


def aligned(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
    """Zeros whose address is a multiple of a cache line."""
    kind = np.dtype(dtype)
    count = math.prod(shape)
    memory = np.zeros(count * kind.itemsize + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count * kind.itemsize].view(kind).reshape(shape)


def as_aligned(array: Array) -> Array:
    """The same numbers at such an address."""
    if array.flags.c_contiguous and array.ctypes.data % _ALIGNMENT == 0:
        return array
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


class Buffers:
    """Aligned arrays by name: taken once for a shape, then used again."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """The array called `name`; new and zero if its shape has changed, else with what it held."""
        held = self._held.get(name)
        if held is None or held.shape != shape or held.dtype != dtype:
            held = self._held[name] = aligned(shape, dtype)
        return held

    def row_squares(self, name: str, rows: Array) -> Floats:
        """Σx² of each row, in double precision, a few rows at a time so that their copies stay in the caches."""
        squares = np.empty(len(rows))
        together = max(1, _COPIED // max(1, rows.shape[1]))
        exact = self.take(name, (together, rows.shape[1]), np.float64)
        for start in range(0, len(rows), together):
            some = rows[start : start + together]
            copy = exact[: len(some)]
            np.copyto(copy, some)
            squares[start : start + together] = np.matmul(copy[:, None, :], copy[:, :, None])[:, 0, 0]
        return squares


@dataclass(frozen=True)
class Tiles:
    """How rows are summed: products of at most `rows` of them, which never reach over a group of `together` tiles.

    A row of weight 0 adds exactly nothing and may be left out. Which rows a product takes depends on its own group
    alone, so no record changes the products of another group.
    """

    rows: int
    together: int = 1

    def parts(self, weights: Array) -> Iterator[Part]:
        """The rows of each product: whole tiles, or what there is in a group that is mostly empty."""
        group = self.rows * self.together
        for start in range(0, len(weights), group):
            taken = np.flatnonzero(weights[start : start + group]) + start
            if 4 * taken.size > group:
                yield from (slice(at, at + self.rows) for at in range(start, start + group, self.rows))
            else:
                yield from (taken[at : at + self.rows] for at in range(0, taken.size, self.rows))


def squared_norms(x: Array) -> Floats:
    """Σx² of each record."""
    return Buffers().row_squares("exact", x)
