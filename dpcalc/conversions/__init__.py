"""Exact or best known conversions between notions of privacy. Every bound is an upper bound, rounded up."""

from dpcalc.conversions.gaussian import gdp_delta, gdp_epsilon, gdp_mu, gdp_rho, gdp_tradeoff
from dpcalc.conversions.pure import (
    dp_delta,
    dp_epsilon,
    dp_true_positive_rate,
    group_dp,
    laplace_mu,
    laplace_rho,
    pure_dp_mu,
    pure_dp_rdp,
    pure_dp_rho,
)
from dpcalc.conversions.renyi import (
    rdp_between,
    rdp_curve_delta,
    rdp_curve_epsilon,
    rdp_delta,
    rdp_deltas,
    rdp_epsilon,
    rdp_epsilons,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

__all__ = [
    "dp_delta",
    "dp_epsilon",
    "dp_true_positive_rate",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rho",
    "gdp_tradeoff",
    "group_dp",
    "laplace_mu",
    "laplace_rho",
    "pure_dp_mu",
    "pure_dp_rdp",
    "pure_dp_rho",
    "rdp_between",
    "rdp_curve_delta",
    "rdp_curve_epsilon",
    "rdp_delta",
    "rdp_deltas",
    "rdp_epsilon",
    "rdp_epsilons",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
