"""Stages of the certificate where numbers leave the range of doubles, and grids that end where none was expected."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.certified.coarsen import coarsened, cut
from dpcalc.accounting.certified.convolve import by_transform
from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import P_LOWER, Component, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.accounting.certified.read import Curve, curve
from dpcalc.accounting.convex_order import interval
from dpcalc.accounting.question import Question
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair, pure_dp_pair


def gaussian_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Balle and Wang (2018), in 50 digits."""
    with mpmath.workdps(50):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("mu", "epsilon"), [(8.0, 285.0), (12.5, 415.0), (20.0, 580.0)])
def test_mass_whose_partner_is_below_the_range_of_doubles_is_kept(mu: float, epsilon: float) -> None:
    step = epsilon / 500
    law = discretised([GaussianPair(mu)], step, ((-540, 540),))
    truth = gaussian_delta(mu, epsilon)
    assert truth > 1e-250
    for direction in ("remove", "add"):
        assert curve(law, direction, upper=True).delta(epsilon) >= truth
        assert curve(law, direction, upper=False).delta(epsilon) <= truth


@pytest.mark.parametrize(("mu", "tilt", "epsilon"), [(1.5, 30.0, 24.0), (2.0, 24.0, 30.0), (0.8, 44.0, 17.0)])
def test_scales_below_the_range_of_doubles_neither_lose_nor_invent_mass(mu: float, tilt: float, epsilon: float) -> None:
    """Weights of e^{τℓ} are large where e^{(1-τ)ℓ} is no normal number. Points are tight above, middles below."""
    step = epsilon / 40
    law = discretised([GaussianPair(mu)], step, ((-48, 48),), tilt)
    above, below = (curve(law, "remove", upper=side) for side in (True, False))
    for at in (epsilon, epsilon + step / 2):
        assert below.delta(at) <= gaussian_delta(mu, at) <= above.delta(at)
    assert above.delta(epsilon) < 1.01 * gaussian_delta(mu, epsilon)
    assert below.delta(epsilon + step / 2) > 0.99 * gaussian_delta(mu, epsilon + step / 2)


@pytest.mark.parametrize(("rate", "last"), [(0.6, -4), (0.9, -12), (0.97, -16)])
def test_a_grid_that_ends_below_every_loss_charges_all_to_infinity(rate: float, last: int) -> None:
    """Sampled losses start at log(1 - q): what is put on points below that has P-mass to spare."""
    law = discretised([GaussianPair(1.0).mixed(rate)], 0.25, ((last - 40, last),))
    assert last * 0.25 < np.log1p(-rate)
    base = mpmath.log1p(mpmath.expm1(mpmath.mpf("0.1")) / rate)
    truth = rate * gaussian_delta(1.0, float(base))
    assert curve(law, "remove", upper=True).delta(0.1) >= truth
    assert law.ledger.infinite >= 1 - np.exp(last * 0.25) - 1e-9


def test_transforms_of_weights_whose_squares_vanish_are_paid_for() -> None:
    generator = np.random.default_rng(7)
    x = 1e-175 * np.exp(-generator.uniform(0, 40, (3, 700)))
    y = np.exp(-generator.uniform(0, 40, (3, 700)))
    found = by_transform(x, y, 256, P_LOWER)
    exact = np.array([np.convolve(a, b) for a, b in zip(x * 1e175, y, strict=True)]) * 1e-175
    above, below = found[[0, 2]], found[P_LOWER]
    assert np.all(above >= exact[[0, 2]] * (1 - 1e-13))
    assert np.all(below <= exact[P_LOWER] * (1 + 1e-13))


@pytest.mark.parametrize(("sigma", "rate", "delta"), [(0.0419, 2.2e-6, 1.8e-58), (0.043, 1e-5, 1e-62)])
def test_the_engine_at_the_end_of_the_doubles(sigma: float, rate: float, delta: float) -> None:
    """One sampled step: δ(ε) = q·δ_μ(log(1 + (e^ε - 1)/q)) for removing, the worse direction."""
    found = interval([(GaussianPair(1 / sigma).mixed(rate), 1)], Question(delta, None), ("remove", "add"))
    if found.upper < np.inf:
        with mpmath.workdps(50):
            base = mpmath.log1p(mpmath.expm1(mpmath.mpf(found.upper)) / mpmath.mpf(rate))
            mu = 1 / mpmath.mpf(sigma)
            tails = [mpmath.ncdf(side * mu / 2 - base / mu) for side in (1, -1)]
            assert mpmath.mpf(rate) * (tails[0] - mpmath.exp(base) * tails[1]) <= delta


def test_losses_beyond_the_exponential_are_read() -> None:
    """Each of 500 answers is likely by e^1.75 to 1: all together lose at most 875."""
    found = interval([(pure_dp_pair(1.75), 500)], Question(1e-33, None), ("remove",))
    assert 700 < found.lower <= found.upper <= 875 * (1 + 1e-9)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("delta", [1e-10, 0.05, 0.0999])
def test_losses_further_apart_than_doubles_reach_are_read(upper: bool, delta: float) -> None:
    """δ(ε) = 0.1·(1 - e^{ε - 800}); e^1100 is no double, and neither is a mass at -300 seen from 800."""
    found = Curve(upper, np.array([-300.0, 800.0]), np.array([0.9, 0.1]), 0.0).epsilon(delta)
    truth = 800 + float(mpmath.log1p(-mpmath.mpf(delta) / mpmath.mpf(0.1)))
    assert found == pytest.approx(truth, rel=1e-9)
    assert found >= truth * (1 - 1e-14) if upper else found <= truth * (1 + 1e-14)


def test_grids_beyond_the_doubles_leave_the_question_to_others() -> None:
    """As an ArithmeticError, which engines pass over: the next one may have an answer."""
    with pytest.raises(ArithmeticError):
        discretised([GaussianPair(25.0)], 1.0, ((-800, 800),))
    with pytest.raises(ArithmeticError):
        discretised([GaussianPair(1e-3)], 1e-16, ((600_000_000, 600_000_400),))


def test_weights_that_coarsening_takes_below_the_doubles_do_not_vanish() -> None:
    """Half of Q at a loss of 35 goes to 40 but for a trifle, where X^20 is no number any more."""
    x = np.exp(-35.0)
    pair = PointPair(np.array([-35.0, np.log(2 - x)]), np.array([x / 2, 1 - x / 2]), np.array([0.5, 0.5]))
    law = coarsened(discretised([pair], 5.0, ((-7, 9),), 20.0), 0, 17, 0)
    assert sorted(law.components) == [1]
    assert curve(law, "add", upper=True).delta(5.0) >= 0.5 * (1 - np.exp(-30.0))


def test_weights_that_cutting_takes_below_the_doubles_do_not_vanish() -> None:
    """What is cut off on the right keeps its Q-mass on the last point, on the left its P-mass on the first one."""
    for at, tilt in ((8, 25.0), (0, -24.0)):
        rows = np.zeros((3, 9))
        rows[0, at] = 1.0
        law = Law(5.0, {0: Component(-4, rows)}, Ledger(), tilt=tilt)
        done = cut(law, 0, 7, 0) if at == 0 else cut(law, 0, 0, 7)
        (part,) = done.components.values()
        assert part.size == 2
        assert part.rows[0, 0 if at == 0 else 1] > 0
