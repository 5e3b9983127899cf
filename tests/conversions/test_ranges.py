"""Arguments out of range, exchanged or not numbers are refused by name; very large ones have answers."""

from __future__ import annotations

import math
import warnings

import pytest

from dpcalc import conversions
from dpcalc.errors import InputError
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: conversions.gdp_epsilon(1e-5, 1.2), "delta=1.2"),
        (lambda: conversions.gdp_epsilon(-0.1, 1e-5), "mu=-0.1"),
        (lambda: conversions.gdp_epsilon(math.nan, 1e-5), "mu=nan"),
        (lambda: conversions.gdp_epsilon([0.5, math.inf], 1e-5), "mu=inf"),
        (lambda: conversions.gdp_epsilon(1.0, 0.0), "delta=0.0"),
        (lambda: conversions.gdp_delta(1.0, -0.3), "epsilon=-0.3"),
        (lambda: conversions.gdp_delta(math.nan, 0.3), "mu=nan"),
        (lambda: conversions.gdp_mu(1.0, 1.5), "delta=1.5"),
        (lambda: conversions.gdp_tradeoff(1.0, 1.1), "false_positive_rate=1.1"),
        (lambda: conversions.zcdp_epsilon(-1.0, 1e-5), "rho=-1.0"),
        (lambda: conversions.zcdp_epsilon(1e-5, 2.0), "delta=2.0"),
        (lambda: conversions.zcdp_delta(0.1, math.nan), "epsilon=nan"),
        (lambda: conversions.zcdp_rho(-1.0, 1e-5), "epsilon=-1.0"),
        (lambda: conversions.rdp_epsilon([1.0], [0.1], 1e-5), "orders=1.0"),
        (lambda: conversions.rdp_epsilon([2.0], [-0.1], 1e-5), "rdps=-0.1"),
        (lambda: conversions.rdp_delta([2.0, 3.0], [0.1, math.nan], 1.0), "rdps=nan"),
        (lambda: conversions.rdp_epsilon([2.0], [0.1], 1.0), "delta=1.0"),
        (lambda: conversions.dp_epsilon(-1.0, 0.0, 0.1), "epsilon=-1.0"),
        (lambda: conversions.dp_delta(1.0, 1.2, 0.5), "delta=1.2"),
        (lambda: conversions.group_dp(1.0, 0.0, 0), "size=0"),
        (lambda: conversions.pure_dp_mu(math.nan), "epsilon=nan"),
        (lambda: conversions.pure_dp_rdp(1.0, [0.5]), "orders=0.5"),
        (lambda: DeclaredGDP(mu=-1.0), "mu=-1.0"),
        (lambda: DeclaredGDP(mu=1e200), "mu=1e"),
        (lambda: DeclaredZCDP(rho=math.nan), "rho=nan"),
        (lambda: DeclaredRDP(orders=(2.0,), epsilons=(-1.0,)), "epsilons=-1.0"),
        (lambda: DeclaredDP(epsilon=1.0, delta=1.0), "delta=1.0"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, name):
    with pytest.raises(InputError, match=f"Expected {name}"):
        call()


@pytest.mark.parametrize("mu", [3e49, 2e50, 1e151, 7e153])
def test_a_very_large_mu_has_its_epsilon(mu):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epsilon = conversions.gdp_epsilon(mu, 1e-5)
    assert mu * mu / 2 <= epsilon <= mu * mu / 2 * (1 + 1e-11)


@pytest.mark.parametrize("mu", [1e151, 1e153])
def test_delta_of_a_very_large_mu_is_one_below_its_epsilon_and_nothing_above(mu):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert conversions.gdp_delta(mu, 0.4 * mu * mu) == 1.0
        assert conversions.gdp_delta(mu, 0.6 * mu * mu) <= 1e-300


@pytest.mark.parametrize(
    "notion",
    [
        DeclaredGDP(mu=1e154),
        DeclaredGDP(mu=1e-300),
        DeclaredZCDP(rho=1e300),
        DeclaredZCDP(rho=1e-300),
        DeclaredRDP(orders=(2.0,), epsilons=(0.0,)),
        DeclaredRDP(orders=(1e300,), epsilons=(1.0,)),
        DeclaredDP(epsilon=1e300),
    ],
)
def test_extreme_statements_answer_without_warnings(notion):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (notion.epsilon_at(1e-5), notion.delta_at(1e300), notion.delta_at(0.0), notion.advantage()):
            assert value is not None
            assert 0 <= value < math.inf
        assert 0 <= notion.true_positive_rate(0.01) <= 1


@pytest.mark.parametrize(
    "notion",
    [
        DeclaredGDP(mu=1.0),
        DeclaredZCDP(rho=1.0),
        DeclaredRDP(orders=(8.0,), epsilons=(0.4,)),
        DeclaredDP(epsilon=1.0, delta=1e-5),
        DeclaredDP(epsilon=1.0),
    ],
)
def test_groups_beyond_all_bounds_are_refused_and_not_an_internal_error(notion):
    with pytest.raises(InputError, match=r"groups of 1e\+300"):
        notion.group(10**300)
