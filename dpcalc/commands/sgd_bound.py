"""`dpcalc sgd-bound`: what the last iterate of noisy gradient descent tells, when only it is released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from dpcalc.asked import Asked, number, option
from dpcalc.errors import InputError
from dpcalc.guarantee import Result
from dpcalc.last_iterate.modelled import OWN_NORMS, Found, Modelled, explained, request_of
from dpcalc.last_iterate.request import NOISES, Request
from dpcalc.report import rounded_up, written

if TYPE_CHECKING:
    from dpcalc.last_iterate.schedule import Schedule

_RUN = "The run"
_SEARCH = "Sweeps and targets"
_SCHEDULE_BYTES = 100_000_000
_OF_THE_MODEL = ("clip", "sensitivity", "strong-convexity", "smoothness", "diameter", "n")


@dataclass(frozen=True, kw_only=True)
class SgdBound(Modelled, Request, Asked):
    """Privacy of the LAST iterate of noisy gradient descent on convex losses (Bok, Su, Altschuler 2024).

    X ← Π[X − η((1/b)Σ∇f + N(0, σ²I))]. σ is the noise on the average of a batch, and L is the sensitivity to REPLACING
    one record, twice a clip. Every bound that applies is listed with its theorem; the best is the answer. Without
    convexity (--strong-convexity or --diameter, with --smoothness) that is composition. With --model the constants of
    the losses are worked out and explained.
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
        self.check_given(request)
        if self.model is None:
            return self._answered(request)
        found = None if self.data is None else _public(self.data)
        losses = self.losses(found, request.diameter)
        result = self._answered(request_of(request, losses, found))
        return explained(result, request, losses, norms=_norms(self.feature_clip, found))

    def _answered(self, request: Request) -> Result:
        if self.sweep:
            return _swept(request, self.sweep)
        if self.target_epsilon is not None:
            return _solved(request, self.target_epsilon)
        from dpcalc.last_iterate.analysis import analyse
        from dpcalc.last_iterate.results import single_result

        return single_result(analyse(request))

    def _check_mode(self) -> None:
        swept = [text.partition("=")[0] for text in self.sweep]
        if self.model is not None and (fixed := [name for name in swept if name in _OF_THE_MODEL]):
            raise InputError(
                f"{fixed[0]} is a part of what `model` works out: give one run for each value", where="sweep"
            )
        given = self._given(*NOISES)
        if len(given) > 1:
            raise InputError(f"the noise is given as {' and as '.join(given)}: keep one of them")
        if self.target_epsilon is None:
            if self.unknown is not None:
                raise InputError("solve needs `target_epsilon`, the ε to stay within")
        elif self.unknown is None and (self.steps or self.epochs) is not None:
            raise InputError("`target_epsilon` finds the longest run: drop `steps` and `epochs`, or give `sigma=solve`")
        elif self.sweep:
            raise InputError("`target_epsilon` and `sweep` cannot be combined")


def _public(source: str) -> Found:
    """Size and classes of a data set, and a norm if its format alone gives one: bytes are in [0, 1]."""
    from dpcalc.training.data import SYNTHETIC, load

    data = load(source)
    if data.multilabel:
        raise InputError("`model` knows losses of classes; these records have labels that go together", where=source)
    bytes_only = source == SYNTHETIC or Path(source).is_dir()
    reach = data.features**0.5 if bytes_only else None
    return Found(records=len(data), features=data.features, classes=data.classes, reach=reach)


def _norms(feature_clip: float | None, found: Found | None) -> str:
    """Where the norm of the features comes from, in words."""
    if feature_clip is not None:
        return f"the feature clip, stated beforehand. {OWN_NORMS}"
    assert found is not None
    return f"√{found.features}: features are bytes, made numbers in [0, 1]. {OWN_NORMS}"


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
