"""Sums of costs are exact, whatever their size and order."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from dpcalc.ledger.units import (
    INFINITE,
    UNIT,
    add,
    decode,
    encode,
    float_down,
    float_up,
    largest,
    subtract,
    two_largest,
    units_up,
)

costs = st.floats(min_value=0, allow_nan=False, allow_infinity=True)


@given(st.lists(costs, min_size=1, max_size=8), st.randoms())
def test_sums_do_not_depend_on_the_order_and_are_never_below_the_truth(values, random) -> None:
    total = sum(units_up(value) for value in values)
    random.shuffle(values)
    assert total == sum(units_up(value) for value in values)
    if all(map(math.isfinite, values)):
        exact = sum(Fraction(value) for value in values)
        assert exact <= Fraction(total, UNIT) < exact + Fraction(len(values), UNIT)
        assert Fraction(float_down(total)) * UNIT <= total
        assert float_up(total) == math.inf or Fraction(float_up(total)) * UNIT >= total
    else:
        assert float_up(total) == math.inf


def test_a_cost_too_small_for_doubles_is_one_unit_and_nothing_is_nothing() -> None:
    assert units_up(5e-324) == 1
    assert units_up(0.0) == 0
    assert float_up(units_up(5e-324) * 2**100) == 1.0


@given(st.lists(costs, min_size=2, max_size=5), st.lists(costs, min_size=2, max_size=5))
def test_what_is_charged_can_be_taken_back_even_if_it_is_infinite(left, right) -> None:
    size = min(len(left), len(right))
    a, b = (tuple(units_up(value) for value in values[:size]) for values in (left, right))
    assert subtract(add(a, b), b) == a
    assert decode(encode(add(a, b))) == add(a, b)


def test_infinity_is_told_apart_from_every_finite_cost() -> None:
    assert units_up(1.7e308) * 10**6 < INFINITE
    assert encode((INFINITE * 2 + 7, 0)) == ["7+2inf", "0"]


def test_largest_and_two_largest_look_at_each_component_alone() -> None:
    vectors = [(1, 9), (5, 2), (4, 3)]
    assert largest(vectors) == (5, 9)
    assert two_largest(vectors) == (9, 12)


@pytest.mark.parametrize("value", [1 / 3, 0.1, 2.0**-1074, 1e300])
def test_rounding_up_is_by_less_than_a_unit(value) -> None:
    assert 0 <= Fraction(units_up(value), UNIT) - Fraction(value) < Fraction(1, UNIT)
