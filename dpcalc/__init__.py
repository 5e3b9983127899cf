"""Certified differential privacy accounting. The commands of dpcalc are functions here, and return one type of result.

>>> import dpcalc
>>> dpcalc.compose(dpcalc.Gaussian(sigma=2, sensitivity=1), delta=1e-5, max_epsilon=2).within
True
>>> run = dpcalc.DPSGD(noise_multiplier=1.1, batch_size=256, dataset_size=60000, epochs=60, sampling="poisson")
>>> round(dpcalc.compose(run, delta=1e-5).epsilon, 2)
2.38

Options of the command line are arguments of the same name with underscores: `--max-epsilon 3` is `max_epsilon=3`.
Mechanisms have the names and keys of a spec. A result has the fields of the JSON as attributes; `to_dict`, `to_frame`
and `save` give it to others. Each name is imported when it is first used, so that `import dpcalc` costs little.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from dpcalc.version import __version__

if _typing.TYPE_CHECKING:
    from dpcalc.api.functions import calibrate, compose, convert, diff, exp_mech, filter, sgd_bound, train, verify
    from dpcalc.api.mechanisms import (
        DP,
        DPSGD,
        GDP,
        RDP,
        ZCDP,
        DiscreteGaussian,
        DiscreteLaplace,
        Exponential,
        Gaussian,
        Histogram,
        Laplace,
        RandomizedResponse,
        Staircase,
    )
    from dpcalc.api.result import Result
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
    from dpcalc.errors import DpcalcError, InputError
    from dpcalc.filters.filters import GlobalFilter, IndividualFilter
    from dpcalc.filters.rules import dp_rule, gdp_rule, rdp_rule
    from dpcalc.ledger.answers import RefusedError
    from dpcalc.ledger.ledger import Ledger
    from dpcalc.training.queries import LinearQueries, Terms

_HOMES = {
    "dpcalc.api.functions": (
        "calibrate", "compose", "convert", "diff", "exp_mech", "filter", "sgd_bound", "train", "verify",
    ),
    "dpcalc.api.mechanisms": (
        "DP", "DPSGD", "GDP", "RDP", "ZCDP", "DiscreteGaussian", "DiscreteLaplace", "Exponential", "Gaussian",
        "Histogram", "Laplace", "RandomizedResponse", "Staircase",
    ),
    "dpcalc.api.result": ("Result",),
    "dpcalc.conversions": (
        "gdp_delta", "gdp_epsilon", "gdp_mu", "rdp_delta", "rdp_epsilon", "zcdp_delta", "zcdp_epsilon", "zcdp_rho",
    ),
    "dpcalc.errors": ("DpcalcError", "InputError"),
    "dpcalc.filters.filters": ("GlobalFilter", "IndividualFilter"),
    "dpcalc.filters.rules": ("dp_rule", "gdp_rule", "rdp_rule"),
    "dpcalc.ledger.answers": ("RefusedError",),
    "dpcalc.ledger.ledger": ("Ledger",),
    "dpcalc.training.queries": ("LinearQueries", "Terms"),
}  # fmt: skip

__all__ = [
    "DP",
    "DPSGD",
    "GDP",
    "RDP",
    "ZCDP",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DpcalcError",
    "Exponential",
    "Gaussian",
    "GlobalFilter",
    "Histogram",
    "IndividualFilter",
    "InputError",
    "Laplace",
    "Ledger",
    "LinearQueries",
    "RandomizedResponse",
    "RefusedError",
    "Result",
    "Staircase",
    "Terms",
    "__version__",
    "calibrate",
    "compose",
    "convert",
    "diff",
    "dp_rule",
    "exp_mech",
    "filter",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rule",
    "rdp_delta",
    "rdp_epsilon",
    "rdp_rule",
    "sgd_bound",
    "train",
    "verify",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __getattr__(name: str) -> _typing.Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(_importlib.import_module(module), name)
    raise AttributeError(f"module 'dpcalc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
