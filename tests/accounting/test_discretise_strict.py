"""*Discretise* step by step in exact arithmetic: each result is on its side of the truth, without slack."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.certified import discretise
from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, UPPER
from dpcalc.accounting.certified.read import curve
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.points import PointPair
from dpcalc.rounding import UNIT

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def fractions(values: Any) -> list[Fraction]:
    return [Fraction(float(value)) for value in np.asarray(values).ravel()]


# Discretising


def test_joined_cells_own_up_to_their_sums() -> None:
    generator = np.random.default_rng(9)
    for _ in range(100):
        halves = Cells(*generator.random((4, 1, 6)))
        joined = discretise._joined(halves)
        for mass, error in ((0, 2), (1, 3)):
            for k, (left, right) in enumerate(((1, 2), (3, 4)), start=1):
                exact = Fraction(halves[mass][0, left]) + Fraction(halves[mass][0, right])
                told = Fraction(halves[error][0, left]) + Fraction(halves[error][0, right])
                assert Fraction(joined[error][0, k]) >= told + abs(Fraction(joined[mass][0, k]) - exact)
    tiny = discretise._joined(Cells(*generator.random((2, 1, 6)), *np.full((2, 1, 6), 1e-300)))
    assert np.all(tiny.p_error[0, 1:-1] >= tiny.p[0, 1:-1] * UNIT)


def test_what_surely_is_infinite_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(10)
    for _ in range(60):
        masses, rates = generator.random((2, 5))
        pairs = [PointPair(np.array([0.0]), np.ones(1), np.ones(1)) for _ in masses]
        found = iter([(float(mass), float(mass)) for mass in masses])
        monkeypatch.setattr(PointPair, "surely_infinite", lambda _, found=found: next(found))
        infinite, zero = discretise._surely(pairs, [*rates[:-1].tolist(), 1.0])
        rates[-1] = 1.0
        assert mpf(infinite) <= -mpmath.fsum(
            mpmath.log1p(-mpf(float(r)) * mpf(float(m))) for r, m in zip(rates, masses, strict=True)
        )
        assert mpf(zero) <= -mpmath.log1p(-mpf(float(masses[-1])))


def test_cells_too_faint_for_q_are_given_up_with_their_errors() -> None:
    """At rate .5 half of the Q-mass, which is nearly nothing, and half of the P-mass."""
    generator = np.random.default_rng(11)
    for _ in range(60):
        p, p_error = generator.random((1, 6)) / 10, generator.random((1, 6)) / 100
        b, b_error = np.full((1, 6), 1e-310), np.full((1, 6), 1e-311)
        exact = sum(fractions(p[0, 1:-1] * 0)) + sum(fractions(p[0, 1:-1])) + sum(fractions(p_error[0, 1:-1]))
        infinite, zero = discretise._without_faint(
            Cells(p.copy(), b.copy(), p_error.copy(), b_error.copy()), np.array([[0.5]])
        )
        assert Fraction(infinite) >= exact / 2
        assert zero >= 4.4e-310 * (1 - 1e-12)
    small = discretise._without_faint(
        Cells(np.zeros((1, 3)), np.full((1, 3), 1e-310), np.zeros((1, 3)), np.full((1, 3), 1e-310)), np.array([[1e-9]])
    )
    assert small[0] >= 1.9e-310


def ends(p: Any, b: Any, p_error: Any = 0.0, b_error: Any = 0.0, rate: float = 1.0) -> tuple[float, float, Any, Any]:
    """Points ½, 1 and 2 of Z, for which log X is told."""
    z = np.array([[0.5, 1.0, 2.0]])
    cells = Cells(*(np.broadcast_to(np.asarray(c, dtype=np.float64), (1, 4)).copy() for c in (p, b, p_error, b_error)))
    x = 1 - rate + rate * z[0]
    infinite, zero, at_first, at_last = discretise._ends(cells, z, np.array([[rate]]), np.log(x))
    return infinite, zero, float(at_first[0]), float(at_last[0])


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_what_lies_outside_is_split_onto_the_ends_with_its_errors(rate: float) -> None:
    p, b = [0.1, 0.3, 0.3, 0.3], [0.3, 0.3, 0.3, 0.1]
    first, last = 1 - rate + rate * 0.5, 2.0
    for p_error, b_error in ((0.01, 0.0), (0.0, 0.01)):
        for p_off, b_off in ((p_error, b_error), (-p_error, -b_error)):
            left_p = (1 - rate) * (0.3 + b_off) + rate * (0.1 + p_off)
            infinite, zero, at_first, at_last = ends(p, b, p_error, b_error, rate)
            assert at_first >= left_p / first * (1 - 1e-15)
            assert zero >= (0.3 + b_off) - left_p / first - 1e-15
            assert at_last >= 0.1 + b_off
            assert infinite >= rate * ((0.3 + p_off) - (0.1 + b_off) * last) - 1e-15


def test_ends_are_rounded_up() -> None:
    generator = np.random.default_rng(12)
    for _ in range(100):
        p, b = generator.random((2, 4)) / 10
        p_error, b_error = generator.random((2, 4)) * 1e-3
        p[1] += 1 - p.sum()
        b[1] += 1 - b.sum()
        infinite, zero, at_first, at_last = ends(p, b, p_error, b_error)
        p0, b0 = (Fraction(m[0]) + Fraction(e[0]) for m, e in ((p, p_error), (b, b_error)))
        assert Fraction(at_first) >= 2 * p0
        assert Fraction(at_last) >= Fraction(b[3]) + Fraction(b_error[3])
        assert Fraction(zero) >= b0 - 2 * max(Fraction(p[0]) - Fraction(p_error[0]), 0)
        spared = 2 * max(Fraction(b[3]) - Fraction(b_error[3]), 0)
        assert Fraction(infinite) >= Fraction(p[3]) + Fraction(p_error[3]) - spared


def test_what_is_spared_pays_for_the_rounding_of_points() -> None:
    """Points that are off by the thousand units that are allowed: p - bz and b - p/z without anything else."""
    exact = ends([0.2, 0.3, 0.3, 0.2], [0.4, 0.25, 0.25, 0.1])
    off = 0.9 * discretise._OUTSIDE
    assert exact[0] >= 0.2 - 0.1 * 2 * (1 - off)
    assert exact[1] >= 0.4 - 0.2 * 2 * (1 - off)
    below = discretise._ends(
        Cells(*(np.array([column]) for column in ([0.1, 0.2, 0.7], [0.1, 0.2, 0.7], [0.0] * 3, [0.0] * 3))),
        np.array([[-0.5, -0.25]]), np.array([[0.3]]), np.log(np.array([0.55, 0.625])),
    )  # fmt: skip
    assert below[0] >= 0.3 * (0.7 + 0.7 * 0.25 * (1 + off))


def test_lower_masses_are_off_by_what_is_told() -> None:
    """L9, `slack`: P-mass (1-q)b + qp in exact arithmetic, with both masses off as far as they may be."""
    generator = np.random.default_rng(13)
    for _ in range(60):
        p, b = generator.uniform(0.3, 1, (2, 1, 3))
        p_error, b_error = generator.choice([0.0, 1e-9, 3e-8], (2, 1, 3))
        q = float(generator.choice([1.0, 0.3, 1e-3]))
        mixed, kept, slack = discretise._known(Cells(p, b, p_error, b_error), np.array([[q]]))
        exact = Fraction(slack)
        for k in range(3):
            off = (1 - Fraction(q)) * Fraction(b_error[0, k]) + Fraction(q) * Fraction(p_error[0, k])
            truth = (1 - Fraction(q)) * Fraction(b[0, k]) + Fraction(q) * Fraction(p[0, k])
            assert abs(Fraction(mixed[0, k]) - truth) + off <= exact * Fraction(mixed[0, k])
            assert Fraction(b_error[0, k]) <= exact * Fraction(kept[0, k])


def test_mass_that_is_missing_within_errors_is_not_charged() -> None:
    """Masses that rounding or what is told explains are all there: pure losses stay pure."""
    third = [1 / 3, 1 / 3, 1 / 3 - 2.0**-53, 0.0]
    assert ends(third, third)[:2] == (0.0, 0.0)
    lacking = [0.0, 0.5, 0.49, 0.0]
    infinite, zero, *_ = ends(lacking, lacking, [0.0, 0.01, 0.01, 0.0], [0.0, 0.01, 0.01, 0.0])
    assert (infinite, zero) == (0.0, 0.0)
    assert ends(lacking, lacking)[0] >= 0.01


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_missing_mass_is_at_both_ends(rate: float) -> None:
    """L8: of Q-mass that is missing 1 - q is missing from P, which is at ∞ as is q of what P lacks."""
    infinite, zero, *_ = ends([0.0, 0.5, 0.25, 0.0], [0.0, 0.5, 0.375, 0.0], rate=rate)
    assert Fraction(infinite) >= Fraction(rate) / 4 + (1 - Fraction(rate)) / 8
    assert zero >= 0.125


# The ledger


class Told(Pair):
    """A coin of losses ±1 that tells of its masses how far they may be off."""

    def __init__(self, error: float = 0.0) -> None:
        self.error = error

    def masses(self, edges: Any) -> tuple[Any, Any]:
        losses, p = np.array([-1.0, 1.0]), 1 / (1 + np.exp([1.0, -1.0]))
        return PointPair(losses, p, p[::-1]).masses(edges)

    def cells(self, edges: Any) -> Cells:
        p, q = self.masses(edges)
        return Cells(p, q, p * self.error, q * self.error)


@pytest.mark.parametrize("tilt", [0.5, 7.3, -2.0])
@pytest.mark.parametrize("laws", [1, 3])
def test_the_rounding_of_scales_is_charged(monkeypatch: pytest.MonkeyPatch, tilt: float, laws: int) -> None:
    """L10, `relative` and `slack`: e^{τℓ} and sums of two ends, at exact points; no error of masses is told."""
    seen, made = [], discretise._component

    def watched(*asked: Any) -> Any:
        seen.append(asked[3])
        return made(*asked)

    monkeypatch.setattr(discretise, "_component", watched)
    law = discretise.discretised([Told()] * laws, 0.25, ((-160, 160),), tilt)
    ((columns,), (part,)) = seen, law.components.values()
    rows = part.rows.reshape(laws, 3, -1)
    worst: dict[int, Any] = {}
    for row, power in ((UPPER, tilt), (P_LOWER, mpf(tilt) - 1), (Q_LOWER, tilt)):
        down, up = columns[row]
        for k in range(1, part.size - 1):
            exact = (mpf(float(down[0, k])) + mpf(float(up[0, k - 1]))) * mpmath.exp(mpf(power) * (k - 160) / 4)
            if exact > 1e-200:
                off = abs(mpf(float(rows[0, row, k])) / exact - 1)
                worst[row] = max(worst.get(row, mpf(0)), off)
    assert law.ledger.relative >= laws * worst[UPPER] > 0
    assert law.ledger.slack >= laws * max(worst[P_LOWER], worst[Q_LOWER]) > 0


def test_errors_of_lower_masses_are_charged() -> None:
    """L9, `slack`: what a pair tells of its cells, for every law of a batch."""
    told = discretise.discretised([Told(1e-9), Told(3e-9)], 0.25, ((-8, 8),)).ledger.slack
    assert told >= 4e-9
    assert discretise.discretised([Told(), Told()], 0.25, ((-8, 8),)).ledger.slack < 1e-13


def test_what_is_too_faint_for_cells_is_at_both_ends() -> None:
    """L9: P-mass of 2e-25 at a loss of 640, where Q has less than doubles hold, stands in the ledger."""
    q = 1e-307
    p = q * float(np.exp(640.0))
    pair = PointPair(np.array([0.0, 640.0]), np.array([1 - p, p]), np.array([1 - q, q]))
    ledger = discretise.discretised([pair], 50.0, ((-13, 13),)).ledger
    assert ledger.infinite >= p
    assert ledger.zero >= q


@pytest.mark.parametrize("tilt", np.linspace(2.44, 2.479, 14))
def test_weights_below_the_range_of_doubles_neither_bound_nor_vanish(tilt: float) -> None:
    """L10, `lost`: half of Q is at a loss of 300 and weighs e^{-300τ}, which is a number of few digits or none."""
    x = mpmath.exp(-300)
    pair = PointPair(np.array([-300.0, np.log(2)]), np.array([float(x / 2), 1.0]), np.array([0.5, 0.5]))
    law = discretise.discretised([pair], 100.0, ((-6, 6),), tilt)
    for epsilon in (0.0, 100.0, 250.0):
        exact = (1 - mpmath.exp(epsilon) * x) / 2
        assert mpf(curve(law, "add", upper=True).delta(epsilon)) >= exact
        assert mpf(curve(law, "add", upper=False).delta(epsilon)) <= exact
