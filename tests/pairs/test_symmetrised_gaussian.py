"""The transform of C_p of a Gaussian, against 20-digit integrals and the limits it must respect."""

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import FixedSizeSampled
from dpcalc.pairs.symmetrised_gaussian import log_mgf


def exact(exponent, mu, rate):
    mpmath.mp.dps = 20
    lam, m, p = mpmath.mpf(exponent), mpmath.mpf(mu), mpmath.mpf(rate)

    def integrand(x):
        h = 1 - p + p * mpmath.exp(m * x - m * m / 2)
        return (h ** (1 + lam) - h + h ** (-lam) - 1) * mpmath.npdf(x)

    end = (1 + exponent) * mu + 20
    points = [m / 2 + k * (end - m / 2) / 20 for k in range(21)]
    return float(mpmath.log1p(mpmath.quad(integrand, points)))


@pytest.mark.parametrize(
    ("exponent", "mu", "rate"),
    [(0.1, 1.0, 0.01), (1.0, 0.5, 0.1), (7.0, 2.0, 1e-4), (31.0, 0.3, 0.5), (3.0, 6.0, 0.02), (15.0, 0.01, 1e-3)],
)
def test_the_transform_agrees_with_a_20_digit_integral(exponent, mu, rate):
    found = float(log_mgf(np.array([exponent]), mu, rate)[0])
    assert found == pytest.approx(exact(exponent, mu, rate), rel=1e-11)


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(1.0, 0.01), (0.5, 0.3), (4.0, 1e-3)])
def test_sampling_without_replacement_lowers_the_renyi_divergence(noise_multiplier, rate):
    base = Gaussian(noise_multiplier=noise_multiplier, adjacency="replace-one")
    orders = np.array([1.5, 2.0, 4.0, 8.0])
    sampled = FixedSizeSampled(base=base, sampling_rate=rate).rdp(orders)
    one_way = FixedSizeSampled(base=Gaussian(noise_multiplier=2 * noise_multiplier), sampling_rate=rate).rdp(orders)
    assert np.all(sampled < base.rdp(orders))
    assert np.all(sampled >= one_way * (1 - 1e-9))
