"""Long tables in JSON Lines: one object on each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.filters.logs.source import Source
from dpcalc.filters.logs.table import BATCH_ROWS, Batch, LongLog, Row, TextIds, integer_ids, stacked


def header(source: Source) -> tuple[str, ...]:
    """The names in the object of the first line."""
    with source.open() as stream:
        line = stream.readline()
    return tuple(_object(line, f"{source.name}:1"))


def batches(log: LongLog, text_ids: bool) -> Iterator[Batch]:
    """All entries, in file order."""
    entries = rows(log)
    while some := list(islice(entries, BATCH_ROWS)):
        _, steps, ids, numbers = zip(*some, strict=True)
        names: Any = np.zeros(len(steps), dtype=np.int64)
        if log.columns.id is not None:
            if not text_ids and not all(type(name) is int for name in ids):
                raise TextIds
            names = list(map(str, ids)) if text_ids else integer_ids(ids)
        columns = [np.array(column) for column in zip(*numbers, strict=True)]
        yield Batch(np.array(steps, dtype=np.int64), names, stacked(columns))


def rows(log: LongLog) -> Iterator[Row]:
    """All entries, one by one, with their lines."""
    with log.source.open() as stream:
        for index, line in enumerate(stream):
            if line.strip():
                found = _object(line, log.where(index + 1))
                further = sorted(set(found) - set(log.header))
                if further:
                    words = f"expected the keys of the first line, {', '.join(log.header)}, got also {further[0]}"
                    raise InputError(words, where=log.where(index + 1))
                step = index if log.columns.step is None else found.get("step")
                yield log.checked(index + 1, step, found.get("id"), [found.get(name) for name in log.columns.numbers])


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError
    except ValueError:
        text = line.decode(errors="replace").strip()
        raise InputError(f"expected a JSON object on each line, got {text[:60]!r}", where=where) from None
    return found
