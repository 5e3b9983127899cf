"""Sums of clipped gradients whose sensitivity is a theorem, rounding included (docs/train.md has the proof).

Records sit in slots that are fixed beforehand, in tiles of `tile` rows; every product is called on whole tiles, so
that what a slot yields (a layer's inputs a and signals s, or a convolution's own gradient) depends on its record, its
place and the parameters only: *locality*. Norms are taken in double precision, a tile's sum is one product in single
precision, and tiles are added in double precision. If a record of clipped norm κ ≤ K leaves its slot empty, the
computed sum moves by at most κ + margin·K; the clip pays: K = C/(1 + margin). Where each layer has a clip C_l of its
own, ΣC_l² = C², a gradient is brought to C_l/(1 + margin) in every layer first, and κ is what is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import CertificationError, InputError
from dpcalc.training.backends.gradients import Gradients
from dpcalc.training.backends.network import Network
from dpcalc.training.clipping import scale_to
from dpcalc.training.tiles import Array, Buffers, Tiles

Bools: TypeAlias = NDArray[np.bool_]

# Who sits where: the records of a slice in the first slots, or each slot's record, −1 where nobody sits.
Seats: TypeAlias = slice | NDArray[np.int64]

# Given the norms of some slots, who is in them, and which slots these are: one row of weights per sum wanted.
Weigh: TypeAlias = Callable[[Floats, Bools, slice], Floats]

TILE = 64
_ROWS = 768
SPARSE = 2
_MOST_SLOTS = 10_000_000

SINGLE, DOUBLE = 2.0**-24, 2.0**-53

# A record whose norm, or whose inputs to some layer, are beyond this counts as empty: weighted signals of the others
# are far enough from the smallest numbers that rounding them is relative.
LARGEST = 2.0**60

# Products of single-precision numbers that underflow, at most 2⁻¹²⁶ each, with more room than 2³² of them take at the
# smallest clip; and the rounding of the margin itself.
_UNDERFLOW = 2.0**-50


def margin(tile: int, slots: int, *, together: int = 1) -> float:
    """How much further than its own norm, in clips, one record can move the computed sum.

    `together` tiles make up a group: the products that a record can change are those of its own group.
    """
    tiles = -(-slots // tile) + together
    return 2 * tile * together * gamma(tile + 1, SINGLE) + 2 * slots * gamma(tiles, DOUBLE) + _UNDERFLOW


def gamma(count: int, unit: float) -> float:
    """|fl(Σ of `count` products) − Σ| ≤ gamma · Σ|products|, in any order, fused or not (Higham 2002, §3.1)."""
    return count * unit / (1 - count * unit)


@dataclass(frozen=True)
class Pass:
    """One look at a batch: the weighted sums of gradients, and each slot's norm and loss (0 where it is empty)."""

    sums: Floats
    norms: Floats
    losses: Floats


class SlotSums:
    """Weighted sums of the gradients of records in fixed slots. One set of arrays serves every step.

    `sparse` where most weights will be 0: tiles are then summed two by two, which makes the margin twice as large.
    """

    def __init__(self, network: Network, slots: int, *, sparse: bool = False) -> None:
        if slots > _MOST_SLOTS:
            raise InputError(f"expected batches of at most {_MOST_SLOTS:,} records, got room for {slots:,}.")
        self.network, self.slots, self.tile = network, slots, min(TILE, network.chunk, slots)
        at_once = max(1, min(_ROWS, network.chunk) // self.tile)
        together = SPARSE if sparse and at_once >= SPARSE else 1
        self.tiles, self.margin = Tiles(self.tile, together), margin(self.tile, slots, together=together)
        groups = -(-slots // (self.tile * together))
        chunks = -(-groups * together // at_once)
        self.rows = -(-groups // chunks) * together * self.tile
        self._buffers = Buffers()

    def run(
        self, parameters: Array, x: Array, y: NDArray[np.int64], seats: Seats, weigh: Weigh, *,
        queries: int = 1, known: Floats | None = None, clips: Floats | None = None,
    ) -> Pass:  # fmt: skip
        """Σ_i w_i ∇ℓ_i for the weights that `weigh` gives each slot once its norm is known.

        `known` are the squared norms of all records, in double precision, for a model that begins with a dense layer.
        `clips` are those of the layers, where they are clipped one by one before norms are told.
        """
        placed = self._placed(parameters)
        sums, norms, losses = np.zeros((queries, self.network.size)), np.zeros(self.slots), np.zeros(self.slots)
        with np.errstate(all="ignore"):
            for start in range(0, self.slots, self.rows):
                part = slice(start, min(start + self.rows, self.slots))
                seated = self._seated(x, y, seats, part, known)
                if seated is None:
                    continue
                found, gradients = self.network.propagate(placed, seated.x, seated.y)
                energies, present = self._energies(seated, gradients)
                scales = self._scales(energies, clips)
                energy = np.sum([own * scale**2 for own, scale in zip(energies, scales, strict=True)], axis=0)
                there = present[: part.stop - part.start]
                norms[part] = np.sqrt(energy[: part.stop - part.start])
                losses[part][there] = found[: part.stop - part.start][there]
                weighed = np.zeros((queries, self.rows))
                weighed[:, : part.stop - part.start] = weigh(norms[part], there, part)
                at = 0
                for each, scale in zip(gradients, scales, strict=True):
                    each.clear(~present)
                    weights = (weighed * scale).astype(parameters.dtype)
                    each.add_sums(weights, self.tiles, [*sums[:, at : at + each.size]])
                    at += each.size
        return Pass(sums, norms, losses)

    def right(self, parameters: Array, x: Array, y: NDArray[np.int64]) -> Bools:
        """Which records, in the order of the file, are classified rightly: computed on the shapes that were tested."""
        placed, found, everyone = self._placed(parameters), np.zeros(len(x), dtype=bool), slice(0, len(x))
        with np.errstate(all="ignore"):
            for start in range(0, len(x), self.rows):
                part = slice(start, min(start + self.rows, len(x)))
                seated = self._seated(x, y, everyone, part, None)
                assert seated is not None
                scores = self.network.outputs_of_chunk(placed, seated.x)
                found[part] = (scores.argmax(axis=1) == seated.y)[: part.stop - part.start]
        return found

    def _energies(self, seated: _Seated, gradients: Sequence[Gradients]) -> tuple[list[Floats], Bools]:
        """Each row's squared norm by layers, and whether its record counts: 0 and no for one beyond all bounds."""
        energies, present = [], seated.present.copy()
        for index, each in enumerate(gradients):
            squares, inputs = each.squares(None if index else seated.known)
            energies.append(squares)
            present &= inputs <= LARGEST**2
        present &= np.sum(energies, axis=0) <= LARGEST**2
        return [np.where(present, energy, 0.0) for energy in energies], present

    def _scales(self, energies: Sequence[Floats], clips: Floats | None) -> Sequence[Floats | float]:
        """What each layer's gradient is multiplied by before all of them are weighed together: 1, or its own clip."""
        if clips is None:
            return [1.0] * len(energies)
        limits = clips / (1 + self.margin)
        return [scale_to(np.sqrt(energy), limit) for energy, limit in zip(energies, limits, strict=True)]

    def _placed(self, parameters: Array) -> Array:
        placed = self._buffers.take("parameters", parameters.shape, parameters.dtype)
        placed[...] = parameters
        return placed

    def _seated(
        self, x: Array, y: NDArray[np.int64], seats: Seats, part: slice, known: Floats | None
    ) -> _Seated | None:
        """The records of these slots; None where nobody sits in any of them, which adds exactly nothing."""
        if isinstance(seats, slice):
            here = slice(seats.start + part.start, min(seats.start + part.stop, seats.stop))
            count = here.stop - here.start
            if count == self.rows:
                return _Seated(x[here], y[here], np.ones(count, bool), None if known is None else known[here])
            sitting = np.arange(here.start, here.stop)
        else:
            sitting = seats[part]
        records = np.full(self.rows, -1, dtype=np.int64)
        records[: len(sitting)] = sitting
        return self._gathered(x, y, records, known) if (records >= 0).any() else None

    def _gathered(self, x: Array, y: NDArray[np.int64], records: NDArray[np.int64], known: Floats | None) -> _Seated:
        """Each row's record, zeros where it is −1, in arrays that are always the same."""
        placed = self._buffers.take("x", (self.rows, *x.shape[1:]), x.dtype)
        labels = self._buffers.take("y", (self.rows,), y.dtype)
        empty = records < 0
        np.take(x, records, axis=0, out=placed, mode="clip")
        np.take(y, records, out=labels, mode="clip")
        placed[empty], labels[empty] = 0, 0
        squares = None if known is None else np.where(empty, 0.0, known[records])
        return _Seated(placed, labels, ~empty, squares)

    def test_locality(self, parameters: Array, seed: int = 0) -> None:
        """Raise unless a row's bits stay the same, on these very shapes, whatever the other rows hold."""
        generator = np.random.default_rng(seed)
        features, classes = math.prod(self.network.input_shape), max(1, self.network.classes)
        kinds_of_label = 2**classes if self.network.multilabel else classes
        x = self._buffers.take("x", (self.rows, features), parameters.dtype)
        y = self._buffers.take("y", (self.rows,), np.int64)
        y[:] = generator.integers(0, kinds_of_label, self.rows)
        first, other = (generator.standard_normal(x.shape).astype(x.dtype) for _ in range(2))
        before = self._yields(parameters, x, y, first)
        kinds = (other, first * x.dtype.type(1e20), first * x.dtype.type(1e-20), np.zeros_like(first))
        for changed in kinds:
            kept = generator.random(self.rows) < 0.5
            after = self._yields(parameters, x, y, np.where(kept[:, None], first, changed))
            same = all(a[kept].tobytes() == b[kept].tobytes() for a, b in zip(after, before, strict=True))
            if not same:
                raise CertificationError(
                    "this machine's matrix products let one record change another's gradient, so the sensitivity of "
                    "their sum is not known; try another BLAS, or one thread (OPENBLAS_NUM_THREADS=1)."
                )
        smallest = np.full(4, 2.0**-140, dtype=np.float32)
        if not (smallest * np.float32(1.0)).all():
            raise CertificationError("this process flushes small numbers to zero, which the sums do not allow for.")

    def _yields(self, parameters: Array, x: Array, y: NDArray[np.int64], rows: Array) -> Sequence[Array]:
        x[...] = rows
        with np.errstate(all="ignore"):
            losses, gradients = self.network.propagate(self._placed(parameters), x, y)
            squares = [each.squares(None)[0] for each in gradients]
            scores = self.network.outputs_of_chunk(self._placed(parameters), x).copy()
            return [losses.copy(), scores, *squares, *(part.copy() for each in gradients for part in each.parts())]


@dataclass(frozen=True)
class _Seated:
    """One chunk of slots: records (zeros where nobody sits), labels, who is there, and squared norms if known."""

    x: Array
    y: NDArray[np.int64]
    present: Bools
    known: Floats | None
