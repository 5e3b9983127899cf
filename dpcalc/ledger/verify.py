"""Reads a whole ledger again: the chain, every total, every decision, and every cost by today's engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpcalc.errors import DpcalcError, InputError
from dpcalc.ledger.chain import SHOWN_DIGITS, Entry, broken_link
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.requests import Request, stored_request
from dpcalc.ledger.store import Row
from dpcalc.ledger.terms import Terms, check_family, check_terms
from dpcalc.ledger.tree import Account, State, accounts, charged, main_account
from dpcalc.ledger.units import Vector, decode, float_up, subtract

# A recomputed cost may differ by rounding: what is above the old one by less than this, relatively, agrees with it.
_AGREES = 1e-9


@dataclass
class Audit:
    """What was found. `contradicted` must not be; `changed` are costs that today's engine puts lower."""

    entries: int = 0
    head: str = ""
    contradicted: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 all confirmed, 1 something contradicted, 3 something could not be checked."""
        return 1 if self.contradicted else 3 if self.not_checked else 0


class Replay:
    """The state of a ledger, built again from its entries alone."""

    def __init__(self, identifier: str) -> None:
        self.terms: dict[str, Terms] = {}
        self.states: dict[str, State] = {}
        self.spends: dict[int, Mapping[str, Any]] = {}
        self.voided: set[int] = set()
        self.keys: set[str] = set()
        self.number, self.previous = 0, identifier

    def follow(self, entry: Entry) -> list[str]:
        """Take the next entry; what is wrong with it."""
        expected = self.number + 1, self.previous
        self.number, self.previous = entry.number, entry.hash
        try:
            wrong = broken_link(entry, *expected)
            if wrong is not None:
                return [wrong]
            content = entry.content
            if content["kind"] == "budget":
                return self._budget(content)
            if content["kind"] == "spend":
                return self._spend(entry.number, content)
            if content["kind"] == "void":
                return self._void(entry.number, content)
        except (KeyError, TypeError, ValueError, AttributeError, DpcalcError) as error:
            return [f"entry {entry.number} cannot be read ({type(error).__name__}: {error})"]
        return [f"entry {entry.number} is of an unknown kind"]

    def path(self, name: str) -> list[Terms]:
        path = [self.terms[name]]
        while path[-1].parent is not None:
            path.append(self.terms[path[-1].parent])
        return path

    def _budget(self, content: Mapping[str, Any]) -> list[str]:
        terms = Terms.from_json(content["terms"])
        check_terms(terms)
        check_family(terms, self.terms)
        self.terms[terms.name] = terms
        self.states[terms.name] = {a.name: a.measure.nothing for a in accounts(self.path(terms.name))}
        return []

    def _spend(self, number: int, content: Mapping[str, Any]) -> list[str]:
        wrong = [f"entry {number}: the key {content['key']} is charged twice"] if content["key"] in self.keys else []
        self.keys.add(content["key"])
        self.spends[number] = {"budget": content["budget"], "cost": content["cost"]}
        path = self.path(content["budget"])
        after = charged(path, self.states, _decoded(content["cost"]))
        for terms in path:
            if not terms.fits(after[terms.name][main_account(terms).name]):
                wrong.append(f"entry {number} is beyond the limit of {terms.name} ({terms.stated()})")
        return wrong + self._take(number, content, after)

    def _void(self, number: int, content: Mapping[str, Any]) -> list[str]:
        spend = self.spends.get(content["voids"])
        if spend is None or content["voids"] in self.voided:
            return [f"entry {number} voids what is no spend, or void already"]
        self.voided.add(content["voids"])
        path = self.path(spend["budget"])
        return self._take(number, content, charged(path, self.states, _decoded(spend["cost"]), subtract))

    def _take(self, number: int, content: Mapping[str, Any], after: Mapping[str, Mapping[str, Vector]]) -> list[str]:
        self.states.update(after)
        stored = {name: _decoded(state) for name, state in content["totals"].items()}
        return [] if stored == after else [f"entry {number}: the totals it states are not the sum of what was charged"]


def _decoded(state: Mapping[str, list[str]]) -> dict[str, Vector]:
    return {account: decode(texts) for account, texts in state.items()}


def verify(ledger: Ledger, *, expected_head: str | None = None) -> Audit:
    """Everything that can be checked from the inside; `expected_head` is a hash, or half of one, noted elsewhere."""
    if expected_head is not None and not re.fullmatch(f"[0-9a-f]{{{SHOWN_DIGITS},64}}", expected_head):
        raise InputError(f"expected {SHOWN_DIGITS} to 64 hexadecimal digits, got {expected_head!r}", where="head")
    audit = Audit(contradicted=[f"the database: {fault}" for fault in ledger.store.faults()])
    replay = Replay(ledger.identifier)
    seen = expected_head is None
    with ledger.store.reading():
        moved = ledger.store.moved()
        for row in ledger.store.rows():
            audit.entries, audit.head = audit.entries + 1, row.entry.hash
            seen = seen or row.entry.hash.startswith(str(expected_head))
            charges = moved.pop(row.entry.number, set())
            audit.contradicted += replay.follow(row.entry) or _columns(row, charges)
            if row.kind == "spend":
                _recompute(row, replay, audit)
        audit.contradicted += [line for name in replay.terms for line in _total(ledger, replay, name)]
    audit.contradicted += [f"charges of entry {number}, which is not there" for number in moved]
    if not seen:
        audit.contradicted.append(f"no entry has the hash {expected_head}: entries were replaced or lost")
    return audit


def _total(ledger: Ledger, replay: Replay, name: str) -> list[str]:
    """Whether the ledger decides by what its entries add up to."""
    try:
        if ledger.total(name) == replay.states[name][main_account(replay.terms[name]).name]:
            return []
    except (DpcalcError, KeyError, TypeError, ValueError) as error:
        return [f"budget {name}: its total cannot be read ({error})"]
    return [f"budget {name}: the ledger reads another total than its entries add up to"]


def _columns(row: Row, moved: set[str]) -> list[str]:
    """Whether an entry is found by what its text says."""
    content = row.entry.content
    key = content["key"] if content["kind"] == "spend" else None
    said = (content["kind"], content["budget"], content["at"], content.get("by", ""), content.get("voids"), key)
    found = (row.kind, row.budget, row.at, row.who, row.voids, row.key)
    if said == found and moved == content.get("totals", {}).keys():
        return []
    return [f"entry {row.entry.number}: its columns do not say what its text says"]


def _recompute(row: Row, replay: Replay, audit: Audit) -> None:
    """The cost by today's engine, from the spec as it was stored."""
    number = row.entry.number
    try:
        request, differences = recomputed(row.entry, replay)
    except (DpcalcError, KeyError, TypeError, ValueError, AttributeError) as error:
        audit.not_checked.append(f"entry {number}: its cost cannot be recomputed ({error})")
        return
    if request.digest != row.digest:
        audit.contradicted.append(f"entry {number}: its digest is not that of its spec")
    for difference in differences:
        (audit.contradicted if difference.too_little else audit.changed).append(difference.line)


class Difference(NamedTuple):
    """A cost that today's engine computes otherwise, and whether too little was charged."""

    line: str
    too_little: bool


def recomputed(entry: Entry, replay: Replay) -> tuple[Request, list[Difference]]:
    """What a spend asked for, and where its cost by today's engine differs from what was charged."""
    content = entry.content
    path, old = replay.path(content["budget"]), _decoded(content["cost"])
    request = stored_request(content["specs"], path[0].adjacency)
    new = {account: account.measure.cost(request.parts(account.adjacency)) for account in accounts(path)}
    found = (_difference(entry.number, account, old.get(account.name), cost) for account, cost in new.items())
    return request, [difference for difference in found if difference is not None]


def _difference(number: int, account: Account, old: Vector | None, new: Vector) -> Difference | None:
    if old is None or len(old) != len(new):
        return Difference(f"entry {number}: nothing was charged in {account.name}", True)
    pairs = [(float_up(a), float_up(b)) for a, b in zip(old, new, strict=True)]
    if all(b <= a * (1 + _AGREES) and a <= b * (1 + _AGREES) for a, b in pairs):
        return None
    low = [(a, b) for a, b in pairs if b > a * (1 + _AGREES)]
    a, b = low[0] if low else max(pairs, key=lambda pair: pair[0] - pair[1])
    line = f"entry {number}: was charged {a:.9g}, today's engine says {b:.9g} ({account.measure.kind})"
    return Difference(line, bool(low))
