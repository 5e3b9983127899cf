"""A run that is continued, or killed and started again, ends as one that was never interrupted."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.files.archive import load_sealed, save_sealed
from dpcalc.filters import local
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.delta_split import split_delta
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.request import Request
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import gdp_rule
from dpcalc.filters.run import Run
from dpcalc.filters.settings import Settings
from dpcalc.filters.state import load_state, save_state, settings_key
from dpcalc.filters.subsampled import SubsampledRenyi
from dpcalc.filters.summary import details, guarantee, losses
from dpcalc.filters.table import write_table

NORMS = np.random.default_rng(0).random((30, 12))
REQUESTS = {
    "drop": Request(kind="gdp", sigma=2.0, mu=1.0, delta=1e-5),
    "clip": Request(kind="gdp", sigma=2.0, mu=1.0, delta=1e-5, mode="clip"),
    "odometer": Request(kind="gdp", sigma=2.0, mu=1.0, odometer=0.6),
    "sampled": Request(kind="rdp", sigma=2.0, orders=(8.0,), rhos=(2e-3,), sample_rate=0.05),
}


def write_csv(path: Path, steps: range) -> None:
    rows = [f"{t},p{i},{NORMS[t, i].item()!r}\n" for t in steps for i in range(12)]
    path.write_text("step,id,norm\n" + "".join(rows))


def answer(run: Run) -> object:
    found = losses(run, None)
    told = details(run, found, guarantee(run, epsilon=None, delta=None), None)
    return told, [part.tolist() for part in run.filter.state.to_arrays().values()]


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("again", ["only the new steps", "the whole log"])
def test_a_long_log_is_continued(tmp_path: Path, name: str, again: str) -> None:
    log, state = tmp_path / "log.csv", tmp_path / "state"
    request = replace(REQUESTS[name], state=state)
    write_csv(log, range(30))
    whole = answer(carry_out(REQUESTS[name], str(log)))
    write_csv(log, range(13))
    carry_out(request, str(log))
    carry_out(request, str(log))
    write_csv(log, range(13 if again == "only the new steps" else 0, 30))
    assert answer(carry_out(request, str(log))) == whole
    assert answer(carry_out(request, str(log))) == whole


@pytest.mark.parametrize("name", REQUESTS)
def test_an_array_is_continued(tmp_path: Path, name: str) -> None:
    log, state = tmp_path / "log.npy", tmp_path / "state"
    request = replace(REQUESTS[name], state=state)
    np.save(log, NORMS)
    whole = answer(carry_out(REQUESTS[name], str(log)))
    np.save(log, NORMS[:17])
    carry_out(request, str(log))
    np.save(log, NORMS[:20])
    carry_out(request, str(log))
    np.save(log, NORMS[20:])
    assert answer(carry_out(replace(request, first_step=20), str(log))) == whole


def test_another_past_is_refused(tmp_path: Path) -> None:
    log, request = tmp_path / "log.npy", replace(REQUESTS["drop"], state=tmp_path / "state")
    np.save(log, NORMS[:10])
    carry_out(request, str(log))
    np.save(log, NORMS[10:])
    with pytest.raises(InputError, match="`first_step`"):
        carry_out(request, str(log))


def test_a_state_of_another_budget_is_refused(tmp_path: Path) -> None:
    log, request = tmp_path / "log.npy", replace(REQUESTS["drop"], state=tmp_path / "state")
    np.save(log, NORMS)
    carry_out(request, str(log))
    with pytest.raises(InputError, match="limits"):
        carry_out(replace(request, mu=2.0), str(log))


def test_counts_on_other_edges_are_refused(tmp_path: Path) -> None:
    """Fewer columns than now are no sign of it: they may end at the largest norm, or lie further apart."""
    log, request = tmp_path / "log.npy", replace(REQUESTS["sampled"], state=tmp_path / "state")
    np.save(log, NORMS)
    carry_out(request, str(log))
    facts, arrays = load_sealed(str(request.state), what="a state")
    facts.pop("edges", None)  # as states had none while edges lay 4 % apart
    save_sealed(str(request.state), facts, arrays)
    with pytest.raises(InputError, match="with edges = None"):
        carry_out(replace(request, first_step=len(NORMS)), str(log))


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    log, state = tmp_path / "log.npy", tmp_path / "state"
    np.save(log, NORMS)
    state.write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="not a state"):
        carry_out(replace(REQUESTS["drop"], state=state), str(log))


def test_checkpoints_hold_whole_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a checkpoint after every step, a run that dies in the middle of one is continued without a trace."""
    log, state = tmp_path / "log.csv", tmp_path / "state"
    write_csv(log, range(30))
    whole = answer(carry_out(REQUESTS["drop"], str(log)))
    monkeypatch.setattr(local, "_CHECKPOINT_SECONDS", -1.0)
    text = log.read_text()
    lines = text.splitlines(keepends=True)
    log.write_text("".join(lines[:200]) + "broken")
    with pytest.raises(InputError):
        carry_out(replace(REQUESTS["drop"], state=state), str(log))
    log.write_text(text)
    assert answer(carry_out(replace(REQUESTS["drop"], state=state), str(log))) == whole


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    log, state = tmp_path / "log.npy", tmp_path / "state"
    norms = np.random.default_rng(1).random((3000, 300))
    np.save(log, norms)
    request = replace(REQUESTS["drop"], sigma=20.0)
    whole = answer(carry_out(request, str(log)))
    program = (
        "import sys; from dpcalc.filters import local; from dpcalc.filters.logs import dense\n"
        "local._CHECKPOINT_SECONDS = -1.0; dense._ENTRIES = 3000\n"
        "from pathlib import Path; from dpcalc.filters.carrying import *\n"
        f"carry_out(Request(kind='gdp', sigma=20.0, mu=1.0, delta=1e-5, state=Path({str(state)!r})), {str(log)!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert answer(carry_out(replace(request, state=state), str(log))) == whole


RULE = gdp_rule(sigma=2.0, mu=1.0, clip=3.0)
SETTINGS = Settings(rule=RULE)
OTHERS = {
    "filter": replace(SETTINGS, rule=replace(RULE, kind="rdp")),
    "quantity": replace(SETTINGS, rule=replace(RULE, quantity="mu")),
    "limits": replace(SETTINGS, rule=replace(RULE, limits=(4.5,))),
    "scale": replace(SETTINGS, rule=replace(RULE, scale=2.5)),
    "clip": replace(SETTINGS, rule=replace(RULE, clip=2.5)),
    "tolerance": replace(SETTINGS, rule=replace(RULE, tolerance=1e-6)),
    "orders": replace(SETTINGS, rule=replace(RULE, orders=(8.0,))),
    "mixture": replace(SETTINGS, rule=replace(RULE, mixture=Mixture(1.0, 1e-5, (8.0,), (1.0,)))),
    "delta_split": replace(SETTINGS, rule=replace(RULE, split=split_delta(1e-5))),
    "sample_rate": replace(SETTINGS, rule=replace(RULE, subsampled=SubsampledRenyi(orders=(8.0,), sampling_rate=0.1))),
    "clip_before_noise": replace(SETTINGS, clip_before_noise=2.0),
    "beside": replace(SETTINGS, beside=("sigma",)),
    "finished": replace(SETTINGS, finished=True),
    "dominating": replace(SETTINGS, dominating=(1.0, 1e-5)),
    "budget": replace(SETTINGS, budget=RULE),
    "anytime": replace(SETTINGS, anytime=(1e-5, 0.1)),
    "mode": replace(SETTINGS, mode="clip"),
    "scope": replace(SETTINGS, scope="global"),
    "odometer": replace(SETTINGS, odometer=0.5),
    "groups": replace(SETTINGS, groups={"0": "a"}),
}


@pytest.mark.parametrize("name", sorted(settings_key(SETTINGS)))
def test_everything_that_the_sums_depend_on_must_be_the_same(tmp_path: Path, name: str) -> None:
    run = Run(SETTINGS)
    run.grow(2)
    run.block(0, np.ones((3, 2)))
    save_state(run, tmp_path / "state")
    load_state(Run(SETTINGS), tmp_path / "state")
    if name in ("version", "edges"):
        return
    with pytest.raises(InputError, match=f"with {name} ="):
        load_state(Run(OTHERS[name]), tmp_path / "state")


def test_no_setting_is_forgotten_in_a_state() -> None:
    """A field of the rule or the settings that a state does not compare would be free to change."""
    told_otherwise = {"rule", "notion", "kind", "split", "subsampled", "tracked", "resumable"}
    fields = {field.name for kind in (Rule, Settings) for field in dataclasses.fields(kind)} - told_otherwise
    assert fields <= set(settings_key(SETTINGS))
    assert set(OTHERS) == set(settings_key(SETTINGS)) - {"version", "edges"}


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_table_of_individuals_is_its_owners_alone(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow" if name.endswith("parquet") else "csv")
    write_table(tmp_path / name, {"id": [2, 1], "epsilon": [0.5, 0.7]}, note="ε")
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
