"""`dpcalc compose`: the smallest ε that can be vouched for, of a list of mechanisms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcalc.asked import Asked, number, option
from dpcalc.commands.common import (
    ADJACENCY,
    DEFAULT_TOLERANCE,
    DELTAS,
    MECHANISMS,
    SLACK,
    SPECS,
    TOLERANCE,
    asked_at,
)
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Result, Section
from dpcalc.numbers import NON_NEGATIVE
from dpcalc.report import percents
from dpcalc.terminal.progress import progress

if TYPE_CHECKING:
    from dpcalc.spec.composition import Composition, Cost
    from dpcalc.spec.specification import Document

_ROWS = 30

# Accountants without a grid, whose answers no tolerance changes.
_CLOSED = ("gdp", "rdp", "clt")

# δ of a curve that was not asked for point by point.
_CURVE = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12)


@dataclass(frozen=True, kw_only=True)
class Compose(Asked):
    """Compose mechanisms: ε at δ (or δ at ε), certified from above and below, and what each of them costs.

    SPEC lists mechanisms in YAML, or is the JSON that any dpcalc command printed. Several are composed together.
    """

    example: ClassVar[str] = (
        "dpcalc compose -m gaussian,noise_multiplier=4,count=10 -m laplace,epsilon=0.1 --delta 1e-5"
    )

    spec: Annotated[tuple[Any, ...], SPECS] = ()
    mechanism: Annotated[tuple[str, ...], MECHANISMS] = ()
    delta: Annotated[tuple[float, ...], DELTAS] = ()
    epsilon: Annotated[
        float | None, number("--epsilon", help="ε at which to give δ (in place of --delta).", allowed=NON_NEGATIVE)
    ] = None
    curve: Annotated[bool, option("--curve", help="ε at δ from 1e-3 to 1e-12 too.")] = False
    accountant: Annotated[
        Literal["auto", "gdp", "rdp", "pld", "clt"],
        option("--accountant", help="auto takes the tightest certified one; clt is an approximation."),
    ] = "auto"
    slack: Annotated[float | None, SLACK] = None
    adjacency: Annotated[Adjacency | None, ADJACENCY] = None
    tolerance: Annotated[float | None, TOLERANCE] = None

    def answer(self) -> Result:
        """The composition of everything that is listed."""
        from dpcalc.spec.sources import read_documents
        from dpcalc.spec.specification import common_budget

        if self.tolerance is not None and self.accountant in _CLOSED:
            raise InputError(
                f"has no effect on `accountant={self.accountant}`, which has a closed form", where="tolerance"
            )
        documents = read_documents(self.spec, self.mechanism)
        budget = common_budget(documents, self.limits)
        from dpcalc.spec.composition import Question, compose_documents

        deltas, epsilon = asked_at(documents, self.delta, self.epsilon)
        if self.curve and not deltas:
            raise InputError("draws ε against δ; it does not go with a question for δ", where="curve")
        question = Question(
            delta=deltas[0] if deltas else None,
            epsilon=epsilon,
            accountant=self.accountant,
            tolerance=self.tolerance or DEFAULT_TOLERANCE,
        )
        composition = compose_documents(documents, question, self.adjacency)
        points = [*deltas, *(_CURVE if self.curve else ())] if self.curve or len(deltas) > 1 else []
        sections, details = breakdown(documents, composition)
        if self.slack is not None:
            details["fitted"] = fitted(composition, self.slack)
        return Result(
            command="compose",
            guarantee=composition.guarantee,
            details=details,
            sections=sections,
            curve=tuple(composition.curve(sorted(set(points), reverse=True))),
            records=_records(composition),
            budget=budget,
        )


def fitted(composition: Composition, slack: float) -> dict[str, Any]:
    """The least μ at a slack, as the details of a result have it; it may take a while."""
    with progress("Fitting μ"):
        return composition.fitted(slack)


def breakdown(documents: list[Document], composition: Composition) -> tuple[tuple[Section, ...], dict[str, Any]]:
    """What each file and each mechanism costs: as tables, and as the details of a result."""
    details: dict[str, Any] = {
        "mechanisms": [_cost(cost) for cost in composition.costs],
        "tolerance": composition.question.tolerance,
    }
    if composition.if_poisson is not None:
        shown = {"epsilon": composition.if_poisson.epsilon, "delta": composition.if_poisson.delta}
        details["if_poisson_sampled"] = {**shown, "holds": False}
    tables = (_table(composition),) if len(composition.costs) > 1 else ()
    return (*_files(documents, composition), *tables), details


def _cost(cost: Cost) -> dict[str, Any]:
    entry = cost.entry
    sampler = entry.mechanism.sampler()
    return {
        "name": entry.name,
        "type": entry.type,
        "sampler": sampler,
        "count": entry.count,
        "epsilon": cost.epsilon,
        "share": cost.share,
    }


def _table(composition: Composition) -> Section:
    """The costliest entries first; a long list is cut here, and whole in JSON."""
    costs = sorted(composition.costs, key=lambda cost: -(cost.share or 0.0))
    rows: list[tuple[Any, ...]] = [
        (cost.entry.name, _kind(cost), cost.entry.count, cost.epsilon, share)
        for cost, share in zip(costs[:_ROWS], percents([cost.share for cost in costs]), strict=False)
    ]
    if len(costs) > _ROWS:
        rows.append((f"and {len(costs) - _ROWS:,} more", "", "", "", ""))
    columns = ("mechanism", "type", "count", "its own ε", "share")
    pure = composition.guarantee.delta == 0
    note = "share: of the sum" if pure else "share: of the total Rényi divergence at the order that decides"
    return Section(title="What each mechanism costs", columns=columns, rows=tuple(rows), note=note)


def _files(documents: list[Document], composition: Composition) -> tuple[Section, ...]:
    """What each of several files costs on its own."""
    from dpcalc.spec.composition import compose_entries

    listed = [document for document in documents if document.entries]
    if len(listed) < 2 or composition.guarantee.delta is None:
        return ()
    question = replace(composition.question, delta=composition.guarantee.delta, epsilon=None)
    adjacency = composition.guarantee.adjacency
    entries = [document.read(adjacency) for document in listed]
    rows = tuple(
        (document.name, len(part), compose_entries(part, question).epsilon)
        for document, part in zip(listed, entries, strict=True)
    )
    return (Section(title="What each file costs", columns=("file", "entries", "its own ε"), rows=rows),)


def _kind(cost: Cost) -> str:
    sampler = cost.entry.mechanism.sampler()
    return cost.entry.type if sampler == "none" else f"{cost.entry.type}, {sampler}"


def _records(composition: Composition) -> tuple[dict[str, Any], ...]:
    """The rows of CSV: the total, then every entry."""
    guarantee = composition.guarantee
    numbers = ("epsilon", "delta", "epsilon_lower", "epsilon_estimate", "delta_lower", "mu", "mu_kind", "rho")
    described = {"guarantee": guarantee.status, "adjacency": guarantee.adjacency, "accountant": guarantee.accountant}
    total = {key: getattr(guarantee, key) for key in numbers}
    names = ("name", "type", "sampler", "count", "epsilon", "share")
    return (
        {"command": "compose", "name": "total", "sampler": guarantee.sampler, **total, **described},
        *({"command": "compose", **{key: _cost(cost)[key] for key in names}} for cost in composition.costs),
    )
