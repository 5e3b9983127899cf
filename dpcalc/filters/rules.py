"""What a step costs a record, in a unit that adds up, and how much may be spent before the filter stops it.

| filter | condition to continue | guarantee | theorem |
|---|---|---|---|
| gdp | Σμ² ≤ B² | B-GDP | Koskela et al., Theorem 11, eq. (4.1) |
| rdp | Σρ ≤ B at each order | (α,B)-RDP | Feldman–Zrnic, Theorem 4.3, Remark 4.4 |
| dp | ½Σε² ≤ B* | (ε,δ)-DP, B*-zCDP | Feldman–Zrnic, Theorem 4.9 |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.filters.subsampled import SubsampledRenyi, gaussian_rdp
from dpcalc.notions import GaussianDP, Notion, RenyiDP, ZeroConcentratedDP

FilterKind = Literal["gdp", "rdp", "dp"]
Quantity = Literal["norm", "mu", "rho", "epsilon"]

# A sum may pass its limit by this much, relatively, and still count as equal: compensated sums of double-precision
# squares err by less than a hundredth of it. The reported budget is widened by twice as much.
ROUNDING = 2.5e-13


def storage_tolerance(dtype: np.dtype[Any]) -> float:
    """How far a sum of squares of norms stored as `dtype` may be from the truth, relatively; never below ROUNDING."""
    if dtype.kind == "f" and dtype.itemsize < 8:
        return ROUNDING + 2 * float(np.finfo(dtype).eps)
    return ROUNDING


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How values of a log become costs, the limit on their sum, and the notion of privacy that the limit enforces.

    Costs are v² for norms, μ and ε, v for ρ, and the subsampled RDP at each order under Poisson sampling. A record
    takes part while its sums stay at or below `limits`, up to a relative `tolerance` that `notion` covers.
    """

    kind: FilterKind
    quantity: Quantity
    limits: tuple[float, ...]
    notion: Notion | None
    scale: float = 1.0
    clip: float | None = None
    tolerance: float = ROUNDING
    orders: tuple[float, ...] = ()
    subsampled: SubsampledRenyi | None = None

    @property
    def squares(self) -> bool:
        """Whether the cost is the square of the value: one limit, no interpolation."""
        return self.subsampled is None and self.quantity != "rho"

    @property
    def accepted(self) -> Floats:
        """The largest sums that count as within the limits."""
        return np.array(self.limits) * (1 + self.tolerance)

    def costs(self, values: Floats) -> Floats:
        """What each value costs under each limit, one row per limit; values above the clip count as the clip."""
        if self.clip is not None:
            values = np.minimum(values, self.clip)
        if self.subsampled is not None:
            # The RDP may rise much faster than the square of a norm, so a rounded norm is widened before and not after.
            rounding = 1 + self.tolerance if self.tolerance > ROUNDING else 1.0
            return self.subsampled.rdp((values * rounding / self.scale) ** 2)
        return (values * values if self.squares else values)[None]

    def spent(self, totals: Floats) -> Floats:
        """Sums of costs as people read them: μ (or its zCDP equivalent √2ρ), ρ for declared ρ and sampled RDP."""
        first = totals[0]
        spent: Floats = np.sqrt(first) / self.scale if self.squares else first
        return spent

    @property
    def unit(self) -> str:
        """What `spent` is measured in."""
        if self.kind == "dp":
            return "sqrt of the sum of squared epsilons (mu with zCDP mu^2/2)"
        if self.squares:
            return "mu"
        return f"rdp at order {self.orders[0]:g}" if self.orders else "zCDP rho"


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
    """The GDP filter: Σμ² ≤ B² enforces B-GDP (Koskela et al., Theorem 11)."""
    scale = _scale(quantity, ("norm", "mu"), sigma, "gdp")
    _exactly_one(mu=mu, epsilon=epsilon, norm_budget=norm_budget)
    if norm_budget is not None:
        limit = _norm_limit(norm_budget, quantity)
        enforced = math.sqrt(limit * (1 + 2 * tolerance)) / scale * (1 + 4e-16)
    elif mu is not None:
        limit = (mu * scale) ** 2
        enforced = mu * (1 + tolerance) * (1 + 4e-16)
    else:
        enforced = conversions.gdp_mu(*_target(epsilon, delta))
        limit = (enforced * scale) ** 2 / (1 + 2 * tolerance) * (1 - 1e-15)
    notion = GaussianDP(parameter=enforced)
    return Rule(
        kind="gdp", quantity=quantity, limits=(limit,), notion=notion, scale=scale, clip=clip, tolerance=tolerance
    )


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
    tolerance: float = ROUNDING,
) -> Rule:
    """The RDP filter at one order or several: Σρ ≤ B at each enforces (α,B)-RDP (Feldman–Zrnic, Theorem 4.3).

    Gaussian steps cost αμ²/2 at every order at once, so there the filter enforces zCDP (Remark 4.4). Under Poisson
    sampling each step costs its subsampled RDP (Theorem 4.5), which needs every record's norm at every step.
    """
    scale = _scale(quantity, ("norm", "mu", "rho"), sigma, "rdp")
    if len(rhos) not in (0, len(orders)):
        raise InputError(f"expected one --rho for each --order, got {len(rhos)} and {len(orders)}")
    _exactly_one(mu=mu, epsilon=epsilon, norm_budget=norm_budget, rho=tuple(rhos) or None)
    common: dict[str, Any] = {"kind": "rdp", "quantity": quantity, "scale": scale, "clip": clip, "tolerance": tolerance}
    if sampling_rate is not None or (quantity == "rho" and orders):
        points = _order_points(
            orders, rhos, epsilon, delta, sampling_rate=sampling_rate, noise_multiplier=clip and scale / clip
        )
        if quantity == "rho" and len(points) > 1:
            raise InputError("a log of ρ is at one order: give one --order and one --rho")
        return _order_rule(points, epsilon is not None, sampling_rate, common)
    if rhos and quantity != "rho":
        rho = min(b / a for a, b in zip(orders, rhos, strict=True))
    elif epsilon is not None:
        target = _target(epsilon, delta)
        found = (
            [rho / a for a, rho in _order_points(orders, (), *target, sampling_rate=None, noise_multiplier=None)]
            if orders
            else []
        )
        rho = (found[0] if found else conversions.zcdp_rho(*target)) / (1 + 2 * tolerance) * (1 - 1e-15)
    elif norm_budget is not None:
        rho = _norm_limit(norm_budget, quantity) / (2 * scale * scale)
    elif mu is not None and quantity != "rho":
        rho = mu * mu / 2
    else:
        raise InputError("a log of ρ needs --order with --rho, or --epsilon with --delta")
    limit = rho if quantity == "rho" else norm_budget or 2 * rho * scale * scale
    notion = ZeroConcentratedDP(parameter=rho * (1 + 2 * tolerance) * (1 + 1e-15))
    return Rule(limits=(limit,), notion=notion, **common)


def dp_rule(*, epsilon: float, delta: float, quantity: Quantity = "epsilon", tolerance: float = ROUNDING) -> Rule:
    """The DP filter for pure-ε steps: ½Σε² ≤ B*, the largest zCDP level that implies (ε,δ) (Feldman–Zrnic, Thm 4.9)."""
    if quantity != "epsilon":
        raise InputError(f"--filter dp takes a log of epsilon, got {quantity}")
    rho = conversions.zcdp_rho(epsilon, delta)
    limit = 2 * rho / (1 + 2 * tolerance) * (1 - 1e-15)
    notion = ZeroConcentratedDP(parameter=rho)
    return Rule(kind="dp", quantity="epsilon", limits=(limit,), notion=notion, tolerance=tolerance)


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
    """No budget at all: for odometers, which only track. It guarantees nothing."""
    scale = _scale(quantity, ("norm", "mu", "rho") if kind == "rdp" else ("norm", "mu"), sigma, kind)
    subsampled = None
    if sampling_rate is not None:
        subsampled = SubsampledRenyi(orders=tuple(orders), sampling_rate=sampling_rate)
    return Rule(
        kind=kind,
        quantity=quantity,
        limits=(math.inf,) * max(1, len(orders) if subsampled else 1),
        notion=None,
        scale=scale,
        clip=clip,
        tolerance=tolerance,
        orders=tuple(orders),
        subsampled=subsampled,
    )


def _order_rule(
    points: Sequence[tuple[float, float]], inside: bool, sampling_rate: float | None, common: Mapping[str, Any]
) -> Rule:
    tolerance = float(common["tolerance"])
    orders = tuple(order for order, _ in points)
    # A budget that was derived from (ε,δ) keeps the tolerance inside it; a stated one is widened by it.
    limits = tuple(rho / (1 + 2 * tolerance) * (1 - 1e-15) if inside else rho for _, rho in points)
    notion = RenyiDP(orders=orders, epsilons=tuple(limit * (1 + 2 * tolerance) * (1 + 4e-16) for limit in limits))
    subsampled = None
    if sampling_rate is not None:
        subsampled = SubsampledRenyi(orders=orders, sampling_rate=sampling_rate)
    return Rule(limits=limits, notion=notion, orders=orders, subsampled=subsampled, **common)


def _order_points(
    orders: Sequence[float],
    rhos: Sequence[float],
    epsilon: float | None,
    delta: float | None,
    *,
    sampling_rate: float | None,
    noise_multiplier: float | None,
) -> list[tuple[float, float]]:
    """Orders with their RDP budgets; for (ε,δ) the largest RDP that implies it, at the best order if none is given."""
    if rhos:
        return sorted(zip(orders, rhos, strict=True))
    if epsilon is None:
        raise InputError("under sampling or for a log of ρ the budget is --order with --rho, or --epsilon with --delta")
    target = _target(epsilon, delta)
    if len(orders) > 1:
        raise InputError("--epsilon with --delta needs one --order at most: a second one could only stop earlier")
    if orders:
        (rho,) = _largest_rhos(np.array(orders), *target).tolist()
        if rho == 0:
            raise InputError(
                f"no RDP at order {orders[0]:g} implies ε = {epsilon:g} at δ = {delta:g}; use a larger order"
            )
        return [(orders[0], rho)]
    if noise_multiplier is None or sampling_rate is None:
        raise InputError("without --clip the best order is not known beforehand: give --order")
    grid = np.unique(np.concatenate([1 + np.geomspace(0.1, 1, 12), np.geomspace(2, 512, 60)]))
    worst = gaussian_rdp(grid, noise_multiplier, sampling_rate)
    budgets = _largest_rhos(grid, *target)
    best = int(np.argmax(budgets / worst))
    return [(float(grid[best]), float(budgets[best]))]


def _largest_rhos(orders: Floats, epsilon: float, delta: float) -> Floats:
    """The largest RDP at each order, rounded down, that by itself implies (ε,δ); 0 where none does."""
    low, high = np.zeros(orders.size), np.full(orders.size, epsilon + 1.0)
    for _ in range(120):
        middle = (low + high) / 2
        enough = conversions.rdp_epsilons(orders, middle, delta) <= epsilon
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(low > 1e-12 * epsilon, low, 0.0)


def _scale(quantity: Quantity, allowed: Sequence[str], sigma: float | None, kind: str) -> float:
    if quantity not in allowed:
        raise InputError(f"--filter {kind} takes a log of {', '.join(allowed[:-1])} or {allowed[-1]}, got {quantity}")
    if quantity != "norm":
        return 1.0
    if sigma is None:
        raise InputError("norms need the noise: give --sigma, or --noise-multiplier with --clip")
    if not (math.isfinite(sigma) and sigma > 0):
        raise InputError(f"expected sigma in (0, inf), got {sigma}")
    return sigma


def _norm_limit(norm_budget: float, quantity: Quantity) -> float:
    if quantity != "norm":
        raise InputError(f"--norm-budget bounds a sum of squared norms, but the log holds {quantity}")
    return norm_budget


def _target(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None or delta is None:
        raise InputError("an ε budget needs its δ: give --epsilon and --delta")
    return epsilon, delta


def _exactly_one(**given: object) -> None:
    names = ["--" + name.replace("_", "-") for name, value in given.items() if value is not None]
    if len(names) != 1:
        wanted = "exactly one budget: --mu, --epsilon with --delta, --norm-budget, or --order with --rho"
        raise InputError(f"expected {wanted}; got {' and '.join(names) or 'none'}")
