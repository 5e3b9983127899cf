"""The file of a grid search: lists of values for hyperparameters, read and checked."""

from __future__ import annotations

import math
from typing import Any

from dpcalc.asked import fields_of
from dpcalc.errors import InputError
from dpcalc.files import STANDARD_STREAM, read_text
from dpcalc.spec.node import Node
from dpcalc.spec.text import MAX_BYTES, parse_yaml
from dpcalc.training.settings import SEARCHABLE, Settings

_FIELDS = {field.name: field for field in fields_of(Settings)}
_MOST_RUNS = 10_000


def read_grid(path: str) -> dict[str, list[Any]]:
    """Hyperparameters and the values to try, such as `lr: [0.1, 1]`; `-` is standard input."""
    name = "standard input" if path == STANDARD_STREAM else path
    document = parse_yaml(read_text(path, limit=MAX_BYTES, what="a grid"), name)
    found: dict[str, list[Any]] = {}
    for key, node in document.mapping("a mapping of hyperparameters to lists, such as lr: [0.1, 1]").items():
        hyperparameter = key.replace("-", "_")
        if hyperparameter not in SEARCHABLE:
            node.fail(f"cannot search over {key[:40]!r}; a grid may list {', '.join(SEARCHABLE)}.")
        if hyperparameter in found:
            node.fail("is given twice")
        found[hyperparameter] = _values(node, hyperparameter)
    runs = math.prod(map(len, found.values()))
    if not found or runs > _MOST_RUNS:
        words = f"expected 1 to {_MOST_RUNS:,} combinations of values, got {runs if found else 0:,}"
        raise InputError(words, where=name)
    return found


def _values(node: Node, name: str) -> list[Any]:
    nodes = node.items("a list of values")
    if not nodes:
        node.fail("expected a list of values, got an empty one.")
    return [_value(each, name) for each in nodes]


def _value(node: Node, name: str) -> Any:
    widths = node.content if name == "hidden" and isinstance(node.content, list) else None
    try:
        return _FIELDS[name].read(node.text("a value") if widths is None else [each.text("a width") for each in widths])
    except ValueError as error:
        node.fail(f"{error}.")
