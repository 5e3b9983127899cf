"""Pairs made from pairs: masses, ends and hashes, for every kind of pair."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpcalc.conversions import gdp_delta
from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse
from dpcalc.pairs import profile as profiles
from dpcalc.pairs.base import MixturePair, ReversedPair
from dpcalc.pairs.bounded_range import BoundedRangePair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.discrete_gaussian import discrete_gaussian_pairs
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.laplace import LaplacePair
from dpcalc.pairs.points import PointPair, pure_dp_pair
from dpcalc.pairs.profile import group_of_two, pair_of_profile, profile
from dpcalc.pairs.symmetrised import SymmetrisedPair, symmetrised

P, Q = np.array([0.2, 0.37, 0.4]), np.array([0.5, 0.3, 0.1])
LOPSIDED = PointPair(np.log(P / Q), P, Q, 0.03, 0.1)
PAIRS = [GaussianPair(0.8), LaplacePair(1.1), BoundedRangePair(0.9), pure_dp_pair(0.7, 0.01), LOPSIDED]
EDGES = np.array([-3.0, -1.2, -0.31, -0.05, 0.0, 0.07, 0.4, 0.95, 2.2])


def delta(pair, epsilon):
    """P(L > ε) - e^ε Q(L > ε) from two cells."""
    a, b = pair.masses(np.array([epsilon]))
    return a[1] - math.exp(epsilon) * b[1]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("rate", [0.02, 0.6])
def test_a_pairs_own_mixture_is_the_generic_one(pair, rate):
    own, generic = pair.mixed(rate), MixturePair(pair, rate)
    for ours, theirs in zip(own.masses(EDGES), generic.masses(EDGES), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
    assert own.support() == pytest.approx(generic.support(), rel=1e-13)
    assert own.at_infinity() == generic.at_infinity()


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_a_pairs_own_reverse_is_the_generic_one(pair):
    own, generic = pair.reversed(), ReversedPair(pair)
    for ours, theirs in zip(own.masses(EDGES), generic.masses(EDGES), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
    assert own.support() == generic.support()
    assert own.at_infinity() == generic.at_infinity()
    assert own.reversed() == pair


@pytest.mark.parametrize("pair", [GaussianPair(0.8), LaplacePair(1.1), pure_dp_pair(0.7)], ids=repr)
def test_symmetrising_keeps_the_profile_above_zero_and_mirrors_it(pair):
    mixed = pair.mixed(0.2)
    both = symmetrised(mixed)
    for epsilon in (0.01, 0.1, 0.33, 1.0):
        assert delta(both, epsilon) == pytest.approx(delta(mixed, epsilon), rel=1e-11, abs=1e-15)
        assert delta(ReversedPair(both), epsilon) == pytest.approx(delta(mixed, epsilon), rel=1e-11, abs=1e-15)
    assert isinstance(SymmetrisedPair(mixed).reversed(), SymmetrisedPair)


@pytest.mark.parametrize("p", [0.1, 0.004, 0.6])
def test_symmetrising_counts_an_atom_at_zero_once(p):
    """k-ary randomised response answers the same for both values with probability (k - 2)(1 - p)/(k - 1)."""
    base = KaryRandomizedResponse(p=p, k=300).pairs()[0]
    both = symmetrised(base.mixed(0.3))
    for edges in (EDGES, EDGES[EDGES > 0], EDGES[EDGES < 0], np.array([0.0])):
        for masses in both.masses(edges):
            assert masses.sum() == pytest.approx(1, abs=1e-14)
    for epsilon in (0.01, 0.2, 1.0):
        assert delta(both, epsilon) == pytest.approx(delta(base.mixed(0.3), epsilon), rel=1e-11, abs=1e-15)


@pytest.mark.parametrize(("mu", "rate"), [(0.07, 1.0), (0.4, 0.03), (1.3, 0.6), (6.0, 0.002)])
def test_the_profile_of_a_sampled_gaussian_is_never_below_the_closed_form(mu, rate):
    """H(t) = q·H_μ((t - 1 + q)/q) for removing, and 1 - t + tH(1/t) for adding."""

    def removed(t):
        base = (t - 1 + q) / q
        return q * (mpmath.ncdf(m / 2 - mpmath.log(base) / m) - base * mpmath.ncdf(-m / 2 - mpmath.log(base) / m))

    pair = GaussianPair(mu).mixed(rate)
    losses = np.linspace(0.0, 6 * mu, 1200)[1:]
    found = profile(pair, losses), profile(pair.reversed(), losses)
    with mpmath.workdps(60):
        m, q = mpmath.mpf(mu), mpmath.mpf(rate)
        for j in range(0, losses.size, 37):
            t = mpmath.exp(mpmath.mpf(float(losses[j])))
            assert found[0][j] >= removed(t)
            if 1 / t > 1 - q:
                assert found[1][j] >= 1 - t + t * removed(1 / t)


def test_a_profile_pays_for_the_errors_that_masses_own_up_to():
    """A little P-mass less and Q-mass more than the truth, as `cells` says they may have; and the same of a group."""

    class Doubtful(PointPair):
        def cells(self, edges):
            p, q, p_error, q_error = super().cells(edges)
            return Cells(p, q, p_error + 1.01e-6 * p, q_error + 1.01e-6 * q)

    exact = LOPSIDED
    told = Doubtful(exact.losses, exact.p * (1 - 1e-6), exact.q * (1 + 1e-6), exact.p_infinite, exact.q_infinite)
    assert np.all(profile(told, EDGES) >= profile(exact, EDGES))
    group, truth = group_of_two(told, told), group_of_two(exact, exact)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert delta(group, epsilon) >= delta(truth, epsilon)


def test_a_profile_counts_missing_mass_as_infinite():
    missing = PointPair(LOPSIDED.losses, LOPSIDED.p, LOPSIDED.q, 0.0, 0.1)
    assert np.all(profile(missing, EDGES) >= profile(LOPSIDED, EDGES) * (1 - 1e-13))


def test_what_is_beyond_a_table_is_at_infinity():
    above, below = discrete_gaussian_pairs(1.7, 2)
    assert 0 < above.at_infinity()[0] < 1e-200
    assert below.at_infinity() == (0, 0)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_the_ends_hold_every_finite_loss(pair):
    for made in (pair, pair.mixed(0.3), pair.reversed().mixed(0.3).reversed(), symmetrised(pair.mixed(0.3))):
        low, high = made.support()
        p_infinite, q_infinite = made.at_infinity()
        if math.isfinite(high):
            assert made.masses(np.array([high + 1e-9]))[0][1] == pytest.approx(p_infinite, rel=1e-9, abs=1e-300)
        if math.isfinite(low):
            assert made.masses(np.array([low - 1e-9]))[1][0] == pytest.approx(q_infinite, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("rate", [1e-6, 0.3, 1 - 1e-13])
def test_a_loss_that_only_the_record_rules_out_is_finite_once_sampled(rate):
    """Where Q alone has mass the mixture has (1-q) of it: the loss there is log(1-q)."""
    for mixed in (LOPSIDED.mixed(rate), MixturePair(LOPSIDED, rate)):
        beyond = -math.log1p(-rate) * (1 + 1e-9)
        assert delta(mixed.reversed(), beyond) == 0.0
        assert mixed.at_infinity() == (rate * 0.03, 0.0)
        a, b = mixed.masses(np.array([math.log1p(-rate) * (1 + 1e-9), math.log1p(-rate) * (1 - 1e-9)]))
        assert a[1] == pytest.approx((1 - rate) * 0.1, rel=1e-9)
        assert b[1] == pytest.approx(0.1, rel=1e-9)


def test_pairs_are_equal_by_value():
    other = PointPair(*(array.copy() for array in (LOPSIDED.losses, LOPSIDED.p, LOPSIDED.q)), 0.03, 0.1)
    assert {LOPSIDED: "found"}[other] == "found"
    assert LOPSIDED.mixed(0.2) == other.mixed(0.2)
    assert LOPSIDED.mixed(0.2) != other.mixed(0.21)
    assert LOPSIDED.reversed() != LOPSIDED
    assert len({GaussianPair(0.5).mixed(0.1), GaussianPair(0.5).mixed(0.1), GaussianPair(0.6).mixed(0.1)}) == 2


@pytest.mark.parametrize(
    "pairs",
    [
        [GaussianPair(mu) for mu in (0.3, 1.7, 0.02)],
        [GaussianPair(mu).mixed(0.05) for mu in (0.3, 1.7, 0.9)],
        [GaussianPair(mu).mixed(rate) for mu, rate in ((0.3, 0.1), (1.7, 0.2))],
        [LaplacePair(1.0).mixed(0.3), LaplacePair(2.0).mixed(0.3)],
        [LOPSIDED.mixed(0.3), LOPSIDED],
        [LaplacePair(1.0), LaplacePair(2.0)],
    ],
    ids=repr,
)
def test_pairs_of_one_class_are_computed_together_as_each_by_itself(pairs):
    rows = type(pairs[0]).masses_of_all(pairs, EDGES)
    edges = np.stack([EDGES + 0.01 * k for k in range(len(pairs))])
    cells = type(pairs[0]).cells_of_all(pairs, edges)
    for k, pair in enumerate(pairs):
        for row, single in zip(rows, pair.masses(EDGES), strict=True):
            assert row[k] == pytest.approx(single, rel=1e-14)
        for row, single in zip(cells, pair.cells(edges[k]), strict=True):
            assert row[k] == pytest.approx(single, rel=1e-13)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("reach", [5.0, 250.0])
def test_a_pair_made_from_a_profile_is_above_it_and_adds_up(pair, reach):
    losses = np.concatenate(([0.0], np.geomspace(1e-4, reach, 300)))
    forward = np.array([delta(pair, loss) for loss in losses])
    backward = np.array([delta(pair.reversed(), loss) for loss in losses])
    larger = np.maximum(np.maximum(forward, backward), 0.0)
    made = pair_of_profile(losses, larger)
    p_infinite, q_infinite = made.at_infinity()
    assert made.p.sum() + p_infinite == pytest.approx(1, abs=1e-12)
    assert made.q.sum() + q_infinite == pytest.approx(1, abs=1e-12)
    for loss, least in zip(losses, larger, strict=True):
        t = math.exp(loss)
        above = made.losses > loss
        assert math.fsum(made.p[above] - t * made.q[above]) + p_infinite >= least
        below = made.losses < -loss
        assert math.fsum(made.q[below] - t * made.p[below]) + q_infinite >= least


def test_a_loose_value_at_zero_is_replaced_by_what_its_neighbours_imply():
    """Randomised response with δ(0) unknown: the chord from the loss -ε to ε passes through tanh(ε/2)."""
    epsilon = 0.6
    made = pair_of_profile(np.array([0.0, epsilon]), np.array([1.0, 0.0]))
    assert delta(made, 0.0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)
    assert made.p.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("mu", [1.0, 1e-3, 1e-6, 1e-10])
def test_points_give_back_no_less_than_a_profile_of_losses_however_small(mu):
    """e^loss of losses next to 0 differ by less than their rounding shows: masses over such differences fall short."""
    losses = np.append(0.0, np.linspace(0.02, 6, 60) * mu)
    with mpmath.workdps(40):
        half, ratios = mpmath.mpf(mu) / 2, [mpmath.mpf(loss) / mu for loss in losses]
        told = np.array(
            [
                float(mpmath.ncdf(half - x) - mpmath.exp(loss) * mpmath.ncdf(-half - x))
                for loss, x in zip(losses, ratios, strict=True)
            ]
        )
        made = pair_of_profile(losses, told)
        points = list(zip(map(mpmath.mpf, made.losses), map(mpmath.mpf, made.p), strict=True))
        for loss, least in zip(losses, told, strict=True):
            found = made.p_infinite - mpmath.fsum(mass * mpmath.expm1(loss - at) for at, mass in points if at > loss)
            assert found >= least


@pytest.mark.parametrize("seed", range(6))
def test_every_grid_of_losses_gives_a_bound_of_a_group(monkeypatch, seed):
    """Three Gaussians in a row: their ends are twice as far apart, whatever losses the profiles are taken at."""
    rng = np.random.default_rng(seed)
    mu, reach = float(rng.uniform(0.2, 2)), float(rng.uniform(0.1, 20))
    half = np.concatenate(([0.0], np.sort(rng.uniform(0, reach, int(rng.integers(2, 60))))))
    monkeypatch.setattr(profiles, "_profile_grid", lambda _: np.concatenate((-half[:0:-1], half)))
    links = GaussianPair(mu), GaussianPair(mu).reversed()
    found = group_of_two.__wrapped__(*links)
    for epsilon in rng.uniform(0, 1.5 * reach, 20):
        assert profile(found, np.array([epsilon]))[0] >= float(gdp_delta(2 * mu, epsilon)) * (1 - 1e-12)
