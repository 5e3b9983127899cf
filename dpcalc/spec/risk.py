"""What an attacker can reach against a release, worked out from the mechanisms that its guarantee lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcalc.effort import WHOLE, within
from dpcalc.errors import DpcalcError
from dpcalc.guarantee import Guarantee
from dpcalc.risk import Risk

if TYPE_CHECKING:
    from dpcalc.spec.entries import Entry

# A point of the curve is a certified bound at any tolerance; this much is hardly seen in an attacker's success.
_TOLERANCE = 0.005
_LONG, _WIDEST = 1000, 0.05  # entries, from which it is more, as each of them takes time; and the most
_HOPELESS = 2.5e9  # units of effort where ε itself is ∞: little is left to be told


def with_risk(guarantee: Guarantee, prior: float = 0.5) -> Guarantee:
    """The guarantee with its risk in attack terms, where a certified curve δ(ε) is known; as it is otherwise."""
    if guarantee.status != "certified" or not guarantee.mechanisms:
        return guarantee
    bounds = []
    if guarantee.mu is not None and guarantee.mu_kind != "approximate":
        bounds.append(gaussian_risk(guarantee.mu, prior))
    if guarantee.mu_kind != "exact":
        found = _composed_risk(guarantee, prior)
        bounds += [] if found is None else [found]
    return replace(guarantee, risk=_smallest(bounds)) if bounds else guarantee


def gaussian_risk(mu: float, prior: float = 0.5) -> Risk:
    """What μ-GDP allows: its trade-off curve in closed form (Dong, Roth, Su 2022)."""
    from dpcalc.conversions import gdp_delta, gdp_tradeoff
    from dpcalc.conversions.attack import FALSE_POSITIVE_RATES, bayes_accuracy

    def delta_at(epsilon: float) -> float:
        return float(gdp_delta(mu, epsilon))

    rates = {f"{rate:g}": float(gdp_tradeoff(mu, rate)) for rate in FALSE_POSITIVE_RATES}
    accuracy = bayes_accuracy(delta_at, prior)
    return Risk(advantage=delta_at(0.0), tpr_at_fpr=rates, prior=prior, bayes_accuracy=accuracy)


def _composed_risk(guarantee: Guarantee, prior: float) -> Risk | None:
    from dpcalc.conversions.attack import risk_from_curve

    epsilon, delta = guarantee.epsilon, guarantee.delta
    known = {epsilon: delta} if epsilon is not None and delta is not None and math.isfinite(epsilon) else {}
    try:
        with within(most=WHOLE if known else _HOPELESS):
            return risk_from_curve(certified_curve(guarantee), near_mu=_similar_mu(guarantee), known=known, prior=prior)
    except DpcalcError:  # no accountant answers at these ε: the risk is not known
        return None


def listed_entries(guarantee: Guarantee) -> list[Entry]:
    """The entries that a guarantee lists, read as a spec is."""
    from dpcalc.report import plain
    from dpcalc.spec.entries import read_entry
    from dpcalc.spec.text import from_data

    node = from_data(plain(list(guarantee.mechanisms)), "mechanisms")
    return [read_entry(item, guarantee.adjacency) for item in node.items("a list")]


def certified_curve(guarantee: Guarantee) -> Callable[[float], float]:
    """Certified δ at ε of the listed mechanisms."""
    from dpcalc.accounting.deltas import Deltas
    from dpcalc.conversions.attack import furthest

    parts = [(entry.mechanism, entry.count) for entry in listed_entries(guarantee)]
    tolerance = min(_TOLERANCE * max(1.0, len(parts) / _LONG), _WIDEST)
    return Deltas(parts, tolerance, reach=furthest(_similar_mu(guarantee)))


def _similar_mu(guarantee: Guarantee) -> float:
    """A μ whose curve passes through the guarantee's own point: it says where on the curve to look."""
    from dpcalc.conversions import gdp_mu

    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon is None or delta is None or not (0 < delta < 1 and 0 <= epsilon < 700):
        return 1.0
    return float(gdp_mu(epsilon, delta))


def _smallest(bounds: list[Risk]) -> Risk:
    """The best of several upper bounds on everything."""
    rates: Mapping[str, float] = {
        rate: min(bound.tpr_at_fpr[rate] for bound in bounds) for rate in bounds[0].tpr_at_fpr
    }
    return Risk(
        advantage=min(bound.advantage for bound in bounds),
        tpr_at_fpr=rates,
        prior=bounds[0].prior,
        bayes_accuracy=min(bound.bayes_accuracy for bound in bounds),
    )
