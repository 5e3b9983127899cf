"""Cells of a Gaussian on their ends, in exact arithmetic, and with errors planted where they are allowed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.filters import edge_losses, mixture
from dpcalc.filters.buckets import Buckets

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def exact_split(left: float, right: float, m: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The Q-mass of a cell of N(0) on its two ends, so that Q- and P-mass, that of N(m), stay what they are."""
    a, b, m = mpf(left), mpf(right), mpf(m)
    mass = mpmath.ncdf(b) - mpmath.ncdf(a)
    moved = (mpmath.ncdf(b - m) - mpmath.ncdf(a - m)) * mpmath.exp(-m * (a - m / 2))
    upper = (moved - mass) / mpmath.expm1(m * (b - a))
    return mass - upper, upper


def test_narrow_cells_have_no_less_on_either_end() -> None:
    chosen = random.Random(1)
    for _ in range(60):
        left, m = chosen.uniform(-5, 5), chosen.uniform(0.01, 2)
        right = left + chosen.uniform(0.01, 0.9) / (abs(left) + m + 5)
        found = edge_losses._narrow(np.array([left]), np.array([right]), np.array([m]))
        for ours, exact in zip(found, exact_split(left, right, m), strict=True):
            assert exact <= mpf(float(ours[0])) <= exact * (1 + mpf("1e-11"))


@pytest.mark.parametrize(("mass_off", "moved_off"), list(itertools.product((-1, 0, 1), repeat=2)))
def test_wide_cells_pay_for_their_distribution_functions(
    monkeypatch: pytest.MonkeyPatch, mass_off: int, moved_off: int
) -> None:
    """Masses that err by a thousandth of themselves, and say so: neither end has less than the truth."""
    for left, right, m in ((-1.0, 0.5, 0.7), (0.3, 1.5, 1.2), (-2.0, -1.0, 0.05), (-1.0, 6.0, 8.0)):
        offs = iter((mass_off, moved_off))

        def between(a: np.ndarray, b: np.ndarray, offs: Iterator[int] = offs) -> tuple[np.ndarray, np.ndarray]:
            mass = float(mpmath.ncdf(mpf(float(b[0]))) - mpmath.ncdf(mpf(float(a[0]))))
            return np.array([mass * (1 + 0.99e-3 * next(offs))]), np.array([mass * 1e-3])

        monkeypatch.setattr(edge_losses, "_between", between)
        found = edge_losses._wide(np.array([left]), np.array([right]), np.array([m]))
        for ours, exact in zip(found, exact_split(left, right, m), strict=True):
            assert mpf(float(ours[0])) >= exact


def test_the_last_bucket_holds_the_clip() -> None:
    chosen = random.Random(2)
    for _ in range(100):
        clip, sigma = chosen.uniform(0.1, 3), chosen.uniform(1, 9)
        buckets = Buckets(sigma=sigma, clip=clip, tolerance=1e-9)
        assert Fraction(float(buckets.edges[-1])) >= Fraction(clip) * (1 + Fraction(1e-9)) / Fraction(sigma)


def test_tangents_cross_no_higher_than_their_slopes_allow() -> None:
    """(x - 1)² + 0.1 at 0 and at 2.5, the slopes off by as much as they may be: below the true crossing at -1.4."""
    off = np.array([0.05])
    for left_off, right_off in itertools.product((-1, 1), repeat=2):
        left = mixture._Excess(np.array([1.1]), np.array([-2.0]) + left_off * off, off)
        right = mixture._Excess(np.array([2.35]), np.array([3.0]) + right_off * off, off)
        _, height = mixture._crossing(left, right, np.array([2.5]))
        assert height[0] <= -1.4 + 1e-12
