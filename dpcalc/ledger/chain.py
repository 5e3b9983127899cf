"""Entries as text that is hashed with its predecessor, so that nothing can be changed, dropped or put between."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpcalc.errors import CertificationError, InputError

SCHEMA = "dpcalc-ledger/1"

# So much of a hash is shown to people: nobody finds another ledger with the same 128 bits.
SHOWN_DIGITS = 32


class Entry(NamedTuple):
    """One line of a ledger: its text, the hash of the one before, and its own."""

    number: int
    body: str
    previous: str
    hash: str

    @property
    def content(self) -> dict[str, Any]:
        """What the text says."""
        try:
            read = json.loads(self.body)
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise CertificationError(f"entry {self.number} cannot be read; dpcalc ledger verify says more")
        return read


def canonical(content: Any) -> str:
    """The one text of some plain data: keys sorted, no spaces; floats in the shortest form that reads back."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(number: int, previous: str, content: Mapping[str, Any]) -> Entry:
    """The next entry after one whose hash is `previous`; the first one follows the ledger's own identifier."""
    body = canonical({**content, "number": number})
    try:
        body.encode()
    except UnicodeEncodeError:
        raise InputError("expected names, keys and notes that are text, got characters that no text has") from None
    return Entry(number, body, previous, _seal(previous, body))


def _seal(previous: str, body: str) -> str:
    return digest(f"{SCHEMA}\n{previous}\n{body}")


def broken_link(entry: Entry, number: int, previous: str) -> str | None:
    """What is wrong with an entry that should have this number and predecessor; None if nothing is."""
    if entry.number != number:
        return f"entry {number} is missing or numbered {entry.number}"
    if entry.previous != previous:
        return f"entry {number} does not follow the one before it"
    if entry.hash != _seal(entry.previous, entry.body):
        return f"entry {number} was changed: its hash does not fit its text"
    if entry.content.get("number") != number:
        return f"entry {number} says that it is another"
    return None
