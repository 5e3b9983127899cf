"""dpcalc: certified differential privacy accounting, as a library.

The names below are the functions behind the commands. Each is imported when it is first used, so
`import dpcalc` costs nothing that is not needed:

>>> import dpcalc
>>> round(dpcalc.gdp_epsilon(1.2, 1e-5), 8)
5.41348598
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcalc.version import __version__

if TYPE_CHECKING:
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
    from dpcalc.guarantee import Guarantee
    from dpcalc.notions import ApproximateDP, GaussianDP, RenyiDP, ZeroConcentratedDP

__all__ = [
    "ApproximateDP",
    "GaussianDP",
    "Guarantee",
    "RenyiDP",
    "ZeroConcentratedDP",
    "__version__",
    "convert",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "rdp_delta",
    "rdp_epsilon",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]

_HOMES = {
    "dpcalc.conversions.implied": ("convert",),
    "dpcalc.guarantee": ("Guarantee",),
    "dpcalc.notions": ("ApproximateDP", "GaussianDP", "RenyiDP", "ZeroConcentratedDP"),
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
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'dpcalc' has no attribute {name!r}")
