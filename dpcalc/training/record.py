"""The log of a run: each record's norm at each step, in a file that `dpcalc filter` reads back.

Logs are sensitive: a record's norms say something about that record. They are for audits, not for release.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from dpcalc import files
from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.files.archive import read_header
from dpcalc.training.batches import Batches

_SUFFIXES = (".npy", ".csv")


class Log(Protocol):
    """Norms as they come; `position` keeps the file in step with a checkpoint."""

    def write(self, step: int, who: slice, norms: Floats) -> None: ...

    def position(self) -> int: ...


class ArrayLog:
    """An .npy array of steps × records; cyclic passes take one row an epoch, as each record comes once in it."""

    def __init__(self, stream: BinaryIO, batches: Batches, *, steps: int, resume: bool) -> None:
        self._per_row = batches.steps_per_epoch if batches.algorithm == "cgd" else 1
        shape = (-(-steps // self._per_row), batches.records)
        start = _checked_start(stream, shape) if resume else _new_array(stream, shape)
        self._rows = np.memmap(stream, dtype=np.float64, mode="r+", offset=start, shape=shape)

    def write(self, step: int, who: slice, norms: Floats) -> None:
        self._rows[step // self._per_row, who] = norms

    def position(self) -> int:
        self._rows.flush()
        return 0


def _new_array(stream: BinaryIO, shape: tuple[int, ...]) -> int:
    """Make room for an array of zeros, every byte of which the disk really has; returns where it begins."""
    header = io.BytesIO()
    entry = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float64)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, entry)
    start = len(header.getvalue())
    files.reserve(stream.fileno(), start + 8 * math.prod(shape))
    stream.write(header.getvalue())
    stream.flush()
    return start


def _checked_start(stream: BinaryIO, shape: tuple[int, ...]) -> int:
    """Where the array of a log begins that is to be gone on with."""
    found, fortran, dtype = read_header(stream)
    start, size = stream.tell(), os.fstat(stream.fileno()).st_size
    if found != shape or fortran or dtype != np.float64 or size != start + 8 * math.prod(shape):
        raise ValueError(f"expected a log of shape {shape} to resume, found {str(found)[:40]}")
    return start


class TableLog:
    """A .csv table with one line for each record that takes part in a step: step, id, norm."""

    def __init__(self, stream: BinaryIO, *, position: int | None) -> None:
        self._stream = stream
        if position is None:
            stream.write(b"step,id,norm\n")
            return
        size = os.fstat(stream.fileno()).st_size
        if not 0 < position <= size:
            raise ValueError(f"it had {position} bytes when the checkpoint was made, now {size}")
        # What was written after the checkpoint belongs to steps that will be run again.
        stream.truncate(position)
        stream.seek(position)

    def write(self, step: int, who: slice, norms: Floats) -> None:
        lines = [f"{step},{index},{norm!r}\n" for index, norm in enumerate(norms.tolist(), start=who.start)]
        self._stream.write("".join(lines).encode())

    def position(self) -> int:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return self._stream.tell()


def _log(stream: BinaryIO, suffix: str, batches: Batches, steps: int, position: int | None) -> Log:
    if suffix == ".npy":
        return ArrayLog(stream, batches, steps=steps, resume=position is not None)
    return TableLog(stream, position=position)


def check_name(path: str) -> None:
    """Raise unless a log can have this name."""
    if Path(path).suffix not in _SUFFIXES:
        raise InputError(f"expected a log named .npy or .csv, got {Path(path).name!r}.", where="log")


@contextmanager
def opened_log(path: str, batches: Batches, *, steps: int, position: int | None, in_place: bool) -> Iterator[Log]:
    """A log at `path`, .npy or .csv; `position` is where a checkpoint left it, None for a new one.

    A checkpoint needs its log `in_place` as it grows; without one the log is there when the run is over, or not at all.
    """
    check_name(path)
    with files.growing(path, new=position is None) if in_place else files.writing(path, mode=files.PRIVATE) as stream:
        with nullcontext() if position is None else files.reading(path, "cannot go on with this log"):
            log = _log(stream, Path(path).suffix, batches, steps, position)
        yield log
        log.position()
