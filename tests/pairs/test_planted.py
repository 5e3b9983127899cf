"""What pairs say of themselves is on its side of the exact value, and their errors are at least those they make.

Nothing here has slack: without any one allowance some of these fail.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.conversions import gdp_delta
from dpcalc.pairs import (
    adaptive_range,
    discrete_gaussian,
    gaussian,
    moments,
    profile,
    subsampled_gaussian,
    subsampled_renyi,
    turned,
)
from dpcalc.pairs.base import MixturePair, Pair
from dpcalc.pairs.blended import BlendedPair
from dpcalc.pairs.bounded_range import BoundedRangePair
from dpcalc.pairs.cells import Cells, lacking
from dpcalc.pairs.discrete_gaussian import discrete_gaussian_pairs, turned_discrete_gaussian
from dpcalc.pairs.gaussian import GaussianPair, SampledGaussian
from dpcalc.pairs.laplace import LaplacePair
from dpcalc.pairs.points import PointPair, pure_dp_pair
from dpcalc.pairs.turned import TurnedGaussian, TurnedLaplace
from dpcalc.rounding import SMALLEST_NORMAL, UNIT

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(80):
        yield


# Masses of cells and their errors


def below_gaussian(mu: float, edge: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    x = mpf(edge) / mpf(mu)
    return mpmath.ncdf(x - mpf(mu) / 2), mpmath.ncdf(x + mpf(mu) / 2)


def below_laplace(epsilon: float, edge: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    e, l = mpf(epsilon), mpf(edge)  # noqa: E741
    if abs(l) > e:
        return (mpf(l > 0),) * 2
    return mpmath.exp((l - e) / 2) / 2, 1 - mpmath.exp(-(l + e) / 2) / 2


def below_bounded_range(epsilon: float, edge: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    e, l = mpf(epsilon), max(-mpf(epsilon), min(mpf(epsilon), mpf(edge)))  # noqa: E741
    unit = -mpmath.expm1(-e)
    return (mpmath.exp((l - e) / 2) - mpmath.exp(-e)) / unit, (1 - mpmath.exp(-(l + e) / 2)) / unit


@pytest.mark.parametrize(
    ("make", "below", "sizes"),
    [
        (GaussianPair, below_gaussian, (0.3, 1.1, 7.0)),
        (LaplacePair, below_laplace, (0.3, 2.1, 9.0)),
        (BoundedRangePair, below_bounded_range, (0.3, 2.1, 9.0)),
    ],
)
def test_errors_of_cells_are_at_least_those_made(make: Any, below: Any, sizes: tuple[float, ...]) -> None:
    for size in sizes:
        for width in (0.001, 0.3, 2.0):
            edges = np.sort(np.random.default_rng(1).uniform(-1.5 * size, 1.5 * size, 12)) * width
            cells = make(size).cells(edges)
            tails = [(mpf(0), mpf(0)), *(below(size, float(edge)) for edge in edges), (mpf(1), mpf(1))]
            for side, masses, errors in ((0, cells.p, cells.p_error), (1, cells.q, cells.q_error)):
                for k, (mass, error) in enumerate(zip(masses, errors, strict=True)):
                    assert abs(mpf(float(mass)) - (tails[k + 1][side] - tails[k][side])) <= float(error)


@pytest.mark.parametrize(("mu", "rate"), [(9.5e-4, 1.1e-12), (0.003, 2e-9), (0.7, 3e-7), (4.0, 1 - 1e-9), (33.0, 0.2)])
def test_turned_noise_is_where_its_loss_says_it_is(mu: float, rate: float) -> None:
    m, q = mpf(mu), mpf(rate)
    places = np.sort(np.random.default_rng(4).uniform(-8, 8, 40))
    ratio = [[1 - q + q * mpmath.exp(side * m * mpf(float(x)) - m * m / 2) for x in places] for side in (1, -1)]
    edges = np.array([float(mpmath.log(a / b)) for a, b in zip(*ratio, strict=True)])
    cells = TurnedGaussian(mu, rate).cells(edges)
    at = [(mpf(e) / 2 + mpmath.asinh((1 - q) / q * mpmath.exp(m * m / 2) * mpmath.sinh(mpf(e) / 2))) / m for e in edges]
    for side, masses, errors in ((1, cells.p, cells.p_error), (-1, cells.q, cells.q_error)):
        below = [0, *((1 - q) * mpmath.ncdf(x) + q * mpmath.ncdf(x - side * m) for x in at), 1]
        for mass, error, low, high in zip(masses, errors, below[:-1], below[1:], strict=True):
            assert abs(mpf(float(mass)) - (high - low)) <= float(error)


def test_sums_of_many_points_err_as_they_say() -> None:
    generator = np.random.default_rng(2)
    p, q = generator.random(4000), generator.random(4000) * 1e-3
    pair = PointPair(np.sort(generator.uniform(-1, 1, 4000)), p, q)
    cells = pair.cells(np.array([0.0]))
    half = int(np.searchsorted(pair.losses, 0.0))
    for masses, found, errors in ((p, cells.p, cells.p_error), (q, cells.q, cells.q_error)):
        for part, mass, error in zip((masses[:half], masses[half:]), found, errors, strict=True):
            exact = sum(map(Fraction, part.tolist()))
            assert 0 < abs(Fraction(float(mass)) - exact) <= Fraction(float(error))


def test_mass_beyond_the_table_of_discrete_noise() -> None:
    for sigma, shift in ((1.0, 1), (2.5, 3)):
        exact = mpmath.exp(-(mpf(math.ceil(38 * sigma) + 1) ** 2) / (2 * mpf(sigma) ** 2)) / (3 * sigma)
        assert all(mass >= exact > 0 for mass in discrete_gaussian_pairs(sigma, shift)[0].at_infinity())
        above, _ = turned_discrete_gaussian(sigma, shift, 0.3)
        assert above.p_infinite >= exact


def test_faint_masses_of_turned_noise_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete_gaussian, "FAINT", 0.0)
    for sigma in np.linspace(3.0, 9.0, 25):
        above, _ = turned_discrete_gaussian(float(sigma), 2, 0.3)
        reach = int(np.ceil(38 * sigma))
        noise = np.stack(discrete_gaussian._tables(float(sigma), np.arange(-reach - 2.0, reach + 3), (2, 0, -2)))
        far = noise[:, (noise <= 1e-290).any(axis=0)]
        assert Fraction(above.p_infinite) >= max(sum(Fraction(float(x)) for x in row) for row in far)


def test_what_is_surely_infinite_is_rounded_down() -> None:
    """Masses at infinity that were rounded up to sixteen times, and their share of a sample."""
    generator = np.random.default_rng(15)
    for _ in range(100):
        exact, rate = Fraction(float(generator.random())), float(generator.random())
        rounded = float(exact * (1 + 15 * Fraction(UNIT)))
        pair = PointPair(np.array([0.0]), np.array([0.1]), np.array([0.1]), rounded, rounded)
        assert all(0 < mass <= exact for mass in map(Fraction, pair.surely_infinite()))
        found = Fraction(MixturePair(pair, rate).surely_infinite()[0])
        assert found <= Fraction(rate) * Fraction(pair.surely_infinite()[0])


# Points that reproduce what is known


def _told_by_points(pair: PointPair, t: mpf) -> mpf:
    """δ at log t, said by the Q-masses of losses above 0 and the P-masses of those below, at losses as they are."""
    found = mpf(pair.p_infinite)
    for loss, p, q in zip(map(mpf, pair.losses), map(mpf, pair.p), map(mpf, pair.q), strict=True):
        x = mpmath.exp(loss)
        found += max(q * (x - t) if loss >= 0 else p * (1 - t / x), mpf(0))
    return found


def test_points_reproduce_no_less_than_the_profile_they_are_made_of() -> None:
    losses = np.linspace(0.0, 4.0, 60)
    for mu in (0.4, 1.0, 2.2):
        deltas = np.array([float(gdp_delta(mu, float(loss))) for loss in losses])
        pair = profile.pair_of_profile(losses, deltas)
        for loss, delta in zip(losses[1:-1], deltas[1:-1], strict=True):
            assert _told_by_points(pair, mpmath.exp(mpf(float(loss)))) >= mpf(float(delta))
        assert sum(Fraction(float(mass)) for mass in pair.q) <= 1 + Fraction(1, 10**9)


@pytest.mark.parametrize("seed", range(40))
def test_points_of_losses_next_to_zero_have_no_more_mass_than_there_is(seed: int) -> None:
    """Slopes over losses much smaller than δ are mostly rounding: what is too much must not count as known."""
    generator = np.random.default_rng(seed)
    mu = float(10 ** generator.uniform(-8, 0))
    losses = np.append(0.0, np.sort(10 ** generator.uniform(-13, 0.5, 12)))
    near = np.sort(losses[generator.integers(1, 12, 3)] * (1 + 10 ** generator.uniform(-13, -9, 3)))
    losses = np.unique(np.append(losses, near))
    deltas = np.array([float(gdp_delta(mu, float(loss))) for loss in losses])
    pair = profile.pair_of_profile(losses, deltas * (1 + 1e-9 * generator.random(losses.size)))
    for masses, infinite in ((pair.p, pair.p_infinite), (pair.q, pair.q_infinite)):
        assert sum(Fraction(float(mass)) for mass in masses) + Fraction(infinite) <= 1 + 16 * Fraction(UNIT)
    for loss, delta in zip(losses[1:], deltas[1:], strict=True):
        assert _told_by_points(pair, mpmath.exp(mpf(float(loss)))) >= mpf(float(delta))


@pytest.mark.parametrize("seed", range(30))
def test_points_dominate_every_pair_below_their_profile(seed: int) -> None:
    """Of pairs with atoms anywhere, one loss or many, near each other or far, at infinity: at t on either side of 1."""
    generator = np.random.default_rng(seed)
    losses = np.append(0.0, np.sort(10 ** generator.uniform(generator.uniform(-15, 0), 2.4, generator.integers(1, 12))))
    if seed % 3 == 0:
        losses = np.append(0.0, losses[-1] * (1 + np.arange(8) * 2.0 ** -float(generator.integers(20, 52))))
    near = generator.choice(losses, 4) * (1 + generator.choice([-1, 0, 1], 4) * 2.0**-50)
    with mpmath.workprec(1400):
        atoms = [mpf(float(x)) for x in (*near, *generator.uniform(0, losses[-1], 2))]
        weights = [mpf(float(x)) for x in 10 ** generator.uniform(-20, 0, len(atoms))]
        p = [*weights, *(w * mpmath.exp(-x) for w, x in zip(weights, atoms, strict=True))]  # symmetric: -x as well
        q, x = [*p[len(atoms) :], *p[: len(atoms)]], [*atoms, *(-x for x in atoms)]
        scale = sum(p) * (1 if generator.random() < 0.5 else mpf(10) ** float(generator.uniform(0, 10)))
        p, q, rest = [m / scale for m in p], [m / scale for m in q], 1 - sum(p) / scale
        infinite = max(rest, mpf(0)) * (0 if generator.random() < 0.7 else mpf(float(generator.random())))

        def exact(t: mpf) -> mpf:
            finite = sum((max(a - t * b, mpf(0)) for a, b in zip(p, q, strict=True)), mpf(0))
            return finite + infinite + max((rest - infinite) * (1 - t), mpf(0))

        ends = [mpmath.exp(mpf(float(loss))) for loss in losses]
        told = np.array([min(math.nextafter(float(exact(t)), math.inf), 1.0) for t in ends])
        pair = profile.pair_of_profile(losses, told)
        for t in (*ends, *(mpmath.exp(abs(loss)) for loss in x)):
            assert _told_by_points(pair, t) >= exact(t)
            assert _told_by_points(pair, 1 / t) >= exact(1 / t) * (1 - mpf(UNIT))  # what is left for 0 is rounded


def test_mass_that_is_spread_keeps_its_mean() -> None:
    """From one point to the next, and from the last one to infinity: no rounding takes any of E (X - 1)⁺."""
    generator = np.random.default_rng(5)
    for _ in range(200):
        losses = np.sort(10 ** generator.uniform(-9, 1, 2))
        x = [mpmath.expm1(mpf(float(loss))) for loss in losses]
        masses = np.array([generator.random(), 0.0])
        mean = mpf(float(masses[0])) * x[0]
        excess = 0.9 * float(masses[0]) * (1 - math.expm1(losses[0]) / math.expm1(losses[1]))
        assert profile._spread(losses, masses, excess) == 0
        assert sum(mpf(float(mass)) * above for mass, above in zip(masses, x, strict=True)) >= mean
        mean = mpf(float(masses[1])) * x[1]
        assert mpf(profile._spread(losses[1:], masses[1:], 2.0)) >= mean
        assert masses[1] == 0


def test_points_far_apart_reproduce_what_is_told() -> None:
    """A difference of losses is rounded, and beyond 32 of them that is more than all other rounding together."""
    generator = np.random.default_rng(8)
    for _ in range(60):
        losses = np.append(0.0, np.sort(generator.uniform([0, 5], [5, 290])))
        told = np.sort(10 ** generator.uniform(-9, -1, 3))[::-1]
        pair = profile.pair_of_profile(losses, told)
        kept = set(pair.losses.tolist())
        for loss, height in zip(losses[1:].tolist(), told[1:].tolist(), strict=True):
            if loss in kept:
                assert _told_by_points(pair, mpmath.exp(mpf(loss))) >= mpf(height)


def test_a_profile_that_rises_has_no_more_mass_than_there_is() -> None:
    """Bounds that rise are no convex function's: of what is told later all that counts is that it is no less."""
    losses = np.array([0.0, 1.1e-11, 1.1000000001e-11, 1.2e-11, 1.3e-11])
    for told in ([1.8e-7, 5.9e-8, 8.9e-8, 5.6e-8, 6.1e-8], [0.23, 0.21, 0.21, 0.2, 0.65]):
        pair = profile.pair_of_profile(losses * (1 if told[0] < 0.1 else 4e10), np.array(told))
        assert sum(Fraction(float(mass)) for mass in pair.p) + Fraction(pair.p_infinite) <= 1 + 64 * Fraction(UNIT)
        assert pair.p_infinite < 0.21


def test_a_value_at_zero_is_no_less_than_its_neighbours_imply() -> None:
    """(ε, δ)-DP allows 1 - (1 - δ)·2/(1 + e^ε) at 0, and its two points attain that."""
    generator = np.random.default_rng(16)
    for loss, delta in zip(10 ** generator.uniform(-8, 1.5, 100), 10 ** generator.uniform(-12, -0.1, 100), strict=True):
        pair = profile.pair_of_profile(np.array([0.0, loss]), np.array([1.0, delta]))
        exact = 1 - (1 - mpf(delta)) * 2 / (1 + mpmath.exp(mpf(loss)))
        assert exact <= _told_by_points(pair, mpf(1)) <= exact * (1 + 80 * mpf(UNIT))


# Blends


class Stub(Pair):
    """Divergences as they are given."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def masses(self, edges: Any) -> Any:
        raise NotImplementedError

    def log_excess(self, powers: Any, side: int = 0) -> Any:  # noqa: ARG002
        return self.values

    def at_infinity(self) -> tuple[float, float]:
        return float(self.values[0]), float(self.values[1])

    def missing(self) -> tuple[float, float]:
        return 0.0, 0.0


def test_blends_are_rounded_up() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        weight, other = generator.uniform(0.3, 0.7), generator.uniform(0.4, 0.8)
        first, second = generator.random(2), generator.random(2)
        blend = BlendedPair(Stub(first), Stub(second), weight, other)
        assert Fraction(blend.excess()) >= Fraction(weight) + Fraction(other) - 1
        for k, found in enumerate(blend.at_infinity()):
            assert Fraction(found) >= Fraction(weight) * Fraction(first[k]) + Fraction(other) * Fraction(second[k])
        first, second = generator.uniform(-60, 60, 2), generator.uniform(-60, 60, 2)
        blend = BlendedPair(Stub(first), Stub(second), weight, other)
        for k, found in enumerate(blend.log_excess(np.array([2.0, 3.0]))):
            parts = [mpf(w) * mpmath.exp(mpf(float(v[k]))) for w, v in ((weight, first), (other, second))]
            assert mpf(float(found)) >= mpmath.log(sum(parts))


def test_blended_cells_own_up_to_their_weights() -> None:
    generator = np.random.default_rng(4)
    for _ in range(60):
        weights = generator.uniform(0.1, 0.9, 2)
        pairs = [PointPair(np.array([-0.5, 0.5]), *generator.random((2, 2))) for _ in range(2)]
        blend = BlendedPair(*pairs, *weights.tolist())
        given, cells = [pair.cells(np.array([0.0])) for pair in pairs], blend.cells(np.array([0.0]))
        for mass, error, own, outermost in ((0, 2, cells.p_error, 1), (1, 3, cells.q_error, 0)):
            for k in range(2):
                lack = [lacking(cell[mass], cell[error]) if k == outermost else 0.0 for cell in given]
                exact = sum(
                    Fraction(w) * (Fraction(float(cell[mass][k])) + Fraction(less))
                    for w, cell, less in zip(weights, given, lack, strict=True)
                )
                passed = sum(
                    Fraction(w) * Fraction(float(cell[error][k])) for w, cell in zip(weights, given, strict=True)
                )
                assert Fraction(float(own[k])) >= passed + abs(Fraction(float(cells[mass][k])) - exact)


# Profiles


class Told(Pair):
    """Two points with masses that are off, and own up to it."""

    def __init__(self, p_off: float, q_off: float) -> None:
        self.offsets = (p_off, q_off)

    def masses(self, edges: Any) -> Any:
        p, q = PointPair(np.array([-0.4, 0.4]), np.array([0.25, 0.75]), np.array([0.6, 0.4])).masses(edges)
        return p + self.offsets[0] * (p > 0.5), q + self.offsets[1] * (p > 0.5)

    def cells(self, edges: Any) -> Cells:
        p, q = self.masses(edges)
        return Cells(p, q, *(np.where(p > 0, 1.1 * abs(off), 0.0) for off in self.offsets))


@pytest.mark.parametrize(("p_off", "q_off"), [(-1e-3, 0.0), (0.0, 1e-3)])
def test_a_profile_pays_for_the_errors_of_its_masses(p_off: float, q_off: float) -> None:
    losses = np.array([-1.0, 0.0, 0.2, 1.0])
    found = profile.profile(Told(p_off, q_off), losses)
    assert found[2] >= 0.75 - math.exp(0.2) * 0.4
    assert profile.least_profile(Told(-p_off, -q_off), losses)[2] <= 0.75 - math.exp(0.2) * 0.4


def test_mass_that_a_pair_gives_as_none_may_be_faint() -> None:
    """Q-mass of 0 at a loss of 695 may be 1e-300, which counts for e^690 of it."""
    pair = PointPair(np.array([-0.4, 695.0]), np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    assert profile.least_profile(pair, np.array([690.0]))[0] <= 0.75 - 1e-300 * math.exp(690)


def test_a_profile_of_points_is_never_below_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """With masses known exactly, the sums that are left are paid for."""
    generator = np.random.default_rng(5)
    for _ in range(60):
        losses = np.sort(generator.uniform(-3, 3, 40))
        p, q = (masses / masses.sum() for masses in generator.random((2, 40)))
        edges = np.sort(generator.uniform(-3, 3, 30))
        pair = PointPair(losses, p, q)
        monkeypatch.setattr(PointPair, "cells", lambda self, at: Cells(*self.masses(at), *np.zeros((2, len(at) + 1))))
        bounds = zip(edges, profile.profile(pair, edges), profile.least_profile(pair, edges), strict=True)
        for loss, found, least in bounds:
            above = losses >= loss
            exact = sum(map(Fraction, p[above].tolist())) - Fraction(float(mpmath.exp(mpf(float(loss))))) * sum(
                map(Fraction, q[above].tolist())
            )
            assert Fraction(float(found)) >= min(exact, 1)
            assert Fraction(float(least)) <= max(exact, 0)


def test_places_of_a_chain_are_paid_for() -> None:
    """What one link leaves of a loss is rounded: where an atom is as near above it, and a point of the grid next."""
    generator = np.random.default_rng(1)
    for _ in range(400):
        rest = float(10 ** generator.uniform(-3, 0.6))
        loss = rest * float(generator.uniform(0.75, 0.95))
        whole = loss + rest
        atom = math.nextafter(whole - loss, 9)
        end = math.nextafter(atom, 9)
        q = math.exp(-atom) / 2
        second = PointPair(np.array([-400.0, atom]), np.array([0.5, 0.5]), np.array([1 - q, q]))
        losses = np.sort([0.0, loss, rest * 0.7, end, whole])  # of all splits, the first loss and the rest are best
        found = profile._chain(pure_dp_pair(rest * 0.72), second, losses)[-1]
        left = mpf(whole) - mpf(loss)
        assert found >= mpmath.exp(mpf(loss)) * mpf(q) * (mpmath.exp(mpf(atom)) - mpmath.exp(left))


def test_large_losses_of_a_chain_are_paid_for() -> None:
    """A difference of losses beyond 128 errs by 128 units of rounding, also where it is a point of the grid."""
    generator = np.random.default_rng(2)
    for _ in range(60):
        rest = float(generator.uniform(130, 155))
        loss = rest * float(generator.uniform(0.75, 0.9))
        whole = loss + rest
        atom = rest + 0.1
        p = 1e-3 * math.exp(-loss)
        q = p * math.exp(-atom)
        second = PointPair(np.array([-400.0, atom]), np.array([1 - p, p]), np.array([1 - q, q]))
        losses = np.sort([0.0, loss, whole - loss, atom + 0.1, whole])
        found = profile._chain(pure_dp_pair(loss - 1), second, losses)[-1]
        left = mpf(whole) - mpf(loss)
        assert 0.1 > found >= mpmath.exp(mpf(loss)) * mpf(q) * (mpmath.exp(mpf(atom)) - mpmath.exp(left))


# Adaptive choice among bounded ranges


def test_one_step_of_the_adaptive_optimum_is_never_below_a_two_point_pair() -> None:
    """After one run, at every point of the grid: (1 - √(s e^-ε))² / (1 - e^-ε), and rounded up."""
    for epsilon in (0.3, 1.0, 2.7, 5.0):
        steps = 150
        width = epsilon / steps
        found = adaptive_range._step(np.zeros(1), steps, steps, width, np.arange(steps + 1))
        for j in range(steps + 1):
            s, e = mpmath.exp(j * mpf(width)), steps * mpf(width)
            for t in (j * mpf(width) + (e - j * mpf(width)) / 2, (j + (steps - j) // 2) * mpf(width)):
                exact = (1 - mpmath.exp(t - e) - s * (mpmath.exp(-t) - mpmath.exp(-e))) / -mpmath.expm1(-e)
                assert mpf(float(found[j])) >= exact


def test_the_rounding_of_a_step_is_paid_for(erring: Callable[..., None]) -> None:
    """A flat profile, whose chords do not bend: the mean of the ratio is 1, and exponentials are a little too small."""
    erring(adaptive_range, "np", exp=-200 * UNIT)  # a fraction of what a step is raised by
    raised = adaptive_range._step(np.full(40, 0.3), 20, 10, 0.1, np.arange(11))
    assert np.all(raised >= 0.3)


def test_bends_are_rounded_up() -> None:
    """Slopes that nearly cancel, of doubles taken as they are, in fractions."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        ratio, apart = float(rng.uniform(0.05, 0.9)), rng.uniform(0.01, 2, (12, 1))
        slopes = rng.uniform(0.1, 1, (12, 9))
        low = np.cumsum(np.vstack((rng.uniform(0, 1, (1, 9)), slopes * ratio * apart)), axis=0)
        high = np.cumsum(np.vstack((rng.uniform(0, 1, (1, 9)), slopes * apart * (1 + 1e-15))), axis=0)
        found = adaptive_range._bends(high, low, apart, ratio)
        for i, j in np.ndindex(found.shape):
            step = Fraction(float(apart[i, 0]))
            steep, flat = (Fraction(float(each[i + 1, j])) - Fraction(float(each[i, j])) for each in (high, low))
            assert Fraction(float(found[i, j])) >= steep / step - flat / (Fraction(ratio) * step)


def test_the_mu_of_many_adaptive_runs_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """m² + a(n + 1/x + log((x + n - 1)/x)), a = ε²/4 and x = m²/a - 1, from the m of the first 128 runs."""
    chosen = random.Random(18)
    for _ in range(100):
        epsilon, first = chosen.uniform(0.01, 1), chosen.uniform(6, 9)
        monkeypatch.setattr(adaptive_range, "_least_mu", lambda *_, m=first * epsilon: m)
        m, a, n = mpf(first * epsilon), mpf(epsilon) ** 2 / 4, 200
        x = m * m / a - 1
        exact = mpmath.sqrt(m * m + a * (n + 1 / x + mpmath.log((x + n - 1) / x)))
        assert mpf(adaptive_range.adaptive_range_mu(epsilon, 328)) >= exact


def test_a_gaussian_is_believed_only_if_its_exact_curve_is_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heights just above the exact δ of every candidate, and below what it is rounded up to: none will do."""
    place = 0.7

    def highest(losses: Any, heights: Any, mu: float) -> tuple[Any, Any]:
        m, e = mpf(mu), mpf(place)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        return np.array([place]), np.array([math.nextafter(float(exact), 2)])

    monkeypatch.setattr(adaptive_range, "_profile", lambda *_, **__: (np.zeros(1), np.zeros(1)))
    monkeypatch.setattr(adaptive_range, "_highest", highest)
    with pytest.raises(ArithmeticError, match="no Gaussian"):
        adaptive_range._least_mu(1.0, 4)


# Rényi divergences


def f(ratio: mpmath.mpf, beta: mpmath.mpf) -> mpmath.mpf:
    return ratio**beta - 1 - beta * (ratio - 1)


POWERS = np.array([1 + 1e-7, 1.003, 1.7, 4.0, 31.0])


@pytest.mark.parametrize("mu", [1e-4, 0.07, 0.9, 3.0])
def test_the_gaussian_divergence(mu: float, erring: Callable[..., None]) -> None:
    exact = [mpmath.log(mpmath.expm1(mpf(float(b)) * (mpf(float(b)) - 1) * mpf(mu) ** 2 / 2)) for b in POWERS]
    for value, found in zip(exact, GaussianPair(mu).log_excess(POWERS), strict=True):
        assert mpf(float(found)) >= value
    erring(gaussian, "np", log=2 * UNIT, expm1=-2 * UNIT)
    for value, found in zip(exact, GaussianPair(mu).log_excess(POWERS), strict=True):
        assert value <= mpf(float(found)) <= value + mpf("1e-11") * (1 + abs(value))


def test_what_lies_outside_a_gaussian_window() -> None:
    """The stated bound itself, in fifty digits."""
    for mu in (0.3, 1.1):
        for power in (1.5, 3.0, 7.7, -0.5, -3.0):
            m, b = mpf(mu), mpf(power)
            low, high, found = GaussianPair(mu).window(np.array([power]))
            under = [mpf(end) / m + m / 2 for end in (low, high)]
            steep = mpmath.ncdf(b * m - under[1]) if power > 1 else mpmath.ncdf(under[0] - b * m)
            steep *= mpmath.exp(b * (b - 1) * m * m / 2)
            flat = abs(b) * (mpmath.ncdf(under[0]) + mpmath.ncdf(-under[1]) + mpmath.ncdf(m - under[1]))
            assert mpf(float(found[0])) >= mpmath.log(steep + flat)


@pytest.mark.parametrize("epsilon", [1e-3, 0.2, 1.3, 40.0])
def test_the_laplace_divergence(epsilon: float) -> None:
    powers = np.array([1 + 1e-6, 1.2, 1.9, 7.3, 23.0])
    e = mpf(epsilon)
    for power, found in zip(powers, LaplacePair(epsilon).log_excess(powers), strict=True):
        b = mpf(float(power))
        x, y = (b - 1) * e, -b * e
        terms = b * (mpmath.exp(x) - 1 - x) + (b - 1) * (mpmath.exp(y) - 1 - y)
        assert mpf(float(found)) >= mpmath.log(terms / (2 * b - 1))


def test_divergences_are_rounded_up_from_exact_excesses() -> None:
    """The last step by itself: log(1 + excess) / (α - 1)."""
    generator = np.random.default_rng(6)
    for _ in range(40):
        orders, values = 1 + np.exp(generator.uniform(-4, 4, 8)), generator.uniform(-60, 200, 8)
        for order, value, found in zip(orders, values, Stub(values).rdp(orders), strict=True):
            exact = mpmath.log1p(mpmath.exp(mpf(float(value)))) / (mpf(float(order)) - 1)
            assert exact <= mpf(float(found)) <= exact * (1 + mpf("1e-12"))


def test_subsampled_divergences_are_rounded_up_from_exact_excesses(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(7)
    for _ in range(40):
        orders, sigma = 1 + np.exp(generator.uniform(-4, 4, 8)), float(generator.uniform(0.1, 5))
        values = generator.uniform(-60, -5, 8)
        monkeypatch.setattr(subsampled_gaussian, "log_excess", lambda *_, values=values: values[None])
        sampled = subsampled_gaussian.rdp(orders, np.array([sigma]), 0.5)[0]
        unsampled = subsampled_gaussian.rdp(orders, np.array([sigma]), 1.0)[0]
        for order, value, found, plain in zip(orders, values, sampled, unsampled, strict=True):
            whole = mpf(float(order)) / (2 * mpf(sigma) ** 2)
            assert mpf(float(plain)) >= whole
            exact = mpmath.log1p(mpmath.exp(mpf(float(value)))) / (mpf(float(order)) - 1)
            assert mpf(float(found)) >= min(exact, whole)


def test_divergences_of_many_are_rounded_up_from_exact_excesses(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(17)
    pairs = [GaussianPair(0.7).mixed(0.1), GaussianPair(0.9).mixed(0.2)]
    for _ in range(20):
        orders, values = 1 + np.exp(generator.uniform(-4, 4, 8)), generator.uniform(-60, -5, (2, 8))
        monkeypatch.setattr(gaussian, "subsampled_log_excess", lambda *_, values=values: values)
        for row, excesses in zip(SampledGaussian.two_sided_rdps(pairs, orders), values, strict=True):
            for order, value, found in zip(orders, excesses, row, strict=True):
                exact = mpmath.log1p(mpmath.exp(mpf(float(value)))) / (mpf(float(order)) - 1)
                assert mpf(float(found)) >= exact


def test_means_over_points_with_large_exponents() -> None:
    """βl of some hundreds is rounded by hundreds of units of what it is the exponent of."""
    chosen = random.Random(8)
    for _ in range(60):
        loss, power = chosen.uniform(5, 20), chosen.uniform(20, 29)
        found = float(moments.log_mean_excess(np.array([0.3]), np.array([loss]), np.array([power]))[0])
        assert mpf(found) >= mpmath.log(mpf(0.3) * f(mpmath.exp(mpf(loss)), mpf(power)))


def test_means_over_points_with_powers_near_one() -> None:
    """R(βl) - βR(l) cancels: what rounding leaves is paid for."""
    chosen = random.Random(9)
    for _ in range(60):
        loss, power = chosen.uniform(-1, 1), 1 + 10 ** chosen.uniform(-9, -5)
        found = float(moments.log_mean_excess(np.array([0.3]), np.array([loss]), np.array([power]))[0])
        assert mpf(found) >= mpmath.log(mpf(0.3) * f(mpmath.exp(mpf(loss)), mpf(power)))


@pytest.mark.parametrize(("p_off", "q_off"), [(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)])
def test_spread_masses_are_raised_by_their_doubt(monkeypatch: pytest.MonkeyPatch, p_off: float, q_off: float) -> None:
    """Masses that err by as much as `spread` allows, here by some thousandths: no weight is below that of the truth."""
    monkeypatch.setattr(moments, "ROUNDING", 0.01)
    p, q, low, high = 0.55, 0.5, -0.2, 0.4  # one cell, with all the mass
    lifted = (p * math.exp(-low) - q) / math.expm1(high - low)
    rough = PointPair(np.array([0.1]), np.array([p * (1 + 0.004 * p_off)]), np.array([q * (1 + 0.004 * q_off)]))
    weights = moments.spread(rough, np.array([low, high]))
    assert weights[0] >= q - lifted
    assert weights[1] >= lifted


@pytest.mark.parametrize(("p_off", "q_off"), [(-9e-4, 0.0), (1e-3, 0.0), (0.0, -1e-6), (0.0, 1e-6)])
def test_masses_between_large_tails_err_by_these(monkeypatch: pytest.MonkeyPatch, p_off: float, q_off: float) -> None:
    """In the middle of P and in the tail of Q: each mass errs by some thousandths of the tail that is beyond it."""
    monkeypatch.setattr(moments, "ROUNDING", 0.01)
    losses = np.array([0.1, 0.5, 10.0])
    p = np.array([0.5, 1e-3, 0.4])
    q, edges = p * np.exp(-losses), np.array([0.4, 0.6])
    lifted = (p[1] * math.exp(-edges[0]) - q[1]) / math.expm1(edges[1] - edges[0])
    weights = moments.spread(PointPair(losses, p + np.array([0, p_off, 0]), q + np.array([0, q_off, 0])), edges)
    assert weights[0] >= q[1] - lifted
    assert weights[1] >= lifted


def test_the_ends_of_a_mixture_are_not_rounded_inwards() -> None:
    chosen = random.Random(12)
    for _ in range(200):
        epsilon, rate = chosen.uniform(0.01, 3), chosen.uniform(0.01, 0.9)
        low, high = MixturePair(LaplacePair(epsilon), rate).support()
        with mpmath.workdps(40):
            ends = [mpmath.log1p(mpf(rate) * mpmath.expm1(side * mpf(epsilon))) for side in (-1, 1)]
        assert mpf(low) <= ends[0]
        assert mpf(high) >= ends[1]
        assert mpf(TurnedLaplace(epsilon, rate).support()[1]) >= ends[1] - ends[0]


def test_noise_beyond_its_table_is_at_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short table: what it leaves out on one side of every centre, by exact sums."""
    monkeypatch.setattr(discrete_gaussian, "_MOST_POINTS", 12)
    sigma, shift = 5.0, 2
    above, _ = discrete_gaussian.turned_discrete_gaussian(sigma, shift, 0.3)
    weights = {x: math.exp(-x * x / (2 * sigma**2)) for x in range(-200, 201)}
    outside = sum(weight for x, weight in weights.items() if x > 12) / sum(weights.values())
    assert above.p_infinite >= outside
    assert above.q_infinite >= outside


def test_points_too_faint_for_q() -> None:
    chosen = random.Random(10)
    for _ in range(60):
        losses = np.sort([chosen.uniform(250, 299) for _ in range(3)])
        masses = np.array([chosen.uniform(0.1, 1) * 1e-200 for _ in range(3)])
        pair = PointPair(losses, masses, np.zeros(3))
        for power in (1.5, 4.2, -2.0):
            found = float(pair.log_excess(np.array([power]))[0])
            logs = [(mpf(power) - 1) * mpf(float(x)) if power > 1 else mpmath.log(-mpf(power)) for x in losses]
            exact = mpmath.log(mpmath.fsum(mpmath.exp(x) * mpf(float(m)) for x, m in zip(logs, masses, strict=True)))
            assert mpf(found) >= exact
    faint = PointPair(np.array([290.0]), np.array([5e-324]), np.zeros(1))
    assert float(faint.log_excess(np.array([2.0]))[0]) >= math.log(SMALLEST_NORMAL) + 290


def test_discrete_gaussians_beyond_their_table() -> None:
    """At an order so high that its mass lies beyond, 2e^{β(β-1)μ²/2} is the bound, rounded up."""
    for sigma in (0.7, 1.0, 1.3):
        pair, _ = discrete_gaussian_pairs(sigma, 1)
        for power in (60.1, 77.7, 93.3):
            mu = mpf(pair.mu)
            exact = mpf(power) * (mpf(power) - 1) * mu * mu / 2 + mpmath.log(2)
            assert mpf(float(pair.log_excess(np.array([power]))[0])) >= exact


# The subsampled Gaussian


def test_the_integrand_left_of_the_nodes() -> None:
    chosen = random.Random(11)
    for _ in range(100):
        rate, power = chosen.uniform(1e-4, 0.9), 1 + 10 ** chosen.uniform(-8, 1.5)
        loss = math.log1p(-rate)
        found = float(subsampled_renyi._gap(np.array([power]), np.array([[loss]]))[0, 0])
        assert mpf(found) >= f(mpmath.exp(mpf(loss)), mpf(power))


def test_sums_with_powers_near_one() -> None:
    """Where the integrand cancels, near and far: the whole, with the same nodes and weights in fifty digits."""
    generator = np.random.default_rng(12)
    for low, high in ((-3.0, 3.0), (31.0, 60.0)):
        for _ in range(30):
            v, weights = generator.uniform(low, high, 5), generator.uniform(-40, -1, 5)
            power = float(1 + 10 ** generator.uniform(-9, -7))
            found = float(subsampled_renyi._sums(np.array([power]), v[None], weights[None])[0, 0])
            parts = [
                mpmath.exp(mpf(float(w))) * f(mpmath.exp(mpf(float(x))), mpf(power))
                for x, w in zip(v, weights, strict=True)
            ]
            assert mpf(found) >= mpmath.fsum(parts)


def binomial_log_excess(order: int, sigma: float, rate: float) -> mpmath.mpf:
    s, q = mpf(sigma), mpf(rate)
    terms = (
        mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.expm1(k * (k - 1) / (2 * s * s))
        for k in range(2, order + 1)
    )
    return mpmath.log(mpmath.fsum(terms))


@pytest.mark.parametrize(
    ("low", "high", "orders"),
    [(0.3, 0.6, (40, 200)), (1.0, 3.0, (40, 160)), (0.6, 0.8, (10, 14)), (0.8, 5.0, (2, 9)), (15.0, 40.0, (2, 60))],
)
def test_the_excess_at_whole_orders(low: float, high: float, orders: tuple[int, int]) -> None:
    chosen = random.Random(13)
    for _ in range(12):
        sigma, rate, order = chosen.uniform(low, high), 10 ** chosen.uniform(-3, -0.05), chosen.randint(*orders)
        found = float(subsampled_renyi.log_excess(np.array([float(order)]), np.array([sigma]), rate)[0, 0])
        assert mpf(found) >= binomial_log_excess(order, sigma, rate)


@pytest.mark.parametrize(("sigma", "rate", "order"), [(0.13, 1e-174, 8), (0.2, 1e-238, 6), (1.0, 1e-300, 2)])
def test_an_excess_below_the_range_of_doubles_is_not_none(sigma: float, rate: float, order: int) -> None:
    found = float(subsampled_renyi.log_excess(np.array([float(order)]), np.array([sigma]), rate)[0, 0])
    with mpmath.workdps(700):
        assert mpf(found) >= binomial_log_excess(order, sigma, rate)


def test_the_bound_by_convexity_is_rounded_up() -> None:
    """Noise so small that no rule has nodes enough: q(e^{β(β-1)/2σ²} - 1)."""
    chosen = random.Random(14)
    for _ in range(60):
        sigma, rate, power = chosen.uniform(1e-3, 2e-3), chosen.uniform(0.01, 0.9), 1 + chosen.uniform(1e-7, 1e-6)
        found = float(subsampled_renyi.log_excess(np.array([power]), np.array([sigma]), rate)[0, 0])
        exponent = mpf(power) * (mpf(power) - 1) / (2 * mpf(sigma) ** 2)
        assert mpf(found) >= mpmath.log(mpf(rate)) + mpmath.log(mpmath.expm1(exponent))


def test_little_noise_is_settled_by_its_norm() -> None:
    """r ≥ q e^z is nearly all of r there; it is below the divergence, and the bound is next to it."""
    chosen = random.Random(11)
    for _ in range(200):
        sigma, rate = 10 ** chosen.uniform(-4, -2.5), 10 ** chosen.uniform(-6, -0.001)
        power = 1 + 10 ** chosen.uniform(-2, 4)
        exact = power * mpmath.log(mpf(rate)) + mpf(power) * (mpf(power) - 1) / (2 * mpf(sigma) ** 2)
        found = subsampled_renyi.log_excess(np.array([power]), np.array([sigma]), rate)[0, 0]
        assert exact <= mpf(found) <= exact * (1 + mpf("1e-12"))


@pytest.mark.parametrize("power", [1.5, 2, 3, 8])
def test_the_bound_by_the_norm_holds_where_both_terms_count(power: float) -> None:
    sigma, rate = 0.25, 2e-3

    def weighed(x: Any) -> Any:
        ratio = 1 - mpf(rate) + mpf(rate) * mpmath.exp(x / mpf(sigma) - 1 / (2 * mpf(sigma) ** 2))
        return ratio**power * mpmath.npdf(x)

    mean = mpmath.quad(weighed, [-20, 0, 2, 4, 8, 16, 32, power / sigma + 40])
    found = subsampled_renyi.log_excess(np.array([power]), np.array([sigma]), rate)[0, 0]
    assert mpmath.log(mean - 1) <= mpf(found)


def test_both_directions_of_a_pair_count_in_its_divergence() -> None:
    """A rare loss of 3 is worse removed than added, a common one of -3 the other way round."""
    p, q = np.array([0.6, 0.4]), np.array([0.98, 0.02])
    pair = PointPair(np.log(p / q), p, q)
    orders = np.array([2.0, 8.0])
    for one in (pair, pair.reversed()):
        both = one.two_sided_rdp(orders)
        for a, b in ((p, q), (q, p)):
            exact = [math.log(float((a**order * b ** (1 - order)).sum())) / (order - 1) for order in orders]
            assert np.all(both >= np.array(exact) * (1 - 1e-12))


def test_points_that_are_known_by_their_mass_alone_are_rounded_up() -> None:
    """Q-mass underflows: E_P X^{β−1} in mpmath; a P-mass below the normal numbers may be as large as the smallest."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        losses, p = np.sort(rng.uniform(750, 900, 4)), rng.random(4) / 8
        p[0] *= 1e-320 if rng.random() < 0.5 else 1.0
        pair = PointPair(losses, p, np.zeros(4))
        known = np.maximum(p, SMALLEST_NORMAL)
        for power in rng.uniform(1.0, 1.4, 3):
            exact = mpmath.fsum(
                mpf(x) * mpmath.exp((mpf(power) - 1) * mpf(at)) for x, at in zip(known, losses, strict=True)
            )
            assert mpf(float(pair._faint_excess(np.array([power]), p > 0)[0])) >= mpmath.log(exact)
        alone = pair._faint_excess(np.array([2.0]), np.array([True, False, False, False]))[0]
        assert mpf(float(alone)) >= mpmath.log(mpf(known[0])) + mpf(losses[0])


def test_what_lies_outside_a_turned_window_pays_for_its_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logarithms of tails that err by a thousandth of themselves, as is charged; the formula without them is below."""
    asked: list[np.ndarray] = []
    true = turned.log_ndtr

    def tail(x: np.ndarray) -> np.ndarray:
        asked.append(np.asarray(x))
        value = np.asarray(true(x))
        return value - 0.9e-3 * np.abs(value)

    monkeypatch.setattr(turned, "log_ndtr", tail)
    monkeypatch.setattr(turned, "_ROUNDED", 1e-3)
    for mu, rate, power in ((0.7, 0.1, 3.0), (1.5, 0.4, 8.0), (0.2, 0.02, 30.0), (0.7, 0.1, -2.0)):
        _, last, outside = TurnedGaussian(mu, rate).window(np.array([power]))
        found = float(outside[0])
        (first, second), gamma, q = (float(np.ravel(x)[0]) for x in asked[-2:]), mpf(max(power, 1 - power)), mpf(rate)
        up, down = (1 - q + q * mpmath.exp(sign * mpf(mu) * (mpf(mu) - second) - mpf(mu) ** 2 / 2) for sign in (1, -1))
        assert mpmath.log(up / down) <= last
        beyond = (1 - q) ** (1 - gamma) * mpmath.exp(gamma * (gamma - 1) * mpf(mu) ** 2 / 2) * mpmath.ncdf(mpf(first))
        assert found >= mpmath.log(beyond + (gamma - 1) * mpmath.ncdf(mpf(second)))


@pytest.mark.parametrize("mu", [0.05, 1.3, 9.5, 20.0, 35.0])
def test_the_place_of_a_turned_loss_has_that_loss(mu: float) -> None:
    """Also where e^{μ²/2} or e^{l/2} is left to logarithms."""
    for rate in (1e-6, 0.1, 0.9):
        losses = np.array([-30.0, -1e-3, 1e-6, 0.4, 7.0, 95.0, 150.0])
        for loss, x in zip(losses, TurnedGaussian(mu, rate)._place(losses), strict=True):
            q, m, at = mpf(rate), mpf(mu), mpf(float(x))
            up, down = (1 - q + q * mpmath.exp(sign * m * at - m * m / 2) for sign in (1, -1))
            assert abs(mpmath.log(up / down) - loss) <= 1e-13 * (1 + abs(loss) + mu * abs(x))
