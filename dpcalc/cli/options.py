"""Options every command builds from: numbers with ranges, whole numbers, words, and the shared ones."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, TypeVar

import typer

from dpcalc.numbers import (
    AT_LEAST_ONE,
    NON_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    PROBABILITY_OR_ZERO,
    Range,
    parse_number,
    parse_whole,
)

T = TypeVar("T")


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """The parser as the command line wants it: a bad value is a usage error that names the option."""

    def parser(text: str) -> T:
        if not isinstance(text, str):  # a default, already parsed
            return text
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def number(*names: str, help: str, allowed: Range = POSITIVE, panel: str | None = None) -> Any:
    """An option that takes 1e-5 or 256/60000 and says its allowed range when it is broken."""
    parser = _checked(lambda text: parse_number(text, allowed))
    return typer.Option(*names, help=help, metavar="NUMBER", parser=parser, rich_help_panel=panel)


def whole(*names: str, help: str, allowed: Range = AT_LEAST_ONE, panel: str | None = None) -> Any:
    """An option that takes a whole number."""
    parser = _checked(lambda text: parse_whole(text, allowed))
    return typer.Option(*names, help=help, metavar="COUNT", parser=parser, rich_help_panel=panel)


def parsed(*names: str, help: str, metavar: str, parse: Callable[[str], Any], panel: str | None = None) -> Any:
    """An option with a parser of its own; `parse` raises ValueError with what is allowed."""
    return typer.Option(*names, help=help, metavar=metavar, parser=_checked(parse), rich_help_panel=panel)


class Format(str, Enum):
    """How a result is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    github = "github"
    junit = "junit"
    html = "html"
    badge = "badge"


class AdjacencyChoice(str, Enum):
    """Which data sets count as neighbours."""

    add_remove = "add-remove"
    replace_one = "replace-one"


Delta = Annotated[
    float | None, number("--delta", help="δ at which to give ε, strictly between 0 and 1.", allowed=PROBABILITY)
]
Deltas = Annotated[
    list[float] | None,
    number("--delta", help="δ at which to give ε; 0 asks for pure ε. Repeat for a curve.", allowed=PROBABILITY_OR_ZERO),
]
Curve = Annotated[bool, typer.Option("--curve", help="ε at δ from 1e-3 to 1e-12 too.")]

ReadLimit = Annotated[
    int,
    whole("--read-limit", help="Bytes that reading a file may take, if it has fewer.", panel="Running and files"),
]

_OUTPUT = "Output"
_BUDGET = "Budget limits (exit code 1 over, 3 not certified)"

FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        help="Default: by the name of --output, else table.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Write to FILE, not the screen.", metavar="FILE", rich_help_panel=_OUTPUT),
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw the curves (.png, .svg, .pdf).", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="The first line alone.", rich_help_panel=_OUTPUT)]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="All notions, orders and sources.", rich_help_panel=_OUTPUT)
]
Prior = Annotated[
    float,
    number("--prior", help="Chance that a record is in, for the risk.", allowed=PROBABILITY, panel=_OUTPUT),
]


def _limit(name: str, what: str) -> Any:
    return number(f"--max-{name}", help=f"Largest allowed {what}.", allowed=NON_NEGATIVE, panel=_BUDGET)


MaxEpsilon = Annotated[float | None, _limit("epsilon", "ε")]
MaxDelta = Annotated[float | None, _limit("delta", "δ")]
MaxMu = Annotated[float | None, _limit("mu", "μ (GDP)")]
MaxRho = Annotated[float | None, _limit("rho", "ρ (zCDP)")]
MaxAdvantage = Annotated[float | None, _limit("advantage", "advantage of an attacker")]
