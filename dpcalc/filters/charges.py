"""What a sampled step costs at many orders at once: a row of a table for each norm, rounded up.

The RDP at every order rises with the norm (data processing), so a norm may be rounded up, here to 12 bits behind the
leading one: u = (norm/σ)² is charged as at most 0.05 % more. A row holds multiples of the coarse unit of `totals`,
rounded up too: sums of rows are exact in any order, and to charge a step at all orders is to add one row.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcalc.arrays import Floats, Indices
from dpcalc.filters.subsampled import SubsampledRenyi

Codes = NDArray[np.int32]

_DROPPED_BITS = 11  # of the 23 that a float32 has behind the leading one
_ROWS = 1 << (23 - _DROPPED_BITS)  # of an octave of norms
_LOWEST, _HIGHEST = -24, 20  # octaves of norm/σ: smaller norms cost what the lowest does, larger ones UNKNOWN
_SINGLE = -120, 124  # octaves that a float32 tells apart
_BIAS = 127

# In place of an infinite cost: e^{−(α−1)·1e200} is 0, and sums of such numbers stay finite.
UNKNOWN = 1e200


class Charges:
    """Codes of norms, and the row of costs of each code: 0 for a norm of 0, and never falling with the norm."""

    def __init__(self, renyi: SubsampledRenyi, scale: float, largest: float, units: tuple[float, ...]) -> None:
        """`scale` is σ, `largest` a norm that no other passes (or ∞); costs are rounded up to `units`."""
        self._renyi, self._scale, self._largest, self._units = renyi, scale, largest, np.array(units)
        octave = math.frexp(scale)[1]
        self._floor, self._ceiling = (max(_SINGLE[0], min(octave + end, _SINGLE[1])) for end in (_LOWEST, _HIGHEST))
        count = max(0, self._ceiling - self._floor)
        self._known = np.zeros(count, dtype=bool)
        self.rows: Floats = np.zeros((count * _ROWS + 2, len(units)))  # takes memory where it is written to only
        self.rows[-1] = UNKNOWN

    def codes(self, norms: NDArray[np.floating]) -> Codes:
        """The row of each norm. Norms must be in [0, ∞)."""
        with np.errstate(over="ignore"):
            single = norms.astype(np.float32)
        if norms.dtype != np.float32:
            np.nextafter(single, np.float32(np.inf), out=single, where=single < norms)
        codes: Codes = single.view(np.int32)
        codes += np.int32((1 << _DROPPED_BITS) - 1)
        codes >>= _DROPPED_BITS
        positive = codes > 0
        codes -= np.int32((self._floor + _BIAS) * _ROWS)
        np.minimum(codes, len(self.rows) - 1, out=codes)
        np.maximum(codes, positive, out=codes)  # only 0 is nothing
        if codes.size:
            lowest = int(codes.min()) or int(codes.min(where=positive, initial=len(self.rows)))
            self._work_out(lowest, int(codes.max()))
        return codes

    def _work_out(self, lowest: int, highest: int) -> None:
        """See that all octaves between these two codes are there."""
        octaves = slice((lowest - 1) // _ROWS, (min(highest, len(self.rows) - 2) - 1) // _ROWS + 1)
        for octave in np.flatnonzero(~self._known[octaves]) + octaves.start:
            first = int(octave) * _ROWS + 1
            self.rows[first : first + _ROWS] = self._octave(first)
            self._known[octave] = True

    def _octave(self, first: int) -> Floats:
        """The rows of an octave from this code on: the costs of the largest norm of each."""
        # And of the one before: next to a seam of two chords the RDP rises by more than their distance from it, 0.05 %,
        # over two rows.
        codes = np.arange(first - 1, first + _ROWS) + (self._floor + _BIAS) * _ROWS
        norms = (codes.astype(np.int32) << _DROPPED_BITS).view(np.float32).astype(np.float64)
        costs = self._renyi.rdp((np.minimum(norms, self._largest) / self._scale) ** 2).T
        with np.errstate(over="ignore"):
            found: Floats = np.ceil(np.maximum(costs[:-1], costs[1:]) / self._units) * self._units
        return np.minimum(found, UNKNOWN)

    def reached(self) -> tuple[int, int]:
        """The codes that have rows, from the first to before the last; all between them have."""
        octaves = np.flatnonzero(self._known)
        if not octaves.size:
            return 1, 1
        first, last = int(octaves[0]) * _ROWS + 1, int(octaves[-1] + 1) * _ROWS + 1
        self._work_out(first, last - 1)
        return first, last

    def costs(self, norms: Floats) -> Floats:
        """What each norm costs at each order, the new first axis."""
        return np.ascontiguousarray(np.moveaxis(self.rows.take(self.codes(norms), axis=0), -1, 0))

    def sums(self, codes: Codes) -> Floats:
        """What each record (column) spends over these steps at each order, the new first axis."""
        steps, people = codes.shape
        total = self.sums_of(np.ascontiguousarray(codes.T).reshape(-1), np.arange(people + 1) * steps)
        return total.T

    def sums_of(self, codes: Codes, ends: Indices) -> Floats:
        """The sums of rows of stretches of these codes, which begin and end at these places: a row for each."""
        picked = csr_array((np.ones(codes.size), codes, ends.astype(np.int32)), shape=(ends.size - 1, len(self.rows)))
        total: Floats = picked @ self.rows
        return total


@lru_cache(maxsize=8)
def charges(renyi: SubsampledRenyi, scale: float, largest: float, units: tuple[float, ...]) -> Charges:
    """The same table for everybody who asks for it."""
    return Charges(renyi, scale, largest, units)
