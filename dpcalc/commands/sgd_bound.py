"""`dpcalc sgd-bound`: what the last iterate of noisy gradient descent tells, when only it is released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar

from dpcalc.asked import Asked, number, option
from dpcalc.errors import InputError
from dpcalc.guarantee import Result
from dpcalc.last_iterate.request import NOISES, Request
from dpcalc.report import rounded_up, written

if TYPE_CHECKING:
    from dpcalc.last_iterate.schedule import Schedule

_RUN = "The run"
_SEARCH = "Sweeps and targets"
_SCHEDULE_BYTES = 100_000_000


@dataclass(frozen=True, kw_only=True)
class SgdBound(Request, Asked):
    """Privacy of the LAST iterate of noisy gradient descent on convex losses (Bok, Su, Altschuler 2024).

    X ← Π[X − η((1/b)Σ∇f + N(0, σ²I))]. σ is the noise on the average of a batch, and L is the sensitivity to REPLACING
    one record, twice a clip. Every bound that applies is listed with its theorem; the best is the answer. Without
    convexity (--strong-convexity or --diameter, with --smoothness) that is composition.
    """

    example: ClassVar[str] = (
        "dpcalc sgd-bound --algorithm cgd --lr 0.05 --clip 5 --noise-multiplier 3 --n 60000 --batch-size 1500 "
        "--epochs 50 --strong-convexity 0.002 --smoothness 32 --delta 1e-5"
    )

    schedule_file: Annotated[
        str | None,
        option(
            "--schedule",
            metavar="FILE",
            panel=_RUN,
            help="CSV step,lr,sigma instead of --lr and --sigma: a row holds from its step (the first is 1) to the "
            "next.",
        ),
    ] = None
    sweep: Annotated[
        tuple[str, ...],
        option(
            "--sweep",
            help="epochs=10:200:10 or lr=0.1,0.05; also steps, sigma, batch-size, … Twice: one against the other.",
            metavar="NAME=A:B:STEP",
            panel=_SEARCH,
            repeated=True,
        ),
    ] = ()
    target_epsilon: Annotated[
        float | None,
        number(
            "--target-epsilon",
            help="Find the longest run within ε; with --sigma solve, the least noise.",
            panel=_SEARCH,
        ),
    ] = None

    def answer(self) -> Result:
        """Every bound of the run; of the longest or least noisy one within a target; or of each in a sweep."""
        self._check_mode()
        request = self.part(Request)
        if self.schedule_file is not None:
            request = replace(request, schedule=_read_schedule(self.schedule_file))
        if self.sweep:
            return _swept(request, self.sweep)
        if self.target_epsilon is not None:
            return _solved(request, self.target_epsilon)
        from dpcalc.last_iterate.analysis import analyse
        from dpcalc.last_iterate.results import single_result

        return single_result(analyse(request))

    def _check_mode(self) -> None:
        given = self._given(*NOISES)
        if len(given) > 1:
            raise InputError(f"the noise is given as {' and as '.join(given)}: keep one of them")
        if self.target_epsilon is None:
            if self.unknown is not None:
                raise InputError("solve needs --target-epsilon, the ε to stay within")
        elif self.unknown is None and (self.steps or self.epochs) is not None:
            raise InputError("--target-epsilon finds the longest run: drop --steps and --epochs, or give --sigma solve")
        elif self.sweep:
            raise InputError("--target-epsilon and --sweep cannot be combined")


def _read_schedule(path: str) -> Schedule:
    from dpcalc.files import read_text
    from dpcalc.last_iterate.schedule import read_schedule

    return read_schedule(read_text(path, limit=_SCHEDULE_BYTES, what="a schedule"), name=path)


def _swept(request: Request, texts: tuple[str, ...]) -> Result:
    from dpcalc.last_iterate.results import sweep_result
    from dpcalc.last_iterate.sweep import Sweep, check_sweeps, run_sweeps
    from dpcalc.terminal.progress import progress

    try:
        sweeps = [Sweep.parse(text) for text in texts]
    except ValueError as error:
        raise InputError(str(error), where="sweep") from None
    check_sweeps(sweeps)
    names = " and ".join(sweep.name for sweep in sweeps)
    with progress(f"Sweeping {names}", total=prod(len(sweep.values) for sweep in sweeps)) as advance:
        return sweep_result(sweeps, run_sweeps(request, sweeps, advance=advance))


def _solved(request: Request, target: float) -> Result:
    from dpcalc.last_iterate.results import single_result
    from dpcalc.last_iterate.solve import MOST_STEPS, least_noise, longest_run

    unknown = request.unknown
    if unknown is None:
        analysis = longest_run(request, target=target)
        steps = analysis.setting.steps
        limit = " or more (the search stops there)" if steps >= MOST_STEPS // 2 else ""
        headline = f"{steps:,} steps{limit} is the longest run within ε = {target:g} at δ = {written(request.delta)}"
        return single_result(analysis, solution={"solution": steps, "solved_for": "steps"}, headline=headline)
    analysis = least_noise(request, target=target, unknown=unknown)
    noise: float = getattr(analysis.request, unknown)
    headline = (
        f"{unknown} = {rounded_up(noise)} is the least noise within ε = {target:g} at δ = {written(request.delta)}"
    )
    return single_result(analysis, solution={"solution": noise, "solved_for": unknown}, headline=headline)
