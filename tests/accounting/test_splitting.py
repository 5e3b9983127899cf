"""Cells moved onto their ends, against what they may truly hold: above it for every threshold, without slack.

The truth has its masses as far off as is told and its ends where rounded logarithms may have put them. It lies on
both ends of its cell; what was computed has E(Y − t)⁺ at least as large for all t (removing), and E(t − Y)⁺ (adding),
if it has so at the corners of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcalc.accounting.certified import discretise
from dpcalc.pairs.cells import Cells
from dpcalc.rounding import UNIT

LOGARITHM = 4 * mpf(UNIT)  # of log, exp and expm1, relatively


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def beyond(weights: Any, points: Any, t: Any, sign: int) -> Any:
    return sum(weight * max(sign * (point - t), 0) for weight, point in zip(weights, points, strict=True))


def points_of(edges: Any, rate: float) -> Any:
    """Z at the points of a grid of log X, as the engine computes it."""
    return np.exp(edges)[None] + np.expm1(edges)[None] * ((1 - rate) / rate)


def split(cells: Cells, edges: Any, rate: float) -> tuple[Any, Any, Any]:
    """Weights on both ends of all cells, raised as reading raises them, and how far reading moves the points."""
    z, q = points_of(edges, rate), np.array([[rate]])
    alone = np.zeros(cells.p.shape, dtype=bool)
    (down, up), rho, eta = discretise._split(Cells(*(c.copy() for c in cells)), z, q, edges, alone)
    raised = 1 + 2 * (mpf(rho) + mpf(eta))
    return [[mpf(float(w)) * raised for w in pair] for pair in zip(down[0], up[0], strict=True)], mpf(eta), (down, up)


def assert_above(
    cells: Cells, edges: Any, rate: float, *, logarithm: Any = LOGARITHM, told: Cells | None = None
) -> None:
    """What is computed of cells is above every pair of masses that their errors allow, in both directions.

    `told` is what the engine is given, if that is not the same.
    """
    z = points_of(edges, rate)
    found, eta, _ = split(told or cells, edges, rate)
    checked = 0
    for k, (p_off, q_off) in product(range(len(found)), product((-1, 0, 1), repeat=2)):
        p, b = (
            mpf(float(mass[0, k])) + off * mpf(float(error[0, k]))
            for mass, error, off in ((cells.p, cells.p_error, p_off), (cells.q, cells.q_error, q_off))
        )
        ends = [mpf(float(z[0, k])), mpf(float(z[0, k + 1]))]
        slips = [logarithm * abs(mp.log(abs(end))) for end in ends]
        low, high = ends[0] * mp.exp(-slips[0]), ends[1] * mp.exp(slips[1])
        if not (b > 0 and max(low, 0) <= p / b <= high):
            continue
        checked += 1
        upper = (p - b * low) / (high - low)
        truth = [1 - mpf(rate) + mpf(rate) * end for end in (low, high)]
        places = [mpf(float(edge)) for edge in edges[k : k + 2]]
        for sign in (1, -1):
            points = [mp.exp(place + sign * (eta - mpf(UNIT) * abs(place))) for place in places]
            for t in (mpf(0), *truth, *points):
                assert beyond(found[k], points, t, sign) >= beyond([b - upper, upper], truth, t, sign)
    assert checked


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-4])
@pytest.mark.parametrize("told", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize(("first", "step"), [(-6, 0.1), (1, 1e-3), (1000, 0.03), (-8, 2.0)])
@pytest.mark.parametrize("near", [0.0, 1e-5])
def test_cells_on_their_ends_are_above_the_truth(
    rate: float, told: float, first: int, step: float, near: float
) -> None:
    rng = np.random.default_rng(4)
    edges = np.arange(first, first + 12) * step
    edges = edges[np.expm1(edges) / rate > -1]
    z = points_of(edges, rate)
    if edges.size < 3 or not (np.diff(z) > 0).all():
        pytest.skip("no ratio so far below 1 at this rate")
    share = rng.uniform(0.05, 0.95, z[:, 1:].shape) if near == 0 else np.full(z[:, 1:].shape, near)
    size = rng.random(share.shape)
    mass = size * (z[:, :-1] + share * np.diff(z))
    assert_above(Cells(mass, size, told * mass, told * size), edges, rate)


def test_cells_of_errors_alone_are_above_what_they_may_hold() -> None:
    """Nothing was found in the last cell, which ends where logarithms round most, but something may be there."""
    edges = np.array([-0.1, 0.1, 50.0, 51.0])
    z = points_of(edges, 1.0)
    size = np.array([[1.0, 0.0, 0.0]])
    mass = size * (z[:, :-1] + z[:, 1:]) / 2
    error = np.array([[0.0, 0.0, 1e-25]])
    assert_above(Cells(mass, size, error * z[:, 1:], error), edges, 1.0)


@pytest.mark.parametrize("height", [-0.4, -0.2])
def test_cells_of_errors_alone_around_zero_are_above_what_they_may_hold(height: float) -> None:
    """At rate ½ ratios below ½ are negative in Z, where nothing is; Z = 0 is inside of a cell that starts there."""
    edges = np.array([-1.0, height, 0.0, 0.3])
    z = points_of(edges, 0.5)
    size = np.array([[0.0, 0.5, 0.5]])
    error = np.array([[1e-9, 0.0, 0.0]])
    assert_above(Cells(size * (z[:, :-1] + z[:, 1:]) / 2, size, error * z[:, 1:], error), edges, 0.5)


def test_masses_that_lost_digits_are_paid_for() -> None:
    """L9: P-masses near 2⁻¹⁰²² are known up to 2⁻¹⁰¹⁸, whatever a pair tells."""
    edges = np.array([-61.0, -60.0, -59.0])
    size, lost = np.array([[1e-280, 1e-280]]), np.full((1, 2), 2.0**-1018)
    mass, nothing = np.array([[4e-307, 1e-306]]), np.zeros((1, 2))
    told = Cells(mass, size, nothing, nothing)
    assert_above(Cells(mass, size, lost, nothing), edges, 1.0, told=told)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_rounding_of_means_is_paid_for(monkeypatch: pytest.MonkeyPatch, sign: int) -> None:
    """L9: means that are off by 32 units, here of 1e-9 each, and points that are not off at all."""
    unit, clip = 1e-9, np.clip
    edges = np.arange(-6, 6) * 0.1
    z = points_of(edges, 1.0)
    rng = np.random.default_rng(5)
    size = rng.random((1, 11))
    mass = size * (z[:, :-1] + rng.uniform(0.05, 0.95, size.shape) * np.diff(z))
    monkeypatch.setattr(discretise, "UNIT", unit)
    monkeypatch.setattr(discretise, "_POINTS", 0)
    monkeypatch.setattr(np, "clip", lambda mean, low, high: clip(mean * (1 + sign * 31 * unit), low, high))
    assert_above(Cells(mass, size, 0 * mass, 0 * size), edges, 1.0, logarithm=mpf(0))


def test_the_most_that_a_point_can_have_is_rounded_up() -> None:
    """A cell may have all of its mass on one end: as much as was found in it, and the error."""
    rng = np.random.default_rng(6)
    edges = np.array([0.0, 1e-3])
    for _ in range(100):
        size, error = rng.random((1, 1)) * 1e-3, rng.random((1, 1))
        _, _, (down, up) = split(Cells(size * 1.0001, size, error, error), edges, 1e-3)
        for weight in (down, up):
            assert Fraction(float(weight[0, 0])) >= Fraction(float(size[0, 0])) + Fraction(float(error[0, 0]))
