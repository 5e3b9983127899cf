"""`dpcalc ledger`: budgets that last longer than a process, charged before anything runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import streams
from dpcalc.cli.command import OnceCommand, command
from dpcalc.cli.compose import Mechanisms, Specs
from dpcalc.cli.options import AdjacencyChoice, number
from dpcalc.errors import InputError
from dpcalc.guarantee import Result
from dpcalc.numbers import PROBABILITY

if TYPE_CHECKING:
    from dpcalc.ledger.ledger import Ledger

Place = Annotated[str, typer.Argument(metavar="LEDGER", help="A file, or postgresql://user@host/database.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The budget.")]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One budget; all if it is left out.")]
By = Annotated[str, typer.Option("--by", metavar="WHO", help="Who spends, for the log.")]


class FilterChoice(str, Enum):
    """Which filter enforces a budget."""

    auto = "auto"
    gdp = "gdp"
    rdp = "rdp"


@contextlib.contextmanager
def _open(place: str, *, write: bool = False, create: bool = False) -> Iterator[Ledger]:
    from dpcalc.ledger.ledger import Ledger

    with Ledger.open(place, write=write, create=create) as ledger:
        yield ledger


@command(example="dpcalc ledger init team.db --budget census --epsilon 3 --delta 1e-6")
def init(
    *,
    ledger: Place,
    budget: Annotated[str, typer.Option("--budget", metavar="NAME", help="What the budget is called.")],
    epsilon: Annotated[float | None, number("--epsilon", help="Its limit, with --delta.")] = None,
    delta: Annotated[float | None, number("--delta", help="δ of the limit.", allowed=PROBABILITY)] = None,
    mu: Annotated[float | None, number("--mu", help="Its limit as μ-GDP.")] = None,
    rho: Annotated[float | None, number("--rho", help="Its limit as ρ-zCDP.")] = None,
    unit: Annotated[str | None, typer.Option(help="Whom it protects: person, household, …")] = None,
    adjacency: Annotated[AdjacencyChoice | None, typer.Option(help="Which data sets are neighbours.")] = None,
    filter_: Annotated[
        FilterChoice, typer.Option("--filter", help="gdp fits most if all is Gaussian; rdp takes all.")
    ] = FilterChoice.auto,
    plan: Annotated[
        str | None, typer.Option(metavar="SPEC", help="What is expected to be spent, to choose filter and orders by.")
    ] = None,
    step_delta: Annotated[
        float | None,
        number("--step-delta", help="Part of δ kept for releases with a δ of their own; half.", allowed=PROBABILITY),
    ] = None,
    parent: Annotated[str | None, typer.Option(metavar="NAME", help="Charged with it, all or nothing.")] = None,
    parallel: Annotated[
        str | None, typer.Option(metavar="PART,PART,…", help="Disjoint parts of the records: the largest counts.")
    ] = None,
) -> Result:
    """Fix a budget for ever: its limit, whom it protects, the adjacency and the filter that enforces it.

    The ledger is made if it is not there, readable by its owner alone.
    """
    from dpcalc.ledger.opening import open_terms
    from dpcalc.ledger.requests import asked
    from dpcalc.ledger.results import made

    if (epsilon is None) != (delta is None) or sum(limit is not None for limit in (epsilon, mu, rho)) != 1:
        raise InputError("expected one limit: --epsilon with --delta, --mu, or --rho")
    with _open(ledger, write=True, create=True) as opened:
        above = opened.budget(parent) if parent is not None else None
        under = adjacency.value if adjacency else above.adjacency if above else "add-remove"
        terms = open_terms(
            budget,
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            rho=rho,
            unit=unit or (above.unit if above else "person"),
            adjacency=under,
            filter=filter_.value,
            step_delta=step_delta,
            plan=None if plan is None else asked(plan, under),
            parent=parent,
            parts=() if parallel is None else tuple(part.strip() for part in parallel.split(",")),
        )
        return made(terms, opened, opened.add_budget(terms))


@command(example="dpcalc ledger spend team.db census -m gaussian,noise_multiplier=20,count=10 --key counts-2026")
def spend(
    *,
    ledger: Place,
    name: Name,
    spec: Specs = None,
    mechanism: Mechanisms = None,
    key: Annotated[str | None, typer.Option(metavar="K", help="The same key is charged once.")] = None,
    by: By = "",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A remark for the log.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")] = False,
) -> Result:
    """Charge releases before they run: accepted and on the disk (0), or refused with nothing written (1).

    SPEC is what compose takes. It must be certified, and stated under the ledger's adjacency or convertible by proof.
    """
    from dpcalc.ledger.advice import Room
    from dpcalc.ledger.answers import RefusedError
    from dpcalc.ledger.requests import asked
    from dpcalc.ledger.results import answered
    from dpcalc.spec.sources import read_documents

    if dry_run and (by or note):
        raise InputError("has no effect on a dry run, which writes nothing", where="by" if by else "note")
    documents = read_documents(spec or (), mechanism or ())
    with _open(ledger, write=not dry_run) as opened:
        request = asked(documents, opened.budget(name).adjacency)
        try:
            if dry_run:
                answer = opened.ask(name, request, key=key)
            else:
                answer = opened.spend(name, request, key=key, by=by, note=note)
        except RefusedError as refused:
            answer = refused.answer
        advice = None if answer.accepted else Room(opened, name).advice(request)
        return answered(answer, advice, dry=dry_run)


@command(example="dpcalc ledger status team.db census")
def status(
    *,
    ledger: Place,
    name: OptionalName = None,
    what_if: Annotated[
        str | None, typer.Option("--what-if", metavar="SPEC", help="Would this fit? Nothing is written.")
    ] = None,
) -> Result:
    """What is spent and left, by whom and when, what still fits, and until when it lasts at this pace."""
    from dpcalc.ledger.requests import asked
    from dpcalc.ledger.standing import standing

    with _open(ledger) as opened:
        _expect_budgets(opened)
        if what_if is None:
            return standing(opened, name)
        if name is None and len(opened.budgets) > 1:
            raise InputError(f"--what-if: of which budget? There are {', '.join(opened.budgets)}")
        name = name or next(iter(opened.budgets))
        return standing(opened, name, asked(what_if, opened.budget(name).adjacency))


def _expect_budgets(ledger: Ledger) -> None:
    if not ledger.budgets:
        raise InputError("has no budget yet; dpcalc ledger init makes one", where=ledger.store.shown)


@command(example="dpcalc ledger log team.db census -f csv")
def log(*, ledger: Place, name: OptionalName = None) -> Result:
    """Every entry, oldest first: budgets, spends and voids."""
    from dpcalc.ledger.results import logged

    with _open(ledger) as opened:
        _expect_budgets(opened)
        return logged(opened, name)


@command(example="dpcalc ledger verify team.db")
def verify(
    *,
    ledger: Place,
    head: Annotated[
        str | None, typer.Option("--head", metavar="HASH", help="A hash noted earlier that must be there.")
    ] = None,
) -> Result:
    """Check the chain, all totals and decisions, and every cost by today's engine: 0 confirmed, 1 contradicted."""
    from dpcalc.ledger.results import audited
    from dpcalc.ledger.verify import verify as check

    with _open(ledger) as opened:
        _expect_budgets(opened)
        return audited(check(opened, expected_head=head), opened)


@command(example="dpcalc ledger void team.db train-7 --reason 'the job never started, see ticket 12'")
def void(
    *,
    ledger: Place,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the spend.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="How it is known that it never ran.")],
    by: By = "",
) -> Result:
    """Take back a spend that provably never touched the data. A crash or a timeout proves nothing of the kind."""
    from dpcalc.ledger.results import voided

    with _open(ledger, write=True) as opened:
        number, new = opened.void(key, reason=reason, by=by)
        return voided(opened, key, number, new)


def export(
    ledger: Place,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is the screen.")
    ] = None,
) -> None:
    """Write a ledger as JSON Lines, with its chain: a backup, or a copy for an auditor."""
    from dpcalc.files import PRIVATE, check_paths, writing
    from dpcalc.ledger.transfer import exported

    check_paths({"--output": output}, {"LEDGER": None if "://" in ledger else ledger})
    with _open(ledger) as opened:
        if output in (None, "-"):
            for line in exported(opened):
                streams.write(line)
            return
        assert output is not None
        with writing(output, mode=PRIVATE) as stream:
            for line in exported(opened):
                stream.write(line.encode())


@command(name="import", example="dpcalc ledger import copy.db team.jsonl")
def import_(
    *,
    ledger: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An export; - is standard input.")],
) -> Result:
    """Take in an export: all of it or nothing, after its chain, totals, limits and costs were checked."""
    from dpcalc.files import read_bytes
    from dpcalc.ledger.results import taken_in
    from dpcalc.ledger.transfer import MAX_BYTES, imported

    text = read_bytes(file, limit=MAX_BYTES, what="an export").decode(errors="replace")
    added = imported(ledger, text.splitlines(), "standard input" if file == "-" else file)
    with _open(ledger) as opened:
        return taken_in(opened, added)


_HELP: dict[str, object] = {"help_option_names": ["-h", "--help"]}
ledger = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Budgets that outlive a process: charged before anything runs, and never overdrawn.",
    epilog="Example: dpcalc ledger init team.db --budget census --epsilon 3 --delta 1e-6",
    context_settings=_HELP,
)
for _command in (init, spend, status, log, verify, void, import_):
    ledger.registered_commands += _command.registered_commands
ledger.command(
    name="export",
    cls=OnceCommand,
    context_settings=_HELP,
    epilog="Example: dpcalc ledger export team.db -o team.jsonl",
)(export)
