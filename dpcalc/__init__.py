"""dpcalc: certified differential privacy accounting, as a library.

The names below are the functions behind the commands. Each is imported when it is first used, so
`import dpcalc` costs nothing that is not needed:

>>> import dpcalc
>>> round(dpcalc.gdp_epsilon(1.2, 1e-5), 8)
5.41348598
>>> step = dpcalc.PoissonSampled(base=dpcalc.Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60000)
>>> round(dpcalc.compose([(step, 14063)], delta=1e-5).epsilon, 2)
2.38
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcalc.version import __version__

if TYPE_CHECKING:
    from dpcalc.accounting.calibrate import calibrate
    from dpcalc.accounting.compose import compose
    from dpcalc.conversions import (
        gdp_delta,
        gdp_epsilon,
        gdp_mu,
        rdp_delta,
        rdp_epsilon,
        zcdp_delta,
        zcdp_epsilon,
        zcdp_rho,
    )
    from dpcalc.conversions.implied import convert
    from dpcalc.filters.filters import GlobalFilter, IndividualFilter
    from dpcalc.filters.rules import dp_rule, gdp_rule, rdp_rule
    from dpcalc.guarantee import Guarantee
    from dpcalc.ledger.answers import RefusedError
    from dpcalc.ledger.ledger import Ledger
    from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
    from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
    from dpcalc.mechanisms.exponential import Exponential
    from dpcalc.mechanisms.gaussian import Gaussian
    from dpcalc.mechanisms.laplace import Laplace
    from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse, RandomizedResponse
    from dpcalc.mechanisms.sampled import FixedSizeSampled, OncePerEpoch, PoissonSampled
    from dpcalc.notions import ApproximateDP, GaussianDP, RenyiDP, ZeroConcentratedDP

_HOMES = {
    "dpcalc.accounting.calibrate": ("calibrate",),
    "dpcalc.accounting.compose": ("compose",),
    "dpcalc.filters.filters": ("GlobalFilter", "IndividualFilter"),
    "dpcalc.filters.rules": ("dp_rule", "gdp_rule", "rdp_rule"),
    "dpcalc.conversions": (
        "gdp_delta",
        "gdp_epsilon",
        "gdp_mu",
        "rdp_delta",
        "rdp_epsilon",
        "zcdp_delta",
        "zcdp_epsilon",
        "zcdp_rho",
    ),
    "dpcalc.conversions.implied": ("convert",),
    "dpcalc.guarantee": ("Guarantee",),
    "dpcalc.ledger.answers": ("RefusedError",),
    "dpcalc.ledger.ledger": ("Ledger",),
    "dpcalc.mechanisms.declared": ("DeclaredDP", "DeclaredGDP", "DeclaredRDP", "DeclaredZCDP"),
    "dpcalc.mechanisms.discrete": ("DiscreteGaussian", "DiscreteLaplace"),
    "dpcalc.mechanisms.exponential": ("Exponential",),
    "dpcalc.mechanisms.gaussian": ("Gaussian",),
    "dpcalc.mechanisms.laplace": ("Laplace",),
    "dpcalc.mechanisms.randomized_response": ("KaryRandomizedResponse", "RandomizedResponse"),
    "dpcalc.mechanisms.sampled": ("FixedSizeSampled", "OncePerEpoch", "PoissonSampled"),
    "dpcalc.notions": ("ApproximateDP", "GaussianDP", "RenyiDP", "ZeroConcentratedDP"),
}

__all__ = [
    "ApproximateDP",
    "DeclaredDP",
    "DeclaredGDP",
    "DeclaredRDP",
    "DeclaredZCDP",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianDP",
    "GlobalFilter",
    "Guarantee",
    "IndividualFilter",
    "KaryRandomizedResponse",
    "Laplace",
    "Ledger",
    "OncePerEpoch",
    "PoissonSampled",
    "RandomizedResponse",
    "RefusedError",
    "RenyiDP",
    "ZeroConcentratedDP",
    "__version__",
    "calibrate",
    "compose",
    "convert",
    "dp_rule",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rule",
    "rdp_delta",
    "rdp_epsilon",
    "rdp_rule",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'dpcalc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
