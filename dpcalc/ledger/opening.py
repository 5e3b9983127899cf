"""How a budget is made: which filter serves it best, with which orders, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dpcalc.errors import InputError
from dpcalc.filters.delta_split import split_delta
from dpcalc.filters.mixture import Mixture, best_order
from dpcalc.guarantee import Adjacency
from dpcalc.ledger.measure import Parts, divergences
from dpcalc.ledger.requests import Request
from dpcalc.ledger.terms import FilterKind, Terms, check_terms
from dpcalc.ledger.units import Vector
from dpcalc.report import written

FilterChoice = Literal["auto", "gdp", "rdp"]

_SHARE = 0.5


def open_terms(
    name: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    rho: float | None = None,
    unit: str = "person",
    adjacency: Adjacency = "add-remove",
    filter: FilterChoice = "auto",
    step_delta: float | None = None,
    plan: Request | None = None,
    parent: str | None = None,
    parts: Sequence[str] = (),
) -> Terms:
    """The terms of a new budget. `plan` is what is expected to be spent: it decides nothing but what fits well.

    `step_delta` is the part of δ that is kept for releases with a δ of their own; half of it if not given.
    """
    gdp = Terms(name=name, filter="gdp", unit=unit, adjacency=adjacency, parent=parent, parts=tuple(parts))
    gdp = replace(gdp, epsilon=epsilon, delta=delta, mu=mu, rho=rho)
    check_terms(gdp)
    if plan is not None and (epsilon is None or filter == "gdp"):
        raise InputError("has no effect: a plan is for choosing a filter for (ε,δ), or its orders", where="plan")
    planned = None if plan is None else plan.parts(adjacency)
    if epsilon is None or delta is None:
        return _of_one_number(gdp, filter, step_delta)
    kept = step_delta if step_delta is not None else delta * _SHARE
    if not 0 < kept < delta:
        raise InputError(
            f"expected the δ for the steps in (0, {written(delta)}), got {written(kept)}", where=f"budget {name}"
        )
    within = split_delta(delta, kept / delta).filter
    order = None if planned is None else best_order(epsilon, within, lambda orders: divergences(planned, orders))
    mixture = Mixture.default(epsilon, within, order)
    rdp = replace(gdp, filter="rdp", orders=mixture.orders, weights=mixture.weights, step_delta=kept)
    chosen, reason = _chosen(gdp, rdp, filter, planned)
    if chosen == "gdp" and step_delta is not None:
        raise InputError("a GDP filter keeps no δ for the steps: nothing with a δ of its own has a μ")
    return replace(gdp if chosen == "gdp" else rdp, reason=reason)


def _of_one_number(gdp: Terms, filter: FilterChoice, step_delta: float | None) -> Terms:
    """A limit on μ or ρ."""
    if step_delta is not None:
        raise InputError("a limit on μ or ρ has no δ, so none can be kept for the steps")
    if gdp.mu is not None:
        reason = "a limit on μ is kept by the GDP filter, exactly"
        kind: FilterKind = "rdp" if filter == "rdp" else "gdp"
    else:
        kind = "gdp" if filter == "gdp" else "rdp"
        reason = "a limit on ρ is kept by Σρ, which takes everything that has a ρ"
    terms = replace(gdp, filter=kind, reason=reason if filter == "auto" else "")
    check_terms(terms)
    return terms


def _chosen(gdp: Terms, rdp: Terms, filter: FilterChoice, plan: Parts | None) -> tuple[FilterKind, str]:
    if filter != "auto":
        return filter, ""
    if plan is None:
        return "rdp", (
            "the Rényi filter takes whatever is certified, also sampled runs and declared (ε,δ); where everything "
            "that comes is Gaussian, the GDP filter fits more, and a plan chooses by what is expected"
        )
    by_rdp = _repetitions(rdp, rdp.measure.cost(plan))
    try:
        by_gdp = _repetitions(gdp, gdp.measure.cost(plan))
    except InputError:
        return "rdp", "the plan has parts without a finite μ, which only the Rényi filter takes"
    better: FilterKind = "gdp" if by_gdp >= by_rdp else "rdp"
    return better, f"the plan fits {by_gdp:,} times by the GDP filter and {by_rdp:,} times by the Rényi filter"


def _repetitions(terms: Terms, cost: Vector) -> int:
    """How often a cost fits into an empty budget."""
    low, high = 0, 1
    while high < 1 << 50 and terms.fits(tuple(high * value for value in cost)):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if terms.fits(tuple(middle * value for value in cost)) else (low, middle)
    return low
