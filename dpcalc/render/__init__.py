"""A result in the form that somebody asked for: a screen for people, data for programs, marks for CI."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpcalc.guarantee import Result

# Format, and the function that renders it; a module is imported when its format is asked for.
FORMATS = {
    "table": "dpcalc.render.screen:as_text",
    "json": "dpcalc.render.data:as_json",
    "csv": "dpcalc.render.data:as_csv",
    "markdown": "dpcalc.render.page:as_markdown",
    "github": "dpcalc.render.checks:as_annotations",
    "junit": "dpcalc.render.checks:as_junit",
    "html": "dpcalc.render.html:as_page",
    "badge": "dpcalc.render.checks:as_badge",
}

SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".xml": "junit",
    ".html": "html",
}


def render(result: Result, format: str, **settings: Any) -> str:
    """The result as the text of a format; `settings` are those of a screen: width, verbose, quiet."""
    module, _, name = FORMATS[format].partition(":")
    text: str = getattr(import_module(module), name)(result, **(settings if format == "table" else {}))
    return text
