"""The per-individual table: one row a record, in the order of ids, and marked as sensitive."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dpcalc.files import PRIVATE, writing
from dpcalc.terminal.streams import harmless

SENSITIVE = (
    "SENSITIVE: individual privacy losses depend on each person's data. A row may be shown to the person it is about; "
    "never publish this file."
)
# What makes a spreadsheet run a cell; it does not behind an apostrophe.
_RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def write_table(path: Path, columns: dict[str, Any], *, note: str) -> None:
    """Write columns of equal length as CSV, or as Parquet if the name ends so, readable by its owner only.

    The first line (of Parquet the metadata) says that it is sensitive, and the `note` what the units are.
    """
    order = _order(columns["id"])
    sorted_columns = {name: _reordered(column, order) for name, column in columns.items()}
    with writing(str(path), mode=PRIVATE) as stream:
        if path.suffix == ".parquet":
            _write_parquet(stream, sorted_columns, note)
        else:
            _write_csv(stream, sorted_columns, note)


def _order(ids: Any) -> Any:
    return sorted(range(len(ids)), key=ids.__getitem__) if isinstance(ids, list) else np.argsort(ids, kind="stable")


def _reordered(column: Any, order: Any) -> Any:
    return [column[i] for i in order] if isinstance(column, list) else column[order]


def _write_csv(binary: BinaryIO, columns: dict[str, Any], note: str) -> None:
    stream = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
    lists = {name: column if isinstance(column, list) else column.tolist() for name, column in columns.items()}
    lists["id"], remarks = _written(lists["id"])
    stream.write(f"# {SENSITIVE} Units: {'; '.join([note, *remarks])}.\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(lists)
    writer.writerows(zip(*lists.values(), strict=True))
    stream.detach()


def _written(ids: list[Any]) -> tuple[list[Any], list[str]]:
    """Ids that neither run in a spreadsheet nor steer a terminal, and how to read them; each has its text back."""
    remarks = []
    if any(harmless(name) != name for name in ids if isinstance(name, str)):
        ids = [harmless(name.replace("\\", "\\\\")) if isinstance(name, str) else name for name in ids]
        remarks.append(r"control characters in ids are written as \u001b is, and backslashes twice")
    quoted = [_not_run(name) if isinstance(name, str) else name for name in ids]
    if quoted != ids:
        remarks.append("ids that a spreadsheet would run stand behind an apostrophe")
    return quoted, remarks


def _not_run(name: str) -> str:
    """An id that a spreadsheet would run, behind an apostrophe; one that begins with apostrophes gets one more."""
    is_run = name.lstrip("'").startswith(_RUN) and not (name[:1] == "-" and name[1:].isdecimal())
    return f"'{name}" if is_run else name


def _write_parquet(stream: BinaryIO, columns: dict[str, Any], note: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(columns).replace_schema_metadata({"sensitivity": SENSITIVE, "units": note})
    parquet.write_table(table, stream)
