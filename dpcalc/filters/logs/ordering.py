"""Entries in the order of their steps, which a fold needs: checked on the way, or sorted on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Indices

_ENTRIES = 2_000_000


class Entries(NamedTuple):
    """Entries with numbered individuals."""

    steps: Indices
    codes: Indices
    values: NDArray[np.float64]


class Unsorted(Exception):  # noqa: N818 - a signal to start again, not an error
    """A step came after a later one."""


def checked_order(batches: Iterable[Entries]) -> Iterator[Entries]:
    """The same batches; raises Unsorted at the first step that goes back."""
    last = np.iinfo(np.int64).min
    for batch in batches:
        if batch.steps.size:
            if batch.steps[0] < last or np.any(batch.steps[1:] < batch.steps[:-1]):
                raise Unsorted
            last = batch.steps[-1]
        yield batch


def sorted_on_disk(batches: Iterable[Entries]) -> Iterator[Entries]:
    """The entries sorted by step: sorted runs in temporary files, merged a range of steps at a time."""
    with tempfile.TemporaryDirectory(prefix="dpcalc-sort-") as folder:
        runs = [_spill(batch, Path(folder) / str(number)) for number, batch in enumerate(batches)]
        runs = [run for run in runs if run.steps.size]
        if not runs:
            return
        labels, counts = _histogram(runs)
        first = 0
        while first < labels.size:
            ahead = np.cumsum(counts[first:])
            last = first + max(1, int(np.searchsorted(ahead, _ENTRIES, side="right")))
            yield _merged(runs, int(labels[first]), int(labels[last - 1]))
            first = last


def _spill(batch: Entries, stem: Path) -> Entries:
    order = np.argsort(batch.steps, kind="stable")
    mapped = []
    for name, array in zip(batch._fields, batch, strict=True):
        path = stem.with_suffix(f".{name}.npy")
        np.save(path, array[..., order])
        mapped.append(np.load(path, mmap_mode="r"))
    return Entries(*mapped)


def _histogram(runs: list[Entries]) -> tuple[Indices, Indices]:
    totals: dict[int, int] = {}
    for run in runs:
        for label, count in zip(*(array.tolist() for array in np.unique(run.steps, return_counts=True)), strict=True):
            totals[label] = totals.get(label, 0) + count
    labels = sorted(totals)
    return np.array(labels, dtype=np.int64), np.array([totals[label] for label in labels], dtype=np.int64)


def _merged(runs: list[Entries], first: int, last: int) -> Entries:
    parts = []
    for run in runs:
        low, high = np.searchsorted(run.steps, first, side="left"), np.searchsorted(run.steps, last, side="right")
        parts.append(Entries(run.steps[low:high], run.codes[low:high], run.values[..., low:high]))
    joined = Entries(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.values for part in parts], axis=-1),
    )
    order = np.argsort(joined.steps, kind="stable")
    return Entries(joined.steps[order], joined.codes[order], joined.values[..., order])
