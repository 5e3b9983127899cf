"""What a long table is, whatever its format: batches, rows, columns and the checks on them.

The fast readers only notice that something is wrong; `locate` then reads the file again, slowly, to say where.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.filters.logs.source import Source
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, RENYI_ORDER, Range

BATCH_ROWS = 1 << 20
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Batch(NamedTuple):
    """Entries in file order: integer steps; names (integers, strings or an Arrow column); values.

    With further numbers beside the value there is a row of values for each column.
    """

    steps: NDArray[np.int64]
    ids: Any
    values: NDArray[np.float64]


class Row(NamedTuple):
    """One entry with its line, as the slow reader sees it."""

    line: int
    step: int
    id: Any
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Columns:
    """Which columns of the table hold what; a log of a whole run has no ids, and may number its steps by lines.

    `beside` the value there may be the noise of its step, the order of its ρ, and a δ of its own.
    """

    value: str
    step: str | None
    id: str | None
    beside: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers, in the order of a batch's rows of values."""
        return (self.value, *self.beside)

    @property
    def names(self) -> list[str]:
        """All columns of the table."""
        return [name for name in (self.step, self.id, *self.numbers) if name is not None]


_ALLOWED = {"sigma": POSITIVE, "order": RENYI_ORDER, "delta": Range(low=0, high=1, high_open=True)}


def in_range(column: str, values: NDArray[np.float64]) -> bool:
    """Whether all numbers of a column are what they may be."""
    allowed = _ALLOWED.get(column, NON_NEGATIVE)
    above = values > allowed.low if allowed.low_open else values >= allowed.low
    return bool(np.all(above & (values < allowed.high)))


class TextIds(Exception):  # noqa: N818 - a signal to start again, not an error
    """Ids that began as integers turned out to be strings."""


class TableFormat(NamedTuple):
    """How one format is read: its column names (None for bare numbers), fast in batches, slowly row by row."""

    header: Callable[[Source], tuple[str, ...] | None]
    batches: Callable[[LongLog, bool], Iterator[Batch]]
    rows: Callable[[LongLog], Iterator[Row]]


@dataclass(frozen=True)
class LongLog:
    """A long table: its columns, and a way to read it from the start."""

    source: Source
    format: TableFormat
    columns: Columns
    header: tuple[str, ...]

    def batches(self, *, text_ids: bool = False) -> Iterator[Batch]:
        """All entries, in file order, checked to be finite and not negative."""
        try:
            for batch in self.format.batches(self, text_ids):
                rows = np.atleast_2d(batch.values)
                if not all(in_range(name, row) for name, row in zip(self.columns.numbers, rows, strict=True)):
                    self.locate()
                yield batch
        except _DAMAGED as error:
            raise InputError(f"damaged or cut short ({error})", where=self.source.name) from None

    def rows(self) -> Iterator[Row]:
        """The entries one by one with their lines; the first bad one raises an error that says where and what."""
        return self.format.rows(self)

    def locate(self, matches: Callable[[Row], bool] = lambda _: False) -> int:
        """The line of the first row that matches; a bad row before it raises its own error."""
        for row in self.rows():
            if matches(row):
                return row.line
        raise InputError("could not be read", where=self.source.name)

    def where(self, line: int) -> str:
        """How messages call a line."""
        return f"{self.source.name}:{line}"

    def checked(self, line: int, step: object, name: object, fields: Sequence[object]) -> Row:
        """A row from raw fields; anything that is not a whole step, a name and numbers in their ranges is an error."""
        numbers = tuple(self._number(line, *field) for field in zip(self.columns.numbers, fields, strict=True))
        whole = _whole(step)
        if whole is None:
            raise InputError(f"expected a whole number in column step, got {step!r}", where=self.where(line))
        if self.columns.id is not None and (name is None or name == ""):
            raise InputError("expected an id, got none", where=self.where(line))
        if isinstance(name, (list, dict, bool)):
            raise InputError(f"expected an id that is a number or a string, got {name!r}", where=self.where(line))
        return Row(line, whole, name, numbers)

    def _number(self, line: int, column: str, field: object) -> float:
        if not is_number(field):
            raise InputError(f"expected a number in column {column}, got {field!r}", where=self.where(line))
        number, allowed = float(field), _ALLOWED.get(column, NON_NEGATIVE)  # type: ignore[arg-type]
        if number not in allowed:
            raise InputError(f"expected {column} in {allowed}, got {field}", where=self.where(line))
        return number


def stacked(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The values of a batch: one column as it is, several as rows."""
    return columns[0] if len(columns) == 1 else np.stack(columns)


def integer_ids(ids: Any) -> NDArray[np.int64]:
    """Names that are integers; raises TextIds for any other, so that all are read as strings."""
    try:
        given = np.asarray(ids) if isinstance(ids, np.ndarray) else np.array(list(map(int, ids)), dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        raise TextIds from None
    if given.dtype.kind == "f" and not np.all((np.abs(given) < 2**53) & (given == np.rint(given))):
        raise TextIds
    return given.astype(np.int64)


def is_number(text: object) -> bool:
    """Whether a raw field is a number, or the text of one."""
    try:
        float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return not isinstance(text, bool)


def _whole(text: object) -> int | None:
    """A step number; None for anything that is not one, or that does not fit into 64 bits."""
    try:
        whole = int(text)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    exact = not isinstance(text, bool) and not (isinstance(text, float) and text != whole)
    return whole if exact and abs(whole) < 2**63 else None
