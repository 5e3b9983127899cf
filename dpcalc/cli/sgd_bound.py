"""`dpcalc sgd-bound`: what the last iterate of noisy gradient descent tells, when only it is released."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import Delta, number, parsed, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Result
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, parse_number
from dpcalc.report import rounded_up

if TYPE_CHECKING:
    from dpcalc.last_iterate.request import Request
    from dpcalc.last_iterate.schedule import Schedule
    from dpcalc.last_iterate.solve import Unknown

    Noises = dict[Unknown, "Noise | None"]

_RUN = "The run"
_LOSS = "The losses"
_SEARCH = "Sweeps and targets"
_SCHEDULE_BYTES = 100_000_000


class AlgorithmChoice(str, Enum):
    """Which batches a step uses."""

    gd = "gd"
    cgd = "cgd"
    sgd = "sgd"


@dataclass(frozen=True)
class Noise:
    """A noise level, or None where it is to be solved for."""

    level: float | None

    @classmethod
    def parse(cls, text: str) -> Noise:
        """`solve`, or a positive number."""
        return cls(None if text == "solve" else parse_number(text, POSITIVE))


@dataclass(frozen=True)
class SweepText:
    """A sweep as it was written; read when the numerical modules are loaded anyway."""

    text: str


Algorithm = Annotated[
    AlgorithmChoice,
    typer.Option(
        "--algorithm",
        help="gd: all records. cgd: batches in a fixed cycle. sgd: random batches of fixed size.",
        rich_help_panel=_RUN,
    ),
]
Rate = Annotated[float | None, number("--lr", help="Step size η.", panel=_RUN)]
Sigma = Annotated[
    Noise | None,
    parsed(
        "--sigma",
        help="σ: noise on the AVERAGE gradient of a batch. Or solve.",
        metavar="NUMBER",
        parse=Noise.parse,
        panel=_RUN,
    ),
]
Multiplier = Annotated[
    Noise | None,
    parsed(
        "--noise-multiplier",
        help="z, with --clip C: the noise on the SUM is zC, as in train; σ = zC/b. Or solve.",
        metavar="NUMBER",
        parse=Noise.parse,
        panel=_RUN,
    ),
]
Relative = Annotated[
    Noise | None,
    parsed(
        "--noise-over-sensitivity",
        help="bσ/L, instead of σ. Or solve.",
        metavar="NUMBER",
        parse=Noise.parse,
        panel=_RUN,
    ),
]
Sensitivity = Annotated[
    float | None,
    number("--sensitivity", help="L: largest distance between two records' gradients.", panel=_LOSS),
]
Clip = Annotated[float | None, number("--clip", help="C: gradients are clipped at this norm, so L = 2C.", panel=_LOSS)]
Size = Annotated[int, whole("--n", help="Number of records n.", panel=_RUN)]
Batch = Annotated[int | None, whole("--batch-size", help="Records b in a batch (cgd, sgd).", panel=_RUN)]
Steps = Annotated[int | None, whole("--steps", help="Number of steps t.", panel=_RUN)]
Epochs = Annotated[float | None, number("--epochs", help="Number of epochs E, instead of steps.", panel=_RUN)]
Convexity = Annotated[
    float | None,
    number(
        "--strong-convexity",
        help="m: every loss is m-strongly convex; 0 if merely convex.",
        allowed=NON_NEGATIVE,
        panel=_LOSS,
    ),
]
Smoothness = Annotated[float | None, number("--smoothness", help="M: every loss is M-smooth.", panel=_LOSS)]
Diameter = Annotated[
    float | None,
    number("--diameter", help="D: iterates are projected onto a convex set of this diameter.", panel=_LOSS),
]
ScheduleFile = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="FILE",
        rich_help_panel=_RUN,
        help="CSV step,lr,sigma instead of --lr and --sigma: a row holds from its step (the first is 1) to the next.",
    ),
]
SweepOption = Annotated[
    list[SweepText] | None,
    parsed(
        "--sweep",
        help="epochs=10:200:10 or lr=0.1,0.05; also steps, sigma, batch-size, … Twice: both against each other.",
        metavar="NAME=A:B:STEP",
        parse=SweepText,
        panel=_SEARCH,
    ),
]
Target = Annotated[
    float | None,
    number(
        "--target-epsilon", help="Find the longest run within ε; with --sigma solve, the least noise.", panel=_SEARCH
    ),
]


@command(
    example="dpcalc sgd-bound --algorithm cgd --lr 0.05 --clip 5 --noise-multiplier 3 --n 60000 --batch-size 1500 "
    "--epochs 50 --strong-convexity 0.002 --smoothness 32 --delta 1e-5",
    plot=True,
)
def sgd_bound(
    *,
    algorithm: Algorithm,
    n: Size,
    sensitivity: Sensitivity = None,
    clip: Clip = None,
    lr: Rate = None,
    sigma: Sigma = None,
    noise_multiplier: Multiplier = None,
    noise_over_sensitivity: Relative = None,
    batch_size: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    strong_convexity: Convexity = None,
    smoothness: Smoothness = None,
    diameter: Diameter = None,
    delta: Delta = None,
    schedule: ScheduleFile = None,
    sweep: SweepOption = None,
    target_epsilon: Target = None,
) -> Result:
    """Privacy of the LAST iterate of noisy gradient descent on convex losses (Bok, Su, Altschuler 2024).

    X ← Π[X − η((1/b)Σ∇f + N(0, σ²I))]. σ is the noise on the average of a batch, and L is the sensitivity to REPLACING
    one record, twice a clip. Every bound that applies is listed with its theorem; the best is the answer. Without
    convexity (--strong-convexity or --diameter, with --smoothness) that is composition.
    """
    from dpcalc.last_iterate.request import Request

    noises: Noises = {
        "sigma": sigma,
        "noise_multiplier": noise_multiplier,
        "noise_over_sensitivity": noise_over_sensitivity,
    }
    _check_mode(
        noises=noises,
        length=steps or epochs,
        sweep=sweep,
        target=target_epsilon,
    )
    if delta is None:
        raise InputError("--delta is needed: the δ at which to give ε, strictly between 0 and 1")
    request = Request(
        algorithm=algorithm.value,
        sensitivity=sensitivity,
        clip=clip,
        n=n,
        delta=delta,
        lr=lr,
        **{name: noise.level if noise else None for name, noise in noises.items()},
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        diameter=diameter,
        schedule=_read_schedule(schedule) if schedule is not None else None,
    )
    if sweep:
        return _swept(request, sweep)
    if target_epsilon is not None:
        return _solved(request, target_epsilon, unknown=_unknown(noises))
    from dpcalc.last_iterate.analysis import analyse
    from dpcalc.last_iterate.results import single_result

    return single_result(analyse(request))


def _unknown(noises: Noises) -> Unknown | None:
    """The noise that is to be solved for; None if the length of the run is."""
    return next((name for name, noise in noises.items() if noise is not None and noise.level is None), None)


def _check_mode(
    *,
    noises: Noises,
    length: float | None,
    sweep: list[SweepText] | None,
    target: float | None,
) -> None:
    solving = _unknown(noises) is not None
    given = [f"--{name.replace('_', '-')}" for name, noise in noises.items() if noise is not None]
    if len(given) > 1:
        raise InputError(f"the noise is given as {' and as '.join(given)}: keep one of them")
    if target is None and solving:
        raise InputError("solve needs --target-epsilon, the ε to stay within")
    if target is not None and not solving and length is not None:
        raise InputError("--target-epsilon finds the longest run: drop --steps and --epochs, or give --sigma solve")
    if target is not None and sweep:
        raise InputError("--target-epsilon and --sweep cannot be combined")


def _read_schedule(path: str) -> Schedule:
    from dpcalc.files import read_text
    from dpcalc.last_iterate.schedule import read_schedule

    return read_schedule(read_text(path, limit=_SCHEDULE_BYTES, what="a schedule"), name=path)


def _swept(request: Request, swept: list[SweepText]) -> Result:
    from dpcalc.cli.progress import progress
    from dpcalc.last_iterate.results import sweep_result
    from dpcalc.last_iterate.sweep import Sweep, check_sweeps, run_sweeps

    try:
        sweeps = [Sweep.parse(each.text) for each in swept]
    except ValueError as error:
        raise InputError(str(error), where="--sweep") from None
    check_sweeps(sweeps)
    names = " and ".join(sweep.name for sweep in sweeps)
    with progress(f"Sweeping {names}", total=prod(len(sweep.values) for sweep in sweeps)) as advance:
        return sweep_result(sweeps, run_sweeps(request, sweeps, advance=advance))


def _solved(request: Request, target: float, *, unknown: Unknown | None) -> Result:
    from dpcalc.last_iterate.results import single_result
    from dpcalc.last_iterate.solve import MOST_STEPS, least_noise, longest_run

    if unknown is None:
        analysis = longest_run(request, target=target)
        steps = analysis.setting.steps
        limit = " or more (the search stops there)" if steps >= MOST_STEPS // 2 else ""
        headline = f"{steps:,} steps{limit} is the longest run within ε = {target:g}"
        return single_result(analysis, solution={"solution": steps, "solved_for": "steps"}, headline=headline)
    analysis = least_noise(request, target=target, unknown=unknown)
    noise: float = getattr(analysis.request, unknown)
    headline = f"{unknown} = {rounded_up(noise)} is the least noise within ε = {target:g}"
    return single_result(analysis, solution={"solution": noise, "solved_for": unknown}, headline=headline)
