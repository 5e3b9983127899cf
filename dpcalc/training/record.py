"""The log of a run: each record's norm at each step, in a file that `dpcalc filter` reads back.

Logs are sensitive: a record's norms say something about that record. They are for audits, not for release.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Protocol

import numpy as np

from dpcalc import files
from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.batches import Batches


class Log(Protocol):
    """Norms as they come; `position` and `rewind` keep the file in step with a checkpoint."""

    def write(self, step: int, who: slice, norms: Floats) -> None: ...

    def position(self) -> int: ...

    def close(self) -> None: ...


class ArrayLog:
    """An .npy array of steps × records; cyclic passes take one row an epoch, as each record comes once in it."""

    def __init__(self, path: Path, batches: Batches, *, steps: int, resume: bool) -> None:
        self._per_row = batches.steps_per_epoch if batches.algorithm == "cgd" else 1
        shape = (-(-steps // self._per_row), batches.records)
        if resume:
            self._rows = np.lib.format.open_memmap(path, mode="r+")
            if self._rows.shape != shape:
                raise InputError(
                    f"expected a log of shape {shape} to resume, found {self._rows.shape}.", where=str(path)
                )
        else:
            _new_array(path, shape)
            self._rows = np.lib.format.open_memmap(path, mode="r+")

    def write(self, step: int, who: slice, norms: Floats) -> None:
        self._rows[step // self._per_row, who] = norms

    def position(self) -> int:
        self._rows.flush()
        return 0

    def close(self) -> None:
        self._rows.flush()


def _new_array(path: Path, shape: tuple[int, ...]) -> None:
    """An .npy file of zeros, for its owner alone, whose every byte the disk really has."""
    header = io.BytesIO()
    entry = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float64)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, entry)
    files.allocate(str(path), len(header.getvalue()) + 8 * int(np.prod(shape)))
    with path.open("r+b") as stream:
        stream.write(header.getvalue())


class TableLog:
    """A .csv table with one line for each record that takes part in a step: step, id, norm."""

    def __init__(self, path: Path, *, position: int | None) -> None:
        if position is None:
            files.allocate(str(path), 0)
        self._file = path.open("r+", encoding="ascii")
        if position is None:
            self._file.write("step,id,norm\n")
        else:
            # What was written after the checkpoint belongs to steps that will be run again.
            self._file.truncate(position)
            self._file.seek(position)

    def write(self, step: int, who: slice, norms: Floats) -> None:
        lines = [f"{step},{index},{norm!r}" for index, norm in enumerate(norms.tolist(), start=who.start)]
        self._file.write("\n".join([*lines, ""]))

    def position(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def open_log(path: str, batches: Batches, *, steps: int, position: int | None) -> Log:
    """A log at `path`, .npy or .csv; `position` is where a checkpoint left it, None for a new one."""
    target = Path(path)
    if target.suffix not in (".npy", ".csv"):
        raise InputError(f"expected a log named .npy or .csv, got {target.name!r}.", where="--log")
    try:
        if target.suffix == ".npy":
            return ArrayLog(target, batches, steps=steps, resume=position is not None)
        return TableLog(target, position=position)
    except OSError as error:
        raise InputError(f"cannot open the log: {error}.", where=path) from None
