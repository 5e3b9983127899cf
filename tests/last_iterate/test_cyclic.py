"""Cyclic batches: published cells, every record of quadratic runs, and the trap below E = Db/(ηL)."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpcalc.conversions import gdp_delta, gdp_epsilon, zcdp_epsilon
from dpcalc.last_iterate import cyclic
from dpcalc.last_iterate.setting import Setting


def cycle(*, batches: int, epochs: int, **rest: float) -> Setting:
    defaults = {"learning_rate": 1.0, "sigma": 1.0, "sensitivity": 0.2, "smoothness": 1.0}
    return Setting(
        algorithm="cgd",
        dataset_size=batches,
        batch_size=1,
        steps=batches * epochs,
        **(defaults | rest),  # type: ignore[arg-type]
    )


def best(setting: Setting) -> float:
    return min(bound.mu for bound in cyclic.bounds(setting) if bound.rho is None)


def test_table_9(published) -> None:
    for epochs, (composed, ours) in published.TABLE_9.items():
        for (batches, c), mu in zip(published.TABLE_9_COLUMNS, ours, strict=True):
            setting = cycle(batches=batches, epochs=epochs, strong_convexity=1 - c)
            assert cyclic.composition(setting).mu == pytest.approx(composed, abs=5.01e-4)
            assert cyclic.strongly_convex(setting).mu == pytest.approx(mu, abs=5.01e-4)


def test_tables_10_to_12_without_their_thresholds(published) -> None:
    for batches, table in published.TABLES_10_TO_12.items():
        for over_b, row in table.items():
            for rate, (printed, mu) in zip(published.TABLES_10_TO_12_RATES, row, strict=True):
                long = {"batches": batches, "learning_rate": rate, "sigma": 3.0, "sensitivity": over_b, "diameter": 1.0}
                bound = cyclic.constrained(cycle(epochs=1000, **long))
                assert bound is not None
                assert bound.mu == pytest.approx(mu, abs=5.01e-4)
                # The slip: (L/b)²·(L/b)²/l where the bound has (L/b)² + (L/b)²/l.
                common, ceiling = 3 * over_b / (rate * batches), math.ceil(round(1 / (over_b * rate), 9))
                assert math.ceil(round((common + over_b**4 / batches * ceiling) / over_b**2, 9)) == printed
                right = math.ceil(round((bound.mu * 3 / over_b) ** 2, 6))
                assert cyclic.composition(cycle(epochs=right, **long)).mu >= bound.mu * (1 - 1e-9)
                assert cyclic.composition(cycle(epochs=right - 1, **long)).mu < bound.mu
                assert right != printed


def test_tables_1_3_and_4_for_cyclic_batches(published) -> None:
    values = published.LOGISTIC
    for epochs, (composed_mu, _, ours_mu) in published.TABLE_3.items():
        composed, _, prior, ours = published.TABLE_4[epochs]
        assert published.TABLE_1[epochs] == (composed, prior[0], ours[0])
        for index, m in enumerate(published.REGULARISATIONS):
            setting = Setting(
                algorithm="cgd",
                learning_rate=values["lr"],
                sigma=values["sigma"],
                sensitivity=values["sensitivity"],
                dataset_size=values["n"],
                batch_size=values["batch_size"],
                steps=epochs * 40,
                strong_convexity=m,
                smoothness=published.SMOOTHNESS,
            )
            assert cyclic.composition(setting).mu == pytest.approx(composed_mu, abs=5.01e-3)
            assert gdp_epsilon(cyclic.composition(setting).mu, 1e-5) == pytest.approx(composed, abs=5.01e-3)
            assert zcdp_epsilon(cyclic.prior_rdp(setting).rho, 1e-5) == pytest.approx(prior[index], abs=5.01e-3)
            assert cyclic.strongly_convex(setting).mu == pytest.approx(ours_mu[index], abs=5.01e-3)
            assert gdp_epsilon(best(setting), 1e-5) == pytest.approx(ours[index], abs=5.01e-3)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(2, 8),
    st.integers(1, 30),
    st.integers(0, 7),
    st.tuples(st.floats(0.0, 1.0), st.floats(0.05, 1), st.floats(0, 1)),
)
def test_no_record_of_a_quadratic_run_exceeds_the_bound(batches, epochs, cut, losses) -> None:
    m, rate, between = losses
    steps = max(1, batches * epochs - cut)
    setting = Setting(
        algorithm="cgd",
        dataset_size=batches,
        batch_size=1,
        steps=steps,
        learning_rate=rate,
        sigma=0.7,
        sensitivity=1.3,
        strong_convexity=m,
        smoothness=1.0,
    )
    factor = 1 - rate * (m + between * (1 - m))
    for record in range(batches):
        mean = variance = 0.0
        for k in range(steps):
            mean = factor * mean + (rate * 1.3 if k % batches == record else 0.0)
            variance = factor**2 * variance + (rate * 0.7) ** 2
        assert mean / math.sqrt(variance) <= best(setting)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 50), st.integers(1, 200), st.floats(0.5, 0.9999))
def test_the_lower_bound_of_theorem_c17_holds_against_ours(batches, epochs, c) -> None:
    setting = cycle(batches=batches, epochs=epochs, strong_convexity=1 - c)
    power = c ** (batches * epochs)
    assert 0.2 * math.sqrt((1 - power) / (1 + power) * (1 - c**2) / (1 - c**batches) ** 2) <= best(setting)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 30), st.integers(1, 60), st.floats(0.01, 1), st.floats(0.01, 10))
def test_below_the_threshold_the_minimum_over_tau_is_taken(batches, epochs, rate, diameter) -> None:
    setting = cycle(batches=batches, epochs=epochs, learning_rate=rate, diameter=diameter)
    step, s = 0.2, rate * 0.2
    candidates = [math.sqrt(step**2 + (diameter / rate + step * e) ** 2 / (batches * e)) for e in range(1, epochs)]
    bound = cyclic.constrained(setting)
    if epochs == 1:
        assert bound is None
    else:
        assert bound is not None
        assert bound.mu == pytest.approx(min(candidates), rel=1e-9)
        if epochs - 1 >= math.ceil(diameter / s):  # so many epochs can be unrolled
            closed = math.sqrt(
                3 * step * diameter / (rate * batches) + step**2 + step**2 / batches * math.ceil(diameter / s)
            )
            assert bound.mu <= closed * (1 + 1e-9)
    assert best(setting) <= min([step * math.sqrt(epochs), *candidates]) * (1 + 1e-9)


def test_the_closed_form_is_not_used_where_it_would_be_too_small() -> None:
    # D/s = 500 epochs, far more than are run: the closed form would claim less than any valid choice of τ gives.
    setting = cycle(batches=2, epochs=10, learning_rate=0.01, diameter=1.0)
    closed = math.sqrt(3 * 0.2 / (0.01 * 2) + 0.2**2 + 0.2**2 / 2 * 500)
    bound = cyclic.constrained(setting)
    assert bound is not None
    assert bound.mu > closed


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(2, 12), st.floats(0.02, 3), st.floats(0, 0.9))
def test_the_best_shifts_are_valid_shifts_for_every_record(batches, epochs, diameter, m) -> None:
    """Theorem C.3 spelled out: for every record there are λ in [0, 1] that reach the bound."""
    setting = cycle(batches=batches, epochs=epochs, learning_rate=0.5, diameter=diameter, strong_convexity=m)
    c, s, w = setting.contraction.factor, setting.injection, setting.noise
    bound = cyclic.best_shifts(setting)
    steps = batches * epochs
    for record in range(batches):
        uses = np.array([s if k % batches == record else 0.0 for k in range(steps)])
        reached = min(
            _exact_optimum(c, uses[start:], w, distance)
            for start, distance in [(0, 0.0), *((k, diameter) for k in range(1, steps))]
        )
        assert reached <= bound.mu * (1 + 1e-9)


def _exact_optimum(c: float, s: np.ndarray, w: float, z0: float) -> float:
    """The taut string by brute force: from each point the segment of least slope."""
    t = len(s)
    left = c ** np.arange(t - 1, -1, -1.0)
    noise = np.concatenate(([0.0], np.cumsum((left * w) ** 2)))
    injected = np.concatenate(([0.0], z0 * c**t + np.cumsum(left * s)))
    position, energy = 0, 0.0
    while position < t:
        slopes = (injected[position + 1 :] - injected[position]) / (noise[position + 1 :] - noise[position])
        following = position + 1 + int(np.flatnonzero(slopes <= slopes.min() * (1 + 1e-12) + 1e-300)[-1])
        energy += (injected[following] - injected[position]) ** 2 / (noise[following] - noise[position])
        position = following
    return math.sqrt(energy)


def test_convex_losses_without_constraints_beat_composition() -> None:
    # c → 1 in Theorem 4.5: √(1 + (E-1)/l) instead of √E.
    setting = cycle(batches=20, epochs=101, strong_convexity=0.0)
    assert best(setting) == pytest.approx(0.2 * math.sqrt(1 + 100 / 20), rel=1e-9)


def test_one_batch_is_gradient_descent() -> None:
    setting = cycle(batches=1, epochs=50, strong_convexity=0.1)
    full = Setting(
        algorithm="gd",
        dataset_size=1,
        steps=50,
        learning_rate=1,
        sigma=1,
        sensitivity=0.2,
        strong_convexity=0.1,
        smoothness=1,
    )
    from dpcalc.last_iterate import gradient_descent

    assert best(setting) == gradient_descent.strongly_convex(full).mu


def test_the_bound_grows_with_the_run() -> None:
    mus = [
        best(cycle(batches=7, epochs=e, diameter=0.5, learning_rate=0.3, strong_convexity=0.05)) for e in range(1, 200)
    ]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(mus))


@pytest.mark.parametrize("seed", range(12))
def test_no_projected_chain_exceeds_the_bound(seed) -> None:
    """A constrained run on a line, its law on a grid: linear or quadratic losses, any record, both directions."""
    rng = np.random.default_rng(seed)
    batches, epochs = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    c = float(rng.choice([1.0, rng.uniform(0.5, 0.98)]))
    setting = cycle(
        batches=batches,
        epochs=epochs,
        sigma=float(rng.uniform(0.2, 2)),
        sensitivity=1.0,
        diameter=float(rng.uniform(0.3, 3)),
        strong_convexity=1 - c,
    )
    half, record = setting.diameter / 2, int(rng.integers(0, batches))
    points = np.linspace(-half, half, 501)
    edges = np.concatenate(([-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]))

    def kernel(shift: float) -> np.ndarray:
        z = (edges[None] - c * points[:, None] - shift) / setting.noise
        return np.where(z[:, 1:] <= 0, np.diff(ndtr(z), axis=1), -np.diff(ndtr(-z), axis=1))

    laws = []
    for drift in (0.5, -0.5):  # the gradients of the record in the two data sets are L apart
        law = np.zeros(points.size)
        law[250] = 1.0
        for k in range(setting.steps):
            law = law @ kernel(drift * setting.injection if k % batches == record else 0.0)
        laws.append(law)
    mu = best(setting)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        reached = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (laws, laws[::-1]))
        assert reached <= gdp_delta(mu, epsilon) * (1 + 1e-9)
