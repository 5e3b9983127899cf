"""A guarantee from an answer: the numbers that were asked for, every other notion, and what all of them rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpcalc.accounting.closed_forms import composed_mu, is_exactly_gaussian
from dpcalc.accounting.question import TOLERANCE, Answer, Question
from dpcalc.accounting.renyi import composed_rdp, composed_rho
from dpcalc.conversions.gaussian import THEOREM as GDP_THEOREM
from dpcalc.evidence import Evidence
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee, MuKind
from dpcalc.mechanisms.base import Mechanism

Parts = Sequence[tuple[Mechanism, int]]

_THEOREMS = {
    "gdp": GDP_THEOREM,
    "rdp": "Mironov 2017, Canonne et al. 2020: Rényi divergences add up at every order, and the best one counts",
    "pld": "Zhu, Dong, Wang 2022, Theorem 10: laws of likelihood ratios in convex order, every error counted",
    "basic": "Dwork et al. 2006: largest losses and failure probabilities add up",
    "clt": "Dong, Roth, Su 2022, Theorem 5: the central limit of privacy losses, an approximation",
}
_OF_PAIRS = ("pld", "rdp", "basic")  # rest on what each mechanism's pair rests on, too


def guarantee_of(parts: Parts, question: Question, answer: Answer) -> Guarantee:
    """The guarantee of a composition about which this was asked and answered."""
    mu, mu_kind, remarks = _mu(parts)
    warnings: tuple[str, ...] = ()
    if answer.accountant == "clt":
        from dpcalc.accounting.clt import approximate_mu

        mu, mu_kind, remarks = approximate_mu(parts), "approximate", []
        warnings = ("the central limit theorem is no bound",)
    if answer.stopped:
        why = f"the interval is wider than the tolerance {question.tolerance:g}: {answer.stopped}"
        if question.tolerance < TOLERANCE:
            warnings = (*warnings, why)
        else:
            remarks = [*remarks, why]
    found = sum(dict.fromkeys(mechanism.evidence() for mechanism, _ in parts), Evidence())
    if answer.accountant not in _OF_PAIRS:
        found = replace(found, citations=())
    own = Evidence(
        citations=(_THEOREMS[answer.accountant],), warnings=warnings, remarks=tuple(remarks), status=answer.status
    )
    for_epsilon = question.delta is not None
    return Guarantee.of(
        parts,
        own + found,
        accountant=answer.accountant,
        epsilon=answer.upper if for_epsilon else question.epsilon,
        delta=question.delta if for_epsilon else answer.upper,
        epsilon_lower=answer.lower if for_epsilon else None,
        epsilon_estimate=answer.estimate if for_epsilon else None,
        asks="epsilon" if for_epsilon else "delta",
        delta_lower=None if for_epsilon else answer.lower,
        mu=mu,
        mu_kind=mu_kind,
        rho=composed_rho(parts),
        rdp=_rdp_points(parts),
        certificate=answer.certificate,
    )


def _mu(parts: Parts) -> tuple[float | None, MuKind | None, list[str]]:
    mu = composed_mu(parts)
    if mu is not None:
        return mu, "exact" if is_exactly_gaussian(parts) else "upper", []
    names = ", ".join(sorted({mechanism.type for mechanism, _ in parts if mechanism.gdp() is None}))
    return None, None, [f"no finite GDP parameter is known for {names}, so mu is null"]


def _rdp_points(parts: Parts) -> tuple[tuple[float, float], ...]:
    orders = np.array(DEFAULT_ORDERS, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # where doubles do not reach nothing finite is known
        values = composed_rdp(parts)(orders)
    return tuple(
        zip(DEFAULT_ORDERS, (float(value) for value in np.where(np.isnan(values), np.inf, values)), strict=True)
    )
