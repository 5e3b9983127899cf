"""Steps whose size is chosen from the past tell no more than the largest that may be chosen (docs/certificate, L7)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

# The first step's noise under Q, by its density.
NOISE = np.linspace(-11.0, 11.0, 8001)
DENSITY = np.exp(-NOISE * NOISE / 2) * (NOISE[1] - NOISE[0]) / np.sqrt(2 * np.pi)
CHOICES = {
    "after much": lambda u: u > 0.8,
    "after little": lambda u: u < -0.3,
    "gradually": lambda u: 1 / (1 + np.exp(-3 * u)),
    "alternating": lambda u: np.sin(4 * u) ** 2,
}


def delta(largest, rate, epsilon, choose):
    """E(XY − e^ε)⁺ of two sampled Gaussian steps by quadrature; the second one's c = choose(u)·C by the first."""
    c = np.maximum(largest * choose(NOISE), 1e-9)
    x = 1 - rate + rate * np.exp(largest * NOISE - largest**2 / 2)
    k = (np.exp(epsilon) / x - 1 + rate) / rate  # XY > e^ε where the second step's own ratio is above this
    d = (-np.log(np.maximum(k, 1e-300)) + c * c / 2) / c
    call = np.where(k > 0, ndtr(d) - k * ndtr(d - c), 1 - k)
    return float(DENSITY @ (rate * x * call))


@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("largest", [0.4, 1.5])
def test_steps_chosen_from_the_past_tell_no_more_than_the_largest(choice, largest, rate) -> None:
    for epsilon in (0.0, 0.2, 1.0, 2.0):
        always = delta(largest, rate, epsilon, np.ones_like)
        assert delta(largest, rate, epsilon, CHOICES[choice]) <= always * (1 + 1e-9)
        assert delta(largest, rate, epsilon, lambda u: 1.3 * np.ones_like(u)) > always  # a larger one would


def test_two_steps_of_the_largest_size_are_the_gaussian_of_both() -> None:
    mu = 0.7 * 2**0.5
    for epsilon in (0.0, 0.5, 1.5):
        exact = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert delta(0.7, 1.0, epsilon, np.ones_like) == pytest.approx(exact, rel=1e-9)
