"""dpcalc against dp-accounting and prv-accountant on a seeded list of random specs.

Runs where the peers are, after `python benchmarks/peers/install.py`:

    DPCALC_PEERS=.venv-peers/bin/python python -m pytest tests/peers

What is known to disagree, and why dpcalc is right there, is in docs/peers.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEERS = os.environ.get("DPCALC_PEERS")
SEED = 20220531
CASES = 24

pytestmark = pytest.mark.skipif(PEERS is None, reason="DPCALC_PEERS does not point to the peers' Python")


def random_cases() -> list[dict[str, Any]]:
    """Specs that every peer can read: Gaussian, Poisson-sampled Gaussian and Laplace mechanisms."""
    source = random.Random(SEED)
    return [_case(source) for _ in range(CASES)]


def _case(source: random.Random) -> dict[str, Any]:
    entries = [_entry(source) for _ in range(source.randint(1, 3))]
    return {"mechanisms": entries, "delta": 10 ** source.uniform(-9, -3), "calibrate_epsilon": None}


def _entry(source: random.Random) -> dict[str, Any]:
    kind = source.choice(["gaussian", "laplace", "sampled", "sampled"])
    if kind == "laplace":
        scale = 10 ** source.uniform(0.5, 1.5)
        return {"type": "laplace", "scale": scale, "sensitivity": 1.0, "count": source.randint(1, 20)}
    if kind == "gaussian":
        return {"type": "gaussian", "noise_multiplier": 10 ** source.uniform(0.3, 1.3), "count": source.randint(1, 10)}
    return {
        "type": "gaussian",
        "noise_multiplier": source.uniform(0.7, 3.0),
        "sampling": {"scheme": "poisson", "rate": 10 ** source.uniform(-3, -1)},
        "count": source.randint(10, 2000),
    }


@cache
def answers(library: str) -> list[dict[str, Any]]:
    python = sys.executable if library == "dpcalc" else str(PEERS)
    done = subprocess.run(
        [python, str(ROOT / "benchmarks" / "worker.py"), library],
        input=json.dumps(random_cases()),
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(library: str) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    rows = zip(random_cases(), answers("dpcalc"), answers(library), strict=True)
    return [(case, ours, theirs) for case, ours, theirs in rows if "seconds" in theirs]


def told(disagreements: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]) -> str:
    return "\n".join(json.dumps({"case": c, "dpcalc": o, "peer": t}) for c, o, t in disagreements)


def test_every_case_is_certified() -> None:
    for ours in answers("dpcalc"):
        assert ours["lower"] <= ours["estimate"] <= ours["epsilon"]
        assert ours["epsilon"] - ours["lower"] <= 1e-3 * ours["epsilon"] + 1e-9


def test_the_upper_bound_of_dp_accounting_is_not_below_our_lower_bound() -> None:
    rows = compared("dp-accounting PLD")
    assert len(rows) >= CASES // 2
    wrong = [row for row in rows if row[2]["epsilon"] < row[1]["lower"] * (1 - 1e-9)]
    assert not wrong, told(wrong)


def test_dp_accounting_is_not_tighter_than_our_tolerance() -> None:
    loose = [row for row in compared("dp-accounting PLD") if row[1]["epsilon"] > row[2]["epsilon"] * (1 + 1e-3)]
    assert not loose, told(loose)


def test_the_bounds_of_prv_accountant_overlap_ours() -> None:
    rows = compared("prv-accountant")
    assert len(rows) >= CASES // 2
    apart = [
        row for row in rows if row[1]["lower"] > row[2]["epsilon"] + 1e-9 or row[1]["epsilon"] < row[2]["lower"] - 1e-9
    ]
    assert not apart, told(apart)


@pytest.mark.parametrize("library", ["dp-accounting RDP", "opacus RDP"])
def test_no_peer_that_bounds_by_rdp_is_below_our_lower_bound(library: str) -> None:
    wrong = [row for row in compared(library) if row[2]["epsilon"] < row[1]["lower"] * (1 - 1e-9)]
    assert not wrong, told(wrong)
