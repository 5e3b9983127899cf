"""A statement of privacy in one notion, told in all the others that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from dpcalc.conversions.gaussian import gdp_lower
from dpcalc.errors import InputError
from dpcalc.evidence import Evidence
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee
from dpcalc.mechanisms.declared import Declared, DeclaredDP, DeclaredGDP

FALSE_POSITIVE_RATES = (1e-3, 1e-2, 1e-1)

_ABOVE = 2e-12  # more than δ is rounded up by, relative to itself
_FAINTEST = 1e-290  # a δ below is not told from 0


def convert(notion: Declared, *, group: int = 1, **asked: Any) -> tuple[Guarantee, dict[str, Any]]:
    """Everything `notion` implies, asked as `implied` is, and the trade-off as details."""
    return implied(notion, group=group, **asked), _tradeoff(notion.group(group) if group > 1 else notion)


def implied(
    notion: Declared,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    orders: Sequence[float] = (),
    group: int = 1,
) -> Guarantee:
    """What `notion` implies: ε at `delta` or δ at `epsilon`, μ, ρ and RDP."""
    if delta is not None and epsilon is not None:
        raise InputError("expected δ (to get ε) or ε (to get δ), got both", where="delta")
    if group > 1:
        notion = notion.group(group)
    warnings, remarks = list[str](), list(notion.reasons())
    asks: Literal["epsilon", "delta"] = "epsilon" if epsilon is None else "delta"
    if delta is not None:
        epsilon = notion.epsilon_at(delta) if delta > 0 or isinstance(notion, DeclaredDP) else math.inf
        if epsilon is None:
            warnings.append(f"ε is not given: {notion.name} says nothing at δ = {delta:g}, below its own δ.")
    elif epsilon is not None:
        delta = notion.delta_at(epsilon)
    attained = _is_attained(notion, group)
    lower = _lower(notion, delta, epsilon, asks) if attained else None
    at = sorted({*map(float, DEFAULT_ORDERS), *map(float, orders)})
    rdp = tuple((a, e) for a, e in zip(at, notion.rdp_at(at), strict=True) if math.isfinite(e))
    beyond = sorted(set(orders) - {a for a, _ in rdp})
    if beyond and rdp:
        warnings.append(f"RDP is not given at order {beyond[0]:g}: nothing is known beyond the orders that were given.")
    mu = notion.gdp()
    evidence = Evidence(
        citations=(notion.conversion,),
        assumptions=(f"the mechanism is {_stated(notion)} for {_whom(group)}",),
        warnings=tuple(warnings),
        remarks=tuple(remarks),
    )
    return Guarantee.of(
        [(notion, None)],
        evidence,
        accountant=notion.accountant,
        epsilon=epsilon,
        delta=delta,
        asks=asks,
        epsilon_lower=lower if asks == "epsilon" else None,
        epsilon_estimate=epsilon if asks == "epsilon" and attained else None,
        delta_lower=lower if asks == "delta" else None,
        mu=mu,
        mu_kind=None if mu is None else notion.mu_kind,
        rho=notion.zcdp(),
        rdp=rdp,
    )


def _is_attained(notion: Declared, group: int) -> bool:
    """Whether some mechanism of the statement is as bad as its bounds say.

    Groups of an (ε,δ)-DP mechanism are not: a chain of two ε-DP steps has the curve T(T(x)), whose advantage is at most
    1 - e^{-ε} where (2ε, 0) would allow tanh(ε). Groups under μ-GDP are (a query that every record moves alike).
    """
    return notion.attained and (group == 1 or isinstance(notion, DeclaredGDP))


def _lower(notion: Declared, delta: float | None, epsilon: float | None, asks: str) -> float | None:
    """The answer from below: upper bounds on δ are above the exact ones by less than `_ABOVE` of them."""
    if epsilon is None or delta is None or not math.isfinite(epsilon):
        return None
    if isinstance(notion, DeclaredGDP):
        given = {"epsilon": epsilon} if asks == "delta" else {"delta": delta}
        return gdp_lower(notion.mu, **given)
    if asks == "delta":
        return delta * (1 - _ABOVE) if delta > _FAINTEST else 0.0
    candidates = (epsilon * (1 - share) for share in (1e-11, 1e-9, 1e-6, 1e-3))
    return next((below for below in candidates if notion.delta_at(below) * (1 - _ABOVE) > delta), 0.0)


def _stated(notion: Declared) -> str:
    entry = dict(notion.spec())
    entry.pop("type")
    return f"{notion.name} with " + ", ".join(f"{key} = {value}" for key, value in entry.items())


def _whom(group: int) -> str:
    return "one record" if group == 1 else f"groups of {group} records"


def _tradeoff(notion: Declared) -> dict[str, Any]:
    rates = {f"{rate:g}": notion.true_positive_rate(rate) for rate in FALSE_POSITIVE_RATES}
    return {"advantage": notion.advantage(), "tpr_at_fpr": rates}
