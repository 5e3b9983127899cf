"""What a long table is, whatever its format: batches, rows, columns and the checks on them.

The fast readers only notice that something is wrong; `locate` then reads the file again, slowly, to say where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files import reading
from dpcalc.filters.logs.source import Source
from dpcalc.numbers import BLANKS, NON_NEGATIVE, POSITIVE, RENYI_ORDER, Range, parse_number

BATCH_ROWS = 1 << 20
# Rows that are Python objects take more room.
_FEWER_ROWS = 1 << 17
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,18})")


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


class ByRows(Exception):  # noqa: N818 - a signal to start again, not an error
    """The fast reader stumbled over something that the slow one takes: a fraction, say."""


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

    def batches(self, *, text_ids: bool = False, by_rows: bool = False) -> Iterator[Batch]:
        """All entries, in file order, checked to be finite and not negative; `by_rows` is slow and takes them all."""
        read = batches_of_rows if by_rows else self.format.batches
        with reading(self.source.name, "damaged or cut short"):
            for batch in read(self, text_ids):
                rows = np.atleast_2d(batch.values)
                if not all(in_range(name, row) for name, row in zip(self.columns.numbers, rows, strict=True)):
                    self.find_fault()
                yield batch

    def rows(self) -> Iterator[Row]:
        """The entries one by one with their lines; the first bad one raises an error that says where and what."""
        with reading(self.source.name, "damaged or cut short"):
            yield from self.format.rows(self)

    def find_fault(self) -> NoReturn:
        """Raise the error of the first bad row; ByRows if there is none after all."""
        for _ in self.rows():
            pass
        raise ByRows

    def locate(self, matches: Callable[[Row], bool]) -> int:
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
        whole = whole_number(step)
        if whole is None:
            raise InputError(f"expected a whole number in column step, got {_short(step)}", where=self.where(line))
        return Row(line, whole, None if self.columns.id is None else self._name(line, name), numbers)

    def _name(self, line: int, name: object) -> int | str:
        """The id as it is written; an integer stands for its decimal form."""
        if name is None or name == "":
            raise InputError("expected an id, got none", where=self.where(line))
        try:
            if isinstance(name, bytes):
                return name.decode()
            if type(name) is int or (isinstance(name, str) and (name.isascii() or name.encode())):
                return name
        except UnicodeError:
            raise InputError(f"expected an id in Unicode, got {_short(name)!a}", where=self.where(line)) from None
        raise InputError(f"expected an id that is a whole number or text, got {_short(name)}", where=self.where(line))

    def _number(self, line: int, column: str, field: object) -> float:
        number, allowed = as_number(field), _ALLOWED.get(column, NON_NEGATIVE)
        if number is None:
            raise InputError(f"expected a number in column {column}, got {_short(field)}", where=self.where(line))
        if number not in allowed:
            shown = field if isinstance(field, str) else number
            raise InputError(f"expected {column} in {allowed}, got {str(shown)[:40]}", where=self.where(line))
        return number


def stacked(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The values of a batch: one column as it is, several as rows."""
    return columns[0] if len(columns) == 1 else np.stack(columns)


def batches_of_rows(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    """All entries, in file order, from rows that are read one by one."""
    entries = log.rows()
    while some := list(islice(entries, _FEWER_ROWS)):
        _, steps, ids, numbers = zip(*some, strict=True)
        names: Any = np.zeros(len(steps), dtype=np.int64)
        if log.columns.id is not None:
            names = list(map(str, ids)) if text_ids else integer_ids(ids)
        columns = [np.array(column) for column in zip(*numbers, strict=True)]
        yield Batch(np.array(steps, dtype=np.int64), names, stacked(columns))


def integer_ids(ids: Sequence[int | str]) -> NDArray[np.int64]:
    """Names that are integers as integers are written; raises TextIds for any other, so that all are read as text."""
    try:
        given = np.array(list(map(int, ids)), dtype=np.int64)
    except (ValueError, OverflowError):
        raise TextIds from None
    if list(map(str, given.tolist())) != list(map(str, ids)):
        raise TextIds
    return given


def as_number(field: object) -> float | None:
    """The value of a number, or of the text of one; None for anything else."""
    try:
        if isinstance(field, str):
            return parse_number(field.strip(BLANKS))
        return None if isinstance(field, bool) else float(field)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    except OverflowError:
        return float("inf")


def whole_number(text: object) -> int | None:
    """A step number; None for anything that is not one, or that does not fit into 64 bits."""
    if isinstance(text, bool) or (isinstance(text, str) and not _WHOLE.fullmatch(text.strip(BLANKS))):
        return None
    try:
        whole = int(text)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    exact = not (isinstance(text, float) and text != whole)
    return whole if exact and abs(whole) < 2**63 else None


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
