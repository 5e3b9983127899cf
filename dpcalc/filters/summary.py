"""A finished run as a result: the guarantee its filter enforced, and what happened to whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions.implied import convert
from dpcalc.filters import individual
from dpcalc.filters.run import Run, Settings
from dpcalc.guarantee import Guarantee

_THEOREMS = {
    ("gdp", "individual"): "Koskela et al. (2023), Theorem 12: individual GDP filter",
    ("gdp", "global"): "Koskela et al. (2023), Theorem 11 and C.1: GDP filter",
    ("rdp", "individual"): "Feldman, Zrnic (2021), Theorem 4.5: individual Rényi filter",
    ("rdp", "global"): "Feldman, Zrnic (2021), Theorem 4.3: Rényi filter",
    ("dp", "individual"): "Feldman, Zrnic (2021), Theorems 4.5 and 4.9: individual DP filter through zCDP",
    ("dp", "global"): "Feldman, Zrnic (2021), Theorem 4.9: DP filter through zCDP",
}
_CLIP_THEOREM = "Feldman, Zrnic (2021), Algorithm 7 and Proposition 5.2: clipping to the remaining budget"


def guarantee(settings: Settings, *, epsilon: float | None, delta: float | None) -> Guarantee:
    """What the filter enforces, whatever the log holds: its budget, fixed beforehand, with the tolerance included."""
    rule = settings.rule
    sampled = settings.sampling_rate is not None
    base = Guarantee(
        adjacency="add-remove",
        status="certified",
        accountant=f"{settings.scope} {rule.kind} {'odometer' if rule.notion is None else 'filter'}",
        theorem=_CLIP_THEOREM if settings.mode == "clip" else _THEOREMS[rule.kind, settings.scope],
        sampler="none" if not sampled else f"poisson, rate {settings.sampling_rate:g}",
        assumptions=tuple(_assumptions(settings)),
    )
    if rule.notion is None:
        return base.with_warnings("no budget was given, so nothing is enforced: an odometer only tracks the loss")
    implied, _ = convert(rule.notion, delta=delta)
    found = implied.epsilon
    if epsilon is not None and found is not None:
        found = min(found, epsilon)  # the limit was chosen so that (ε,δ) holds
    return replace(
        base,
        epsilon=found,
        delta=delta,
        epsilon_estimate=found,
        mu=implied.mu,
        mu_kind=None if implied.mu is None else "upper",
        rho=implied.rho,
        rdp=implied.rdp,
        mechanisms=implied.mechanisms,
        warnings=implied.warnings,
    )


def _assumptions(settings: Settings) -> list[str]:
    lines = ["the budget was fixed before the run, and not chosen after looking at this log"]
    if settings.rule.quantity == "norm":
        lines.append(f"each step adds Gaussian noise of standard deviation {settings.rule.scale:g} to the sum")
        lines.append("a logged norm is at least the norm of what that record added to the sum, had it taken part")
    else:
        lines.append(f"each step has the {settings.rule.quantity} that the log declares, given all earlier outputs")
    if settings.scope == "individual":
        done = "clipped to its remaining budget" if settings.mode == "clip" else "left out of every step it is refused"
        lines.append(f"each record was {done}, as told here")
    else:
        lines.append("nothing was released from the step that halted the run, nor later")
    if settings.sampling_rate is not None:
        lines.append(f"batches are Poisson samples of rate {settings.sampling_rate:g}; norms are logged sampled or not")
    return lines


@dataclass(frozen=True)
class Losses:
    """Everybody's own loss: what was spent, the ε it amounts to (None without δ), and a fitted μ under sampling."""

    spent: Floats
    epsilon: Floats | None
    fitted: individual.FittedMu | None


def losses(run: Run, delta: float | None) -> Losses:
    """The individual losses of a finished run."""
    epsilon = None if delta is None else individual.epsilons(run, delta)
    fitted = None
    if run.norm_counts is not None and delta is not None:
        fitted = individual.fitted_mu(run.norm_counts, delta)
    return Losses(run.filter.spent, epsilon, fitted)


def details(run: Run, found: Losses) -> dict[str, Any]:
    """The fields of the contract, and those that odometers, groups and sampling add."""
    whole = run.settings.scope == "global"
    fields: dict[str, Any] = {
        "steps": len(run.steps.labels),
        "individuals": None if whole else run.individuals,
        "halt_step": run.halt_step,
        "active_per_step": run.steps.active.tolist(),
        "dropped_records": None if whole else int(run.filter.lost.sum()),
        "spent": individual.quantiles(found.spent),
        "spent_unit": run.settings.rule.unit,
        "individual_epsilon": None if found.epsilon is None else individual.quantiles(found.epsilon),
        "individual_epsilon_kind": _epsilon_kind(run),
        "limit": list(run.settings.rule.limits),
        "tolerance": run.settings.rule.tolerance,
    }
    if run.settings.mode == "clip":
        fields["clipped_records"] = int(run.filter.clipped.sum())
    if found.fitted is not None:
        fields["fitted_mu"] = _fitted(found.fitted)
    if run.odometer is not None:
        fields["odometer"] = _odometer(run)
    if run.group_names:
        fields["groups"] = {name: _group(run, found, index) for index, name in enumerate(run.group_names)}
    return fields


def _epsilon_kind(run: Run) -> str:
    if run.norm_counts is not None:
        return "approximate"
    return "exact" if run.settings.rule.squares and run.settings.rule.kind != "dp" else "upper"


def _fitted(fitted: individual.FittedMu) -> dict[str, Any]:
    worst = int(np.argmax(fitted.mu)) if fitted.mu.size else 0
    return {
        "quantiles": individual.quantiles(fitted.mu),
        "kind": "approximate",
        "holds_for_delta": [fitted.delta_low, fitted.delta_high],
        "epsilon_range_of_largest": [float(fitted.epsilon_low[worst]), float(fitted.epsilon_high[worst])],
    }


def _odometer(run: Run) -> dict[str, Any]:
    odometer = run.odometer
    assert odometer is not None
    stretches = odometer.restarts + 1
    shown: dict[str, Any] = {"width": odometer.width, "unit": "mu" if run.settings.rule.kind == "gdp" else "rdp"}
    if run.settings.scope == "global":
        times = odometer.stopping_times(0, last_run_step(run))
        counts = np.arange(1, len(times) + 1)
        return {**shown, "stopping_times": times, "loss": odometer.losses(counts).tolist()}
    largest = int(stretches.max(initial=1))
    return {
        **shown,
        "stretches": individual.quantiles(stretches.astype(np.float64)),
        "largest_loss": float(odometer.losses(np.array([largest]))[0]),
    }


def last_run_step(run: Run) -> int:
    """The last step that ran."""
    if run.halt_step is None:
        return run.steps.labels[-1]
    return run.steps.labels[max(0, run.steps.labels.index(run.halt_step) - 1)]


def _group(run: Run, found: Losses, index: int) -> dict[str, Any]:
    members = run.group_of == index
    return {
        "individuals": int(members.sum()),
        "dropped_records": int(run.filter.lost[members].sum()),
        "active_per_step": run.steps.view("active_by_group")[:, index].tolist(),
        "spent": individual.quantiles(found.spent[members]),
        "individual_epsilon": None if found.epsilon is None else individual.quantiles(found.epsilon[members]),
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
    if found.fitted is not None:
        table |= {"fitted_mu": found.fitted.mu, "fitted_from_epsilon": found.fitted.epsilon_low}
        table["fitted_to_epsilon"] = found.fitted.epsilon_high
    if run.odometer is not None:
        table["odometer_loss"] = run.odometer.losses(run.odometer.restarts + 1)
        times = run.odometer.all_stopping_times(run.steps.labels[-1])
        table["odometer_stopping_times"] = [" ".join(map(str, ends)) for ends in times]
    return table
