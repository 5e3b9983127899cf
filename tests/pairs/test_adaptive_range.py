"""Several exponential mechanisms: above every adaptive adversary, and near the best of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcalc.mechanisms.exponential import Exponential
from dpcalc.pairs.adaptive_range import adaptive_range_pair, guess_worst_t, two_point_pair


def delta(pair, epsilon):
    above = pair.losses > epsilon
    return math.fsum(pair.p[above] * -np.expm1(epsilon - pair.losses[above])) + pair.at_infinity()[0]


def best_adversary(epsilon, count, at, choices):
    """The largest δ at `at` of adversaries who choose t among some values before each run, by recursion."""
    if count == 0:
        return max(0.0, -math.expm1(at))
    values = []
    for t in choices:
        p = math.expm1(t - epsilon) / math.expm1(-epsilon)
        high = best_adversary(epsilon, count - 1, at - t, choices)
        values.append(p * high + (1 - p) * best_adversary(epsilon, count - 1, at - t + epsilon, choices))
    return max(values)


@pytest.mark.parametrize("epsilon", [0.4, 1.7])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.55, 0.93])
def test_one_run_is_the_closed_form(epsilon, share):
    at = share * epsilon
    exact = (1 - math.exp((at - epsilon) / 2)) ** 2 / -math.expm1(-epsilon)
    assert exact <= delta(adaptive_range_pair(epsilon, 1), at) <= exact * (1 + 2e-2)


@pytest.mark.parametrize(("epsilon", "count"), [(0.9, 2), (0.5, 3), (2.3, 2), (1e-6, 2)])
@pytest.mark.parametrize("share", [0.0, 0.31, 0.62, 0.9])
def test_several_runs_are_above_every_adversary_and_near_the_best(epsilon, count, share):
    pair = adaptive_range_pair(epsilon, count)
    at = share * count * epsilon
    choices = epsilon * np.linspace(0.013, 0.987, 120 if count == 2 else 31)
    found = best_adversary(epsilon, count, at, [float(t) for t in choices])
    assert found <= delta(pair, at)
    assert delta(pair, at) <= found * 1.1 + 1e-12
    assert pair.p.sum() + pair.at_infinity()[0] == pytest.approx(1, abs=1e-9)


def test_blocks_of_runs_are_tighter_than_runs_on_their_own():
    """Seven runs at once against seven envelopes, by their variance: ε²/4 a run and not ε²/3."""
    epsilon = 0.1
    ((pair, _), times), *rest = Exponential(epsilon=epsilon).runs(7)
    assert times == 1
    assert not rest
    mean = pair.p @ pair.losses
    variance = pair.p @ (pair.losses - mean) ** 2
    assert 7 * epsilon**2 / 4 < variance < 0.95 * 7 * epsilon**2 / 3


def test_every_run_is_in_some_block():
    for count in (1, 15, 16, 17, 32, 75):
        assert sum(times * _size(pairs[0], 0.2) for pairs, times in Exponential(epsilon=0.2).runs(count)) == count


def _size(pair, epsilon):
    return round(pair.support()[1] / epsilon)


@pytest.mark.parametrize(("count", "at_delta"), [(1, 1e-5), (3, 1e-5), (20, 1e-5), (20, 1e-2)])
def test_the_guessed_case_is_attained_and_worse_than_the_symmetric_one(count, at_delta):
    epsilon = 1.0

    def runs(t):
        q = np.exp(-t) * np.expm1(t - epsilon) / np.expm1(-epsilon)
        p = q * math.exp(t)
        i = np.arange(count + 1)
        weights = np.array([math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in i])
        losses = count * (t - epsilon) + i * epsilon
        low, high = 0.0, count * epsilon
        for _ in range(60):
            middle = (low + high) / 2
            is_more = weights @ np.maximum(-np.expm1(middle - losses), 0.0) > at_delta
            low, high = (middle, high) if is_more else (low, middle)
        return low

    guessed = guess_worst_t(epsilon, count, delta=at_delta, at=None)
    best = max(runs(t) for t in np.linspace(0.01, 0.999, 100))
    assert runs(guessed) >= 0.97 * best
    pair = two_point_pair(epsilon, guessed)
    assert pair.p.sum() == pytest.approx(1, abs=1e-15)
    assert np.log(pair.p / pair.q) == pytest.approx(pair.losses, rel=1e-12)
