"""What workers do with a log: its entries shared out by individual, then each share folded where it lies.

A fold needs each record's steps in order, and records do not depend on each other. So every stretch of the log is read
once and split by a hash of the names, and a partition gets all of its pieces at once. Tasks never change their inputs:
a lost worker's part is computed again from the log, with the same result to the last bit.

Pieces are flat arrays, about 8 bytes an entry: steps as runs of equal ones, names and values as narrow as they are.
Dask's own shuffle of data frames was tried: 600 ns an entry of processor time, where all of this takes some 50.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Indices
from dpcalc.filters.logs.identifiers import Identifiers
from dpcalc.filters.logs.parquet_table import arrow_batch, entries_of, texts
from dpcalc.filters.logs.table import Batch, Columns, TextIds, in_range
from dpcalc.filters.run import Duplicate, Run
from dpcalc.filters.settings import Settings

# 2⁶⁴ over the golden ratio: multiples of it are spread evenly.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Steps of the same people that are folded together.
_ROWS = 64

# A step, who was there, and their values.
Entries = tuple[int, Indices, NDArray[np.floating]]


class RowGroup(NamedTuple):
    """A part of a Parquet file that can be read by itself, and between which steps its entries are."""

    path: Path
    number: int
    rows: int
    first: float
    last: float


class Piece(NamedTuple):
    """Entries of one partition, in the order of the log: runs of equal steps, names, values."""

    labels: Indices
    counts: Indices
    ids: Any
    values: NDArray[np.floating]


class Twice(Exception):  # noqa: N818 - turned into an error with its line by the client
    """A record that appears twice in one step."""


class Unread(Exception):  # noqa: N818 - the client reads the log again, slowly, to say where and what
    """Something that is not a step, an id or a value in its range."""


def split(groups: Sequence[RowGroup], columns: Columns, partitions: int, text: bool) -> list[list[Piece]]:
    """The entries of some row groups, a list of pieces for each partition. With `text`, all ids are read as text."""
    found: list[list[Piece]] = [[] for _ in range(partitions)]
    names: Any = None
    for steps, ids, values in _batches(groups, columns, text):
        if names is None or not _same(ids, names):  # everybody at every step is shared out once
            names, chosen = ids, _shared_out(ids, partitions)
            short = ids if text else _narrow(ids, np.int32)
            parts = [short.take(some) for some in chosen]
        exact = _narrow(values, np.float32)
        label = steps[:1] if np.all(steps == steps[0]) else None
        for pieces, some, part in zip(found, chosen, parts, strict=True):
            if some.size:
                labels, counts = _runs(steps.take(some)) if label is None else (label, np.array([some.size]))
                pieces.append(Piece(labels, counts, part, exact.take(some)))
    return found


def _batches(groups: Sequence[RowGroup], columns: Columns, text: bool) -> Iterator[Batch]:
    for group in groups:
        for table in entries_of(group.path, group.number, columns):
            batch = arrow_batch(table, columns, single=True)
            if batch is None or not in_range(columns.value, batch.values):
                raise Unread
            if not batch.steps.size:
                continue
            if not text and not isinstance(batch.ids, np.ndarray):
                raise TextIds
            yield batch._replace(ids=texts(batch.ids)) if text else batch


def _same(ids: Any, others: Any) -> bool:
    return np.array_equal(ids, others) if isinstance(ids, np.ndarray) else bool(ids.equals(others))


def _shared_out(ids: Any, partitions: int) -> list[Indices]:
    """The places of the names of each partition."""
    share = shares(ids, partitions)
    ends = np.cumsum(np.bincount(share, minlength=partitions))
    return np.split(np.argsort(share, kind="stable"), ends[:-1])


def shares(ids: Any, partitions: int) -> NDArray[np.uint16]:
    """The partition of each name, the same on every worker: an array of integers, or an Arrow array of text."""
    numbers = ids.astype(np.uint64) if isinstance(ids, np.ndarray) else _hashes(ids)
    return (((numbers * _GOLDEN) >> np.uint64(40)) % np.uint64(partitions)).astype(np.uint16)


def _hashes(names: Any) -> NDArray[np.uint64]:
    """Σ byte·cᵖˡᵃᶜᵉ of each name."""
    _, places, data = names.buffers()
    ends = np.frombuffer(places, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    lengths, starts = np.diff(ends), ends[:-1] - ends[0]
    letters = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, 0x100000001B3, dtype=np.uint64))
    letters += np.uint64(1)
    letters *= powers[np.arange(letters.size) - np.repeat(starts, lengths)]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(letters)])
    return np.asarray(sums[starts + lengths] - sums[starts])


def _runs(steps: Indices) -> tuple[Indices, Indices]:
    """Runs of equal steps: what they are, and how long."""
    starts = np.concatenate([[0], np.flatnonzero(steps[1:] != steps[:-1]) + 1])
    return steps[starts], np.diff(starts, append=steps.size)


def _narrow(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """The same numbers in less room, if they fit there exactly."""
    if array.dtype == kind:
        return array
    with np.errstate(over="ignore"):
        small = array.astype(kind)
    return small if np.array_equal(small, array) else array


def fold(settings: Settings, before: Run | None, pieces: Sequence[Sequence[Piece]]) -> Run:
    """The run of a partition from pieces of its entries, on from the one `before`."""
    run = Run(settings) if before is None else _copied(before)
    ids = Identifiers()
    ids.name(run.names or [])
    for first, codes, rows in _alike(_in_order([piece for some in pieces for piece in some], ids)):
        run.grow(len(ids), ids.names)
        if run.holds_all(codes) and (not run.steps.labels or first > run.steps.labels[-1]):
            run.block(first, np.stack(rows))
            continue
        for step, values in enumerate(rows, first):
            try:
                run.entries(step, codes, values.astype(np.float64))
            except Duplicate as twice:
                raise Twice(twice.step, str(ids.names[twice.code])) from None
    run.names = ids.names
    return run


def _alike(entries: Iterator[Entries]) -> Iterator[tuple[int, Indices, list[NDArray[np.floating]]]]:
    """Successive steps of the same people in the same order, with a row of values for each."""
    begun: tuple[int, Indices, list[NDArray[np.floating]]] | None = None
    for step, codes, values in entries:
        if begun is not None:
            first, same, rows = begun
            follows = step == first + len(rows) and len(rows) < _ROWS
            if follows and values.dtype == rows[0].dtype and np.array_equal(codes, same):
                rows.append(values)
                continue
            yield begun
        begun = step, codes, [values]
    if begun is not None:
        yield begun


def _copied(run: Run) -> Run:
    """A run that may be changed; settings and names, which are not, are shared."""
    kept = (run.settings, run.settings.rule, run.names)
    return copy.deepcopy(run, {id(value): value for value in kept})


def _in_order(pieces: list[Piece], ids: Identifiers) -> Iterator[Entries]:
    """The entries step by step; pieces whose steps interleave are sorted together."""
    together: list[Piece] = []
    reached = 0
    for piece in sorted(pieces, key=lambda piece: (int(piece.labels.min()), int(piece.labels.max()))):
        if together and piece.labels.min() >= reached:
            yield from _sorted(together, ids)
            together = []
        reached = max(reached, int(piece.labels.max())) if together else int(piece.labels.max())
        together.append(piece)
    if together:
        yield from _sorted(together, ids)


def _sorted(pieces: list[Piece], ids: Identifiers) -> Iterator[Entries]:
    labels, counts, codes, values = pieces[0]._replace(ids=ids.codes(pieces[0].ids))
    if len(pieces) > 1 or np.any(labels[1:] < labels[:-1]):
        steps = np.concatenate([np.repeat(piece.labels, piece.counts) for piece in pieces])
        order = np.argsort(steps, kind="stable")
        labels, counts = _runs(steps[order])
        codes = np.concatenate([codes, *(ids.codes(piece.ids) for piece in pieces[1:])])[order]
        values = np.concatenate([piece.values for piece in pieces])[order]
    end = 0
    for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
        end += count
        yield label, codes[end - count : end], values[end - count : end]
