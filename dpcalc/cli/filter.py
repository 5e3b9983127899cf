"""`dpcalc filter`: a log of norms through a privacy filter: who takes part when, and what each person has lost."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import Delta, number, whole
from dpcalc.cli.progress import progress
from dpcalc.guarantee import Result, Section
from dpcalc.numbers import NON_NEGATIVE, RATE, RENYI_ORDER
from dpcalc.report import rounded_up

if TYPE_CHECKING:
    from dpcalc.filters.run import Run
    from dpcalc.filters.summary import Losses

_NOISE = "Noise (for logs of norms)"
_LIMIT = "Budget (give one)"
_WHAT = "What to do"
_RUNNING = "Running and files"
_BAR = 40


class FilterChoice(str, Enum):
    """Which filter."""

    gdp = "gdp"
    rdp = "rdp"
    dp = "dp"


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
    kind: Annotated[FilterChoice, typer.Option("--filter", help="gdp, rdp or dp.", rich_help_panel=_WHAT)],
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
        int, whole("--first-step", help="Number of an array's first row.", allowed=NON_NEGATIVE, panel=_RUNNING)
    ] = 0,
    engine: Annotated[EngineChoice, typer.Option(help="local, or dask for Parquet.", rich_help_panel=_RUNNING)] = (
        EngineChoice.local
    ),
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; default: a local one.", rich_help_panel=_RUNNING)
    ] = None,
) -> Result:
    """Privacy filters and odometers on a log of gradient norms.

    Tells whether a run with adaptive choices stayed within its budget, when it must stop, who has to be left out of
    which step, and what each person's own loss is. The guarantee is the budget, fixed beforehand, not what was spent.
    """
    from dpcalc.filters import summary
    from dpcalc.filters.request import Request, carry_out

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
    )
    with progress("Filtering") as advance:
        run = carry_out(request, log, advance=advance)
    with progress("Individual losses"):
        losses = summary.losses(run, delta)
    if run.skipped:
        typer.echo(f"{run.skipped} steps had been counted in {state} before and were skipped", err=True)
    guarantee = summary.guarantee(run.settings, epsilon=epsilon, delta=delta)
    guarantee = guarantee.with_warnings(*_warnings(run))
    if per_individual is not None:
        from dpcalc.filters.table import SENSITIVE, write_table

        write_table(per_individual, summary.columns(run, losses))
        guarantee = guarantee.with_warnings(f"{per_individual} is written. {SENSITIVE}")
    return Result(
        command="filter",
        guarantee=guarantee,
        details=summary.details(run, losses),
        headline=_headline(run),
        sections=tuple(_sections(run, losses)),
        private=True,
    )


def _warnings(run: Run) -> list[str]:
    lines = []
    if run.clipped_values:
        clip = run.settings.rule.clip
        lines.append(
            f"{run.clipped_values} norms above the clip count as {clip:g}: the training must have clipped them"
        )
    if run.settings.scope == "individual":
        lines.append(
            "counts, quantiles and individual losses are computed from the data without noise: they are for the data "
            "holder, and publishing them is not covered by the guarantee"
        )
    return lines


def _headline(run: Run) -> str:
    steps = len(run.steps.labels)
    if run.settings.scope == "global":
        if run.halt_step is None:
            return f"All {steps} steps fit into the budget."
        return (
            f"Step {run.halt_step} does not fit into the budget: stop before it, after {sum(run.steps.active)} steps."
        )
    lost = int(run.filter.lost.sum())
    if not lost:
        return f"All {run.individuals} records may take part in all their steps."
    return f"{lost} of {run.individuals} records have to be left out of at least one of their steps."


def _sections(run: Run, losses: Losses) -> list[Section]:
    from dpcalc.filters.individual import QUANTILES, histogram, quantiles

    if run.settings.scope == "global":
        return []
    names = tuple(f"{quantile:g}" for quantile in QUANTILES)
    rows = [("spent", *(rounded_up(value) for value in quantiles(losses.spent)))]
    if losses.epsilon is not None:
        rows.append(("individual ε", *(rounded_up(value) for value in quantiles(losses.epsilon))))
    if losses.fitted is not None:
        rows.append(("fitted μ (approximate)", *(rounded_up(value) for value in quantiles(losses.fitted.mu))))
    sections = [Section(title="Individual losses, quantiles (sensitive)", columns=("", *names), rows=tuple(rows))]
    values, word = (losses.spent, "spent") if losses.epsilon is None else (losses.epsilon, "ε")
    bins = histogram(values)
    most = max((count for *_, count in bins), default=1)
    drawn = tuple((f"{low:.4g} – {high:.4g}", count, "█" * round(_BAR * count / most)) for low, high, count in bins)
    sections.append(Section(title="How many have lost how much (sensitive)", columns=(word, "records", ""), rows=drawn))
    if run.group_names:
        sections.append(_groups(run, losses))
    return sections


def _groups(run: Run, losses: Losses) -> Section:
    values, word = (losses.spent, "spent") if losses.epsilon is None else (losses.epsilon, "ε")
    rows = []
    for index, name in enumerate(run.group_names):
        members = run.group_of == index
        last = int(run.steps.active_by_group[-1][index])
        mean = float(values[members].mean()) if members.any() else 0.0
        largest = float(values[members].max(initial=0.0))
        rows.append((name, int(members.sum()), last, int(run.filter.lost[members].sum()), mean, largest))
    columns = ("group", "records", "active at the end", "lost a step", f"mean {word}", f"largest {word}")
    return Section(title="Subgroups (sensitive)", columns=columns, rows=tuple(rows))
