"""Long tables in CSV, read by pyarrow where it is installed and by NumPy otherwise."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.filters.logs.decimals import parse_decimals
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import Batch, LongLog, Row, TextIds, integer_ids, is_number, stacked

_CHUNK = 4 << 20


def header(source: Source) -> tuple[str, ...] | None:
    """The names in the first line; None if that is a bare number already."""
    with source.open() as stream:
        try:
            first = stream.readline().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("expected text, got binary data", where=f"{source.name}:1") from None
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
    with log.source.open() as binary:
        reader = csv.reader(io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline=""))
        if not bare:
            next(reader)
        for row, fields in enumerate(reader):
            if len(fields) != len(log.header):
                if not fields:
                    continue
                found = f"expected {len(log.header)} fields, got {len(fields)}: {','.join(fields)!r}"
                raise InputError(found, where=log.where(reader.line_num))
            step = row if log.columns.step is None else fields[place["step"]].strip()
            name = None if log.columns.id is None else fields[place["id"]]
            numbers = [fields[place[column]].strip() for column in log.columns.numbers]
            yield log.checked(reader.line_num, step, name, numbers)


def _arrow(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    types: dict[str, Any] = {"step": pa.int64(), **dict.fromkeys(log.columns.numbers, pa.float64())}
    if log.columns.id is not None:
        types["id"] = pa.string() if text_ids else pa.int64()
    convert = arrow.ConvertOptions(
        include_columns=log.columns.names, column_types=types, null_values=[], strings_can_be_null=False
    )
    read = arrow.ReadOptions(block_size=_CHUNK, column_names=list(log.header), skip_rows=1)
    try:
        with log.source.open() as stream:
            plain = stream if log.source.compressed else str(log.source.path)
            for table in arrow.open_csv(plain, read_options=read, convert_options=convert):
                values = stacked([table.column(column).to_numpy() for column in log.columns.numbers])
                ids: Any = table.column("id") if log.columns.id else np.zeros(table.num_rows, dtype=np.int64)
                if log.columns.id and not text_ids:
                    ids = ids.to_numpy()
                elif log.columns.id and compute.any(compute.equal(ids, "")).as_py():
                    log.locate()
                yield Batch(table.column("step").to_numpy(), ids, values)
    except pa.ArrowInvalid:
        if log.columns.id is not None and not text_ids:
            raise TextIds from None
        log.locate()


def _plain(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    width, done = len(log.header), 0
    place = {name: index for index, name in enumerate(log.header)}
    with log.source.open() as stream:
        if header(log.source) is not None:
            stream.readline()
        while text := stream.read(_CHUNK):
            text += stream.readline()
            columns: list[Any] | None = None if text_ids else _numbers(text, width)
            if columns is None:
                try:
                    lines = list(csv.reader(io.StringIO(text.decode(), newline="")))
                    columns = list(zip(*lines, strict=True))
                    if len(columns) != width:
                        raise ValueError
                except ValueError:
                    log.locate()
                    return
            yield _batch(log, place, columns, done, text_ids)
            done += len(columns[0])


def _numbers(text: bytes, width: int) -> list[Any] | None:
    """The lines as columns of numbers, or None if anything else is in them."""
    text = text.replace(b"\r\n", b"\n")
    plain = parse_decimals(text, width)
    if plain is not None:
        return list(plain)
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = np.fromstring(text.rstrip(b"\n").replace(b"\n", b",").decode(), sep=",")
        except (DeprecationWarning, ValueError):
            return None
    return list(found.reshape(-1, width).T) if found.size == lines * width else None


def _batch(log: LongLog, place: dict[str, int], columns: list[Any], done: int, text_ids: bool) -> Batch:
    try:
        values = stacked([np.asarray(columns[place[name]], dtype=np.float64) for name in log.columns.numbers])
        count = values.shape[-1]
        if log.columns.step is None:
            steps = np.arange(done, done + count)
        else:
            given = np.asarray(columns[place["step"]], dtype=np.float64)
            if not np.all((np.abs(given) < 2**53) & (given == np.rint(given))):
                raise ValueError
            steps = given.astype(np.int64)
    except (ValueError, OverflowError):
        log.locate()
    if log.columns.id is None:
        return Batch(steps, np.zeros(count, dtype=np.int64), values)
    ids = columns[place["id"]]
    if text_ids:
        if "" in ids:
            log.locate()
        return Batch(steps, list(ids), values)
    return Batch(steps, integer_ids(ids), values)
