"""Rényi divergences that are tiny: where sums of exponentials cancel, a bound must not come out too small."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms.discrete import DiscreteLaplace
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled

ORDERS = np.array([1.0001, 1.25, 2.0, 8.0, 64.0, 256.0, 1e4])


def divergence(p: list[mpmath.mpf], q: list[mpmath.mpf], order: float) -> mpmath.mpf:
    a = mpmath.mpf(order)
    return mpmath.log(sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


@pytest.mark.parametrize("scale", [1e9, 1e6, 1e3, 50.0, 1.0, 0.1, 0.01])
def test_laplace_follows_its_closed_form_at_any_scale(scale: float) -> None:
    with mpmath.workdps(60):
        epsilon = 1 / mpmath.mpf(scale)
        for order, bound in zip(ORDERS, Laplace(scale=scale).rdp(ORDERS), strict=True):
            a = mpmath.mpf(float(order))
            terms = a * mpmath.exp((a - 1) * epsilon) + (a - 1) * mpmath.exp(-a * epsilon)
            exact = mpmath.log(terms / (2 * a - 1)) / (a - 1)
            assert 0 <= (mpmath.mpf(float(bound)) - exact) / exact < 1e-9


@pytest.mark.parametrize("scale", [1e9, 1e6, 1e3, 50.0, 1.0, 0.1])
def test_discrete_laplace_is_two_points_at_sensitivity_one(scale: float) -> None:
    with mpmath.workdps(60):
        tail = 1 / (1 + mpmath.exp(-1 / mpmath.mpf(scale)))
        for order, bound in zip(ORDERS, DiscreteLaplace(scale=scale, sensitivity=1).rdp(ORDERS), strict=True):
            exact = divergence([tail, 1 - tail], [1 - tail, tail], float(order))
            assert 0 <= (mpmath.mpf(float(bound)) - exact) / exact < 1e-6


@pytest.mark.parametrize("rate", [1e-7, 1e-3, 0.3])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 5.0])
def test_sampled_randomised_response_covers_both_directions(rate: float, epsilon: float) -> None:
    mechanism = PoissonSampled(base=RandomizedResponse(epsilon=epsilon), sampling_rate=rate)
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        with_record, without = [p, 1 - p], [1 - p, p]
        q = mpmath.mpf(rate)
        mixed = [(1 - q) * y + q * x for x, y in zip(with_record, without, strict=True)]
        for order, bound in zip(ORDERS, mechanism.rdp(ORDERS), strict=True):
            exact = max(divergence(mixed, without, float(order)), divergence(without, mixed, float(order)))
            assert 0 <= (mpmath.mpf(float(bound)) - exact) / exact < 1e-4
