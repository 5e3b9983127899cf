"""The smallest guarantee that can be vouched for, for a list of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpcalc.accounting.gaussian import composed_mu, is_exactly_gaussian
from dpcalc.accounting.loss_distribution import Bounds, LossDistribution
from dpcalc.accounting.renyi import composed_rdp, composed_rho, rdp_upper_delta, rdp_upper_epsilon
from dpcalc.conversions import gdp_delta, gdp_epsilon
from dpcalc.errors import InputError
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee, MuKind, Status, common_adjacency
from dpcalc.mechanisms.base import Mechanism, Pair
from dpcalc.mechanisms.validation import expect_whole

Accountant = Literal["auto", "gdp", "rdp", "pld", "clt"]
Parts = Sequence[tuple[Mechanism, int]]

ACCOUNTANTS: tuple[Accountant, ...] = ("auto", "gdp", "rdp", "pld", "clt")

_THEOREMS = {
    "gdp": "Gaussian differential privacy: μ² adds (Dong, Roth, Su 2022, Corollary 2)",
    "rdp": "Rényi differential privacy, summed per order, best real order (Mironov 2017; Canonne et al. 2020)",
    "pld": "privacy-loss distributions of dominating pairs, every error counted (Zhu, Dong, Wang 2022, Theorem 10)",
    "clt": "central limit theorem for privacy losses (Dong, Roth, Su 2022, Theorem 5): an approximation",
}


@dataclass(frozen=True)
class _Answer:
    """What an accountant says: an interval and a best estimate of the quantity asked for."""

    accountant: str
    upper: float
    lower: float | None
    estimate: float | None
    status: Status = "certified"


@dataclass(frozen=True)
class _Question:
    """ε at δ, or δ at ε: exactly one of the two is given."""

    delta: float | None
    epsilon: float | None
    tolerance: float


def compose(
    parts: Parts,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    accountant: Accountant = "auto",
    tolerance: float = 1e-3,
) -> Guarantee:
    """The guarantee of running every mechanism `count` times, adaptively: ε at `delta`, or δ at `epsilon`.

    ε (or δ) is a certified upper bound unless the accountant is "clt". "auto" takes the tightest certified
    accountant; `tolerance` is the relative gap between the certified bounds that the loss distributions aim for.
    """
    question = _question(delta, epsilon, tolerance)
    if accountant not in ACCOUNTANTS:
        raise InputError(f"Expected accountant={accountant} to be one of {', '.join(ACCOUNTANTS)}.")
    grouped = group(parts)
    answer = _answer(grouped, question, accountant)
    return _guarantee(grouped, question, answer)


def group(parts: Parts) -> list[tuple[Mechanism, int]]:
    """The parts with equal mechanisms put together, in the order of their first appearance."""
    if not parts:
        raise InputError("Expected at least one mechanism to compose.")
    counts: dict[Mechanism, int] = {}
    for mechanism, count in parts:
        expect_whole("count", count)
        counts[mechanism] = counts.get(mechanism, 0) + int(count)
    common_adjacency(mechanism.adjacency for mechanism in counts)
    return list(counts.items())


def _question(delta: float | None, epsilon: float | None, tolerance: float) -> _Question:
    if (delta is None) == (epsilon is None):
        raise InputError("Expected exactly one of delta and epsilon.")
    if delta is not None and not 0 < delta < 1:
        raise InputError(f"Expected delta={delta} in (0, 1).")
    if epsilon is not None and not 0 <= epsilon < math.inf:
        raise InputError(f"Expected epsilon={epsilon} in [0, inf).")
    if not 0 < tolerance < 1:
        raise InputError(f"Expected tolerance={tolerance} in (0, 1).")
    return _Question(delta, epsilon, tolerance)


def _answer(parts: Parts, question: _Question, accountant: Accountant) -> _Answer:
    if accountant == "gdp":
        return _by_gdp(parts, question)
    if accountant == "rdp":
        return _by_rdp(parts, question)
    if accountant == "pld":
        return _by_loss_distribution(parts, question)
    if is_exactly_gaussian(parts):
        return _by_gdp(parts, question)
    best = _by_loss_distribution(parts, question)
    candidates = [best]
    if best.lower is None or not best.upper - best.lower <= question.tolerance * best.upper:
        candidates.append(_by_rdp(parts, question))
        if composed_mu(parts) is not None:
            candidates.append(_by_gdp(parts, question))
    winner = min(candidates, key=lambda answer: answer.upper)
    return _Answer(winner.accountant, winner.upper, best.lower, _between(best.estimate, best.lower, winner.upper))


def _between(estimate: float | None, lower: float | None, upper: float) -> float | None:
    return None if estimate is None else min(max(estimate, lower or 0.0), upper)


def _by_gdp(parts: Parts, question: _Question) -> _Answer:
    mu = composed_mu(parts)
    if mu is None:
        names = sorted({mechanism.type for mechanism, _ in parts if mechanism.gdp() is None})
        raise InputError(f"accountant gdp: no finite GDP parameter is known for {', '.join(names)}.")
    upper = _gdp_value(mu, question)
    if is_exactly_gaussian(parts):
        lower = _gdp_value(mu * (1 - 1e-12), question) * (1 - 2e-12)
        return _Answer("gdp", upper, lower, upper)
    return _Answer("gdp", upper, None, None)


def _gdp_value(mu: float, question: _Question) -> float:
    if question.delta is not None:
        return float(gdp_epsilon(mu, question.delta))
    return float(gdp_delta(mu, question.epsilon))


def _by_rdp(parts: Parts, question: _Question) -> _Answer:
    if question.delta is not None:
        return _Answer("rdp", rdp_upper_epsilon(parts, question.delta), None, None)
    assert question.epsilon is not None
    return _Answer("rdp", rdp_upper_delta(parts, question.epsilon), None, None)


def _by_loss_distribution(parts: Parts, question: _Question) -> _Answer:
    bounds = [_direction(parts, question, index) for index in _directions(parts)]
    upper = max(bound.upper for bound in bounds)
    lower = max(bound.lower for bound in bounds)
    return _Answer("pld", upper, lower, (lower + upper) / 2)


def _directions(parts: Parts) -> tuple[int, ...]:
    """Both directions, or one where every pair serves both."""
    symmetric = all(mechanism.pairs()[0] is mechanism.pairs()[1] for mechanism, _ in parts)
    return (0,) if symmetric else (0, 1)


def _direction(parts: Parts, question: _Question, index: int) -> Bounds:
    upper: list[tuple[Pair, int]] = [(mechanism.pairs()[index], count) for mechanism, count in parts]
    lower: list[tuple[Pair, int]] = []
    for mechanism, count in parts:
        attained = mechanism.attained_pairs()
        if attained is not None:
            lower.append((attained[index], count))
    distribution = LossDistribution(upper, lower)
    if question.delta is not None:
        return distribution.epsilon(question.delta, question.tolerance)
    assert question.epsilon is not None
    return distribution.delta(question.epsilon, question.tolerance)


def _guarantee(parts: Parts, question: _Question, answer: _Answer) -> Guarantee:
    mu, mu_kind, notes = _mu(parts)
    for_epsilon = question.delta is not None
    return Guarantee(
        adjacency=common_adjacency(mechanism.adjacency for mechanism, _ in parts),
        status=answer.status,
        accountant=answer.accountant,
        theorem=_theorem(parts, answer.accountant),
        epsilon=answer.upper if for_epsilon else question.epsilon,
        delta=question.delta if for_epsilon else answer.upper,
        epsilon_lower=answer.lower if for_epsilon else None,
        epsilon_estimate=answer.estimate if for_epsilon else None,
        mu=mu,
        mu_kind=mu_kind,
        rho=composed_rho(parts),
        rdp=_rdp_points(parts),
        sampler=_sampler(parts),
        assumptions=_unique(line for mechanism, _ in parts for line in mechanism.assumptions()),
        warnings=_unique([*notes, *(line for mechanism, _ in parts for line in mechanism.warnings())]),
        mechanisms=tuple(_entry(mechanism, count) for mechanism, count in parts),
    )


def _mu(parts: Parts) -> tuple[float | None, MuKind | None, list[str]]:
    mu = composed_mu(parts)
    if mu is not None:
        return mu, "exact" if is_exactly_gaussian(parts) else "upper", []
    names = ", ".join(sorted({mechanism.type for mechanism, _ in parts if mechanism.gdp() is None}))
    return None, None, [f"no finite GDP parameter is known for {names}, so mu is null"]


def _rdp_points(parts: Parts) -> tuple[tuple[float, float], ...]:
    orders = np.array(DEFAULT_ORDERS, dtype=np.float64)
    return tuple(zip(DEFAULT_ORDERS, (float(value) for value in composed_rdp(parts)(orders)), strict=True))


def _sampler(parts: Parts) -> str:
    return " + ".join(_unique(mechanism.sampler() for mechanism, _ in parts))


def _theorem(parts: Parts, accountant: str) -> str:
    pairs = _unique(mechanism.theorem() for mechanism, _ in parts if mechanism.theorem())
    return "; ".join((_THEOREMS[accountant], *pairs)) if accountant in ("pld", "rdp") else _THEOREMS[accountant]


def _unique(lines: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _entry(mechanism: Mechanism, count: int) -> Mapping[str, Any]:
    return {**mechanism.spec(), "count": count}
