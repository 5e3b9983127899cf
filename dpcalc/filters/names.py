"""The words of filters: which one, whose budget, what a log holds, what happens to a record that no longer fits."""

from typing import Literal

FilterKind = Literal["gdp", "rdp", "dp"]
Scope = Literal["individual", "global"]
Quantity = Literal["norm", "mu", "rho", "epsilon"]
Mode = Literal["drop", "clip"]
Engine = Literal["local", "dask"]
