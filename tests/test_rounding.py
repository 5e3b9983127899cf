"""Directed rounding, in exact arithmetic: what is raised is not below the truth, and not by more than it says."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from dpcalc.rounding import FUNCTION, UNIT, accumulated, down, over_down, over_up, times_up, up

CHOSEN = random.Random(1)
ROWS = [(CHOSEN.uniform(0.5, 2), CHOSEN.uniform(0.5, 2), CHOSEN.randint(2, 10**6)) for _ in range(400)]


def test_one_operation_raised_or_lowered_is_on_its_side() -> None:
    for a, b, _ in ROWS:
        assert down(a * b, 1) <= Fraction(a) * Fraction(b) <= up(a * b, 1)
        assert down(a / b, 1) <= Fraction(a) / Fraction(b) <= up(a / b, 1)


def test_sums_of_many_terms_are_within_what_accumulates() -> None:
    for count in (10, 300, 5000):
        values = [CHOSEN.uniform(0.1, 1) for _ in range(count)]
        total = 0.0
        for value in values:
            total += value
        exact = sum(map(Fraction, values))
        assert abs(Fraction(total) - exact) <= exact * Fraction(accumulated(count))
        assert abs(Fraction(total) - exact) > 0


def test_accumulated_is_highams_gamma() -> None:
    """n·u/(1 - n·u), and never less than n·u however many there are (Higham 2002, Lemma 3.1)."""
    for count in (1, 1000, 2**30, 2**51):
        exact = count * Fraction(1, 2**53) / (1 - count * Fraction(1, 2**53))
        assert Fraction(accumulated(count)) >= exact * (1 - Fraction(UNIT) * 4)
        assert accumulated(count) >= count * UNIT


def test_quotients_are_the_next_doubles_on_either_side() -> None:
    for value, divisor, _ in ROWS:
        found = over_up(value, divisor)
        assert Fraction(found) >= Fraction(value) / Fraction(divisor) > Fraction(math.nextafter(found, 0.0))
        below = over_down(value, divisor)
        assert Fraction(below) <= Fraction(value) / Fraction(divisor) < Fraction(math.nextafter(below, math.inf))
    assert over_up(6, 1.5) == over_down(6, 1.5) == 4.0
    assert over_up(1e308, 1e-10) == math.inf


def test_products_with_whole_numbers_are_the_least_doubles_above() -> None:
    for value, _, count in ROWS:
        found = times_up(value, count)
        assert Fraction(found) >= count * Fraction(value) > Fraction(math.nextafter(found, 0.0))
    assert times_up(0.0, 7) == 0.0
    assert times_up(1.5, 4) == 6.0
    assert times_up(1e308, 1000) == math.inf


def test_the_units_are_those_of_doubles() -> None:
    assert math.ulp(1.0) / 2 == UNIT
    assert pytest.approx(FUNCTION) == 2 * math.ulp(1.0)
