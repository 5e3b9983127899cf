"""The ledger: budgets that several people and jobs draw on over months, and that are never overdrawn.

A spend is charged before it runs, in one transaction that no other writer is in: it is refused, or it is on the disk.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, NamedTuple

from dpcalc.errors import InputError
from dpcalc.ledger.answers import Answer, RefusedError
from dpcalc.ledger.chain import Entry, sealed
from dpcalc.ledger.places import open_store
from dpcalc.ledger.requests import Request, asked
from dpcalc.ledger.store import Charge, Row, StorageError, Store
from dpcalc.ledger.terms import Terms, check_terms, part_terms
from dpcalc.ledger.tree import Account, State, accounts, charged, main_account
from dpcalc.ledger.units import Vector, decode, encode, subtract
from dpcalc.version import __version__

_LONGEST = 100_000


class Ledger:
    """An open ledger. Use it as a context manager, or `close` it.

    `Ledger.open("team.db").spend("census", [(Gaussian(noise_multiplier=20), 10)], key="counts-2026")`
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.identifier = store.check_layout()
        self._terms: dict[str, Terms] = {}

    @classmethod
    def open(cls, url: str, *, write: bool = True, create: bool = False, identifier: str | None = None) -> Ledger:
        """The ledger in a file or at postgresql://…; `create` makes an empty one where there is none."""
        made = (identifier or secrets.token_hex(16)) if create else None
        return cls(open_store(url, write=write, create=made))

    def close(self) -> None:
        """Let go of the file or the connection."""
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- budgets ------------------------------------------------------------------------------------------------------

    @property
    def budgets(self) -> Mapping[str, Terms]:
        """All budgets by name, in the order in which they were made."""
        for row in self.store.budgets():
            if row.budget not in self._terms:
                self._terms[row.budget] = Terms.from_json(row.entry.content["terms"])
        return self._terms

    def budget(self, name: str) -> Terms:
        """The terms of a budget."""
        terms = self._terms.get(name) or self.budgets.get(name)
        if terms is None:
            known = ", ".join(self.budgets) or "none"
            raise InputError(f"there is no budget {name!r}; there are: {known}", where=self.store.shown)
        return terms

    def path(self, name: str) -> list[Terms]:
        """A budget and all that are charged with it, up to the root."""
        path = [self.budget(name)]
        while path[-1].parent is not None:
            path.append(self.budget(path[-1].parent))
        return path

    def add_budget(self, terms: Terms) -> bool:
        """Fix a budget for ever, with one for each of its parts; False if it is there with the same terms."""
        check_terms(terms)
        with self.store.writing():
            existing = self.budgets.get(terms.name)
            if existing is not None:
                if replace(existing, reason="") != replace(terms, reason=""):
                    raise InputError(
                        f"exists with other terms ({existing.stated()}, {existing.filter} filter, "
                        f"{existing.adjacency}); "
                        "what a budget fixes it fixes for ever",
                        where=f"budget {terms.name}",
                    )
                return False
            self._check_family(terms)
            for each in (terms, *(part_terms(terms, part) for part in terms.parts)):
                content = {"kind": "budget", "budget": each.name, "terms": each.to_json()}
                entry, at, _ = self._next(content, self.store.situation(None, []).last)
                self.store.append(Row(entry, "budget", each.name, at))
        return True

    def _check_family(self, terms: Terms) -> None:
        where = f"budget {terms.name}"
        if terms.parent is not None:
            parent = self.budget(terms.parent)
            if (parent.unit, parent.adjacency) != (terms.unit, terms.adjacency):
                raise InputError(
                    f"its parent {parent.name} is for one {parent.unit} under {parent.adjacency}; "
                    "a tree has one unit of privacy and one adjacency",
                    where=where,
                )
        if len(set(terms.parts)) < len(terms.parts):
            raise InputError("a part is given twice", where=where)
        if len(terms.parts) == 1:
            raise InputError("a partition has two parts or more", where=where)

    # -- spending -----------------------------------------------------------------------------------------------------

    def spend(self, budget: str, releases: Any, *, key: str | None = None, by: str = "", note: str = "") -> Answer:
        """Charge releases that are about to run; raises RefusedError, with nothing written, if they do not fit.

        `releases` are mechanisms (each alone or with a count), a spec, or a result. The same key with the same
        releases is charged once, however often it is asked for.
        """
        key = f"auto-{secrets.token_hex(8)}" if key is None else key
        _expect_texts(key, by, note)
        request = asked(releases, self.budget(budget).adjacency)
        costs = self._costs(self.path(budget), request)
        appended = False
        try:
            with self.store.writing():
                found = self._situation(budget, key)
                answer = self._earlier(budget, request, found)
                if answer is None:
                    answer, after = self._decided(budget, request, key, costs, found)
                    if not answer.accepted:
                        raise RefusedError(answer)
                    answer = self._recorded(answer, after, costs, found, by=by, note=note)
                    appended = True
        except StorageError as error:
            if not appended:
                raise
            raise StorageError(
                f"{error.message}; whether it was recorded is not known: ask again with the key {key}, "
                "it is charged once",
                where=error.where,
            ) from None
        return answer

    def ask(self, budget: str, releases: Any, *, key: str | None = None) -> Answer:
        """What `spend` would say; nothing is written."""
        _expect_texts("a key" if key is None else key)
        request = asked(releases, self.budget(budget).adjacency)
        with self.store.reading():
            found = self._situation(budget, key)
            costs = self._costs(self.path(budget), request)
            return self._earlier(budget, request, found) or self._decided(budget, request, key, costs, found)[0]

    @contextlib.contextmanager
    def reserve(
        self, budget: str, releases: Any, *, key: str | None = None, by: str = "", note: str = ""
    ) -> Iterator[Answer]:
        """Charge before the block runs; the block does not run if the ledger refuses.

        Nothing is given back if the block fails: a crash is an outcome too, and may have told something.
        """
        yield self.spend(budget, releases, key=key, by=by, note=note)

    def void(self, key: str, *, reason: str, by: str = "") -> tuple[int, bool]:
        """Take back a spend that provably never touched the data; its entry's number, and whether this call did it."""
        if not reason.strip():
            raise InputError("a void needs a reason: how is it known that this never ran?")
        _expect_texts(key, reason, by)
        with self.store.writing():
            row = self.store.find(key)
            if row is None:
                raise InputError(f"there is no spend with the key {key!r}", where=self.store.shown)
            earlier = self.store.void_of(row.entry.number)
            if earlier is not None:
                return earlier.entry.number, False
            path, found = self.path(row.budget), self._situation(row.budget, key)
            cost = {name: decode(texts) for name, texts in row.entry.content["cost"].items()}
            after = charged(path, found.states, cost, subtract)
            content = {"kind": "void", "budget": row.budget, "voids": row.entry.number, "key": key, "by": by}
            content |= {"reason": reason, "totals": _encoded(after)}
            entry, at, _ = self._next(content, found.last)
            charges = _shares(path, found.states, after)
            self.store.append(Row(entry, "void", row.budget, at, by, voids=row.entry.number, charges=charges))
        return entry.number, True

    def _situation(self, budget: str, key: str | None) -> _Found:
        """The ledger as far as it matters for a budget: totals on its path to the root, and of parts beside it."""
        path = self.path(budget)
        wanted: dict[str, Sequence[Terms]] = {}
        for i, terms in enumerate(path):
            wanted[terms.name] = path[i:]
            if terms.is_part:
                siblings = (f"{terms.parent}/{part}" for part in path[i + 1].parts)
                wanted.update({name: [self.budget(name), *path[i + 1 :]] for name in siblings})
        situation = self.store.situation(key, list(wanted))
        states = {name: _state(situation.totals.get(name), upwards) for name, upwards in wanted.items()}
        return _Found(situation.last, situation.keyed, states)

    def states(self, budget: str) -> dict[str, State]:
        """The totals of a budget, of all that are charged with it, and of the parts beside it."""
        return self._situation(budget, None).states

    def total(self, name: str) -> Vector:
        """What is spent of a budget, in the units of its own filter."""
        return self.states(name)[name][main_account(self.budget(name)).name]

    def _costs(self, path: Sequence[Terms], request: Request) -> dict[Account, Vector]:
        """The request's cost in every total of the budget it is charged to."""
        return {account: account.measure.cost(request.parts(account.adjacency)) for account in accounts(path)}

    def _earlier(self, budget: str, request: Request, found: _Found) -> Answer | None:
        """The answer that a key was given before; raises if it was for something else, or is void."""
        row = found.keyed
        if row is None:
            return None
        key = row.key
        if (row.budget, row.digest) != (budget, request.digest):
            raise InputError(
                f"the key {key!r} is entry {row.entry.number}, for other content "
                f"({', '.join(row.entry.content['names'])} of {row.budget}); one key is one spend"
            )
        if self.store.void_of(row.entry.number) is not None:
            raise InputError(f"the key {key!r} is entry {row.entry.number}, which was voided; take a new key")
        total = found.states[budget][main_account(self.budget(budget)).name]
        return Answer(True, self.budget(budget), key, total, total, request, entry=row.entry.number)

    def _decided(
        self, budget: str, request: Request, key: str | None, costs: Mapping[Account, Vector], found: _Found
    ) -> tuple[Answer, dict[str, dict[str, Vector]]]:
        path, before = self.path(budget), found.states
        after = charged(path, before, {account.name: cost for account, cost in costs.items()})
        refused = next((t for t in path if not t.fits(after[t.name][main_account(t).name])), None)
        deciding = refused or path[0]
        account = main_account(deciding).name
        answer = Answer(
            accepted=refused is None,
            budget=deciding,
            key=key,
            before=before[deciding.name][account],
            after=after[deciding.name][account],
            request=request,
            refused_by=None if refused is None else refused.name,
        )
        return answer, after

    def _recorded(
        self,
        answer: Answer,
        after: Mapping[str, Mapping[str, Vector]],
        costs: Mapping[Account, Vector],
        found: _Found,
        *,
        by: str,
        note: str,
    ) -> Answer:
        request, budget = answer.request, answer.budget.name
        content = {
            "kind": "spend",
            "budget": budget,
            "key": answer.key,
            "by": by,
            "note": note,
            "names": request.names,
            "specs": request.specs,
            "assumptions": request.assumptions,
            "cost": {account.name: encode(cost) for account, cost in costs.items()},
            "totals": _encoded(after),
            "accountant": f"{answer.budget.filter} filter",
        }
        entry, at, warnings = self._next(content, found.last)
        charges = _shares(self.path(budget), found.states, after)
        self.store.append(Row(entry, "spend", budget, at, by, answer.key, request.digest, charges=charges))
        return replace(answer, entry=entry.number, recorded=True, warnings=warnings)

    def _next(self, content: Mapping[str, Any], last: Row | None) -> tuple[Entry, str, tuple[str, ...]]:
        """An entry sealed behind the last one, and its time, which never runs backwards: numbers give the order."""
        number, previous = (0, self.identifier) if last is None else (last.entry.number, last.entry.hash)
        at, warnings = _now(), tuple[str, ...]()
        if last is not None and at < last.at:
            if at[:16] < last.at[:16]:
                warnings = (f"this machine's clock ({at}) is behind the last entry ({last.at}), whose time is used",)
            at = last.at
        return sealed(number + 1, previous, {**content, "at": at, "version": __version__}), at, warnings


class _Found(NamedTuple):
    """What a decision depends on: the last entry, the spend that has the key, and totals by budget."""

    last: Row | None
    keyed: Row | None
    states: dict[str, State]


def _state(stored: Mapping[str, Sequence[str]] | None, upwards: Sequence[Terms]) -> State:
    if stored is None:
        return {account.name: account.measure.nothing for account in accounts(upwards)}
    return {account: decode(texts) for account, texts in stored.items()}


def _expect_texts(key: str, *others: str) -> None:
    if not key.strip():
        raise InputError("expected a key that says something, got an empty one")
    for text in (key, *others):
        if len(text) > _LONGEST or any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
            raise InputError(f"expected text of at most {_LONGEST:,} characters, without bytes that are none")


def _now() -> str:
    return datetime.fromtimestamp(time.time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _encoded(totals: Mapping[str, Mapping[str, Vector]]) -> dict[str, dict[str, list[str]]]:
    return {name: {account: encode(v) for account, v in state.items()} for name, state in totals.items()}


def _shares(
    path: Sequence[Terms], before: Mapping[str, State], after: Mapping[str, Mapping[str, Vector]]
) -> tuple[Charge, ...]:
    found = []
    for terms in path:
        account = main_account(terms).name
        found.append(Charge(terms.name, terms.share(subtract(after[terms.name][account], before[terms.name][account]))))
    return tuple(found)
