"""Long tables in Parquet: one file, or a folder of them in the order of their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import BATCH_ROWS, Batch, Columns, LongLog, Row, TextIds, stacked


def header(source: Source) -> tuple[str, ...]:
    """The names in the schema of the first file."""
    parquet = _parquet()
    try:
        return tuple(parquet.ParquetFile(source.files()[0]).schema_arrow.names)
    except Exception as error:  # pyarrow raises its own kinds for a damaged file
        raise InputError(f"not a complete Parquet file ({_first_line(error)})", where=source.name) from None


def batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    """All entries, in file order."""
    done = 0
    for table in _tables(log):
        batch = arrow_batch(table, log.columns, done)
        if batch is None:
            log.locate()
            continue
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


def arrow_batch(table: Any, columns: Columns, done: int = 0) -> Batch | None:
    """An Arrow table as a batch; None where a column holds nulls or the wrong kind of value."""
    import pyarrow as pa

    if any(table.column(name).null_count for name in columns.names):
        return None
    try:
        numbers = [table.column(name).cast(pa.float64()) for name in columns.numbers]
        values = stacked([column.to_numpy(zero_copy_only=False) for column in numbers])
        if columns.step is None:
            steps = np.arange(done, done + table.num_rows)
        else:
            steps = table.column("step").cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    ids: Any = np.zeros(table.num_rows, dtype=np.int64)
    if columns.id is not None:
        ids = table.column("id")
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if pa.types.is_integer(ids.type):
            ids = ids.to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            ids = ids.cast(pa.string())
    return Batch(steps, ids, values)


def _tables(log: LongLog) -> Iterator[Any]:
    import pyarrow as pa

    parquet = _parquet()
    for path in log.source.files():
        try:
            with parquet.ParquetFile(path) as file:
                further = sorted(set(file.schema_arrow.names) - set(log.header))
                if further:
                    raise InputError(
                        f"expected the columns {', '.join(log.header)}, got also {further[0]}", where=str(path)
                    )
                yield from file.iter_batches(batch_size=BATCH_ROWS, columns=log.columns.names)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise InputError(f"not a complete log ({_first_line(error)})", where=str(path)) from None


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError('reading Parquet needs pyarrow: pip install "dpcalc-budget[parquet]"') from None
    return parquet


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
