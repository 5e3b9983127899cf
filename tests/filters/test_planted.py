"""Cells of a Gaussian on their ends, in exact arithmetic, and with errors planted where they are allowed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.filters import edge_losses, mixture, transforms
from dpcalc.filters.buckets import Buckets
from dpcalc.rounding import UNIT

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
    """Masses that err by a thousandth of themselves, and say so to the last digit: the rest rounds, and is paid too."""
    chosen = random.Random(3)
    cells = [
        (left, left + chosen.uniform(0.3, 3), chosen.uniform(0.05, 4))
        for left in (chosen.uniform(-4, 3) for _ in range(12))
    ]
    for left, right, m in ((-1.0, 0.5, 0.7), (0.3, 1.5, 1.2), (-2.0, -1.0, 0.05), (-1.0, 6.0, 8.0), *cells):
        offs = iter((mass_off, moved_off))

        def between(a: np.ndarray, b: np.ndarray, offs: Iterator[int] = offs) -> tuple[np.ndarray, np.ndarray]:
            mass = float(mpmath.ncdf(mpf(float(b[0]))) - mpmath.ncdf(mpf(float(a[0]))))
            return np.array([mass * (1 + 1e-3 * next(offs))]), np.array([mass * 1e-3 * (1 + 4e-15)])

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


def test_a_slope_that_may_rise_is_no_reason_to_look_at_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of α = 3, all is spent at the other order: the minimum, at ℓ − ε = log(3/2), is −0.01; losses end behind it."""
    epsilon, delta, least = 10.0, 1e-3, math.log(1.5)
    both = mixture.Mixture(epsilon, delta, (1.5, 3.0), (0.5, 0.5))
    spent = np.array([[1e3], [epsilon + least + (math.log(3 * delta / 2) + 0.01) / 2]])
    end = np.array([least + 0.2])
    assert both._excess(end, spent).value[0] > 0 > both._excess(np.array([least]), spent).value[0]
    rises = 2 - 1 / math.expm1(float(end[0]))
    exact = mixture.Mixture._excess

    def unsure(*given: Any) -> mixture._Excess:
        found = exact(*given)
        return mixture._Excess(found.value, found.slope - 1.5 * rises, np.full(1, 2 * rises))

    monkeypatch.setattr(mixture.Mixture, "_excess", unsure)
    assert not both._holds(spent, epsilon + end)[0]


def distance(change: complex, logarithm: complex) -> mpmath.mpf:
    """How far log(1 + change) is off, whole turns aside: the angle is to be continuous along the edges."""
    off = mpmath.log(1 + mpmath.mpc(change)) - mpmath.mpc(logarithm)
    return abs(off - 2j * mpmath.pi * mpmath.nint(off.imag / (2 * mpmath.pi)))


@pytest.mark.parametrize("wrong", [0.0, 1e-6])
@pytest.mark.parametrize("units", [0, 4])
def test_logarithms_err_as_they_say(wrong: float, units: int, erring: Callable[..., None]) -> None:
    """Functions that err by four units in their last place, changes that err by as much as is told."""
    rng = np.random.default_rng(4)
    errors = dict.fromkeys(("angle", "log1p", "log"), 2 * units * UNIT)
    erring(transforms, "np", **errors)
    turned = np.exp(1j * rng.uniform(-3, 3, 60))
    changes = np.concatenate(
        [turned[:30] * rng.uniform(0.01, 1, 30) - 1, turned[30:] * 10 ** rng.uniform(-5, -0.4, 30)]
    )
    planted = (changes + wrong * np.exp(1j * rng.uniform(-3, 3, 60)))[None, :]
    table = transforms._chained(np.zeros(1, dtype=np.int64), planted, np.zeros(1), np.full((1, 60), 1.01 * wrong))
    for change, found, error in zip(changes, table.logs[0], table.errors[0], strict=True):
        assert distance(complex(change), complex(found)) <= mpf(float(error))


def test_angles_that_turn_often_err_as_they_say() -> None:
    rng = np.random.default_rng(5)
    turns = np.exp(1j * np.cumsum(rng.uniform(1.5, 2.9, 200)))
    changes = (turns * rng.uniform(0.5, 1, 200) - 1)[:, None]
    table = transforms._chained(np.zeros(1, dtype=np.int64), changes, np.zeros(200), np.zeros((200, 1)))
    assert table.logs[-1, 0].imag > 300
    for change, found, error in zip(changes[:, 0], table.logs[:, 0], table.errors[:, 0], strict=True):
        assert distance(complex(change), complex(found)) <= mpf(float(error))


@pytest.mark.parametrize("off", [-0.99, 0.0, 0.99])
def test_the_least_value_is_below_that_of_every_place(off: float) -> None:
    """ax − log(1 − e^{−x}) + c is least at log(1 + 1/a); its slope at one place is off by as much as is told."""
    chosen = random.Random(f"least {off}")
    for _ in range(300):
        a, x = 10 ** chosen.uniform(-2, 3), 10 ** chosen.uniform(-3, 1.5)
        c = chosen.uniform(-5, 5)
        steep = mpf(a) - 1 / mpmath.expm1(mpf(x))
        doubt = a * 10 ** chosen.uniform(-6, -1) if off else 0.0
        slope = float(steep + off * mpf(doubt))
        told = math.nextafter(max(doubt, float(abs(mpf(slope) - steep))), math.inf)
        value = float(mpf(c) + mpf(a) * mpf(x) - mpmath.log(-mpmath.expm1(-mpf(x))))
        excess = mixture._Excess(*(np.array([each]) for each in (math.nextafter(value, -math.inf), slope, told)))
        lowest = mpmath.log1p(1 / mpf(a))
        exact = mpf(c) + mpf(a) * lowest - mpmath.log(-mpmath.expm1(-lowest))
        assert mpf(float(excess.least(np.array([x]))[0][0])) <= exact
