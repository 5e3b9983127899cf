"""Long tables `step,id,norm` in CSV, JSON Lines and Parquet, as a stream of batches.

The fast readers only notice that something is wrong; `locate` then reads the file again, slowly, to say where.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.adaptive.logs.decimals import parse_decimals
from dpcalc.adaptive.logs.source import Source
from dpcalc.errors import InputError

_CHUNK = 4 << 20
_ROWS = 1 << 20
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Batch(NamedTuple):
    """Entries in file order: integer steps; names (integers, strings or an Arrow column); values."""

    steps: NDArray[np.int64]
    ids: Any
    values: NDArray[np.float64]


class Row(NamedTuple):
    """One entry with its line, as the slow reader sees it."""

    line: int
    step: int
    id: Any
    value: float


@dataclass(frozen=True)
class Columns:
    """Which columns of the table hold what; a log of a whole run has no ids, and may number its steps by lines."""

    value: str
    step: str | None
    id: str | None


class TextIds(Exception):  # noqa: N818 - a signal to start again, not an error
    """Ids that began as integers turned out to be strings."""


@dataclass(frozen=True)
class LongLog:
    """A long table: its columns, and a way to read it from the start."""

    source: Source
    columns: Columns
    header: tuple[str, ...]

    def batches(self, *, text_ids: bool = False) -> Iterator[Batch]:
        """All entries, in file order, checked to be finite and not negative."""
        try:
            for batch in _READERS[self.source.format](self, text_ids):
                if not np.all((batch.values >= 0) & (batch.values < np.inf)):
                    self.locate()
                yield batch
        except _DAMAGED as error:
            raise InputError(f"damaged or cut short ({error})", where=self.source.name) from None

    def rows(self) -> Iterator[Row]:
        """The entries one by one with their lines; the first bad one raises an error that says where and what."""
        return _ROWS_OF[self.source.format](self)

    def locate(self, matches: Callable[[Row], bool] = lambda _: False) -> int:
        """The line of the first row that matches; a bad row before it raises its own error."""
        for row in self.rows():
            if matches(row):
                return row.line
        raise InputError("could not be read", where=self.source.name)

    def where(self, line: int) -> str:
        """How messages call a line."""
        return f"{self.source.name}:{line}"

    def checked(self, line: int, step: object, name: object, value: object) -> Row:
        """A row from raw fields; anything that is not a whole step, a name and a number ≥ 0 is an error."""
        if not _is_number(value):
            found = f"expected a number in column {self.columns.value}, got {value!r}"
            raise InputError(found, where=self.where(line))
        whole = _whole(step)
        if whole is None:
            raise InputError(f"expected a whole number in column step, got {step!r}", where=self.where(line))
        number = float(value)  # type: ignore[arg-type]
        if not 0 <= number < float("inf"):
            raise InputError(f"expected {self.columns.value} in [0, inf), got {value}", where=self.where(line))
        if self.columns.id is not None and (name is None or name == ""):
            raise InputError("expected an id, got none", where=self.where(line))
        if isinstance(name, (list, dict, bool)):
            raise InputError(f"expected an id that is a number or a string, got {name!r}", where=self.where(line))
        return Row(line, whole, name, number)


def open_long(source: Source, *, quantities: Sequence[str], individual: bool) -> LongLog:
    """The table, with its columns found by name: the value is the first of `quantities` that is there."""
    header = _HEADERS[source.format](source)
    if header is None:  # a bare list of numbers
        if individual:
            raise InputError(f"expected a header line step,id,{quantities[0]}", where=f"{source.name}:1")
        return LongLog(source, Columns(quantities[0], None, None), (quantities[0],))
    value = next((name for name in quantities if name in header), None)
    missing = [name for name in (("step", "id") if individual else ()) if name not in header]
    twice = [name for name in ("step", "id", value) if header.count(name or "") > 1]
    if twice:
        raise InputError(f"expected each column once, got {twice[0]} twice", where=f"{source.name}:1")
    if value is None or missing:
        wanted = ["step", "id"] if individual else []
        expected = ",".join([*wanted, " or ".join(quantities)])
        raise InputError(f"expected columns {expected}, got {','.join(header)}", where=f"{source.name}:1")
    return LongLog(source, Columns(value, "step" if "step" in header else None, "id" if individual else None), header)


# CSV


def _csv_header(source: Source) -> tuple[str, ...] | None:
    with source.open() as stream:
        try:
            first = stream.readline().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("expected text, got binary data", where=f"{source.name}:1") from None
    fields = tuple(field.strip() for field in next(csv.reader([first])))
    return None if len(fields) == 1 and _is_number(fields[0]) else fields


def _csv_batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return _csv_plain(log, text_ids)
    if log.columns.step is None:
        return _csv_plain(log, text_ids)
    return _csv_arrow(log, text_ids)


def _csv_arrow(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    names = [name for name in (log.columns.step, log.columns.id, log.columns.value) if name is not None]
    types: dict[str, Any] = {log.columns.value: pa.float64(), "step": pa.int64()}
    if log.columns.id is not None:
        types["id"] = pa.string() if text_ids else pa.int64()
    convert = arrow.ConvertOptions(include_columns=names, column_types=types, null_values=[], strings_can_be_null=False)
    read = arrow.ReadOptions(block_size=_CHUNK, column_names=list(log.header), skip_rows=1)
    try:
        with log.source.open() as stream:
            plain = stream if log.source.compressed else str(log.source.path)
            for table in arrow.open_csv(plain, read_options=read, convert_options=convert):
                values = table.column(log.columns.value).to_numpy()
                ids: Any = table.column("id") if log.columns.id else np.zeros(values.size, dtype=np.int64)
                if log.columns.id and not text_ids:
                    ids = ids.to_numpy()
                elif log.columns.id and compute.any(compute.equal(ids, "")).as_py():
                    log.locate()
                yield Batch(table.column("step").to_numpy(), ids, values)
    except pa.ArrowInvalid:
        if log.columns.id is not None and not text_ids:
            raise TextIds from None
        log.locate()


def _csv_plain(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    width, done = len(log.header), 0
    place = {name: index for index, name in enumerate(log.header)}
    with log.source.open() as stream:
        if _csv_header(log.source) is not None:
            stream.readline()
        while text := stream.read(_CHUNK):
            text += stream.readline()
            columns: list[Any] | None = None if text_ids else _numbers(text, width)
            if columns is None:
                try:
                    rows = list(csv.reader(io.StringIO(text.decode(), newline="")))
                    columns = list(zip(*rows, strict=True))
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
        values = np.asarray(columns[place[log.columns.value]], dtype=np.float64)
        if log.columns.step is None:
            steps = np.arange(done, done + values.size)
        else:
            given = np.asarray(columns[place["step"]], dtype=np.float64)
            if not np.all((np.abs(given) < 2**53) & (given == np.rint(given))):
                raise ValueError
            steps = given.astype(np.int64)
    except (ValueError, OverflowError):
        log.locate()
    if log.columns.id is None:
        return Batch(steps, np.zeros(values.size, dtype=np.int64), values)
    ids = columns[place["id"]]
    if text_ids:
        if "" in ids:
            log.locate()
        return Batch(steps, list(ids), values)
    return Batch(steps, _integers(ids), values)


def _integers(ids: Any) -> NDArray[np.int64]:
    """Names that are integers; raises TextIds for any other, so that all are read as strings."""
    try:
        given = np.asarray(ids) if isinstance(ids, np.ndarray) else np.array(list(map(int, ids)), dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        raise TextIds from None
    if given.dtype.kind == "f" and not np.all((np.abs(given) < 2**53) & (given == np.rint(given))):
        raise TextIds
    return given.astype(np.int64)


def _csv_rows(log: LongLog) -> Iterator[Row]:
    place = {name: index for index, name in enumerate(log.header)}
    bare = _csv_header(log.source) is None
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
            yield log.checked(reader.line_num, step, name, fields[place[log.columns.value]].strip())


# JSON Lines


def _json_header(source: Source) -> tuple[str, ...]:
    with source.open() as stream:
        line = stream.readline()
    return tuple(_json_object(line, f"{source.name}:1"))


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError
    except ValueError:
        text = line.decode(errors="replace").strip()
        raise InputError(f"expected a JSON object on each line, got {text[:60]!r}", where=where) from None
    return found


def _json_rows(log: LongLog) -> Iterator[Row]:
    with log.source.open() as stream:
        for index, line in enumerate(stream):
            if line.strip():
                found = _json_object(line, log.where(index + 1))
                step = index if log.columns.step is None else found.get("step")
                yield log.checked(index + 1, step, found.get("id"), found.get(log.columns.value))


def _json_batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    rows = log.rows()
    while some := list(islice(rows, _ROWS)):
        _, steps, ids, values = zip(*some, strict=True)
        names: Any = np.zeros(len(steps), dtype=np.int64)
        if log.columns.id is not None:
            if not text_ids and not all(type(name) is int for name in ids):
                raise TextIds
            names = list(map(str, ids)) if text_ids else _integers(ids)
        yield Batch(np.array(steps, dtype=np.int64), names, np.array(values))


# Parquet


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError('reading Parquet needs pyarrow: pip install "dpcalc-budget[parquet]"') from None
    return parquet


def _parquet_header(source: Source) -> tuple[str, ...]:
    parquet = _parquet()
    try:
        return tuple(parquet.ParquetFile(source.files()[0]).schema_arrow.names)
    except Exception as error:  # pyarrow raises its own kinds for a damaged file
        raise InputError(f"not a complete Parquet file ({_first_line(error)})", where=source.name) from None


def _parquet_tables(log: LongLog) -> Iterator[Any]:
    import pyarrow as pa

    parquet = _parquet()
    names = [name for name in (log.columns.step, log.columns.id, log.columns.value) if name is not None]
    for path in log.source.files():
        try:
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=_ROWS, columns=names)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise InputError(f"not a complete log ({_first_line(error)})", where=str(path)) from None


def _parquet_batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    done = 0
    for table in _parquet_tables(log):
        batch = arrow_batch(table, log.columns, done)
        if batch is None:
            log.locate()
            continue
        if log.columns.id is not None and not text_ids and not isinstance(batch.ids, np.ndarray):
            raise TextIds
        if log.columns.id is not None and text_ids and isinstance(batch.ids, np.ndarray):
            batch = batch._replace(ids=list(map(str, batch.ids.tolist())))
        yield batch
        done += len(batch.values)


def arrow_batch(table: Any, columns: Columns, done: int = 0) -> Batch | None:
    """An Arrow table as a batch; None where a column holds nulls or the wrong kind of value."""
    import pyarrow as pa

    wanted = [table.column(name) for name in (columns.value, columns.step, columns.id) if name is not None]
    if any(column.null_count for column in wanted):
        return None
    try:
        values = table.column(columns.value).cast(pa.float64()).to_numpy(zero_copy_only=False)
        if columns.step is None:
            steps = np.arange(done, done + values.size)
        else:
            steps = table.column("step").cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    ids: Any = np.zeros(values.size, dtype=np.int64)
    if columns.id is not None:
        ids = table.column("id")
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if pa.types.is_integer(ids.type):
            ids = ids.to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            ids = ids.cast(pa.string())
    return Batch(steps, ids, values)


def _parquet_rows(log: LongLog) -> Iterator[Row]:
    line = 0
    for table in _parquet_tables(log):
        for found in table.to_pylist():
            line += 1
            step = line - 1 if log.columns.step is None else found["step"]
            yield log.checked(line, step, found.get("id"), found[log.columns.value])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _is_number(text: object) -> bool:
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


_HEADERS: dict[str, Callable[[Source], tuple[str, ...] | None]] = {
    "csv": _csv_header,
    "jsonl": _json_header,
    "parquet": _parquet_header,
}
_READERS: dict[str, Callable[[LongLog, bool], Iterator[Batch]]] = {
    "csv": _csv_batches,
    "jsonl": _json_batches,
    "parquet": _parquet_batches,
}
_ROWS_OF: dict[str, Callable[[LongLog], Iterator[Row]]] = {
    "csv": _csv_rows,
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
}
