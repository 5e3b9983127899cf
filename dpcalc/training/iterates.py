"""Which iterate a run ends with: looks after each step, at private records with noise or at public ones for nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcalc.filters.individual import quantiles

if TYPE_CHECKING:
    from dpcalc.training.loop import Trainer

# How often test records are looked at on the way, and how many of them: for a picture, at little cost.
_MEASURED, _TRIED = 20, 1000
# After which shares of a filter's extra steps the last one is compared with where plain training would have stopped.
_COMPARED = (0.5, 0.75, 1.0)


def consider(trainer: Trainer) -> None:
    """All that a plan asks for after a step."""
    look(trainer)
    validate(trainer)
    compare(trainer)
    measure(trainer)


def look(trainer: Trainer) -> None:
    """Ask the private records, with noise, what the plan says to ask after this step, and act on it."""
    plan, looks, records = trainer.plan, trainer.plan.looks, len(trainer.data)
    if looks.watched and trainer.step > plan.planned_steps and trainer.filter is not None:
        assert trainer.settings.stop_below is not None
        most = (1 - trainer.settings.stop_below) * records
        lost = int(trainer.filter.lost.sum())
        trainer.looking.watch(trainer.step, lost, records, most=most, looks=looks, noise=trainer.noise)
    paid = trainer.looking.stopped is not None and len(trainer.looking.answers) < len(looks.steps)
    if trainer.step in looks.steps or paid:
        right = int(trainer.sums.right(trainer.parameters, trainer.x, trainer.data.y_train).sum())
        if trainer.looking.ask(trainer.step, right, records, looks, trainer.noise):
            trainer.best_parameters = trainer.parameters
    if looks.steps:
        _keep_best(trainer)


def validate(trainer: Trainer) -> None:
    """Keep the best iterate on the public test records, looked at every so many steps: it costs nothing."""
    every = trainer.settings.validate_every
    if every is None or not (trainer.step % every == 0 or trainer.finished):
        return
    found = trainer.test_quality
    assert found is not None
    if trainer.looking.validate(trainer.step, -found if trainer.model.reconstructs else found):
        trainer.best_parameters = trainer.parameters
    _keep_best(trainer)


def _keep_best(trainer: Trainer) -> None:
    if trainer.finished and trainer.looking.best != trainer.step:
        trainer.parameters, trainer.kept_step = trainer.best_parameters, trainer.looking.best


def compare(trainer: Trainer) -> None:
    """Look back at where plain training would have stopped, and go there if a filter's extra steps do not help.

    Until that step nobody can have run out, so plain training at the same noise is what has been run. The choice is
    made on released parameters and public test records, so it costs nothing. It is made after half, three quarters and
    all of the extra steps, since a few of them say little, and only where their number was left open.
    """
    plan, settings = trainer.plan, trainer.settings
    extra = trainer.total_steps - plan.planned_steps
    if settings.filter == "none" or not len(trainer.data.x_test):
        return
    if trainer.step == plan.planned_steps:
        trainer.plain, trainer.plain_parameters = trainer.test_quality, trainer.parameters.copy()
    past = trainer.step - plan.planned_steps
    asks_others = plan.looked or settings.extra_steps is not None or settings.validate_every
    if asks_others or past <= 0 or past not in {math.ceil(share * extra) for share in _COMPARED}:
        return
    found = trainer.test_quality
    assert found is not None
    assert trainer.plain is not None
    if (found > trainer.plain) if trainer.model.reconstructs else (found < trainer.plain):
        trainer.parameters, trainer.kept_step = trainer.plain_parameters.copy(), plan.planned_steps


def measure(trainer: Trainer) -> None:
    """Now and then, for pictures: try the parameters on some public test records, and read off what people spent."""
    often = trainer.step % -(-trainer.total_steps // _MEASURED) == 0 or trainer.finished
    if not often or trainer.settings.release == "last":
        return
    if trainer.filter is not None:
        trainer.history.spent.append((trainer.step, quantiles(trainer.filter.spent)))
    if trainer.plan.looked or not len(trainer.data.x_test):
        return
    x, y = trainer.data.x_test[:_TRIED], trainer.data.y_test[:_TRIED]
    trainer.history.measured.append((trainer.step, float(trainer.model.quality(trainer.parameters, x, y))))
