"""Long tables in JSON Lines: one object on each line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files import lines
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import LongLog, Row


def header(source: Source) -> tuple[str, ...]:
    """The names in the object of the first line."""
    with source.open() as stream:
        number, line = next((number, line) for number, line in lines(stream, source.name) if line.strip())
    return tuple(_object(line, f"{source.name}:{number}"))


def rows(log: LongLog) -> Iterator[Row]:
    """All entries, one by one, with their lines."""
    with log.source.open() as stream:
        for number, line in lines(stream, log.source.name):
            if line.strip():
                found = _object(line, log.where(number))
                further = sorted(set(found) - set(log.header))
                if further:
                    words = f"expected the keys of the first line, {', '.join(log.header)}, got also {further[0][:40]}"
                    raise InputError(words, where=log.where(number))
                step = number - 1 if log.columns.step is None else found.get("step")
                yield log.checked(number, step, found.get("id"), [found.get(name) for name in log.columns.numbers])


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_each_once)
        if not isinstance(found, dict):
            raise ValueError
    except KeyError as twice:
        raise InputError(f"the key {str(twice.args[0])[:40]!r} is given twice", where=where) from None
    except (ValueError, RecursionError):
        text = line[:240].decode(errors="replace").strip()
        raise InputError(f"expected a JSON object on each line, got {text[:60]!r}", where=where) from None
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise KeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found
