"""The ledger: budgets that several people and jobs draw on over months, and that are never overdrawn.

A spend is charged before it runs, in one transaction that no other writer is in: it is refused, or it is on the disk.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from dpcalc.errors import InputError
from dpcalc.ledger.answers import Answer, RefusedError
from dpcalc.ledger.places import open_store
from dpcalc.ledger.records import Found, encoded, expect_texts, following, shares, spend_content, stored_state
from dpcalc.ledger.requests import Request, asked
from dpcalc.ledger.store import StorageError, Store, closed_if_it_fails
from dpcalc.ledger.terms import Terms, check_family, check_terms, part_terms
from dpcalc.ledger.tree import Account, State, accounts, charged, main_account
from dpcalc.ledger.units import Vector, decode, subtract


class Ledger:
    """An open ledger. Use it as a context manager, or `close` it.

    `Ledger.open("team.db").spend("census", [(Gaussian(noise_multiplier=20), 10)], key="counts-2026")`
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        with closed_if_it_fails(store):
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
        if terms.is_part:
            raise InputError("parts are fixed with the budget that has them", where=f"budget {terms.name}")
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
            known = dict(self.budgets)
            for each in (terms, *(part_terms(terms, part) for part in terms.parts)):
                check_family(each, known)
                known[each.name] = each
                content = {"kind": "budget", "budget": each.name, "terms": each.to_json()}
                self.store.append(following(self.identifier, self.store.situation(None, []).last, content)[0])
        return True

    # -- spending -----------------------------------------------------------------------------------------------------

    def spend(self, budget: str, releases: Any, *, key: str | None = None, by: str = "", note: str = "") -> Answer:
        """Charge releases that are about to run; raises RefusedError, with nothing written, if they do not fit.

        `releases` are mechanisms (each alone or with a count), a spec, or a result. The same key with the same
        releases is charged once, however often it is asked for.
        """
        key = f"auto-{secrets.token_hex(8)}" if key is None else key
        expect_texts(key, by, note)
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
                    content = spend_content(answer, costs, after, by=by, note=note)
                    row, warnings = following(self.identifier, found.last, content)
                    charges = shares(self.path(budget), found.states, after)
                    self.store.append(row._replace(digest=request.digest, charges=charges))
                    answer = replace(answer, entry=row.entry.number, recorded=True, warnings=warnings)
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
        expect_texts("a key" if key is None else key)
        request = asked(releases, self.budget(budget).adjacency)
        with self.store.reading():
            found = self._situation(budget, key)
            costs = self._costs(self.path(budget), request)
            return self._earlier(budget, request, found) or self._decided(budget, request, key, costs, found)[0]

    @contextlib.contextmanager
    def reserve(
        self, budget: str, releases: Any, *, key: str | None = None, by: str = "", note: str = ""
    ) -> Iterator[Answer]:
        """Charge before the block runs; it does not run if the ledger refuses, or knows the key: one key is one run.

        Nothing is given back if the block fails: a crash is an outcome too, and may have told something. `void` is for
        a block that provably never ran; what goes on from a checkpoint of the same run was charged by `spend`.
        """
        yield self.spend(budget, releases, key=key, by=by, note=note).expect_new()

    def void(self, key: str, *, reason: str, by: str = "") -> tuple[int, bool]:
        """Take back a spend that provably never touched the data; its entry's number, and whether this call did it."""
        if not reason.strip():
            raise InputError("a void needs a reason: how is it known that this never ran?")
        expect_texts(key, reason, by)
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
            content |= {"reason": reason, "totals": encoded(after)}
            voiding, _ = following(self.identifier, found.last, content)
            self.store.append(voiding._replace(charges=shares(path, found.states, after)))
        return voiding.entry.number, True

    def _situation(self, budget: str, key: str | None) -> Found:
        """The ledger as far as it matters for a budget: totals on its path to the root, and of parts beside it."""
        path = self.path(budget)
        wanted: dict[str, Sequence[Terms]] = {}
        for i, terms in enumerate(path):
            wanted[terms.name] = path[i:]
            if terms.is_part:
                siblings = (f"{terms.parent}/{part}" for part in path[i + 1].parts)
                wanted.update({name: [self.budget(name), *path[i + 1 :]] for name in siblings})
        situation = self.store.situation(key, list(wanted))
        states = {name: stored_state(situation.totals.get(name), upwards) for name, upwards in wanted.items()}
        return Found(situation.last, situation.keyed, states)

    def states(self, budget: str) -> dict[str, State]:
        """The totals of a budget, of all that are charged with it, and of the parts beside it."""
        return self._situation(budget, None).states

    def total(self, name: str) -> Vector:
        """What is spent of a budget, in the units of its own filter."""
        return self.states(name)[name][main_account(self.budget(name)).name]

    def _costs(self, path: Sequence[Terms], request: Request) -> dict[Account, Vector]:
        """The request's cost in every total of the budget it is charged to."""
        return {account: account.measure.cost(request.parts(account.adjacency)) for account in accounts(path)}

    def _earlier(self, budget: str, request: Request, found: Found) -> Answer | None:
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
        self, budget: str, request: Request, key: str | None, costs: Mapping[Account, Vector], found: Found
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
