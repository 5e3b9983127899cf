"""Folds of dense logs: the same decisions and the same bits, whatever the tiles, and charges never below the RDP."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.arrays import Floats
from dpcalc.filters import fold
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.names import Mode
from dpcalc.filters.request import Request
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import dp_rule, gdp_rule, rdp_rule
from dpcalc.filters.run import Run
from dpcalc.filters.subsampled import SubsampledRenyi

RULES = {
    "gdp": gdp_rule(sigma=1.0, clip=0.9, norm_budget=7.0),
    "two orders": rdp_rule(sigma=1.0, clip=1.0, orders=[2, 8], rhos=[4e-4, 6e-3], sampling_rate=0.01),
    "dp": dp_rule(epsilon=9.0, delta=1e-6),
    "dp at a low order": dp_rule(epsilon=14.0, delta=1e-3, orders=[1.4]),
    "mixture": rdp_rule(sigma=1.0, epsilon=0.4, delta=1e-5, sampling_rate=0.01),
}


@pytest.mark.parametrize("many", [0, 10**9], ids=["by step", "at once"])
@pytest.mark.parametrize("entries", [7, 100, 10**6])
@pytest.mark.parametrize(("name", "mode"), [*((name, "drop") for name in RULES), ("gdp", "clip")])
def test_tiles_decide_as_single_steps_do(
    name: str, mode: Mode, entries: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "_ENTRIES", entries)
    monkeypatch.setattr(fold, "_COLUMNS", 5)
    monkeypatch.setattr(fold, "_MANY", many)
    rule: Rule = RULES[name]
    norms = np.random.default_rng(8).exponential(0.5, (61, 13))
    norms[::7] = 0
    norms[50:52] = 1e-8  # fits even where nothing is left, within the tolerance
    single = IndividualFilter(rule, individuals=13, mode=mode)
    expected = np.array([single.charge(row)[0] for row in norms])
    assert 0.1 < expected.mean() < 0.9
    assert single.clipped.any() == (mode == "clip")
    blocks = IndividualFilter(rule, individuals=13, mode=mode)
    found = np.ones(norms.shape, dtype=bool)
    for start, stop in [(0, 20), (20, 21), (21, 61)]:
        for records, out, first in blocks.charge_block(norms[start:stop]):
            found[start + first : start + first + len(out), records] &= ~out
    assert np.array_equal(found, expected)
    for one, other in zip(single.state.to_arrays().values(), blocks.state.to_arrays().values(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("rate", [1e-5, 0.003, 0.2, 1.0])
@pytest.mark.parametrize("order", [2, 3, 7, 20])
def test_a_charge_is_never_below_and_hardly_above_the_rdp_at_whole_orders(order: int, rate: float) -> None:
    """e^{(α−1)ρ} = Σ C(α,k)(1−q)^{α−k}q^k e^{k(k−1)u/2} (Mironov, Talwar, Zhang 2019, §3.3)."""
    mpmath = pytest.importorskip("mpmath")
    squares = np.exp(np.random.default_rng(order).uniform(math.log(1e-12), math.log(2.0), 40))
    found = SubsampledRenyi(orders=(float(order),), sampling_rate=rate).rdp(squares)[0]
    with mpmath.workdps(60):
        for u, charged in zip(squares.tolist(), found.tolist(), strict=True):
            q, exact = mpmath.mpf(rate), mpmath.mpf(0)
            for k in range(order + 1):
                weight = mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k
                exact += weight * mpmath.exp(mpmath.mpf(k * (k - 1)) * u / 2)
            exact = mpmath.log(exact) / (order - 1)
            assert exact <= charged <= exact * (1 + mpmath.mpf("1e-3"))


def test_charges_do_not_depend_on_what_is_charged_with_them() -> None:
    renyi = SubsampledRenyi(orders=(1.5, 12.0), sampling_rate=0.01)
    squares = np.geomspace(1e-11, 30, 200)
    together = renyi.rdp(squares)
    alone = np.concatenate([renyi.rdp(squares[i : i + 1]) for i in range(squares.size)], axis=1)
    assert np.array_equal(together, alone)
    assert renyi.rdp(np.zeros(3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert np.all(np.diff(together) > 0)


def test_what_is_far_from_the_budget_of_one_order_is_decided_without_exponentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most of a fold: who has plenty left, and who has nothing."""
    evaluated: list[int] = []
    excess = Mixture._excess

    def counted(self: Mixture, beyond: Floats, spent: Floats) -> Any:
        evaluated.append(beyond.size)
        return excess(self, beyond, spent)

    monkeypatch.setattr(Mixture, "_excess", counted)
    rule = dp_rule(epsilon=2.0, delta=1e-6)
    people = IndividualFilter(rule, individuals=3000)
    norms = np.random.default_rng(4).uniform(0.05, 0.1, (200, 3000))
    refused = sum(int(found.out.sum()) for found in people.charge_block(norms))
    assert refused > norms.size / 10
    assert sum(evaluated) < norms.size / 100


def test_mixtures_are_decided_as_a_search_over_all_losses_would() -> None:
    """The condition on a fine grid of ℓ, in plain arithmetic, for sums around the budget."""
    mixture = Mixture(1.3, 1e-4, (1.7, 4.0, 22.0), (0.2, 0.5, 0.3))
    rng = np.random.default_rng(3)
    spent = np.array(mixture.orders)[:, None] * rng.uniform(0.01, 0.06, 400) * rng.uniform(0.9, 1.1, (3, 400))
    ends = np.where(rng.random(400) < 0.5, np.inf, 1.3 + rng.exponential(0.3, 400))
    found = mixture.allows_each(spent, ends)
    assert 0.1 < found.mean() < 0.9
    for column, end, allowed in zip(spent.T, ends.tolist(), found.tolist(), strict=True):
        losses = 1.3 + np.geomspace(1e-6, min(end - 1.3, 20.0), 20_000)
        steep = np.array(mixture.orders)[:, None] - 1
        left = 1e-4 * (np.array(mixture.weights)[:, None] * np.exp(steep * (losses - column[:, None]))).sum(axis=0)
        least = float(np.min(left / -np.expm1(1.3 - losses)))
        assert allowed == (least >= 1) or abs(least - 1) < 1e-6


def test_a_wide_log_is_not_cut_into_single_steps_for_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tall: list[int] = []
    block = Run.block
    monkeypatch.setattr(Run, "block", lambda run, first, rows: (tall.append(len(rows)), block(run, first, rows))[1])
    np.save(tmp_path / "wide.npy", np.full((16, 60_000), 0.1, dtype=np.float32))
    run = carry_out(Request(kind="gdp", sigma=1.0, norm_budget=1.0), str(tmp_path / "wide.npy"))
    assert min(tall) >= 8
    assert [step for step, _ in run.course] == [7, 15]
