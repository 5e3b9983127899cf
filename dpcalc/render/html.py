"""One page that needs nothing else: verdict, numbers, pictures, conditions and how to compute it again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from dpcalc.errors import missing
from dpcalc.guarantee import Budget, Guarantee, Result, Section
from dpcalc.render.drawing import as_svg, bars_as_svg
from dpcalc.render.pictures import bars, charts
from dpcalc.render.screen import cell, cells, labelled, numeric_columns, printable, without_empty_columns
from dpcalc.render.words import Fact, answer, conditions, in_plain_words, numbers
from dpcalc.report import plain
from dpcalc.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

_OUTCOMES = {"within": "within the limit", "over": "over the limit", "unproved": "not shown to be within the limit"}
_MOST_ROWS = 500
_LISTS = ("ledger log",)


@dataclass(frozen=True)
class Drawing:
    """A picture with its words."""

    title: str
    subtitle: str
    svg: Any


@dataclass(frozen=True)
class Table:
    """A table as text; of its columns, `sides` tells those of numbers, which stand on the right."""

    title: str
    columns: tuple[str, ...]
    sides: list[str]
    rows: list[list[str]]
    note: str


@dataclass(frozen=True)
class Part:
    """One result as the template needs it."""

    command: str
    answer: str
    outcome: str
    verdict: str
    sentence: str
    facts: list[Fact]
    drawings: list[Drawing]
    tables: list[Table]
    conditions: list[Fact]
    warnings: tuple[str, ...]
    spec: str


def as_page(result: Result, *, title: str = "Privacy report") -> str:
    """A self-contained HTML page: no script, no request, light and dark, fit for printing and for screen readers."""
    template = _environment().get_template("page.html")  # before any picture is computed: it may be missing
    parts = [_part(each) for each in (result, *result.parts)]
    about = [printable(name) for name in result.details.get("sources") or ()]
    when = date.today().isoformat()
    page: str = template.render(title=title, about=about, parts=parts, version=__version__, date=when)
    return page


def as_fragment(result: Result) -> str:
    """The same for a notebook: a piece of a page, without pictures that would have to be computed."""
    template = _environment().get_template("fragment.html")
    fragment: str = template.render(part=_part(result, draw=False), version=__version__)
    return fragment


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        raise missing("pages need Jinja2", "report") from None
    folder = resources.files("dpcalc.render") / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _part(result: Result, *, draw: bool = True) -> Part:
    outcome = next((each for each in ("over", "unproved", "within") if each in result.outcomes), "none")
    # What a list of entries belongs to is told where its budget is.
    guarantee = None if result.command in _LISTS else result.guarantee
    return Part(
        command=result.command,
        answer=printable(answer(result)),
        outcome=outcome,
        verdict=_OUTCOMES.get(outcome, ""),
        sentence="" if guarantee is None else _unbroken(in_plain_words(guarantee)),
        facts=[(label, _unbroken(text)) for label, text in (*numbers(result, verbose=False), *labelled(result))],
        drawings=_drawings(result) if draw and guarantee is not None else [],
        tables=[_table(section) for section in result.sections if any(section.columns)] + _curve(result),
        conditions=[] if guarantee is None else conditions(result, verbose=True),
        warnings=() if guarantee is None else guarantee.warnings,
        spec="" if guarantee is None else spec_text(guarantee, result.budget),
    )


def _drawings(result: Result) -> list[Drawing]:
    from markupsafe import Markup

    # Markup: the drawings are our own text, and escape what they take from the result.
    curves = [Drawing(each.title, each.subtitle, Markup(as_svg(each))) for each in charts(result)]
    return curves + [Drawing(each.title, each.subtitle, Markup(bars_as_svg(each))) for each in bars(result)]


def _unbroken(text: str) -> str:
    """A number stays with its sign and its unit at the end of a line."""
    return text.replace(" %", "\u00a0%").replace("≤ ", "≤\u00a0")


def _table(section: Section) -> Table:
    section = without_empty_columns(section)
    rows = cells(section)[:_MOST_ROWS]
    left = len(section.rows) - len(rows)
    more = f" and {left:,} rows more, which the JSON has" if left > 0 else ""
    sides = ["number" if each else "" for each in numeric_columns(section)]
    return Table(section.title, section.columns, sides, rows, section.note + more)


def _curve(result: Result) -> list[Table]:
    if not result.curve:
        return []
    rows = [[cell(delta), cell(epsilon)] for epsilon, delta in result.curve]
    return [Table("ε at several δ", ("δ", "ε"), ["number", "number"], rows, "all of them hold")]


def spec_text(guarantee: Guarantee, budget: Budget) -> str:
    """The spec that gives the guarantee and its verdict again; empty where it lists no mechanisms."""
    if not guarantee.mechanisms:
        return ""
    import yaml

    asked = {"delta": guarantee.delta} if guarantee.asks == "epsilon" and guarantee.delta is not None else {}
    limits = {"budget": budget.limits()} if budget.limits() else {}
    spec = {"adjacency": guarantee.adjacency, **asked, **limits, "mechanisms": plain(list(guarantee.mechanisms))}
    text: str = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100)
    return text
