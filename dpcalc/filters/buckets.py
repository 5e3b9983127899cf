"""A record's norms under Poisson sampling, kept as integer counts in buckets: whatever they come to is never less.

One step is P = (1−q)N(0,1) + qN(m,1) against Q = N(0,1) with m = norm/σ. H_m(t) = sup(P − tQ) is q times a
Black–Scholes call of volatility m and strike (t−1+q)/q (1−t for t ≤ 1−q). Its second derivative in m over its first is
d₁d₂/m ≥ −m/4, so for every t it is convex in s(m) = 2Φ(m/2) − 1. Between neighbouring edges a ≤ m ≤ b, with
s(m) = (1−w)s(a) + w·s(b),

    H_m ≤ (1−w)H_a + w·H_b:

a step is dominated, in both directions at once, by a public coin between the steps of the two edges. Edge 0 is "nothing
happens", edge ∞ "P is told apart whenever the record is drawn". H rises with m, so norms and w may be rounded up: a
bucket holds the number of its steps and Σw in units of 1/256, the same in whatever order and blocks the log comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.errors import InputError

UNIT = 256
WIDEST = 8.0  # edges end here; what is beyond lies between this one and ∞
# Edges are 3 % apart for small m and closer where ε rises steeply with m, 14 octaves down from the largest.
_SPACING, _BEND, _BENT_TO, _SPAN = 0.03, 6.0, 4.0, 2.0**-14
_ROUNDED_BITS = 12  # of a float32: what is left tells norms apart to 0.05 %
_TILE, _STRIP = 32_768, 512
_TOGETHER = 32  # steps that wait to be counted together
_NARROW, _WIDE = (np.uint32, 20), (np.uint64, 32)  # how a bucket is packed: type, and where the number of steps begins
LARGEST_STEPS = 2**24 - 1
_ABOVE = 1 + 2.0**-50


def distance(m: Floats) -> Floats:
    """s(m) = 2Φ(m/2) − 1: the total variation distance of N(m,1) from N(0,1)."""
    from scipy.special import erf

    return np.asarray(erf(m / math.sqrt(8)))


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Where the edges are for norms up to `clip` (any, without one) under noise `sigma`.

    `tolerance` is how far a stored norm may be below the true one, relatively.
    """

    sigma: float
    clip: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise InputError(f"expected sigma in (0, inf), got {self.sigma}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"expected a clip in (0, inf), got {self.clip}")

    @cached_property
    def edges(self) -> Floats:
        """m on the upper edge of each bucket, rising; the last is ∞ where norms may pass WIDEST."""
        ratio = math.inf if self.clip is None else self.clip * (1 + self.tolerance) / self.sigma * _ABOVE
        found = [min(max(ratio, 1e-150), WIDEST)]
        while found[-1] > _SPAN * found[0]:
            found.append(found[-1] * math.exp(-_SPACING / (1 + _BEND * min(found[-1], _BENT_TO))))
        return np.array([*found[::-1], *([math.inf] if ratio > WIDEST else [])])

    @property
    def width(self) -> int:
        """How many buckets there are."""
        return int(self.edges.size)

    def place(self, norms: Floats) -> tuple[Indices, Indices]:
        """The bucket of each norm, and its w in units of 1/256, rounded up."""
        from scipy.special import erf, erfc

        if not np.all(norms >= 0):
            raise InputError("expected norms in [0, inf), got a negative or missing one")
        if self.clip is not None:
            norms = np.minimum(norms, self.clip)
        with np.errstate(over="ignore"):
            m = norms * (1 + self.tolerance) / self.sigma * _ABOVE
        m = np.where((norms > 0) & (m == 0), np.nextafter(0.0, 1.0), m)
        bucket = np.minimum(np.searchsorted(self.edges, m, side="left"), self.width - 1)
        below, above = np.concatenate([[0.0], self.edges])[bucket], self.edges[bucket]
        with np.errstate(under="ignore"):
            # Beyond m = 2.5 by 1 − s: s itself would be a difference of numbers near 1.
            low = [erf(np.minimum(x, 3.0) / math.sqrt(8)) for x in (below, m, above)]
            high = [-erfc(np.maximum(x, 2.0) / math.sqrt(8)) for x in (below, m, above)]
        near, far, whole = (np.where(above < 2.5, a, b) for a, b in zip(low, high, strict=True))
        share = (far - near) / np.maximum(whole - near, np.finfo(float).tiny)
        share = np.where(m >= above, 1.0, np.clip(share, 0.0, 1.0))
        units = np.where(m > 0, np.ceil(np.minimum(UNIT * share + 1e-9, UNIT)), 0)
        return bucket.astype(np.int64), units.astype(np.int64)

    def codes(self, norms: NDArray[np.floating]) -> NDArray[np.int32]:
        """The row of `table` for each norm, rounded up. Norms must be in [0, ∞)."""
        single = norms.astype(np.float32)
        if norms.dtype != np.float32:
            np.nextafter(single, np.float32(np.inf), out=single, where=single < norms)
        positive = single > 0
        codes = single.view(np.int32)
        codes += np.int32(2**_ROUNDED_BITS - 1)
        codes >>= _ROUNDED_BITS
        codes -= np.int32(self._first - 1)
        np.minimum(codes, self._last - self._first + 1, out=codes)
        return np.maximum(codes, positive, out=codes)  # only 0 is nothing

    @cached_property
    def ends(self) -> Floats:
        """The largest norm of each code; the first is 0."""
        found = (np.arange(self._first, self._last + 1, dtype=np.int32) << _ROUNDED_BITS).view(np.float32)
        ends = np.concatenate([[0.0], found.astype(np.float64)])
        # The last code also stands for every norm above it.
        ends[-1] = math.inf if self.clip is None else max(ends[-1], self.clip)
        return ends

    @cached_property
    def table(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The bucket of each code, and its w."""
        bucket, units = self.place(self.ends)
        return bucket.astype(np.int32), units

    @cached_property
    def _first(self) -> int:
        return max(1, _code(float(self.edges[0]) * self.sigma / (2 * UNIT)))

    @cached_property
    def _last(self) -> int:
        return max(self._first, _code(min(self.clip or math.inf, 6 * WIDEST * self.sigma)) + 1)


def _code(norm: float) -> int:
    with np.errstate(over="ignore"):
        bits = int(np.float32(min(norm, 3e38)).view(np.int32))
    return bits >> _ROUNDED_BITS


class NormCounts:
    """Everybody's steps, bucket by bucket. Sensitive: they are about people."""

    def __init__(self, buckets: Buckets, sampling_rate: float, individuals: int = 0) -> None:
        if not 0 < sampling_rate <= 1:
            raise InputError(f"expected a sampling rate in (0, 1], got {sampling_rate}")
        self.buckets, self.sampling_rate = buckets, sampling_rate
        self.individuals = individuals
        self._type: Any = _NARROW[0]
        self._shift = _NARROW[1]
        self._packed: NDArray[Any] = np.zeros((0, buckets.width), dtype=self._type)
        self._waiting: list[NDArray[np.int32]] = []
        self.steps = 0  # at least the number of steps of anybody

    @property
    def packed(self) -> NDArray[Any]:
        """The number of steps and Σw of each bucket (columns) of each record (rows), in one number."""
        more = self.individuals - len(self._packed)
        if more > 0:
            fresh = np.zeros((more, self.buckets.width), dtype=self._type)
            self._packed = np.concatenate([self._packed, fresh]) if len(self._packed) else fresh
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._count(np.concatenate(waiting), np.arange(self.individuals))
        return self._packed

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
        flat = self._packed.reshape(-1)
        for left in range(0, records.size, _STRIP):
            start = records[left : left + _STRIP] * self.buckets.width
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
        self.packed[np.arange(self.individuals), bucket] += more.astype(self._type)

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
        steps = (packed >> self._shift).astype(np.float64)
        return steps, (packed & (1 << self._shift) - 1).astype(np.float64) / UNIT

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
        if packed.ndim != 2 or packed.shape[1] != self.buckets.width or packed.dtype not in (_NARROW[0], _WIDE[0]):
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
        whole._packed = np.concatenate([part.packed for part in listed])
        whole.individuals = len(whole._packed)
        return whole
