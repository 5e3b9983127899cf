"""Everybody's norms, counted in buckets: integers, the same in whatever order and blocks a log comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.errors import InputError
from dpcalc.filters.buckets import UNIT, Buckets

_TILE, _STRIP = 32_768, 512
_COLUMNS = 64  # buckets that are added together
_TOGETHER = 32  # steps that wait to be counted together
_NARROW, _WIDE = (np.uint32, 20), (np.uint64, 32)  # how a bucket is packed: type, and where the number of steps begins
LARGEST_STEPS = 2**24 - 1
_ABOVE = 1 + 2.0**-50


class NormCounts:
    """Everybody's steps, bucket by bucket. Sensitive: they are about people."""

    def __init__(self, buckets: Buckets, sampling_rate: float, individuals: int = 0) -> None:
        if not 0 < sampling_rate <= 1:
            raise InputError(f"expected a sampling rate in (0, 1], got {sampling_rate}")
        self.buckets, self.sampling_rate = buckets, sampling_rate
        self.individuals = individuals
        self._type: Any = _NARROW[0]
        self._shift = _NARROW[1]
        self._packed: NDArray[Any] = np.zeros((0, 0), dtype=self._type)
        self._waiting: list[NDArray[np.int32]] = []
        self.steps = 0  # at least the number of steps of anybody

    @property
    def packed(self) -> NDArray[Any]:
        """The number of steps and Σw of each bucket (columns) of each record (rows), in one number.

        There are as many columns as the largest norm so far needs.
        """
        self._reach(self._packed.shape[1])
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._count(np.concatenate(waiting), np.arange(self.individuals))
        return self._packed

    def _reach(self, columns: int) -> None:
        """Make room for everybody, and for so many buckets."""
        rows, before = self._packed.shape
        columns = max(before, min(-(-columns // _COLUMNS) * _COLUMNS, self.buckets.width))
        if self.individuals > rows or columns > before:
            room = np.zeros((max(self.individuals, rows), columns), dtype=self._type)
            room[:rows, :before] = self._packed
            self._packed = room

    def grow(self, individuals: int) -> None:
        """Make room for records that appear for the first time."""
        if individuals > self.individuals:
            if self._waiting:
                _ = self.packed
            self.individuals = individuals

    def add(
        self,
        norms: NDArray[np.floating],
        who: Indices | slice = slice(None),
        refused: Iterable[tuple[Indices, Bools, int]] = (),
    ) -> None:
        """Count the norms of a step, or of several (rows), of these records; 0 for one that did not take part.

        Nor did who was `refused`: some records, their steps and whether they were left out, and which step is first.
        """
        block = np.atleast_2d(norms)
        self._take_steps(len(block))
        if not block.size:
            return
        everybody = isinstance(who, slice) and block.shape[1] == self.individuals
        found = np.empty(block.shape, dtype=np.int32)
        wide, tall = min(block.shape[1], _TILE), max(1, _TILE // block.shape[1])
        for left in range(0, block.shape[1], wide):
            for top in range(0, len(block), tall):
                tile = slice(top, top + tall), slice(left, left + wide)
                found[tile] = self.buckets.codes(block[tile])
        for records, out, top in refused:
            rows, left, right = slice(top, top + len(out)), int(records[0]), int(records[-1]) + 1
            found[rows, slice(left, right) if right - left == records.size else records] *= ~out
        if everybody and len(found) + sum(map(len, self._waiting)) < _TOGETHER:
            self._waiting.append(found)  # a few steps of many people would touch far too much memory
            return
        _ = self.packed
        self._count(found, np.arange(self.individuals, dtype=np.int64)[who])

    def _count(self, codes: NDArray[np.int32], records: Indices) -> None:
        """Count steps (rows) of these records (columns), a strip of records at a time."""
        buckets, increments = self.buckets.table[0], self._increments()
        self._reach(int(buckets[codes.max(initial=0)]) + 1)  # buckets rise with codes
        flat = self._packed.reshape(-1)
        for left in range(0, records.size, _STRIP):
            start = records[left : left + _STRIP] * self._packed.shape[1]
            for top in range(0, len(codes), _TILE // _STRIP):
                # In one piece, which is twice as fast; to add 0 is faster than to skip.
                tile = np.ascontiguousarray(codes[top : top + _TILE // _STRIP, left : left + _STRIP])
                place = start + buckets.take(tile)
                np.add.at(flat, place.ravel(), increments.take(tile).ravel())

    def repeat(self, norms: Floats, times: int) -> None:
        """Count the norms of a step that happens again and again, of everybody."""
        self._take_steps(times)
        bucket, units = self.buckets.place(np.asarray(norms, dtype=np.float64))
        more = np.where(units > 0, times * ((1 << self._shift) + units), 0)
        _ = self.packed
        self._reach(int(bucket.max(initial=0)) + 1)
        self._packed[np.arange(self.individuals), bucket] += more.astype(self._type)

    def _increments(self) -> NDArray[Any]:
        """What a step of each code adds to its bucket: nothing for a norm of 0."""
        found = ((1 << self._shift) + self.buckets.table[1]).astype(self._type)
        found[0] = 0
        return found

    def _take_steps(self, more: int) -> None:
        self.steps += more
        if self.steps > LARGEST_STEPS:
            raise InputError(f"individual losses under sampling are kept for up to {LARGEST_STEPS:,} steps")
        if self.steps >= 2 ** (32 - _NARROW[1]):
            self._widen()

    def _widen(self) -> None:
        if self._type == _NARROW[0]:
            narrow = self.packed
            self._type, self._shift = _WIDE
            wide = narrow.astype(_WIDE[0])
            self._packed = (wide >> _NARROW[1] << _WIDE[1]) + (wide & 2 ** _NARROW[1] - 1)

    def in_buckets(self, records: Indices | slice) -> tuple[Floats, Floats]:
        """The number of steps and Σw of each bucket."""
        packed = self.packed[records]
        steps, weights = np.zeros((2, len(packed), self.buckets.width))
        steps[:, : packed.shape[1]] = packed >> self._shift
        weights[:, : packed.shape[1]] = packed & (1 << self._shift) - 1
        weights /= UNIT
        return steps, weights

    def on_edges(self, records: Indices | slice, *, rounded: bool = False) -> tuple[Floats, Floats]:
        """Numbers of steps on each edge but 0 (fractional), at least Σw(1−w) of each bucket; no coins if `rounded`."""
        steps, upper = self.in_buckets(records)
        if rounded:
            return steps, np.zeros_like(steps)
        lower = steps - upper
        whole = upper.copy()
        whole[:, :-1] += lower[:, 1:]
        # Σw(1−w) ≤ Σw·Σ(1−w)/n, since Σw² ≥ (Σw)²/n.
        lower *= upper * _ABOVE
        lower /= np.maximum(steps, 1.0, out=steps)
        return whole, lower

    def taken(self) -> Indices:
        """The number of steps of each record whose norm was not 0."""
        return np.asarray((self.packed >> self._shift).sum(axis=1, dtype=np.int64))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it remembers, for a state file."""
        return {"norm_counts": self.packed, "norm_count_steps": np.array(self.steps)}

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `to_arrays` gave."""
        packed = arrays["norm_counts"]
        if packed.ndim != 2 or packed.shape[1] > self.buckets.width or packed.dtype not in (_NARROW[0], _WIDE[0]):
            raise InputError(f"expected counts in {self.buckets.width} buckets, got {packed.shape} of {packed.dtype}")
        self._type, self._shift = _NARROW if packed.dtype == _NARROW[0] else _WIDE
        self._packed, self.individuals, self.steps = packed, len(packed), int(arrays["norm_count_steps"])

    def part(self, records: Indices) -> NormCounts:
        """Those of some records, to be continued independently."""
        part = NormCounts(self.buckets, self.sampling_rate, records.size)
        part._packed = self.packed[records]
        part._type, part._shift, part.steps = self._type, self._shift, self.steps
        return part

    @classmethod
    def joined(cls, parts: Iterable[NormCounts]) -> NormCounts:
        """The counts of all records of several parts, in this order."""
        listed = list(parts)
        whole = cls(listed[0].buckets, listed[0].sampling_rate)
        whole.steps = max(part.steps for part in listed)
        if any(part._type == _WIDE[0] for part in listed):
            for part in [whole, *listed]:
                part._widen()
        for part in listed:
            _ = part.packed
        columns = max(part._packed.shape[1] for part in listed)
        for part in listed:
            part._reach(columns)
        whole._packed = np.concatenate([part._packed for part in listed])
        whole.individuals = len(whole._packed)
        return whole
