"""Exact or best known conversions between notions of privacy. Every bound is an upper bound, rounded up.

Each name is imported when it is first used: what needs no arrays must not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcalc.conversions.gaussian import gdp_delta, gdp_epsilon, gdp_lower, gdp_mu, gdp_rho, gdp_tradeoff
    from dpcalc.conversions.pure import (
        bounded_range_rdp,
        dp_delta,
        dp_epsilon,
        dp_true_positive_rate,
        group_dp,
        laplace_mu,
        laplace_rho,
        pure_dp_mu,
        pure_dp_rdp,
        pure_dp_rdp_at,
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
    "bounded_range_rdp",
    "dp_delta",
    "dp_epsilon",
    "dp_true_positive_rate",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_lower",
    "gdp_mu",
    "gdp_rho",
    "gdp_tradeoff",
    "group_dp",
    "laplace_mu",
    "laplace_rho",
    "pure_dp_mu",
    "pure_dp_rdp",
    "pure_dp_rdp_at",
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "gaussian" if name.startswith("gdp_") else "renyi" if name.startswith(("rdp_", "zcdp_")) else "pure"
    globals()[name] = found = getattr(import_module(f"{__name__}.{home}"), name)
    return found
