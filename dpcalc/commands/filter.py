"""`dpcalc filter`: a log of norms through a privacy filter: who takes part when, and what each person has lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from dpcalc.asked import Asked, argument, option
from dpcalc.files import check_paths
from dpcalc.filters.request import Request
from dpcalc.guarantee import Result
from dpcalc.terminal import streams
from dpcalc.terminal.progress import progress

if TYPE_CHECKING:
    from dpcalc.filters.run import Run


@dataclass(frozen=True, kw_only=True)
class Filter(Request, Asked):
    """Privacy filters and odometers on a log of gradient norms.

    Tells which steps of a run with adaptive choices fit its budget, who has to be left out of which, and what each
    person has lost; with --finished, whether a run that is over kept its budget. The guarantee is the budget, fixed
    beforehand, not what was spent.
    """

    example: ClassVar[str] = "dpcalc filter examples/filter-norms.csv --filter gdp --sigma 4 --epsilon 4 --delta 1e-5"

    log: Annotated[
        str, argument(help=".npy, .npz, .csv, .jsonl or .parquet, plain or compressed; - is stdin.", metavar="LOG")
    ]
    per_individual: Annotated[
        Path | None,
        option(
            "--per-individual",
            help="Write everybody's loss (.csv, .parquet). Sensitive.",
            panel="Running and files",
        ),
    ] = None

    def answer(self) -> Result:
        """The run through the filter, and the budget that it keeps."""
        check_paths(
            {"`per_individual`": self.per_individual, "`state`": self.state},
            {"`log`": self.log, "`groups`": self.groups},
        )
        from dpcalc.filters import recompute, screen, summary
        from dpcalc.filters.carrying import carry_out

        delta = self.delta
        with progress("Filtering") as advance:
            run = carry_out(self, self.log, advance=advance)
        with progress("Individual losses"):
            losses = summary.losses(run, delta)
        if run.skipped:
            streams.tell(f"{run.skipped} steps had been counted in {self.state} before and were skipped\n")
        guarantee = summary.guarantee(run, epsilon=self.epsilon, delta=delta)
        guarantee = guarantee.with_warnings(*_warnings(run))
        if self.per_individual is not None:
            from dpcalc.filters.table import SENSITIVE, write_table

            write_table(self.per_individual, summary.columns(run, losses), note=summary.units(run, delta))
            guarantee = guarantee.with_warnings(f"{self.per_individual} is written. {SENSITIVE}")
        return Result(
            command="filter",
            guarantee=guarantee,
            details={**summary.details(run, losses, guarantee, delta), "request": recompute.stored(self, run.settings)},
            course=tuple(run.course),
            headline=screen.headline(run, guarantee, self.epsilon, delta),
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
