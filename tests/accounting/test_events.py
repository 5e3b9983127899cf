"""One release and events of large losses, against closed forms in 40 digits."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from dpcalc.accounting import engines, events
from dpcalc.accounting.compose import compose
from dpcalc.accounting.engines import attained, by_laws
from dpcalc.accounting.events import by_one_release, surely
from dpcalc.accounting.question import Answer, Question
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.rounding import FUNCTION


def sampled_gaussian(sigma, rate, epsilon):
    """δ of removing a record: P(L > ε) - e^ε Q(L > ε), the output being above one place."""
    with mpmath.workdps(60):
        sigma, rate, t = mpf(sigma), mpf(rate), mpmath.exp(mpf(epsilon))
        place = sigma**2 * mpmath.log((t - 1 + rate) / rate) + mpf(1) / 2
        above = [mpmath.erfc((place - mean) / sigma / mpmath.sqrt(2)) / 2 for mean in (0, 1)]
        return (1 - rate) * above[0] + rate * above[1] - t * above[0]


def added(sigma, rate, epsilon):
    """δ of adding a record: Q(X < e^{-ε}) - e^ε P(X < e^{-ε})."""
    with mpmath.workdps(80):
        sigma, rate, t = mpf(sigma), mpf(rate), mpmath.exp(-mpf(epsilon))
        if t <= 1 - rate:
            return mpf(0)
        place = sigma**2 * mpmath.log((t - 1 + rate) / rate) + mpf(1) / 2
        below = [mpmath.erfc(-(place - mean) / sigma / mpmath.sqrt(2)) / 2 for mean in (0, 1)]
        return below[0] - ((1 - rate) * below[0] + rate * below[1]) / t


@pytest.mark.parametrize("sigma", [0.7, 30.0, 1e5])
@pytest.mark.parametrize("rate", [1e-7, 1e-4, 0.3])
@pytest.mark.parametrize("share", [0.02, 0.6, 0.97])
def test_a_sampled_release_keeps_its_digits_at_small_rates(sigma, rate, share):
    """Masses of P and Q next to each other say nothing of a difference of a billionth; those of the base do."""
    part = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate)
    for epsilon in (share * rate, rate / sigma / 3):
        for pair, exact in (
            (part.pairs()[0], sampled_gaussian(sigma, rate, epsilon)),
            (part.pairs()[1], added(sigma, rate, epsilon)),
        ):
            low, high = (events._release(pair, epsilon, upper=upper) for upper in (False, True))
            assert low <= exact <= high + 1e-300
            if exact > 1e-3 * rate / sigma:
                assert high - low <= 1e-6 * float(exact)


def test_one_release_is_its_closed_form():
    draw = random.Random(19)
    for _ in range(24):
        sigma, rate, epsilon = draw.uniform(0.3, 5), 10 ** draw.uniform(-6, -0.1), 10 ** draw.uniform(-3, 1)
        exact = sampled_gaussian(sigma, rate, epsilon)
        part = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate)
        found = by_one_release([(part, 1)], Question(None, epsilon))
        assert found.lower <= exact <= found.upper
        asked = by_one_release([(part, 1)], Question(float(exact) or 0.5, None))
        if exact > mpf(10) ** -250:
            assert asked.lower <= mpf(epsilon) * (1 + mpf(10) ** -13)
            assert asked.upper >= mpf(epsilon) * (1 - mpf(10) ** -13)


def test_it_says_nothing_of_more_releases_or_of_bounds():
    question = Question(1e-5, None)
    assert by_one_release([(Laplace(scale=1.0), 2)], question) is None
    assert by_one_release([(Laplace(scale=1.0), 1), (Laplace(scale=2.0), 1)], question) is None
    assert by_one_release([(RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=4), 1)], question) is None


@pytest.mark.parametrize(
    ("epsilon", "count", "failing"), [(18.0, 807, 0.0), (2.0, 300, 0.0), (3.0, 40, 1e-7), (9.0, 2000, 0.0)]
)
def test_answers_that_all_point_one_way_are_an_event(epsilon, count, failing):
    """δ(ε) ≥ p^n - e^ε q^n with p = (1-δ)/(1 + e^{-ε}) + δ, exactly for losses that are all the largest."""
    part = DeclaredDP(epsilon=epsilon, delta=failing) if failing else RandomizedResponse(epsilon=epsilon)
    with mpmath.workdps(60):
        q = (1 - mpf(failing)) / (1 + mpmath.exp(mpf(epsilon)))
        p = q * mpmath.exp(mpf(epsilon)) + mpf(failing)
        for delta in (1e-9, 1e-3, 0.3):
            question = Question(delta, None)
            found = surely(attained([(part, count)], question), question)
            best = mpmath.log((p**count - mpf(delta)) / q**count) if p**count > delta else mpf(0)
            assert found <= best
            assert found >= best * (1 - mpf(10) ** -11)
            at = Question(None, float(0.9 * epsilon * count))
            assert surely(attained([(part, count)], at), at) <= p**count - mpmath.exp(mpf(at.epsilon)) * q**count


class Coin:
    """A pair of which the mass above any loss is known, with errors that it makes in full."""

    def __init__(self, p, q, p_error=0.0, q_error=0.0):
        self.p, self.q = Fraction(p) - Fraction(p_error), Fraction(q) + Fraction(q_error)
        self.row = [np.array([0.0, each]) for each in (p, q, p_error, q_error)]

    def support(self):
        return -1.0, 1.0

    def cells(self, _):
        return self.row


def erring_in_turns(monkeypatch, **signs):
    """exp and log that err as much as they may, each call in the direction whose turn it is."""
    turns = {name: itertools.cycle(each) for name, each in signs.items()}
    wrong = {
        name: lambda x, name=name: getattr(math, name)(x) * (1 + next(turns[name]) * FUNCTION)
        for name in ("exp", "log")
    }
    others = {name: getattr(math, name) for name in ("inf", "fsum")}
    monkeypatch.setattr(events, "math", SimpleNamespace(**wrong, **others))


def runs_of_coins(draw):
    count = draw.choice([1, 40])
    runs = []
    for _ in range(draw.choice([1, 1, 3, 30])):
        p = math.exp(-draw.random() / 10 / count)
        doubts = [draw.choice([0.0, 1e-6 * draw.random()]) for _ in range(2)]
        runs.append((Coin(p, p * math.exp(-draw.choice([0.01, 1, 9]) * draw.random()), *doubts), count))
    return runs


def test_a_mass_that_is_0_may_be_a_faint_one():
    for delta in (0.1, 0.5, 0.9):
        found = events._by_event([(Coin(1.0, 0.0), 1)], Question(delta, None), 0.5)
        assert 680 < found <= mpmath.log((1 - mpf(delta)) / mpf("1e-300"))


@pytest.mark.parametrize("logs", [(-1, 1, -1), (-1, -1, -1), (0, 0, 0), (1, 1, 1)])
@pytest.mark.parametrize("exps", [(1, -1), (0, 0)])
def test_an_event_pays_for_its_masses_logarithms_and_exponentials(monkeypatch, logs, exps):
    """Against rationals. Near the largest δ, and the largest ε, every error is magnified."""
    draw = random.Random(23)
    for _ in range(150):
        runs = runs_of_coins(draw)
        with mpmath.workdps(60):
            p, q = (
                mpmath.fprod((mpf(each.numerator) / each.denominator) ** count for each, count in side)
                for side in ([(coin.p, n) for coin, n in runs], [(coin.q, n) for coin, n in runs])
            )
            delta = float(p * (1 - draw.choice([mpf(1), mpf(10) ** -3, mpf(10) ** -9]) * draw.random()))
            epsilon = float(mpmath.log(p / q) * (1 - draw.choice([1.0, 1e-3, 1e-9]) * draw.random()))
            turns = [sign for sign in logs[:2] for _ in runs] + [logs[2]]
            with monkeypatch.context() as patched:
                erring_in_turns(patched, log=turns, exp=exps)
                assert events._by_event(runs, Question(delta, None), 0.5) <= max(mpmath.log((p - mpf(delta)) / q), 0)
            with monkeypatch.context() as patched:
                erring_in_turns(patched, log=turns, exp=exps)
                found = events._by_event(runs, Question(None, max(epsilon, 0.0)), 0.5)
                assert found <= max(p - mpmath.exp(mpf(max(epsilon, 0.0))) * q, 0)


def test_losses_that_are_all_the_largest_are_an_event_of_a_few_releases():
    """Laplace noise has half of P at its largest loss: ε(δ) ≥ 2/b + log(1 - 4δ) of two releases, the sum of both."""
    scale, delta = 0.5066, 8.693e-11
    found = compose([(Laplace(scale=scale), 2)], delta=delta)
    with mpmath.workdps(40):
        exact = 2 / mpf(scale) + mpmath.log(1 - 4 * mpf(delta))
        assert exact * (1 - mpf(10) ** -6) <= found.epsilon_lower <= 2 / mpf(scale)
        assert exact <= found.epsilon


@pytest.mark.parametrize(("shrinks", "rounds"), [(0.8, 8), (0.99, 4)])
def test_bounds_are_sharpened_as_long_as_that_helps(monkeypatch, shrinks, rounds):
    asked = []

    def answer(*_):
        asked.append(1)
        return Answer("pld", 1.0, 1 - 0.04 * shrinks ** len(asked))

    monkeypatch.setattr(engines, "_answer", answer)
    monkeypatch.setattr(engines, "sharpened", lambda runs, _: runs)
    found = by_laws([(RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=4), 1)], Question(1e-5, None))
    assert len(asked) == rounds
    assert math.isclose(found.lower, 1 - 0.04 * shrinks**rounds)
