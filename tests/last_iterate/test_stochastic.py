"""Random batches: published ε, and simulated chains that never exceed a certified bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.last_iterate import gradient_descent, stochastic
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.evaluate import bounds_of, evaluate
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.setting import Setting


def test_tables_3_and_4_for_random_batches(published) -> None:
    for epochs, row in published.TABLE_4.items():
        request = Request(
            algorithm="sgd",
            epochs=epochs,
            strong_convexity=0.002,
            smoothness=published.SMOOTHNESS,
            **published.LOGISTIC,
        )
        analysis = analyse(request)
        guarantee = analysis.guarantee
        assert guarantee.status == "certified"
        assert guarantee.epsilon == pytest.approx(row[1], abs=5.01e-3)
        assert guarantee.epsilon_estimate <= guarantee.epsilon
        clt = analysis.details()["clt"]
        assert clt["mu"] == pytest.approx(published.TABLE_3[epochs][1], abs=5.01e-3)
        assert clt["guarantee"] == "approximate"


def chain(*, c, drift, p, w, steps, diameter=None, cells=600):
    """The law of X ← Π[cX + V·drift + wZ] from 0 on a grid, V ~ Bernoulli(p); the ends of the grid collect the rest."""
    half = diameter / 2 if diameter is not None else (12 * w + 1) * min(math.sqrt(steps), 1 / (1 - c)) + 3
    points = np.linspace(-half, half, 2 * cells + 1)
    edges = np.concatenate(([-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]))

    def kernel(shift):
        z = (edges[None] - c * points[:, None] - shift) / w
        below, above = np.diff(ndtr(z), axis=1), -np.diff(ndtr(-z), axis=1)  # each exact in its own tail
        return np.where(z[:, 1:] <= 0, below, above)

    step = (1 - p) * kernel(0.0) + p * kernel(drift)
    law = np.zeros(points.size)
    law[cells] = 1.0
    for _ in range(steps):
        law = law @ step
    return law


def scenario(seed):
    rng = np.random.default_rng(seed)
    batch, size = 10, int(rng.integers(15, 150))
    c = float(rng.choice([1.0, rng.uniform(0.3, 0.97)]))
    setting = Setting(
        algorithm="sgd",
        learning_rate=0.5,
        sigma=float(rng.uniform(0.3, 4)),
        sensitivity=20.0,
        dataset_size=size,
        batch_size=batch,
        steps=int(rng.integers(2, 30)),
        strong_convexity=(1 - c) / 0.5,
        smoothness=max(1.0, (1 - c) / 0.5),
        diameter=float(rng.uniform(0.3, 4)) if c == 1.0 or seed % 2 else None,
    )
    return setting, float(rng.choice([0.0, 0.5, 1.0]))


@pytest.mark.parametrize("seed", range(16))
def test_no_simulated_chain_exceeds_any_certified_bound(seed) -> None:
    setting, split = scenario(seed)
    shared = {
        "c": setting.contraction.factor,
        "p": setting.sampling_rate,
        "w": setting.noise,
        "steps": setting.steps,
        "diameter": setting.diameter,
    }
    P = chain(drift=-(1 - split) * setting.injection, **shared)
    Q = chain(drift=split * setting.injection, **shared)
    for delta in (0.1, 1e-3):
        for bound in bounds_of(setting, delta):
            epsilon = evaluate(setting, bound, delta=delta).guarantee.epsilon
            reached = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((P, Q), (Q, P)))
            assert reached <= delta, bound.theorem


def long_run(**losses) -> Setting:
    defaults = {"learning_rate": 1.0, "sigma": 1.0, "sensitivity": 20.0, "smoothness": 1.0}
    return Setting(algorithm="sgd", dataset_size=10000, batch_size=100, steps=100_000, **(defaults | losses))


@pytest.mark.parametrize(
    "losses",
    [{"strong_convexity": 0.01}, {"diameter": 1.0}, {"strong_convexity": 0.01, "diameter": 5.0}],
)
def test_one_sided_shifts_are_the_tightest_and_every_bound_is_convergent(losses) -> None:
    setting = long_run(**losses)
    found = [evaluate(setting, bound, delta=1e-5) for bound in bounds_of(setting, 1e-5)]
    epsilons = {each.bound.name: each.guarantee.epsilon for each in found}
    assert epsilons["optimal-shifts"] < epsilons["shifted-interpolation"] < epsilons["composition"]
    assert all(each.guarantee.status == "certified" for each in found)


def test_a_batch_of_everything_is_gradient_descent() -> None:
    setting = Setting(
        algorithm="sgd",
        learning_rate=0.1,
        sigma=1,
        sensitivity=1,
        dataset_size=9,
        batch_size=9,
        steps=50,
        diameter=1.0,
        smoothness=1.0,
    )
    assert bounds_of(setting, 1e-5) == gradient_descent.bounds(setting)


def test_one_sided_shifts_at_full_rate_are_theorem_4_3() -> None:
    """C_1(G(μ)) = G(μ), so at p = 1 the parts add in squares; the best split gives (a + s)² per step."""
    setting = Setting(
        algorithm="sgd",
        learning_rate=0.1,
        sigma=1.0,
        sensitivity=1.0,
        dataset_size=10**6,
        batch_size=10**6 - 1,
        steps=100,
        diameter=0.5e-6,
        smoothness=1.0,
    )
    bound = stochastic.one_sided(setting, 1e-5)
    total = math.hypot(bound.mu, *(part.mu * math.sqrt(part.count) for part in bound.subsampled))
    exact = gradient_descent.constrained(
        Setting(
            algorithm="gd",
            learning_rate=0.1,
            sigma=1.0,
            sensitivity=1.0,
            dataset_size=10**6 - 1,
            steps=100,
            diameter=0.5e-6,
            smoothness=1.0,
        )
    )
    assert exact.mu <= total * (1 + 1e-9)
    assert total <= exact.mu * 1.01


def test_the_central_limit_is_close_for_many_steps_and_small_rates() -> None:
    setting = Setting(
        algorithm="sgd",
        learning_rate=1,
        sigma=1,
        sensitivity=100,
        dataset_size=100_000,
        batch_size=100,
        steps=200_000,
        strong_convexity=0.0,
        smoothness=1,
    )
    composed = evaluate(setting, stochastic.composition(setting), delta=1e-5)
    from dpcalc.conversions import gdp_epsilon

    approximate = gdp_epsilon(stochastic.central_limit_mu(1.0, 0.001, 200_000), 1e-5)
    assert approximate == pytest.approx(composed.guarantee.epsilon, rel=0.05)
