"""What a run tells: details for programs, tables for people, and the command that audits its log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpcalc.evidence import STATUSES
from dpcalc.filters.individual import quantiles
from dpcalc.guarantee import Section
from dpcalc.last_iterate.results import NAMES
from dpcalc.training.data import Dataset
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.run import Trial

Quality = tuple[float, float | None]


def describe(trainer: Trainer, quality: Quality, data: Dataset, log: str | None) -> dict[str, Any]:
    """The contract's `details` of a run, and what it takes to repeat and audit it."""
    train, test = quality
    measure = trainer.model.measure
    reached: dict[str, Any] = {f"train_{measure}": train, f"test_{measure}": test}
    if trainer.model.reconstructs:
        reached = {"mse": train if test is None else test, **reached}
    settings, measured = trainer.settings, f"test_{measure}"
    details = {
        **reached,
        "steps": trainer.step,
        "planned_steps": trainer.plan.planned_steps,
        "noise_multiplier": settings.noise_multiplier,
        "active_per_step": list(trainer.history.active),
        "clip_per_step": list(trainer.history.clips),
        "loss_per_step": list(trainer.history.losses),
        "measured": [{"step": step, "test": value} for step, value in trainer.history.measured],
        "parameters": trainer.model.size,
        "data": {"name": data.name, "records": len(data), "features": data.features, "classes": data.classes},
        "settings": settings.as_dict(),
        "noise": trainer.noise.description,
    }
    if trainer.filter is not None:
        details["spent"] = quantiles(trainer.filter.spent)
        details["spent_unit"] = trainer.plan.budget.unit
        details["spent_so_far"] = [{"step": step, "spent": found} for step, found in trainer.history.spent]
        details["dropped_records"] = int(trainer.filter.lost.sum())
    if trainer.plain is not None:
        details["without_filter"] = {"steps": trainer.plan.planned_steps, measured: trainer.plain}
        details["kept_step"] = trainer.kept_step
    if trainer.plan.looked:
        looking = trainer.looking
        answers = [{"step": step, "accuracy": share} for step, share in looking.answers]
        details["looks"] = {"answers": answers, "ran_out": list(looking.counts), "stopped": looking.stopped}
        details["kept_step"] = trainer.kept_step
    if trainer.settings.validate_every is not None:
        details["validation"] = [{"step": step, measured: abs(merit)} for step, merit in trainer.looking.answers]
        details["kept_step"] = trainer.kept_step
    if log is not None:
        details["audit"] = audit(trainer.plan, log)
    return details


def audit(plan: Plan, log: str) -> str:
    """The command that folds the log again and must find the same spent budgets."""
    (clip, sigma), rule, settings = plan.units, plan.budget, plan.settings
    shared = f"dpcalc filter {log} --sigma {sigma!r} --clip {clip!r} --delta {plan.delta!r}"
    if rule.subsampled is not None:
        rate = plan.batches.sampling_rate
        return f"{shared} --filter rdp --sample-rate {rate!r} --order {rule.orders[0]!r} --rho {rule.limits[0]!r}"
    kind = "gdp" if settings.filter == "none" else settings.filter
    return f"{shared} --filter {kind} --norm-budget {rule.limits[0]!r} --mode {settings.filter_mode}"


def training_sections(
    trainer: Trainer,
    quality: Quality,
    data: Dataset,
    bounds: Sequence[dict[str, Any]],
    runs: int,
    *,
    log: str | None = None,
) -> tuple[Section, ...]:
    """The lines of a run, and the bounds that were compared if there was a choice."""
    rows = [
        *_filter_rows(trainer, quality[1]),
        *_look_rows(trainer),
        ("run", _run(trainer, runs)),
        ("data", _data(trainer, quality[0], data)),
        *([] if log is None else [("audit", audit(trainer.plan, log))]),
    ]
    sections = [Section(title="Training", columns=("", ""), rows=tuple(rows))]
    if len(bounds) > 1:
        sections.append(_bounds(bounds))
    return tuple(sections)


def _filter_rows(trainer: Trainer, test: float | None) -> list[tuple[str, Any]]:
    """What the filter did, and plain training with the same noise beside it, whichever did better."""
    settings, records = trainer.settings, trainer.plan.records
    if settings.filter == "none" or trainer.filter is None:
        return []
    out, last = int(trainer.filter.lost.sum()), trainer.history.active[-1]
    went = "were clipped to what was left" if settings.filter_mode == "clip" else "ran out"
    rows = [("filter", f"{out:,} of {records:,} records {went}; {last:,} took part in the last step")]
    if trainer.plain is None or test is None:
        return rows
    measure, better = trainer.model.measure, test - trainer.plain
    if trainer.kept_step == trainer.plan.planned_steps:
        gained = "the steps after it did not help, so it is kept"
    elif measure == "accuracy":
        gained = f"so the filter gained {100 * better:.1f}"
    else:
        gained = f"so the filter gained {-better if measure == 'mse' else better:.5f}"
    plain = _shown(trainer.plain, measure)
    return [*rows, ("without it", f"{plain} after {trainer.plan.planned_steps:,} steps at the same ε: {gained}")]


def _run(trainer: Trainer, runs: int) -> str:
    """The method, its length, noise and rate in a line."""
    settings, size = trainer.settings, trainer.batches.batch_size
    planned, more = trainer.plan.planned_steps, trainer.step - trainer.plan.planned_steps
    batches = "" if settings.algorithm == "gd" else f" in batches of {size:,}"
    steps = f"{trainer.step:,} steps{f' ({planned:,} + {more:,})' if more > 0 else ''}{batches}"
    optimizer = "" if settings.optimizer == "sgd" else f", {settings.optimizer}"
    noise = f"noise {settings.noise_multiplier:.4g} × clip {_clips(trainer.history.clips)}, rate {settings.rate:g}"
    shared = f"; the budget is shared by {runs:,} runs" if runs > 1 else ""
    return f"{settings.algorithm}{optimizer}, {steps}, {noise}{shared}"


def _data(trainer: Trainer, train: float, data: Dataset) -> str:
    """The data and the model; what is measured on the training records is not covered by the guarantee."""
    kinds = "labels" if data.multilabel else "classes"
    size = f"{data.name}: {len(data):,} records, {data.features} features, {data.classes} {kinds}"
    measure = trainer.model.measure
    reached = f"{_shown(train, measure)} right" if measure == "accuracy" else f"{measure} {_shown(train, measure)}"
    model = f"{trainer.settings.model}, {trainer.model.size:,} parameters"
    return f"{size}; {model}; training records {reached} (SENSITIVE: no noise)"


def _look_rows(trainer: Trainer) -> list[tuple[str, Any]]:
    """What the noisy looks at private records decided; all of it is released."""
    looking, looks, rows = trainer.looking, trainer.plan.looks, []
    if looks.steps and looking.answers:
        best = dict(looking.answers)[looking.best or 0]
        rows.append(
            ("best of", f"{len(looking.answers)} iterates: step {looking.best}, noisy accuracy {100 * best:.1f} %")
        )
    if trainer.settings.validate_every is not None:
        rows.append(("validated", f"{len(looking.answers)} times on the test records; step {looking.best} is kept"))
    if looks.watched:
        when = "never" if looking.stopped is None else f"after step {looking.stopped}"
        rows.append(("stopped", f"{when}, by {looks.stop_by} counts of records without budget"))
    return rows


def _bounds(bounds: Sequence[dict[str, Any]]) -> Section:
    """Every bound, those that are certified first and the best of them on top; neighbours only where they differ."""
    ranked = sorted(bounds, key=lambda bound: (STATUSES.index(bound["guarantee"]), bound["epsilon"]))
    both = len({bound["adjacency"] for bound in bounds}) > 1
    rows = tuple(
        (NAMES.get(bound["name"], bound["name"]), bound["epsilon"], bound["mu"])
        + ((bound["adjacency"],) if both else ())
        + (bound["guarantee"], bound["theorem"].partition(": ")[0])
        for bound in ranked
    )
    columns = ("bound", "ε", "μ", *(("neighbours",) if both else ()), "trust", "by")
    return Section(title="Bounds", columns=columns, rows=rows)


def search_section(trials: Sequence[Trial], best: Trial) -> Section:
    """Every configuration of a search with its test result, the winner marked."""
    names = tuple(best.changes)
    rows = []
    for trial in trials:
        test = trial.test_quality
        shown = "diverged" if test is None or trial.trainer is None else _shown(test, trial.trainer.model.measure)
        values = (str(value) for value in trial.changes.values())
        rows.append((*values, shown, "winner" if trial is best else ""))
    return Section(title="Search", columns=(*names, "test", ""), rows=tuple(rows))


def _shown(value: float, measure: str) -> str:
    return f"{100 * value:.1f} %" if measure == "accuracy" else f"{value:.5f}"


def _clips(clips: Sequence[float]) -> str:
    first, last = clips[0], clips[-1]
    return f"{first:g}" if math.isclose(first, last) else f"{first:g} to {last:.4g}"
