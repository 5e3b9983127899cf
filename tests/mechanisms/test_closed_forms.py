"""What mechanisms say of themselves, against closed forms in 40 digits: strictly on the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.errors import InputError
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse, RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled

EPSILONS = [1e-9, 3e-4, 0.02, 0.7, 1.0, 4.0, 30.0, 400.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_of_laplace_is_exact(epsilon):
    """Φ(-μ/2) = ½e^{-ε/2}: the smallest μ, not that of every ε-DP mechanism."""
    mechanism = Laplace(scale=1.0, sensitivity=epsilon)
    bound = mechanism.gdp()
    with mpmath.workdps(400):
        half = mpmath.mpf(bound) / 2
        tail = mpmath.erfc(half / mpmath.sqrt(2)) / 2
        assert tail <= mpmath.exp(-mpmath.mpf(epsilon) / 2) / 2
        smaller = half * (1 - mpmath.mpf("4e-12"))
        assert mpmath.erfc(smaller / mpmath.sqrt(2)) / 2 > mpmath.exp(-mpmath.mpf(epsilon) / 2) / 2
    assert bound <= RandomizedResponse(epsilon=epsilon).gdp()


@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 1.03006399762), (3.0, 2.43649380961)])
def test_mu_of_laplace_against_published_values(epsilon, mu):
    assert Laplace(scale=1 / epsilon).gdp() == pytest.approx(mu, rel=1e-11)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_of_laplace_and_of_pure_dp_are_exact(epsilon):
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        laplace, pure = e + mpmath.exp(-e) - 1, e * mpmath.tanh(e / 2)
        assert laplace <= Laplace(scale=1.0, sensitivity=epsilon).zcdp() <= laplace * (1 + mpmath.mpf("1e-11"))
        assert pure <= RandomizedResponse(epsilon=epsilon).zcdp() <= pure * (1 + mpmath.mpf("1e-11"))


def exact_discrete_delta(sigma, shift, epsilon):
    """Σ over integers of (p - e^ε q)⁺ in many digits."""
    s = mpmath.mpf(sigma)
    reach = int(60 * sigma) + 3 * shift
    total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s)) for x in range(-reach, reach + 1))
    # p > e^ε q where (Δ² - 2Δx)/2σ² > ε
    last = math.floor((shift * shift - 2 * sigma * sigma * epsilon) / (2 * shift))
    p = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s)) for x in range(-reach, last + 1))
    q = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x - shift) ** 2) / (2 * s * s)) for x in range(-reach, last + 1))
    return (p - mpmath.exp(mpmath.mpf(epsilon)) * q) / total


@pytest.mark.parametrize(("sigma", "shift"), [(2.7, 1), (1.4, 3)])
def test_discrete_gaussian_is_bracketed_down_to_the_smallest_probabilities(sigma, shift):
    mechanism = DiscreteGaussian(sigma=sigma, sensitivity=shift)
    upper, lower = mechanism.pairs()[0], mechanism.attained_pairs()[0]
    seen = []
    with mpmath.workdps(340):
        for x in (0, -4, -12, -25, -36):
            step = math.floor(x * sigma)
            epsilon = (shift * shift - 2 * shift * (step + 0.37)) / (2 * sigma * sigma)
            if epsilon < 0:
                continue
            exact = exact_discrete_delta(sigma, shift, epsilon)
            seen.append(float(mpmath.log10(exact)))
            for pair, sign in ((upper, 1), (lower, -1)):
                above = pair.losses > epsilon
                p_infinite, _ = pair.at_infinity()
                found = math.fsum(pair.p[above] * -np.expm1(epsilon - pair.losses[above])) + p_infinite
                assert sign * (found - exact) >= -1e-12 * exact
                if exact > 1e-280:
                    assert abs(found - exact) <= 1e-11 * exact
    assert min(seen) < -260
    assert lower.at_infinity() == (0.0, 0.0)


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (DeclaredDP(epsilon=0.7, delta=3e-6), (0.7, 3e-6)),
        (Laplace(scale=0.4), (2.5, 0.0)),
        (Exponential(epsilon=0.3), (0.3, 0.0)),
        (KaryRandomizedResponse(p=0.5, k=5), (math.log(4), 0.0)),
        (DiscreteLaplace(scale=2.0, sensitivity=3), (1.5, 0.0)),
        (Gaussian(noise_multiplier=1.0), (math.inf, 0.0)),
        (
            PoissonSampled(base=DeclaredDP(epsilon=0.7, delta=3e-6), sampling_rate=0.2),
            (-math.log(0.8), 0.2 * 3e-6),  # where only the data without the record may be, the loss is -log(1-q)
        ),
        (PoissonSampled(base=Laplace(scale=1.0), sampling_rate=0.2), (math.log1p(0.2 * math.expm1(1.0)), 0.0)),
    ],
)
def test_basic_composition_is_told_the_largest_loss_and_what_is_at_infinity(mechanism, expected):
    assert mechanism.basic_dp() == pytest.approx(expected, rel=1e-12)
    epsilon, delta = expected
    pure = mechanism.pure_epsilon()
    assert pure is None if delta or math.isinf(epsilon) else pure == pytest.approx(epsilon)


@pytest.mark.parametrize("scheme", [PoissonSampled, FixedSizeSampled])
@pytest.mark.parametrize("base", [DeclaredZCDP(rho=0.3), DeclaredRDP(orders=(2, 9), epsilons=(0.1, 0.6))])
@pytest.mark.parametrize("rate", [1e-4, 0.03, 0.6])
def test_samples_of_declared_curves_are_pairs_whose_masses_add_up(scheme, base, rate):
    if scheme is FixedSizeSampled and base.type == "rdp":
        pytest.skip("RDP has no proved conversion to replace-one")
    for pair in scheme(base=base, sampling_rate=rate).pairs():
        a, b = pair.masses(np.linspace(-3, 3, 101))
        assert a.sum() == pytest.approx(1, abs=1e-10)
        assert b.sum() == pytest.approx(1, abs=1e-10)


BAD = [math.nan, math.inf, -math.inf, -1.0]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda v: Gaussian(noise_multiplier=v), "noise_multiplier"),
        (lambda v: Laplace(scale=v), "scale"),
        (lambda v: Laplace(scale=1.0, sensitivity=v), "sensitivity"),
        (lambda v: DiscreteGaussian(sigma=v), "sigma"),
        (lambda v: DiscreteGaussian(sigma=1.0, sensitivity=v), "sensitivity"),
        (lambda v: DiscreteLaplace(scale=v), "scale"),
        (lambda v: DiscreteLaplace(scale=1.0, sensitivity=v), "sensitivity"),
        (lambda v: RandomizedResponse(epsilon=v), "epsilon"),
        (lambda v: KaryRandomizedResponse(p=v, k=3), "p"),
        (lambda v: KaryRandomizedResponse(p=0.5, k=v), "k"),
        (lambda v: Exponential(epsilon=v), "epsilon"),
        (lambda v: DeclaredDP(epsilon=v), "epsilon"),
        (lambda v: DeclaredDP(epsilon=1.0, delta=v), "delta"),
        (lambda v: DeclaredGDP(mu=v), "mu"),
        (lambda v: DeclaredZCDP(rho=v), "rho"),
        (lambda v: DeclaredRDP(orders=(v,), epsilons=(0.1,)), "orders"),
        (lambda v: DeclaredRDP(orders=(2.0,), epsilons=(v,)), "epsilons"),
        (lambda v: PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=v), "sampling_rate"),
        (lambda v: FixedSizeSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=v), "sampling_rate"),
    ],
)
def test_every_parameter_that_is_no_sensible_number_is_refused_by_name(build, name, value):
    with pytest.raises(InputError, match=f"Expected {name}={value}"):
        build(value)


def test_the_ends_of_doubles_are_refused_or_answered():
    with pytest.raises(InputError, match="noise_multiplier=1e-310"):
        Gaussian(noise_multiplier=1e-310)
    assert OncePerEpoch(base=Laplace(scale=1e-3)).pure_epsilon() == 1000.0


@given(sigma=st.floats(1e-6, 1e6), order=st.floats(1.001, 1e4))
def test_the_gaussians_divergences_are_above_exact_fractions(sigma: float, order: float) -> None:
    exact = 1 / (2 * Fraction(sigma) ** 2)
    mechanism = Gaussian(noise_multiplier=sigma)
    rho, divergence = mechanism.zcdp(), float(mechanism.rdp(np.array([order]))[0])
    assert rho is not None
    assert exact <= Fraction(rho) <= exact * (1 + Fraction(2, 10**15))
    assert Fraction(order) * exact <= Fraction(divergence)
