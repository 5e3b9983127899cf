"""Individual ε under Poisson sampling: published numbers, and the certified composition of the same steps."""

from __future__ import annotations

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.conversions import gdp_delta
from dpcalc.filters.individual import fitted_mu
from dpcalc.filters.individual_loss import LossMoments, individual_epsilons
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled


def moments_of(norms: np.ndarray, sigma: float, rate: float) -> LossMoments:
    moments = LossMoments(rate)
    moments.grow(norms.shape[1])
    moments.add((norms / sigma) ** 2)
    return moments


def certified(norms: np.ndarray, sigma: float, rate: float, delta: float) -> float:
    values, counts = np.unique(norms, return_counts=True)
    parts = [
        (PoissonSampled(base=Gaussian(noise_multiplier=sigma / v, adjacency="add-remove"), sampling_rate=rate), int(n))
        for v, n in zip(values, counts, strict=True)
    ]
    epsilon = compose(parts, delta=delta).epsilon
    assert epsilon is not None
    return epsilon


def test_equal_norms_give_the_published_dp_sgd_number() -> None:
    """q = 256/60000, σ = 1.1, 14,063 steps, δ = 1e-5: ε = 2.38168973."""
    found = individual_epsilons(moments_of(np.ones((14_063, 1)), 1.1, 256 / 60000), 1e-5)[0]
    assert 2.38168973 <= found <= 2.38168973 * 1.01


@pytest.mark.parametrize(("steps", "rate"), [(3000, 0.005), (40, 0.05)])
def test_mixed_norms_agree_with_their_own_composition(steps: int, rate: float) -> None:
    rng = np.random.default_rng(5)
    norms = np.ceil(rng.uniform(0.1, 1, 3) * rng.lognormal(0, 0.3, (steps, 3)) * 8) / 8
    found = individual_epsilons(moments_of(np.minimum(norms, 1), 2.0, rate), 1e-5)
    for record in range(3):
        expected = certified(np.minimum(norms[:, record], 1), 2.0, rate, 1e-5)
        assert expected <= found[record] <= 1.01 * expected


def test_blocks_and_single_steps_give_the_same_sums() -> None:
    norms = np.random.default_rng(1).uniform(0, 3, (50, 7))
    once, bit_by_bit = moments_of(norms, 2.0, 0.01), LossMoments(0.01, 7)
    for row in norms:
        bit_by_bit.add((row / 2.0) ** 2, np.arange(7))
    assert once.pieces.keys() == bit_by_bit.pieces.keys()
    for piece, sums in once.pieces.items():
        assert bit_by_bit.pieces[piece] == pytest.approx(sums, rel=1e-12, abs=1e-12)


def test_nobody_who_never_took_part_has_lost_anything() -> None:
    assert individual_epsilons(moments_of(np.zeros((5, 2)), 1.0, 0.1), 1e-5).tolist() == [0, 0]


def test_the_fitted_curve_is_above_the_records_own_where_it_says_so() -> None:
    moments = moments_of(np.full((2000, 1), 1.0), 1.5, 0.01)
    fitted = fitted_mu(moments, 1e-5)
    for delta in np.geomspace(fitted.delta_low, fitted.delta_high, 6):
        epsilon = individual_epsilons(moments, float(delta))[0]
        assert epsilon == 0 or gdp_delta(fitted.mu[0] * (1 + 2e-3), epsilon) >= delta
