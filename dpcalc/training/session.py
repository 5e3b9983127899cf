"""From what was asked for to a result: load, calibrate, train or search, account, and say it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc import files
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.report import rounded_up, written
from dpcalc.training import data as datasets
from dpcalc.training import recompute
from dpcalc.training.data import Dataset
from dpcalc.training.grid import read_grid
from dpcalc.training.history import DivergedError
from dpcalc.training.loop import Trainer
from dpcalc.training.models import MODULE
from dpcalc.training.names import is_module
from dpcalc.training.noise import SEEDED, SYSTEM, UNKNOWN_SEED
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, account_search, calibrated, epsilon_so_far
from dpcalc.training.report import describe, search_section, training_sections
from dpcalc.training.run import Trial, configurations, run, search, winner
from dpcalc.training.settings import Settings
from dpcalc.training.wanted import Files, Wanted
from dpcalc.training.words import preface

Progress = Callable[..., AbstractContextManager[Callable[..., None]]]
Charge = Callable[[Guarantee], None]

_NOT_COVERED = (
    "training accuracy, loss, active_per_step and spent budgets are taken from the private records without noise: they "
    "steer nothing, are for the owner of the data, and are not covered by the guarantee"
)
_SHOWN = 12


def train_and_report(
    settings: Settings, wanted: Wanted, traces: Files, *, progress: Progress, charge: Charge | None = None
) -> Result:
    """The whole of `dpcalc train`. `charge` is told what the run will guarantee before it touches a record."""
    outputs = {"`log`": traces.log, "`checkpoint`": traces.checkpoint, "`save`": wanted.save}
    files.check_paths(outputs, {"`data`": wanted.data, "`test_data`": wanted.test_data, "`grid`": wanted.grid})
    if wanted.save is not None and Path(wanted.save).suffix != ".npz":
        raise InputError(f"expected a model file named .npz, got {wanted.save!r}.", where="save")
    # Nobody else may take up the same run, from before it is paid for until it is saved.
    with nullcontext() if traces.checkpoint is None else files.locked(traces.checkpoint):
        return _train(settings, wanted, traces, progress=progress, charge=charge)


def _train(settings: Settings, wanted: Wanted, traces: Files, *, progress: Progress, charge: Charge | None) -> Result:
    data = datasets.load(wanted.data, test=wanted.test_data, limit=wanted.read_limit)
    plan = Plan(
        settings=settings,
        records=len(data),
        delta=wanted.delta,
        runs=wanted.runs,
        tracked=traces.log is not None,
        features=data.features,
    )
    if wanted.grid is not None:
        return _search(plan, wanted, traces, data, progress=progress, charge=charge)
    if wanted.epsilon is not None:
        plan = plan.with_noise(calibrated([plan], epsilon=wanted.epsilon, classes=data.exclusive_classes))
    accounted = account(plan, classes=data.exclusive_classes)
    try:
        with progress("Training", total=plan.total_steps) as advance:
            observe = _observer(plan, accounted.guarantee, advance)
            trainer = run(plan, data, files=traces, observe=observe, begin=_paying(charge, accounted.guarantee))
    except DivergedError as error:
        spent = account(plan, classes=data.exclusive_classes, steps=error.step).guarantee
        raise CertificationError(f"{error} Spent until then: {_spent(spent)}.") from None
    _save(wanted.save, trainer)
    guarantee = _with_notes(accounted.guarantee, plan)
    quality = trainer.quality()
    details = describe(trainer, quality, data, traces.log)
    details |= {"bounds": list(accounted.bounds), "grid_runs": wanted.runs}
    details["request"] = recompute.stored([plan], data.exclusive_classes)
    details["epsilon_so_far"] = _growth(plan, guarantee, trainer.step)
    return Result(
        command="train",
        guarantee=guarantee,
        details=details,
        preface=preface(quality[1], trainer.model.measure),
        qualifier=" if only the last iterate is released" if accounted.hides else " for everyone",
        sections=training_sections(trainer, quality, data, accounted.bounds, wanted.runs, log=traces.log),
        private=True,
    )


def _paying(charge: Charge | None, guarantee: Guarantee) -> Callable[[], None]:
    def pay() -> None:
        if charge is not None:
            charge(guarantee)

    return pay


def _search(
    plan: Plan, wanted: Wanted, traces: Files, data: Dataset, *, progress: Progress, charge: Charge | None
) -> Result:
    if traces != Files():
        raise InputError("`log`, `checkpoint` and `resume` are for one run, not for a `grid` search.")
    if wanted.runs > 1:
        raise InputError("`grid` counts its own runs; leave out `grid_runs`.")
    assert wanted.grid is not None
    planned = configurations(plan, read_grid(wanted.grid))
    if wanted.epsilon is not None:
        found = calibrated([each for _, each in planned], epsilon=wanted.epsilon)
        planned = [(changes, each.with_noise(found)) for changes, each in planned]
    accounted = account_search([each for _, each in planned])
    with progress("Searching", total=sum(each.total_steps for _, each in planned)) as advance:
        observe = _observer(None, accounted.guarantee, advance)
        trials = search(planned, data, observe=observe, begin=_paying(charge, accounted.guarantee))
    return _search_result(trials, accounted.guarantee, wanted, data)


def _search_result(trials: Sequence[Trial], guarantee: Guarantee, wanted: Wanted, data: Dataset) -> Result:
    try:
        best = winner(trials)
    except DivergedError as error:
        raise CertificationError(f"{error} Spent: {_spent(guarantee)}.") from None
    assert best.trainer is not None
    assert best.train_quality is not None
    _save(wanted.save, best.trainer)
    guarantee = _with_notes(guarantee, best.plan)
    quality = (best.train_quality, best.test_quality)
    details = describe(best.trainer, quality, data, None)
    details |= {
        "grid_runs": len(trials),
        "winner": dict(best.changes),
        "trials": [{**trial.changes, "test": trial.test_quality} for trial in trials],
        "bounds": [],
        "request": recompute.stored([trial.plan for trial in trials], data.exclusive_classes),
    }
    return Result(
        command="train",
        guarantee=guarantee,
        details=details,
        preface=preface(best.test_quality, best.trainer.model.measure),
        qualifier=" for everyone",
        sections=(
            *training_sections(best.trainer, quality, data, (), len(trials)),
            search_section(trials, best),
        ),
        private=True,
    )


def _growth(plan: Plan, guarantee: Guarantee, steps: int) -> list[dict[str, Any]]:
    """ε after some of the steps, from above: for a picture."""
    if guarantee.epsilon is None:
        return []
    epsilon = epsilon_so_far(plan, guarantee.epsilon)
    some = sorted({max(1, steps * i // _SHOWN) for i in range(1, _SHOWN + 1)})
    return [{"step": step, "epsilon": guarantee.epsilon if step == steps else epsilon(step)} for step in some]


def _observer(plan: Plan | None, guarantee: Guarantee, advance: Callable[..., None]) -> Callable[[Trainer], None]:
    """Tells the progress bar about each step: loss, ε so far, active records; of a search (no plan) all of its ε."""
    final = math.inf if guarantee.epsilon is None else guarantee.epsilon
    epsilon = (lambda _: final) if plan is None else epsilon_so_far(plan, final)

    def observe(trainer: Trainer) -> None:
        def notes() -> tuple[str, ...]:
            history = trainer.history
            step = f"step {trainer.step:,}/{trainer.total_steps:,}"
            spent = f"ε ≤ {rounded_up(epsilon(trainer.step))}"
            return step, spent, f"active {history.active[-1]:,}", f"loss {history.losses[-1]:.4f}"

        advance(notes=notes)

    return observe


def _with_notes(guarantee: Guarantee, plan: Plan) -> Guarantee:
    """The guarantee with what must be said about noise and about what it leaves out."""
    source, remarks = plan.settings.model, (*guarantee.remarks, _NOT_COVERED)
    theirs = (MODULE.format(source=source),) if is_module(source) else ()
    seeded = plan.settings.seed is not None
    drawn = UNKNOWN_SEED if seeded else SYSTEM
    guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *theirs, drawn), remarks=remarks)
    return guarantee.with_warnings(SEEDED) if seeded else guarantee


def _spent(guarantee: Guarantee) -> str:
    return f"ε = {rounded_up(guarantee.epsilon)} at δ = {written(guarantee.delta)}"


def _save(path: str | None, trainer: Trainer) -> None:
    if path is None:
        return
    shape = np.array([trainer.model.classes, *trainer.model.input_shape])
    with files.writing(path) as stream:
        np.savez(stream, parameters=trainer.parameters, model=np.array(trainer.settings.model), shape=shape)
