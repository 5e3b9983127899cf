"""Piecewise Chebyshev interpolation in u = (norm/σ)²: where the pieces are, their nodes and coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats


@dataclass(frozen=True)
class Pieces:
    """[0, first], [first, ratio·first], [ratio·first, ratio²·first], …; an edge belongs to the piece below it."""

    first: float
    ratio: float

    def count(self, largest: float) -> int:
        """How many pieces it takes to reach `largest`; none for 0."""
        pieces, high = (1 if largest > 0 else 0), self.first
        while high < largest:
            pieces, high = pieces + 1, self.ratio * high
        return pieces

    def range(self, piece: int) -> tuple[float, float]:
        """The values of u that a piece covers."""
        high = self.first * self.ratio**piece
        return (high / self.ratio if piece else 0.0), high

    def to_unit(self, squares: Floats, piece: int) -> Floats:
        """The place of u within its piece, from -1 to 1."""
        low, high = self.range(piece)
        return (2 * squares - (low + high)) / (high - low)

    def nodes(self, piece: int, count: int) -> Floats:
        """Chebyshev nodes of a piece."""
        low, high = self.range(piece)
        nodes: Floats = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
        return nodes


def coefficients(values: NDArray[Any]) -> NDArray[Any]:
    """Chebyshev coefficients from the values at the nodes, along the first axis."""
    count = values.shape[0]
    angles = np.pi * (np.arange(count) + 0.5) / count
    transform = np.cos(np.outer(np.arange(count), angles)) * (2 / count)
    transform[0] /= 2
    return np.asarray(transform @ values)


# Octaves down to 2^-11, found from the binary exponent of u.
_BELOW_ONE = 11
OCTAVES = Pieces(first=2.0**-_BELOW_ONE, ratio=2.0)


def octave(squares: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The piece of OCTAVES that each u is in, and its place there from -1 to 1."""
    mantissas, exponents = np.frexp(squares)
    edge = mantissas == 0.5
    pieces = exponents.astype(np.int64) + _BELOW_ONE - edge
    inside: Floats = np.where(pieces > 0, np.where(edge, 1.0, 4 * mantissas - 3), 2 * squares / OCTAVES.first - 1)
    return np.maximum(pieces, 0), inside
