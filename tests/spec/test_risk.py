"""Risk in attack terms: above the exact values, and not far above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpcalc.conversions.attack import bayes_accuracy, least_true_positive_rate, risk_from_curve, true_positive_rate

Run = Callable[..., Any]

# Advantage, TPR at FPR 0.001, 0.01 and 0.1, and Bayes accuracy at prior 0.1: closed forms to 12 digits by mpmath, and
# for the sampled Gaussian two contour integrals that agree to 1e-10 (the worse direction).
EXACT = {
    "gaussian,noise_multiplier=2": (0.197412651366, 0.00479555920914, 0.0338989391228, 0.217239080427, 0.900000168725),
    "gaussian,noise_multiplier=1": (0.382924922548, 0.0182984684057, 0.0923622480737, 0.389143691645, 0.901336306099),
    "gdp,mu=2": (0.682689492137, 0.137805412898, 0.372080585435, 0.763759584106, 0.929939314141),
    "laplace,scale=1,sensitivity=1": (0.393469340287, 0.00271828182846, 0.0271828182846, 0.271828182846, 0.9),
    "laplace,epsilon=3": (0.776869839852, 0.0200855369232, 0.200855369232, 0.875532329080, 0.933060951955),
    "randomized-response,epsilon=2": (0.761594155956, 0.00738905609893, 0.0738905609893, 0.738905609893, 0.9),
    "gaussian,noise_multiplier=0.8,sampling=poisson,rate=0.01,count=1000": (
        0.2295443747, 0.0078458860, 0.0463310623, 0.2511480076, 0.9000415070,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mechanism", EXACT)
def test_risk_is_above_the_exact_one_and_near_it(dpcalc: Run, mechanism: str) -> None:
    result = dpcalc("compose", "-m", mechanism, "--delta", "1e-6", "--prior", "0.1", "-f", "json").json
    risk = result["risk"]
    found = (risk["advantage"], *(risk["tpr_at_fpr"][rate] for rate in ("0.001", "0.01", "0.1")))
    found = (*found, risk["bayes_accuracy"]["value"])
    assert risk["bayes_accuracy"]["prior"] == 0.1
    for bound, exact in zip(found, EXACT[mechanism], strict=True):
        assert exact * (1 - 1e-9) <= bound <= exact * 1.03


def test_convert_tells_the_same_risk(dpcalc: Run) -> None:
    converted = dpcalc("convert", "--gdp", "2", "--prior", "0.1", "-f", "json").json["risk"]
    composed = dpcalc("compose", "-m", "gdp,mu=2", "--delta", "1e-6", "--prior", "0.1", "-f", "json").json["risk"]
    assert converted["advantage"] == pytest.approx(composed["advantage"], rel=1e-9)
    assert converted["tpr_at_fpr"] == pytest.approx(composed["tpr_at_fpr"], rel=1e-9)
    assert converted["bayes_accuracy"]["value"] == pytest.approx(0.929939314141, rel=1e-9)


def test_what_is_not_certified_has_no_risk(dpcalc: Run) -> None:
    mechanism = "gaussian,noise_multiplier=1,sampling=poisson,rate=0.02,count=300"
    assert (
        dpcalc("compose", "-m", mechanism, "--delta", "1e-6", "--accountant", "clt", "-f", "json").json["risk"] is None
    )


@pytest.mark.parametrize("near_mu", [0.01, 0.3, 1.0, 9.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_every_probe_of_randomised_response_is_a_bound(near_mu: float, epsilon: float) -> None:
    """Its trade-off curve is min(e^ε x, 1 − e^−ε(1 − x)), and δ(s) = (e^ε − e^s)₊/(1 + e^ε)."""
    import math

    def delta(at: float) -> float:
        return max(0.0, (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon)))

    risk = risk_from_curve(delta, near_mu=near_mu)
    for rate in (0.001, 0.01, 0.1):
        exact = min(math.exp(epsilon) * rate, 1 - math.exp(-epsilon) * (1 - rate))
        assert risk.tpr_at_fpr[f"{rate:g}"] >= exact
        assert exact <= least_true_positive_rate(delta, rate) <= 1.1 * exact
    assert risk.advantage == pytest.approx(math.tanh(epsilon / 2))
    assert risk.bayes_accuracy == pytest.approx((1 + math.tanh(epsilon / 2)) / 2)


def test_a_point_of_the_curve_bounds_the_rate_from_both_ends() -> None:
    assert true_positive_rate(0.0, 0.25, 0.1) == pytest.approx(0.35)
    assert true_positive_rate(2.0, 0.0, 0.9) == pytest.approx(1 - 0.1 * 2.718281828459045**-2)
    assert true_positive_rate(800.0, 0.0, 0.5) == 1.0
    assert bayes_accuracy(lambda _: 0.0, 0.2) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("flags", "noise"),
    [
        (("--advantage", "0.2"), 1 / 0.506694206272),
        (("--tpr", "0.05@0.01"), 1 / 0.681494247089),
        (("--mu", "0.4"), 2.5),
        (("--rho", "0.02"), 5.0),
    ],
)
def test_noise_is_calibrated_to_an_attackers_success(dpcalc: Run, flags: tuple[str, str], noise: float) -> None:
    result = dpcalc("calibrate", "-m", "gaussian,noise_multiplier=solve", *flags, "-f", "json")
    assert result.code == 0, result.err
    found = result.json["details"]["solution"]
    assert noise * (1 - 1e-9) <= found <= noise * 1.001


def test_a_budget_in_the_spec_is_a_target(dpcalc: Run) -> None:
    spec = "delta: 1e-6\nbudget: {{{}}}\nmechanisms: [{{type: gaussian, noise_multiplier: solve, count: 4}}]"
    one = dpcalc("calibrate", "-", "-f", "json", stdin=spec.format("epsilon: 2")).json
    same = dpcalc("calibrate", "-", "--epsilon", "2", "-f", "json", stdin=spec.format("rho: 1e9")).json
    assert one["details"]["solution"] == pytest.approx(same["details"]["solution"], rel=2e-3)
    assert one["budget"] == {"within": True, "max_epsilon": 2.0}
    both = dpcalc("calibrate", "-", "-f", "json", stdin=spec.format("epsilon: 2, rho: 0.01")).json
    assert both["rho"] <= 0.01
    assert both["details"]["solution"] > one["details"]["solution"]
    refused = dpcalc("calibrate", "-", "--epsilon", "3", stdin=spec.format("epsilon: 2"))
    assert refused.code == 2
    assert "--epsilon" in refused.err


@pytest.mark.parametrize(("flag", "value"), [("--tpr", "0.05"), ("--tpr", "0.01@0.05"), ("--advantage", "1")])
def test_a_target_that_means_nothing_is_refused(dpcalc: Run, flag: str, value: str) -> None:
    outcome = dpcalc("calibrate", "-m", "gdp,mu=solve", flag, value)
    assert outcome.code == 2
    assert flag in outcome.err
