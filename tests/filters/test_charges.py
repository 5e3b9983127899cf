"""Mixtures of orders under sampling: charges by a table, and decisions by tangents, always on the safe side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcalc.filters.charges import UNKNOWN, Charges
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.mixture import Mixture, _Excess
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import rdp_rule
from dpcalc.filters.subsampled import SubsampledRenyi

UNIT = 2.0**-40
RATE = 0.01
RULE = rdp_rule(sigma=1.0, epsilon=1.2, delta=1e-6, sampling_rate=RATE, orders=[8, 24, 64])


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def table(orders: tuple[float, ...] = (2.0, 5.0), scale: float = 1.0, largest: float = math.inf) -> Charges:
    return Charges(SubsampledRenyi(orders=orders, sampling_rate=RATE), scale, largest, (UNIT,) * len(orders))


def exact(order: int, norm: float) -> mpf:
    """Σ C(α,k)(1−q)^{α−k}q^k e^{k(k−1)u/2} is e^{(α−1)ρ} (Mironov, Talwar, Zhang 2019, §3.3)."""
    u, q = mpf(norm) ** 2, mpf(RATE)
    terms = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(mpf(k * (k - 1)) * u / 2)
        for k in range(order + 1)
    )
    return mp.log(mp.fsum(terms)) / (order - 1)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_charge_is_never_below_the_rdp_and_hardly_above_it(kind: type) -> None:
    norms = np.exp(np.random.default_rng(3).uniform(math.log(1e-3), math.log(1.5), 60)).astype(kind)
    found = table().costs(norms)
    for row, order in zip(found, (2, 5), strict=True):
        for norm, charged in zip(norms.tolist(), row.tolist(), strict=True):
            least = exact(order, norm)
            assert least <= charged <= least * mpf("1.01") + 2 * UNIT  # at order 5 the RDP rises up to 14 times as fast


def test_charges_are_whole_units_that_never_fall_with_the_norm_and_nothing_costs_nothing() -> None:
    charges = table((1.5, 40.0), scale=3.0)
    norms = np.concatenate([[0.0], np.geomspace(0.1, 12.0, 40_000)])
    found = charges.costs(norms)
    assert np.all(found[:, 0] == 0)
    assert np.all(found[:, 1:] > 0)
    assert np.all(np.diff(found) >= 0)
    assert all(Fraction(cost) % Fraction(UNIT) == 0 for cost in found[:, ::97].ravel().tolist())
    rows = charges.rows[np.flatnonzero(charges.rows.any(axis=1))]
    assert np.all(np.diff(rows, axis=0) >= 0)  # over all that was worked out, at the seams too


def test_charges_do_not_depend_on_what_was_asked_before() -> None:
    norms, late = np.geomspace(1e-4, 2.0, 50), table()
    for norm in norms[::-1]:
        late.costs(np.array([norm]))
    assert np.array_equal(late.costs(norms), table().costs(norms))


def test_norms_that_single_precision_cannot_tell_from_smaller_ones_are_rounded_up() -> None:
    """Just above the end of a row, by less than float32 sees; and next to nothing, of which a float32 makes 0."""
    charges, rng = table(), np.random.default_rng(8)
    ends = np.ldexp(1 + rng.integers(0, 4096, 200) / 4096, rng.integers(-10, 2, 200))
    above = ends * (1 + 2.0**-30)
    assert np.array_equal(charges.codes(above), charges.codes(ends) + 1)
    assert np.all(charges.costs(np.array([5e-324, 1e-60, 1e-46])) > 0)
    assert np.all(table(scale=1e-60).costs(np.array([1e-60])) == UNKNOWN)


def test_norms_beyond_all_rows_are_never_admitted_and_the_clip_ends_them() -> None:
    assert np.all(table().costs(np.array([1e7, 1e39, 1e300])) == UNKNOWN)
    clipped = table(largest=0.7).costs(np.array([0.7, 0.70001, 3.0]))
    assert np.array_equal(clipped[:, :1], clipped[:, 1:2])
    assert np.array_equal(clipped[:, :1], clipped[:, 2:])
    for order, cost in zip((2, 5), clipped[:, 0].tolist(), strict=True):
        assert exact(order, 0.7) <= cost <= exact(order, 0.7) * mpf("1.001")


def log_of(kind: type) -> np.ndarray:
    rng = np.random.default_rng(11)
    norms = np.minimum(rng.lognormal(-0.5, 0.7, (48, 300)), 1.3).astype(kind)
    norms[:, ::50] = 0
    norms[5::9, ::3] = 0
    return norms


def folded(rule: Rule, norms: np.ndarray, starts: tuple[int, ...]) -> tuple[np.ndarray, IndividualFilter]:
    people = IndividualFilter(rule, individuals=norms.shape[1])
    taken = np.ones(norms.shape, dtype=bool)
    for start, stop in zip(starts, (*starts[1:], len(norms)), strict=True):
        for records, out, first in people.charge_block(norms[start:stop]):
            taken[start + first : start + first + len(out), records] &= ~out
    return taken, people


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_many_records_at_their_limit_are_decided_as_one_by_one(kind: type) -> None:
    norms = log_of(kind)
    single = IndividualFilter(RULE, individuals=norms.shape[1])
    expected = np.array([single.charge(row.astype(np.float64))[0] for row in norms])
    assert 0.3 < expected.mean() < 0.9
    for starts in ((0,), (0, 1, 2, 30), (0, 24)):
        taken, blocks = folded(RULE, norms, starts)
        assert np.array_equal(taken, expected)
        for one, other in zip(single.state.to_arrays().values(), blocks.state.to_arrays().values(), strict=True):
            assert np.array_equal(one, other)


def test_decisions_are_those_of_a_plain_fold_of_the_rdp_or_stricter() -> None:
    """Whoever takes part has an exact sum that the mixture allows; whoever does not is within 1 % of its end."""
    norms, mixture = log_of(np.float64)[:, :60], RULE.mixture
    assert mixture is not None
    renyi = SubsampledRenyi(orders=mixture.orders, sampling_rate=RATE)
    taken, _ = folded(RULE, norms, (0,))
    spent = np.zeros((len(mixture.orders), norms.shape[1]))
    for row, here in zip(norms, taken, strict=True):
        cost = renyi.rdp(row**2)
        anything = np.full(row.size, np.inf)
        assert np.all(mixture.allows_each(spent + cost * here, anything))
        refused = ~here
        assert not np.any(mixture.allows_each(1.01 * (spent + cost)[:, refused], anything[refused]))
        spent += cost * here


def test_the_least_distance_of_a_tangent_is_rounded_down() -> None:
    """a·x − log(1 − e^{−x}) is least at e^x = 1 + 1/a; with the slope as far off as it may be."""
    rng = np.random.default_rng(2)
    for _ in range(400):
        beyond, rise = 10 ** rng.uniform(-4, 0.5), 10 ** rng.uniform(-1, 3)
        value = rng.uniform(-1, 1)
        slope = rise - 1 / math.expm1(beyond)
        for doubt, off in ((0.0, 0.0), (0.01 * rise, 1.0), (0.01 * rise, -1.0)):
            given = _Excess(np.array([value]), np.array([slope]), np.array([doubt]))
            true = mpf(slope) + 1 / mp.expm1(mpf(beyond)) + mpf(off) * mpf(doubt)
            place = mp.log1p(1 / true)
            least = value + mp.log(-mp.expm1(-mpf(beyond))) + true * (place - mpf(beyond)) + mp.log1p(true)
            assert mpf(float(given.least(np.array([beyond]))[0][0])) <= least


def test_tangents_decide_all_but_what_is_next_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bracket of the minimum, many times as dear, is left to runs within a millionth of their limit."""
    bracketed: list[int] = []
    holds = Mixture._holds
    monkeypatch.setattr(Mixture, "_holds", lambda self, s, e: (bracketed.append(e.size), holds(self, s, e))[1])
    mixture = Mixture.default(0.8, 1e-6)
    rng, anything = np.random.default_rng(4), np.full(500, np.inf)
    directions = np.array(mixture.orders)[:, None] * rng.uniform(0.8, 1.2, (len(mixture.orders), 500))
    low, high = np.zeros(500), np.ones(500)
    for _ in range(40):
        middle = (low + high) / 2
        fits = mixture.allows_each(directions * middle, anything)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    bracketed.clear()
    for factor in (0.9, 0.99, 0.999, 1.001, 1.01, 1.1):
        assert np.all(mixture.allows_each(directions * low * factor, anything) == (factor < 1))
    assert sum(bracketed) < 30
