"""`dpcalc ledger`: budgets that last longer than a process, charged before anything runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcalc.asked import Asked, argument, number, option
from dpcalc.commands.common import MECHANISMS, SPECS
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Result
from dpcalc.numbers import PROBABILITY
from dpcalc.terminal import streams

if TYPE_CHECKING:
    from dpcalc.ledger.ledger import Ledger

_NAME = argument(metavar="NAME", help="The budget.")
_ONE_OR_ALL = argument(metavar="[NAME]", help="One budget; all if it is left out.")
_BY = option("--by", metavar="WHO", help="Who spends, for the log.")


@contextlib.contextmanager
def _open(place: str, *, write: bool = False, create: bool = False) -> Iterator[Ledger]:
    from dpcalc.ledger.opened import opened

    with opened(place, write=write, create=create) as ledger:
        yield ledger


def _expect_budgets(ledger: Ledger) -> None:
    if not ledger.budgets:
        raise InputError("has no budget yet; dpcalc ledger init makes one", where=ledger.store.shown)


@dataclass(frozen=True, kw_only=True)
class _AboutLedger(Asked):
    """What all sub-commands begin with: the ledger."""

    draws: ClassVar[bool] = False

    ledger: Annotated[str, argument(metavar="LEDGER", help="A file, or postgresql://user@host/database.")]


@dataclass(frozen=True, kw_only=True)
class Init(_AboutLedger):
    """Fix a budget for ever: its limit, whom it protects, the adjacency and the filter that enforces it.

    The ledger is made if it is not there, readable by its owner alone.
    """

    example: ClassVar[str] = "dpcalc ledger init team.db --budget census --epsilon 3 --delta 1e-6"

    budget: Annotated[str, option("--budget", metavar="NAME", help="What the budget is called.")]
    epsilon: Annotated[float | None, number("--epsilon", help="Its limit, with --delta.")] = None
    delta: Annotated[float | None, number("--delta", help="δ of the limit.", allowed=PROBABILITY)] = None
    mu: Annotated[float | None, number("--mu", help="Its limit as μ-GDP.")] = None
    rho: Annotated[float | None, number("--rho", help="Its limit as ρ-zCDP.")] = None
    unit: Annotated[str | None, option("--unit", help="Whom it protects: person, household, …")] = None
    adjacency: Annotated[Adjacency | None, option("--adjacency", help="Which data sets are neighbours.")] = None
    filter: Annotated[
        Literal["auto", "gdp", "rdp"],
        option("--filter", help="gdp fits most if all is Gaussian; rdp takes all."),
    ] = "auto"
    plan: Annotated[
        str | None,
        option("--plan", metavar="SPEC", help="What is expected to be spent, to choose filter and orders by."),
    ] = None
    step_delta: Annotated[
        float | None,
        number("--step-delta", help="Part of δ kept for releases with a δ of their own; half.", allowed=PROBABILITY),
    ] = None
    parent: Annotated[str | None, option("--parent", metavar="NAME", help="Charged with it, all or nothing.")] = None
    parallel: Annotated[
        str | None,
        option("--parallel", metavar="PART,PART,…", help="Disjoint parts of the records: the largest counts."),
    ] = None

    def answer(self) -> Result:
        """The budget as it was fixed."""
        from dpcalc.ledger.opening import open_terms
        from dpcalc.ledger.requests import asked
        from dpcalc.ledger.results import made

        limits = (self.epsilon, self.mu, self.rho)
        if (self.epsilon is None) != (self.delta is None) or sum(limit is not None for limit in limits) != 1:
            raise InputError("expected one limit: `epsilon` with `delta`, `mu`, or `rho`")
        with _open(self.ledger, write=True, create=True) as opened:
            above = opened.budget(self.parent) if self.parent is not None else None
            under = self.adjacency or (above.adjacency if above else "add-remove")
            terms = open_terms(
                self.budget,
                epsilon=self.epsilon,
                delta=self.delta,
                mu=self.mu,
                rho=self.rho,
                unit=self.unit or (above.unit if above else "person"),
                adjacency=under,
                filter=self.filter,
                step_delta=self.step_delta,
                plan=None if self.plan is None else asked(self.plan, under),
                parent=self.parent,
                parts=() if self.parallel is None else tuple(part.strip() for part in self.parallel.split(",")),
            )
            return made(terms, opened, opened.add_budget(terms))


@dataclass(frozen=True, kw_only=True)
class Spend(_AboutLedger):
    """Charge releases before they run: accepted and on the disk (0), or refused with nothing written (1).

    SPEC is what compose takes. It must be certified, and stated under the ledger's adjacency or convertible by proof.
    """

    example: ClassVar[str] = (
        "dpcalc ledger spend team.db census -m gaussian,noise_multiplier=20,count=10 --key counts-2026"
    )

    name: Annotated[str, _NAME]
    spec: Annotated[tuple[Any, ...], SPECS] = ()
    mechanism: Annotated[tuple[str, ...], MECHANISMS] = ()
    key: Annotated[str | None, option("--key", metavar="K", help="The same key is charged once.")] = None
    by: Annotated[str, _BY] = ""
    note: Annotated[str, option("--note", metavar="TEXT", help="A remark for the log.")] = ""
    dry_run: Annotated[bool, option("--dry-run", help="Say what would happen; write nothing.")] = False

    def answer(self) -> Result:
        """Whether it was accepted, and what would fit if not."""
        from dpcalc.ledger.advice import Room
        from dpcalc.ledger.answers import RefusedError
        from dpcalc.ledger.requests import asked
        from dpcalc.ledger.results import answered
        from dpcalc.spec.sources import read_documents

        if self.dry_run and (self.by or self.note):
            raise InputError("has no effect on a dry run, which writes nothing", where="by" if self.by else "note")
        documents = read_documents(self.spec, self.mechanism)
        with _open(self.ledger, write=not self.dry_run) as opened:
            request = asked(documents, opened.budget(self.name).adjacency)
            try:
                if self.dry_run:
                    answer = opened.ask(self.name, request, key=self.key)
                else:
                    answer = opened.spend(self.name, request, key=self.key, by=self.by, note=self.note)
            except RefusedError as refused:
                answer = refused.answer
            advice = None if answer.accepted else Room(opened, self.name).advice(request)
            return answered(answer, advice, dry=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class Status(_AboutLedger):
    """What is spent and left, by whom and when, what still fits, and until when it lasts at this pace."""

    example: ClassVar[str] = "dpcalc ledger status team.db census"

    name: Annotated[str | None, _ONE_OR_ALL] = None
    what_if: Annotated[str | None, option("--what-if", metavar="SPEC", help="Would this fit? Nothing is written.")] = (
        None
    )

    def answer(self) -> Result:
        """Every budget as it stands."""
        from dpcalc.ledger.requests import asked
        from dpcalc.ledger.standing import standing

        with _open(self.ledger) as opened:
            _expect_budgets(opened)
            if self.what_if is None:
                return standing(opened, self.name)
            if self.name is None and len(opened.budgets) > 1:
                raise InputError(f"of which budget? There are {', '.join(opened.budgets)}", where="what_if")
            name = self.name or next(iter(opened.budgets))
            return standing(opened, name, asked(self.what_if, opened.budget(name).adjacency))


@dataclass(frozen=True, kw_only=True)
class Log(_AboutLedger):
    """Every entry, oldest first: budgets, spends and voids."""

    example: ClassVar[str] = "dpcalc ledger log team.db census -f csv"

    name: Annotated[str | None, _ONE_OR_ALL] = None

    def answer(self) -> Result:
        """The entries."""
        from dpcalc.ledger.results import logged

        with _open(self.ledger) as opened:
            _expect_budgets(opened)
            return logged(opened, self.name)


@dataclass(frozen=True, kw_only=True)
class Verify(_AboutLedger):
    """Check the chain, all totals and decisions, and every cost by today's engine: 0 confirmed, 1 contradicted."""

    example: ClassVar[str] = "dpcalc ledger verify team.db"

    head: Annotated[
        str | None,
        option("--head", metavar="HASH", help="A hash noted earlier that must be there."),
    ] = None

    def answer(self) -> Result:
        """What the audit found."""
        from dpcalc.ledger.results import audited
        from dpcalc.ledger.verify import verify

        with _open(self.ledger) as opened:
            _expect_budgets(opened)
            return audited(verify(opened, expected_head=self.head), opened)


@dataclass(frozen=True, kw_only=True)
class Void(_AboutLedger):
    """Take back a spend that provably never touched the data. A crash or a timeout proves nothing of the kind."""

    example: ClassVar[str] = "dpcalc ledger void team.db train-7 --reason 'the job never started, see ticket 12'"

    key: Annotated[str, argument(metavar="KEY", help="The key of the spend.")]
    reason: Annotated[str, option("--reason", metavar="TEXT", help="How it is known that it never ran.")]
    by: Annotated[str, _BY] = ""

    def answer(self) -> Result:
        """What is left once it is taken back."""
        from dpcalc.ledger.results import voided

        with _open(self.ledger, write=True) as opened:
            number, new = opened.void(self.key, reason=self.reason, by=self.by)
            return voided(opened, self.key, number, new)


@dataclass(frozen=True, kw_only=True)
class Export(_AboutLedger):
    """Write a ledger as JSON Lines, with its chain: a backup, or a copy for an auditor."""

    example: ClassVar[str] = "dpcalc ledger export team.db -o team.jsonl"
    writes: ClassVar[bool] = True

    output: Annotated[str | None, option("--output", "-o", metavar="FILE", help="Where to; - is the screen.")] = None

    def answer(self) -> Result:
        """Nothing more, once it is written."""
        from dpcalc.files import PRIVATE, check_paths, writing
        from dpcalc.ledger.transfer import exported

        check_paths({"`output`": self.output}, {"`ledger`": None if "://" in self.ledger else self.ledger})
        with _open(self.ledger) as opened:
            if self.output in (None, "-"):
                for line in exported(opened):
                    streams.write(line)
            else:
                with writing(str(self.output), mode=PRIVATE) as stream:
                    for line in exported(opened):
                        stream.write(line.encode())
        return Result(command="ledger export")


@dataclass(frozen=True, kw_only=True)
class Import(_AboutLedger):
    """Take in an export: all of it or nothing, after its chain, totals, limits and costs were checked."""

    example: ClassVar[str] = "dpcalc ledger import copy.db team.jsonl"

    file: Annotated[str, argument(metavar="FILE", help="An export; - is standard input.")]

    def answer(self) -> Result:
        """What was taken in."""
        from dpcalc.ledger.results import taken_in
        from dpcalc.ledger.transfer import imported, lines_of

        source = "standard input" if self.file == "-" else self.file
        added = imported(self.ledger, lines_of(self.file), source)
        with _open(self.ledger) as opened:
            return taken_in(opened, added)
