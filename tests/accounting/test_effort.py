"""Answers with little work allowed: certified all the same, the same every time, and with what stopped them."""

from __future__ import annotations

import json
import math

import pytest

from dpcalc import effort
from dpcalc.accounting import compose as compose_module
from dpcalc.accounting.calibrate import calibrate
from dpcalc.accounting.compose import compose
from dpcalc.accounting.engines import by_laws
from dpcalc.conversions import gdp_epsilon
from dpcalc.effort import OutOfEffort, note, remembered, spend, within
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredZCDP
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.pairs.adaptive_attack import steered_pair
from dpcalc.pairs.adaptive_range import adaptive_range_pair
from dpcalc.pairs.profile import group_of_two
from dpcalc.pairs.renyi_frontier import rdp_frontier, zcdp_frontier
from dpcalc.pairs.sums.allocated import bounds


def test_what_is_spent_inside_is_gone_outside() -> None:
    with within(most=100):
        with within(0.5):
            spend(40)
            with pytest.raises(OutOfEffort):
                spend(11)
            spend(10)
        spend(50)
        with pytest.raises(OutOfEffort):
            spend(1)
        note(5)
        with within(), pytest.raises(OutOfEffort):
            spend(0.001)


def test_nothing_is_counted_where_nothing_was_said() -> None:
    spend(1e30)
    note(1e30)


# ε by the contour integral (docs/accuracy of NUMERICS), by MATH §9's interval, and by a closed form.
CASES = [
    ([(PoissonSampled(base=Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60000), 14063)], 1e-5, 2.38168973, 1e-8),
    ([(PoissonSampled(base=Gaussian(noise_multiplier=0.5), sampling_rate=0.01), 10_000)], 1e-6, 47.51701, 1e-6),
    ([(RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=100), 1)], 1e-5, 0.6209403, 2e-5),
    ([(RandomlyAllocated(base=Gaussian(noise_multiplier=0.3), steps=1000), 1)], 1e-6, 13.873474, 1e-6),
    ([(RandomlyAllocated(base=Gaussian(noise_multiplier=2.0), steps=100), 1000)], 1e-5, 8.10695, 1e-4),
]


@pytest.mark.parametrize(("parts", "delta", "exact", "known"), CASES)
@pytest.mark.parametrize("allowed", [0.0, 1e5, 3e6, 5e7])
def test_little_work_makes_no_false_bound(parts, delta, exact, known, allowed) -> None:
    with within(most=allowed):
        found = compose(parts, delta=delta)
    with within(most=allowed):
        again = compose(parts, delta=delta)
    assert (found.epsilon, found.epsilon_lower) == (again.epsilon, again.epsilon_lower)
    assert found.epsilon >= exact * (1 - known)
    assert (found.epsilon_lower or 0.0) <= exact * (1 + known)
    assert found.status == "certified"
    told = any("wider than the tolerance" in line for line in (*found.warnings, *found.remarks))
    assert told == (found.epsilon - (found.epsilon_lower or 0.0) > 1e-3 * found.epsilon)


def test_what_stopped_an_answer_is_told() -> None:
    mechanism = RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=100)
    with within(most=4e8):
        found = compose([(mechanism, 1)], delta=1e-5, tolerance=1e-6)
    assert any("more work than one answer may" in line for line in found.warnings)
    assert found.epsilon < 1.2 * 0.6209403


def test_a_call_is_bounded_also_where_grids_would_be_long(monkeypatch) -> None:
    """δ at an ε far below losses in the thousands: the sums of products alone took a minute and a half."""
    counted = []
    monkeypatch.setattr(effort, "WHOLE", 2e9)
    with within():
        found = compose([(Exponential(epsilon=20.0), 1000)], epsilon=12_000.0)
        counted.append(effort._budget.get().left)
    assert counted[0] >= 0
    assert 0 < found.delta <= 1


def test_a_search_ends_with_a_certified_value_when_its_work_is_used_up(monkeypatch) -> None:
    monkeypatch.setattr("dpcalc.accounting.calibrate._PER_VALUE", 2e6)

    def build(sigma):
        return [(Gaussian(noise_multiplier=sigma), 1), (Laplace(scale=50.0), 3)]

    with within(most=1e7):
        found = calibrate(build, epsilon=1.0, delta=1e-5, increasing=False, low=0.1, high=100.0)
    assert found.guarantee.epsilon <= 1.0
    assert found.value >= 1 / _least_mu(1.0, 1e-5)
    assert compose(build(found.value), delta=1e-5).epsilon <= 1.0 * (1 + 1e-9)


def test_a_long_list_is_answered_by_its_laws_also_about_an_attacker(dpcalc, tmp_path, monkeypatch) -> None:
    """With as much work for each entry as 10,000 of them may take; Rényi divergences of all of them took minutes."""
    entries, asked = 300, []
    monkeypatch.setattr(effort, "WHOLE", effort.WHOLE * entries / 10_000)
    monkeypatch.setattr(compose_module, "by_rdp", lambda *_: pytest.fail("asked for Rényi divergences"))
    monkeypatch.setattr(compose_module, "_by_laws", lambda *given: asked.append(given) or by_laws(*given[:2]))
    sampling = {"scheme": "poisson", "rate": 0.01}
    listed = [
        {"type": "gaussian", "noise_multiplier": 1 + 2 * k / (entries - 1), "sampling": sampling}
        for k in range(entries)
    ]
    spec = tmp_path / "list.yaml"
    spec.write_text(json.dumps({"mechanisms": listed}))
    found = dpcalc("compose", spec, "--delta", "1e-5", "-f", "json").json
    assert found["accountant"] == "pld"
    assert found["epsilon"] - found["epsilon_lower"] <= 1e-3 * found["epsilon"]
    assert 0 < found["risk"]["advantage"] < 1
    assert len(asked) == 1, "the attacker's success is read off one law"


def _least_mu(epsilon: float, delta: float) -> float:
    low, high = 1e-3, 10.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


REMEMBERED = [
    (RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=30), 3, 1e-5),
    (PoissonSampled(base=RandomizedResponse(epsilon=1.0), sampling_rate=0.2, adjacency="replace-one"), 20, 1e-4),
    (Exponential(epsilon=0.5), 60, 1e-5),
    (DeclaredZCDP(rho=0.01), 12, 1e-5),
]


@pytest.mark.parametrize(("mechanism", "count", "delta"), REMEMBERED)
@pytest.mark.parametrize("allowed", [2e6, 3e7, 2e8])
def test_what_was_asked_before_makes_no_difference(mechanism, count, delta, allowed) -> None:
    """With little work allowed, before and after the same question without a limit."""

    def limited() -> tuple[float | None, float | None, float]:
        with within(most=allowed):
            found = compose([(mechanism, count)], delta=delta)
            return found.epsilon, found.epsilon_lower, effort._budget.get().left

    for each in (bounds, group_of_two, adaptive_range_pair, steered_pair, zcdp_frontier, rdp_frontier):
        each.cache_clear()
    first = limited()
    compose([(mechanism, count)], delta=delta)
    assert limited() == first


def test_what_is_remembered_counts_once_in_every_call() -> None:
    asked = []

    @remembered(4)
    def square(value: int) -> int:
        asked.append(value)
        spend(10)
        note(5)
        return value * value

    for _ in range(2):
        with within(most=100):
            assert [square(3), square(3), square(4)] == [9, 9, 16]
            assert effort._budget.get().left == 70
        with within(most=17), within():
            assert square(3) == 9
            with pytest.raises(OutOfEffort):
                square(4)
    assert asked == [3, 4]
    with pytest.raises(TypeError):
        square(value=3)


@pytest.mark.parametrize("work", [1e3, 1e6, 3e6])
def test_a_lower_bound_that_takes_too_much_work_is_no_failure(work) -> None:
    """Random allocation beside others with hardly any work left: the steps themselves bound it, from above alone."""
    parts = [(RandomlyAllocated(base=Laplace(scale=0.5), steps=323), 7), (Laplace(scale=2.0), 10)]
    with within(most=work):
        found = compose(parts, delta=1e-8)
    assert 0.5 < found.epsilon <= 7 / 0.5 + 10 / 2.0 + 1e-9
