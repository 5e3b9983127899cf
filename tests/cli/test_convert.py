"""`dpcalc convert`: every notion to every notion it implies, and clear refusals."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("given", "kind", "attained"),
    [
        (("--gdp", 0.9), "exact", True),
        (("--dp", 0.7), "upper", True),
        (("--zcdp", 0.4), None, False),
        (("--rdp", "8,0.3"), None, False),
    ],
)
def test_only_what_is_known_is_called_exact_or_bounded_from_below(dpcalc, given, kind, attained) -> None:
    """Some μ-GDP and some ε-DP mechanism is as bad as it may be; of ρ-zCDP and of one order none is known to be."""
    for asked in (("--delta", 1e-5), ("--epsilon", 0.5)):
        document = dpcalc("convert", *given, *asked, "-f", "json").json
        assert document["mu_kind"] == kind
        assert (document["epsilon_lower"] is not None or document["delta_lower"] is not None) == attained
        assert document["epsilon_estimate"] is None or attained


def test_gdp_gives_everything(dpcalc) -> None:
    result = dpcalc("convert", "--gdp", "1.2", "--delta", "1e-5", "-f", "json")
    document = result.json
    assert result.code == 0
    assert document["epsilon"] == pytest.approx(5.41348598, abs=5e-9)
    assert document["epsilon_lower"] == pytest.approx(document["epsilon"], rel=1e-9)
    assert (document["mu"], document["mu_kind"], document["guarantee"]) == (1.2, "exact", "certified")
    assert document["rho"] == pytest.approx(0.72)
    rdp = {point["order"]: point["epsilon"] for point in document["rdp"]}
    assert {2, 4, 8, 16, 32, 64} <= rdp.keys()
    assert rdp[8] == pytest.approx(8 * 0.72)
    assert document["details"]["advantage"] == pytest.approx(math.erf(0.6 / math.sqrt(2)))
    assert document["details"]["tpr_at_fpr"].keys() == {"0.001", "0.01", "0.1"}
    assert document["warnings"] == []


@pytest.mark.parametrize("mu", [0.03, 0.7, 2.3, 11.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-7, 0.01])
def test_the_exact_profile_lies_between_the_bounds(dpcalc, mu: float, delta: float) -> None:
    document = dpcalc("convert", "--gdp", mu, "--delta", delta, "-f", "json").json
    at = {name: profile(mu, document[name]) for name in ("epsilon", "epsilon_lower")}
    assert at["epsilon"] <= delta
    assert document["epsilon_lower"] < document["epsilon"] or document["epsilon"] == 0
    assert at["epsilon_lower"] >= delta or document["epsilon_lower"] == 0
    back = dpcalc("convert", "--gdp", mu, "--epsilon", 0.9, "-f", "json").json
    assert back["delta_lower"] <= profile(mu, 0.9) <= back["delta"]


def profile(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        shift, ratio = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mpmath.mpf(mu)
        return mpmath.ncdf(shift - ratio) - mpmath.exp(mpmath.mpf(epsilon)) * mpmath.ncdf(-shift - ratio)


@pytest.mark.parametrize(("epsilon", "size", "delta"), [(1.0, 2, 0.65), (0.4, 3, 0.5), (2.0, 2, 0.9)])
def test_groups_of_dp_have_no_lower_bound(dpcalc, epsilon: float, size: int, delta: float) -> None:
    """T(x) = min(e^ε x, 1 - e^{-ε}(1 - x)) applied again and again stays below x + δ, so that ε = 0 holds at δ."""

    def chained(x: float) -> float:
        for _ in range(size):
            x = min(math.exp(epsilon) * x, 1 - math.exp(-epsilon) * (1 - x))
        return x

    assert max(chained(k / 10_000) - k / 10_000 for k in range(10_001)) < delta
    document = dpcalc("convert", "--dp", epsilon, "--group", size, "--delta", delta, "-f", "json").json
    assert document["epsilon"] > 0
    assert document["epsilon_lower"] is None


def test_epsilon_asks_for_delta(dpcalc) -> None:
    document = dpcalc("convert", "--gdp", 1.2, "--epsilon", 5.41348598, "-f", "json").json
    assert document["delta"] == pytest.approx(1e-5, rel=1e-7)


def test_zcdp_has_no_mu_and_says_why(dpcalc) -> None:
    result = dpcalc("convert", "--zcdp", "420/20000", "--delta", "1e-5", "-f", "json")
    assert result.json["epsilon"] == pytest.approx(0.8156, abs=6e-5)
    assert result.json["mu"] is None
    assert "GDP" in result.json["warnings"][0]
    assert "remark       μ is not given" in dpcalc("convert", "--zcdp", "0.5", "-v").out


def test_rdp_points_convert_and_report_asked_orders(dpcalc) -> None:
    options = ["--rdp", "4,0.4", "--rdp", "16,1.6", "--order", "5", "--delta", "1e-5", "-f", "json"]
    document = dpcalc("convert", *options).json
    orders = {point["order"]: point["epsilon"] for point in document["rdp"]}
    assert orders[4] == pytest.approx(0.4)
    assert max(orders) == 16
    # Between orders 4 and 16 the chord of (α−1)·RDP: at 5 it is (3·0.4 + (15·1.6 − 3·0.4)/12)/4.
    assert orders[5] == pytest.approx((1.2 + (24 - 1.2) / 12) / 4)
    assert document["mu"] is None
    assert document["rho"] is None


def test_pure_dp_gives_mu_rho_and_rdp(dpcalc) -> None:
    document = dpcalc("convert", "--dp", "1", "-f", "json").json
    assert document["mu_kind"] == "upper"
    assert document["rho"] == pytest.approx(math.tanh(0.5))
    assert document["details"]["advantage"] == pytest.approx(math.tanh(0.5))


def test_approximate_dp_implies_no_gdp_and_no_rdp(dpcalc) -> None:
    document = dpcalc("convert", "--dp", "1,1e-6", "--delta", "1e-7", "-f", "json").json
    assert document["epsilon"] is None
    assert document["mu"] is document["rho"] is None
    assert document["rdp"] == []
    assert len(document["warnings"]) == 2


@pytest.mark.parametrize(
    ("source", "epsilon"),
    [(("--gdp", 0.5), ("--gdp", 1.5)), (("--zcdp", 0.1), ("--zcdp", 0.9)), (("--dp", 0.5), ("--dp", 1.5))],
)
def test_groups_of_three(dpcalc, source, epsilon) -> None:
    grouped = dpcalc("convert", *source, "--group", 3, "--delta", "1e-5", "-f", "json").json
    direct = dpcalc("convert", *epsilon, "--delta", "1e-5", "-f", "json").json
    assert grouped["epsilon"] == pytest.approx(direct["epsilon"], rel=1e-9)


def test_rdp_groups_follow_mironov(dpcalc) -> None:
    document = dpcalc("convert", "--rdp", "32,0.1", "--group", 4, "-f", "json").json
    nine = math.nextafter(0.9, 1)  # times the double called 0.1, which is more than a tenth
    assert document["mechanisms"] == [{"type": "rdp", "orders": [8.0], "epsilons": [nine]}]
    refused = dpcalc("convert", "--rdp", "4,0.1", "--group", 4)
    assert refused.code == 2
    assert "order of at least 8" in refused.err


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mu=st.floats(0.01, 10), factor=st.floats(1.01, 3))
def test_every_number_grows_with_mu(dpcalc, mu: float, factor: float) -> None:
    less = dpcalc("convert", "--gdp", mu, "--delta", "1e-6", "-f", "json").json
    more = dpcalc("convert", "--gdp", mu * factor, "--delta", "1e-6", "-f", "json").json
    for field in ("epsilon", "rho"):
        assert more[field] >= less[field]
    assert more["details"]["advantage"] >= less["details"]["advantage"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gdp", "-1"], ["--gdp", "-1", "(0, inf)"]),
        (["--gdp", "nan"], ["--gdp", "nan"]),
        (["--gdp", "inf"], ["--gdp", "inf"]),
        (["--gdp", "0"], ["--gdp", "0"]),
        (["--gdp", "1", "--delta", "1"], ["--delta", "[0, 1)"]),
        (["--gdp", "1", "--delta", "1.5"], ["--delta", "1.5"]),
        (["--gdp", "1", "--zcdp", "1"], ["exactly one", "--gdp and --zcdp"]),
        ([], ["exactly one", "none"]),
        (["--gdp", "much"], ["--gdp", "'much'", "256/60000"]),
        (["--gdp", "1/0"], ["--gdp", "1/0"]),
        (["--rdp", "2"], ["--rdp", "ALPHA,EPS"]),
        (["--rdp", "1,0.5"], ["--rdp", "(1, inf)"]),
        (["--rdp", "2,0.1", "--rdp", "2,0.2"], ["--rdp", "each order once"]),
        (["--dp", "1,1"], ["--dp", "[0, 1)"]),
        (["--dp", "-1"], ["--dp", "-1"]),
        (["--gdp", "1", "--delta", "1e-5", "--epsilon", "1"], ["--delta", "both"]),
        (["--gdp", "1", "--group", "0"], ["--group", "0"]),
        (["--gdp", "1", "--group", "1.5"], ["--group", "whole"]),
        (["--gdp", "1", "--adjacency", "swap"], ["--adjacency", "swap"]),
        (["--gdp", "1", "--format", "xml"], ["--format", "xml"]),
        (["--gdp", "1", "--max-epsilon", "-1"], ["--max-epsilon", "-1"]),
        (["--order", "1", "--gdp", "1"], ["--order", "(1, inf)"]),
        (["--gamma", "1"], ["--gamma"]),
        (["--gdp"], ["--gdp"]),
        (["surplus", "--gdp", "1"], ["surplus"]),
    ],
)
def test_bad_input_is_exit_2_in_at_most_two_lines(dpcalc, arguments, words) -> None:
    result = dpcalc("convert", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert len(result.err.strip().splitlines()) <= 2
    for word in words:
        assert word in result.err


@pytest.mark.parametrize("source", [("--gdp", 0.7), ("--zcdp", 0.2), ("--dp", "0.5,1e-7"), ("--rdp", "8,0.3")])
def test_result_feeds_back_to_compose(dpcalc, tmp_path, source) -> None:
    saved = tmp_path / "result.json"
    first = dpcalc("convert", *source, "--delta", "1e-5", "-f", "json").json
    assert dpcalc("convert", *source, "--delta", "1e-5", "-f", "json", "-o", saved).code == 0
    again = dpcalc("compose", saved, "-f", "json").json
    assert again["epsilon"] == pytest.approx(first["epsilon"], rel=2e-3)
    assert again["epsilon"] >= (first["epsilon_lower"] or 0) * (1 - 1e-9)
    (told,), (read,) = first["mechanisms"], again["mechanisms"]
    assert told.items() <= read.items()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--dp", "7"), "ε = 7 without any δ, exactly (7-DP)"),
        (("--dp", "7", "--delta", "0"), "ε = 7 without any δ, exactly (7-DP)"),
        (("--dp", "7,1e-6"), "ε = 7 at δ = 1e-6, exactly, from (7, 1e-6)-DP"),
    ],
)
def test_a_declared_epsilon_is_told_at_its_own_delta(dpcalc, arguments, line) -> None:
    assert dpcalc("convert", *arguments).out.splitlines()[0] == line
