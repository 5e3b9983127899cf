"""What needs no distribution: Gaussians compose exactly, pure and approximate DP add up, and total variations do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcalc.accounting.question import Answer, Question
from dpcalc.conversions import gdp_delta, gdp_epsilon, gdp_lower
from dpcalc.errors import InputError
from dpcalc.mechanisms.base import Mechanism
from dpcalc.rounding import UNIT

if TYPE_CHECKING:
    from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Mechanism, int]]

_FAR = 1.5  # what a rough look must exceed a limit by to be believed
_LARGEST_MU = 1e154  # beyond, ε ≈ μ²/2 is not told from infinity


def composed_mu(parts: Parts) -> float | None:
    """√Σ count·μ², rounded up (Dong, Roth, Su 2022, Corollary 2); None unless every part has a finite μ."""
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].gdp()
    known = [(mechanism.gdp(), count) for mechanism, count in parts]
    largest = max((mu for mu, _ in known if mu is not None), default=0.0)
    squares = [count * (mu / largest) ** 2 for mu, count in known if mu is not None and mu > 0]
    return None if any(mu is None for mu, _ in known) else largest * math.sqrt(math.fsum(squares)) * (1 + 8 * UNIT)


def is_exactly_gaussian(parts: Parts) -> bool:
    """Whether every part's trade-off curve is a Gaussian's, so that the composed μ is the whole truth."""
    return all(mechanism.gdp_is_exact() for mechanism, _ in parts)


def by_gdp(parts: Parts, question: Question) -> Answer:
    """By the GDP parameters: exact for Gaussians, an upper bound for everything else that has one."""
    mu = composed_mu(parts)
    if mu is None:
        names = sorted({mechanism.type for mechanism, _ in parts if mechanism.gdp() is None})
        raise InputError(f"accountant gdp: no finite GDP parameter is known for {', '.join(names)}.")
    upper = gdp_value(mu, question)
    if not is_exactly_gaussian(parts):
        return Answer("gdp", upper, None)
    lower = (
        None if math.isinf(upper) or mu > _LARGEST_MU else gdp_lower(mu, delta=question.delta, epsilon=question.epsilon)
    )
    return Answer("gdp", upper, lower, upper)


def gdp_value(mu: float, question: Question) -> float:
    """What μ-GDP gives, from above."""
    if question.delta == 0 or (question.delta is not None and mu > _LARGEST_MU):
        return math.inf
    if mu > _LARGEST_MU:
        return 1.0
    if question.delta is not None:
        return float(gdp_epsilon(mu, question.delta))
    assert question.epsilon is not None
    return float(gdp_delta(mu, question.epsilon))


def by_basic_composition(parts: Parts, question: Question) -> Answer:
    """Largest finite losses add up, and some loss is infinite with probability 1 − Π(1−δ), at most Σδ.

    That is (Σε, Σδ)-DP (Dwork et al. 2006) and a little less: exact for a declared guarantee alone, and δ = 0 is
    answered where none fails. Below Σε the finite losses add at most 1 − e^{ε−Σε} to δ, which is little where only
    rounding or a few digits are missing.
    """
    basic = [(*mechanism.basic_dp(), count) for mechanism, count in parts]
    epsilon = sum_up((epsilon, count) for epsilon, _, count in basic)
    delta = _some_failure([(delta, count) for _, delta, count in basic])
    if question.delta is not None:
        return Answer("basic", epsilon if delta <= question.delta else math.inf, None)
    assert question.epsilon is not None
    if epsilon <= question.epsilon:
        return Answer("basic", delta, None)
    from fractions import Fraction

    missing = Fraction(epsilon) - Fraction(question.epsilon) if math.isfinite(epsilon) else math.inf
    return Answer("basic", min(1.0, (delta - math.expm1(-float(missing))) * (1 + 8 * UNIT)), None)


def _some_failure(failures: Sequence[tuple[float, int]]) -> float:
    """1 − Π(1−δ)ⁿ from above: less than Σnδ, so that a δ that is the sum of others as they are written is enough."""
    total = sum_up(failures)
    if total == 0 or any(delta >= 1 for delta, _ in failures):
        return min(total, 1.0)
    logarithm = math.fsum(count * math.log1p(-delta) for delta, count in failures)
    return min(total, 1.0, -math.expm1(logarithm) * (1 + 12 * UNIT))


def sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """Σ count·value, rounded up; the double itself where the sum is one."""
    terms = [term for term in terms if term[0] != 0]
    if any(math.isinf(value) for value, _ in terms):
        return math.inf
    from fractions import Fraction

    exact = sum((Fraction(value) * count for value, count in terms), Fraction(0))
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def is_zero(parts: Parts, question: Question) -> bool:
    """Whether ε = 0 is enough: total variations add up, so that δ(0) is at most their sum."""
    if question.delta is None:
        return False
    terms: list[tuple[float, int]] = []
    for mechanism, count in parts:
        for (pair, _), copies in mechanism.runs(count):
            if copies * _total_variation(pair.rough()) > _FAR * question.delta:
                return False
            terms.append((_total_variation(pair), copies))
        if sum_up(terms) > question.delta:
            return False
    return True


def _total_variation(pair: Pair) -> float:
    """δ at ε = 0, from above: whatever of P is not known to have a loss of at most 0, less Q of the losses above.

    Masses that are bounds from above add up to 1 and their excess, which the P-mass of losses of at most 0 may hold.
    It is never less than what the losses above 0 say alone, should there be more mass still.
    """
    p, q, p_error, q_error = pair.cells(np.zeros(1))
    above = math.fsum((1, pair.excess(), -p[0], p_error[0]))
    if math.fsum((p[0], p[1], -1, -pair.excess())) > 0:
        above = max(above, float(p[1] + p_error[1]))
    return math.fsum((above, -q[1], q_error[1])) + 4 * UNIT
