"""Poisson batches of what is known by its divergences: the referee's bounds, and what they say of results."""

from __future__ import annotations

import json
from typing import Any

import mpmath
import pytest

pytest.importorskip("flint")

from flint import arb

from dpcalc.cli.main import main
from dpcalc.referee import renyi
from dpcalc.referee.sampled_curves import bounded_range, sampled

CASES = {
    "zcdp": "zcdp,rho=0.1,sampling=poisson,rate=0.1,count=20",
    "rdp": "rdp,orders=[2,4,8,16],epsilons=[0.2,0.4,0.8,1.6],sampling=poisson,rate=0.05,count=50",
}


@pytest.mark.parametrize("name", CASES)
def test_what_moments_bound_is_confirmed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compose", "-m", CASES[name], "--delta", "1e-6", "-f", "json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["accountant"] == "rdp"
    for share, holds in ((1.0, True), (0.97, False)):
        epsilon = share * result["epsilon"]
        assert renyi.confirms(result["mechanisms"], "add-remove", epsilon, result["delta"]) == holds


@pytest.mark.parametrize(("rho", "rate"), [(0.2, 0.1), (0.01, 0.6), (3.0, 1e-3)])
@pytest.mark.parametrize("order", [1.3, 2.0, 2.6, 9.0, 17.5])
def test_a_sampled_gaussian_is_within_its_curve(rho: float, rate: float, order: float) -> None:
    """Both directions by quadrature."""
    mu, q, a = mpmath.sqrt(2 * mpmath.mpf(rho)), mpmath.mpf(rate), mpmath.mpf(order)

    def moment(power: mpmath.mpf) -> mpmath.mpf:
        ratio = lambda u: 1 - q + q * mpmath.exp(mu * u - mu * mu / 2)  # noqa: E731
        ends = mpmath.linspace(-12, 12 + float(max(power, 0) * mu), 20)
        return mpmath.quad(lambda u: ratio(u) ** power * mpmath.npdf(u), ends)

    exact = max(mpmath.log(moment(a)), mpmath.log(moment(1 - a))) / (a - 1)
    bound = sampled(lambda at: at * arb(rho), rate, arb(order))
    assert bound is not None
    assert exact * (1 - mpmath.mpf(2) ** -36) <= mpmath.mpf(float(bound.upper())) <= 3 * exact  # quadrature, a double
    if order == round(order):
        assert float(bound.mid()) == pytest.approx(float(exact), rel=0.1)


def test_divergences_of_ranges_are_those_of_the_worst_of_many() -> None:
    for epsilon, order in ((0.3, 1.2), (1.0, 2.0), (6.0, 9.0)):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        worst = mpmath.mpf(0)
        for k in range(1, 3000):
            t = e * k / 3000
            p = mpmath.expm1(t - e) / mpmath.expm1(-e)
            worst = max(worst, p * mpmath.exp((a - 1) * t) + (1 - p) * mpmath.exp((a - 1) * (t - e)))
        bound = bounded_range(arb(epsilon), arb(order))
        exact = mpmath.log(worst) / (a - 1)
        assert exact <= mpmath.mpf(float(bound.upper())) <= exact * (1 + mpmath.mpf(10) ** -5)
