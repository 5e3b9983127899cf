"""Schedules: reading them, agreeing with constant runs, and never below quadratic runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.errors import InputError
from dpcalc.last_iterate import course, cyclic, gradient_descent, schedule
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.bound import Bound
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.setting import Setting


def constant(rate: float, sigma: float) -> schedule.Schedule:
    return schedule.read_schedule(f"step,lr,sigma\n1,{rate!r},{sigma!r}\n", name="s.csv")


def smallest(bounds: list[Bound]) -> float:
    return min(bound.mu for bound in bounds if bound.rho is None)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([1, 3, 8]),
    st.integers(1, 40),
    st.tuples(st.floats(0, 1), st.one_of(st.none(), st.floats(0.05, 5))),
    st.tuples(st.floats(0.05, 1.0), st.floats(0.1, 3)),
)
def test_a_constant_schedule_is_a_constant_run(batches, epochs, losses, step) -> None:
    (m, diameter), (rate, sigma) = losses, step
    setting = Setting(
        algorithm="cgd",
        learning_rate=rate,
        sigma=sigma,
        sensitivity=1.0,
        dataset_size=batches,
        batch_size=1,
        steps=batches * epochs,
        strong_convexity=m,
        smoothness=1.0,
        diameter=diameter,
    )
    module = cyclic if batches > 1 else gradient_descent
    scheduled = smallest(course.bounds(setting, constant(rate, sigma), 1e-5))
    assert scheduled == pytest.approx(smallest(module.bounds(setting)), rel=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 40), st.floats(0, 1))
def test_no_quadratic_run_on_a_schedule_exceeds_the_bound(data, batches, steps, m) -> None:
    rates = np.array(data.draw(st.lists(st.floats(0.05, 1.0), min_size=steps, max_size=steps)))
    sigmas = np.array(data.draw(st.lists(st.floats(0.1, 3.0), min_size=steps, max_size=steps)))
    setting = Setting(
        algorithm="cgd",
        learning_rate=float(rates.max()),
        sigma=float(sigmas.min()),
        sensitivity=1.0,
        dataset_size=batches,
        batch_size=1,
        steps=steps,
        strong_convexity=m,
        smoothness=1.0,
    )
    plan = schedule.Schedule(starts=np.arange(1.0, steps + 1), learning_rates=rates, sigmas=sigmas)
    bound = smallest(course.bounds(setting, plan, 1e-5))
    for record in range(batches):
        mean = variance = 0.0
        for k in range(steps):
            factor = 1 - rates[k] * m
            mean = factor * mean + (rates[k] if k % batches == record else 0.0)
            variance = factor**2 * variance + (rates[k] * sigmas[k]) ** 2
        assert mean / math.sqrt(variance) <= bound * (1 + 1e-12)


def test_rows_hold_until_the_next_one() -> None:
    plan = schedule.read_schedule("sigma,step,lr\n1.0,1,0.5\n2.0,4,0.25\n", name="s.csv")
    rates, sigmas = plan.at_every_step(6)
    assert rates.tolist() == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert sigmas.tolist() == [1, 1, 1, 2, 2, 2]
    assert plan.last_step == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step,lr\n1,0.1\n", "s.csv:1: expected the columns step, lr, sigma"),
        ("step,lr,sigma\n", "s.csv:2: expected at least one row"),
        ("step,lr,sigma\n2,0.1,1\n", "s.csv:2: step: expected the first row to be step 1, got 2"),
        ("step,lr,sigma\n1,0.1,1\n3,-0.1,1\n", "s.csv:3: lr: expected lr > 0, got -0.1"),
        ("step,lr,sigma\n1,0.1,nan\n", "s.csv:2: sigma: expected sigma > 0, got nan"),
        ("step,lr,sigma\n1,0.1,1\n1,0.1,1\n", "s.csv:3: step: expected growing whole steps, got 1"),
        ("step,lr,sigma\n1,0.1,1\n2,oops,1\n", "s.csv:3: expected 3 numbers, got '2,oops,1'"),
        ("step,lr,sigma\n1,0.1\n", "s.csv:2: expected 3 numbers in a row, got 2"),
    ],
)
def test_a_bad_schedule_says_where(text, message) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        schedule.read_schedule(text, name="s.csv")


def test_many_noise_levels_are_rounded_to_the_safe_side() -> None:
    sigmas = np.linspace(1.0, 3.0, 500)
    setting = Setting(
        algorithm="sgd",
        learning_rate=0.5,
        sigma=1.0,
        sensitivity=1.0,
        dataset_size=100,
        batch_size=1,
        steps=500,
        diameter=1.0,
        smoothness=1.0,
    )
    plan = schedule.Schedule(starts=np.arange(1.0, 501), learning_rates=np.full(500, 0.5), sigmas=sigmas)
    composed = course.bounds(setting, plan, 1e-5)[0].subsampled
    assert sum(part.count for part in composed) == 500
    assert len(composed) <= 10
    levels = np.repeat([part.mu for part in composed], [part.count for part in composed])
    assert (np.sort(levels) >= np.sort(1 / sigmas)).all()


@pytest.mark.parametrize(("m", "diameter"), [(0.1, None), (0.0, 2.0), (0.1, 2.0)])
def test_one_sided_shifts_on_a_constant_schedule_are_the_closed_form(m, diameter) -> None:
    setting = Setting(
        algorithm="sgd",
        learning_rate=0.5,
        sigma=2.0,
        sensitivity=10.0,
        dataset_size=1000,
        batch_size=10,
        steps=3000,
        strong_convexity=m,
        smoothness=1.0,
        diameter=diameter,
    )
    bound = course.bounds(setting, constant(0.5, 2.0), 1e-5)[-1]
    (part,) = bound.subsampled
    beta, c, r = part.mu / setting.step_mu, 1 - 0.5 * m, part.count
    distance = setting.injection * sum(c**k for k in range(3000 - r))
    distance = distance if diameter is None else min(distance, diameter)
    energy = (c**r * distance) ** 2 / sum(c ** (2 * k) for k in range(r))
    alpha = 1 / math.sqrt(1 - 1 / beta**2)
    assert bound.mu == pytest.approx(alpha * math.sqrt(energy) / setting.noise, rel=1e-8)


def test_where_every_epsilon_is_zero_the_smallest_mu_is_the_answer() -> None:
    plan = schedule.read_schedule("step,lr,sigma\n1,1.7,900\n2,1.2,1500\n", name="s.csv")
    losses = {"strong_convexity": 0.0, "smoothness": 1.0}
    request = Request(algorithm="gd", sensitivity=1.0, n=500, steps=2, schedule=plan, delta=1e-4, **losses)
    guarantee = analyse(request).guarantee
    assert guarantee.epsilon == 0
    # Nothing contracts, and the first step has the larger slope s/w²: both injections over both noises.
    exact = 2.9 / 500 / math.hypot(1.7 * 900, 1.2 * 1500)
    assert guarantee.mu == pytest.approx(exact, rel=1e-12)


def test_a_schedule_claims_no_lower_bound_that_only_constant_runs_have() -> None:
    plan = schedule.read_schedule("step,lr,sigma\n1,0.5,1\n50,0.1,4\n", name="s.csv")
    request = Request(
        algorithm="gd",
        sensitivity=1.0,
        n=10,
        steps=100,
        strong_convexity=0.1,
        smoothness=1.0,
        schedule=plan,
        delta=1e-5,
    )
    guarantee = analyse(request).guarantee
    assert guarantee.epsilon_lower is None
    assert guarantee.mu_kind == "upper"
