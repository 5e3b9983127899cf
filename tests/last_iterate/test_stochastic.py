"""Random batches: published ε, and simulated chains that never exceed a certified bound."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.last_iterate import gradient_descent, stochastic
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.bound import Bound, Subsampled
from dpcalc.last_iterate.evaluate import bounds_of, evaluate, mechanisms_of
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
        assert guarantee.epsilon_lower is None
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
    sizes = {"dataset_size": 10000, "batch_size": 100, "steps": 100_000}
    return Setting(algorithm="sgd", **(defaults | sizes | losses))


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


def by_name(setting: Setting, theorem: str) -> Bound:
    (found,) = [bound for bound in bounds_of(setting, 1e-5) if bound.theorem.startswith(theorem)]
    return found


@pytest.mark.parametrize(
    "run", [{}, {"steps": 40}, {"sigma": 0.02}, {"strong_convexity": 0.3}, {"dataset_size": 150}, {"diameter": 0.5}]
)
def test_theorem_4_9_is_its_formula_at_its_own_tau_and_split(run) -> None:
    setting = long_run(**({"strong_convexity": 0.01, "steps": 5000} | run))
    bound = by_name(setting, "Bok et al. 2024, Theorem 4.9")
    step, c = setting.sensitivity / (setting.batch * setting.sigma), 1 - setting.strong_convexity
    t, remaining = setting.steps, setting.steps - bound.tau
    shifted, *plain = bound.subsampled
    assert shifted.count == 1
    assert [part.count for part in plain] == ([remaining] if remaining else [])
    for part in plain:
        assert part.mu == pytest.approx(2 * step, rel=1e-9)
    beta = shifted.mu / (2 * step)
    older = (c ** (remaining + 1) - c**t) / (1 - c)
    assert bound.mu**2 * (1 - 1 / beta**2) == pytest.approx((2 * step * older) ** 2, rel=1e-6, abs=1e-12)
    assert shifted.mu >= 2 * step


@pytest.mark.parametrize("run", [{}, {"steps": 40}, {"sigma": 0.05}, {"dataset_size": 150}, {"strong_convexity": 0.1}])
def test_theorem_4_10_is_its_formula_at_its_own_tau_and_split(run) -> None:
    setting = long_run(**({"diameter": 1.0, "steps": 5000} | run))
    bound = by_name(setting, "Bok et al. 2024, Theorem 4.10")
    (part,) = bound.subsampled
    assert part.count == setting.steps - bound.tau
    step = setting.sensitivity / (setting.batch * setting.sigma)
    alpha = bound.mu * setting.noise * math.sqrt(part.count) / setting.diameter
    assert 1 / alpha**2 + (2 * step / part.mu) ** 2 == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize(
    "run",
    [{}, {"steps": 40}, {"strong_convexity": 0.3}, {"diameter": 0.5}, {"strong_convexity": 0.0, "diameter": 2.0}],
)
def test_one_sided_shifts_are_their_formula_at_their_own_choice(run) -> None:
    setting = long_run(**({"strong_convexity": 0.01, "steps": 5000} | run))
    bound = by_name(setting, "after Bok et al. 2024, Theorem 4.10: one-sided")
    step, c, t = setting.sensitivity / (setting.batch * setting.sigma), 1 - setting.strong_convexity, setting.steps
    *plain, shifted = bound.subsampled
    for part in plain:
        assert part.mu == pytest.approx(step, rel=1e-9)
    unrolled = shifted.count + sum(part.count for part in plain)
    assert bound.tau == t - unrolled
    distance = setting.injection * sum(c**k for k in range(bound.tau))
    if setting.diameter is not None:
        distance = min(distance, setting.diameter)
    energy = (c**unrolled * distance) ** 2 / sum(c ** (2 * k) for k in range(shifted.count)) / setting.noise**2
    beta = shifted.mu / step
    assert beta >= 1
    assert bound.mu**2 * (1 - 1 / beta**2) == pytest.approx(energy, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("run", [{}, {"steps": 300}, {"sigma": 0.4}, {"diameter": 1.0}, {"strong_convexity": 0.2}])
def test_one_sided_shifts_are_never_worse_than_the_published_bounds(run) -> None:
    setting = long_run(**({"strong_convexity": 0.01, "steps": 20_000} | run))
    found = [evaluate(setting, bound, delta=1e-5) for bound in bounds_of(setting, 1e-5)]
    ours = next(each for each in found if "one-sided" in each.bound.theorem).guarantee.epsilon
    for each in found:
        if each.bound.name == "shifted-interpolation":
            assert ours <= each.guarantee.epsilon * (1 + 1e-3)


def test_parts_are_composed_with_no_less_noise_than_they_have() -> None:
    rng = np.random.default_rng(4)
    setting = long_run(diameter=1.0)
    for mu in 10 ** rng.uniform(-4, 4, 300):
        bound = Bound(name="x", theorem="x", conditions=(), mu=mu, subsampled=(Subsampled(mu=mu / 3, count=1),))
        whole, part = (mechanism for mechanism, _ in mechanisms_of(setting, bound))
        assert 1 / Fraction(whole.noise_multiplier) >= Fraction(mu)
        assert 1 / Fraction(part.base.noise_multiplier) >= Fraction(mu / 3)


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
