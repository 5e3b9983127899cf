"""`dpcalc exp-mech`: the exponential mechanism and the Langevin chains that sample from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import AdjacencyChoice, Delta, number, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Result, Section
from dpcalc.report import rounded_up

if TYPE_CHECKING:
    from dpcalc.last_iterate.exponential_mechanism import Langevin
    from dpcalc.last_iterate.sampling import Comparison

_TARGET = "Sampling from exp(-F)"
_CHAIN = "By Langevin Monte Carlo (otherwise: exactly)"
_FINITE = "Choosing from a finite set"

Lipschitz = Annotated[
    float | None,
    number(
        "--lipschitz",
        help="L. With --strong-convexity: of F - F′ for neighbours. With --diameter: of each F. With both: of all.",
        panel=_TARGET,
    ),
]
Convexity = Annotated[
    float | None, number("--strong-convexity", help="m: every F is m-strongly convex.", panel=_TARGET)
]
Diameter = Annotated[
    float | None, number("--diameter", help="D: diameter of the convex domain; every F is convex.", panel=_TARGET)
]
Rate = Annotated[float | None, number("--lr", help="Step size η of the chain.", panel=_CHAIN)]
Smoothness = Annotated[float | None, number("--smoothness", help="M: every F is M-smooth.", panel=_CHAIN)]
Steps = Annotated[
    int | None, whole("--steps", help="Steps t of the chain; without it, its stationary law.", panel=_CHAIN)
]
Parameter = Annotated[
    float | None, number("--epsilon-mech", help="ε of the classical exponential mechanism.", panel=_FINITE)
]
Count = Annotated[int, whole("--count", help="How many choices are made.", panel=_FINITE)]
Adjacency = Annotated[AdjacencyChoice, typer.Option(help="The neighbours that L or ε is stated for.")]


@command(example="dpcalc exp-mech --lipschitz 1 --diameter 2 --delta 1e-5")
def exp_mech(
    *,
    lipschitz: Lipschitz = None,
    strong_convexity: Convexity = None,
    diameter: Diameter = None,
    lr: Rate = None,
    smoothness: Smoothness = None,
    steps: Steps = None,
    epsilon_mech: Parameter = None,
    count: Count = 1,
    delta: Delta = None,
    adjacency: Adjacency = AdjacencyChoice.replace_one,
) -> Result:
    """Privacy of the exponential mechanism, exact or by Langevin sampling (Bok, Su, Altschuler 2024, section 5).

    The textbook bound is shown next to it, with the one that wins.
    """
    from dpcalc.last_iterate import sampling

    if delta is None:
        raise InputError("--delta is needed: the δ at which to give ε, strictly between 0 and 1")
    if epsilon_mech is not None:
        given = {
            "--lipschitz": lipschitz,
            "--strong-convexity": strong_convexity,
            "--diameter": diameter,
            "--lr": lr,
            "--smoothness": smoothness,
            "--steps": steps,
        }
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InputError(f"--epsilon-mech describes the mechanism completely, got {', '.join(extra)} too")
        return _result(sampling.finite(epsilon=epsilon_mech, count=count, delta=delta, adjacency=adjacency.value))
    if lipschitz is None or (strong_convexity is None and diameter is None):
        raise InputError("expected --lipschitz L with --strong-convexity m, --diameter D or both, or --epsilon-mech E")
    if count != 1:
        raise InputError(f"--count belongs to --epsilon-mech, got --count {count}")
    comparison = sampling.continuous(
        lipschitz=lipschitz,
        strong_convexity=strong_convexity,
        diameter=diameter,
        chain=_chain(lr, smoothness, steps),
        delta=delta,
        adjacency=adjacency.value,
    )
    return _result(comparison)


def _chain(lr: float | None, smoothness: float | None, steps: int | None) -> Langevin | None:
    from dpcalc.last_iterate.exponential_mechanism import Langevin

    if lr is None and smoothness is None and steps is None:
        return None
    if lr is None or smoothness is None:
        missing = "--lr η" if lr is None else "--smoothness M"
        raise InputError(f"a Langevin chain needs --lr η and --smoothness M (η < 2/M is checked), {missing} is missing")
    return Langevin(learning_rate=lr, smoothness=smoothness, steps=steps)


def _result(comparison: Comparison) -> Result:
    rows = tuple(
        (
            entry["name"] + (" (best)" if entry["name"] == comparison.winner else ""),
            entry["theorem"],
            rounded_up(entry["mu"]),
            rounded_up(entry["epsilon"]),
            entry["note"],
        )
        for entry in comparison.bounds
    )
    columns = ("bound", "theorem", "μ", f"ε at δ = {comparison.guarantee.delta:g}", "note")
    details: dict[str, Any] = {
        "classical_epsilon": comparison.classical_epsilon,
        "winner": comparison.winner,
        "bounds": list(comparison.bounds),
    }
    return Result(
        command="exp-mech",
        guarantee=comparison.guarantee,
        details=details,
        facts=(("compared", comparison.verdict),),
        sections=(Section(title="Bounds", columns=columns, rows=rows),),
    )
