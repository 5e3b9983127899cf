"""Step sizes and noise that change along the run, and how they are read from a CSV."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.numbers import BLANKS, parse_number

COLUMNS = ("step", "lr", "sigma")


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """η and σ that hold from each of `starts` (counted from step 1) until the next."""

    starts: Floats
    learning_rates: Floats
    sigmas: Floats

    @property
    def last_step(self) -> int:
        """The last step that is named."""
        return int(self.starts[-1])

    def at_every_step(self, steps: int) -> tuple[Floats, Floats]:
        """η and σ of steps 1 … t."""
        row = np.searchsorted(self.starts, np.arange(1, steps + 1), side="right") - 1
        return self.learning_rates[row], self.sigmas[row]


def read_schedule(text: str, *, name: str) -> Schedule:
    """The schedule in a CSV with the columns step, lr and sigma; errors name the file and the line."""
    header, _, body = text.partition("\n")
    columns = [column.strip() for column in header.split(",")]
    if sorted(columns) != sorted(COLUMNS):
        raise InputError(f"expected the columns {', '.join(COLUMNS)}, got {header.strip()[:60]!r}", where=f"{name}:1")
    if not body.strip():
        raise InputError("expected at least one row, got none", where=f"{name}:2")
    try:
        if not body.isascii() or not body.replace("\n", "").isprintable():  # odd spaces are none of the dialect
            raise ValueError
        table = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        table = _read_slowly(body, len(columns), name)
    if table.shape[1] != len(columns):
        raise InputError(f"expected {len(columns)} numbers in a row, got {table.shape[1]}", where=f"{name}:2")
    values = {column: table[:, index] for index, column in enumerate(columns)}
    _check_rows(values, name)
    return Schedule(starts=values["step"], learning_rates=values["lr"], sigmas=values["sigma"])


def _read_slowly(body: str, width: int, name: str) -> Floats:
    rows = []
    for number, line in enumerate(body.splitlines(), start=2):
        if not line.strip():
            continue
        try:
            rows.append([parse_number(cell.strip(BLANKS)) for cell in line.split(",")])
        except ValueError:
            raise InputError(f"expected {width} numbers, got {line.strip()[:60]!r}", where=f"{name}:{number}") from None
        if len(rows[-1]) != width:
            raise InputError(f"expected {width} numbers, got {line.strip()[:60]!r}", where=f"{name}:{number}")
    return np.array(rows)


def _check_rows(values: dict[str, Floats], name: str) -> None:
    steps = values["step"]
    for column in ("lr", "sigma"):
        wrong = np.flatnonzero(~(np.isfinite(values[column]) & (values[column] > 0)))
        if wrong.size:
            row = int(wrong[0])
            raise InputError(f"expected {column} > 0, got {values[column][row]:g}", where=f"{name}:{row + 2}: {column}")
    if steps[0] != 1:
        raise InputError(f"expected the first row to be step 1, got {steps[0]:g}", where=f"{name}:2: step")
    wrong = np.flatnonzero(~((steps == np.floor(steps)) & (np.diff(steps, prepend=0) > 0) & np.isfinite(steps)))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(f"expected growing whole steps, got {steps[row]:g}", where=f"{name}:{row + 2}: step")
