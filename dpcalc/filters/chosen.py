"""What some records' counts come to on a contour: sums of logarithms over the edges that anybody is on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Bools, Complexes, Floats, Indices
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.transforms import ROUND, ContourTable

_PEOPLE = 1024
_MOST_KNOWN = 8  # of a record, the largest: these decide


def parts_of(records: Indices, size: int = _PEOPLE) -> Iterator[Indices]:
    """The records, some at a time."""
    return (records[first : first + size] for first in range(0, records.size, size))


def edges_of(counts: NormCounts, records: Indices) -> Indices:
    """The edges that any of these records is on: both of each bucket that holds a step."""
    buckets = np.flatnonzero(np.any([counts.packed[some].any(axis=0) for some in parts_of(records)], axis=0))
    return np.union1d(buckets, buckets[buckets > 0] - 1)


@dataclass(frozen=True)
class Chosen:
    """Counts on some of the edges: norms `rounded` up to them, or else coins, those `known` that are alone."""

    counts: NormCounts
    places: Indices
    rounded: bool = False
    known: bool = False

    def on_edges(self, records: Indices) -> tuple[Floats, Floats]:
        """Numbers of steps on the chosen edges, and Σw(1−w) of the buckets below them."""
        whole, coins = self.counts.on_edges(records, rounded=self.rounded)
        if self.places.size == self.counts.buckets.width:
            return whole, coins
        return whole[:, self.places], coins[:, self.places]

    def used_by(self, records: Indices) -> Indices:
        """Which of the chosen edges these records are on."""
        return np.searchsorted(self.places, edges_of(self.counts, records))

    def sums(self, records: Indices, used: Indices, table: ContourTable) -> tuple[Floats, Complexes, Floats, Bools]:
        """Each record's ΣK(c), rounded up, ΣK − ΣK(c) at each node, how far that may be off, and where it is vague."""
        whole, coins = (counted[:, used] for counted in self.on_edges(records))
        rows = columns = np.zeros(0, dtype=np.int64)
        if self.known:
            steps, upper = self.counts.in_buckets(records)
            alone = (steps == 1) & (upper > 0) & (upper < 1)
            rows, buckets = np.nonzero(alone & (np.cumsum(alone[:, ::-1], axis=1)[:, ::-1] <= _MOST_KNOWN))
            weights = upper[rows, buckets]
            columns, lowest = np.searchsorted(self.places[used], buckets), buckets == 0
            whole[rows, columns] -= weights
            whole[rows[~lowest], columns[~lowest] - 1] -= 1 - weights[~lowest]
            coins[rows, columns] = 0.0
        top = (whole @ table.tops) * (1 + ROUND * (used.size + 4))
        sums = whole @ table.logs.real + 1j * (whole @ table.logs.imag)
        wrong = coins @ table.remainders + whole @ table.errors
        if rows.size:
            tops, logs, errors = table.coins(columns, lowest, weights)
            for total, part in ((top, tops), (sums, logs), (wrong, errors)):
                np.add.at(total, rows, part)
            top *= 1 + ROUND * (rows.size + 4)
        wrong += ROUND * (np.abs(sums) + 4 + 2 * rows.size)
        vague, some = np.zeros(sums.shape, dtype=bool), np.flatnonzero(table.vague.any(axis=0))
        vague[:, some] = whole @ table.vague[:, some].astype(np.float64) > 0
        return top, sums, wrong, vague
