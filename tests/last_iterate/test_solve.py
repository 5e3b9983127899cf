"""Targets: the longest run and the least noise are within the target, and one step further is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcalc.errors import InputError
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.solve import MOST_STEPS, least_noise, longest_run
from dpcalc.last_iterate.sweep import Sweep

RUNS = {
    "gd": {"n": 100, "sensitivity": 100.0},
    "cgd": {"n": 100, "batch_size": 10, "sensitivity": 10.0},
    "sgd": {"n": 1000, "batch_size": 10, "sensitivity": 10.0},
}


def run(algorithm: str, **more: object) -> Request:
    values = {"lr": 0.05, "strong_convexity": 0.001, "smoothness": 5.0, "delta": 1e-5} | RUNS[algorithm] | more
    return Request(algorithm=algorithm, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(("algorithm", "unit"), [("gd", 1), ("cgd", 10), ("sgd", 1)])
def test_the_longest_run_is_within_the_target_and_the_next_is_not(algorithm, unit) -> None:
    request = run(algorithm, noise_over_sensitivity=3.0)
    found = longest_run(request, target=4.0)
    assert found.epsilon <= 4.0
    longer = replace(request, steps=found.setting.steps + unit)
    assert analyse(longer).epsilon > 4.0


@pytest.mark.parametrize("algorithm", ["gd", "cgd", "sgd"])
@pytest.mark.parametrize("name", ["sigma", "noise_multiplier", "noise_over_sensitivity"])
def test_the_least_noise_is_within_the_target_and_a_little_less_is_not(algorithm, name) -> None:
    request = run(algorithm, steps=200)
    request = replace(request, sensitivity=None, clip=request.sensitivity / 2)
    found = least_noise(request, target=2.0, unknown=name)
    assert found.epsilon <= 2.0
    less = replace(request, **{name: getattr(found.request, name) * 0.999})
    assert analyse(less).epsilon > 2.0


def test_a_bound_that_has_converged_allows_any_length() -> None:
    request = run("gd", noise_over_sensitivity=1000.0, diameter=1.0)
    assert longest_run(request, target=4.0).setting.steps == MOST_STEPS


def test_a_target_below_the_first_step_is_refused() -> None:
    with pytest.raises(InputError, match="even t = 10 steps cost"):
        longest_run(run("cgd", noise_over_sensitivity=0.1), target=0.5)


def test_a_sweep_includes_its_end() -> None:
    assert Sweep.parse("epochs=10:200:10").values == tuple(range(10, 201, 10))
    assert Sweep.parse("lr=0.1:0.3:0.1").values == (0.1, 0.2, 0.3)
    assert Sweep.parse("sigma=1,2,5").values == (1, 2, 5)
    assert Sweep.parse("steps=1:3").values == (1, 2, 3)
    assert Sweep.parse("steps=10:200:60").values == (10, 70, 130, 190, 200)
    assert Sweep.parse("lr=0.1:0.25:0.1").values == (0.1, 0.2, 0.25)
    assert Sweep.parse("epochs=5:5:2").values == (5,)
    assert Sweep.parse("epochs=5:7:100").values == (5, 7)


@pytest.mark.parametrize(
    "text",
    [
        "epochs",
        "colour=1:2",
        "epochs=5:1",
        "epochs=1:2:0",
        "batch-size=1.5",
        "lr=a:b",
        "lr=1:2:3:4",
        "lr=-1:1",
        "lr=1:1e9",
    ],
)
def test_a_bad_sweep_is_refused(text) -> None:
    with pytest.raises(ValueError, match="expected"):
        Sweep.parse(text)
