"""A run on disk, to be continued later: written in one move, and refused if it belongs to another filter.

A state carries a digest, so that an edited or damaged one is noticed. It is not signed: whoever may write the file may
also write another one, and is trusted with everybody's budget.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.files import reading
from dpcalc.files.archive import Arrays, check_alike, load_sealed, save_sealed
from dpcalc.filters.buckets import LAYOUT
from dpcalc.filters.run import Run
from dpcalc.filters.settings import Settings
from dpcalc.filters.steps import Steps
from dpcalc.filters.totals import Totals

_VERSION = 6
# Arrays that grow with the steps, and those with an entry for each.
_GROWING = ("step_", "odometer_stop", "norm_count")
_PER_STEP = ("step_present", "step_sums", "step_active", "step_groups")


def settings_key(settings: Settings) -> dict[str, Any]:
    """What must be the same for a state to be continued: everything that the sums and the budget depend on."""
    rule = settings.rule
    mixture, split, budget = rule.mixture, rule.split, settings.budget
    return {
        "version": _VERSION,
        "filter": rule.kind,
        "quantity": rule.quantity,
        "limits": list(rule.limits),
        "scale": rule.scale,
        "clip": rule.clip,
        "tolerance": rule.tolerance,
        "orders": list(rule.orders),
        "mixture": None if mixture is None else [mixture.epsilon, mixture.delta, *mixture.weights],
        "delta_split": None if split is None else list(split),
        "clip_before_noise": settings.clip_before_noise,
        "beside": list(settings.beside),
        "finished": settings.finished,
        "dominating": None if settings.dominating is None else list(settings.dominating),
        "anytime": None if settings.anytime is None else list(settings.anytime),
        "budget": None if budget is None else repr(budget),
        "sample_rate": settings.sampling_rate,
        "edges": None if settings.sampling_rate is None else list(LAYOUT),
        "mode": settings.mode,
        "scope": settings.scope,
        "odometer": settings.odometer,
        "groups": None if settings.groups is None else sorted(set(settings.groups.values())),
    }


def save_state(run: Run, path: Path) -> None:
    """Write the state so that at every moment the file is either the old one or the new one, and complete."""
    facts = settings_key(run.settings) | {"halt_step": run.halt_step, "clipped_values": run.clipped_values}
    save_sealed(str(path), facts | {"names": run.names}, _arrays(run))


def _arrays(run: Run) -> Arrays:
    arrays: Arrays = {**run.filter.state.to_arrays(), "present": run.present, **run.steps.to_arrays()}
    if run.norm_counts is not None:
        arrays.update(run.norm_counts.to_arrays())
    if run.odometer is not None:
        arrays.update(run.odometer.to_arrays())
    return arrays


def load_state(run: Run, path: Path) -> None:
    """Continue a fresh run from its state."""
    where = str(path)
    facts, arrays = load_sealed(where, what="a state of dpcalc filter")
    for name, value in settings_key(run.settings).items():
        if facts.get(name) != value:
            raise InputError(
                f"the state was made with {name} = {facts.get(name)}, this run has {value}; a budget is fixed "
                "beforehand, so continue with the same settings or start a new state",
                where=where,
            )
    with reading(where, "not a state of dpcalc filter"):
        names, individuals = _checked_names(facts["names"]), arrays["lost"].size
        if names is not None and len(names) != individuals:
            raise ValueError(f"{individuals} individuals with {len(names)} names")
        halt, clipped = facts["halt_step"], facts["clipped_values"]
        if not (halt is None or type(halt) is int) or type(clipped) is not int:
            raise ValueError("halt_step and clipped_values are whole numbers")
        run.grow(individuals, names)
        check_alike(where, arrays, _arrays(run), any_length=[name for name in arrays if name.startswith(_GROWING)])
        _check_values(arrays)
        run.filter.state = Totals.from_arrays(arrays)
        run.present = arrays["present"]
        run.halt_step, run.clipped_values = halt, clipped
        run.steps = Steps.from_arrays(arrays)
        if run.norm_counts is not None:
            run.norm_counts.from_arrays(arrays)
        if run.odometer is not None:
            run.odometer.from_arrays(arrays)


def _checked_names(names: Any) -> list[int] | list[str] | None:
    """The ids of the records, each once: all integers or all text, or None if they are numbered."""
    if names is None:
        return None
    kinds = {type(name) for name in names}
    if type(names) is not list or not (kinds <= {int} or kinds <= {str}) or len(set(names)) < len(names):
        raise ValueError("names must be whole numbers or text, each once")
    return names


def _check_values(arrays: Arrays) -> None:
    """What everybody has spent and counts are not negative; every step has all of its numbers."""
    for name, array in arrays.items():
        if array.dtype.kind != "f" and name != "step_labels" and np.any(array < 0):
            raise ValueError(f"{name} holds an impossible number")
    if np.any(arrays["totals"] + arrays["compensation"] < 0):
        raise ValueError("totals are negative")
    steps = arrays["step_labels"]
    if np.any(np.diff(steps) < 1) or any(len(arrays[name]) != len(steps) for name in _PER_STEP):
        raise ValueError("the steps are not complete")
