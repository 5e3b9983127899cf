"""Prints a result: a Rich table for people; JSON, CSV or Markdown for programs and documents."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from dpcalc.guarantee import Result, Section
from dpcalc.report import budget_section, csv_records, guarantee_rows, to_json

_UNCUT = 1_000_000


def emit(result: Result, format: str, output: str | None) -> None:
    """Write the result where it belongs, warnings to stderr, and say there if the budget is exceeded."""
    if format == "table" and output is None and sys.stdout.isatty():
        _draw(result, sys.stdout, width=None)
    else:
        text = _RENDERERS[format](result)
        if output is None or output == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_atomically(Path(output), text)
    for line in result.guarantee.warnings:
        sys.stderr.write(f"warning: {line}\n")
    for line in result.budget.exceeded(result.guarantee):
        sys.stderr.write(f"over budget: {line}\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file that is either complete or not there: a temporary neighbour, then a rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _sections(result: Result) -> list[Section]:
    budget = budget_section(result)
    rows = tuple(guarantee_rows(result.guarantee))
    guarantee = Section(title=f"dpcalc {result.command}", columns=("", ""), rows=rows)
    facts = [Section(title="", columns=("", ""), rows=result.facts)] if result.facts else []
    return [guarantee, *facts, *result.sections, *([budget] if budget else [])]


def _draw(result: Result, stream: TextIO, *, width: int | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, width=width, highlight=False, emoji=False, markup=False)
    for section in _sections(result):
        titled = any(section.columns)
        table = Table(title=section.title, title_justify="left", box=box.ROUNDED, show_header=titled)
        for column in section.columns:
            table.add_column(column, overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(_cell(value)) for value in row))
        console.print(table)
    if result.headline:
        console.print(Text(result.headline))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(result: Result) -> str:
    stream = io.StringIO()
    _draw(result, stream, width=_UNCUT)
    return stream.getvalue()


def _json(result: Result) -> str:
    import json

    return json.dumps(to_json(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(result: Result) -> str:
    import csv

    records = csv_records(result)
    columns = list(dict.fromkeys(key for record in records for key in record))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


def _markdown(result: Result) -> str:
    parts = [_markdown_table(section) for section in _sections(result)]
    return "\n".join([*parts, result.headline]).rstrip("\n") + "\n"


def _markdown_table(section: Section) -> str:
    header = section.columns if any(section.columns) else ("Quantity", "Value")
    lines = [f"**{section.title}**", "", _markdown_row(header), _markdown_row(("---",) * len(header))]
    return "\n".join([*lines, *(_markdown_row(row) for row in section.rows), ""])


def _markdown_row(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(_cell(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_RENDERERS: dict[str, Callable[[Result], str]] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
}
