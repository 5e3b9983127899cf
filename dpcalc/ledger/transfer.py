"""A ledger as JSON Lines, and back: a copy that carries its chain and is believed only as far as the chain holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files import LIMIT, STANDARD_STREAM, reading
from dpcalc.files.reader import in_words
from dpcalc.files.reader import opened as open_bytes
from dpcalc.ledger.chain import SCHEMA, Entry, canonical
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opened import opened
from dpcalc.ledger.records import row_of, shares
from dpcalc.ledger.requests import stored_request
from dpcalc.ledger.store import Row
from dpcalc.ledger.tree import State
from dpcalc.ledger.verify import Replay, recomputed

MAX_BYTES = 2_000_000_000
_MAX_LINE = 20_000_000


def exported(ledger: Ledger) -> Iterator[str]:
    """The lines of a ledger: what it is, then every entry with its hash."""
    with ledger.store.reading():
        number, head = ledger.store.head()
        rows = ledger.store.rows()
        yield canonical({"schema": SCHEMA, "ledger": ledger.identifier, "entries": number, "head": head}) + "\n"
        for row in rows:
            yield canonical({"hash": row.entry.hash, "body": row.entry.body}) + "\n"


def lines_of(path: str) -> Iterator[str]:
    """The lines of a file or, for `-`, of standard input: none longer than an entry may be."""
    # A stream may have no end, and what is larger than the limit should be as large on the disk.
    name, limit = ("standard input" if path == STANDARD_STREAM else path), MAX_BYTES if Path(path).is_file() else LIMIT
    with reading(name), open_bytes(path) as stream:
        number = read = 0
        while line := stream.readline(_MAX_LINE + 1):
            number, read = number + 1, read + len(line)
            if len(line) > _MAX_LINE:
                raise InputError("a line is longer than an entry may be", where=f"{name}:{number}")
            if read > limit:
                raise InputError(f"larger than the {in_words(limit)} that an export may have", where=name)
            yield line.decode(errors="replace")


def imported(url: str, lines: Iterable[str], source: str) -> int:
    """Add the entries of an export that the ledger does not have; all or none. How many were added.

    The ledger is made if it is not there, or has the export's first entries word for word. The chain, the totals, the
    limits and every cost are checked: an export that somebody sealed anew with smaller costs is not taken in.
    """
    identifier, entries = _read(lines, source)
    _check(identifier, entries, source)
    with opened(url, create=True, identifier=identifier) as ledger:
        if ledger.identifier != identifier:
            raise InputError(f"is of another ledger than {ledger.store.shown}", where=source)
        with ledger.store.writing():
            number, head = ledger.store.head()
            if number > len(entries) or (number > 0 and entries[number - 1].hash != head):
                raise InputError(f"{ledger.store.shown} has entries that the export does not have", where=source)
            replay = Replay(identifier)
            for entry in entries:
                before = dict(replay.states)
                replay.follow(entry)
                if entry.number > number:
                    ledger.store.append(_row(entry, replay, before))
    return len(entries) - number


def _check(identifier: str, entries: Sequence[Entry], source: str) -> None:
    """Raise where the entries contradict themselves, or cost more by today's engine than was charged."""
    replay = Replay(identifier)
    for entry in entries:
        wrong = replay.follow(entry)
        if not wrong and entry.content["kind"] == "spend":
            wrong = [difference.line for difference in recomputed(entry, replay)[1] if difference.too_little]
        if wrong:
            raise InputError(wrong[0], where=source)


def _read(lines: Iterable[str], source: str) -> tuple[str, list[Entry]]:
    found = [_object(line, f"{source}:{i}") for i, line in enumerate(lines, start=1) if line.strip()]
    if not found or found[0].get("schema") != SCHEMA:
        raise InputError(f"is not an export of a ledger (its first line has no schema {SCHEMA})", where=source)
    header, previous, entries = found[0], str(found[0].get("ledger")), []
    for number, line in enumerate(found[1:], start=1):
        entries.append(Entry(number, str(line.get("body")), previous, str(line.get("hash"))))
        previous = entries[-1].hash
    if (header.get("entries"), header.get("head")) != (len(entries), previous):
        raise InputError(
            f"lines are missing: {header.get('entries')} entries announced, {len(entries)} found", where=source
        )
    if not re.fullmatch("[0-9a-f]{32}", str(header.get("ledger"))):
        raise InputError("its first line names no ledger", where=source)
    return str(header["ledger"]), entries


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line) if len(line) <= _MAX_LINE else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("is not a JSON object of an export", where=where)
    return found


def _row(entry: Entry, replay: Replay, before: Mapping[str, State]) -> Row:
    content = entry.content
    row = row_of(entry, content)
    if row.kind == "budget":
        return row
    row = row._replace(charges=shares(replay.path(row.budget), before, replay.states))
    if row.kind == "void":
        return row
    return row._replace(digest=stored_request(content["specs"], replay.terms[row.budget].adjacency).digest)
