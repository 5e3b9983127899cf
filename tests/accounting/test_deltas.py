"""δ at many ε of one composition: as sound and as narrow as asking for each, and composed but once."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import pytest

from dpcalc.accounting import by_transform
from dpcalc.accounting.compose import compose
from dpcalc.accounting.deltas import Deltas
from dpcalc.conversions import gdp_mu
from dpcalc.conversions.attack import furthest
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredZCDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled

EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.5)
TOLERANCE = 0.02

Parts = Sequence[tuple[Mechanism, int]]


def sampled(noise_multiplier: float, rate: float) -> Mechanism:
    return PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate)


def gaussian_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle, Wang 2018, Theorem 8)."""
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def response_delta(loss: float, runs: int, epsilon: float) -> mpmath.mpf:
    """Σ (p - e^ε q)₊ over how many of the runs told the truth."""
    with mpmath.workdps(40):
        truth = 1 / (1 + mpmath.exp(-mpmath.mpf(loss)))
        terms = (
            mpmath.binomial(runs, k)
            * (truth**k * (1 - truth) ** (runs - k) - mpmath.exp(epsilon) * truth ** (runs - k) * (1 - truth) ** k)
            for k in range(runs + 1)
        )
        return mpmath.fsum(max(term, 0) for term in terms)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounds_are_above_the_exact_delta_and_near_it(epsilon: float) -> None:
    gaussian = Deltas([(Gaussian(noise_multiplier=10.0), 25)], TOLERANCE, reach=1.0)
    response = Deltas([(RandomizedResponse(epsilon=0.2), 12)], TOLERANCE, reach=1.0)
    for found, exact in (
        (gaussian(epsilon), gaussian_delta(0.5, epsilon)),
        (response(epsilon), response_delta(0.2, 12, epsilon)),
    ):
        assert exact <= found <= exact * (1 + TOLERANCE)


@pytest.mark.parametrize(
    "parts",
    [
        [(sampled(1.1, 256 / 60000), 14063)],
        [(sampled(0.5, 0.01), 100)],
        [
            (Laplace(scale=20.0, sensitivity=1.0), 100),
            (sampled(0.9, 0.005), 2000),
            (Gaussian(noise_multiplier=20.0), 3),
        ],
    ],
)
def test_one_law_answers_at_every_epsilon(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[object] = []
    monkeypatch.setattr(
        by_transform, "law_of", lambda *given, law_of=by_transform.law_of: (composed.append(given), law_of(*given))[1]
    )
    deltas = Deltas(parts, TOLERANCE, reach=1.5)
    found = [deltas(epsilon) for epsilon in EPSILONS]
    assert len(composed) == 1
    for epsilon, upper in zip(EPSILONS, found, strict=True):
        lower = compose(parts, epsilon=epsilon).delta_lower
        assert lower is not None
        assert lower <= upper <= lower * (1 + TOLERANCE)


def test_what_no_single_law_tells_is_composed_as_before() -> None:
    parts: Parts = [(DeclaredZCDP(rho=0.01), 2), (Laplace(scale=10.0, sensitivity=1.0), 1)]
    deltas = Deltas(parts, TOLERANCE, reach=1.0)
    assert [deltas(epsilon) for epsilon in (0.0, 0.5)] == [
        compose(parts, epsilon=e, tolerance=TOLERANCE).delta for e in (0.0, 0.5)
    ]


def test_beyond_the_reach_another_law_is_composed() -> None:
    parts: Parts = [(sampled(1.1, 256 / 60000), 14063)]
    deltas = Deltas(parts, TOLERANCE, reach=0.1)
    for epsilon in (0.0, 4.0):
        lower = compose(parts, epsilon=epsilon).delta_lower
        assert lower is not None
        assert lower <= deltas(epsilon) <= lower * (1 + TOLERANCE)


@pytest.mark.parametrize(("epsilon", "delta"), [(40.3, 2.6e-10), (41.8, 1e-7), (42.2, 8e-10), (43.5, 4e-9)])
def test_a_window_that_no_order_bounds_leaves_the_question_to_others(epsilon: float, delta: float) -> None:
    """Two losses so far apart ended `compose` with a fault of the program as soon as it had to tell the risk."""
    told = Deltas([(DeclaredDP(epsilon=epsilon, delta=delta), 1)], 0.005, reach=furthest(float(gdp_mu(epsilon, delta))))
    for at in (0.0, 0.9 * epsilon):
        with mpmath.workdps(40):
            e = mpmath.exp(mpmath.mpf(epsilon))
            exact = mpmath.mpf(delta) + (1 - mpmath.mpf(delta)) * (e - mpmath.exp(mpmath.mpf(at))) / (1 + e)
            assert exact <= told(at) <= 1
