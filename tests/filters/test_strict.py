"""The bounds of filters against exact values, without slack: with the errors that each may have, it is never below."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from mpmath import mp, mpf

from dpcalc.filters import edge_losses, individual_loss, subsampled, transforms
from dpcalc.filters.anytime import anytime_epsilon
from dpcalc.filters.buckets import Buckets
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.contour import Kernel, _accepted, _sum
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.delta_split import split_delta
from dpcalc.filters.individual_loss import individual_epsilons
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.request import Request
from dpcalc.filters.rule import storage_tolerance

SUMS = Fraction(1, 2**45)  # what a sum in two parts may be off by, relative to the budget


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(31)


def test_the_bound_for_all_times_is_above_its_root(rng: np.random.Generator) -> None:
    """A mixture of supermartingales is below 1/δ at the exact w, so that it is above it at what was returned."""
    for _ in range(60):
        variance, start, delta = 10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-12, -1)
        found = mpf(float(anytime_epsilon(np.array([variance]), delta, start)[0]))
        w = (found - mpf(variance) / 2) / mp.sqrt(mpf(variance) + mpf(start))
        mixed = 2 * mp.ncdf(w) * mp.sqrt(mpf(start) / (mpf(variance) + mpf(start))) * mp.exp(w * w / 2)
        assert mixed >= 1 / mpf(delta)


def test_norms_are_placed_below_an_edge(rng: np.random.Generator) -> None:
    """Also those that lie above an edge by a last digit."""
    for _ in range(40):
        sigma, tolerance, clip = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-16, -6), rng.uniform(0.5, 2)
        wide = 1 + Fraction(tolerance)
        clipped = Buckets(sigma=sigma, clip=clip, tolerance=tolerance)
        end = float(clipped.edges[-1])
        assert end == math.inf or Fraction(end) >= Fraction(clip) * wide / Fraction(sigma)
        buckets = Buckets(sigma=sigma, tolerance=tolerance)
        norms = buckets.edges[int(rng.integers(6)) : -1 : 6] * sigma / (1 + tolerance)
        norms = norms[:, None] * (1 + np.arange(-4, 5) * 2.0**-52)
        bucket, units = buckets.place(norms)
        assert np.all(units > 0)
        for norm, edge in zip(norms.ravel().tolist(), buckets.edges[bucket].ravel().tolist(), strict=True):
            assert edge == math.inf or Fraction(edge) >= Fraction(norm) * wide / Fraction(sigma)
        assert buckets.place(np.array([5e-324]))[1][0] > 0
        for norm in (norms.ravel(), buckets.ends[1:-1] * (1 + 1e-12)):
            assert np.all(buckets.ends[buckets.codes(norm)] >= norm)


def test_a_table_is_filtered_with_room_for_the_rounding_of_sums(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("id,step,mu\na,0,0.5\n", encoding="utf-8")
    rule = carry_out(Request(kind="gdp", mu=0.7), str(log)).settings.rule
    assert rule.notion is not None
    assert Fraction(float(rule.accepted[0])) * (1 + SUMS) <= Fraction(rule.notion.gdp()) ** 2


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_stored_norms_may_be_as_far_off_as_is_allowed(kind: str) -> None:
    """Half a unit of each norm twice in its square, and an eighth of the tolerance of doubles in the sum."""
    half = 0 if kind == "f8" else Fraction(float(np.finfo(kind).eps)) / 2
    assert (1 + half) ** 2 * (1 + 8 * SUMS) <= 1 + Fraction(storage_tolerance(np.dtype(kind)))


def test_what_is_accepted_is_within_its_goal(rng: np.random.Generator) -> None:
    for _ in range(300):
        value, exponent = 10 ** rng.uniform(-30, 3), 10 ** rng.uniform(-3, 3)
        exact = mp.log(mpf(value)) - mpf(exponent)
        for goal in float(exact) * (1 + np.arange(-3, 4) * 2.0**-53):
            accepted = _accepted(np.array([value]), np.array([exponent]), np.array([goal]))
            assert not accepted[0] or exact <= mpf(goal)


def test_sums_over_a_contour_are_within_their_errors(rng: np.random.Generator) -> None:
    kernel = Kernel(0.1, np.zeros(64, dtype=complex), np.ones(64, dtype=complex), 0.0)
    terms = rng.normal(size=(200, 64)) * np.exp(rng.normal(size=(200, 64))) + 0j
    found = _sum(terms.real) + kernel._errors(terms, np.zeros((200, 64)), np.zeros((200, 64), dtype=bool))
    for row, bound in zip(terms.real, found, strict=True):
        assert Fraction(float(bound)) >= sum((Fraction(float(term)) for term in row), Fraction(0))


@pytest.fixture(params=[(0.0, 0.0), (-0.4, -0.9), (0.4, 0.9), (0.4, -0.9)])
def tails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Normal tails that err nearly as much as they may, far out beside the errors that they have."""
    exact, (far, near) = scipy.special.ndtr, request.param
    monkeypatch.setattr(
        scipy.special, "ndtr", lambda x: exact(x) * (1 + np.where(x < -3, far, near) * edge_losses._NDTR)
    )


def mass(left: Any, right: Any) -> Any:
    """Of a normal law, from the side of the tail."""
    left, right = mpf(float(left)), mpf(float(right))
    return mp.ncdf(right) - mp.ncdf(left) if left < 0 else mp.ncdf(-left) - mp.ncdf(-right)


@pytest.mark.usefixtures("tails")
def test_what_is_outside_the_cells_is_rounded_up(rng: np.random.Generator) -> None:
    for _ in range(60):
        m = 10 ** rng.uniform(-3, 0.9)
        left, right = -(10 ** rng.uniform(-0.6, 1.4)), 10 ** rng.uniform(-1, 1.4) + m
        end, infinite = (mpf(float(each[0])) for each in edge_losses._above(np.array([right]), np.array([m])))
        ratio = mp.exp(mpf(m) * (mpf(right) - mpf(m) / 2))
        assert end >= mp.ncdf(-mpf(right))
        assert infinite >= mp.ncdf(mpf(m) - mpf(right)) - mp.ncdf(-mpf(right)) * ratio
        masses = np.zeros((1, 2))
        edge_losses._add_below(masses, np.array([left]), np.array([1]), np.array([m]))
        below, ratio = mp.ncdf(mpf(left)), mp.exp(mpf(m) * (mpf(left) - mpf(m) / 2))
        up = mp.ncdf(mpf(left) - mpf(m)) / ratio
        assert mpf(float(masses[0, 1])) >= up
        assert mpf(float(masses[0, 0])) >= below - up


def exact_ends(left: float, right: float, m: float) -> tuple[Any, Any]:
    """The Q-mass of a cell on its two ends that keeps its P-mass."""
    scale = mp.exp(-mpf(m) * (mpf(left) - mpf(m) / 2))
    whole, growth = mass(left, right), mp.expm1(mpf(m) * (mpf(right) - mpf(left)))
    moved = mp.ncdf(mpf(right) - mpf(m)) - mp.ncdf(mpf(left) - mpf(m))
    upper = (moved * scale - whole) / growth
    return whole - upper, upper


@pytest.mark.usefixtures("tails")
def test_cells_are_split_with_all_errors(rng: np.random.Generator) -> None:
    with mp.workdps(280):  # masses from 1e-240 on are differences of numbers near 1
        for k in range(150):
            m = 10 ** rng.uniform(-3, 0.9)
            left = rng.uniform(-25, 33)
            width = 10 ** rng.uniform(-3, 0.7) if k % 3 else 60 / m
            cell = [np.array([value]) for value in (left, left + width, m)]
            exact = exact_ends(*(float(value[0]) for value in cell))
            for bound, truth in zip(edge_losses._split(*cell), exact, strict=True):
                assert mpf(float(bound[0])) >= truth


@pytest.mark.parametrize("rate", [1e-5, 0.013, 0.4, 0.999, 1 - 1e-9])
def test_atoms_lie_within_their_slips(rate: float) -> None:
    """Of the loss at the place that was computed for them; the lowest of log(1 − q)."""
    edges = np.array([0.003, 0.17, 2.9])
    found = edge_losses.edge_losses(edges, rate, 1e-9)
    assert abs(mpf(float(found.losses[0])) - mp.log(1 - mpf(rate))) <= mpf(float(found.slips[0]))
    log_ratio = edge_losses._log_ratio(found.losses[1:], rate)
    for m in edges.tolist():
        for loss, slip, place in zip(found.losses[1:], found.slips[1:], log_ratio / m + m / 2, strict=True):
            if abs(place) < 25 + m:
                exact = mp.log(1 - mpf(rate) + mpf(rate) * mp.exp(mpf(m) * (mpf(float(place)) - mpf(m) / 2)))
                assert abs(mpf(float(loss)) - exact) <= mpf(float(slip))


def test_no_loss_is_claimed_only_where_runs_part_rarely_enough(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(individual_loss, "_lower", lambda *_: (np.ones(1), np.zeros(1)))
    for _ in range(40):
        rate, sigma = rng.uniform(0.01, 0.9), rng.uniform(0.5, 2)
        counts = NormCounts(Buckets(sigma=sigma, clip=1.0), rate, 1)
        counts.add(np.ones((1, 1)))
        apart = mpf(rate) * mp.erf(mpf(float(counts.buckets.edges[-1])) / mp.sqrt(8))
        for delta in float(apart) * (1 + np.arange(-3, 1) * 2.0**-53):
            assert mpf(float(delta)) >= apart or individual_epsilons(counts, float(delta))[0] > 0


class _Tables:
    """Random real tables, and counts on them."""

    def __init__(self, rng: np.random.Generator, scale: float) -> None:
        self.whole, self.coins = rng.integers(0, 1000, (1, 40)) * 1.0, rng.random((1, 40))
        self.logs = rng.random((40, individual_loss._ABSCISSAS.size)) * scale
        self.remainders, self.infinite = self.logs * 1e-3, rng.random(40) * 1e-12
        self.individuals, self.counts = 1, self

    def real(self, _: Any) -> transforms.RealTable:
        return transforms.RealTable(self.logs, self.remainders)

    def on_edges(self, _: Any) -> tuple[Any, Any]:
        return self.whole, self.coins


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0])
def test_the_bound_by_moments_is_rounded_up(rng: np.random.Generator, scale: float) -> None:
    for _ in range(25):
        given = _Tables(rng, scale)
        delta = float((given.whole @ given.infinite)[0]) * (1 + 10 ** rng.uniform(-3, 6))
        solver = individual_loss._Direction(given, given, delta, individual_loss._USUAL)  # type: ignore[arg-type]
        best = mpf(float(solver._chernoff(np.array([0])).best[0]))
        whole = [Fraction(int(n)) for n in given.whole[0]]
        left = Fraction(delta) - sum(n * Fraction(x) for n, x in zip(whole, given.infinite, strict=True))
        assert Fraction(float(solver._left[0])) <= left * (1 + Fraction(1, 2**53))
        bounds = []
        for k, c in enumerate(map(mpf, individual_loss._ABSCISSAS.tolist())):
            rows = zip(given.whole[0], given.coins[0], given.logs[:, k], given.remainders[:, k], strict=True)
            total = mp.fsum(mpf(n) * mpf(x) + mpf(w) * mpf(r) for n, w, x, r in rows)
            total -= mp.log(mpf(left.numerator) / left.denominator)
            bounds.append((total + c * mp.log(c) - (1 + c) * mp.log(1 + c)) / c)
        assert best >= min(bounds)


def test_a_mixture_is_rounded_down(rng: np.random.Generator) -> None:
    for k in range(160):
        orders = tuple(1 + 10 ** rng.uniform(-2, 3, 1 if k % 2 else 5))
        epsilon = 10 ** rng.uniform(-4, 1)
        mixture = Mixture(epsilon, 1e-6, orders, (1 / len(orders),) * len(orders))
        beyond = 10 ** (rng.uniform(-12, 1) if k < 120 else rng.uniform(-300, -12))
        spent = np.full((len(orders), 1), epsilon + beyond * (1 + 1e-9) if k % 3 else 0.3 * epsilon)
        found = mixture._excess(np.array([beyond]), spent)
        logs, steep = (np.ravel(part).tolist() for part in (mixture.log_weights, mixture.steep))
        room = mpf(epsilon) - mpf(float(spent[0, 0]))
        terms = [mp.exp(mpf(a) + mpf(s) * (mpf(beyond) + room)) for a, s in zip(logs, steep, strict=True)]
        exact = mp.log(mp.fsum(terms)) - mp.log(-mp.expm1(-mpf(beyond)))
        assert mpf(float(found.value[0])) <= exact
        slope = mp.fsum(t * mpf(s) for t, s in zip(terms, steep, strict=True)) / mp.fsum(terms)
        slope -= 1 / mp.expm1(mpf(beyond))
        assert abs(mpf(float(found.slope[0])) - slope) <= mpf(float(found.doubt[0]))


def test_both_parts_of_delta_are_within_it(rng: np.random.Generator) -> None:
    for delta, share in zip(10 ** rng.uniform(-12, -0.1, 300), rng.uniform(0.01, 0.99, 300), strict=True):
        split = split_delta(float(delta), float(share))
        assert 1 - (1 - Fraction(split.filter)) * (1 - Fraction(split.steps)) <= Fraction(float(delta))


@pytest.mark.parametrize(("order", "rate"), [(2, 1e-6), (2, 0.2), (4, 1e-3), (24, 1e-6)])
def test_charges_are_above_what_they_are_chords_of(order: int, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whole orders that is log(Σ C(α,k)(1−q)^{α−k}q^k e^{k(k−1)u/2})/(α−1), planted as the nearest doubles.

    Mironov, Talwar, Zhang 2019, §3.3. Where α·log(1/q) is about α(α−1)u/2 a line is a difference of far larger terms.
    """
    q = mpf(rate)
    chances = [math.comb(order, k) * (1 - q) ** (order - k) * q**k for k in range(2, order + 1)]

    @functools.cache
    def exact(u: float) -> Any:
        grown = mp.exp(mpf(u))
        more = (chance * (grown ** (k * (k - 1) // 2) - 1) for k, chance in enumerate(chances, 2))
        return mp.log1p(mp.fsum(more)) / (order - 1)

    def nearest(_: Any, noise: Any, __: Any) -> Any:
        return np.array([[float(exact(float(1 / z**2)))] for z in noise])

    monkeypatch.setattr(subsampled, "rdp", nearest)
    for cached in (subsampled._table, subsampled._lines):
        cached.cache_clear()
    if order == 24:
        squares = np.arange(4480, 4640) / 2**subsampled._FINEST  # where cells begin, for inside they are above
    else:
        lowest = 2.0**subsampled._LOWEST * (1 - np.arange(1, 40) * 2.0**-50)
        squares = np.concatenate([lowest, np.random.default_rng(3).uniform(2**-30, 2**-26, 60)])
    found = subsampled.SubsampledRenyi(orders=(float(order),), sampling_rate=rate).rdp(squares)[0]
    for cached in (subsampled._table, subsampled._lines):
        cached.cache_clear()
    for u, bound in zip(squares.tolist(), found.tolist(), strict=True):
        assert mpf(bound) >= exact(u)


def pairs_of(rng: np.random.Generator, slips: float) -> edge_losses.EdgeLosses:
    losses = np.sort(rng.normal(size=48))
    masses = rng.random((6, 48))
    masses /= masses.sum(axis=1, keepdims=True)
    zero = np.zeros(6)
    return edge_losses.EdgeLosses(losses, masses, zero, zero, np.full(48, slips))


def moment(pairs: edge_losses.EdgeLosses, row: int, power: Any, moved: float) -> Any:
    """E e^{λL} of a row with its losses moved by so much of their slips."""
    atoms = zip(pairs.masses[row], pairs.losses, pairs.slips, strict=True)
    return mp.fsum(mpf(float(a)) * mp.exp(power * (mpf(float(x)) + moved * mpf(float(s)))) for a, x, s in atoms)


@pytest.mark.parametrize("slips", [0.0, 1e-9])
@pytest.mark.parametrize("remove", [True, False])
def test_moments_are_rounded_up(rng: np.random.Generator, slips: float, remove: bool) -> None:
    for _ in range(6):
        pairs, c = pairs_of(rng, slips), 10 ** rng.uniform(-2, 1)
        found = transforms.Transforms(pairs, np.arange(6), remove=remove)._log_moments(slice(None), c)[0]
        power = 1 + mpf(c) if remove else -mpf(c)
        for row in range(6):
            assert mpf(float(found[row])) >= mp.log(moment(pairs, row, power, 0.5 if remove else -0.5))


@pytest.mark.parametrize("case", [(0.0, 0.0, 0.05), (1e-4, 0.0, 0.05), (0.0, 90.0, 0.05), (0.0, 0.0, 3000.0)])
@pytest.mark.parametrize("remove", [True, False])
def test_moments_on_a_contour_err_as_they_say(
    rng: np.random.Generator, case: tuple[float, float, float], remove: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: every e^{iyL} − 1 errs by so many units, which are made large. Far up, angles have lost digits."""
    slips, planted, step = case
    if planted:
        turns: Callable[..., Any] = transforms._turns
        monkeypatch.setattr(transforms, "ROUND", 1e-7)
        monkeypatch.setattr(transforms, "_turns", lambda *given: turns(*given) * (1 + planted * 1e-7))
    for _ in range(3):
        pairs, c = pairs_of(rng, slips), 0.01
        made = transforms.Transforms(pairs, np.arange(6), remove=remove)
        table = made.contour(np.arange(6), c, step, 32)
        sign = 1 if remove else -1
        power = 1 + mpf(c) if remove else -mpf(c)
        for row in range(6):
            whole = moment(pairs, row, power, 1.0)
            for j in range(1, 32, 3):
                turned = moment(pairs, row, power + sign * 1j * mpf(step) * j, 1.0) / whole
                off = mp.log(turned) - mp.mpc(complex(table.logs[row, j]))
                off -= 2j * mp.pi * mp.nint(off.imag / (2 * mp.pi))  # angles are continuous along the edges
                assert abs(off) <= mpf(float(table.errors[row, j]))


def test_moments_below_their_errors_are_bounded_in_size(rng: np.random.Generator) -> None:
    """Coins between edges whose M is known to be small, and no more: logarithm, remainder and error bound them."""
    seen = 0
    for _ in range(60):
        tops = np.cumsum(rng.uniform(0, 0.3, 5))
        true = np.exp(rng.uniform(-9, -1, (5, 8)) + 2j * np.pi * rng.uniform(0, 1, (5, 8)))
        wrong = np.exp(rng.uniform(-12, -2, (5, 8)))
        told = true + wrong * np.exp(2j * np.pi * rng.uniform(0, 1, (5, 8))) * rng.uniform(0.9, 1, (5, 8))
        table = transforms._chained(np.array([0]), told - 1, tops, wrong)
        seen += int(table.vague.sum())
        for below, above in ((k, k + 1) for k in range(4)):
            w = rng.integers(0, 257) / 256
            coin = (1 - w) * true[below] * np.exp(tops[below]) + w * true[above] * np.exp(tops[above])
            bound = (1 - w) * (table.logs.real + table.errors)[below] + w * (table.logs.real + table.errors)[above]
            bound += (1 - w) * tops[below] + w * tops[above] + w * (1 - w) * table.remainders[above]
            assert np.all(np.log(np.abs(coin)) <= bound)
    assert seen > 500


def test_vague_terms_may_be_anything_of_their_size(rng: np.random.Generator) -> None:
    kernel = Kernel(0.1, np.zeros(64, dtype=complex), np.ones(64, dtype=complex), 0.0)
    terms = np.exp(rng.normal(-9, 1, (50, 64)) + 2j * np.pi * rng.uniform(0, 1, (50, 64)))
    wrong, vague = rng.uniform(0, 2, (50, 64)), rng.uniform(0, 1, (50, 64)) < 0.5
    opposite = -np.abs(terms) * np.exp(wrong) * np.exp(1j * np.angle(terms))
    assert np.all(kernel._errors(terms, wrong, vague) >= (np.abs(opposite - terms) * vague).sum(axis=1))
    assert np.all(kernel._errors(terms, wrong, ~vague) < kernel._errors(terms, wrong, np.ones_like(vague)))
