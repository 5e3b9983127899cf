"""The history of an Opacus accountant is read as the runs that it lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

# What `json.dumps(RDPAccountant.state_dict())` of Opacus 1.6 prints after 300 steps, then 200 with less noise.
STATE = {"history": [[1.1, 0.0042666, 300], [0.9, 0.0042666, 200]], "mechanism": "rdp"}
SAME = """
adjacency: add-remove
mechanisms:
  - {type: dp-sgd, noise_multiplier: 1.1, steps: 300, sampling: poisson, rate: 0.0042666}
  - {type: dp-sgd, noise_multiplier: 0.9, steps: 200, sampling: poisson, rate: 0.0042666}
"""


def test_a_history_costs_what_its_runs_do(dpcalc: Run, tmp_path: Path) -> None:
    state, spec = tmp_path / "accountant.json", tmp_path / "same.yaml"
    state.write_text(json.dumps(STATE))
    spec.write_text(SAME)
    found = dpcalc("compose", state, "--delta", "1e-5", "-f", "json").json
    same = dpcalc("compose", spec, "--delta", "1e-5", "-f", "json").json
    assert found["epsilon"] == same["epsilon"]
    # Opacus 1.6 itself (RDPAccountant.get_epsilon) says 1.22943 here: an upper bound that ours may not exceed.
    assert found["epsilon_lower"] <= found["epsilon"] <= 1.22943
    assert any("Poisson samples" in line for line in found["assumptions"])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"history": [], "mechanism": "rdp"}, "history is empty"),
        ({"history": [[1.1, 0.01]], "mechanism": "rdp"}, "history[0]: expected [noise multiplier"),
        ({"history": [[1.1, 1.5, 10]], "mechanism": "rdp"}, "history[0][1]: expected"),
        ({"history": [[0.0, 0.1, 10]], "mechanism": "rdp"}, "history[0][0]: expected"),
        ({"history": {"a": 1}, "mechanism": "rdp"}, "history: expected a list"),
        ({"history": [[1.1, 0.1, 10]], "mechanism": "rdp", "delta": 1}, "delta"),
    ],
)
def test_what_is_no_history_is_named_by_its_place(dpcalc: Run, tmp_path: Path, state: Any, words: str) -> None:
    path = tmp_path / "accountant.json"
    path.write_text(json.dumps(state))
    refused = dpcalc("compose", path, "--delta", "1e-5")
    assert refused.code == 2
    assert words in refused.err
