"""`dpcalc exp-mech`: the exponential mechanism and the Langevin chains that sample from it."""

from __future__ import annotations

from typing import Annotated

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import AdjacencyChoice, Delta, number, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Result

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
    from dpcalc.last_iterate.sampling_request import SamplingRequest
    from dpcalc.last_iterate.sampling_result import sampling_result

    if delta is None:
        raise InputError("--delta is needed: the δ at which to give ε, strictly between 0 and 1")
    request = SamplingRequest(
        delta=delta,
        adjacency=adjacency.value,
        lipschitz=lipschitz,
        strong_convexity=strong_convexity,
        diameter=diameter,
        lr=lr,
        smoothness=smoothness,
        steps=steps,
        epsilon_mech=epsilon_mech,
        count=count,
    )
    return sampling_result(request, request.answer())
