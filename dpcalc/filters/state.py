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
from dpcalc.filters.run import Run, Settings, Steps
from dpcalc.filters.totals import Totals

_VERSION = 4


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
        "anytime": None if settings.anytime is None else list(settings.anytime),
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
        **run.filter.state.to_arrays(),
        "present": run.present,
        **run.steps.to_arrays(),
    }
    if run.names is not None:
        arrays["names"] = np.array(run.names)
    if run.norm_counts is not None:
        arrays.update(run.norm_counts.to_arrays())
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
    run.filter.state = Totals.from_arrays(arrays)
    run.present = arrays["present"]
    run.halt_step, run.clipped_values = key["halt_step"], key["clipped_values"]
    run.steps = Steps.from_arrays(arrays)
    if run.norm_counts is not None:
        run.norm_counts.from_arrays(arrays)
    if run.odometer is not None:
        run.odometer.from_arrays(arrays)
