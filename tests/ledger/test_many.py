"""Processes that are killed while they write: nothing is overdrawn, lost, or charged twice."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "ledger.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ledger_storm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sixteen_processes_killed_at_random_leave_a_sound_ledger(script, place) -> None:
    assert script.storm(place, processes=16, spends=240, kills=40) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_storm_would_notice_lost_spends(script, tmp_path) -> None:
    place = str(tmp_path / "team.db")
    assert script.storm(place, processes=2, spends=12, kills=0) == []
    assert script._faults(place, {"key-0", "never charged"}, 8) == ["1 accepted spends were lost"]
    assert script._faults(place, set(), 9) == ["8 spends were charged where 9 fit"]
