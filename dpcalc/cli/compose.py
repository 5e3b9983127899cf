"""`dpcalc compose`: the smallest ε that can be vouched for, of a list of mechanisms."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import AdjacencyChoice, Delta, number
from dpcalc.errors import InputError
from dpcalc.guarantee import Result, Section
from dpcalc.numbers import NON_NEGATIVE, Range
from dpcalc.report import rounded_up

if TYPE_CHECKING:
    from dpcalc.spec.composition import Composition, Cost
    from dpcalc.spec.specification import Document

_ROWS = 30


class AccountantChoice(str, Enum):
    """How the composition is accounted for."""

    auto = "auto"
    gdp = "gdp"
    rdp = "rdp"
    pld = "pld"
    clt = "clt"


Specs = Annotated[
    list[str] | None,
    typer.Argument(metavar="SPEC...", help="YAML specs or JSON results of dpcalc commands; - is standard input."),
]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism", "-m", metavar="MECH", help="One more entry: gaussian,noise_multiplier=1.1,count=10; repeatable."
    ),
]
Accountant = Annotated[
    AccountantChoice, typer.Option(help="auto takes the tightest certified one; clt is an approximation.")
]
AdjacencyOption = Annotated[
    AdjacencyChoice | None, typer.Option(help="Account under this one; specs that state another must convert.")
]
Tolerance = Annotated[
    float,
    number(
        "--tolerance",
        help="Largest relative gap to aim for between upper and lower bound.",
        allowed=Range(low=1e-6, high=1),
    ),
]


@command(
    example="dpcalc compose -m gaussian,noise_multiplier=1.1,sampling=poisson,rate=256/60000,count=14063 --delta 1e-5"
)
def compose(
    *,
    spec: Specs = None,
    mechanism: Mechanisms = None,
    delta: Delta = None,
    epsilon: Annotated[
        float | None, number("--epsilon", help="ε at which to give δ (in place of --delta).", allowed=NON_NEGATIVE)
    ] = None,
    accountant: Accountant = AccountantChoice.auto,
    adjacency: AdjacencyOption = None,
    tolerance: Tolerance = 1e-3,
) -> Result:
    """Compose mechanisms: ε at δ (or δ at ε), certified from above and below, and what each of them costs.

    SPEC lists mechanisms in YAML, or is the JSON that any dpcalc command printed. Several are composed together.
    """
    from dpcalc.spec.composition import Question, compose_documents
    from dpcalc.spec.sources import read_documents
    from dpcalc.spec.specification import common_budget

    documents = read_documents(spec or (), mechanism or ())
    question = Question(
        delta=asked_delta(documents, delta, epsilon),
        epsilon=epsilon,
        accountant=accountant.value,
        tolerance=tolerance,
    )
    composition = compose_documents(documents, question, adjacency.value if adjacency else None)
    details: dict[str, Any] = {"mechanisms": [_cost(cost) for cost in composition.costs]}
    if composition.if_poisson is not None:
        shown = {"epsilon": composition.if_poisson.epsilon, "delta": composition.if_poisson.delta}
        details["if_poisson_sampled"] = {**shown, "holds": False}
    return Result(
        command="compose",
        guarantee=composition.guarantee,
        details=details,
        headline=_headline(composition),
        sections=(_table(composition),),
        budget=common_budget(documents),
    )


def asked_delta(documents: list[Document], delta: float | None, epsilon: float | None) -> float | None:
    """The δ to give ε at: the option, or what the specs agree on; None if δ is what is asked for."""
    from dpcalc.spec.specification import common_delta

    if epsilon is not None:
        if delta is not None:
            raise InputError("--delta asks for ε and --epsilon asks for δ; give one of them")
        return None
    delta = common_delta(documents) if delta is None else delta
    if delta is None:
        raise InputError("at which δ? Give --delta D (or --epsilon E for the δ at it), or delta: in the spec")
    return delta


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
    rows = [
        (
            cost.entry.name,
            cost.entry.type,
            cost.entry.mechanism.sampler(),
            f"{cost.entry.count:,}",
            rounded_up(cost.epsilon),
            "–" if cost.share is None else f"{cost.share:.1%}",
        )
        for cost in costs[:_ROWS]
    ]
    if len(costs) > _ROWS:
        rows.append((f"and {len(costs) - _ROWS:,} more", "", "", "", "", ""))
    columns = ("mechanism", "type", "sampling", "count", "its own ε", "share")
    return Section(title="What each mechanism costs", columns=columns, rows=tuple(rows))


def _headline(composition: Composition) -> str:
    limiting = composition.limiting
    if len(composition.costs) == 1 or not limiting.share:
        return ""
    return f"Most of the budget goes to {limiting.entry.name}: {limiting.share:.0%} of the privacy loss."
