"""A run on disk, to be continued later: written in one move, and refused if it belongs to another filter."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.filters.run import Run, Settings

_VERSION = 2


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
        "rows_state_noise": settings.rows_state_noise,
        "finished": settings.finished,
        "budget": None if budget is None else repr(budget),
        "sample_rate": settings.sampling_rate,
        "mode": settings.mode,
        "scope": settings.scope,
        "odometer": settings.odometer,
        "groups": None if settings.groups is None else sorted(set(settings.groups.values())),
    }


def save_state(run: Run, path: Path) -> None:
    """Write the state so that at every moment the file is either the old one or the new one, and complete."""
    arrays: dict[str, Any] = {
        "totals": run.filter.totals,
        "compensation": run.filter.compensation,
        "steps_active": run.filter.steps_active,
        "lost": run.filter.lost,
        "clipped": run.filter.clipped,
        "present": run.present,
        "step_labels": np.array(run.steps.labels, dtype=np.int64),
        "step_present": np.array(run.steps.present, dtype=np.int64),
        "step_sums": np.array(run.steps.value_sums),
        "step_active": np.array(run.steps.active, dtype=np.int64),
        "step_groups": np.array(run.steps.active_by_group, dtype=np.int64),
    }
    if run.names is not None:
        arrays["names"] = np.array(run.names)
    if run.moments is not None:
        arrays.update({f"moments_{piece}": sums for piece, sums in run.moments.pieces.items()})
    if run.odometer is not None:
        arrays.update(run.odometer.to_arrays())
    key = settings_key(run.settings) | {"halt_step": run.halt_step, "clipped_values": run.clipped_values}
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, key=np.array(json.dumps(key)), **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def load_state(run: Run, path: Path) -> None:
    """Continue a fresh run from its state."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored.items())
        key = json.loads(str(arrays["key"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"not a state of dpcalc filter ({error})", where=str(path)) from None
    for name, value in settings_key(run.settings).items():
        if key.get(name) != value:
            raise InputError(
                f"the state was made with {name} = {key.get(name)}, this run has {value}; a budget is fixed "
                "beforehand, so continue with the same settings or start a new state",
                where=str(path),
            )
    names = arrays["names"].tolist() if "names" in arrays else None
    run.grow(arrays["lost"].size, names)
    for name in ("totals", "compensation", "steps_active", "lost", "clipped"):
        setattr(run.filter, name, arrays[name])
    run.present = arrays["present"]
    run.halt_step, run.clipped_values = key["halt_step"], key["clipped_values"]
    steps = run.steps
    steps.labels, steps.present = arrays["step_labels"].tolist(), arrays["step_present"].tolist()
    steps.value_sums, steps.active = arrays["step_sums"].tolist(), arrays["step_active"].tolist()
    steps.active_by_group = list(arrays["step_groups"])
    if run.moments is not None:
        pieces = [name for name in arrays if name.startswith("moments_")]
        run.moments.pieces = {int(name.removeprefix("moments_")): arrays[name] for name in pieces}
    if run.odometer is not None:
        run.odometer.from_arrays(arrays)
