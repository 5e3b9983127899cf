"""Long tables in CSV, read by pyarrow where it is installed and by NumPy otherwise."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files.reader import LONGEST_LINE, text_lines
from dpcalc.filters.logs.decimals import parse_decimals
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import Batch, LongLog, Row, TextIds, integer_ids, stacked, whole_number
from dpcalc.filters.logs.texts import ZERO, Letters, as_numbers
from dpcalc.numbers import BLANKS, is_number, parse_number

_CHUNK = 4 << 20
_DIGITS = 18
_OWN = re.compile(r"[_/]|(?:^|,) *[+-]?0[0-9]")  # where NumPy and dpcalc disagree on what a number is


def header(source: Source) -> tuple[str, ...] | None:
    """The names in the first line; None if that is a bare number already."""
    first = next(_lines(source))
    fields = tuple(field.strip() for field in next(csv.reader([first])))
    return None if len(fields) == 1 and is_number(fields[0]) else fields


def batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    """All entries, in file order."""
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return _plain(log, text_ids)
    if log.columns.step is None:
        return _plain(log, text_ids)
    return _arrow(log, text_ids)


def rows(log: LongLog) -> Iterator[Row]:
    """All entries, one by one, with the lines they end on."""
    place = {name: index for index, name in enumerate(log.header)}
    bare = header(log.source) is None
    reader = csv.reader(_lines(log.source))
    if not bare:
        next(reader)
    for row, fields in enumerate(_parsed(reader, log)):
        if len(fields) != len(log.header):
            if not fields:
                continue
            found = f"expected {len(log.header)} fields, got {len(fields)}: {','.join(fields)[:60]!r}"
            raise InputError(found, where=log.where(reader.line_num))
        step = row if log.columns.step is None else fields[place["step"]].strip(BLANKS)
        name = None if log.columns.id is None else fields[place["id"]]
        numbers = [fields[place[column]].strip(BLANKS) for column in log.columns.numbers]
        yield log.checked(reader.line_num, step, name, numbers)


def _lines(source: Source) -> Iterator[str]:
    with source.open() as stream:
        yield from text_lines(stream, source.name)


def _parsed(reader: Any, log: LongLog) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=log.where(reader.line_num)) from None


def _arrow(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    types = dict.fromkeys(log.columns.names, pa.string())
    convert = arrow.ConvertOptions(
        include_columns=log.columns.names, column_types=types, null_values=[], strings_can_be_null=False
    )
    read = arrow.ReadOptions(block_size=_CHUNK, column_names=list(log.header), skip_rows=1)
    try:
        with log.source.open() as stream:
            plain = stream if log.source.compressed else str(log.source.path)
            for table in arrow.open_csv(plain, read_options=read, convert_options=convert):
                numbers = [as_numbers(table.column(name), pa.float64()) for name in log.columns.numbers]
                values = stacked([column.to_numpy() for column in numbers])
                ids: Any = table.column("id") if log.columns.id else np.zeros(table.num_rows, dtype=np.int64)
                if log.columns.id and not text_ids:
                    ids = _as_integers(ids)
                elif log.columns.id and compute.any(compute.equal(ids, "")).as_py():
                    log.find_fault()
                yield Batch(as_numbers(table.column("step"), pa.int64()).to_numpy(), ids, values)
    except pa.ArrowInvalid:
        if log.columns.id is not None and not text_ids:
            raise TextIds from None
        log.find_fault()


def _as_integers(ids: Any) -> NDArray[np.int64]:
    """A column of text as integers, if it is digits without a leading zero; raises TextIds otherwise: 01 is not 1."""
    import pyarrow as pa

    letters = Letters.of(ids)
    lengths, digits = letters.lengths, letters.letters - np.uint8(ZERO)
    if lengths.min(initial=1) < 1 or lengths.max(initial=1) > _DIGITS or digits.max(initial=0) > 9:
        raise TextIds
    if np.any((digits[letters.starts] == 0) & (lengths > 1)):
        raise TextIds
    found: NDArray[np.int64] = ids.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _plain(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    width, done = len(log.header), 0
    place = {name: index for index, name in enumerate(log.header)}
    with log.source.open() as stream:
        if header(log.source) is not None:
            stream.readline()
        while text := stream.read(_CHUNK):
            rest = stream.readline(LONGEST_LINE + 1)
            if len(rest) > LONGEST_LINE:
                log.find_fault()
            text += rest
            columns: list[Any] | None = None
            if not text_ids:
                whole = (place.get("id"), place.get("step"))
                columns = parse_decimals(text.replace(b"\r\n", b"\n"), width, whole=whole)
            if columns is None:
                try:
                    records = list(csv.reader(io.StringIO(text.decode(), newline="")))
                    columns = list(zip(*records, strict=True))
                    if len(columns) != width:
                        raise ValueError
                except (ValueError, csv.Error):
                    log.find_fault()
            yield _batch(log, place, columns, done, text_ids)
            done += len(columns[0])


def _batch(log: LongLog, place: dict[str, int], columns: list[Any], done: int, text_ids: bool) -> Batch:
    try:
        values = stacked([_floats(columns[place[name]]) for name in log.columns.numbers])
        count = values.shape[-1]
        steps = np.arange(done, done + count) if log.columns.step is None else _whole_numbers(columns[place["step"]])
    except (ValueError, OverflowError):
        log.find_fault()
    if log.columns.id is None:
        return Batch(steps, np.zeros(count, dtype=np.int64), values)
    ids = columns[place["id"]]
    if text_ids:
        if "" in ids:
            log.find_fault()
        return Batch(steps, list(ids), values)
    return Batch(steps, ids.astype(np.int64) if isinstance(ids, np.ndarray) else integer_ids(ids), values)


def _whole_numbers(column: Any) -> NDArray[np.int64]:
    if isinstance(column, np.ndarray):
        return column.astype(np.int64)
    given = [whole_number(text) for text in column]
    if None in given:
        raise ValueError
    return np.array(given, dtype=np.int64)


def _floats(column: Any) -> NDArray[np.float64]:
    """A column of numbers, or of texts of numbers as dpcalc takes them."""
    if isinstance(column, np.ndarray):
        return column
    together = ",".join(column)
    if together.isascii() and together.isprintable() and not _OWN.search(together):
        return np.asarray(column, dtype=np.float64)
    return np.array([parse_number(text.strip(BLANKS)) for text in column])
