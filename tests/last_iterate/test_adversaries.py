"""Chains on a line with losses that are no quadratics: none tells the two data sets apart better than the bound says.

Gradients are piecewise linear with slopes between m and M. The two data sets differ in one record, whose gradients are
at most L apart; where they are the furthest apart changes along the line. Laws are computed on a grid.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.conversions import gdp_delta
from dpcalc.last_iterate import course
from dpcalc.last_iterate.evaluate import bounds_of, evaluate
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Setting

CELLS = 350
# Rounding to the grid is no contraction: a little slack, far below what a wrong bound would be off by.
SLACK = 1e-3


def gradient(rng, points, m, smoothness):
    """A piecewise linear gradient with slopes of m and M by turns."""
    slopes = np.where(np.sin(rng.uniform(1, 9) * points / points[-1] + rng.uniform(0, 6)) > 0, m, smoothness)
    values = np.concatenate(([0.0], np.cumsum(slopes[1:] * np.diff(points))))
    return values - np.interp(rng.uniform(-0.3, 0.3) * points[-1], points, values)


class Pair:
    """The laws of the iterates on two neighbouring data sets, both from the middle of the grid."""

    def __init__(self, rng, setting, half):
        self.points = np.linspace(-half, half, 2 * CELLS + 1)
        self.edges = np.concatenate(([-np.inf], (self.points[1:] + self.points[:-1]) / 2, [np.inf]))
        losses = (setting.strong_convexity, setting.smoothness)
        self.others = gradient(rng, self.points, *losses)
        # The batch with the record, in either data set: the mean of b gradients, at most L/b apart.
        one, other = gradient(rng, self.points, *losses), gradient(rng, self.points, *losses)
        apart = setting.sensitivity / setting.batch
        side = float(rng.choice([-1.0, 1.0]))
        other = other + side * apart * 10 if rng.random() < 0.6 else other  # as far apart as it can be, all along
        self.used = (one, np.clip(other, one - apart, one + apart))
        law = np.zeros(self.points.size)
        law[CELLS] = 1.0
        self.laws = [law, law]

    def kernel(self, rate, sigma, gradients):
        z = (self.edges[None] - (self.points - rate * gradients)[:, None]) / (rate * sigma)
        return np.where(z[:, 1:] <= 0, np.diff(ndtr(z), axis=1), -np.diff(ndtr(-z), axis=1))

    def step(self, rate, sigma, use, times=1):
        """Equal steps, each of which uses the record with the probability `use`."""
        rest = self.kernel(rate, sigma, self.others) if use < 1 else 0.0
        kernels = [use * self.kernel(rate, sigma, gradients) + (1 - use) * rest for gradients in self.used if use]
        for _ in range(times):
            self.laws = [law @ kernel for law, kernel in zip(self.laws, kernels or [rest, rest], strict=True)]

    def delta(self, epsilon):
        first, second = self.laws
        return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((first, second), (second, first)))


def scheduled(rng, batches):
    steps = int(rng.integers(2, 9))
    rates, sigmas = rng.uniform(0.05, 1.0, steps) * 2 / 1.3, 10 ** rng.uniform(-0.5, 1, steps)
    rates, m = np.minimum(rates, 1.999 / 1.3), float(rng.choice([0.0, 0.2]))
    setting = Setting(
        algorithm="cgd",
        learning_rate=float(rates.max()),
        sigma=float(sigmas.min()),
        sensitivity=1.5,
        dataset_size=batches,
        batch_size=1,
        steps=steps,
        strong_convexity=m,
        smoothness=1.3,
        diameter=float(rng.uniform(1, 8)) if rng.random() < 0.6 else None,
    )
    return setting, Schedule(starts=np.arange(1.0, steps + 1), learning_rates=rates, sigmas=sigmas)


@pytest.mark.parametrize("seed", range(24))
def test_piecewise_linear_losses_on_a_schedule(seed) -> None:
    rng = np.random.default_rng(seed)
    setting, plan = scheduled(rng, batches=int(rng.choice([1, 2, 3])))
    rates, sigmas = plan.at_every_step(setting.steps)
    reach = 10 + 9 * float(np.hypot.reduce(rates * sigmas))
    pair = Pair(rng, setting, reach if setting.diameter is None else setting.diameter / 2)
    record = int(rng.integers(setting.batches))
    for k, (rate, sigma) in enumerate(zip(rates, sigmas, strict=True)):
        pair.step(rate, sigma, float(k % setting.batches == record))
    mu = min(bound.mu for bound in course.bounds(setting, plan, 1e-5))
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        assert pair.delta(epsilon) <= gdp_delta(mu, epsilon) + SLACK


@pytest.mark.parametrize("seed", range(12))
def test_piecewise_linear_losses_in_random_batches(seed) -> None:
    rng = np.random.default_rng(100 + seed)
    m = float(rng.choice([0.0, 0.3]))
    setting = Setting(
        algorithm="sgd",
        learning_rate=float(rng.uniform(0.2, 1.5)),
        sigma=float(rng.uniform(0.3, 2)),
        sensitivity=6.0,
        dataset_size=int(rng.integers(6, 30)),
        batch_size=4,
        steps=int(rng.integers(2, 25)),
        strong_convexity=m,
        smoothness=1.3,
        diameter=float(rng.uniform(0.5, 4)) if m == 0 or rng.random() < 0.5 else None,
    )
    reach = 12 + 9 * setting.noise * math.sqrt(setting.steps)
    pair = Pair(rng, setting, reach if setting.diameter is None else setting.diameter / 2)
    pair.step(setting.learning_rate, setting.sigma, setting.sampling_rate, times=setting.steps)
    for delta in (0.1, 0.02):
        for bound in bounds_of(setting, delta):
            epsilon = evaluate(setting, bound, delta=delta).guarantee.epsilon
            assert pair.delta(epsilon) <= delta + SLACK, bound.theorem
