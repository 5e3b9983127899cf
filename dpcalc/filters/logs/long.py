"""Long tables `step,id,norm` in CSV, JSON Lines and Parquet: the formats there are, and how a log is opened."""

from __future__ import annotations

from collections.abc import Sequence

from dpcalc.errors import InputError
from dpcalc.filters.logs import csv_table, json_table, parquet_table
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import Columns, LongLog, TableFormat

_FORMATS = {
    "csv": TableFormat(csv_table.header, csv_table.batches, csv_table.rows),
    "jsonl": TableFormat(json_table.header, json_table.batches, json_table.rows),
    "parquet": TableFormat(parquet_table.header, parquet_table.batches, parquet_table.rows),
}


def open_long(source: Source, *, quantities: Sequence[str], individual: bool) -> LongLog:
    """The table, with its columns found by name: the value is the first of `quantities` that is there."""
    table_format = _FORMATS[source.format]
    header = table_format.header(source)
    if header is None:  # a bare list of numbers
        if individual:
            raise InputError(f"expected a header line step,id,{quantities[0]}", where=f"{source.name}:1")
        return LongLog(source, table_format, Columns(quantities[0], None, None), (quantities[0],))
    value = next((name for name in quantities if name in header), None)
    missing = [name for name in (("step", "id") if individual else ()) if name not in header]
    twice = [name for name in ("step", "id", value) if header.count(name or "") > 1]
    if twice:
        raise InputError(f"expected each column once, got {twice[0]} twice", where=f"{source.name}:1")
    if value is None or missing:
        wanted = ["step", "id"] if individual else []
        expected = ",".join([*wanted, " or ".join(quantities)])
        raise InputError(f"expected columns {expected}, got {','.join(header)}", where=f"{source.name}:1")
    columns = Columns(value, "step" if "step" in header else None, "id" if individual else None)
    return LongLog(source, table_format, columns, header)
