"""Every entry of the ledger of sums, in exact arithmetic: what a stage says is at least what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.sums import terms as terms_module
from dpcalc.pairs.sums.allocated import BoundPair, lower_pair, upper_pair
from dpcalc.pairs.sums.law import P_LOWER, Q_LOWER, RATIO, UPPER, Part, SumLaw
from dpcalc.pairs.sums.terms import terms
from dpcalc.rounding import SMALLEST_NORMAL, UNIT

DRAWS = 100
mpf = mpmath.mpf


def fractions(values: Any) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def law_of(rows: Any, **entries: Any) -> SumLaw:
    return SumLaw(0.25, {0: Part(3, np.asarray(rows))}, **entries)


def random_law(generator: np.random.Generator, size: int = 6) -> SumLaw:
    names = ("infinite", "gone_p", "gone_q")
    return law_of(generator.random((3, size)) / size, **dict(zip(names, generator.random(3), strict=True)))


def test_sums_add_up_what_is_infinite_and_what_is_gone() -> None:
    generator = np.random.default_rng(1)
    for _ in range(DRAWS):
        x, y = random_law(generator), replace(random_law(generator), count=2)
        both = x.plus(y)
        assert Fraction(both.gone_p) >= Fraction(x.gone_p) + Fraction(y.gone_p)
        assert Fraction(both.gone_q) >= Fraction(x.gone_q) + Fraction(y.gone_q)
        assert Fraction(both.infinite) >= (Fraction(x.infinite) + 2 * Fraction(y.infinite)) / 3


def exact_convolution(x: Part, y: Part) -> list[Fraction]:
    a, b = fractions(x.rows[UPPER]), fractions(y.rows[UPPER])
    out = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, u in enumerate(a):
        for j, v in enumerate(b):
            out[i + j] += u * v
    return out


def test_sums_are_rounded_by_no_more_than_they_say() -> None:
    generator = np.random.default_rng(2)
    x, y = random_law(generator, 60), random_law(generator, 80)
    both = x.plus(y)
    found = fractions(both.parts[0].rows[UPPER])
    errors = [abs(a - b) / b for a, b in zip(found, exact_convolution(x.parts[0], y.parts[0]), strict=True)]
    assert 0 < max(errors) <= Fraction(both.relative)
    told = replace(x, relative=1e-3).plus(replace(y, relative=2e-3))
    assert Fraction(told.relative) >= Fraction(1e-3) + Fraction(2e-3) + max(errors)


def test_what_underflow_takes_is_told_and_passed_on() -> None:
    generator = np.random.default_rng(3)
    faint = law_of(generator.random((3, 6)) * 1e-158)
    both = faint.plus(faint)
    found = fractions(both.parts[0].rows[UPPER])
    missing = sum(exact_convolution(faint.parts[0], faint.parts[0])) - sum(found)
    assert 0 < abs(missing) <= Fraction(both.lost)
    x, y = random_law(generator), random_law(generator)
    for a, b in ((replace(x, lost=0.25), y), (x, replace(y, lost=0.25))):
        total = max(sum(fractions(row)) for row in (y if a.lost else x).parts[0].rows)
        assert Fraction(a.plus(b).lost) >= total / 4


def test_coarser_weights_are_rounded_by_no_more_than_they_say() -> None:
    generator = np.random.default_rng(4)
    for _ in range(DRAWS):
        law = law_of(generator.random((3, 9)))
        coarse = law.coarsened(0, 9, 0)
        weights = fractions(law.parts[0].rows[UPPER])
        exact = [Fraction(0)] * coarse.parts[1].size
        for k, weight in enumerate(weights):
            low, share = divmod(3 + k, RATIO)
            exact[low - coarse.parts[1].start] += weight * (1 - Fraction(share, RATIO))
            if share:
                exact[low + 1 - coarse.parts[1].start] += weight * Fraction(share, RATIO)
        for found, truth in zip(fractions(coarse.parts[1].rows[UPPER]), exact, strict=True):
            assert abs(found - truth) <= truth * Fraction(coarse.relative)


def test_what_is_cut_off_is_rounded_up() -> None:
    generator = np.random.default_rng(5)
    for _ in range(DRAWS):
        law = replace(random_law(generator), count=5)
        weights, values = fractions(law.parts[0].rows[UPPER]), [Fraction(3 + k, 4) for k in range(6)]
        left = law.without_left(0, 2)
        assert Fraction(left.gone_q) >= Fraction(law.gone_q) + sum(weights[:2])
        assert Fraction(left.gone_p) >= Fraction(law.gone_p) + sum(weights[:2])
        right = law.without_right(0, 2)
        beyond = sum(w * (v - values[3]) for w, v in zip(weights[4:], values[4:], strict=True)) / 5
        assert Fraction(right.infinite) >= Fraction(law.infinite) + beyond
        gathered = Fraction(float(right.parts[0].rows[UPPER, -1]))
        assert abs(gathered - sum(weights[3:])) <= sum(weights[3:]) * Fraction(right.relative)
        told = replace(law, relative=0.01, gone_q=0.0).without_left(0, 3)
        assert Fraction(told.gone_q) >= sum(weights[:3]) * Fraction(101, 100)


def test_what_was_gone_before_is_not_lost_in_a_sum() -> None:
    generator = np.random.default_rng(11)
    for _ in range(DRAWS):
        law = replace(random_law(generator), gone_p=float(generator.random()), gone_q=float(generator.random()))
        law = replace(law, parts={0: Part(3, law.parts[0].rows / 1000)})
        cut, weight = law.without_left(0, 2), sum(fractions(law.parts[0].rows[UPPER, :2]))
        assert Fraction(cut.gone_q) >= Fraction(law.gone_q) + weight
        assert Fraction(cut.gone_p) >= Fraction(law.gone_p) + weight


def test_a_long_sum_may_lose_many_units() -> None:
    """One large weight swallows one in eight of many that are just below half its last place."""
    row = np.full(128, 0.99 * UNIT)
    row[0] = 1.0
    law = law_of(np.stack([row] * 3))
    found = law.without_left(0, 127).gone_q
    assert Fraction(found) >= sum(fractions(row[:127]))


# One term


class Told(Pair):
    """Masses and errors of cells as they are given, below, between and above all edges."""

    def __init__(self, p: Any, q: Any, p_error: Any = 0.0, q_error: Any = 0.0) -> None:
        self.columns = [np.asarray(column, dtype=np.float64) for column in (p, q)]
        self.errors = [np.broadcast_to(np.asarray(e, dtype=np.float64), len(p)) for e in (p_error, q_error)]

    def masses(self, edges: Any) -> Any:  # noqa: ARG002
        return self.columns[0].copy(), self.columns[1].copy()

    def cells(self, edges: Any) -> Cells:
        return Cells(*self.masses(edges), *(error.copy() for error in self.errors))


GRID = (0.25, ((4, 8),))  # points 1, 1.25, …, 2: four cells, and what is below and above


def test_what_lies_below_the_grid_is_gone_with_its_errors() -> None:
    p, q = [0.1, 0.2, 0.2, 0.2, 0.2, 0.1], [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    law = terms(Told(p, q, 0.01, 0.02), *GRID)
    assert law.gone_q >= 0.32
    assert law.gone_p >= 0.32
    low = terms(Told([0.4, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.2, 0.2, 0.2, 0.2, 0.1], 0.01, 0.0), *GRID)
    assert low.gone_p >= 0.41
    lacking = terms(Told(p, [0.1, *q[1:]]), *GRID)
    assert Fraction(lacking.gone_q) >= Fraction(1) - sum(fractions(q[1:])) - Fraction(1, 10**15)
    assert Fraction(lacking.gone_p) >= Fraction(0.1) + 1 - sum(fractions([0.1, *q[1:]])) - Fraction(1, 10**15)


def test_what_lies_above_the_grid_is_split_with_its_errors() -> None:
    """Of p and q above the last point 2, q stays there and p - 2q is infinite, whatever the errors."""
    p, q = [0.1, 0.2, 0.2, 0.1, 0.1, 0.3], [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    for p_error, q_error in ((0.01, 0.0), (0.0, 0.01)):
        law = terms(Told(p, q, p_error, q_error), *GRID)
        assert law.infinite >= (0.3 + p_error) - 2 * (0.1 - q_error)
        assert law.parts[0].rows[UPPER, -1] >= 0.1 + q_error


def test_weights_at_the_ends_are_rounded_up() -> None:
    generator = np.random.default_rng(6)
    for _ in range(DRAWS):
        p, q = generator.random((2, 6)) / 10
        p_error, q_error = generator.random((2, 6)) * 1e-3
        q[4] = p[4] = q_error[4] = p_error[4] = 0.0  # so that nothing else is on the last point
        p[-1] += 1 - p.sum()  # no mass is missing
        q[0] += 1 - q.sum()
        law = terms(Told(p, q, p_error, q_error), *GRID)
        assert Fraction(float(law.parts[0].rows[UPPER, -1])) >= Fraction(q[-1]) + Fraction(q_error[-1])
        spared = 2 * (Fraction(q[-1]) - Fraction(q_error[-1]))
        assert Fraction(law.infinite) >= Fraction(p[-1]) + Fraction(p_error[-1]) - spared
        assert Fraction(law.gone_q) >= Fraction(q[0]) + Fraction(q_error[0])
        assert Fraction(law.gone_p) >= Fraction(p[0]) + Fraction(p_error[0])
        turned = terms(Told(q, p, q_error, p_error), *GRID)
        assert Fraction(turned.gone_p) >= Fraction(q[0]) + Fraction(q_error[0])
        alone = terms(Told(p, [*q[:-2], q[-1] + q[-2], 0.0], p_error, 0.0), *GRID)
        assert Fraction(alone.infinite) >= Fraction(p[-1]) + Fraction(p_error[-1])


def weights(law: SumLaw) -> Callable[[float], float]:
    """What the law above has at a point of its finest grid."""
    part = law.parts[0]
    return lambda value: float(part.rows[UPPER, round(value / law.step) - part.start])


def test_weights_between_points_are_no_less_than_the_exact_split() -> None:
    """One cell between 1.5 and 1.75: (1.75q - p)/0.25 and (p - 1.5q)/0.25, with and without told errors."""
    generator = np.random.default_rng(7)
    for _ in range(DRAWS):
        q = float(generator.uniform(0.1, 0.5))
        p = q * float(generator.uniform(1.5, 1.75))
        for off, told in ((0.0, 0.0), (1e-3, 1.01e-3)):
            for p_sign, q_sign in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                rough_p, rough_q = p + off * p_sign, q + off * q_sign
                pair = Told(
                    [0.0, 0, 0, rough_p, 0, 0], [0.0, 0, 0, rough_q, 0, 0], told * abs(p_sign), told * abs(q_sign)
                )
                weight = weights(terms(pair, *GRID))
                down, up = (
                    (Fraction(7, 4) * Fraction(q) - Fraction(p)) * 4,
                    (Fraction(p) - Fraction(3, 2) * Fraction(q)) * 4,
                )
                assert Fraction(weight(1.5)) >= down
                assert Fraction(weight(1.75)) >= up


def test_a_mass_of_zero_may_be_one_that_doubles_cannot_hold() -> None:
    of_p = weights(terms(Told([0.0, 0, 0, 1e-290, 0, 0], [0.0, 0, 0, 0, 0, 0]), *GRID))
    assert of_p(1.5) >= 1.75e-300 / 0.25
    of_q = weights(terms(Told([0.0, 0, 0, 0, 0, 0], [0.0, 0, 0, 1e-290, 0, 0]), *GRID))
    assert of_q(1.75) >= 1e-300 / 0.25
    low = (0.25, ((1, 5),))  # a cell between 0.25 and 0.5, where Q weighs less than P
    assert weights(terms(Told([0.0] * 6, [0.0, 1e-290, 0, 0, 0, 0]), *low))(0.5) >= 1e-300 / 0.25


@pytest.mark.parametrize("told", [(1e-200, 0.0), (0.0, 1e-200)])
def test_a_speck_that_only_errors_tell_of_has_weight(told: tuple[float, float]) -> None:
    nothing, speck = [0.0] * 6, np.array([0.0, 0, 0, 1, 0, 0])
    weight = weights(terms(Told(nothing, nothing, told[0] * speck, told[1] * speck), *GRID))
    assert min(weight(1.5), weight(1.75)) >= (told[0] + 1.75 * told[1]) / 0.25


def test_errors_on_average_pay_for_the_rounding_of_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled up to a thousandth: a sum that is too small by as much."""
    masses, errors = np.full(10, 0.1), np.linspace(0.0, 1e-9, 10)
    monkeypatch.setattr(terms_module, "accumulated", lambda _: 0.0)
    exact = terms_module._slack(masses, masses, errors, 10**6)
    monkeypatch.setattr(terms_module, "accumulated", lambda _: 1.002e-3)
    assert terms_module._slack(masses * 0.999, masses * 0.999, errors, 10**6) >= exact


def test_points_are_where_their_logarithms_say_up_to_the_shift() -> None:
    pair = PointPair(np.array([-0.2, 0.3]), np.array([0.4, 0.6]), np.array([0.5, 0.5]))
    for step in (0.0123, 0.37, 0.1):
        law = terms(pair, step, ((0, 40),))
        with mpmath.workdps(40):
            for z in law.values(0)[1:]:
                off = abs(mpmath.exp(mpf(float(np.log(z)))) / mpf(float(z)) - 1)
                assert off <= law.shift
        assert law.gone_q >= 1e-300
        assert law.lost >= 40e-300  # what cells of mass 0 may hold


def test_lower_masses_own_up_to_their_errors() -> None:
    p, q = [0.0, 0.2, 0.3, 0.2, 0.3, 0.0], [0.0, 0.3, 0.2, 0.3, 0.2, 0.0]
    law = terms(Told(p, q, np.array(p) * 1e-12, 0.0), *GRID)
    assert law.slack >= 1e-12
    assert terms(Told(p, q), *GRID).slack >= 4 * UNIT


# Points made of a law


def test_points_above_own_up_to_their_places() -> None:
    generator = np.random.default_rng(8)
    for count in (3, 7, 11):
        law = replace(random_law(generator), count=count)
        pair = upper_pair(law)
        with mpmath.workdps(40):
            for loss, value in zip(pair.losses, law.values(0), strict=True):
                assert abs(mpf(float(loss)) - mpmath.log(mpf(float(value)) / count)) <= pair.doubt
        assert upper_pair(replace(law, shift=0.01)).doubt >= 0.01 + pair.doubt * 0.99


def test_points_above_gather_what_is_hidden() -> None:
    """Many weights too faint for points, and one that swallows some of them when they are added."""
    generator = np.random.default_rng(9)
    for _ in range(DRAWS):
        rows = generator.random((3, 6)) / 10
        law = SumLaw(0.25, {0: Part(0, rows)}, 1, *generator.random(3).tolist())
        pair = upper_pair(law)
        assert Fraction(pair.q_infinite) >= Fraction(law.gone_q) + Fraction(float(rows[UPPER, 0]))
        assert Fraction(pair.p_infinite) >= Fraction(law.infinite) + Fraction(law.gone_p)
    told = upper_pair(SumLaw(0.25, {0: Part(1, np.full((3, 2), 0.1))}, 1, 0.5, relative=0.01))
    assert told.p_infinite >= 0.505
    assert upper_pair(SumLaw(1e284, {0: Part(1, np.full((3, 1), 5e-285))}, 1)).p_infinite >= 0.5
    assert np.all(told.q >= 0.101)


def test_points_below_own_up_to_their_errors() -> None:
    generator = np.random.default_rng(10)
    for _ in range(DRAWS):
        law = law_of(generator.random((3, 6)))
        pair = lower_pair(law)
        with mpmath.workdps(40):
            for loss, p, q in zip(pair.losses, pair.p, pair.q, strict=True):
                assert abs(mpf(float(loss)) - mpmath.log(mpf(float(p)) / mpf(float(q)))) <= pair.doubt
        farthest = np.abs(np.log(law.parts[0].rows[P_LOWER] / law.parts[0].rows[Q_LOWER])).max()
        for told in (lower_pair(replace(law, slack=0.01)), lower_pair(replace(law, relative=0.01))):
            assert told.doubt >= 0.01 or np.abs(told.losses).max() <= farthest - 0.02  # moved towards 1 by twice that
    gone = law_of(np.array([[0.1], [1e-3], [1e-320]]))  # a mass that has lost its digits tells no ratio
    assert lower_pair(gone).p.size == 0
    faint = law_of(np.full((3, 2), 1.0), lost=0.1 * UNIT)
    assert lower_pair(faint).p.size == 2
    assert lower_pair(replace(faint, lost=2 * UNIT)).p.size == 0
    assert lower_pair(law_of(np.full((3, 2), 32 * SMALLEST_NORMAL))).p.size == 0


@pytest.mark.parametrize("doubt", [0.0, 1e-3])
def test_cells_of_bounds_have_the_errors_of_their_points_and_their_doubt(doubt: float) -> None:
    points = PointPair(np.array([-0.1, 0.2]), np.array([0.4, 0.6]), np.array([0.5, 0.5]))
    plain = points.cells(np.array([0.0]))
    cells = BoundPair(points.losses, points.p, points.q, doubt=doubt).cells(np.array([0.0]))
    for mass, error, own in ((cells.p, cells.p_error, plain.p_error), (cells.q, cells.q_error, plain.q_error)):
        assert np.all(error >= own)
        assert np.all(error >= mass * doubt)
        assert np.all(error > 0)


def test_what_the_masses_of_both_terms_may_be_off_adds_up() -> None:
    law = law_of(np.full((3, 4), 0.1))
    both = replace(law, slack=0.01).plus(replace(law, slack=0.02))
    assert both.slack >= 0.03
