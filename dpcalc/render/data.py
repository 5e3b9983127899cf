"""A result for programs: the JSON object of the contract, and rows of CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence

from dpcalc.guarantee import Result
from dpcalc.report import csv_records, to_json

# What a spreadsheet would take for a formula, were it the first character of a cell.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_json(result: Result) -> str:
    """The JSON object, infinity as a string and without NaN."""
    return json.dumps(to_json(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(result: Result) -> str:
    """One row for each record, column names without spaces."""
    return csv_text([{key.replace(" ", "_"): value for key, value in row.items()} for row in csv_records(result)])


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """The rows under all their columns; text stays text in a spreadsheet."""
    import csv

    records = [{key: _safe(value) for key, value in row.items()} for row in rows]
    columns = list(dict.fromkeys(key for record in records for key in record))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


def _safe(value: object) -> object:
    """Text that a spreadsheet would run is told to be text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
