"""`dpcalc exp-mech`: closed forms, the textbook beside them, and refusals."""

from __future__ import annotations

import math

import pytest

DELTA = ("--delta", "1e-5", "-f", "json")


@pytest.mark.parametrize(
    ("arguments", "mu"),
    [
        (("--lipschitz", 3, "--strong-convexity", 4), 1.5),
        (("--lipschitz", 3, "--strong-convexity", 4, "--lr", 0.1, "--smoothness", 9), 1.5 * math.sqrt(0.8)),
        (("--lipschitz", 1, "--diameter", 2), 2 * math.sqrt(2)),
        (("--lipschitz", 1, "--diameter", 2, "--lr", 0.1, "--smoothness", 9), math.sqrt(8.2)),
    ],
)
def test_closed_forms(dpcalc, arguments, mu) -> None:
    document = dpcalc("exp-mech", *arguments, *DELTA).json
    assert document["mu"] == pytest.approx(mu, rel=1e-9)
    assert document["guarantee"] == "certified"


def test_finite_time_is_below_the_stationary_law(dpcalc) -> None:
    chain = ("exp-mech", "--lipschitz", 3, "--strong-convexity", 4, "--lr", 0.1, "--smoothness", 9)
    c = 0.6
    ratio = (1 - c**5) / (1 + c**5) * (1 + c) / (1 - c)
    document = dpcalc(*chain, "--steps", 5, *DELTA).json
    assert document["mu"] == pytest.approx(math.sqrt(ratio) * 3 / math.sqrt(2 / 0.1), rel=1e-9)
    assert document["mu"] < dpcalc(*chain, *DELTA).json["mu"]


def test_the_textbook_bound_is_beside_ours(dpcalc) -> None:
    document = dpcalc("exp-mech", "--lipschitz", 1, "--diameter", 2, *DELTA).json
    assert document["details"]["classical_epsilon"] == 4
    assert document["epsilon"] <= 4
    assert {bound["name"] for bound in document["details"]["bounds"]} == {"gdp", "bounded-range", "classical"}
    unbounded = dpcalc("exp-mech", "--lipschitz", 1, "--strong-convexity", 2, *DELTA).json
    assert unbounded["details"]["classical_epsilon"] == "inf"
    assert "textbook" in dpcalc("exp-mech", "--lipschitz", 1, "--diameter", 2, "--delta", "1e-5").out


def test_choices_from_a_finite_set(dpcalc, tmp_path) -> None:
    first = dpcalc("exp-mech", "--epsilon-mech", 0.1, "--count", 100, *DELTA)
    assert first.json["details"]["classical_epsilon"] == pytest.approx(10)
    assert first.json["rho"] == pytest.approx(0.125, rel=1e-9)
    file = tmp_path / "choices.json"
    file.write_text(first.out, encoding="utf-8")
    again = dpcalc("compose", file, *DELTA).json
    assert again["epsilon"] == pytest.approx(first.json["epsilon"], rel=2e-3)


@pytest.mark.parametrize(("m", "diameter"), [(0.3, 1.5), (4, 30), (0.01, 0.2), (1e-6, 50)])
@pytest.mark.parametrize(
    "chain", [(), ("--lr", 0.05, "--smoothness", 9), ("--lr", 0.05, "--smoothness", 9, "--steps", 7)]
)
def test_of_strong_convexity_and_diameter_the_better_one_counts(dpcalc, m, diameter, chain) -> None:
    common = ("exp-mech", "--lipschitz", 0.7, *chain, *DELTA)
    by_m = dpcalc(*common, "--strong-convexity", m).json
    by_diameter = dpcalc(*common, "--diameter", diameter).json
    both = dpcalc(*common, "--strong-convexity", m, "--diameter", diameter).json
    assert both["epsilon"] == min(by_m["epsilon"], by_diameter["epsilon"])
    assert both["mu"] == min(by_m["mu"], by_diameter["mu"])
    assert (both["mu_kind"], both["epsilon_lower"]) == ("upper", None)
    assert len(both["details"]["bounds"]) == len(by_diameter["details"]["bounds"]) + 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--lipschitz", 1, "--strong-convexity", 1e-305),
        ("--lipschitz", 1e200, "--strong-convexity", 2),
        ("--lipschitz", 1e160, "--diameter", 1e160),
        ("--lipschitz", 1e300, "--diameter", 1e300),
        ("--lipschitz", 1, "--strong-convexity", 1e-305, "--lr", 0.1, "--smoothness", 1, "--steps", 10**12),
    ],
)
def test_no_lower_bound_is_infinite(dpcalc, arguments) -> None:
    result = dpcalc("exp-mech", *arguments, *DELTA)
    assert result.code in (0, 2)
    if result.code == 0:
        lower = result.json["epsilon_lower"]
        assert lower is None or math.isfinite(float(lower))


def test_an_exact_epsilon_lies_between_its_bounds(dpcalc) -> None:
    import mpmath

    for lipschitz, m in ((3, 7), (0.2, 1.3), (11, 2.5)):
        document = dpcalc("exp-mech", "--lipschitz", lipschitz, "--strong-convexity", m, *DELTA).json
        with mpmath.workdps(40):
            mu = mpmath.mpf(str(lipschitz)) / mpmath.sqrt(mpmath.mpf(str(m)))

            def excess(epsilon, mu=mu):
                upper, lower = mpmath.ncdf(-epsilon / mu + mu / 2), mpmath.ncdf(-epsilon / mu - mu / 2)
                return upper - mpmath.exp(epsilon) * lower - mpmath.mpf("1e-5")

            exact = mpmath.findroot(excess, document["epsilon"])
            assert document["epsilon_lower"] <= exact <= document["epsilon"]
        assert document["epsilon_lower"] == pytest.approx(document["epsilon"], rel=1e-9)
        assert document["mu_kind"] == "exact"


@pytest.mark.parametrize(("rate", "kind"), [(0.2, "exact"), (0.2000001, "upper")])
def test_a_chain_is_exact_up_to_two_over_the_sum_of_curvatures(dpcalc, rate, kind) -> None:
    chain = ("--lipschitz", 1, "--strong-convexity", 1, "--smoothness", 9, "--lr", rate)
    document = dpcalc("exp-mech", *chain, *DELTA).json
    assert document["mu_kind"] == kind
    assert (document["epsilon_lower"] is None) == (kind == "upper")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--lipschitz"),
        (("--lipschitz", 1), "--strong-convexity"),
        (("--lipschitz", 1, "--diameter", 1, "--lr", 0.1), "--smoothness M is missing"),
        (("--lipschitz", 1, "--diameter", 1, "--steps", 3), "--lr"),
        (("--lipschitz", 1, "--diameter", 1, "--lr", 3, "--smoothness", 1), "η ≤ 2/M"),
        (("--lipschitz", 1, "--strong-convexity", 1, "--lr", 2, "--smoothness", 1), "η < 2/M"),
        (("--lipschitz", 1, "--strong-convexity", 2, "--lr", 0.1, "--smoothness", 1), "m ≤ M"),
        (("--lipschitz", "nan", "--diameter", 1), "--lipschitz"),
        (("--lipschitz", 1, "--diameter", 1, "--count", 2), "--count"),
        (("--epsilon-mech", 1, "--lipschitz", 1), "--lipschitz"),
        (("--epsilon-mech", 0), "--epsilon-mech"),
    ],
)
def test_what_is_wrong_is_named(dpcalc, arguments, named) -> None:
    result = dpcalc("exp-mech", *arguments, "--delta", "1e-5")
    assert (result.code, result.out) == (2, "")
    assert named in result.err


def test_delta_is_needed(dpcalc) -> None:
    result = dpcalc("exp-mech", "--lipschitz", 1, "--diameter", 1)
    assert (result.code, "--delta" in result.err) == (2, True)
