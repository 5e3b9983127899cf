"""`dpcalc filter`: a log of norms through a privacy filter: who takes part when, and what each person has lost."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import streams
from dpcalc.cli.command import command
from dpcalc.cli.options import Delta, ReadLimit, number, whole
from dpcalc.cli.progress import progress
from dpcalc.errors import InputError
from dpcalc.files import LIMIT, check_paths
from dpcalc.guarantee import Result
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, PROBABILITY, RATE, RENYI_ORDER

if TYPE_CHECKING:
    from dpcalc.filters.run import Run

_NO_PLD_FILTER = (
    "to stop when the composed curve so far passes (ε,δ) is unsound: curves cross, and steps chosen by the outcome "
    "pass between them (each of two compositions has δ(4) = 0.0184, the choice among them 0.0285); use gdp, rdp or dp"
)
_NOISE = "Noise (for logs of norms)"
_LIMIT = "Budget (give one)"
_WHAT = "What to do"
_RUNNING = "Running and files"


class FilterChoice(str, Enum):
    """Which filter."""

    gdp = "gdp"
    rdp = "rdp"
    dp = "dp"
    pld = "pld"


class ScopeChoice(str, Enum):
    """A budget for each record, or one for the run."""

    individual = "individual"
    whole = "global"


class ModeChoice(str, Enum):
    """What happens to a record that no longer fits its budget."""

    drop = "drop"
    clip = "clip"


class EngineChoice(str, Enum):
    """Where the work is done."""

    local = "local"
    dask = "dask"


@command(example="dpcalc filter examples/filter-norms.csv --filter gdp --sigma 4 --epsilon 4 --delta 1e-5", plot=True)
def filter(
    log: Annotated[
        str,
        typer.Argument(help=".npy, .npz, .csv, .jsonl or .parquet, plain or compressed; - is stdin.", metavar="LOG"),
    ],
    *,
    kind: Annotated[
        FilterChoice, typer.Option("--filter", help="gdp, rdp or dp; pld is refused.", rich_help_panel=_WHAT)
    ],
    sigma: Annotated[
        float | None, number("--sigma", help="Noise on the sum (standard deviation).", panel=_NOISE)
    ] = None,
    noise_multiplier: Annotated[
        float | None, number("--noise-multiplier", help="Noise on the sum, relative to --clip.", panel=_NOISE)
    ] = None,
    clip: Annotated[float | None, number("--clip", help="Norms above C count as C.", panel=_NOISE)] = None,
    mu: Annotated[float | None, number("--mu", help="B-GDP.", panel=_LIMIT)] = None,
    epsilon: Annotated[float | None, number("--epsilon", help="(ε,δ)-DP, with --delta.", panel=_LIMIT)] = None,
    delta: Delta = None,
    steps_delta: Annotated[
        float | None,
        number("--steps-delta", help="Part of δ for the steps' own δ (half).", allowed=PROBABILITY, panel=_LIMIT),
    ] = None,
    norm_budget: Annotated[
        float | None, number("--norm-budget", help="Largest Σ‖g‖² of a record.", panel=_LIMIT)
    ] = None,
    order: Annotated[
        list[float] | None, number("--order", help="RDP order; repeatable.", allowed=RENYI_ORDER, panel=_LIMIT)
    ] = None,
    rho: Annotated[list[float] | None, number("--rho", help="RDP budget at that --order.", panel=_LIMIT)] = None,
    scope: Annotated[
        ScopeChoice, typer.Option(help="A budget for each record, or one for the whole run.", rich_help_panel=_WHAT)
    ] = ScopeChoice.individual,
    mode: Annotated[
        ModeChoice, typer.Option(help="Leave a record out, or clip it to what it has left.", rich_help_panel=_WHAT)
    ] = ModeChoice.drop,
    sample_rate: Annotated[
        float | None, number("--sample-rate", help="Poisson sampling rate (--filter rdp).", allowed=RATE, panel=_WHAT)
    ] = None,
    odometer: Annotated[
        float | None, number("--odometer", help="Also track the loss in stretches of WIDTH (μ or ρ).", panel=_WHAT)
    ] = None,
    anytime: Annotated[
        float | None,
        number("--anytime", help="Also bound ε at all times at once, with this r.", allowed=POSITIVE, panel=_WHAT),
    ] = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="The run is over: did everybody stay within?", rich_help_panel=_WHAT)
    ] = False,
    groups: Annotated[
        Path | None, typer.Option(help="CSV id,group: the same for each subgroup.", rich_help_panel=_WHAT)
    ] = None,
    per_individual: Annotated[
        Path | None, typer.Option(help="Write everybody's loss (.csv, .parquet). Sensitive.", rich_help_panel=_RUNNING)
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Continue from FILE if it is there, and save to it.", rich_help_panel=_RUNNING)
    ] = None,
    first_step: Annotated[
        int | None,
        whole("--first-step", help="Number of an array's first row (0).", allowed=NON_NEGATIVE, panel=_RUNNING),
    ] = None,
    engine: Annotated[EngineChoice, typer.Option(help="local, or dask for Parquet.", rich_help_panel=_RUNNING)] = (
        EngineChoice.local
    ),
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; default: a local one.", rich_help_panel=_RUNNING)
    ] = None,
    read_limit: ReadLimit = LIMIT,
) -> Result:
    """Privacy filters and odometers on a log of gradient norms.

    Tells which steps of a run with adaptive choices fit its budget, who has to be left out of which, and what each
    person has lost; with --finished, whether a run that is over kept its budget. The guarantee is the budget, fixed
    beforehand, not what was spent.
    """
    check_paths({"--per-individual": per_individual, "--state": state}, {"LOG": log, "--groups": groups})
    from dpcalc.filters import screen, summary
    from dpcalc.filters.request import Request, carry_out

    if kind is FilterChoice.pld:
        raise InputError(_NO_PLD_FILTER, where="--filter pld")
    request = Request(
        kind=kind.value,
        sigma=sigma,
        noise_multiplier=noise_multiplier,
        clip=clip,
        mu=mu,
        epsilon=epsilon,
        delta=delta,
        norm_budget=norm_budget,
        orders=tuple(order or ()),
        rhos=tuple(rho or ()),
        scope=scope.value,
        mode=mode.value,
        odometer=odometer,
        sample_rate=sample_rate,
        groups=groups,
        state=state,
        first_step=first_step,
        engine=engine.value,
        scheduler=scheduler,
        steps_delta=steps_delta,
        anytime=anytime,
        finished=finished,
        read_limit=read_limit,
    )
    with progress("Filtering") as advance:
        run = carry_out(request, log, advance=advance)
    with progress("Individual losses"):
        losses = summary.losses(run, delta)
    if run.skipped:
        streams.tell(f"{run.skipped} steps had been counted in {state} before and were skipped\n")
    guarantee = summary.guarantee(run, epsilon=epsilon, delta=delta)
    guarantee = guarantee.with_warnings(*_warnings(run))
    if per_individual is not None:
        from dpcalc.filters.table import SENSITIVE, write_table

        write_table(per_individual, summary.columns(run, losses), note=summary.units(run, delta))
        guarantee = guarantee.with_warnings(f"{per_individual} is written. {SENSITIVE}")
    return Result(
        command="filter",
        guarantee=guarantee,
        details=summary.details(run, losses, guarantee, delta),
        headline=screen.headline(run, guarantee, epsilon, delta),
        facts=tuple(screen.facts(run, losses, guarantee)),
        sections=tuple(screen.sections(run, losses, delta)),
        goal="over" if summary.beyond(run).any() else None,
        private=True,
    )


def _warnings(run: Run) -> list[str]:
    lines = []
    if run.clipped_values:
        clip = run.settings.clip_before_noise or run.settings.rule.clip
        lines.append(
            f"{run.clipped_values} norms above the clip count as {clip:g}: the training must have clipped them"
        )
    return lines
