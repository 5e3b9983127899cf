"""What a run tells: details for programs, tables for people, and the command that audits its log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpcalc.filters.individual import quantiles
from dpcalc.guarantee import Section
from dpcalc.report import rounded_up
from dpcalc.training.data import Dataset
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.run import Trial

Quality = tuple[float, float | None]


def describe(trainer: Trainer, quality: Quality, data: Dataset, log: str | None) -> dict[str, Any]:
    """The contract's `details` of a run, and what it takes to repeat and audit it."""
    train, test = quality
    reached: dict[str, Any] = (
        {"mse": train if test is None else test, "train_mse": train, "test_mse": test}
        if trainer.model.reconstructs
        else {"train_accuracy": train, "test_accuracy": test}
    )
    settings = trainer.settings
    details = {
        **reached,
        "steps": trainer.step,
        "planned_steps": trainer.plan.planned_steps,
        "noise_multiplier": settings.noise_multiplier,
        "active_per_step": list(trainer.history.active),
        "clip_per_step": list(trainer.history.clips),
        "parameters": trainer.model.size,
        "data": {"name": data.name, "records": len(data), "features": data.features, "classes": data.classes},
        "settings": settings.as_dict(),
        "noise": trainer.noise.description,
    }
    if trainer.filter is not None:
        details["spent"] = quantiles(trainer.filter.spent)
        details["dropped_records"] = int(trainer.filter.lost.sum())
    if trainer.plain is not None:
        measure = "test_mse" if trainer.model.reconstructs else "test_accuracy"
        details["without_filter"] = {"steps": trainer.plan.planned_steps, measure: trainer.plain}
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
    trainer: Trainer, quality: Quality, data: Dataset, bounds: Sequence[dict[str, Any]], runs: int
) -> tuple[Section, ...]:
    """The table of a run, and the bounds that were compared if there was a choice."""
    settings = trainer.settings
    name = "Mean squared error" if trainer.model.reconstructs else "Accuracy"
    train, test = (None if each is None else _shown(each, trainer.model.reconstructs) for each in quality)
    rows: list[tuple[str, Any]] = [
        (f"{name}, test records", "there are none" if test is None else test),
        (f"{name}, training records", f"{train} (not covered by the guarantee)"),
        ("Data", f"{data.name}: {len(data):,} records, {data.features} features, {data.classes} classes"),
        ("Model", f"{settings.model}, {trainer.model.size:,} parameters"),
        ("Method", _method(trainer)),
        ("Steps", _steps(trainer)),
        ("Noise multiplier", f"{settings.noise_multiplier:.6g} × clip, on the sum"),
        ("Clip", _clips(trainer.history.clips)),
    ]
    rows += _filter_rows(trainer, quality[1])
    if runs > 1:
        rows.append(("Budget shared by", f"{runs} runs"))
    sections = [Section(title="Training", columns=("", ""), rows=tuple(rows))]
    if len(bounds) > 1:
        columns = ("bound", "ε", "μ", "neighbours", "trust", "theorem")
        table = tuple(_bound_row(bound) for bound in bounds)
        sections.append(Section(title="Bounds", columns=columns, rows=table))
    return tuple(sections)


def _filter_rows(trainer: Trainer, test: float | None) -> list[tuple[str, Any]]:
    """What the filter did, and plain training with the same noise beside it, whichever did better."""
    settings = trainer.settings
    if settings.filter == "none" or trainer.filter is None:
        return []
    out, last = int(trainer.filter.lost.sum()), trainer.history.active[-1]
    rows = [
        ("Filter", f"{settings.filter}, {settings.filter_mode}; {out:,} records ran out; last step {last:,} active")
    ]
    if trainer.plain is None or test is None:
        return rows
    if trainer.kept_step is not None:
        gained = "the steps after it did not help, so these parameters are kept"
    elif trainer.model.reconstructs:
        gained = f"so the filter gained {trainer.plain - test:.5f}"
    else:
        gained = f"so the filter gained {100 * (test - trainer.plain):+.2f}"
    shown = _shown(trainer.plain, trainer.model.reconstructs)
    return [*rows, ("Without it", f"{shown} after {trainer.plan.planned_steps:,} steps with the same noise: {gained}")]


def _bound_row(bound: dict[str, Any]) -> tuple[Any, ...]:
    numbers = (rounded_up(bound["epsilon"], 5), rounded_up(bound["mu"], 5))
    return (bound["name"], *numbers, bound["adjacency"], bound["guarantee"], bound["theorem"])


def search_section(trials: Sequence[Trial], best: Trial) -> Section:
    """Every configuration of a search with its test result, the winner marked."""
    names = tuple(best.changes)
    rows = []
    for trial in trials:
        test = trial.test_quality
        shown = "diverged" if test is None else _shown(test, trial.plan.settings.model == "autoencoder")
        values = (str(value) for value in trial.changes.values())
        rows.append((*values, shown, "winner" if trial is best else ""))
    return Section(title="Search", columns=(*names, "test", ""), rows=tuple(rows))


def _shown(value: float, reconstructs: bool) -> str:
    return f"{value:.5f}" if reconstructs else f"{100 * value:.2f}%"


def _method(trainer: Trainer) -> str:
    settings, size = trainer.settings, trainer.batches.batch_size
    how = {
        "gd": "full batch",
        "cgd": f"batches of {size} in file order",
        "sgd": f"{'uniform batches of' if trainer.batches.fixed_size else 'Poisson batches of about'} {size}",
    }[settings.algorithm]
    return f"{settings.algorithm} ({how}), {settings.optimizer}, learning rate {settings.rate:g}"


def _steps(trainer: Trainer) -> str:
    planned = trainer.plan.planned_steps
    more = trainer.total_steps - planned
    return f"{trainer.step:,}" + (f" ({planned:,} planned, {more:,} more for records with budget left)" if more else "")


def _clips(clips: Sequence[float]) -> str:
    first, last = clips[0], clips[-1]
    return f"{first:g}" if math.isclose(first, last) else f"from {first:g} to {last:.4g}"
