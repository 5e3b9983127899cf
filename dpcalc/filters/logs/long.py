"""Long tables `step,id,norm` in CSV, JSON Lines and Parquet: the formats there are, and how a log is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpcalc.errors import InputError
from dpcalc.files import reading
from dpcalc.filters.logs import csv_table, json_table, parquet_table
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import Columns, LongLog, TableFormat, batches_of_rows

FORMATS = {
    "csv": TableFormat(csv_table.header, csv_table.batches, csv_table.rows),
    "jsonl": TableFormat(json_table.header, batches_of_rows, json_table.rows),
    "parquet": TableFormat(parquet_table.header, parquet_table.batches, parquet_table.rows),
}

# What may stand beside a value: the noise of its step, the order of its ρ, a δ of the step's own.
_BESIDE = {"norm": ("sigma", "delta"), "mu": ("delta",), "rho": ("order", "delta"), "epsilon": ("delta",)}


def open_long(source: Source, *, quantities: Sequence[str], individual: bool) -> LongLog:
    """The table, with its columns found by name: the value is the one of `quantities` that is there.

    Every column has a use, or the log is refused: a number that is left out of the account is not a detail.
    """
    table_format = FORMATS[source.format]
    with reading(source.name, "damaged or cut short"):
        header = table_format.header(source)
    if header is None:  # a bare list of numbers
        if individual:
            raise InputError(f"expected a header line step,id,{quantities[0]}", where=f"{source.name}:1")
        return LongLog(source, table_format, Columns(quantities[0], None, None), (quantities[0],))
    where = f"{source.name}:1"
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InputError(f"expected each column once, got {twice[0][:40]} twice", where=where)
    wanted = ["step", "id"] if individual else ["step"]
    found = [name for name in quantities if name in header]
    if not found or (individual and not set(wanted) <= set(header)):
        expected = ",".join([*(wanted if individual else ()), " or ".join(quantities)])
        raise InputError(f"expected columns {expected}, got {_short(header, ',')}", where=where)
    beside = _BESIDE[found[0]]
    unknown = [name for name in header if name not in (*wanted, found[0], *beside)]
    if unknown:
        raise InputError(_refusal(unknown, found[0], wanted, beside), where=where)
    columns = Columns(
        found[0],
        "step" if "step" in header else None,
        "id" if individual else None,
        tuple(name for name in beside if name in header),
    )
    return LongLog(source, table_format, columns, header)


def _refusal(unknown: Sequence[str], value: str, wanted: Sequence[str], beside: Sequence[str]) -> str:
    """Which columns are not understood, what would be, and why a familiar one is not."""
    words = f"no use for column {_short(unknown)}: a log of {value} has {', '.join(wanted)}, {value}"
    words += f" and, if there are any, {' and '.join(beside)}"
    if "id" in unknown:
        words += "; with ids it is `scope=individual`"
    if any(name in _BESIDE for name in unknown):
        words += "; a step's cost is told in one unit"
    return words


def _short(names: Sequence[str], between: str = ", ") -> str:
    text = between.join(names)
    return text if len(text) <= 80 else f"{text[:77]}..."
