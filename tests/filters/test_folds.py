"""Folds of dense logs: the same decisions and the same bits, whatever the tiles, and charges never below the RDP."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcalc.filters import fold
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.names import Mode
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import gdp_rule, rdp_rule
from dpcalc.filters.subsampled import SubsampledRenyi

RULES = {
    "gdp": gdp_rule(sigma=1.0, clip=0.9, norm_budget=7.0),
    "two orders": rdp_rule(sigma=1.0, clip=1.0, orders=[2, 8], rhos=[4e-4, 6e-3], sampling_rate=0.01),
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
