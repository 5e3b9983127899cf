"""An individual ε read off after adaptive choices is no bound; a bound for all times is one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import integrate
from scipy.special import ndtr

from dpcalc.conversions import gdp_delta, gdp_epsilon
from dpcalc.filters.anytime import anytime_epsilon

DELTA = 1e-3


def density(loss: float, mu: float) -> float:
    """The density of the privacy loss N(μ²/2, μ²) of a Gaussian step."""
    return math.exp(-((loss - mu * mu / 2) ** 2) / (2 * mu * mu)) / (mu * math.sqrt(2 * math.pi))


def test_what_a_record_has_spent_is_not_a_bound() -> None:
    """Step one with μ = 1; the record is left alone if it lost more than ε(1), otherwise there is a step with μ = 2."""
    little, much = gdp_epsilon(1.0, DELTA), gdp_epsilon(math.sqrt(5.0), DELTA)
    assert (little, much) == (pytest.approx(3.13867, abs=1e-5), pytest.approx(8.78728, abs=1e-5))
    more, _ = integrate.quad(
        lambda loss: density(loss, 1.0) * gdp_delta(2.0, much - loss), -12.0, little, epsabs=1e-12, limit=200
    )
    true = gdp_delta(1.0, little) + more
    assert true == pytest.approx(0.00190281, rel=1e-4)
    assert true > 1.9 * DELTA


def test_the_bound_for_all_times_holds_against_the_same_adversary() -> None:
    first, both = anytime_epsilon(np.array([1.0, 5.0]), DELTA, 0.5)
    above = 1 - ndtr(first - 0.5)
    # L₂ ~ N(2, 4) beside L₁ that has not passed yet.
    later, _ = integrate.quad(lambda loss: density(loss, 1.0) * (1 - ndtr((both - loss - 2.0) / 2)), -12.0, first)
    assert above + later <= DELTA


@pytest.mark.parametrize(("delta", "start"), [(0.05, 1.0), (0.02, 0.5)])
def test_a_random_walk_seldom_passes_it_at_any_time(delta: float, start: float) -> None:
    """3,000 Gaussian steps to V = 2,000: the fixed-time quantile is passed by most, the bound by at most δ."""
    rng = np.random.default_rng(11)
    runs, steps = 3000, 3000
    variance = np.geomspace(1e-3, 2000.0, steps)
    increments = np.diff(variance, prepend=0.0)
    walk = np.cumsum(rng.standard_normal((runs, steps)) * np.sqrt(increments), axis=1)
    loss = walk + variance / 2
    ever = (loss > anytime_epsilon(variance, delta, start)).any(axis=1).mean()
    quantile = variance / 2 + np.sqrt(variance) * 1.6448536269514722
    assert (loss > quantile).any(axis=1).mean() > 0.6
    assert delta / 8 < ever < delta + 3 * math.sqrt(delta / runs)


def test_it_is_the_root_of_its_equation_rounded_up() -> None:
    """2Φ(w)√(r/(V+r))e^{w²/2} = 1/δ, ε = V/2 + w√(V+r), with 40 digits; V = 1, δ = 1e-5, r = 0.04: 5.59."""
    assert anytime_epsilon(np.array([1.0]), 1e-5, 0.04)[0] == pytest.approx(5.59, abs=0.005)
    rng = np.random.default_rng(2)
    with mp.workdps(40):
        for _ in range(60):
            variance, start, delta = 10 ** rng.uniform(-3, 4), 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-12, -1)
            found = anytime_epsilon(np.array([variance]), delta, start)[0]
            v, r = mpf(variance), mpf(start)

            def excess(w: mpf, v: mpf = v, r: mpf = r, delta: float = delta) -> mpf:
                return mp.log(2 * mp.ncdf(w)) + w * w / 2 + mp.log(r / (v + r)) / 2 + mp.log(mpf(delta))

            w = (mpf(found) - v / 2) / mp.sqrt(v + r)
            assert excess(w) >= 0
            assert excess(w - mpf("1e-9") * (1 + abs(w)) - v * mpf("1e-12")) < 0


def test_nothing_spent_and_little_spent() -> None:
    found = anytime_epsilon(np.array([0.0, 1e-12, 1e-3, 1.0, 1e6]), 1e-5, 0.1)
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) >= 0)
