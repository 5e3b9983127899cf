"""Numbers as text: an upper bound is never printed below itself, a lower one never above, on any stream."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

import dpcalc
from dpcalc.errors import IncompatibleError
from dpcalc.guarantee import common_adjacency
from dpcalc.report import in_a_column, percentage, rounded_down, rounded_up, upper_against

CHOSEN = random.Random(4)
VALUES = [10 ** CHOSEN.uniform(-9, 7) for _ in range(200)]


def test_upper_bounds_are_rounded_up_and_lower_ones_down() -> None:
    for value in VALUES:
        for text in (rounded_up(value), in_a_column(value), upper_against(value, 0.7 * value)):
            assert Decimal(value) <= Decimal(text) <= Decimal(value) * Decimal("1.11")
        assert Decimal(value) * Decimal("0.99") <= Decimal(rounded_down(value)) <= Decimal(value)
        share = min(value, 0.99)
        assert Decimal(percentage(share).removesuffix(" %")) >= Decimal(share) * 100 * (1 - Decimal("1e-15"))


def test_a_bound_that_is_a_shade_over_its_limit_is_shown_to_be() -> None:
    assert Decimal(upper_against(2.0000003, 2.0)) > 2
    assert Decimal(upper_against(1.9999997, 2.0)) <= 2


def test_what_python_prints_is_rounded_to_the_safe_side() -> None:
    sampling = {"scheme": "poisson", "rate": 0.3}
    found = dpcalc.compose({"type": "gaussian", "noise_multiplier": 1.3, "sampling": sampling}, delta=1e-3)
    line = repr(found).splitlines()[1]
    numbers = [part.split()[-1] for part in line.split(",")]
    bounds = [found.epsilon, found.mu, found.rho]
    assert [Decimal(text) >= Decimal(bound) for text, bound in zip(numbers, bounds, strict=True)] == [True] * 3, line
    assert Decimal(line.split()[0]) <= Decimal(found.epsilon_lower)


def test_guarantees_under_two_adjacencies_are_not_combined() -> None:
    assert common_adjacency(["replace-one", "replace-one"]) == "replace-one"
    with pytest.raises(IncompatibleError, match="add-remove and replace-one"):
        common_adjacency(["add-remove", "replace-one"])
