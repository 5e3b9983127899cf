"""A filtered log as a result: the guarantee that its filter enforced, and what happened to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.filters import dominating, individual
from dpcalc.filters.anytime import anytime_epsilon
from dpcalc.filters.enforced import enforced
from dpcalc.filters.rule import Rule
from dpcalc.filters.run import Run
from dpcalc.guarantee import Guarantee
from dpcalc.report import written

AFTER_THE_FACT = "after-the-fact"
WHY_AFTER_THE_FACT = (
    "an ε read off what a record has spent is neither exact nor a bound if later steps depended on earlier outputs: "
    "those who lost most may be the ones told the least"
)


def guarantee(run: Run, *, epsilon: float | None, delta: float | None) -> Guarantee:
    """What the filter enforces; a finished run that is beyond its budget has none."""
    return enforced(run.settings, epsilon=epsilon, delta=delta, kept=not beyond(run).any())


def beyond(run: Run) -> Bools:
    """Who took part beyond the budget: nobody in a run that was filtered."""
    if run.settings.dominating is not None:
        return dominating.beyond(run)
    if run.settings.budget is None:
        return np.zeros(run.individuals, dtype=bool)
    return ~run.settings.budget.admits(run.filter.totals)


@dataclass(frozen=True)
class Losses:
    """Everybody's own loss: what was spent, and what that amounts to.

    `epsilon` is after the fact (None without δ); `anytime` holds at every time (None unless asked for); `fitted` is an
    approximate μ under sampling.
    """

    spent: Floats
    epsilon: Floats | None
    fitted: individual.FittedMu | None
    anytime: Floats | None = None


def losses(run: Run, delta: float | None) -> Losses:
    """The individual losses of a run."""
    rule = run.settings.rule
    if delta is None:
        return Losses(run.filter.spent, None, None)
    split = (run.settings.budget or rule).split
    epsilon = individual.epsilons(run, delta if split is None else split.filter)
    fitted = None if run.norm_counts is None else dominating.fitted(run, delta)
    always = None
    if run.settings.anytime is not None:
        variance = run.filter.spent**2 if rule.squares else 2 * run.filter.spent
        always = anytime_epsilon(variance * (1 + 2 * rule.tolerance), *run.settings.anytime)
    return Losses(run.filter.spent, epsilon, fitted, always)


def details(run: Run, found: Losses, stated: Guarantee, delta: float | None) -> dict[str, Any]:
    """The fields of the contract, and those that odometers, groups and sampling add."""
    settings, whole = run.settings, run.settings.scope == "global"
    rule = settings.budget or settings.rule
    fields: dict[str, Any] = {
        "steps": len(run.steps.labels),
        "individuals": None if whole else run.individuals,
        "halt_step": run.halt_step,
        "active_per_step": run.steps.active.tolist(),
        "dropped_records": None if whole else int(run.filter.lost.sum()),
        "spent": individual.quantiles(found.spent),
        "spent_unit": rule.unit,
        "individual_epsilon": None if found.epsilon is None else individual.quantiles(found.epsilon),
        "individual_epsilon_kind": AFTER_THE_FACT,
        "individual_epsilon_reason": WHY_AFTER_THE_FACT,
        "proved": _proved(run, found, stated),
        "limit": [limit for limit in rule.limits if np.isfinite(limit)],
        "rounding": rule.tolerance,
    }
    if rule.mixture is not None:
        fields["mixture"] = {"orders": list(rule.mixture.orders), "weights": list(rule.mixture.weights)}
    if rule.split is not None:
        fields["delta_split"] = rule.split._asdict()
    if settings.finished:
        over = int(beyond(run).sum())
        fields |= {
            "finished": True,
            "within": over == 0 if settings.budget or settings.dominating else None,
            "beyond_budget": over,
        }
    if settings.mode == "clip":
        fields["clipped_records"] = int(run.filter.clipped.sum())
    if found.fitted is not None:
        fields["fitted_mu"] = _fitted(found.fitted)
    if run.odometer is not None:
        fields["odometer"] = odometer(run, delta)
    if run.group_names:
        fields["groups"] = {
            name: _group(run, found, index, who)
            for index, (name, who) in enumerate(zip(run.group_names, members(run), strict=True))
        }
    return fields


def _proved(run: Run, found: Losses, stated: Guarantee) -> list[dict[str, Any]]:
    """What holds for every record, whatever its own ε: the budget, the odometer's stops, the bound for all times."""
    lines: list[dict[str, Any]] = []
    if stated.epsilon is not None:
        holds = "for every record, whatever it spent"
        lines.append({"by": "budget", "epsilon": stated.epsilon, "delta": stated.delta, "holds": holds})
    if run.odometer is not None:
        lines.append({"by": "odometer", "holds": "at its stopping times, widths fixed beforehand"})
    if found.anytime is not None:
        holds = "at all times at once, each record its own, with r fixed beforehand"
        lines.append({"by": "anytime", "epsilon": individual.quantiles(found.anytime), "holds": holds})
    return lines


def _fitted(fitted: individual.FittedMu) -> dict[str, Any]:
    worst = int(np.argmax(fitted.mu)) if fitted.mu.size else 0
    return {
        "quantiles": individual.quantiles(fitted.mu),
        "kind": "approximate",
        "holds_for_delta": [fitted.delta_low, fitted.delta_high],
        "epsilon_range_of_largest": [float(fitted.epsilon_low[worst]), float(fitted.epsilon_high[worst])],
    }


def odometer(run: Run, delta: float | None) -> dict[str, Any]:
    """Where its stretches end and the loss up to there, in μ or RDP and, with δ, in ε; for records: the largest."""
    tracked = run.odometer
    assert tracked is not None
    shown: dict[str, Any] = {"width": tracked.width, "unit": tracked.unit}
    if run.settings.scope == "global":
        times = tracked.stopping_times(0, last_run_step(run))
        loss = tracked.losses(np.arange(1, len(times) + 1))
        shown |= {"stopping_times": times, "loss": loss.tolist()}
    else:
        stretches = tracked.restarts + 1
        loss = tracked.losses(np.array([int(stretches.max(initial=1))]))
        shown |= {"stretches": individual.quantiles(stretches.astype(np.float64)), "largest_loss": float(loss[0])}
    if delta is not None:
        shown["epsilon"] = [_epsilon_of_loss(run.settings.rule, float(each), delta) for each in loss]
    return shown


def _epsilon_of_loss(rule: Rule, loss: float, delta: float) -> float:
    if rule.kind == "gdp":
        return float(conversions.gdp_epsilon(loss, delta))
    if rule.orders:
        return conversions.rdp_epsilon(list(rule.orders), [loss], delta)
    return conversions.zcdp_epsilon(loss, delta)


def last_run_step(run: Run) -> int:
    """The last step that ran, or the first of the log if none did."""
    ran = [label for label, active in zip(run.steps.labels, run.steps.active, strict=True) if active]
    return ran[-1] if ran else run.steps.labels[0]


def members(run: Run) -> list[Indices]:
    """The records of each group."""
    ends = np.cumsum(np.bincount(run.group_of, minlength=len(run.group_names)))
    return np.split(np.argsort(run.group_of, kind="stable"), ends[:-1])


def _group(run: Run, found: Losses, index: int, who: Indices) -> dict[str, Any]:
    return {
        "individuals": int(who.size),
        "dropped_records": int(run.filter.lost[who].sum()),
        "active_per_step": run.steps.view("active_by_group")[:, index].tolist(),
        "spent": individual.quantiles(found.spent[who]),
        "individual_epsilon": None if found.epsilon is None else individual.quantiles(found.epsilon[who]),
    }


def columns(run: Run, found: Losses) -> dict[str, Any]:
    """The per-individual table."""
    ids: Any = np.arange(run.individuals) if run.names is None else run.names
    table: dict[str, Any] = {
        "id": ids,
        "steps_active": run.filter.steps_active,
        "spent": found.spent,
        "epsilon": [None] * run.individuals if found.epsilon is None else found.epsilon,
    }
    if run.settings.budget is not None or run.settings.dominating is not None:
        table["within_budget"] = [not over for over in beyond(run).tolist()]
    if found.anytime is not None:
        table["anytime_epsilon"] = found.anytime
    if found.fitted is not None:
        table |= {"fitted_mu": found.fitted.mu, "fitted_from_epsilon": found.fitted.epsilon_low}
        table["fitted_to_epsilon"] = found.fitted.epsilon_high
    if run.odometer is not None:
        table["odometer_loss"] = run.odometer.losses(run.odometer.restarts + 1)
        times = run.odometer.all_stopping_times(run.steps.labels[-1])
        table["odometer_stopping_times"] = [" ".join(map(str, ends)) for ends in times]
    return table


def units(run: Run, delta: float | None) -> str:
    """What the columns of the per-individual table are measured in."""
    words = f"spent in {run.settings.rule.unit}"
    if delta is not None:
        words += f"; epsilon at delta = {written(delta)}, {AFTER_THE_FACT.replace('-', ' ')}: neither exact nor a bound"
    return words
