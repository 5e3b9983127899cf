"""Points below a law that lack none of its mass: in rationals, at every bend of both curves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.conversions import gdp_delta, gdp_epsilon
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.pairs.points import BoundPair
from dpcalc.pairs.sums.balanced import below

Exact = list[tuple[Fraction, Fraction]]  # X and its Q-mass


def random_law(seed: int) -> Exact:
    """Masses of 1 in all under both P and Q: two-point laws of mean 1, mixed. X is a double's worth away from 1."""
    draw = np.random.default_rng(seed)
    scale = 10.0 ** draw.uniform(-9, 0)
    law: Exact = []
    shares = [Fraction(float(share)) for share in draw.uniform(0.1, 1, 30)]
    for share in shares:
        up, down = (
            Fraction(float(scale * draw.uniform(0.1, 3))),
            Fraction(float(min(scale, 0.3) * draw.uniform(0.1, 3))),
        )
        weight = share / sum(shares) / (up + down)
        law += [(1 + up, weight * down), (1 - down, weight * up)]
    return sorted(law)


def far(law: Exact, t: Fraction, rest: Fraction = Fraction(0)) -> Fraction:
    """E(X-t)⁺ for t ≥ 1, E(t-X)⁺ before: with `rest` at ∞ or at 0."""
    return rest + sum(q * max(x - t if t >= 1 else t - x, Fraction(0)) for x, q in law)


def points_of(pair: BoundPair) -> Exact:
    """What a pair says, with X from its P-mass."""
    return [
        (Fraction(float(p)) / Fraction(float(q)), Fraction(float(q))) for p, q in zip(pair.p, pair.q, strict=True) if q
    ]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_below_keeps_all_mass(seed: int) -> None:
    """Masses that are off by up to 1e-11 either way: points are below, and lack no mass for it."""
    law, draw = random_law(seed), np.random.default_rng(seed + 200)
    doubt = 1e-11
    p = np.array([float(x * q) for x, q in law]) * (1 + draw.uniform(-doubt, doubt, len(law)) / 2)
    q = np.array([float(q) for _, q in law]) * (1 + draw.uniform(-doubt, doubt, len(law)) / 2)
    losses = np.log(p / q)
    order = np.argsort(losses)
    pair = below(losses[order], p[order], q[order], doubt, 0.0)
    points = points_of(pair)
    for t in [*(x for x, _ in law), *(x for x, _ in points), Fraction(1)]:
        assert far(points, t) <= far(law, t) * (1 + Fraction(pair.doubt))
    assert abs(float(pair.q.sum()) - 1) < 1e-13
    assert abs(float(pair.p.sum()) - 1) < 1e-13
    kept = far(points, Fraction(1)) / far(law, Fraction(1))
    assert float(kept) > 1 - 5 * doubt / float(np.abs(losses).mean()) - 1e-12


def test_masses_at_infinity_stay_as_they_are_below() -> None:
    """What is surely at ∞ is beside all names, so that their masses do not add up to 1."""
    losses = np.array([-0.5, 0.5])
    pair = below(losses, np.array([0.3, 0.6]), np.array([0.6, 0.3]), 1e-12, 0.1)
    assert pair.p_infinite == 0.1
    assert pair.p.sum() == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"), [(41.43, 49_088, 342, 8.116e-5), (64.48, 96_129, 829, 2.344e-7)]
)
def test_rounding_of_long_sums_does_not_add_up_over_epochs(sigma: float, steps: int, epochs: int, delta: float) -> None:
    """Far more steps than are drawn, of much noise: as good as μ-GDP, μ² = epochs·(e^{1/σ²} - 1)/steps (MATH §9)."""
    mechanism = RandomlyAllocated(base=Gaussian(noise_multiplier=sigma), steps=steps)
    found = compose([(mechanism, epochs)], delta=delta)
    limit = gdp_epsilon(float(np.sqrt(epochs * np.expm1(sigma**-2) / steps)), delta)
    assert found.epsilon_lower <= limit * 1.001
    assert found.epsilon >= limit * 0.999
    assert found.epsilon - found.epsilon_lower <= 1.5e-3 * found.epsilon


def test_a_delta_that_pays_for_all_losses_needs_no_fine_grids() -> None:
    """All epochs together have a total variation of about 2.2e-4, and their sum is 5.4e-4: ε is 0, not .066."""
    mechanism = RandomlyAllocated(base=Gaussian(noise_multiplier=70.97), steps=4077)
    limit = gdp_delta(float(np.sqrt(6 * np.expm1(70.97**-2) / 4077)), 0.0)
    assert limit < 3e-4
    assert compose([(mechanism, 6)], delta=3.812e-4).epsilon == 0
