"""An error in the formats for programs and documents; `parts` are the fields of the JSON's `error`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from dpcalc.render.checks import annotation, suite, xml
from dpcalc.render.data import csv_text
from dpcalc.render.page import escaped
from dpcalc.report import SCHEMA

Parts = Mapping[str, Any]


def _told(parts: Parts) -> str:
    return f"{parts['where']}: {parts['message']}"


def as_json(parts: Parts) -> str:
    """The object of the contract."""
    return json.dumps({"schema": SCHEMA, "error": dict(parts)}, indent=2) + "\n"


def as_csv(parts: Parts) -> str:
    """One row with a column for each part."""
    return csv_text([parts])


def as_markdown(parts: Parts) -> str:
    """A line that stands out, where it is and what to do."""
    return f"**Error:** {escaped(_told(parts))}\n"


def as_annotation(parts: Parts) -> str:
    """An error that GitHub shows at the line of the file, if it is in one."""
    place = {key: parts[key] for key in ("file", "line") if parts["file"] and parts[key]}
    return annotation("error", "dpcalc", _told(parts), **place) + "\n"


def as_junit(parts: Parts) -> str:
    """A test that could not be run."""
    message = xml(_told(parts))
    case = f'    <testcase classname="dpcalc" name={quoteattr(xml(parts["where"]))}>'
    case += f"<error message={quoteattr(message)}>{escape(message)}</error></testcase>"
    return suite("dpcalc", [case], failures=0, errors=1, said=message)


def as_badge(parts: Parts) -> str:
    """The badge of something that does not work."""
    badge = {"schemaVersion": 1, "label": "differential privacy", "message": "error", "color": "red", "isError": True}
    return json.dumps({**badge, "message": f"error in {parts['where']}"}, ensure_ascii=False) + "\n"


FAILURES: Mapping[str, Callable[[Parts], str]] = {
    "json": as_json,
    "csv": as_csv,
    "markdown": as_markdown,
    "github": as_annotation,
    "junit": as_junit,
    "badge": as_badge,
}
