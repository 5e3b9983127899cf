"""Whole runs: from the first step or a checkpoint to the last, and a grid search under one budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files import reading
from dpcalc.training.combinations import idle
from dpcalc.training.data import Dataset
from dpcalc.training.history import DivergedError
from dpcalc.training.iterates import consider
from dpcalc.training.loop import Trainer, network
from dpcalc.training.plan import Plan
from dpcalc.training.record import Log, check_name, opened_log
from dpcalc.training.settings import Settings
from dpcalc.training.wanted import Files

Observe = Callable[[Trainer], None]
Begin = Callable[[], None]

# Seconds between checkpoints; a step that takes longer is saved at once.
_BETWEEN_SAVES = 5.0


def _nothing() -> None:
    pass


def run(
    plan: Plan,
    data: Dataset,
    *,
    files: Files = Files(),  # noqa: B008 - Files is immutable
    observe: Observe = lambda _: None,
    begin: Begin = _nothing,
    stream: int = 0,
) -> Trainer:
    """Train to the end and return the trainer; a diverged run raises, with its last state saved.

    `begin` is called once everything that was asked for was found to be right, before the first step and any file.
    """
    if plan.settings.validate_every is not None and not len(data.x_test):
        raise InputError("`validate_every` looks at test records, and there are none; give `test_data`.")
    if plan.settings.keep_best and data.multilabel:
        raise InputError("the best iterate is found by accuracy, which records with several labels do not have.")
    trainer = Trainer(plan, data, stream=stream)
    diverged: DivergedError | None = None
    position = _taken_up(trainer, files)
    begin()
    with _open(trainer, files, position) as log:
        saved = time.monotonic()
        try:
            while not trainer.finished:
                trainer.advance(log)
                consider(trainer)
                observe(trainer)
                if files.checkpoint and time.monotonic() - saved >= _BETWEEN_SAVES:
                    _save(trainer, files.checkpoint, log)
                    saved = time.monotonic()
        except DivergedError as error:
            diverged = error
        if files.checkpoint:
            _save(trainer, files.checkpoint, log, diverged=[diverged.step, diverged.why] if diverged else ())
    if diverged is not None:
        raise diverged
    return trainer


def _taken_up(trainer: Trainer, files: Files) -> int | None:
    """Where in its log a resumed run goes on; None for a new run, or one without a log."""
    if files.log is not None:
        check_name(files.log)
    position: int | None = None
    if files.resume:
        if files.checkpoint is None:
            raise InputError("`resume` needs `checkpoint=FILE`, the run to go on with.")
        facts = trainer.resume(files.checkpoint)
        with reading(files.checkpoint, "not a readable checkpoint"):
            position = None if facts["log_position"] is None else int(facts["log_position"])
            diverged = (int(facts["diverged"][0]), str(facts["diverged"][1])) if facts["diverged"] else None
        if diverged is not None:
            raise DivergedError(*diverged)
        if (position is None) != (files.log is None):
            raise InputError("a run is resumed with a `log` if, and only if, it was started with one.")
    elif files.checkpoint is not None and Path(files.checkpoint).exists():
        raise InputError(
            "this checkpoint exists; give `resume` to go on with it, or remove it to spend a new budget.",
            where=files.checkpoint,
        )
    return position


def _open(trainer: Trainer, files: Files, position: int | None) -> AbstractContextManager[Log | None]:
    if files.log is None:
        return nullcontext()
    in_place = files.checkpoint is not None
    return opened_log(files.log, trainer.batches, steps=trainer.total_steps, position=position, in_place=in_place)


def _save(trainer: Trainer, path: str, log: Log | None, *, diverged: Sequence[Any] = ()) -> None:
    position = None if log is None else log.position()
    trainer.save(path, {"log_position": position, "diverged": list(diverged)})


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One configuration of a search: what was changed, and how it did on the test records (None: it diverged)."""

    changes: Mapping[str, Any]
    plan: Plan
    trainer: Trainer | None = None
    train_quality: float | None = None
    test_quality: float | None = None


def configurations(plan: Plan, grid: Mapping[str, Sequence[Any]]) -> list[tuple[dict[str, Any], Plan]]:
    """Every combination of the values in `grid`, in its order, as runs that share one budget."""
    combined = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    changed = [plan.settings.with_changes(changes) for changes in combined]
    for name, why in idle(changed[0]).items():
        given = name in grid or getattr(plan.settings, name) != getattr(Settings, name)
        if given and all(name in idle(settings) for settings in changed):
            raise InputError(why, where=name)
    return [
        (changes, replace(plan, settings=settings, runs=len(combined)))
        for changes, settings in zip(combined, changed, strict=True)
    ]


def search(
    trials: Sequence[tuple[Mapping[str, Any], Plan]],
    data: Dataset,
    *,
    observe: Observe,
    begin: Begin = _nothing,
) -> list[Trial]:
    """Run every configuration. All of them are paid for, so the best on the (public) test records may be kept."""
    if not len(data.x_test):
        raise InputError("a grid search picks its winner on test records, and there are none; give `test_data`.")
    for _, plan in trials:
        network(plan.settings, data)
    found = []
    for stream, (changes, plan) in enumerate(trials):
        try:
            trainer = run(plan, data, observe=observe, begin=_nothing if stream else begin, stream=stream)
        except DivergedError:
            found.append(Trial(changes=changes, plan=plan))
            continue
        train, test = trainer.quality()
        found.append(Trial(changes=changes, plan=plan, trainer=trainer, train_quality=train, test_quality=test))
    return found


def winner(trials: Sequence[Trial]) -> Trial:
    """The configuration with the best test result: highest accuracy, or lowest error for an autoencoder."""
    finished = [trial for trial in trials if trial.trainer is not None]
    if not finished:
        raise DivergedError(1, "every configuration of the grid has diverged")

    def merit(trial: Trial) -> float:
        assert trial.trainer is not None
        assert trial.test_quality is not None
        return -trial.test_quality if trial.trainer.model.reconstructs else trial.test_quality

    return max(finished, key=merit)
