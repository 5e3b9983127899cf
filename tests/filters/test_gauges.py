"""Half-spaces of a mixture's budget: never beyond it, almost all of it, and decisions by them those of the rule."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from mpmath import mp

from dpcalc.filters import coded, fold, gauges
from dpcalc.filters.charges import UNKNOWN
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.gauges import Gauges
from dpcalc.filters.halfspaces import half_spaces, normal, shares_along
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import rdp_rule
from tests.filters.test_mixture import exact_least


def some_mixture(rng: np.random.Generator) -> Mixture:
    count = int(rng.integers(1, 6))
    orders = tuple(sorted(1 + 10 ** rng.uniform(-0.5, 2.5, count)))
    weights = rng.dirichlet(np.ones(count)) if count > 1 else np.ones(1)
    return Mixture(10 ** rng.uniform(-0.5, 1.3), 10 ** rng.uniform(-9, -3), orders, tuple(weights.tolist()))


@pytest.mark.parametrize("tolerance", [2.5e-13, 1e-3])
@pytest.mark.parametrize("seed", range(12))
def test_the_end_of_a_half_space_is_within_the_condition_for_all_shares(seed: int, tolerance: float) -> None:
    """With sums as much larger as the tolerance lets them be, and no slack."""
    rng = np.random.default_rng(seed)
    mixture = some_mixture(rng)
    size = len(mixture.orders)
    shares = normal(np.concatenate([rng.dirichlet(np.full(size, 0.3), 6), np.eye(size)]))
    looked_at = 0
    for weights in half_spaces(mixture, shares, tolerance):
        spent = rng.uniform(0.1, 1, size) * np.array(mixture.orders)
        spent /= weights @ spent
        if weights.max() >= 1e300:
            continue
        looked_at += 1
        with mp.workdps(50):
            most = (spent + tolerance * mixture.epsilon) * (1 + tolerance)
            assert exact_least(mixture, most, np.inf) >= 0
    assert looked_at


@pytest.mark.parametrize("seed", range(12))
def test_the_best_half_space_reaches_as_far_as_the_mixture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = some_mixture(rng)
    directions = np.array(mixture.orders) * rng.uniform(0.3, 1, (20, len(mixture.orders)))
    weights = half_spaces(mixture, shares_along(mixture, directions), 2.5e-13)
    reach = 1 / (weights * directions).sum(axis=1)
    anything = np.full(20, np.inf)
    possible = mixture.allows_each((directions * reach[:, None] * 1e-6).T, anything)
    assert np.all(mixture.allows_each((directions * reach[:, None]).T, anything) | ~possible)
    beyond = mixture.allows_each((directions * reach[:, None] * 1.01).T, anything)
    assert np.count_nonzero(beyond & possible) <= 2


def rule_of(seed: int) -> Rule:
    rng = np.random.default_rng(seed)
    return rdp_rule(
        sigma=1.0, epsilon=10 ** rng.uniform(-1, 0.6), delta=1e-6, sampling_rate=10 ** rng.uniform(-3, -0.5)
    )


@pytest.mark.parametrize("seed", range(8))
def test_verdicts_are_those_of_the_mixture_up_to_the_last_digits(seed: int) -> None:
    rule, rng = rule_of(seed), np.random.default_rng(seed)
    assert rule.mixture is not None
    assert rule.charges is not None
    found = Gauges(rule, rule.charges)
    paths = np.array(rule.mixture.orders) * rng.uniform(0.5, 1.5, (300, len(rule.mixture.orders)))
    low, high = np.zeros(300), np.full(300, 10.0)
    for _ in range(70):
        middle = (low + high) / 2
        fits = rule.admits((paths * middle[:, None]).T)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    for factor in (1e-3, 0.5, 0.99, 1 - 1e-6, 1 + 1e-6, 1.01, 2.0, 1e3, 1e6):
        where = 10 ** rng.uniform(-2, 0.3, 300)
        yes, no = found.verdicts(paths * (low * factor)[:, None], where)
        assert not np.any(yes if factor > 1 else no)
        assert np.count_nonzero(yes | no) >= 290
    yes, no = found.verdicts(np.full((1, paths.shape[1]), UNKNOWN), np.ones(1))
    assert not yes.any()
    assert no.all()


RULES = {
    "mixture": rdp_rule(sigma=1.0, epsilon=0.9, delta=1e-6, sampling_rate=0.01),
    "rounded": rdp_rule(sigma=1.0, epsilon=0.9, delta=1e-6, sampling_rate=0.01, tolerance=2.4e-7),
    "small": rdp_rule(sigma=1.0, epsilon=0.06, delta=1e-6, sampling_rate=0.01),
    "one step": rdp_rule(sigma=1.0, epsilon=1.2, delta=1e-6, sampling_rate=0.01, orders=[8, 24, 64]),
    "limits": rdp_rule(sigma=1.0, orders=[2, 8, 30], rhos=[4e-3, 0.04, 0.9], sampling_rate=0.01),
}


def log_of(people: int, kind: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(21)
    norms = np.minimum(rng.lognormal(-1, 0.7, (120, people)), 1.5).astype(kind)
    norms[:, ::17] = 0
    norms[::9, 1::5] = 0
    norms[40:50] *= 1e-3
    norms[77, ::3] = 40.0
    norms[90, 3] = 1e9
    return norms


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("entries", [900, 6_000, 327_680])
@pytest.mark.parametrize("name", RULES)
def test_tiles_with_everybody_at_the_limit_decide_as_single_steps_do(
    name: str, entries: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "_MORE_ENTRIES", entries)
    monkeypatch.setattr(fold, "_MORE_COLUMNS", 200)
    monkeypatch.setattr(coded, "_TOGETHER", 1000)
    monkeypatch.setattr(gauges, "_WORTH", 4)
    norms = log_of(220, kind)
    norms = np.concatenate([0.05 * norms[:20], norms])  # at first no codes are known that are refused at once
    single = IndividualFilter(RULES[name], individuals=220)
    expected = np.array([single.charge(row.astype(np.float64))[0] for row in norms])
    assert 0.05 < expected.mean() < 0.95
    assert np.count_nonzero(~expected.all(axis=0)) > 150
    people = IndividualFilter(RULES[name], individuals=220)
    taken = np.ones(norms.shape, dtype=bool)
    for start, stop in ((0, 15), (15, 60), (60, 61), (62, 140)):
        for records, out, first in people.charge_block(norms[start:stop]):
            taken[start + first : start + first + len(out), records] &= ~out
        if stop == 60:  # as after a state is loaded, or a part is sent to a worker
            people = pickle.loads(pickle.dumps(people))
        if stop == 61:  # one step in between
            taken[61] = people.charge(norms[61].astype(np.float64))[0]
    assert np.array_equal(taken, expected)
    for one, other in zip(single.state.to_arrays().values(), people.state.to_arrays().values(), strict=True):
        assert np.array_equal(one, other)


def test_sums_of_an_older_state_are_counted_with_their_compensation() -> None:
    rule, norms = RULES["mixture"], log_of(60)
    runs = [IndividualFilter(rule, individuals=60) for _ in range(2)]
    for run in runs:
        run.state.compensation[:] = np.maximum(rule.sure, 0.0)[:, None] * 0.3
    expected = np.array([runs[0].charge(row)[0] for row in norms])
    taken = np.ones(norms.shape, dtype=bool)
    for records, out, first in runs[1].charge_block(norms):
        taken[first : first + len(out), records] &= ~out
    assert np.array_equal(taken, expected)
    assert np.array_equal(runs[0].state.totals, runs[1].state.totals)


def test_all_orders_are_hardly_ever_weighed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit most steps are refused for what was refused before, and the others fit into a half-space."""
    weighed: list[int] = []
    each = Mixture.allows_each
    monkeypatch.setattr(Mixture, "allows_each", lambda self, s, e: (weighed.append(e.size), each(self, s, e))[1])
    people = IndividualFilter(RULES["mixture"], individuals=2000)
    norms = np.minimum(np.random.default_rng(5).lognormal(-1, 0.6, (200, 2000)), 1).astype(np.float32)
    refused = sum(int(found.out.sum()) for found in people.charge_block(norms))
    assert refused > norms.size / 8
    assert sum(weighed) < norms.size / 200
