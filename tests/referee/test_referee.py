"""The referee: what it confirms is so, what is changed it contradicts, and it says what it cannot check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
import pytest

flint = pytest.importorskip("flint")

from flint import arb, ctx  # noqa: E402

from dpcalc.referee import laws, renyi  # noqa: E402
from dpcalc.referee.check import checked  # noqa: E402
from dpcalc.referee.compose import exactly, on_grid  # noqa: E402


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    ctx.prec = 192
    with mpmath.workdps(40):
        yield


def claim(mechanisms: list[dict[str, Any]], epsilon: float, *, delta: float = 1e-5, **more: Any) -> dict[str, Any]:
    return {
        "schema": "dpcalc/1",
        "guarantee": "certified",
        "adjacency": "add-remove",
        "epsilon": epsilon,
        "delta": delta,
        "question": {"delta": delta},
        "epsilon_lower": None,
        "mechanisms": mechanisms,
        **more,
    }


class TestCompositions:
    def test_the_sampled_gaussian_of_the_literature(self) -> None:
        """q = 256/60000, σ = 1.1, 14,063 steps: δ(2.5) = 4.328259281e-6, a contour integral in 60 digits."""
        law = laws.mixed(laws.gaussian(1 / arb("1.1")), arb(256) / 60000)
        found = on_grid([(law, 14_063)], 2.0**-10, 1e-5).delta(arb("2.5"))
        assert found.lower < 4.328259281e-6 < found.upper
        assert found.upper < 1.1 * found.lower

    def test_coins_on_a_grid_contain_the_binomial_sum(self) -> None:
        p = mpmath.mpf(1) / (1 + mpmath.exp(-0.7))
        exact = sum(
            max(mpmath.binomial(9, k) * (p**k * (1 - p) ** (9 - k) - mpmath.e * p ** (9 - k) * (1 - p) ** k), 0)
            for k in range(10)
        )
        law = laws.two_points(arb(0.7), arb(0))
        one, many = exactly([(law, 9)], arb(1)), on_grid([(law, 9)], 2.0**-9, 1e-5).delta(arb(1))
        assert one.lower <= exact <= one.upper
        assert one.upper - one.lower < 1e-15
        assert many.lower <= exact <= many.upper

    @pytest.mark.parametrize("law", ["laplace", "discrete_laplace", "discrete_gaussian", "answers", "bounded_range"])
    def test_masses_add_up_to_one(self, law: str) -> None:
        made = {
            "laplace": lambda: laws.laplace(arb(0.8)),
            "discrete_laplace": lambda: laws.discrete_laplace(arb(2.5), 3),
            "discrete_gaussian": lambda: laws.discrete(*laws.integer_gaussian(arb(1.5), 2, 192), 2),
            "answers": lambda: laws.answers(arb(0.6), 5),
            "bounded_range": lambda: laws.bounded_range(arb(0.4)),
        }[law]()
        for sampled in (made, laws.mixed(made, arb(0.3)), laws.symmetrised(laws.mixed(made, arb(0.3)))):
            p = sampled.total[0] + sum((atom[1] for atom in sampled.atoms), arb(0)) + sampled.p_infinite
            q = sampled.total[1] + sum((atom[2] for atom in sampled.atoms), arb(0)) + sampled.q_infinite
            assert abs(float(p.mid()) - 1) < 1e-30
            assert abs(float(q.mid()) - 1) < 1e-30


class TestRenyi:
    @pytest.mark.parametrize(("order", "epsilon", "delta"), [(8, 0.0, 0.23), (3, 1.0, 1e-3), (25, 2.0, 1e-8)])
    def test_what_an_order_needs_is_attained_by_a_bernoulli_pair(
        self, order: int, epsilon: float, delta: float
    ) -> None:
        def divergence(x: Any) -> Any:
            y = delta + mpmath.exp(epsilon) * x
            return mpmath.log(y**order * x ** (1 - order) + (1 - y) ** order * (1 - x) ** (1 - order)) / (order - 1)

        most = (1 - mpmath.mpf(delta)) / mpmath.exp(epsilon)
        near, far = [most * k / 2000 for k in range(1, 2000)], [most * mpmath.mpf(0.98) ** k for k in range(300, 1200)]
        least = min(divergence(x) for x in (*near, *far))
        found = float(renyi.needed(arb(order), epsilon, delta).lower())
        assert (1 - 2e-3) * least <= found <= least

    def test_the_sampled_gaussian_at_order_two(self) -> None:
        found = renyi.divergence(
            {"type": "gaussian", "noise_multiplier": 2.0, "sampling": {"scheme": "poisson", "rate": 0.1}},
            "add-remove",
            arb(2),
        )
        assert found is not None
        assert found.overlaps((1 + arb("0.01") * (arb("0.25").exp() - 1)).log() + arb(0, 1e-17))


GAUSSIAN = [{"type": "gaussian", "noise_multiplier": 2.0, "count": 4}]  # 1-GDP: ε(1e-5) = 4.377178095681
CASES: list[tuple[list[dict[str, Any]], str, float, float]] = [
    (GAUSSIAN, "add-remove", 4.37718, 1e-5),
    ([{"type": "randomized-response", "epsilon": 1.0, "count": 1}], "add-remove", 0.98622679, 0.01),
    # δ(t) = p(1 - e^{t-ε}) with p = (γ + e^{-ε}(½ - γ))/(γ + e^{-ε}(1 - γ)): 1 + log(1 - 0.01/p)
    ([{"type": "staircase", "epsilon": 1.0, "gamma": 0.25, "count": 1}], "add-remove", 0.9845018, 0.01),
    ([{"type": "laplace", "scale": 1.0, "sensitivity": 1.0, "count": 1}], "add-remove", 0.79, 0.1),
    ([{"type": "dp", "epsilon": 0.5, "delta": 1e-6, "count": 1}], "add-remove", 0.5, 1e-6),
    # Bun, Steinke 2016: ρ + 2√(ρ log(1/δ)) = 5.2985…
    ([{"type": "zcdp", "rho": 0.5, "count": 1}], "add-remove", 5.2986, 1e-5),
]


class TestVerdicts:
    @pytest.mark.parametrize(("mechanisms", "adjacency", "epsilon", "delta"), CASES)
    def test_what_holds_is_confirmed(
        self, mechanisms: list[dict[str, Any]], adjacency: str, epsilon: float, delta: float
    ) -> None:
        assert checked(claim(mechanisms, epsilon, delta=delta, adjacency=adjacency)).verdict == "confirmed"

    @pytest.mark.parametrize(("mechanisms", "adjacency", "epsilon", "delta"), CASES[:4])
    def test_an_upper_bound_that_is_too_small_is_contradicted(
        self, mechanisms: list[dict[str, Any]], adjacency: str, epsilon: float, delta: float
    ) -> None:
        assert checked(claim(mechanisms, 0.97 * epsilon, delta=delta, adjacency=adjacency)).verdict == "contradicted"

    def test_a_lower_bound_that_is_too_large_is_contradicted(self) -> None:
        assert checked(claim(GAUSSIAN, 4.4, epsilon_lower=4.3771)).verdict == "confirmed"
        assert checked(claim(GAUSSIAN, 4.4, epsilon_lower=4.3772)).verdict == "contradicted"

    def test_a_forgotten_count_is_contradicted(self) -> None:
        sampled = {"type": "gaussian", "noise_multiplier": 1.0, "sampling": {"scheme": "poisson", "rate": 0.05}}
        honest = claim([{**sampled, "count": 60}], 6.0)
        found = {count: checked({**honest, "mechanisms": [{**sampled, "count": count}]}).verdict for count in (60, 600)}
        assert found == {60: "confirmed", 600: "contradicted"}

    def test_what_is_not_certified_or_not_known_is_not_checked(self) -> None:
        assert checked({**claim(GAUSSIAN, 5.0), "guarantee": "approximate"}).verdict == "not-checked"
        assert checked(claim([{"type": "something-new", "count": 1}], 5.0)).verdict == "not-checked"
        assert checked(claim([], 5.0)).verdict == "not-checked"

    def test_sampling_without_replacement_under_replace_one(self) -> None:
        """One step: δ(ε) = q·δ_μ(log(1 + (e^ε − 1)/q)), Bok et al., Definition 4.7."""
        q, mu, epsilon = mpmath.mpf("0.2"), mpmath.mpf("1.25"), mpmath.mpf("0.9")
        base = mpmath.log1p(mpmath.expm1(epsilon) / q)
        delta = q * (mpmath.ncdf(mu / 2 - base / mu) - mpmath.exp(base) * mpmath.ncdf(-mu / 2 - base / mu))
        entry = {
            "type": "gaussian",
            "noise_multiplier": 0.8,
            "sampling": {"scheme": "fixed-size", "rate": 0.2},
            "count": 1,
        }
        for factor, verdict in ((1.01, "confirmed"), (0.97, "contradicted")):
            asked = claim([entry], float(epsilon), delta=float(delta) * factor, adjacency="replace-one")
            assert checked(asked).verdict == verdict


class TestCommand:
    def test_exit_codes(self, tmp_path: Path, dpcalc: Callable[..., Any]) -> None:
        for name, epsilon, code in (("good", 4.38, 0), ("bad", 4.3, 1)):
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(claim(GAUSSIAN, epsilon)))
            done = dpcalc("verify", str(path), "-f", "json")
            assert done.code == code
            assert done.json["details"]["checks"][0]["verdict"] == ("confirmed", "contradicted")[code]

    def test_a_file_that_is_no_result_is_wrong_input(self, tmp_path: Path, dpcalc: Callable[..., Any]) -> None:
        path = tmp_path / "spec.yaml"
        path.write_text("mechanisms: []\n")
        assert dpcalc("verify", str(path)).code == 2
        assert dpcalc("verify").code == 2

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"mechanisms": [{"type": "gaussian", "sigma": 2.0}]}, "mechanisms[0]"),
            ({"mechanisms": [{"type": "gdp", "mu": [1]}]}, "mechanisms[0].mu"),
            ({"mechanisms": [{"type": "gdp", "mu": 0.3, "sampling": "poisson"}]}, "mechanisms[0]"),
            ({"mechanisms": "gdp"}, "mechanisms"),
            ({"epsilon": "many"}, "epsilon"),
            ({"delta": -1e-5}, "delta"),
            ({"question": 3}, "question"),
            ({"adjacency": "both"}, "adjacency"),
        ],
    )
    def test_a_result_of_the_wrong_form_is_wrong_input(
        self, tmp_path: Path, dpcalc: Callable[..., Any], change: dict[str, Any], words: str
    ) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps({**claim(GAUSSIAN, 4.38), **change}))
        done = dpcalc("verify", str(path))
        assert done.code == 2
        assert f"result.json: {words}" in done.err

    def test_the_platform_keeps_what_is_assumed(self, dpcalc: Callable[..., Any]) -> None:
        assert dpcalc("verify", "--self-test").code == 0
