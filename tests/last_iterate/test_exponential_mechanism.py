"""The exponential mechanism and Langevin chains: closed forms, Gaussians that attain them, the textbook beside them."""

from __future__ import annotations

import math
import random

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.conversions import gdp_epsilon, pure_dp_mu
from dpcalc.errors import InputError
from dpcalc.last_iterate import exponential_mechanism as bounds
from dpcalc.last_iterate import sampling
from dpcalc.last_iterate.exponential_mechanism import Langevin

positive = st.floats(0.01, 10)


@given(positive, positive)
def test_strongly_log_concave_is_l_over_root_m(lipschitz, m) -> None:
    bound = bounds.strongly_log_concave(lipschitz=lipschitz, strong_convexity=m)
    # F = m x²/2 against F - Lx: N(0, 1/m) against N(L/m, 1/m).
    assert bound.mu == pytest.approx(lipschitz / m * math.sqrt(m), rel=1e-11)
    assert bound.optimal


@settings(max_examples=200)
@given(positive, positive, st.floats(1, 20), st.floats(0.01, 1), st.integers(1, 200))
def test_langevin_chains_on_quadratics_attain_the_bound(lipschitz, m, ratio, share, steps) -> None:
    eta = share * 2 / (m * (1 + ratio)) * (1 - 1e-12)
    chain = Langevin(learning_rate=eta, smoothness=m * ratio, steps=steps)
    bound = bounds.strongly_log_concave_langevin(lipschitz=lipschitz, strong_convexity=m, chain=chain)
    mean = variance = 0.0
    for _ in range(steps):
        mean, variance = (1 - eta * m) * mean + eta * lipschitz, (1 - eta * m) ** 2 * variance + 2 * eta
    assert bound.mu == pytest.approx(mean / math.sqrt(variance), rel=1e-8)
    stationary = bounds.strongly_log_concave_langevin(
        lipschitz=lipschitz, strong_convexity=m, chain=Langevin(learning_rate=eta, smoothness=m * ratio)
    )
    assert stationary.mu == pytest.approx(math.sqrt((2 - eta * m) / 2) * lipschitz / math.sqrt(m), rel=1e-9)
    assert bound.mu <= stationary.mu * (1 + 1e-12)


@settings(max_examples=100)
@given(positive, positive, st.floats(0.001, 2), st.integers(1, 10**6))
def test_projected_langevin_is_never_above_its_stationary_bound(lipschitz, diameter, eta, steps) -> None:
    def bound(steps):
        chain = Langevin(learning_rate=eta, smoothness=1.0, steps=steps)
        return bounds.log_concave_langevin(lipschitz=lipschitz, diameter=diameter, chain=chain).mu

    stationary = math.sqrt(4 * lipschitz * diameter + 2 * eta * lipschitz**2)
    assert bound(None) == pytest.approx(stationary, rel=1e-11)
    # Steps that are longer than the set is wide cannot be unrolled over less than one step.
    if diameter >= 2 * eta * lipschitz:
        assert bound(steps) <= stationary * (1 + 1e-11)


def compare(**values):
    defaults = {"strong_convexity": None, "diameter": None, "chain": None, "delta": 1e-5, "adjacency": "replace-one"}
    return sampling.continuous(**(defaults | values))


def test_gaussian_bound_wins_over_the_textbook_from_the_published_threshold_on() -> None:
    below, above = 0.676, 0.677  # Bok et al., §D.4: c* ≈ 0.6764 in LD
    assert pure_dp_mu(2 * below) < bounds.log_concave(lipschitz=1, diameter=below).mu
    assert pure_dp_mu(2 * above) > bounds.log_concave(lipschitz=1, diameter=above).mu
    assert compare(lipschitz=1.0, diameter=below).guarantee.mu == pytest.approx(pure_dp_mu(2 * below))
    assert compare(lipschitz=1.0, diameter=above).guarantee.mu == pytest.approx(2 * math.sqrt(above))


def test_the_textbook_is_shown_and_never_beats_the_answer_for_the_exact_mechanism() -> None:
    for product in (0.01, 0.5, 2.0, 50.0):
        found = compare(lipschitz=1.0, diameter=product)
        assert found.classical_epsilon == 2 * product
        assert found.guarantee.epsilon <= found.classical_epsilon * (1 + 1e-12)


def test_the_textbook_does_not_speak_for_a_chain() -> None:
    chain = Langevin(learning_rate=0.1, smoothness=1.0)
    found = compare(lipschitz=1.0, diameter=2.0, chain=chain)
    assert found.guarantee.epsilon == pytest.approx(gdp_epsilon(math.sqrt(8.2), 1e-5), rel=1e-9)
    assert found.guarantee.epsilon > found.classical_epsilon
    assert "not for a chain" in found.bounds[-1]["note"]


@settings(max_examples=100)
@given(st.floats(1e-3, 20), st.floats(1e-10, 0.5))
def test_bounded_range_epsilon_inverts_its_profile(epsilon, delta) -> None:
    found = sampling.bounded_range_epsilon(epsilon, delta)
    # The worst two-point mechanism at the threshold found: no t gives more than δ.
    for share in range(21):
        t = share / 20 * epsilon
        mass = (1 - math.exp(t - epsilon)) / -math.expm1(-epsilon)
        assert max(mass * (1 - math.exp(found - t)), 0.0) <= delta * (1 + 1e-9)
    assert found <= epsilon * (1 + 1e-12)


def test_bounded_range_epsilon_is_never_below_the_exact_one() -> None:
    rng = random.Random(8)
    for _ in range(400):
        epsilon, delta = 10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-12, -0.5)
        with mpmath.workdps(50):
            base = mpmath.mpf(epsilon)
            saved = 2 * mpmath.log1p(-mpmath.sqrt(mpmath.mpf(delta) * -mpmath.expm1(-base)))
            exact = max(mpmath.mpf(0), base + saved)
            found = sampling.bounded_range_epsilon(epsilon, delta)
            assert exact <= found <= exact + 1e-14 * epsilon


def test_one_bounded_range_release_agrees_with_the_accountant() -> None:
    from dpcalc.accounting.compose import compose
    from dpcalc.mechanisms.exponential import Exponential

    composed = compose([(Exponential(epsilon=1.0, adjacency="replace-one"), 1)], epsilon=0.9)
    assert sampling.bounded_range_epsilon(1.0, composed.delta) == pytest.approx(0.9, rel=1e-3)


def test_many_choices_use_the_bounded_range() -> None:
    found = sampling.finite(epsilon=0.1, count=100, delta=1e-5, adjacency="replace-one")
    assert found.classical_epsilon == pytest.approx(10.0)
    assert found.guarantee.rho <= 100 * 0.1**2 / 8 * (1 + 1e-9)
    assert found.guarantee.epsilon < 2.2  # ε²/8-zCDP instead of ε²/2
    assert found.guarantee.mechanisms == ({"type": "exponential", "epsilon": 0.1, "count": 100},)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"strong_convexity": 2.0, "chain": Langevin(learning_rate=0.1, smoothness=1.0)}, "m ≤ M"),
        ({"strong_convexity": 1.0, "chain": Langevin(learning_rate=1.0, smoothness=2.0)}, "η < 2/M"),
        ({"diameter": 1.0, "chain": Langevin(learning_rate=1.1, smoothness=2.0)}, "η ≤ 2/M"),
    ],
)
def test_preconditions_are_named(call, message) -> None:
    with pytest.raises(InputError, match=message):
        compare(lipschitz=1.0, **call)
