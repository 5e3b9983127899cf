"""Several exponential mechanisms: above every adaptive adversary, and near the best of them."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.needs import order_of
from dpcalc.conversions import gdp_delta
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.pairs import adaptive_attack, adaptive_range
from dpcalc.pairs.adaptive_attack import steered_pair, two_point_pair, worst_t
from dpcalc.pairs.adaptive_range import adaptive_range_mu, adaptive_range_pair


def test_the_grid_of_losses_reaches_as_far_as_the_mechanisms():
    """Steps of 1/500 of ε are rounded; a grid that ends an ulp below kε would leave out the largest losses."""
    for epsilon in np.random.default_rng(2).uniform(0.1, 2, 40):
        losses, _ = adaptive_range._profile(float(epsilon), 3)
        assert losses[0] == 0
        step = Fraction(float(epsilon)) / 500
        assert all(Fraction(loss) >= step * k for k, loss in enumerate(losses.tolist()))


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
    steered = steered_pair(epsilon, count)
    assert steered.p.sum() == pytest.approx(1, abs=1e-12)
    assert steered.q.sum() == pytest.approx(1, abs=1e-12)
    assert np.log(steered.p / steered.q) == pytest.approx(steered.losses, abs=1e-10)
    one = max(one_t(epsilon, count, at, share * epsilon) for share in np.linspace(0.45, 0.95, 26))
    assert one * 0.999 <= delta(steered, at) <= delta(above, at) <= 1.02 * delta(steered, at)


def one_t(epsilon, count, at, t):
    """δ of one t throughout."""
    p, _ = two_points(epsilon, t)
    losses = [count * (t - epsilon) + k * epsilon for k in range(count + 1)]
    masses = [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
    return sum(mass * max(0.0, -math.expm1(at - loss)) for mass, loss in zip(masses, losses, strict=True))


@pytest.mark.parametrize(("epsilon", "count"), [(0.7, 1), (0.3, 2), (2.9, 2), (1.1, 3)])
def test_a_steered_attack_is_what_adversaries_of_its_grid_attain_at_every_target(monkeypatch, epsilon, count):
    """Also at targets below 0, which what was released before may leave."""
    monkeypatch.setattr(adaptive_attack, "_POINTS", 24)
    pair = steered_pair.__wrapped__(epsilon, count)
    choices = [epsilon * k / 24 for k in range(25)]
    for share in (-0.8, -0.3, 0.0, 0.17, 0.4, 0.7):
        at = share * count * epsilon
        best = best_adversary(epsilon, count, at, choices)
        assert 0.97 * best <= delta(pair, at) <= best * (1 + 1e-9)


def test_a_steered_attack_pays_for_the_rounding_of_its_tests(monkeypatch):
    """Scaled up to a thousandth: probabilities of passing that err by as much promise no more than the true ones."""
    p, q = adaptive_attack._tests(0.6, 5)
    monkeypatch.setattr(adaptive_attack, "accumulated", lambda operations: 1e-3 * operations / 236)  # of five runs
    for wrong in ((p * (1 + 0.99e-3), q), (p * (1 + 0.99e-3), q * (1 - 0.99e-3))):
        monkeypatch.setattr(adaptive_attack, "_tests", lambda *_, wrong=wrong: wrong)
        pair = steered_pair.__wrapped__(0.6, 5)
        for at in (0.0, 0.2, 0.5, 1.0, 2.0):
            assert delta(pair, at) <= max(0.0, float((p - math.exp(at) * q).max()))


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


@pytest.mark.parametrize(("count", "at_delta"), [(3, 1e-5), (20, 1e-5), (20, 1e-2)])
def test_the_guessed_case_is_attained_and_nearly_the_worst(count, at_delta):
    epsilon = 1.0

    def runs(t):
        low, high = 0.0, count * epsilon
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if one_t(epsilon, count, middle, t) > at_delta else (low, middle)
        return low

    guessed = worst_t(epsilon, order_of(Exponential(epsilon=epsilon).runs(count), Question(at_delta, None)))
    assert runs(guessed) >= 0.96 * max(runs(t) for t in np.linspace(0.01, 0.999, 100))
    pair = two_point_pair(epsilon, guessed)
    assert pair.p.sum() == pytest.approx(1, abs=1e-15)
    assert np.log(pair.p / pair.q) == pytest.approx(pair.losses, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "count"), [(7.117996623306677, 5), (19.3, 3), (0.01, 8)])
def test_every_test_of_a_steered_attack_is_attained(monkeypatch, epsilon, count):
    """In fifty digits, by the same choices: no corner of the polygon is further up or left than what is attained."""
    kept = []
    before = adaptive_attack._before
    monkeypatch.setattr(adaptive_attack, "_POINTS", 120)
    monkeypatch.setattr(adaptive_attack, "_before", lambda *of: kept.append((of[1], of[2])) or before(*of))
    pair = steered_pair.__wrapped__(epsilon, count)
    steps, reach = kept[0][1], len(kept[0][0]) // 2
    with mpmath.workdps(50):
        whole, unit = mpmath.mpf(epsilon), -mpmath.expm1(-mpmath.mpf(epsilon))
        times = [whole * j / steps for j in range(steps + 1)]
        hits, misses = [-mpmath.expm1(t - whole) / unit for t in times], [-mpmath.expm1(-t) / unit for t in times]
        tests = [(mpmath.mpf(left < 0),) * 2 for left in range(-reach, reach + 1)]
        for chosen, _ in kept[::2]:
            around = [(mpmath.mpf(1),) * 2] * steps + tests + [(mpmath.mpf(0),) * 2] * steps
            tests = []
            for place, j in enumerate(chosen.tolist()):
                (p, q), (rest_p, rest_q) = around[place + steps - j], around[place + 2 * steps - j]
                hit, miss, t = hits[j], misses[j], times[j]
                tests.append(
                    (hit * p + miss * mpmath.exp(t - whole) * rest_p, hit * mpmath.exp(-t) * q + miss * rest_q)
                )
        up = pair.losses > 0
        for p, q in zip(np.cumsum(pair.p[up][::-1]), np.cumsum(pair.q[up][::-1]), strict=True):
            high, right = mpmath.mpf(float(p)) * (1 - pair.doubt), mpmath.mpf(float(q)) * (1 + pair.doubt)
            assert any(high <= exact_p and exact_q <= right for exact_p, exact_q in tests)


def envelope(epsilon, at):
    """δ of one run at any ε: the largest over t."""
    if at < 0:
        return -math.expm1(at) + math.exp(at) * envelope(epsilon, -at)
    return (1 - math.exp((at - epsilon) / 2)) ** 2 / -math.expm1(-epsilon) if at < epsilon else 0.0


def two_runs(first, second, at):
    """δ of the best adversary who runs the first of two and chooses the second's t by its outcome."""
    found = []
    for share in np.linspace(0.0, 1.0, 201):
        p, t = two_points(first, share * first)
        found.append(p * envelope(second, at - t) + (1 - p) * envelope(second, at - t + first))
    return max(found)


def epsilon_of(delta_at, wanted, most):
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > wanted else (low, middle)
    return low


@pytest.mark.parametrize("wanted", [1e-2, 1e-6])
def test_a_run_after_all_others_is_known_from_both_sides(wanted):
    """Randomised response, then one run whose t is chosen by its answer: closed forms."""
    p = 1 / (1 + math.exp(-1.0))
    exact = epsilon_of(lambda at: p * envelope(0.5, at - 1) + (1 - p) * envelope(0.5, at + 1), wanted, 1.5)
    found = compose([(Exponential(epsilon=0.5), 1), (RandomizedResponse(epsilon=1.0), 1)], delta=wanted)
    assert found.epsilon_lower <= exact <= found.epsilon <= found.epsilon_lower * (1 + 1.001e-3)


@pytest.mark.parametrize("wanted", [1e-1, 1e-3])
@pytest.mark.parametrize(("first", "second"), [(1.0, 1.1), (0.4, 2.0)])
def test_of_two_runs_one_alone_comes_last(first, second, wanted):
    """No adversary attains both envelopes: each t would have to be chosen after the other's outcome."""

    def best(at):
        return max(two_runs(first, second, at), two_runs(second, first, at))

    found = compose([(Exponential(epsilon=first), 1), (Exponential(epsilon=second), 1)], delta=wanted)
    exact = epsilon_of(best, wanted, first + second)
    assert found.epsilon_lower <= exact * (1 + 1e-4) <= found.epsilon * (1 + 2e-4)
    assert found.epsilon_lower >= 0.92 * exact


def test_runs_of_two_kinds_may_be_interleaved():
    """Whoever may choose before every run which kind is next, and its t, stays below the pairs of both kinds."""
    step, reach = 0.25, 32
    left = np.arange(-reach, reach + 1)  # of the target, in steps

    def before(value, epsilon):
        """What the best t makes of a run of this ε, given the value after it."""
        found = np.zeros_like(value)
        for t in range(round(epsilon / step) + 1):
            p = math.expm1(t * step - epsilon) / math.expm1(-epsilon)
            hit, missed = (np.interp(left - loss, left, value) for loss in (t, t - epsilon / step))
            found = np.maximum(found, p * hit + (1 - p) * missed)
        return found

    values = {(0, 0): np.maximum(-np.expm1(step * np.minimum(left, 0)), 0.0)}
    for first, second in ((1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)):
        ways = ((first - 1, second, 2.0), (first, second - 1, 1.0))
        values[first, second] = np.max([before(values[i, j], each) for i, j, each in ways if (i, j) in values], axis=0)
    parts = [(Exponential(epsilon=2.0), 2), (Exponential(epsilon=1.0), 2)]
    for target in (2, 6, 10, 15):
        found = float(values[2, 2][reach + target])
        assert found <= compose(parts, epsilon=target * step).delta <= 1.3 * found
