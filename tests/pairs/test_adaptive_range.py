"""Several exponential mechanisms: above every adaptive adversary, and near the best of them."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpcalc.conversions import gdp_delta
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.pairs import adaptive_attack
from dpcalc.pairs.adaptive_attack import guess_worst_t, steered_pair, two_point_pair
from dpcalc.pairs.adaptive_range import adaptive_range_mu, adaptive_range_pair


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
    """Losses of 20 a run: blocks of fifteen, whose largest losses add up to those of all."""
    for count in (2, 15, 17, 32, 75):
        runs = Exponential(epsilon=20.0).runs(count)
        assert sum(times * round(pairs[0].support()[1] / 20.0) for pairs, times in runs) == count


@pytest.mark.parametrize(("epsilon", "count", "at_delta"), [(0.3, 5, 1e-3), (1.2, 12, 1e-6), (0.05, 150, 1e-5)])
def test_choices_by_the_outcomes_are_worse_than_one_t_and_below_the_bound(epsilon, count, at_delta):
    above = adaptive_range_pair(epsilon, count)
    at = max(loss for loss in above.losses if delta(above, loss) > at_delta)
    steered = steered_pair(epsilon, count, at_delta, None)
    assert steered.p.sum() == pytest.approx(1, abs=1e-12)
    assert steered.q.sum() == pytest.approx(1, abs=1e-12)
    assert np.log(steered.p / steered.q) == pytest.approx(steered.losses, abs=1e-10)
    p, t = two_points(epsilon, guess_worst_t(epsilon, count, delta=at_delta, at=None))
    one = sum(
        math.comb(count, k)
        * p**k
        * (1 - p) ** (count - k)
        * max(0.0, -math.expm1(at - count * (t - epsilon) - k * epsilon))
        for k in range(count + 1)
    )
    assert one * 0.999 <= delta(steered, at) <= delta(above, at) <= 1.02 * delta(steered, at)


def two_points(epsilon, t):
    return math.expm1(t - epsilon) / math.expm1(-epsilon), t


@pytest.mark.parametrize(("epsilon", "m"), [(0.4, 0.35), (1.5, 1.2), (0.1, 0.5), (3.0, 6.0)])
def test_a_gaussian_is_above_a_gaussian_beside_one_run(epsilon, m):
    """Every t and every s, by the closed form of N(m); with four fifths of ε²/4 it would be false."""
    a = epsilon**2 / 4
    whole, short = math.sqrt(m * m + a / (1 - a / (m * m))), math.sqrt(m * m + 0.8 * a)
    missed = 0
    for share in np.linspace(0.02, 0.98, 25):
        p, t = two_points(epsilon, share * epsilon)
        for at in np.linspace(0.0, 6 * whole, 40):
            found = p * both_sides(m, at - t) + (1 - p) * both_sides(m, at - t + epsilon)
            assert found <= gdp_delta(whole, at) * (1 + 1e-9) + 1e-300
            missed += found > gdp_delta(short, at) * (1 + 1e-9)
    assert missed


def both_sides(mu, at):
    """E_P(1 - e^{at - L})₊ for any sign of `at`."""
    return float(gdp_delta(mu, at)) if at >= 0 else -math.expm1(at) + math.exp(at) * float(gdp_delta(mu, -at))


@pytest.mark.parametrize(("epsilon", "count"), [(0.02, 500), (0.3, 2000), (1.0, 700)])
def test_many_runs_are_below_their_gaussian(epsilon, count):
    """One t throughout, by binomial sums; and not more than a few ε²/4 above ε²/4 a run."""
    mu = adaptive_range_mu(epsilon, count)
    assert count < mu**2 / (epsilon**2 / 4) < count + 3 + math.log(count)
    for share in (0.4, 0.5, 0.55):
        p, t = two_points(epsilon, share * epsilon)
        k = np.arange(count + 1)
        logs = np.array([math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in k])
        weights = np.exp(logs + k * math.log(p) + (count - k) * math.log1p(-p))
        losses = count * (t - epsilon) + k * epsilon
        for at in mu * np.array([0.0, 1.0, 3.0]) + mu * mu / 2:
            assert float(weights @ np.maximum(-np.expm1(np.minimum(at - losses, 0)), 0)) <= gdp_delta(mu, at)


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


@pytest.mark.parametrize(("epsilon", "count", "wanted"), [(7.117996623306677, 5, 1.75e-10), (19.3, 3, 1e-7)])
def test_the_law_of_a_steered_attack_is_as_near_as_it_says(monkeypatch, epsilon, count, wanted):
    """In fifty digits, by the same choices: every point, also where t is near 0 or near ε."""
    kept = []
    choose = adaptive_attack._choices
    monkeypatch.setattr(adaptive_attack, "_POINTS", 120)
    monkeypatch.setattr(adaptive_attack, "_choices", lambda *of: kept.append((of[2], choose(*of))) or kept[0][1])
    pair = steered_pair.__wrapped__(epsilon, count, wanted, None)
    ((steps, (target, choices)),) = kept
    with mpmath.workdps(50):
        whole, unit = mpmath.mpf(epsilon), -mpmath.expm1(-mpmath.mpf(epsilon))
        law = {0: (mpmath.mpf(1), mpmath.mpf(1))}
        for choice in choices:
            after = {}
            for place, (p, q) in law.items():
                j = int(choice[np.clip(target - place + len(choice) // 2, 0, len(choice) - 1)])
                t = whole * j / steps
                hit, miss = -mpmath.expm1(t - whole) / unit, -mpmath.expm1(-t) / unit
                for to, by_p, by_q in ((j, hit, hit * mpmath.exp(-t)), (j - steps, miss * mpmath.exp(t - whole), miss)):
                    had = after.get(place + to, (0, 0))
                    after[place + to] = had[0] + p * by_p, had[1] + q * by_q
            law = after
        for loss, p, q in zip(pair.losses, pair.p, pair.q, strict=True):
            exact_p, exact_q = law[round(loss * steps / epsilon)]
            assert abs(mpmath.mpf(float(p)) - exact_p) <= pair.doubt * exact_p
            assert abs(mpmath.mpf(float(q)) - exact_q) <= pair.doubt * exact_q
