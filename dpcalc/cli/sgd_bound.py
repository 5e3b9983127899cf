"""`dpcalc sgd-bound`: what the last iterate of noisy gradient descent tells, when only it is released."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
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

_RUN = "The run"
_LOSS = "The losses"
_SEARCH = "Sweeps and targets"


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
        "--noise-multiplier", help="z = bσ/L, instead of σ. Or solve.", metavar="NUMBER", parse=Noise.parse, panel=_RUN
    ),
]
Sensitivity = Annotated[
    float,
    number(
        "--sensitivity",
        help="L: largest distance between two records' gradients; 2C for gradients clipped at C.",
        panel=_LOSS,
    ),
]
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
    SweepText | None,
    parsed(
        "--sweep",
        help="epochs=10:200:10 or lr=0.1,0.05; also steps, sigma, batch-size, …",
        metavar="NAME=A:B:STEP",
        parse=SweepText,
        panel=_SEARCH,
    ),
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw the sweep (PNG or SVG).", rich_help_panel=_SEARCH),
]
Target = Annotated[
    float | None,
    number(
        "--target-epsilon", help="Find the longest run within ε; with --sigma solve, the least noise.", panel=_SEARCH
    ),
]


@command(
    example="dpcalc sgd-bound --algorithm cgd --lr 0.05 --sigma 0.01 --sensitivity 10 --n 60000 --batch-size 1500 "
    "--epochs 50 --strong-convexity 0.002 --smoothness 32 --delta 1e-5"
)
def sgd_bound(
    *,
    algorithm: Algorithm,
    sensitivity: Sensitivity,
    n: Size,
    lr: Rate = None,
    sigma: Sigma = None,
    noise_multiplier: Multiplier = None,
    batch_size: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    strong_convexity: Convexity = None,
    smoothness: Smoothness = None,
    diameter: Diameter = None,
    delta: Delta = None,
    schedule: ScheduleFile = None,
    sweep: SweepOption = None,
    plot: Plot = None,
    target_epsilon: Target = None,
) -> Result:
    """Privacy of the LAST iterate of noisy gradient descent on convex losses (Bok, Su, Altschuler 2024).

    X ← Π[X − η((1/b)Σ∇f + N(0, σ²I))]. σ is the noise on the average of a batch, z = bσ/L, and L is the sensitivity
    to REPLACING one record. Every bound that applies is listed with its theorem; the best is the answer.
    """
    from dpcalc.last_iterate.request import Request

    _check_mode(
        sigma=sigma,
        multiplier=noise_multiplier,
        length=steps or epochs,
        sweep=sweep,
        plot=plot,
        target=target_epsilon,
    )
    if delta is None:
        raise InputError("--delta is needed: the δ at which to give ε, strictly between 0 and 1")
    request = Request(
        algorithm=algorithm.value,
        sensitivity=sensitivity,
        n=n,
        delta=delta,
        lr=lr,
        sigma=sigma.level if sigma else None,
        noise_multiplier=noise_multiplier.level if noise_multiplier else None,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        diameter=diameter,
        schedule=_read_schedule(schedule) if schedule is not None else None,
    )
    if sweep is not None:
        return _swept(request, sweep, plot)
    if target_epsilon is not None:
        return _solved(request, target_epsilon, unknown=_unknown(sigma, noise_multiplier))
    from dpcalc.last_iterate.analysis import analyse
    from dpcalc.last_iterate.results import single_result

    return single_result(analyse(request))


def _unknown(sigma: Noise | None, multiplier: Noise | None) -> str:
    if sigma is not None and sigma.level is None:
        return "sigma"
    return "noise_multiplier" if multiplier is not None and multiplier.level is None else "steps"


def _check_mode(
    *,
    sigma: Noise | None,
    multiplier: Noise | None,
    length: float | None,
    sweep: SweepText | None,
    plot: str | None,
    target: float | None,
) -> None:
    solving = _unknown(sigma, multiplier) != "steps"
    if sigma is not None and multiplier is not None:
        raise InputError("give --sigma σ or --noise-multiplier z (z = bσ/L), not both")
    if target is None and solving:
        raise InputError("solve needs --target-epsilon, the ε to stay within")
    if target is not None and not solving and length is not None:
        raise InputError("--target-epsilon finds the longest run: drop --steps and --epochs, or give --sigma solve")
    if target is not None and sweep is not None:
        raise InputError("--target-epsilon and --sweep cannot be combined")
    if plot is not None and sweep is None:
        raise InputError("--plot draws a sweep: give --sweep too, such as --sweep epochs=10:200:10")


def _read_schedule(path: str) -> Schedule:
    import sys
    from pathlib import Path

    from dpcalc.last_iterate.schedule import read_schedule

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("expected a CSV in UTF-8", where=path) from None
    return read_schedule(text, name=path)


def _swept(request: Request, swept: SweepText, plot: str | None) -> Result:
    from dpcalc.cli.progress import progress
    from dpcalc.last_iterate.results import epsilon_curves, sweep_result
    from dpcalc.last_iterate.sweep import Sweep, run_sweep

    try:
        sweep = Sweep.parse(swept.text)
    except ValueError as error:
        raise InputError(str(error), where="--sweep") from None
    with progress(f"Sweeping {sweep.name}", total=len(sweep.values)) as advance:
        result = sweep_result(sweep, run_sweep(request, sweep, advance=advance))
    if plot is not None:
        from dpcalc.plotting import plot_curves

        title = f"Last iterate, δ = {request.delta:g}"
        curves = epsilon_curves(result)
        plot_curves(plot, x=sweep.values, curves=curves, x_label=sweep.name, y_label="ε", title=title)
    return result


def _solved(request: Request, target: float, *, unknown: str) -> Result:
    from dpcalc.last_iterate.results import single_result
    from dpcalc.last_iterate.solve import MOST_STEPS, least_noise, longest_run

    if unknown == "steps":
        analysis = longest_run(request, target=target)
        steps = analysis.setting.steps
        limit = " or more (the search stops there)" if steps >= MOST_STEPS // 2 else ""
        headline = f"The longest run within ε = {target:g} has {steps} steps{limit}."
        return single_result(analysis, solution={"solution": steps, "solved_for": "steps"}, headline=headline)
    analysis = least_noise(request, target=target, multiplier=unknown == "noise_multiplier")
    noise = analysis.setting.noise_multiplier if unknown == "noise_multiplier" else analysis.setting.sigma
    headline = f"The least noise within ε = {target:g} is {unknown.replace('_', ' ')} {rounded_up(noise)}."
    return single_result(analysis, solution={"solution": noise, "solved_for": unknown}, headline=headline)
