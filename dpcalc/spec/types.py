"""The types an entry may have. Each is one line of a registry: its keys, and the mechanism they describe.

Mechanisms are imported where an entry names them: a spec of one type starts without the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.rounding import over_down
from dpcalc.spec.fields import Reader


@dataclass(frozen=True)
class EntryType:
    """What `type: NAME` means: the keys of its own, and how they make a mechanism under an adjacency.

    `moves`: the noise is relative to how far a record moves a query, which has a meaning under both adjacencies;
    what is stated as a guarantee holds only for the adjacency it was stated for. `is_run`: it has steps or epochs.
    `examples` has one of each form, written as after `-m`.
    """

    keys: tuple[str, ...]
    build: Callable[[Reader, Adjacency], Mechanism]
    examples: tuple[str, ...]
    moves: bool = False
    is_run: bool = False


def _gaussian(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.gaussian import Gaussian

    if entry.form(("noise_multiplier",), ("sigma", "sensitivity")) == 0:
        multiplier = entry.number("noise_multiplier")
    else:
        multiplier = _ratio(entry, "sigma")
    return Gaussian(noise_multiplier=multiplier, adjacency=adjacency)


def _ratio(entry: Reader, key: str) -> float:
    """Noise relative to the sensitivity, rounded down; that must be stated: there is no natural one."""
    ratio = over_down(entry.number(key), entry.number("sensitivity"))
    if not 0 < ratio < math.inf:
        entry.values[key].fail(f"{key} / sensitivity is {ratio:g}, beyond what can be computed with")
    return ratio


def _laplace(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.laplace import Laplace

    if entry.form(("scale", "sensitivity"), ("epsilon",)) == 1:
        return Laplace(scale=1.0, sensitivity=entry.positive("epsilon"), adjacency=adjacency)
    _ratio(entry, "scale")
    return Laplace(scale=entry.number("scale"), sensitivity=entry.number("sensitivity"), adjacency=adjacency)


def _dp_sgd(entry: Reader, adjacency: Adjacency) -> Mechanism:
    """Noise relative to the clip norm: replacing a record moves a sum of clipped gradients by twice the clip."""
    from dpcalc.mechanisms.gaussian import Gaussian

    run = Gaussian(noise_multiplier=entry.number("noise_multiplier"), adjacency="add-remove")
    return run if adjacency == "add-remove" else run.as_replace_one()


def _whole_sensitivity(entry: Reader) -> int:
    sensitivity = entry.number("sensitivity")
    if sensitivity != int(sensitivity):
        entry.values["sensitivity"].fail(
            f"expected a whole number for noise on the integers, got {sensitivity:g}; "
            "counts of which a record moves k by 1 are type: histogram, cells: k"
        )
    return int(sensitivity)


def _discrete_gaussian(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.discrete import DiscreteGaussian

    _ratio(entry, "sigma")
    return DiscreteGaussian(sigma=entry.number("sigma"), sensitivity=_whole_sensitivity(entry), adjacency=adjacency)


def _histogram(entry: Reader, adjacency: Adjacency) -> Mechanism:
    """One record is in one cell; replaced by another it leaves that and enters one."""
    from dpcalc.mechanisms.histogram import Histogram

    cells = entry.whole("cells", 1 if adjacency == "add-remove" else 2)
    sensitivity = _whole_sensitivity(entry) if entry.has("sensitivity") else 1
    return Histogram(sigma=entry.number("sigma"), cells=cells, sensitivity=sensitivity, adjacency=adjacency)


def _discrete_laplace(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.discrete import DiscreteLaplace

    _ratio(entry, "scale")
    return DiscreteLaplace(scale=entry.number("scale"), sensitivity=_whole_sensitivity(entry), adjacency=adjacency)


def _exponential(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.exponential import Exponential

    return Exponential(epsilon=entry.number("epsilon"), adjacency=adjacency)


def _randomized_response(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse, RandomizedResponse

    if entry.form(("epsilon",), ("p", "k")) == 0:
        return RandomizedResponse(epsilon=entry.number("epsilon"), adjacency=adjacency)
    return KaryRandomizedResponse(p=entry.number("p"), k=entry.whole("k"), adjacency=adjacency)


def _staircase(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.staircase import Staircase

    gamma = entry.number("gamma") if entry.has("gamma") else None
    return Staircase(epsilon=entry.positive("epsilon"), gamma=gamma, adjacency=adjacency)


def _dp(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.declared import DeclaredDP

    return DeclaredDP(epsilon=entry.number("epsilon"), delta=entry.number("delta", 0.0), adjacency=adjacency)


def _gdp(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.declared import DeclaredGDP

    return DeclaredGDP(mu=entry.number("mu"), adjacency=adjacency)


def _zcdp(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.declared import DeclaredZCDP

    return DeclaredZCDP(rho=entry.number("rho"), adjacency=adjacency)


def _rdp(entry: Reader, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.declared import DeclaredRDP

    orders, epsilons = entry.numbers("orders"), entry.numbers("epsilons")
    if len(orders) != len(epsilons):
        entry.values["epsilons"].fail(f"expected as many epsilons as orders ({len(orders)}), got {len(epsilons)}")
    if len(set(orders)) < len(orders):
        entry.values["orders"].fail("an order is given twice")
    return DeclaredRDP(orders=tuple(orders), epsilons=tuple(epsilons), adjacency=adjacency)


ENTRY_TYPES: Mapping[str, EntryType] = {
    "gaussian": EntryType(
        ("noise_multiplier", "sigma", "sensitivity"), _gaussian, examples=("noise_multiplier=2",), moves=True
    ),
    "laplace": EntryType(
        ("scale", "sensitivity", "epsilon"),
        _laplace,
        examples=("scale=10,sensitivity=1", "epsilon=0.1"),
        moves=True,
    ),
    "discrete-gaussian": EntryType(
        ("sigma", "sensitivity"), _discrete_gaussian, examples=("sigma=3,sensitivity=1",), moves=True
    ),
    "histogram": EntryType(
        ("sigma", "cells", "sensitivity"), _histogram, examples=("sigma=20", "sigma=20,cells=3"), moves=True
    ),
    "discrete-laplace": EntryType(
        ("scale", "sensitivity"), _discrete_laplace, examples=("scale=3,sensitivity=1",), moves=True
    ),
    "exponential": EntryType(("epsilon",), _exponential, examples=("epsilon=0.1",)),
    "randomized-response": EntryType(
        ("epsilon", "p", "k"), _randomized_response, examples=("epsilon=0.5", "p=0.75,k=4")
    ),
    "staircase": EntryType(("epsilon", "gamma"), _staircase, examples=("epsilon=0.5", "epsilon=2,gamma=0.3")),
    "dp-sgd": EntryType(
        ("noise_multiplier", "epochs", "steps"),
        _dp_sgd,
        examples=("noise_multiplier=2,steps=10",),
        moves=True,
        is_run=True,
    ),
    "dp": EntryType(("epsilon", "delta"), _dp, examples=("epsilon=0.1,delta=1e-7",)),
    "gdp": EntryType(("mu",), _gdp, examples=("mu=0.3",)),
    "zcdp": EntryType(("rho",), _zcdp, examples=("rho=0.01",)),
    "rdp": EntryType(("orders", "epsilons"), _rdp, examples=("orders=[2,4,8],epsilons=[0.1,0.2,0.4]",)),
}
