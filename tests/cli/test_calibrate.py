"""`dpcalc calibrate` from the outside: safe, tight, and clear when there is no solution."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TARGET = ("--epsilon", "2", "--delta", "1e-5")
ROOT = Path(__file__).resolve().parents[2]


def composed_epsilon(dpcalc: Run, mechanism: str) -> float:
    result = dpcalc("compose", "-m", mechanism, "--delta", "1e-5", "-f", "json").json
    return float(result["epsilon"])


@pytest.mark.parametrize(
    ("mechanism", "safer"),
    [
        ("gaussian,noise_multiplier={},count=10", +1),
        ("gaussian,sigma={},sensitivity=3", +1),
        ("gaussian,noise_multiplier={},sampling=poisson,rate=0.01,count=5000", +1),
        ("laplace,scale={},sensitivity=2,count=4", +1),
        ("discrete-gaussian,sigma={},sensitivity=1,count=4", +1),
        ("gaussian,noise_multiplier=2,sampling=poisson,rate={},count=100", -1),
        ("gdp,mu={}", -1),
        ("zcdp,rho={}", -1),
        ("exponential,epsilon={},count=10", -1),
        ("randomized-response,epsilon={},count=10", -1),
        ("dp-sgd,noise_multiplier=1,batch_size=100,dataset_size=60000,epochs={},sampling=poisson", -1),
    ],
)
def test_the_value_keeps_the_target_and_a_thousandth_less_does_not(dpcalc: Run, mechanism: str, safer: int) -> None:
    result = dpcalc("calibrate", "-m", mechanism.format("solve"), *TARGET, "-f", "json").json
    value = result["details"]["solution"]
    assert result["epsilon"] <= 2
    assert composed_epsilon(dpcalc, mechanism.format(value)) <= 2
    assert composed_epsilon(dpcalc, mechanism.format(value * (1 - safer * 1e-3))) > 2


@pytest.mark.parametrize(
    "mechanism",
    [
        "gaussian,noise_multiplier=5,count={}",
        "laplace,scale=20,sensitivity=1,count={}",
        "dp-sgd,noise_multiplier=1,batch_size=600,dataset_size=60000,steps={},sampling=poisson",
        "dp-sgd,noise_multiplier=1,batch_size={},dataset_size=60000,epochs=10,sampling=poisson",
    ],
)
def test_a_whole_number_keeps_the_target_and_one_more_does_not(dpcalc: Run, mechanism: str) -> None:
    value = dpcalc("calibrate", "-m", mechanism.format("solve"), *TARGET, "-f", "json").json["details"]["solution"]
    assert isinstance(value, int)
    assert composed_epsilon(dpcalc, mechanism.format(value)) <= 2
    assert composed_epsilon(dpcalc, mechanism.format(value + 1)) > 2


def test_the_noise_of_one_gaussian_is_the_closed_form(dpcalc: Run) -> None:
    """μ = 1.2 is ε = 5.41348598 at δ = 1e-5, so that ε needs a multiplier of 1/1.2."""
    flags = ("--epsilon", "5.41348598", "--delta", "1e-5", "-f", "json")
    result = dpcalc("calibrate", "-m", "gaussian,noise_multiplier=solve", *flags).json
    assert result["details"]["solution"] == pytest.approx(1 / 1.2, rel=1e-3)
    assert result["details"]["solution"] >= 1 / 1.2 - 1e-9


def test_the_solution_is_a_result_that_composes(dpcalc: Run, tmp_path: Path) -> None:
    path = tmp_path / "solved.json"
    outcome = dpcalc(
        "calibrate", ROOT / "examples" / "calibrate.yaml", "--epsilon", "3", "--delta", "1e-6", "-f", "json"
    )
    path.write_text(outcome.out, encoding="utf-8")
    again = dpcalc("compose", path, "-f", "json").json
    assert again["epsilon"] == outcome.json["epsilon"] <= 3
    assert [entry["name"] for entry in again["mechanisms"]] == ["yearly counts", "model"]
    assert outcome.json["details"]["where"] == "mechanisms[1].noise_multiplier"


@pytest.mark.parametrize(
    ("mechanisms", "message"),
    [
        (["gaussian,noise_multiplier=1"], "expected exactly one number to be the word solve, got 0"),
        (["gaussian,noise_multiplier=solve,count=solve"], "got 2"),
        (["gaussian,sigma=1,sensitivity=solve"], "sensitivity: cannot be solved for\n        these can:"),
        (["dp,epsilon=0.1,delta=solve"], "delta: cannot be solved for"),
        (["gaussian,noise_multiplier=0.1,count=solve"], "no solution"),
        (["gaussian,noise_multiplier=500,sampling=poisson,rate=solve"], "no solution: epsilon stays below 2"),
        (
            ["gaussian,noise_multiplier=solve", "dp,epsilon=3,delta=0"],
            "no solution: the other mechanisms alone have ε =",
        ),
    ],
)
def test_what_cannot_be_solved_says_why(dpcalc: Run, mechanisms: list[str], message: str) -> None:
    flags = [part for mechanism in mechanisms for part in ("-m", mechanism)]
    outcome = dpcalc("calibrate", *flags, *TARGET)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_target_is_needed(dpcalc: Run) -> None:
    assert "which ε?" in dpcalc("calibrate", "-m", "gdp,mu=solve", "--delta", "1e-5").err
    assert "at which δ?" in dpcalc("calibrate", "-m", "gdp,mu=solve", "--epsilon", "1").err


def test_a_limit_that_is_the_goal_is_told_once_and_the_solution_is_in_csv(dpcalc: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("budget: {epsilon: 1}\ndelta: 1e-5\nmechanisms: [{type: gaussian, noise_multiplier: solve}]\n")
    first = dpcalc("calibrate", spec).out.splitlines()[0]
    assert first.count("within") == 1
    (row,) = csv.DictReader(io.StringIO(dpcalc("calibrate", spec, "-f", "csv").out))
    # Balle, Wang 2018: the exact Gaussian mechanism at ε = 1, δ = 1e-5.
    assert float(row["solution"]) == pytest.approx(3.7306, rel=1e-3)
    assert (row["key"], row["within_budget"]) == ("noise_multiplier", "True")


def test_the_range_is_widened_by_bounds_where_estimates_are_too_large(dpcalc: Run) -> None:
    """ε = 1 is where the search begins, and there the estimate is beyond this target though the bound is not."""
    step, at = "randomized-response,epsilon={},sampling=poisson,rate=0.019,count=3", ("--delta", "0.0014", "-f", "json")
    found = dpcalc("calibrate", "-m", step.format("solve"), "--epsilon", "0.0511", *at)
    assert found.code == 0
    solution = found.json["details"]["solution"]
    assert solution > 1
    assert dpcalc("compose", "-m", step.format(solution), *at).json["epsilon"] <= 0.0511
    assert dpcalc("compose", "-m", step.format(solution * 1.001), *at).json["epsilon"] > 0.0511


def test_the_solution_is_as_short_as_it_is_told_where_such_a_number_fits(dpcalc: Run) -> None:
    """One Gaussian at ε = 1, δ = 1e-5 needs 3.7306 (Balle, Wang 2018, Algorithm 1): 3.731 fits, 3.730 does not."""
    found = dpcalc("calibrate", "-m", "gaussian,noise_multiplier=solve", "--epsilon", "1", "--delta", "1e-5")
    first, _, _, tight = found.out.splitlines()[:4]
    assert first.startswith("noise_multiplier = 3.731 for gaussian: ε = 0.9999 at δ = 1e-5, within 1")
    assert tight.split()[:-1] == ["tight", "3.727", "would", "give"]
    assert 1 < float(tight.split()[-1]) < 1.002  # told so that one sees it is too much
