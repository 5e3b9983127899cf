"""Entries as they are written: what a spend leaves behind, when, and behind which other entry."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from dpcalc.errors import InputError
from dpcalc.ledger.answers import Answer
from dpcalc.ledger.chain import Entry, sealed
from dpcalc.ledger.store import Charge, Row
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.tree import Account, State, accounts, main_account
from dpcalc.ledger.units import Vector, decode, encode, subtract
from dpcalc.version import __version__

_LONGEST = 100_000


class Found(NamedTuple):
    """What a decision depends on: the last entry, the spend that has the key, and totals by budget."""

    last: Row | None
    keyed: Row | None
    states: dict[str, State]


def stored_state(stored: Mapping[str, Sequence[str]] | None, upwards: Sequence[Terms]) -> State:
    """The totals of a budget as an entry tells them; nothing where none does."""
    if stored is None:
        return {account.name: account.measure.nothing for account in accounts(upwards)}
    return {account: decode(texts) for account, texts in stored.items()}


def following(identifier: str, last: Row | None, content: Mapping[str, Any]) -> tuple[Row, tuple[str, ...]]:
    """An entry sealed behind the last one, and what to warn of. Its time never runs backwards: numbers give the order.

    The first entry follows the ledger's own identifier.
    """
    number, previous = (0, identifier) if last is None else (last.entry.number, last.entry.hash)
    at, warnings = _now(), tuple[str, ...]()
    if last is not None and at < last.at:
        if at[:16] < last.at[:16]:
            warnings = (f"this machine's clock ({at}) is behind the last entry ({last.at}), whose time is used",)
        at = last.at
    content = {**content, "at": at, "version": __version__}
    return row_of(sealed(number + 1, previous, content), content), warnings


def row_of(entry: Entry, content: Mapping[str, Any]) -> Row:
    """An entry with what its text says that it is looked up by."""
    key = content["key"] if content["kind"] == "spend" else None
    return Row(
        entry, content["kind"], content["budget"], content["at"], content.get("by", ""), key, voids=content.get("voids")
    )


def _now() -> str:
    return datetime.fromtimestamp(time.time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def spend_content(
    answer: Answer,
    costs: Mapping[Account, Vector],
    after: Mapping[str, Mapping[str, Vector]],
    *,
    by: str,
    note: str,
) -> dict[str, Any]:
    """What an accepted spend says for ever."""
    request = answer.request
    return {
        "kind": "spend",
        "budget": answer.budget.name,
        "key": answer.key,
        "by": by,
        "note": note,
        "names": request.names,
        "specs": request.specs,
        "assumptions": request.assumptions,
        "cost": {account.name: encode(cost) for account, cost in costs.items()},
        "totals": encoded(after),
        "accountant": f"{answer.budget.filter} filter",
    }


def encoded(totals: Mapping[str, Mapping[str, Vector]]) -> dict[str, dict[str, list[str]]]:
    """Totals by budget and account, as text."""
    return {name: {account: encode(v) for account, v in state.items()} for name, state in totals.items()}


def shares(
    path: Sequence[Terms], before: Mapping[str, State], after: Mapping[str, Mapping[str, Vector]]
) -> tuple[Charge, ...]:
    """How much of each budget on a path an entry takes."""
    found = []
    for terms in path:
        account = main_account(terms).name
        found.append(Charge(terms.name, terms.share(subtract(after[terms.name][account], before[terms.name][account]))))
    return tuple(found)


def expect_texts(key: str, *others: str) -> None:
    """Raise unless the key says something and all are texts that any storage can keep."""
    if not key.strip():
        raise InputError("expected a key that says something, got an empty one")
    for text in (key, *others):
        if len(text) > _LONGEST or any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
            raise InputError(f"expected text of at most {_LONGEST:,} characters, without bytes that are none")
