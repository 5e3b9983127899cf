"""Python is held to what the command line is held to: what is no number, or out of its range, is an InputError."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dpcalc
from dpcalc.filters.rules import own_delta_split

NAN, INF = math.nan, math.inf
WRONG: tuple[Any, ...] = (NAN, INF, -INF, -1.0, "0.5", None, True, [0.5, "x"], 1 + 0j)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("name", ["gdp_delta", "gdp_epsilon", "gdp_mu", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"])
def test_a_conversion_takes_numbers_in_their_range(name: str, wrong: Any) -> None:
    function = getattr(dpcalc, name)
    for arguments in ((wrong, 1e-5), (0.5, wrong)):
        with pytest.raises(dpcalc.InputError, match="Expected"):
            function(*arguments)


@pytest.mark.parametrize("name", ["gdp_epsilon", "zcdp_epsilon", "gdp_mu", "zcdp_rho"])
def test_exchanged_arguments_are_refused(name: str) -> None:
    with pytest.raises(dpcalc.InputError, match=r"Expected delta=1.7 in \(0, 1\)"):
        getattr(dpcalc, name)(1e-6, 1.7)


@pytest.mark.parametrize("wrong", [*WRONG, 1.0], ids=repr)
def test_orders_and_their_divergences(wrong: Any) -> None:
    for arguments in ((wrong, 0.3, 1e-5), ([2, wrong], [0.1, 0.2], 1e-5)):
        with pytest.raises(dpcalc.InputError, match="Expected"):
            dpcalc.rdp_epsilon(*arguments)
    with pytest.raises(dpcalc.InputError, match="for each order"):
        dpcalc.rdp_epsilon([2, 3], [0.1], 1e-5)
    assert dpcalc.rdp_epsilon(8, 0.4, 1e-5) == dpcalc.rdp_epsilon([8], [0.4], 1e-5)
    assert dpcalc.rdp_delta(np.array([8]), np.array([1]), 3) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"mu": -1.0}, {"mu": NAN}, {"mu": "1"}, {"mu": True}, {"mu": 1, "clip": -1}, {"mu": 1, "clip": NAN},
        {"mu": 1, "tolerance": -1}, {"mu": 1, "sigma": 0}, {"epsilon": 1, "delta": 0}, {"epsilon": 1, "delta": [1e-5]},
        {"norm_budget": -4},
    ],
    ids=str,
)  # fmt: skip
def test_a_budget_is_made_of_numbers_in_their_range(wrong: dict[str, Any]) -> None:
    for rule in (dpcalc.gdp_rule, dpcalc.rdp_rule):
        with pytest.raises(dpcalc.InputError, match="Expected"):
            rule(**{"sigma": 2.0, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [{"orders": [0.5]}, {"rhos": [-1.0]}, {"rhos": [NAN]}, {"sampling_rate": 2}, {"sampling_rate": NAN}],
    ids=str,
)
def test_orders_and_rates_of_a_budget(wrong: dict[str, Any]) -> None:
    with pytest.raises(dpcalc.InputError, match="Expected"):
        dpcalc.rdp_rule(**{"sigma": 2.0, "orders": [4], "rhos": [0.2], **wrong})
    with pytest.raises(dpcalc.InputError, match="Expected"):
        dpcalc.dp_rule(epsilon=1.2, delta=0)


def test_a_norm_above_the_clip_is_an_error_and_charges_nobody() -> None:
    flow = dpcalc.IndividualFilter(dpcalc.gdp_rule(mu=3, sigma=1, clip=0.7), individuals=2)
    with pytest.raises(dpcalc.InputError, match=r"up to the clip 0\.7, got 1 above it"):
        flow.step([0.6, 40.0])
    assert flow.spent.tolist() == [0, 0]
    flow.step([0.6, 0.7])
    assert flow.spent == pytest.approx([0.6, 0.7])


def test_deltas_of_the_steps_are_not_held_against_the_clip() -> None:
    rule = dpcalc.gdp_rule(mu=3, sigma=1, clip=0.7).with_split(own_delta_split(1e-6, 5e-7))
    flow = dpcalc.IndividualFilter(rule, individuals=2)
    flow.step([[0.6, 0.2], [1e-8, 0.0]])
    with pytest.raises(dpcalc.InputError, match="got 1 above it"):
        flow.step([[0.6, 0.9], [1e-8, 0.0]])


@pytest.mark.parametrize("who", [[2], [-1], [0.5], [0, 0], ["a"], 0, [[0]]], ids=str)
def test_records_are_named_by_their_number_once(who: Any) -> None:
    flow = dpcalc.IndividualFilter(dpcalc.gdp_rule(mu=3, sigma=1), individuals=2)
    with pytest.raises(dpcalc.InputError):
        flow.step([0.1] * len(np.atleast_1d(who)), who=who)


@pytest.mark.parametrize("norm", ["x", None, NAN, -1, INF, 1j])
def test_norms_are_numbers(norm: Any) -> None:
    flow = dpcalc.IndividualFilter(dpcalc.gdp_rule(mu=3, sigma=1), individuals=1)
    with pytest.raises(dpcalc.InputError):
        flow.step([norm])
