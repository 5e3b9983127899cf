"""Every precondition is checked, and named with its value."""

from __future__ import annotations

import math

import pytest

from dpcalc.errors import InputError
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.setting import Setting

GOOD = {
    "algorithm": "cgd",
    "learning_rate": 0.1,
    "sigma": 1.0,
    "sensitivity": 1.0,
    "dataset_size": 100,
    "batch_size": 10,
    "steps": 50,
    "strong_convexity": 0.5,
    "smoothness": 5.0,
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"learning_rate": 0.4}, r"η < 2/M .*η = 0.4 and 2/M = 0.4"),
        ({"learning_rate": 0.5, "diameter": 1.0}, r"η ≤ 2/M .*η = 0.5 and 2/M = 0.4"),
        ({"strong_convexity": 6.0}, r"m ≤ M .*m = 6 and M = 5"),
        ({"strong_convexity": -1.0}, r"m ≥ 0 .*-1"),
        ({"batch_size": 30}, r"b to divide n .*100/30"),
        ({"batch_size": 101}, r"1 ≤ b ≤ n .*b = 101"),
        ({"batch_size": None}, r"needs a batch size"),
        ({"algorithm": "gd"}, r"all n = 100 records .*b = 10"),
        ({"algorithm": "adam"}, r"gd, cgd or sgd"),
        ({"steps": 0}, r"t ≥ 1 .*t = 0"),
        ({"dataset_size": 0}, r"n ≥ 1"),
        ({"smoothness": None}, r"η < 2/M cannot be checked"),
        ({"sigma": 0.0}, r"noise σ > 0"),
        ({"sigma": math.nan}, r"noise σ > 0"),
        ({"sensitivity": math.inf}, r"sensitivity L > 0"),
        ({"diameter": -1.0}, r"diameter D > 0"),
    ],
)
def test_a_violated_condition_is_named_with_its_value(change, named) -> None:
    with pytest.raises(InputError, match=named):
        Setting(**(GOOD | change))


def test_at_two_over_m_the_constrained_bound_is_used_and_said_so() -> None:
    request = Request(
        algorithm="gd",
        lr=0.4,
        sigma=1.0,
        sensitivity=1.0,
        n=10,
        steps=100,
        strong_convexity=0.5,
        smoothness=5.0,
        diameter=0.1,
        delta=1e-5,
    )
    analysis = analyse(request)
    assert analysis.best.bound.theorem.endswith("4.3")
    assert "strong convexity is not used" in analysis.guarantee.warnings[0]


def test_noise_is_stated_on_the_average_or_relative_to_a_clip_or_to_the_sensitivity() -> None:
    common = {
        "algorithm": "sgd",
        "n": 600,
        "batch_size": 15,
        "lr": 0.05,
        "steps": 3,
        "delta": 1e-5,
    }
    losses = {"strong_convexity": 0.1, "smoothness": 1.0}
    by_sigma = Request(sigma=1.0, sensitivity=10.0, **common, **losses).setting()
    assert Request(noise_over_sensitivity=1.5, sensitivity=10.0, **common, **losses).setting() == by_sigma
    assert Request(noise_multiplier=3.0, clip=5.0, **common, **losses).setting() == by_sigma
    assert Request(noise_over_sensitivity=1.5, clip=5.0, **common, **losses).setting() == by_sigma
    assert by_sigma.noise_over_sensitivity == 1.5


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"sensitivity": 10.0, "noise_multiplier": 3.0}, "`clip=C`.*`noise_over_sensitivity`"),
        ({"noise_multiplier": 3.0}, "`clip=C`.*`noise_over_sensitivity`"),
        ({"sensitivity": 10.0, "clip": 5.0, "sigma": 1.0}, "`sensitivity=L` and `clip=C` .* both"),
        ({"sigma": 1.0}, "`sensitivity=L` and `clip=C` .* neither"),
        ({"sensitivity": 10.0}, "`sigma`, `noise_multiplier`, `noise_over_sensitivity` is needed, got none"),
        ({"sensitivity": 10.0, "sigma": 1.0, "noise_over_sensitivity": 1.0}, "got `sigma` and `noise_over_sens"),
    ],
)
def test_units_that_do_not_fit_are_refused(given, named) -> None:
    with pytest.raises(InputError, match=named):
        Request(algorithm="gd", n=10, lr=0.1, steps=3, delta=1e-5, **given).setting()


@pytest.mark.parametrize("algorithm", ["gd", "cgd", "sgd"])
def test_without_convexity_composition_is_the_answer(algorithm) -> None:
    run = {"n": 90, "batch_size": None if algorithm == "gd" else 10, "lr": 7.0, "sigma": 0.3, "sensitivity": 4.0}
    analysis = analyse(Request(algorithm=algorithm, steps=30, delta=1e-6, **run))
    assert [each.bound.name for each in analysis.evaluated] == ["composition"]
    assert any("no convexity information" in line for line in analysis.guarantee.warnings)
    if algorithm == "gd":
        assert analysis.guarantee.mu == pytest.approx(4 / (90 * 0.3) * math.sqrt(30), rel=1e-9)
    if algorithm == "cgd":
        assert analysis.guarantee.mu == pytest.approx(4 / (10 * 0.3) * math.sqrt(4), rel=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "batch", "epochs", "steps"),
    [("gd", None, 7, 7), ("cgd", 10, 3, 30), ("sgd", 30, 2, 7), ("sgd", 10, 0.5, 5)],
)
def test_epochs_are_rounded_up_to_steps(algorithm, batch, epochs, steps) -> None:
    request = Request(
        algorithm=algorithm,
        lr=0.1,
        sigma=1.0,
        sensitivity=1.0,
        n=100,
        batch_size=batch,
        epochs=epochs,
        diameter=1.0,
        smoothness=1.0,
        delta=1e-5,
    )
    assert request.setting().steps == steps
