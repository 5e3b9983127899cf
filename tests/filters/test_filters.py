"""Filters against the papers: published runs, literal transcriptions of the algorithms, equality and adaptivity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpcalc.conversions import gdp_epsilon, zcdp_epsilon
from dpcalc.errors import InputError
from dpcalc.filters.filters import GlobalFilter, IndividualFilter
from dpcalc.filters.mixture import renyi_room
from dpcalc.filters.rule import ROUNDING, storage_tolerance
from dpcalc.filters.rules import dp_rule, gdp_rule, rdp_rule
from dpcalc.filters.subsampled import SubsampledRenyi


def algorithm_3(costs: np.ndarray, budget: float) -> np.ndarray:
    """Feldman–Zrnic, Algorithm 3, one record and one step at a time."""
    active = np.zeros(costs.shape, dtype=bool)
    for i in range(costs.shape[1]):
        kept: list[float] = []
        for t in range(costs.shape[0]):
            active[t, i] = math.fsum([*kept, costs[t, i]]) <= budget
            kept.append(costs[t, i] if active[t, i] else 0.0)
    return active


def algorithm_7(norms: np.ndarray, clip: float, budget: float) -> np.ndarray:
    """Feldman–Zrnic, Algorithm 7: the norms after clipping to the remaining budget."""
    clipped = np.zeros_like(norms)
    for t in range(norms.shape[0]):
        for i in range(norms.shape[1]):
            left = budget - math.fsum(float(v) ** 2 for v in clipped[:t, i])
            allowed = min(clip, math.sqrt(max(left, 0.0)))
            clipped[t, i] = min(norms[t, i], allowed)
    return clipped


@pytest.mark.parametrize(("sigma", "steps"), [(170, 112), (130, 180), (100, 420)])
def test_published_runs_fit_exactly_into_their_norm_budget(sigma: int, steps: int) -> None:
    clip = 10.0
    rule = gdp_rule(sigma=sigma * clip, norm_budget=steps * clip**2)
    flow = IndividualFilter(rule, individuals=1)
    allowed = sum(bool(flow.step([clip])[0]) for _ in range(steps + 5))
    assert allowed == steps
    assert rule.notion.gdp() == pytest.approx(math.sqrt(steps) / sigma, rel=1e-11)


def test_gdp_allows_495_steps_where_rdp_allows_420() -> None:
    """Koskela et al., §4.1: σ = 100, δ = 1e-5, ε ≈ 0.8156."""
    target = zcdp_epsilon(420 / (2 * 100**2), 1e-5)
    assert target == pytest.approx(0.8156, abs=6e-5)
    # The stated ε is just above what 420 steps cost in RDP.
    rdp, gdp = (GlobalFilter(rule(quantity="mu", epsilon=0.8157, delta=1e-5)) for rule in (rdp_rule, gdp_rule))
    assert sum(rdp.step(0.01) for _ in range(600)) == 420
    assert sum(gdp.step(0.01) for _ in range(600)) == 495
    assert gdp_epsilon(math.sqrt(495) / 100, 1e-5) == pytest.approx(0.8152, abs=6e-5)


def responses_delta(step: float, count: int, epsilon: float) -> float:
    """δ(ε) of so many randomised responses, the worst ε-DP steps: the binomial sum."""
    p = 1 / (1 + math.exp(-step))
    losses = ((k, (2 * k - count) * step) for k in range(count + 1))
    return math.fsum(
        math.exp(math.log(math.comb(count, k)) + k * math.log(p) + (count - k) * math.log1p(-p))
        * -math.expm1(epsilon - loss)
        for k, loss in losses
        if loss > epsilon
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "level", "closed"),
    [
        (1, 1e-6, 0.0243559703595, 0.0174689047691),
        (0.7, 1e-7, 0.0102789416669, 0.00743946592308),
        (3, 1e-5, 0.224249168246, 0.173483211925),
        (2, 1e-8, 0.0639404456731, 0.0515256770368),
    ],
)
def test_the_dp_filter_is_never_stricter_than_theorem_4_9(
    epsilon: float, delta: float, level: float, closed: float
) -> None:
    """½Σε² ≤ B*, where B* = max B(α,ε,δ)/α is above the closed form of the paper (mpmath)."""
    assert closed == pytest.approx((math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2)
    rule = dp_rule(epsilon=epsilon, delta=delta)
    assert renyi_room(np.array(rule.orders), epsilon, delta)[0] / rule.orders[0] == pytest.approx(level, rel=1e-9)
    for step in (0.01, 0.037):
        run = GlobalFilter(rule)
        allowed = sum(run.step(step) for _ in range(int(level / (step * step / 2)) + 200))
        assert allowed >= int(level / (step * step / 2))
        assert responses_delta(step, allowed, epsilon) <= delta


@pytest.mark.parametrize(("step", "expected"), [(0.01, 490), (0.03, 57), (0.1, 10), (0.25, 4), (1.0, 1), (1.01, 0)])
def test_the_dp_filter_allows_what_basic_composition_allows(step: float, expected: int) -> None:
    run = GlobalFilter(dp_rule(epsilon=1.0, delta=1e-6))
    assert sum(run.step(step) for _ in range(600)) == expected
    assert responses_delta(step, expected, 1.0) <= 1e-6


def test_a_filter_goes_on_after_a_refusal() -> None:
    """What runs is the step if it fits, else nothing (Feldman–Zrnic, after Lemma 4.2)."""
    run = GlobalFilter(gdp_rule(quantity="mu", mu=1.0))
    assert [run.step(mu) for mu in (0.6, 0.9, 0.1, 0.79, 0.8, 0.0)] == [True, False, True, True, False, True]
    assert run.spent == pytest.approx(math.sqrt(0.36 + 0.01 + 0.6241))


@settings(max_examples=60, deadline=None)
@given(norms=arrays(np.float64, (12, 5), elements=st.floats(0, 2)), budget=st.floats(0.1, 8))
def test_the_fold_is_algorithm_3(norms: np.ndarray, budget: float) -> None:
    rule = gdp_rule(sigma=3.0, norm_budget=budget)
    expected = algorithm_3(norms**2, budget * (1 + ROUNDING))
    one_by_one = IndividualFilter(rule, individuals=5)
    assert np.array_equal([one_by_one.step(row) for row in norms], expected)
    at_once = IndividualFilter(rule, individuals=5)
    found = np.ones(norms.shape, dtype=bool)
    for records, out, first in at_once.charge_block(norms):
        found[first : first + len(out), records] = ~out
    assert np.array_equal(found, expected)
    assert np.array_equal(at_once.totals, one_by_one.totals)
    assert np.array_equal(at_once.steps_active, expected.sum(axis=0))


@settings(max_examples=60, deadline=None)
@given(norms=arrays(np.float64, (12, 4), elements=st.floats(0, 3)), steps=st.floats(0.3, 9))
def test_clip_mode_is_algorithm_7(norms: np.ndarray, steps: float) -> None:
    clip, budget = 1.5, steps * 1.5**2
    flow = IndividualFilter(gdp_rule(sigma=1.0, clip=clip, norm_budget=budget), individuals=4, mode="clip")
    for row in norms:
        flow.step(np.minimum(row, clip))
    expected = (algorithm_7(norms, clip, budget) ** 2).sum(axis=0)
    assert flow.totals[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.all(flow.totals[0] <= budget * (1 + ROUNDING))


def test_clip_mode_with_k_steps_of_budget_is_plain_gradient_descent() -> None:
    flow = IndividualFilter(gdp_rule(sigma=1.0, clip=0.1, norm_budget=30 * 0.1**2), individuals=1, mode="clip")
    assert [bool(flow.step([0.1])[0]) for _ in range(32)] == [True] * 30 + [False] * 2
    assert not flow.clipped[0]


@settings(max_examples=100, deadline=None)
@given(clip=st.floats(1e-6, 1e6), steps=st.integers(1, 400))
def test_equality_with_the_budget_is_within_budget(clip: float, steps: int) -> None:
    rule = gdp_rule(sigma=1.0, norm_budget=steps * clip * clip)
    flow = IndividualFilter(rule, individuals=1)
    assert sum(bool(flow.step([clip])[0]) for _ in range(steps + 1)) == steps
    # The reported μ covers the exact sum of what ran.
    assert rule.notion.gdp() >= math.sqrt(steps) * clip
    assert rule.notion.gdp() == pytest.approx(math.sqrt(steps) * clip, rel=1e-12)


@pytest.mark.parametrize("clip", [0.1, 0.3, 1 / 3, 7.7])
def test_equality_holds_for_norms_stored_in_single_precision(clip: float) -> None:
    tolerance = storage_tolerance(np.dtype(np.float32))
    rule = gdp_rule(sigma=1.0, norm_budget=420 * clip**2, tolerance=tolerance)
    flow = IndividualFilter(rule, individuals=1)
    refused = list(flow.charge_block(np.full((420, 1), clip, dtype=np.float32)))
    assert not refused or not refused[0].out.any()
    assert rule.notion.gdp() >= math.sqrt(420) * clip


def test_a_hundred_thousand_equal_steps_still_fit() -> None:
    flow = IndividualFilter(gdp_rule(sigma=1.0, norm_budget=100_000 * 0.1**2), individuals=1)
    block = np.full((10_000, 1), 0.1)
    assert not any(refused.out.any() for _ in range(10) for refused in flow.charge_block(block))
    assert not flow.step([0.01])[0]


def test_a_skipped_record_may_come_back_with_a_smaller_norm() -> None:
    flow = IndividualFilter(gdp_rule(mu=1.0, sigma=1.0), individuals=1)
    assert [bool(flow.step([norm])[0]) for norm in (0.8, 0.8, 0.5, 0.5, 0.3)] == [True, False, True, False, True]


def test_norms_may_depend_on_who_was_dropped() -> None:
    """An adversary that doubles a record's norm whenever it was kept never gets anybody over the budget."""
    rng = np.random.default_rng(0)
    flow = IndividualFilter(gdp_rule(mu=1.0, sigma=1.0), individuals=200)
    norms = rng.uniform(0, 0.3, 200)
    spent = np.zeros(200)
    for _ in range(60):
        active = flow.step(norms)
        spent += np.where(active, norms**2, 0)
        norms = np.where(active, np.minimum(2 * norms, 1.2), norms / 3)
    assert np.all(spent <= 1 + 1e-12)
    assert flow.spent == pytest.approx(np.sqrt(spent))


def test_a_budget_stated_as_epsilon_is_kept_to_the_last_digit() -> None:
    for rule in (gdp_rule, rdp_rule):
        built = rule(sigma=1.0, epsilon=1.0, delta=1e-5)
        assert built.notion.epsilon_at(1e-5) <= 1.0 * (1 + 1e-11)
        assert built.limits[0] * (1 + 2 * built.tolerance) <= 2 * built.notion.zcdp()


def test_several_orders_stop_at_the_strictest() -> None:
    rule = rdp_rule(quantity="mu", orders=[2, 8], rhos=[0.5, 0.8])
    assert rule.limits[0] == pytest.approx(min(2 * 0.5 / 2, 2 * 0.8 / 8))
    sampled = rdp_rule(sigma=1.0, orders=[2, 8], rhos=[1e-3, 4e-3], sampling_rate=0.01)
    flow = IndividualFilter(sampled, individuals=1)
    steps = sum(bool(flow.step([1.0])[0]) for _ in range(300))
    costs = SubsampledRenyi(orders=(2.0, 8.0), sampling_rate=0.01).rdp(np.array([1.0]))[:, 0]
    assert steps == min(int(1e-3 / costs[0]), int(4e-3 / costs[1]))


def test_subsampled_rdp_is_above_the_closed_form_at_order_two() -> None:
    """At α = 2: log(1 + q²(e^u − 1)), Mironov, Talwar, Zhang (2019)."""
    squares = np.concatenate([[0.0], np.geomspace(1e-6, 20, 300)])
    found = SubsampledRenyi(orders=(2.0,), sampling_rate=0.02).rdp(squares)[0]
    exact = np.log1p(0.02**2 * np.expm1(squares))
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, rel=5e-4, abs=0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: gdp_rule(sigma=1.0), "exactly one budget"),
        (lambda: gdp_rule(sigma=1.0, mu=1.0, norm_budget=2.0), "exactly one budget"),
        (lambda: gdp_rule(mu=1.0), "`sigma`"),
        (lambda: gdp_rule(quantity="rho", mu=1.0), "norm or mu"),
        (lambda: rdp_rule(sigma=1.0, orders=[2.0], rhos=[1.0, 2.0]), "one `rho` for each `order`"),
        (lambda: IndividualFilter(dp_rule(epsilon=1.0, delta=1e-5), mode="clip"), "`mode=clip`"),
        (lambda: IndividualFilter(gdp_rule(sigma=1.0, mu=1.0), individuals=2).step([1.0]), "shape"),
        (lambda: IndividualFilter(gdp_rule(sigma=1.0, mu=1.0), individuals=1).step([math.nan]), "missing"),
    ],
)
def test_contradictions_are_refused(build: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()  # type: ignore[operator]
