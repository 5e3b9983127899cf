"""What everybody's counts come to on a contour, against exact sums and with errors planted where they are allowed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from dpcalc.filters import chosen, contour
from dpcalc.filters.buckets import UNIT, Buckets
from dpcalc.filters.chosen import Chosen, edges_of
from dpcalc.filters.contour import Kernel
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.individual import sampled_epsilons
from dpcalc.filters.transforms import ROUND, ContourTable, phases

EVERYBODY = np.arange(12)


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


def counted(rng: np.random.Generator, steps: int) -> NormCounts:
    counts = NormCounts(Buckets(sigma=1.0, clip=1.0), 0.1, EVERYBODY.size)
    counts.add(rng.uniform(0.05, 1.0, (steps, EVERYBODY.size)))
    return counts


def known(logs: np.ndarray) -> np.ndarray:
    """Nothing is vague."""
    return np.zeros(logs.shape, dtype=bool)


def table_of(rng: np.random.Generator, edges: int, errors: float) -> ContourTable:
    """Random logarithms, whose errors are at least those of a table that was made (`transforms._chained`)."""
    logs = -rng.random((edges, 4)) + 1j * rng.random((edges, 4))
    least = ROUND * edges * 2 * np.abs(logs)
    return ContourTable(rng.uniform(0, 5, edges), logs, errors * rng.random(logs.shape), least + errors, known(logs))


def test_what_coins_leave_open_is_rounded_up(rng: np.random.Generator) -> None:
    """Σw·Σ(1−w)/n of a bucket, in fractions."""
    counts = counted(rng, 400)
    steps, upper = counts.in_buckets(slice(None))
    found = counts.on_edges(slice(None))[1]
    for n, w, bound in zip(steps.ravel(), upper.ravel(), found.ravel(), strict=True):
        assert n == 0 or Fraction(float(bound)) >= Fraction(float(w)) * Fraction(float(n - w)) / Fraction(float(n))


def test_sums_over_edges_err_as_they_say(rng: np.random.Generator) -> None:
    """Tops are rounded up; logarithms and remainders are off by all that they may be."""
    counts = counted(rng, 60)
    places = edges_of(counts, EVERYBODY)
    given = Chosen(counts, places)
    used, table = given.used_by(EVERYBODY), table_of(rng, places.size, 1e-3)
    tops, sums, wrong, *_ = given.sums(EVERYBODY, used, table)
    for row, (whole, coins) in enumerate(zip(*given.on_edges(EVERYBODY), strict=True)):
        exact = sum(Fraction(float(n)) * Fraction(float(x)) for n, x in zip(whole, table.tops, strict=True))
        assert Fraction(float(tops[row])) >= exact
        for j in range(4):
            truth = mp.fdot(map(mpf, whole), map(mpc, table.logs[:, j]))
            off = mp.fdot(map(mpf, whole), map(mpf, table.errors[:, j] * (1 - 1e-12)))
            off += mp.fdot(map(mpf, coins), map(mpf, table.remainders[:, j]))
            assert abs(truth - mpc(complex(sums[row, j]))) + off <= mpf(float(wrong[row, j]))


class _Losing:
    """numpy, but that additions at places lose nearly a thousandth of what they add."""

    class add:  # noqa: N801 (its name)
        @staticmethod
        def at(total: Any, rows: Any, part: Any) -> None:
            np.add.at(total, rows, part * (1 - 0.9e-3))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def test_coins_that_are_alone_are_added_with_their_rounding(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One coin a record: log((1−w)M_a + wM_b), of which an addition loses a thousandth, charged as such."""
    monkeypatch.setattr(chosen, "np", _Losing())
    monkeypatch.setattr(chosen, "ROUND", 1e-3)
    counts = counted(rng, 1)
    places = edges_of(counts, EVERYBODY)
    given = Chosen(counts, places, known=True)
    used, table = given.used_by(EVERYBODY), table_of(rng, places.size, 0.0)
    tops, sums, wrong, *_ = given.sums(EVERYBODY, used, table)
    steps, upper = counts.in_buckets(EVERYBODY)
    for row in EVERYBODY:
        bucket = int(np.flatnonzero(steps[row])[0])
        w, high = mpf(float(upper[row, bucket])), int(np.searchsorted(places, bucket))
        if not 0 < w < 1:
            continue
        below, above = (mp.exp(mpf(float(table.tops[at]))) for at in (high - 1, high))
        top = mp.log((1 - w) * below + w * above)
        assert mpf(float(tops[row])) >= top
        for j in range(4):
            turned = [mp.exp(mpc(complex(table.logs[at, j]))) for at in (high - 1, high)]
            exact = mp.log((1 - w) * below * turned[0] + w * above * turned[1]) - top
            assert abs(exact - mpc(complex(sums[row, j]))) <= mpf(float(wrong[row, j]))
    assert np.sum((upper > 0) & (upper < 1)) > 6
    assert np.all(upper * UNIT == np.round(upper * UNIT))


@pytest.mark.parametrize(("size", "errors"), [(5.0, 0.0), (2000.0, 0.0), (5.0, 1e-3)])
def test_coins_of_known_weight_err_as_they_say(rng: np.random.Generator, size: float, errors: float) -> None:
    """log((1−w)M_a + wM_b), also of moments that are large, with logarithms that are off by all that they may be."""
    tops, logs = size + rng.random(40), 1j * rng.uniform(-1, 1, (40, 3)) - rng.random((40, 3))
    table = ContourTable(tops, logs, np.zeros(logs.shape), np.full(logs.shape, errors), known(logs))
    upper, weights = np.arange(1, 40), rng.integers(1, 256, 39) / 256
    found = table.coins(upper, np.zeros(39, dtype=bool), weights)
    for place, weight in zip(upper, weights, strict=True):
        ends = [(mpf(tops[place - 1]), 1 - mpf(weight)), (mpf(tops[place]), mpf(weight))]
        top = mp.log(mp.fsum(share * mp.exp(high) for high, share in ends))
        assert mpf(found[0][place - 1]) >= top
        for j in range(3):
            off = [mp.mpc(complex(logs[at, j])) + mpf(errors) for at in (place - 1, place)]
            exact = mp.log(mp.fsum(share * mp.exp(high - top + x) for (high, share), x in zip(ends, off, strict=True)))
            assert abs(exact - mpc(complex(found[1][place - 1, j]))) <= mpf(found[2][place - 1, j])


@pytest.mark.parametrize("doubt", [0.0, math.log(2)])
def test_nodes_beyond_the_last_are_paid_for(doubt: float) -> None:
    """Their weights add up to no more, times what M(c) may be: a contour that is cut early, and the same one later."""
    for c, step, noise in ((0.3, 0.4, 0.2), (2.0, 1.0, 0.1), (0.05, 0.1, 0.5)):
        early, late = (Kernel.of(c, step, nodes, noise) for nodes in (16, 512))
        wrong = np.zeros((1, 16))
        wrong[0, 0] = doubt
        errors = early._errors(np.zeros((1, 16), dtype=complex), wrong, known(wrong))
        assert errors[0] >= math.exp(doubt) * np.abs(late.weights[16:]).sum()


def test_phases_that_err_as_they_may_accept_nothing_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """Angles off by seven of the eight units that are charged, each the way that lowers the sum; units are large."""
    unit, c, step, nodes = 1e-4, 0.01, 1.0, 64
    weights = 1 / (1 + np.arange(nodes)) + 0j
    kernel = Kernel(step, c + 1j * step * np.arange(nodes), weights, 0.0)

    def off(angles: np.ndarray, count: int) -> Any:
        turned = np.outer(angles, np.arange(count))
        return np.minimum(np.cos(turned * (1 + 7 * unit)), np.cos(turned * (1 - 7 * unit))) + 0j

    monkeypatch.setattr(contour, "ROUND", unit)
    monkeypatch.setattr(contour, "phases", off)
    accepted = 0
    for goal in np.linspace(-1.5, 1.2, 40):
        start = np.full(1, 20.0)
        sums, wrong = np.zeros((1, nodes), dtype=complex), np.zeros((1, nodes))
        epsilon = kernel.solve(sums, wrong, known(wrong), np.full(1, goal), start)[0][0]
        if epsilon < start[0]:
            accepted += 1
            exact = (weights * phases(np.array([-step * epsilon]), nodes)[0]).real.sum()
            assert exact * math.exp(-c * epsilon) <= math.exp(goal)
    assert accepted > 10


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_whoever_is_always_drawn_and_at_the_clip_is_told_what_that_costs(steps: int) -> None:
    """√k·C/σ-GDP, whose δ at what is told is within δ, and at a thousandth less is not."""
    counts = NormCounts(Buckets(sigma=3.0, clip=1.0), 1.0, 1)
    counts.add(np.ones((steps, 1)))
    mu, epsilon = mp.sqrt(steps) / 3, mpf(float(sampled_epsilons(counts, 1e-6)[0]))

    def delta(at: Any) -> Any:
        return mp.ncdf(mu / 2 - at / mu) - mp.exp(at) * mp.ncdf(-mu / 2 - at / mu)

    assert delta(epsilon) <= mpf(1e-6) < delta(epsilon * mpf("0.999"))


def test_terms_that_err_as_they_may_accept_nothing_false() -> None:
    """Each by a twentieth, also at ε = 0, where the sum is that of the weights."""
    c, step, nodes = 0.01, 1.0, 64
    weights = 1 / (1 + np.arange(nodes)) + 0j
    kernel, wrong = Kernel(step, c + 1j * step * np.arange(nodes), weights, 0.0), np.full((1, nodes), 0.05)
    off = math.expm1(0.05) * np.abs(weights).sum()
    for goal in (*np.linspace(-1, 1.2, 23), math.log(weights.real.sum()) + 0.02):
        sums, start = np.zeros((1, nodes), dtype=complex), np.full(1, 20.0)
        epsilon = kernel.solve(sums, wrong, known(wrong), np.full(1, goal), start)[0][0]
        if epsilon < start[0]:
            exact = (weights * phases(np.array([-step * epsilon]), nodes)[0]).real.sum() + off
            assert exact * math.exp(-c * epsilon) <= math.exp(goal)
