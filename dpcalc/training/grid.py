"""The file of a grid search: lists of values for hyperparameters, read and checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from dpcalc.errors import InputError
from dpcalc.numbers import parse_number, parse_whole
from dpcalc.training.settings import SEARCHABLE

_WORDS = ("model", "clipping", "optimizer")
_WHOLE = ("steps", "batch_size")


def read_grid(path: str) -> dict[str, list[Any]]:
    """Hyperparameters and the values to try, such as `lr: [0.1, 1]`; `-` is standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read: {error}.", where=path) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        raise InputError(f"not YAML: {getattr(error, 'problem', error)}.", where=where) from None
    if not isinstance(document, dict) or not document:
        raise InputError("expected a mapping of hyperparameters to lists, such as lr: [0.1, 1].", where=path)
    return {_name(path, key): _values(path, str(key), values) for key, values in document.items()}


def _name(path: str, key: Any) -> str:
    name = str(key).replace("-", "_")
    if name not in SEARCHABLE:
        raise InputError(f"cannot search over {key!r}; a grid may list {', '.join(SEARCHABLE)}.", where=path)
    return name


def _values(path: str, key: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise InputError(f"expected a list of values, got {values!r}.", where=f"{path}: {key}")
    try:
        return [_value(key.replace("-", "_"), value) for value in values]
    except ValueError as error:
        raise InputError(f"{error}.", where=f"{path}: {key}") from None


def _value(name: str, value: Any) -> Any:
    if name in _WORDS:
        return str(value)
    if name == "hidden":
        widths = value if isinstance(value, list) else str(value).split(",")
        return tuple(parse_whole(str(width)) for width in widths)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"expected a number, got {value!r}")
    return parse_whole(str(value)) if name in _WHOLE else parse_number(str(value))
