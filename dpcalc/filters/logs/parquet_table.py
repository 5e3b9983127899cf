"""Long tables in Parquet: one file, or a folder of them in the order of their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.errors import InputError, missing
from dpcalc.files.reader import check_size, reading, size_of
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import BATCH_ROWS, Batch, Columns, LongLog, Row, TextIds, stacked
from dpcalc.filters.logs.texts import as_numbers

_ROW = 16  # bytes of memory that a row takes at least


def header(source: Source) -> tuple[str, ...]:
    """The names in the schema of the first file."""
    parquet = _parquet()
    with reading(source.name, "not a complete Parquet file"), parquet.ParquetFile(source.files()[0]) as file:
        return tuple(file.schema_arrow.names)


def batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    """All entries, in file order."""
    done = 0
    for table in _tables(log):
        batch = arrow_batch(table, log.columns, done)
        if batch is None:
            log.find_fault()
        if log.columns.id is not None and not text_ids and not isinstance(batch.ids, np.ndarray):
            raise TextIds
        if log.columns.id is not None and text_ids and isinstance(batch.ids, np.ndarray):
            batch = batch._replace(ids=list(map(str, batch.ids.tolist())))
        yield batch
        done += len(batch.steps)


def rows(log: LongLog) -> Iterator[Row]:
    """All entries, one by one, numbered from 1 over all files."""
    line = 0
    for table in _tables(log):
        for found in table.to_pylist():
            line += 1
            step = line - 1 if log.columns.step is None else found["step"]
            yield log.checked(line, step, found.get("id"), [found[name] for name in log.columns.numbers])


def arrow_batch(table: Any, columns: Columns, done: int = 0, *, single: bool = False) -> Batch | None:
    """An Arrow table as a batch; None where a column holds nulls or the wrong kind of value.

    With `single`, a value that is stored in single precision stays so.
    """
    import pyarrow as pa

    if any(table.column(name).null_count for name in columns.names):
        return None
    if any(pa.types.is_boolean(table.column(name).type) for name in (*columns.numbers, columns.step) if name):
        return None
    try:
        kept = single and not columns.beside and table.column(columns.value).type == pa.float32()
        numbers = [_numbers(table.column(name), pa.float32() if kept else pa.float64()) for name in columns.numbers]
        values = stacked([column.to_numpy(zero_copy_only=False) for column in numbers])
        if columns.step is None:
            steps = np.arange(done, done + table.num_rows)
        else:
            steps = _numbers(table.column("step"), pa.int64()).to_numpy(zero_copy_only=False)
        ids = np.zeros(table.num_rows, dtype=np.int64) if columns.id is None else _ids(table.column("id"))
    except pa.ArrowException:
        return None
    return None if ids is None else Batch(steps, ids, values)


def _numbers(column: Any, kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return as_numbers(column, kind) if _is_text(column.type) else column.cast(kind)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_text(kind) for is_text in texts)


def _ids(column: Any) -> Any:
    """Integers, or text as it is written; None for anything else. What is too large for 64 bits is text too."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_uint64(column.type) and pa.compute.max(column).as_py() >= 2**63:
        return column.cast(pa.string())
    if pa.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if not _is_text(column.type):
        return None
    return column.cast(pa.string())


def texts(ids: Any) -> Any:
    """The names of a batch as an Arrow array of text."""
    import pyarrow as pa

    column = pa.array(ids) if isinstance(ids, (np.ndarray, list)) else ids
    whole = column.cast(pa.large_string())
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _tables(log: LongLog) -> Iterator[Any]:
    for where, file in opened_files(log):
        with reading(where, "not a complete log"):
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=log.columns.names)


def opened_files(log: LongLog) -> Iterator[tuple[str, Any]]:
    """The files of a log one after another, as messages call them and open, with the right columns and sizes."""
    parquet = _parquet()
    for path in log.source.files():
        where = str(path) if log.source.path.is_dir() else log.source.name
        with reading(where, "not a complete log"), parquet.ParquetFile(path) as file:
            further = sorted(set(file.schema_arrow.names) - set(log.header))
            if further:
                words = f"expected the columns {', '.join(log.header)}, got also {further[0][:40]}"
                raise InputError(words, where=where)
            _check_sizes(file.metadata, log.source, where)
            yield where, file


def entries_of(path: Path, row_group: int, columns: Columns) -> Iterator[Any]:
    """The rows of one row group, a batch at a time, without threads of its own."""
    with _parquet().ParquetFile(path) as file:
        rows = {"batch_size": BATCH_ROWS, "row_groups": [row_group]}
        yield from file.iter_batches(**rows, columns=columns.names, use_threads=False)


def _check_sizes(metadata: Any, source: Source, where: str) -> None:
    """Raise if a row group would be unpacked to more than it may, or if rows take less than a byte each on the disk."""
    most = max(source.limit, size_of(source.path))
    rows = metadata.num_rows
    check_size(_ROW * rows, max(source.limit, _ROW * size_of(source.path)), what=f"{rows:,} rows", where=where)
    for number in range(metadata.num_row_groups):
        check_size(metadata.row_group(number).total_byte_size, most, what=f"row group {number}", where=where)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing("reading Parquet needs pyarrow", "parquet") from None
    return parquet
