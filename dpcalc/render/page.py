"""A result for documents and pull requests: Markdown with its verdict, numbers, conditions, warnings and date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from dpcalc.guarantee import Result, Section
from dpcalc.render.screen import cells, without_empty_columns
from dpcalc.render.words import answer, conditions, numbers
from dpcalc.version import __version__


def as_markdown(result: Result) -> str:
    """The same as the screen with all sources, as Markdown; the parts of a report one after the other."""
    told = [line for each in (result, *result.parts) for line in _told(each)]
    return "\n\n".join([*told, f"dpcalc {__version__} {result.command}, {date.today().isoformat()}"]) + "\n"


def _told(result: Result) -> list[str]:
    facts = [*numbers(result, verbose=False), *conditions(result, verbose=True)]
    guarantee = Section(title="", columns=("", ""), rows=tuple(facts))
    curve = Section(title="", columns=("δ", "ε"), rows=tuple((delta, epsilon) for epsilon, delta in result.curve))
    tables = [guarantee, *result.sections, *([curve] if result.curve else [])]
    parts = [f"**{escaped(answer(result))}**", *(_table(table) for table in tables)]
    warnings = () if result.guarantee is None else result.guarantee.warnings
    return [*parts, *(f"> **Warning:** {escaped(line)}" for line in warnings)]


def _table(section: Section) -> str:
    section = without_empty_columns(section)
    header = section.columns if any(section.columns) else ("Quantity", "Value")
    lines = [_row(header), _row(("---",) * len(header)), *(_row(row) for row in cells(section))]
    title = [f"**{escaped(section.title)}**", ""] if section.title else []
    note = ["", escaped(section.note)] if section.note else []
    return "\n".join([*title, *lines, *note])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(escaped, texts)) + " |"


def escaped(text: str) -> str:
    """Text that stays text: no cell ends early, no HTML begins."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
