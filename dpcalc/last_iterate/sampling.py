"""Bounds for sampling from e^{-F} and for choosing from a finite set, next to the textbook ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.evidence import Evidence
from dpcalc.guarantee import DEFAULT_ORDERS, Adjacency, Guarantee, Stated
from dpcalc.last_iterate import exponential_mechanism as bounds
from dpcalc.last_iterate.bound import Bound
from dpcalc.last_iterate.contraction import ROUND_UP
from dpcalc.last_iterate.exponential_mechanism import BOUNDED_RANGE, CLASSICAL, GDP, GDP_BOUNDED, Langevin
from dpcalc.rounding import UNIT

_BOUNDED_RANGE = "Dong, Durfee, Rogers 2020: bounded range"
_TEXTBOOK = "McSherry, Talwar 2007"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The best guarantee, every bound it was compared with, and the textbook ε."""

    guarantee: Guarantee
    bounds: tuple[Mapping[str, Any], ...]
    winner: str
    classical_epsilon: float


def continuous(
    *,
    lipschitz: float,
    strong_convexity: float | None,
    diameter: float | None,
    chain: Langevin | None,
    delta: float,
    adjacency: Adjacency,
) -> Comparison:
    """Sampling from e^{-F}, exactly or by a Langevin chain: from m, from D, or the better of both."""
    classical = math.inf if diameter is None else 2 * lipschitz * diameter
    candidates = {
        name: _gaussian(bound, delta, adjacency)
        for name, bound in _bounds(lipschitz, strong_convexity, diameter, chain).items()
    }
    if diameter is not None and chain is None:
        # F - F′ varies by at most 2LD over the domain, so the density ratio has bounded range 2LD.
        candidates[BOUNDED_RANGE] = _bounded_range(classical, 1, delta, adjacency)
    return _compare(candidates, classical, exact=chain is None)


def finite(*, epsilon: float, count: int, delta: float, adjacency: Adjacency) -> Comparison:
    """`count` choices from a finite set, each by the exponential mechanism with parameter ε."""
    candidates = {BOUNDED_RANGE: _bounded_range(epsilon, count, delta, adjacency)}
    return _compare(candidates, count * epsilon, exact=True)


def _bounds(
    lipschitz: float, strong_convexity: float | None, diameter: float | None, chain: Langevin | None
) -> dict[str, Bound]:
    found: dict[str, Bound] = {}
    if strong_convexity is not None:
        known = {"lipschitz": lipschitz, "strong_convexity": strong_convexity}
        strong = (
            bounds.strongly_log_concave(**known)
            if chain is None
            else bounds.strongly_log_concave_langevin(**known, chain=chain)
        )
        # On a bounded domain the Gaussians that attain it are cut off, so there it is a bound and no more.
        found[GDP] = replace(strong, optimal=strong.optimal and diameter is None)
    if diameter is not None:
        found[GDP if strong_convexity is None else GDP_BOUNDED] = (
            bounds.log_concave(lipschitz=lipschitz, diameter=diameter)
            if chain is None
            else bounds.log_concave_langevin(lipschitz=lipschitz, diameter=diameter, chain=chain)
        )
    return found


def _gaussian(bound: Bound, delta: float, adjacency: Adjacency) -> Guarantee:
    mu = bound.mu
    epsilon = float(conversions.gdp_epsilon(mu, delta))
    exact = bound.optimal and math.isfinite(epsilon)
    # μ was rounded up, and so is every ε: this much down again, and it is below the exact one.
    lower = conversions.gdp_lower(mu / ROUND_UP**2, delta=delta) if exact else None
    return Guarantee.of(
        [(Stated(adjacency=adjacency, entry={"type": "gdp", "mu": mu}), None)],
        Evidence(citations=(bound.theorem,), assumptions=tuple(bound.conditions)),
        accountant="gdp",
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=lower,
        epsilon_estimate=epsilon,
        mu=mu,
        mu_kind="exact" if bound.optimal else "upper",
        rho=mu * mu / 2,
        rdp=tuple((order, order * mu * mu / 2) for order in DEFAULT_ORDERS),
    )


def _bounded_range(epsilon: float, count: int, delta: float, adjacency: Adjacency) -> Guarantee:
    from dpcalc.accounting.compose import compose
    from dpcalc.mechanisms.exponential import Exponential

    mechanism = Exponential(epsilon=epsilon, adjacency=adjacency)
    entry = {**mechanism.spec(), "count": count}
    if count > 1:
        return replace(
            compose([(mechanism, count)], delta=delta), theorem=f"{_BOUNDED_RANGE}, composed", mechanisms=(entry,)
        )
    once = bounded_range_epsilon(epsilon, delta)
    orders = np.array(DEFAULT_ORDERS)
    return Guarantee.of(
        [(mechanism, count)],
        Evidence(citations=(_BOUNDED_RANGE,)),
        accountant="bounded-range",
        epsilon=once,
        delta=delta,
        epsilon_estimate=once,
        mu=mechanism.gdp(),
        mu_kind="upper",
        rho=mechanism.zcdp(),
        rdp=tuple(zip(orders.tolist(), mechanism.rdp(orders).tolist(), strict=True)),
    )


def bounded_range_epsilon(epsilon: float, delta: float) -> float:
    """Upper bound on ε at δ of one ε₀-bounded-range release: ε₀ + 2 log(1 - √(δ(1 - e^{-ε₀}))), at least 0.

    The inverse of δ = (1 - √(e^{ε-ε₀}))²/(1 - e^{-ε₀}), the largest over the two-point worst cases (Dong, Durfee,
    Rogers 2020, Lemma 3.2).
    """
    saved = 2 * math.log1p(-math.sqrt(delta * -math.expm1(-epsilon)))
    return max(0.0, epsilon + saved + 10 * UNIT * (epsilon - saved))


def _compare(candidates: Mapping[str, Guarantee], classical: float, *, exact: bool) -> Comparison:
    rows = [
        {
            "name": name,
            "theorem": guarantee.theorem,
            "mu": guarantee.mu,
            "rho": guarantee.rho,
            "epsilon": guarantee.epsilon,
            "note": "",
        }
        for name, guarantee in candidates.items()
    ]
    note = "pure ε-DP, at every δ" if exact else "for the exact mechanism, not for a chain that approximates it"
    if math.isinf(classical):
        note = "F - F′ is not bounded, so there is no pure ε"
    rows.append({"name": CLASSICAL, "theorem": _TEXTBOOK, "mu": None, "rho": None, "epsilon": classical, "note": note})
    winner = min(candidates, key=lambda name: candidates[name].epsilon or 0.0)
    best = _all_that_holds(candidates[winner], candidates.values())
    return Comparison(guarantee=best, bounds=tuple(rows), winner=winner, classical_epsilon=classical)


def _all_that_holds(best: Guarantee, others: Iterable[Guarantee]) -> Guarantee:
    """The best guarantee with the smallest μ, ρ and RDP of all: every one of them holds for the same release."""
    for other in others:
        if other.mu is not None and (best.mu is None or other.mu < best.mu):
            best = replace(best, mu=other.mu, mu_kind=other.mu_kind)
        if other.rho is not None and (best.rho is None or other.rho < best.rho):
            best = replace(best, rho=other.rho)
        known = dict(other.rdp)
        best = replace(best, rdp=tuple((order, min(value, known.get(order, value))) for order, value in best.rdp))
        if other.assumptions:
            best = replace(best, assumptions=tuple(dict.fromkeys((*best.assumptions, *other.assumptions))))
    return best
