"""A μ that dominates sampled losses over a stated range: held against certified brackets, and never certified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.conversions import gdp_mu, zcdp_epsilon
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled

Run = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two people, 400 steps: at the clip, and at half of it."""
    np.save(tmp_path / "log.npy", np.tile([1.0, 0.5], (400, 1)))
    return tmp_path / "log.npy"


OPTIONS = ("--filter", "rdp", "--noise-multiplier", "1.3", "--clip", "1", "--sample-rate", "0.02", "--delta", "1e-5")


def least_mu(norm: float) -> float:
    """Below it the Gaussian curve is certainly passed at δ = 1e-5."""
    step = PoissonSampled(base=Gaussian(noise_multiplier=1.3 / norm, adjacency="add-remove"), sampling_rate=0.02)
    return float(gdp_mu(compose([(step, 400)], delta=1e-5).epsilon_lower or 0.0, 1e-5))


def test_everybodys_curve_is_held_against_the_budgets(dpcalc: Run, log: Path) -> None:
    one, half = least_mu(1.0), least_mu(0.5)
    for budget, over in ((0.99 * half, 2), (0.99 * one, 1)):
        found = dpcalc("filter", log, *OPTIONS, "--mu", repr(budget), "--finished", "-f", "json")
        assert found.code == 1
        assert (found.json["details"]["beyond_budget"], found.json["details"]["within"]) == (over, False)
        assert found.json["epsilon"] is None
    kept = dpcalc("filter", log, *OPTIONS, "--mu", repr(1.3 * one), "--finished", "-f", "json")
    assert kept.code == 0
    assert kept.json["details"]["within"] is True
    assert kept.json["epsilon"] == pytest.approx(zcdp_epsilon((1.3 * one) ** 2 / 2, 1e-5), rel=1e-9)
    assert (kept.json["guarantee"], kept.json["mu_kind"]) == ("approximate", "approximate")
    assert "Section 5" in json.dumps(kept.json["theorem"])


def test_it_passes_no_limit_and_stays_approximate(dpcalc: Run, log: Path) -> None:
    asked = ("filter", log, *OPTIONS, "--mu", "2", "--finished")
    assert dpcalc(*asked, "--max-epsilon", "100").code == 3
    document = dpcalc(*asked, "-f", "json").json
    again = dpcalc("compose", "-", "-f", "json", stdin=json.dumps(document))
    assert again.json["guarantee"] == "approximate"
    document["guarantee"] = "certified"
    assert dpcalc("compose", "-", stdin=json.dumps(document)).code == 2


def test_a_run_that_goes_on_is_not_filtered_by_it(dpcalc: Run, log: Path) -> None:
    refused = dpcalc("filter", log, *OPTIONS, "--mu", "2")
    assert refused.code == 2
    assert "--finished" in refused.err
