"""The staircase mechanism against its own density, integrated exactly in fractions of stairs."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import pytest

import dpcalc
from dpcalc.errors import InputError
from dpcalc.mechanisms.staircase import Staircase


def delta_of_shift(epsilon: float, gamma: float, shift: float, at: float, stairs: int = 60) -> mpmath.mpf:
    """∫ (f(x) - e^t f(x - d))₊ dx of the density itself, cell by cell between all points where either jumps."""
    with mpmath.workdps(40):
        e, g, d = mpmath.mpf(epsilon), mpmath.mpf(gamma), mpmath.mpf(shift)
        top = (1 - mpmath.exp(-e)) / (2 * (g + mpmath.exp(-e) * (1 - g)))

        def density(x: mpmath.mpf) -> mpmath.mpf:
            k = mpmath.floor(abs(x))
            return top * mpmath.exp(-e * (k if abs(x) - k < g else k + 1))

        jumps = {sign * (k + g) for k in range(stairs) for sign in (-1, 1)}
        points = sorted(jumps | {x + d for x in jumps})
        total = mpmath.mpf(0)
        for left, right in pairwise(points):
            middle = (left + right) / 2
            total += max(density(middle) - mpmath.exp(at) * density(middle - d), 0) * (right - left)
        return total


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.83])
@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_the_pair_is_the_shift_by_the_sensitivity_and_dominates_smaller_ones(epsilon: float, gamma: float) -> None:
    pair = Staircase(epsilon=epsilon, gamma=gamma).pairs()[0]
    for at in (0.0, 0.3 * epsilon, 0.9 * epsilon):
        ours = sum(max(p - math.exp(at) * q, 0.0) for p, q in zip(pair.p, pair.q, strict=True))
        # Beyond 60 stairs of ε = 0.7 there is e^-42 of the mass.
        assert ours == pytest.approx(float(delta_of_shift(epsilon, gamma, 1.0, at)), abs=1e-15, rel=1e-12)
        for shift in (0.2, 0.55, 0.9):
            assert float(delta_of_shift(epsilon, gamma, shift, at)) <= ours * (1 + 1e-12)


def test_masses_add_up_and_half_a_stair_is_randomised_response() -> None:
    for gamma in (0.0, 0.25, 0.5, 1.0):
        pair = Staircase(epsilon=1.3, gamma=gamma).pairs()[0]
        assert math.fsum(pair.p) == pytest.approx(1, abs=4e-16)
    worst = Staircase(epsilon=1.3, gamma=0.5).pairs()[0]
    assert worst.p[1] == 0
    assert worst.p[2] == pytest.approx(math.exp(1.3) / (1 + math.exp(1.3)), rel=1e-15)


def test_the_default_stair_makes_the_noise_smallest() -> None:
    def expected_size(gamma: float, epsilon: float) -> float:
        """E|X| = ∫ P(|X| > x) dx by the density: Geng and Viswanath (2015), equation (24), summed by hand."""
        b = math.exp(-epsilon)
        a = (1 - b) / (2 * (gamma + b * (1 - gamma)))
        stairs = range(200)
        return sum(
            a * b**k * ((k + gamma) ** 2 - k**2) + a * b ** (k + 1) * ((k + 1) ** 2 - (k + gamma) ** 2) for k in stairs
        )

    default = Staircase(epsilon=1.1).gamma
    assert default is not None
    best = min(expected_size(k / 1000, 1.1) for k in range(1001))
    assert expected_size(default, 1.1) <= best * (1 + 1e-6)
    # Their closed form of the least: e^{ε/2} / (e^ε - 1).
    assert expected_size(default, 1.1) == pytest.approx(math.exp(0.55) / math.expm1(1.1), rel=1e-12)


def test_composition_is_within_that_of_randomised_response() -> None:
    staircase = dpcalc.compose({"type": "staircase", "epsilon": 0.5, "count": 20}, delta=1e-6)
    response = dpcalc.compose({"type": "randomized-response", "epsilon": 0.5, "count": 20}, delta=1e-6)
    assert staircase.guarantee == "certified"
    assert staircase.epsilon_lower <= staircase.epsilon <= response.epsilon
    assert dpcalc.compose({"type": "staircase", "epsilon": 0.5}, delta=0).epsilon == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": 1.0, "gamma": 1.5}, {"epsilon": math.inf}])
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Staircase(**wrong)
