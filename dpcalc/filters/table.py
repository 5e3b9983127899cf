"""The per-individual table: one row a record, in the order of ids, and marked as sensitive."""

from __future__ import annotations

import contextlib
import csv
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SENSITIVE = (
    "SENSITIVE: individual privacy losses depend on each person's data. A row may be shown to the person it is about; "
    "never publish this file."
)


def write_table(path: Path, columns: dict[str, Any], *, note: str) -> None:
    """Write columns of equal length as CSV, or as Parquet if the name ends so, readable by its owner only.

    The first line (of Parquet the metadata) says that it is sensitive, and the `note` what the units are.
    """
    order = _order(columns["id"])
    sorted_columns = {name: _reordered(column, order) for name, column in columns.items()}
    with _replacing(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(temporary, sorted_columns, note)
        else:
            _write_csv(temporary, sorted_columns, note)


def _order(ids: Any) -> Any:
    return sorted(range(len(ids)), key=ids.__getitem__) if isinstance(ids, list) else np.argsort(ids, kind="stable")


def _reordered(column: Any, order: Any) -> Any:
    return [column[i] for i in order] if isinstance(column, list) else column[order]


def _write_csv(path: Path, columns: dict[str, Any], note: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(f"# {SENSITIVE} Units: {note}.\n")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        lists = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
        writer.writerows(zip(*lists, strict=True))


def _write_parquet(path: Path, columns: dict[str, Any], note: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(columns).replace_schema_metadata({"sensitivity": SENSITIVE, "units": note})
    parquet.write_table(table, path)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(name)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
