"""The one search: it ends, its answer was seen to be within, and it is as close as it says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.solve import bracket, solve


@given(st.floats(-8, 8), st.floats(0.05, 20), st.booleans(), st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_the_root_of_a_power_law_is_found_in_few_looks(root: float, power: float, rises: bool, width: float) -> None:
    looks: list[float] = []

    def ratio(value: float) -> float:
        looks.append(value)
        logarithm = (math.log(value) - root) * (power if rises else -power)
        return math.exp(min(max(logarithm, -700.0), 700.0))

    within, beyond = (math.exp(-10), math.exp(10)) if rises else (math.exp(10), math.exp(-10))
    found = solve(ratio, within, beyond, width=width)
    assert ratio(found.within) <= 1 < ratio(found.beyond)
    assert abs(math.log(found.within) - root) <= width
    assert abs(math.log(found.beyond / found.within)) <= width
    assert len(looks) <= 30


@given(st.integers(1, 10**12 - 1), st.booleans())
def test_the_last_whole_number_is_found(last: int, told: bool) -> None:
    def ratio(value: float) -> float:
        return value / (last + 0.5) if told else (0.0 if value <= last else math.inf)

    assert solve(ratio, 0, 10**12, whole=True) == (last, last + 1)


@given(st.lists(st.booleans(), min_size=40, max_size=40), st.booleans())
def test_it_ends_and_its_answer_was_seen_within_whatever_is_measured(answers: list[bool], whole: bool) -> None:
    seen: dict[float, float] = {}

    def ratio(value: float) -> float:
        return seen.setdefault(value, 0.3 if answers[len(seen) % 40] else 5.0)

    found = solve(ratio, 1.0, 1e6, width=1e-5, whole=whole, guesses=(3.0, 7.5, 2e7))
    assert found.within == 1.0 or seen[found.within] <= 1
    assert found.beyond == 1e6 or seen[found.beyond] > 1
    assert len(seen) <= 150


def test_good_guesses_are_all_that_is_looked_at() -> None:
    looks: list[float] = []

    def ratio(value: float) -> float:
        looks.append(value)
        return value / 10

    assert solve(ratio, 1, 1e9, width=1e-3, guesses=(9.996, 10.003, 11.0)) == (9.996, 10.003)
    assert looks == [9.996, 10.003]


@pytest.mark.parametrize("start", [1e-9, 3.0, 1e8])
@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_brackets_are_found_from_either_side(start: float, factor: float) -> None:
    def ratio(value: float) -> float:
        return value / 42 if factor > 1 else 42 / value

    found = bracket(ratio, start, factor, least=1e-12, most=1e12)
    assert found is not None
    assert ratio(found.within) <= 1 < ratio(found.beyond)
    assert abs(math.log(found.beyond / found.within)) <= math.log(8) * (1 + 1e-9)


def test_what_is_never_or_always_beyond_has_no_bracket() -> None:
    assert bracket(lambda _: 0.5, 1.0, 2.0, least=1e-6, most=1e6) is None
    assert bracket(lambda _: math.inf, 1.0, 2.0, least=1e-6, most=1e6) is None
