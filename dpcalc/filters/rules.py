"""Filters by their budgets: which sums may grow how far, and what that enforces.

| filter | condition to continue | guarantee | theorem |
|---|---|---|---|
| gdp | Σμ² ≤ B² | B-GDP | Koskela et al., Theorems 12 and C.1 |
| rdp | Σρ ≤ B at each order | (α,B)-RDP | Feldman–Zrnic, Theorems 4.3 and 4.5, Remark 4.4 |
| rdp, budget (ε,δ) | the mixture of orders, or Σρ ≤ B at one | (ε,δ)-DP | the same, and `mixture` |
| dp | Σε ≤ ε, or the RDP of ε_t-DP steps as above | (ε,δ)-DP | the same |

Any of them may stand beside Σδ_t ≤ δ″, for steps with a δ_t of their own (`delta_split`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcalc import conversions
from dpcalc.conversions.ranges import expect
from dpcalc.errors import InputError
from dpcalc.filters.delta_split import DeltaSplit, split_delta
from dpcalc.filters.mixture import ORDERS, Mixture, best_order
from dpcalc.filters.names import FilterKind, Quantity
from dpcalc.filters.rule import ROUNDING, Rule
from dpcalc.filters.subsampled import SubsampledRenyi, gaussian_rdp
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, PROBABILITY, RATE, RENYI_ORDER
from dpcalc.report import written


def _expect(**given: Any) -> None:
    """Every number that was given is one, and in its range."""
    for name, value in given.items():
        if value is not None:
            expect(name, value, _RANGES[name], single=name not in ("orders", "rhos"))


_RANGES = {
    "sigma": POSITIVE,
    "clip": POSITIVE,
    "mu": POSITIVE,
    "epsilon": POSITIVE,
    "delta": PROBABILITY,
    "norm_budget": POSITIVE,
    "orders": RENYI_ORDER,
    "rhos": POSITIVE,
    "sampling_rate": RATE,
    "tolerance": NON_NEGATIVE,
}


def own_delta_split(delta: float, steps: float, tolerance: float = ROUNDING) -> DeltaSplit:
    """δ in two parts, `steps` of it for the steps' own δ_t; what their sum may pass it by is paid by the other part."""
    return DeltaSplit(split_delta(delta, steps * (1 + 2 * tolerance) / delta).filter, steps)


def gdp_rule(
    *,
    quantity: Quantity = "norm",
    sigma: float | None = None,
    clip: float | None = None,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    norm_budget: float | None = None,
    tolerance: float = ROUNDING,
) -> Rule:
    """The GDP filter: Σμ² ≤ B² enforces B-GDP (Koskela et al., Theorem 12)."""
    _expect(sigma=sigma, clip=clip, mu=mu, epsilon=epsilon, delta=delta, norm_budget=norm_budget, tolerance=tolerance)
    scale = _scale(quantity, ("norm", "mu"), sigma, "gdp")
    _exactly_one(mu=mu, epsilon=epsilon, norm_budget=norm_budget)
    if epsilon is not None:
        enforced = conversions.gdp_mu(*_target(epsilon, delta))
        limit = _in_range(enforced * scale * enforced * scale / (1 + 2 * tolerance))
    else:
        limit = _in_range(mu * scale * mu * scale if mu is not None else _norm_limit(norm_budget, quantity))
        enforced = math.sqrt(limit * (1 + 2 * tolerance)) / scale
    notion = DeclaredGDP(mu=enforced)
    return Rule(limits=(limit,), notion=notion, **_common("gdp", quantity, scale, clip, tolerance))


def rdp_rule(
    *,
    quantity: Quantity = "norm",
    sigma: float | None = None,
    clip: float | None = None,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    norm_budget: float | None = None,
    orders: Sequence[float] = (),
    rhos: Sequence[float] = (),
    sampling_rate: float | None = None,
    several_orders: bool = False,
    tolerance: float = ROUNDING,
) -> Rule:
    """The RDP filter: Σρ ≤ B at each order enforces (α,B)-RDP (Feldman–Zrnic, Theorem 4.3).

    Gaussian steps cost αμ²/2 at every order at once, so there the filter enforces zCDP (Remark 4.4). Under Poisson
    sampling each step costs its subsampled RDP (Theorem 4.5), which needs every record's norm at every step. There, and
    for a log of ρ at `several_orders`, a budget (ε,δ) is kept at one order if it is given, or if a clip tells which one
    allows most steps at the clip; otherwise by the mixture of orders.
    """
    _expect(sigma=sigma, clip=clip, mu=mu, epsilon=epsilon, delta=delta, norm_budget=norm_budget, tolerance=tolerance)
    _expect(orders=orders, rhos=rhos, sampling_rate=sampling_rate)
    scale = _scale(quantity, ("norm", "mu", "rho"), sigma, "rdp")
    if len(rhos) not in (0, len(orders)):
        raise InputError(f"expected one `rho` for each `order`, got {len(rhos)} and {len(orders)}")
    _exactly_one(mu=mu, epsilon=epsilon, norm_budget=norm_budget, rho=tuple(rhos) or None)
    common = _common("rdp", quantity, scale, clip, tolerance)
    if sampling_rate is None and not several_orders and not (quantity == "rho" and orders):
        rho, stated = _zcdp_budget(
            quantity, scale, mu=mu, epsilon=epsilon, delta=delta, norm_budget=norm_budget, orders=orders, rhos=rhos
        )
        limit = rho if quantity == "rho" else norm_budget or 2 * rho * scale * scale
        limit = _in_range(limit if stated else limit / (1 + 2 * tolerance))
        notion = DeclaredZCDP(rho=rho * (1 + 2 * tolerance) if stated else rho)
        return Rule(limits=(limit,), notion=notion, **common)
    if quantity == "rho" and len(orders) > 1 and not several_orders:
        raise InputError("a log of ρ without a column order is at one order: give one `order`")
    if rhos:
        return _order_rule(sorted(zip(orders, rhos, strict=True)), sampling_rate, common)
    if epsilon is None:
        raise InputError("under sampling or for a log of ρ the budget is `order` with `rho`, or `epsilon` with `delta`")
    return _target_rule(_target(epsilon, delta), orders, sampling_rate, common)


def _target_rule(
    target: tuple[float, float], orders: Sequence[float], sampling_rate: float | None, common: dict[str, Any]
) -> Rule:
    """A budget (ε,δ) kept at one order, which may be the one that allows most steps at the clip, or by a mixture."""
    if not orders and sampling_rate is not None and common["clip"] is not None:
        orders = [_planned_order(*target, sampling_rate, common["scale"] / common["clip"])]
    if len(orders) == 1:
        limit = _largest_rho(orders[0], *target) / (1 + 2 * common["tolerance"])
        return _order_rule([(orders[0], limit)], sampling_rate, common)
    mixture = _equal_weights(*target, orders) if orders else Mixture.default(*target)
    return _mixture_rule(mixture, sampling_rate, common)


def dp_rule(
    *,
    epsilon: float,
    delta: float,
    quantity: Quantity = "epsilon",
    orders: Sequence[float] = (),
    tolerance: float = ROUNDING,
) -> Rule:
    """The DP filter for ε_t-DP steps: Σε_t ≤ ε, or their RDP at one order (or a mixture) within (ε,δ).

    The order is the best one for small steps, which cost αε²/2: so the filter is never stricter than ½Σε_t² ≤ B*, the
    largest zCDP that implies (ε,δ) by that conversion (Feldman–Zrnic, Theorem 4.9).
    """
    _expect(epsilon=epsilon, delta=delta, orders=orders, tolerance=tolerance)
    common = _common("dp", quantity, _scale(quantity, ("epsilon",), None, "dp"), None, tolerance)
    orders = tuple(orders) or (best_order(epsilon, delta, lambda alpha: alpha, largest=1e15),)
    rule = _mixture_rule(_equal_weights(epsilon, delta, orders), None, common)
    return replace(rule, limits=(*rule.limits, math.inf))


def unlimited(
    kind: FilterKind,
    *,
    quantity: Quantity = "norm",
    sigma: float | None = None,
    clip: float | None = None,
    orders: Sequence[float] = (),
    sampling_rate: float | None = None,
    tolerance: float = ROUNDING,
) -> Rule:
    """No budget at all: for odometers and audits, which only track. It guarantees nothing."""
    _expect(sigma=sigma, clip=clip, orders=orders, sampling_rate=sampling_rate, tolerance=tolerance)
    allowed: dict[FilterKind, tuple[str, ...]] = {
        "gdp": ("norm", "mu"),
        "rdp": ("norm", "mu", "rho"),
        "dp": ("epsilon",),
    }
    common = _common(kind, quantity, _scale(quantity, allowed[kind], sigma, kind), clip, tolerance)
    orders = tuple(orders) or (ORDERS if kind == "dp" else ())
    subsampled = None
    if sampling_rate is not None:
        subsampled = SubsampledRenyi(orders=orders, sampling_rate=sampling_rate)
    rows = len(orders) + 1 if kind == "dp" else max(1, len(orders)) if subsampled or quantity == "rho" else 1
    return Rule(limits=(math.inf,) * rows, notion=None, orders=orders, subsampled=subsampled, **common)


def _common(kind: FilterKind, quantity: Quantity, scale: float, clip: float | None, tolerance: float) -> dict[str, Any]:
    return {"kind": kind, "quantity": quantity, "scale": scale, "clip": clip, "tolerance": tolerance}


def _zcdp_budget(
    quantity: Quantity,
    scale: float,
    *,
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    norm_budget: float | None,
    orders: Sequence[float],
    rhos: Sequence[float],
) -> tuple[float, bool]:
    """ρ of the budget, and whether it was stated as such: one derived from (ε,δ) keeps the tolerance inside it."""
    if rhos:
        return min(rho / order for order, rho in zip(orders, rhos, strict=True)), True
    if epsilon is not None:
        target = _target(epsilon, delta)
        if len(orders) > 1:
            raise InputError("Gaussian steps cost the same at every order: give one `order` at most")
        return (_largest_rho(orders[0], *target) / orders[0] if orders else conversions.zcdp_rho(*target)), False
    if norm_budget is not None:
        return _norm_limit(norm_budget, quantity) / (2 * scale * scale), True
    if mu is not None and quantity != "rho":
        return mu * mu / 2, True
    raise InputError("a log of ρ needs `order` with `rho`, or `epsilon` with `delta`")


def _order_rule(points: Sequence[tuple[float, float]], sampling_rate: float | None, common: Mapping[str, Any]) -> Rule:
    orders, limits = (tuple(column) for column in zip(*points, strict=True))
    widened = tuple(limit * (1 + 2 * float(common["tolerance"])) for limit in limits)
    notion = DeclaredRDP(orders=orders, epsilons=widened)
    return Rule(limits=limits, notion=notion, orders=orders, subsampled=_subsampled(orders, sampling_rate), **common)


def _mixture_rule(mixture: Mixture, sampling_rate: float | None, common: Mapping[str, Any]) -> Rule:
    return Rule(
        limits=(math.inf,) * len(mixture.orders),
        notion=DeclaredDP(epsilon=mixture.epsilon, delta=mixture.delta),
        orders=mixture.orders,
        mixture=mixture,
        subsampled=_subsampled(mixture.orders, sampling_rate),
        **common,
    )


def _subsampled(orders: Sequence[float], sampling_rate: float | None) -> SubsampledRenyi | None:
    return None if sampling_rate is None else SubsampledRenyi(orders=tuple(orders), sampling_rate=sampling_rate)


def _equal_weights(epsilon: float, delta: float, orders: Sequence[float]) -> Mixture:
    return Mixture(epsilon, delta, tuple(orders), (1 / len(orders),) * len(orders))


def _planned_order(epsilon: float, delta: float, sampling_rate: float, noise_multiplier: float) -> float:
    """The order that allows most steps of a record at the clip, by the RDP whose chords are charged."""
    return best_order(epsilon, delta, lambda alpha: gaussian_rdp(alpha, noise_multiplier, sampling_rate))


def _largest_rho(order: float, epsilon: float, delta: float) -> float:
    """The largest RDP at an order, rounded down, that by itself implies (ε,δ)."""
    low, high = 0.0, epsilon + 1.0
    for _ in range(120):
        middle = (low + high) / 2
        enough = conversions.rdp_epsilons(order, middle, delta) <= epsilon
        low, high = (middle, high) if enough else (low, middle)
    if low <= 1e-12 * epsilon:
        raise InputError(
            f"no RDP at order {order:g} implies ε = {epsilon:g} at δ = {written(delta)}; use a larger order"
        )
    return low


def _scale(quantity: Quantity, allowed: Sequence[str], sigma: float | None, kind: str) -> float:
    if quantity not in allowed:
        expected = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        raise InputError(f"`filter={kind}` takes a log of {expected}, got {quantity}")
    if quantity != "norm":
        return 1.0
    if sigma is None:
        raise InputError("norms need the noise; give `sigma`, or `noise_multiplier` with `clip`")
    _in_range(sigma)
    return sigma


def _norm_limit(norm_budget: float | None, quantity: Quantity) -> float:
    if quantity != "norm" or norm_budget is None:
        raise InputError(f"`norm_budget` bounds a sum of squared norms, but the log holds {quantity}")
    return norm_budget


def _in_range(value: float) -> float:
    """The noise or the budget, if its square and its quotients can be computed with."""
    if not 1e-140 < value < 1e140:
        raise InputError(f"{value:g} in the noise or the budget is beyond what can be computed: choose other units")
    return value


def _target(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None or delta is None:
        raise InputError("an ε budget needs its δ: give `epsilon` and `delta`")
    return epsilon, delta


def _exactly_one(**given: object) -> None:
    names = [f"`{name}`" for name, value in given.items() if value is not None]
    if len(names) != 1:
        wanted = "exactly one budget: `mu`, `epsilon` with `delta`, `norm_budget`, or `order` with `rho`"
        raise InputError(f"expected {wanted}; got {' and '.join(names) or 'none'}")
