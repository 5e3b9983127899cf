"""From what was asked for to a result: load, calibrate, train or search, account, and say it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.report import rounded_up
from dpcalc.training import data as datasets
from dpcalc.training.data import Dataset
from dpcalc.training.grid import read_grid
from dpcalc.training.loop import DivergedError, Trainer
from dpcalc.training.noise import SEEDED, SYSTEM
from dpcalc.training.privacy import account, account_search, calibrated, epsilon_so_far
from dpcalc.training.report import describe, search_section, training_sections
from dpcalc.training.run import Files, Trial, configurations, run, search, winner
from dpcalc.training.settings import Settings

Progress = Callable[..., AbstractContextManager[Callable[..., None]]]

_NOT_COVERED = (
    "training accuracy, loss, active_per_step and spent budgets are taken from the private records without noise: they "
    "steer nothing, are for the owner of the data, and are not covered by the guarantee"
)
_BETWEEN_NOTES = 0.1


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of a run besides its settings."""

    data: str
    delta: float
    test_data: str | None = None
    epsilon: float | None = None
    runs: int = 1
    grid: str | None = None
    save: str | None = None


def train_and_report(settings: Settings, wanted: Wanted, files: Files, *, progress: Progress) -> Result:
    """The whole of `dpcalc train`."""
    data = datasets.load(wanted.data, test=wanted.test_data)
    if wanted.grid is not None:
        return _search(settings, wanted, files, data, progress)
    known = {"runs": wanted.runs, "classes": data.classes}
    if wanted.epsilon is not None:
        found = calibrated([settings], len(data), epsilon=wanted.epsilon, delta=wanted.delta, **known)
        settings = replace(settings, noise_multiplier=found)
    accounted = account(settings, len(data), delta=wanted.delta, **known)
    try:
        with progress("Training", total=settings.all_steps(len(data))) as advance:
            observe = _observer(settings, data, wanted.delta, advance)
            trainer = run(settings, data, delta=wanted.delta, files=files, observe=observe)
    except DivergedError as error:
        spent = account(settings, len(data), delta=wanted.delta, **known, steps=error.step).guarantee
        raise CertificationError(f"{error} Spent until then: {_spent(spent)}.") from None
    _save(wanted.save, trainer)
    guarantee = _with_notes(accounted.guarantee, settings)
    quality = trainer.quality()
    details = describe(trainer, quality, data, files.log, wanted.delta)
    details |= {"bounds": list(accounted.bounds), "grid_runs": wanted.runs}
    return Result(
        command="train",
        guarantee=guarantee,
        details=details,
        headline=_headline(guarantee, quality[1], trainer.model.reconstructs),
        sections=training_sections(trainer, quality, data, accounted.bounds, wanted.runs),
        private=True,
    )


def _search(settings: Settings, wanted: Wanted, files: Files, data: Dataset, progress: Progress) -> Result:
    if files != Files():
        raise InputError("--log, --checkpoint and --resume are for one run, not for a --grid search.")
    if wanted.runs > 1:
        raise InputError("--grid counts its own runs; leave out --grid-runs.")
    assert wanted.grid is not None
    planned = configurations(settings, read_grid(wanted.grid))
    if wanted.epsilon is not None:
        every = [each for _, each in planned]
        found = calibrated(every, len(data), epsilon=wanted.epsilon, delta=wanted.delta)
        planned = [(changes, replace(each, noise_multiplier=found)) for changes, each in planned]
    accounted = account_search([each for _, each in planned], len(data), delta=wanted.delta)
    with progress("Searching", total=sum(each.all_steps(len(data)) for _, each in planned)) as advance:
        observe = _observer(planned[0][1], data, wanted.delta, advance)
        trials = search(planned, data, delta=wanted.delta, observe=observe)
    return _search_result(trials, accounted.guarantee, wanted, data)


def _search_result(trials: Sequence[Trial], guarantee: Guarantee, wanted: Wanted, data: Dataset) -> Result:
    try:
        best = winner(trials)
    except DivergedError as error:
        raise CertificationError(f"{error} Spent: {_spent(guarantee)}.") from None
    assert best.trainer is not None
    assert best.train_quality is not None
    _save(wanted.save, best.trainer)
    guarantee = _with_notes(guarantee, best.settings)
    quality = (best.train_quality, best.test_quality)
    details = describe(best.trainer, quality, data, None, wanted.delta)
    details |= {
        "grid_runs": len(trials),
        "winner": dict(best.changes),
        "trials": [{**trial.changes, "test": trial.test_quality} for trial in trials],
        "bounds": [],
    }
    return Result(
        command="train",
        guarantee=guarantee,
        details=details,
        headline=_headline(guarantee, best.test_quality, best.trainer.model.reconstructs),
        sections=(
            *training_sections(best.trainer, quality, data, (), len(trials)),
            search_section(trials, best),
        ),
        private=True,
    )


def _observer(
    settings: Settings, data: Dataset, delta: float, advance: Callable[..., None]
) -> Callable[[Trainer], None]:
    """Tells the progress bar about each step: loss, ε so far, active records."""
    epsilon = epsilon_so_far(settings, len(data), delta)
    shown, note = 0.0, ""

    def observe(trainer: Trainer) -> None:
        nonlocal shown, note
        if time.monotonic() - shown >= _BETWEEN_NOTES:
            history = trainer.history
            note = (
                f"step {trainer.step}/{trainer.total_steps}  loss {history.losses[-1]:.4f}  "
                f"ε ≤ {epsilon(trainer.step):.3g}  active {history.active[-1]:,}"
            )
            shown = time.monotonic()
        advance(note=note)

    return observe


def _with_notes(guarantee: Guarantee, settings: Settings) -> Guarantee:
    """The guarantee with what must be said about noise and about what it leaves out."""
    assumptions = (*guarantee.assumptions, SYSTEM if settings.seed is None else SEEDED)
    warnings = (*guarantee.warnings, *(() if settings.seed is None else (SEEDED,)), _NOT_COVERED)
    return replace(guarantee, assumptions=assumptions, warnings=warnings)


def _headline(guarantee: Guarantee, test: float | None, reconstructs: bool) -> str:
    spent = f"{_spent(guarantee)} under {guarantee.adjacency}"
    if test is None:
        return f"Trained with {spent}; there are no test records."
    reached = f"mean squared error {test:.5f}" if reconstructs else f"{100 * test:.2f}% accuracy"
    return f"{reached} on the test records, with {spent}."


def _spent(guarantee: Guarantee) -> str:
    return f"ε = {rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:g}"


def _save(path: str | None, trainer: Trainer) -> None:
    if path is None:
        return
    if Path(path).suffix != ".npz":
        raise InputError(f"expected a model file named .npz, got {path!r}.", where="--save")
    settings: Mapping[str, Any] = trainer.settings.as_dict()
    shape = np.array([trainer.model.classes, *trainer.model.input_shape])
    try:
        np.savez(path, parameters=trainer.parameters, model=np.array(settings["model"]), shape=shape)
    except OSError as error:
        raise InputError(f"cannot write the model: {error}.", where=path) from None
