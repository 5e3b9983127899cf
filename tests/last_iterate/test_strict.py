"""Every μ and ρ of the last iterate is at least that of its theorem, in fifty digits and without slack."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.last_iterate import course, cyclic, exponential_mechanism, gradient_descent, sampling, shifts, stochastic
from dpcalc.last_iterate.contraction import Contraction, contractions
from dpcalc.last_iterate.evaluate import mechanisms_of
from dpcalc.last_iterate.losses import LinearLoss
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Setting

mpf = mpmath.mpf
DRAWS = 40


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def drawn(algorithm: str, seed: int, **fixed: Any) -> Iterator[Setting]:
    chosen = random.Random(seed)
    for _ in range(DRAWS):
        smoothness = chosen.uniform(0.5, 3)
        given = {
            "learning_rate": chosen.uniform(0.05, 1.9) / smoothness,
            "sigma": chosen.uniform(0.5, 9),
            "sensitivity": chosen.uniform(0.5, 3),
            "dataset_size": 60,
            "steps": chosen.randint(20, 200),
            "batch_size": None if algorithm == "gd" else 12,
            "smoothness": smoothness,
            "strong_convexity": chosen.uniform(0.01, 0.9) * smoothness,
            "diameter": chosen.uniform(0.5, 5),
        }
        yield Setting(algorithm=algorithm, **(given | fixed))


def exact(setting: Setting) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """L/(bσ), c, s and ησ, exactly."""
    rate, sigma, sensitivity = (mpf(value) for value in (setting.learning_rate, setting.sigma, setting.sensitivity))
    m, smooth = mpf(setting.strong_convexity or 0.0), mpf(setting.smoothness or 0.0)
    c = max(abs(1 - rate * m), abs(1 - rate * smooth))
    return sensitivity / (setting.batch * sigma), c, rate * sensitivity / setting.batch, rate * sigma


def test_full_batches() -> None:
    for setting in drawn("gd", 1):
        mu, c, s, noise = exact(setting)
        t, d = setting.steps, mpf(setting.diameter)
        assert mpf(gradient_descent.composition(setting).mu) >= mu * mpmath.sqrt(t)
        ratio = mpmath.sqrt((1 - c**t) / (1 + c**t) * (1 + c) / (1 - c))
        assert mpf(gradient_descent.strongly_convex(setting).mu) >= mu * ratio
        rho = mu**2 * (1 + c) / (1 - c) * (1 - ((1 + c) / 2) ** t)
        assert mpf(gradient_descent.prior_rdp(setting).rho or 0.0) >= rho
        for bound, base in (
            (gradient_descent.constrained(setting), mpf(1)),
            (gradient_descent.constrained_strongly_convex(setting), c),
        ):
            r = t - (bound.tau or 0)
            widths = r if base == 1 else (1 - base ** (2 * r)) / (1 - base**2)
            moved = r if base == 1 else (1 - base**r) / (1 - base)
            assert mpf(bound.mu) >= (base**r * d + s * moved) / mpmath.sqrt(widths) / noise


def test_cyclic_batches() -> None:
    for setting in drawn("cgd", 2):
        mu, c, s, noise = exact(setting)
        length, epochs, d = setting.batches, setting.epochs, mpf(setting.diameter)
        assert mpf(cyclic.composition(setting).mu) >= mu * mpmath.sqrt(epochs)
        k = length * (epochs - 1)
        excess = c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - c**k) / (1 + c**k)
        assert mpf(cyclic.strongly_convex(setting).mu) >= mu * mpmath.sqrt(1 + excess)
        rho = mu**2 / 2 * (1 + c ** (length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - c**k))
        assert mpf(cyclic.prior_rdp(setting).rho or 0.0) >= rho
        bound = cyclic.constrained(setting)
        assert bound is not None
        e = epochs - (bound.tau or 0)
        assert mpf(bound.mu) >= mpmath.sqrt(s**2 + (d + s * e) ** 2 / (length * e)) / noise
    for setting in drawn("cgd", 3, diameter=None):
        mu, c, *_ = exact(setting)
        length, k = setting.batches, setting.batches * (setting.epochs - 1)
        excess = c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - c**k) / (1 + c**k)
        assert mpf(cyclic.best_shifts(setting).mu) >= mu * mpmath.sqrt(1 + excess)


def is_split(shift: mpmath.mpf, wide: float, use: mpmath.mpf, wider: float) -> bool:
    """1/α² + 1/β² ≤ 1 for what was widened by α and by β."""
    return ((shift / mpf(wide)) ** 2 if shift else mpf(0)) + (use / mpf(wider)) ** 2 <= 1


@pytest.mark.parametrize("share", [1e-7, 0.5, 1 - 1e-12])
def test_random_batches(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Whatever the split 1/α² + 1/β² ≤ 1, the parts that are told must be one."""
    monkeypatch.setattr(stochastic, "SHARES", np.array([share]))
    for setting in list(drawn("sgd", 4))[:12]:
        mu, c, s, noise = exact(setting)
        t, d = setting.steps, mpf(setting.diameter)
        assert mpf(stochastic.composition(setting).subsampled[0].mu) >= mu
        bound = stochastic.strongly_convex(setting, 1e-5)
        r = t - (bound.tau or 0)
        older = (c ** (r + 1) - c**t) / (1 - c)
        assert is_split(2 * mu * older, bound.mu, 2 * mu, bound.subsampled[0].mu)
        assert r == 0 or mpf(bound.subsampled[1].mu) >= 2 * mu
        bound = stochastic.constrained(setting, 1e-5)
        r = t - (bound.tau or 0)
        reach = d / (noise * mpmath.sqrt(r))
        assert is_split(reach, bound.mu, 2 * mu, bound.subsampled[0].mu)
        bound = stochastic.one_sided(setting, 1e-5)
        *plain, shifted = bound.subsampled
        assert not plain or mpf(plain[0].mu) >= mu
        tau, r = bound.tau or 0, shifted.count
        distance = min(d, s * (1 - c**tau) / (1 - c))
        reach = c ** (t - tau) * distance * mpmath.sqrt((1 - c**2) / (1 - c ** (2 * r))) / noise
        assert is_split(reach, bound.mu, mu, shifted.mu)


def test_random_batches_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant schedule, with nearly all noise for the record itself."""
    share = 1 - 1e-12
    monkeypatch.setattr(course, "SHARES", np.array([share]))
    for setting in list(drawn("sgd", 13))[:12]:
        mu, *_ = exact(setting)
        rates = Schedule(
            starts=np.array([1]),
            learning_rates=np.array([setting.learning_rate]),
            sigmas=np.array([setting.sigma]),
        )
        composed, shifted = course.bounds(setting, rates, 1e-5)
        assert mpf(composed.subsampled[0].mu) >= mu
        assert mpf(shifted.subsampled[0].mu) >= mu / mpmath.sqrt(mpf(share))


def test_a_lower_bound_pays_for_a_mu_that_was_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by a thousandth: ε of the exact μ = 1 is not below what is told."""
    monkeypatch.setattr(sampling, "ROUND_UP", 1.001)
    bound = exponential_mechanism.strongly_log_concave(lipschitz=1.0, strong_convexity=1.0)
    found = sampling._gaussian(replace(bound, mu=1.001), 1e-5, "replace-one").epsilon_lower
    assert found is not None
    delta = mpmath.ncdf(mpf("0.5") - found) - mpmath.exp(found) * mpmath.ncdf(-mpf("0.5") - found)
    assert delta >= mpf(1e-5)


def test_the_chance_of_a_large_batch_in_some_step_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(14)
    for _ in range(60):
        tail, steps = chosen.uniform(1e-9, 1e-8), chosen.choice([101, 333, 777])
        monkeypatch.setattr("dpcalc.mechanisms.truncated.binomial_tail", lambda *_, tail=tail: (0.0, tail))
        asked = Request(
            algorithm="sgd", adjacency="add-remove", n=100, batch_size=10, steps=steps, largest_batch=30, delta=1e-5
        )
        assert Fraction(asked._batches(100)["overflow"]) >= steps * Fraction(tail)


def test_levels_of_a_schedule_are_rounded_up() -> None:
    generator = np.random.default_rng(5)
    for size in (5, 3000):
        mus = generator.uniform(0.1, 3, size)
        levels, which = course._levels(mus)
        assert np.all(levels[which] > mus)
        largest = course._levels(np.append(mus, mus.max()))[0]
        assert largest[-1] > mus.max()


@pytest.mark.parametrize(("m", "smooth"), [(0.37, 1.7), (0.93, 1.09)])
def test_contractions_of_many_steps_are_rounded_up(m: float, smooth: float) -> None:
    generator = np.random.default_rng(6)
    rates = np.concatenate((generator.uniform(0, 2 / smooth, 3000), generator.uniform(0.96, 1, 300) * (2 / smooth)))
    for rate, found in zip(rates, contractions(rates, m, smooth), strict=True):
        truth = max(abs(1 - Fraction(rate) * Fraction(m)), abs(1 - Fraction(rate) * Fraction(smooth)))
        assert Fraction(float(found)) >= min(truth, Fraction(1))
        one = Contraction.of_gradient_step(learning_rate=float(rate), strong_convexity=m, smoothness=smooth)
        assert Fraction(one.gap) <= max(1 - truth, 0)


def test_the_least_energy_of_one_block_is_rounded_up() -> None:
    """Rises that fall make one block: its energy is (Σ rises)² / Σ widths."""
    generator = np.random.default_rng(7)
    for _ in range(200):
        rises, widths = np.sort(generator.random(5))[::-1], np.ones(5) * generator.uniform(0.5, 2)
        truth = sum(map(Fraction, rises.tolist())) ** 2 / sum(map(Fraction, widths.tolist()))
        assert Fraction(shifts.least_energy(widths, rises)) >= truth


def test_the_exponential_mechanism_and_its_chains() -> None:
    chosen = random.Random(8)
    for _ in range(100):
        lipschitz, m, d = (chosen.uniform(0.2, 5) for _ in range(3))
        smooth = m * chosen.uniform(1, 4)
        rate = chosen.uniform(0.05, 0.9) * 2 / smooth
        big_l, m_, d_, eta, big_m = (mpf(value) for value in (lipschitz, m, d, rate, smooth))
        bound = exponential_mechanism.strongly_log_concave(lipschitz=lipschitz, strong_convexity=m)
        assert mpf(bound.mu) >= big_l / mpmath.sqrt(m_)
        assert mpf(exponential_mechanism.log_concave(lipschitz=lipschitz, diameter=d).mu) >= 2 * mpmath.sqrt(big_l * d_)
        chain = exponential_mechanism.Langevin(learning_rate=rate, smoothness=smooth, steps=None)
        bound = exponential_mechanism.log_concave_langevin(lipschitz=lipschitz, diameter=d, chain=chain)
        assert mpf(bound.mu) >= mpmath.sqrt(4 * big_l * d_ + 2 * eta * big_l**2)
        bound = exponential_mechanism.strongly_log_concave_langevin(
            lipschitz=lipschitz, strong_convexity=m, chain=chain
        )
        c = max(abs(1 - eta * m_), abs(1 - eta * big_m))
        assert mpf(bound.mu) >= mpmath.sqrt((1 + c) / (1 - c)) * big_l * mpmath.sqrt(eta / 2)


def test_one_release_of_bounded_range() -> None:
    chosen = random.Random(9)
    for _ in range(300):
        epsilon, delta = 10 ** chosen.uniform(-3, 1.3), 10 ** chosen.uniform(-9, -0.3)
        e = mpf(epsilon)
        truth = e + 2 * mpmath.log(1 - mpmath.sqrt(mpf(delta) * -mpmath.expm1(-e)))
        assert mpf(sampling.bounded_range_epsilon(epsilon, delta)) >= max(truth, mpf(0))


def test_the_gaussian_of_a_bound_is_no_weaker_than_its_mu() -> None:
    for setting in list(drawn("gd", 10))[:30]:
        bound = gradient_descent.composition(setting)
        (mechanism, _), *_ = mechanisms_of(setting, bound)
        assert 1 / Fraction(mechanism.noise_multiplier) >= Fraction(bound.mu)


def test_constants_of_linear_losses_are_rounded_up() -> None:
    chosen = random.Random(11)
    for _ in range(200):
        reach, regularization, radius = (chosen.uniform(0.1, 5) for _ in range(3))
        norm = mpf(reach) ** 2 + 1
        for loss, slope, curvature in (
            ("cross-entropy", mpmath.sqrt(2), mpf("0.5")),
            ("logistic", mpf(1), mpf("0.25")),
        ):
            found = LinearLoss(loss=loss, classes=2, reach=reach, regularization=regularization)
            assert mpf(found.squared_input) >= norm
            assert mpf(found.gradient) >= slope * mpmath.sqrt(norm)
            assert mpf(found.smoothness) >= curvature * norm + mpf(regularization)
        squared = LinearLoss(loss="squared", classes=2, reach=reach, radius=radius)
        assert mpf(squared.gradient) >= (mpf(radius) * mpmath.sqrt(norm) + 1) * mpmath.sqrt(norm)


def test_slopes_of_linear_losses_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the square of the norm known exactly, so that its own reserve does not pay."""
    chosen = random.Random(15)
    for _ in range(200):
        square, radius = chosen.uniform(1, 9), chosen.uniform(0.1, 5)
        monkeypatch.setattr(LinearLoss, "squared_input", property(lambda _, square=square: square))
        root = mpmath.sqrt(mpf(square))
        squared = LinearLoss(loss="squared", classes=3, reach=1.0, radius=radius)
        assert mpf(squared._slope()[0]) >= mpf(radius) * root + mpmath.sqrt(3)
        assert mpf(LinearLoss(loss="huber", classes=2, reach=1.0).gradient) >= root


def test_smoothness_of_a_large_poisson_batch_is_rounded_up() -> None:
    given = {"adjacency": "add-remove", "largest_batch": 17, "diameter": None, "learning_rate": 0.01}
    for setting in drawn("sgd", 12, **given):
        m, smooth = Fraction(setting.strong_convexity or 0.0), Fraction(setting.smoothness or 0.0)
        assert Fraction(setting.step_smoothness) >= m + (smooth - m) * Fraction(17, 12)
        assert math.isfinite(setting.step_smoothness)


def test_what_every_step_adds_by_rounding_moves_both_chains_apart() -> None:
    """z_τ = (s + w)(1 + c + … + c^{τ-1}), and c^r z_τ + w(1 + … + c^{r-1}) is left to be shifted over r steps."""
    for setting in drawn("sgd", 21, strong_convexity=0.2, diameter=None):
        shifted, wobble = setting.steps // 2, 0.3
        gap = mpf(setting.contraction.gap)
        powers = [(1 - gap) ** k for k in range(setting.steps + 1)]
        apart = (mpf(setting.injection) + mpf(wobble)) * mpmath.fsum(powers[: setting.steps - shifted])
        apart = powers[shifted] * apart + mpf(wobble) * mpmath.fsum(powers[:shifted])
        exact = apart / mpmath.sqrt(mpmath.fsum(c * c for c in powers[:shifted])) / mpf(setting.noise)
        found = float(stochastic._one_sided_reach(setting, 0, shifted, wobble))
        assert abs(mpf(found) / exact - 1) < mpf("1e-11")
