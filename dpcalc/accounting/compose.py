"""The smallest guarantee that can be vouched for, for a list of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpcalc.accounting.clt import approximate_mu
from dpcalc.accounting.contour import ACCURACY as CONTOUR_ACCURACY
from dpcalc.accounting.contour import contour_through
from dpcalc.accounting.gaussian import composed_mu, is_exactly_gaussian
from dpcalc.accounting.loss_distribution import Bounds, LossDistribution, probability_out_of_range
from dpcalc.accounting.renyi import composed_rdp, composed_rho, rdp_upper_delta, rdp_upper_epsilon
from dpcalc.conversions import gdp_delta, gdp_epsilon, gdp_lower
from dpcalc.conversions.gaussian import THEOREM as GDP_THEOREM
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee, MuKind, Status, common_adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_whole
from dpcalc.pairs.base import Pair

Accountant = Literal["auto", "gdp", "rdp", "pld", "clt"]
Parts = Sequence[tuple[Mechanism, int]]

ACCOUNTANTS: tuple[Accountant, ...] = ("auto", "gdp", "rdp", "pld", "clt")

# With more different mechanisms than this the contour integral would take longer than the bounds that it checks.
_MOST_IN_CONTOUR = 200

_THEOREMS = {
    "gdp": GDP_THEOREM,
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


def upper_epsilon(parts: Parts, delta: float, tolerance: float = 1e-3) -> float:
    """The ε that `compose` certifies at δ, without the lower bound and the other fields."""
    question = _question(delta, None, tolerance)
    grouped = group(parts)
    if is_exactly_gaussian(grouped):
        return _by_gdp(grouped, question).upper
    if _is_out_of_range(grouped, question):
        return _answer(grouped, question, "auto").upper
    if _is_zero(grouped, question):
        return 0.0
    if any(mechanism.attained_pairs() != mechanism.pairs() for mechanism, _ in grouped):
        return _answer(grouped, question, "auto").upper  # another accountant may be the tighter one
    directions = _by_expectation(grouped, question)
    worst = directions[0].upper()
    return max([worst, *(other.upper_below(worst) for other in directions[1:])])


def estimated_epsilon(parts: Parts, delta: float, *, near: float) -> float:
    """ε at δ, fast and no bound: to many digits if it is near `near` and the contour integral converges."""
    question = _question(delta, None, 0.1)
    grouped = group(parts)
    if is_exactly_gaussian(grouped):
        return _by_gdp(grouped, question).upper
    if _is_out_of_range(grouped, question):
        return math.inf
    if _is_zero(grouped, question):
        return 0.0
    directions = _by_expectation(grouped, question)
    rough = max(directions[0].expected, 0.0)
    if not 0.9 * near < rough < 1.1 * near:
        return rough
    return max(rough if found is None else found for found in (direction.estimate for direction in directions))


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
    if accountant == "clt":
        return _Answer("clt", _gdp_value(approximate_mu(parts), question), None, None, "approximate")
    if is_exactly_gaussian(parts):
        return _by_gdp(parts, question)
    try:
        best = _by_loss_distribution(parts, question)
    except OverflowError:  # a composed loss beyond the range of doubles: the other accountants still answer
        best = _Answer("pld", 1.0 if question.delta is None else math.inf, 0.0, None)
    candidates = [best]
    if best.lower is None or math.isinf(best.upper) or not best.upper - best.lower <= question.tolerance * best.upper:
        candidates.append(_by_rdp(parts, question))
        if composed_mu(parts) is not None:
            candidates.append(_by_gdp(parts, question))
    winner = min(candidates, key=lambda answer: answer.upper)
    if best.lower is not None and winner.upper < best.lower * (1 - 1e-9):
        raise CertificationError(
            f"accountant {winner.accountant} gives at most {winner.upper:.9g}, but at least {best.lower:.9g} is "
            "certain; this is a fault of the program, so no answer is given."
        )
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
        lower = gdp_lower(mu, delta=question.delta, epsilon=question.epsilon)
        return _Answer("gdp", upper, lower, upper)
    return _Answer("gdp", upper, None, None)


def _gdp_value(mu: float, question: _Question) -> float:
    if question.delta is not None:
        return float(gdp_epsilon(mu, question.delta))
    assert question.epsilon is not None
    return float(gdp_delta(mu, question.epsilon))


def _by_rdp(parts: Parts, question: _Question) -> _Answer:
    if question.delta is not None:
        return _Answer("rdp", rdp_upper_epsilon(parts, question.delta), None, None)
    assert question.epsilon is not None
    return _Answer("rdp", rdp_upper_delta(parts, question.epsilon), None, None)


def _by_loss_distribution(parts: Parts, question: _Question) -> _Answer:
    """The worse of the two directions, bounded from both sides; the other one only shown to be no worse."""
    if _is_out_of_range(parts, question):
        return _Answer("pld", 1.0 if question.delta is None else math.inf, 0.0, None)
    if _is_zero(parts, question):
        return _Answer("pld", 0.0, 0.0, 0.0)
    lower, upper, directions = _bounds_of_worse(_by_expectation(parts, question))
    estimates = [direction.estimate for direction in directions]
    if any(found is None for found in estimates):
        return _Answer("pld", upper, lower, _middle(lower, upper))
    estimate = max(found for found in estimates if found is not None)
    doubt = CONTOUR_ACCURACY * (1 + 1 / max(directions[0].slope, 1e-300))
    if not lower - doubt <= estimate <= upper + doubt:
        again = [direction.contour(finer=1.7) for direction in directions]
        if not any(found is not None and abs(found - estimate) <= 1e-5 * estimate for found in again):
            return _Answer("pld", upper, lower, _middle(lower, upper))
        raise CertificationError(
            f"the contour integral gives {estimate:.9g}, outside the certified interval "
            f"[{lower:.9g}, {upper:.9g}]; this is a fault of the program, so no answer is given."
        )
    return _Answer("pld", upper, lower, min(max(estimate, lower), upper))


def _bounds_of_worse(directions: list[_Direction]) -> tuple[float, float, list[_Direction]]:
    """Bounds on the worse direction, and the directions that may be it.

    On the one expected to be worse, and on the other if it cannot be shown to be no worse.
    """
    bounds = directions[0].bounds()
    lower, upper, possible = bounds.lower, bounds.upper, directions[:1]
    for other in directions[1:]:
        other_upper = other.upper_below(upper)
        if other_upper > upper:
            found = other.bounds()
            lower, upper = max(lower, found.lower), max(upper, min(found.upper, other_upper))
        if other_upper >= lower:
            possible.append(other)
    return lower, upper, possible


def _middle(lower: float, upper: float) -> float | None:
    """The middle of an interval that is narrow enough to speak of an estimate."""
    return (lower + upper) / 2 if upper <= 1.2 * lower else None


def _is_out_of_range(parts: Parts, question: _Question) -> bool:
    """Whether losses too large for loss distributions are so likely that ε at δ may be one of them."""
    allowed = 1e-3 if question.delta is None else question.delta
    return any(
        probability_out_of_range([(mechanism.pairs()[index], count) for mechanism, count in parts]) > allowed
        for index in (0, 1)
    )


def _is_zero(parts: Parts, question: _Question) -> bool:
    """Whether ε = 0 is enough: total variations add up, so that δ(0) is at most their sum."""
    if question.delta is None:
        return False
    total = 0.0
    for mechanism, count in parts:
        for pair in mechanism.pairs():
            a, b = pair.masses(np.zeros(1))
            total += count * max(0.0, float(a[1] - b[1])) * (1 + 1e-12) + count * 1e-15 * float(a[1])
            if total > question.delta:
                return False
    return True


def _by_expectation(parts: Parts, question: _Question) -> list[_Direction]:
    """Both directions, the worse one first; only one where every pair serves both."""
    symmetric = all(mechanism.pairs()[0] is mechanism.pairs()[1] for mechanism, _ in parts)
    directions = [_Direction(parts, question, index) for index in ((0,) if symmetric else (0, 1))]
    return sorted(directions, key=lambda direction: -direction.expected)


class _Direction:
    """The composition in one direction: remove (0) or add (1)."""

    def __init__(self, parts: Parts, question: _Question, index: int) -> None:
        upper: list[tuple[Pair, int]] = []
        lower: list[tuple[Pair, int]] = []
        for mechanism, count in parts:
            upper.append((mechanism.pairs()[index], count))
            attained = mechanism.attained_pairs()
            if attained is not None:
                lower.append((attained[index], count))
        self._distribution = LossDistribution(upper, lower)
        self._question = question
        if question.delta is not None:
            saddle = self._distribution.cut_for_delta(question.delta).saddle
            self.expected, self.slope = saddle.epsilon, saddle.theta
        else:
            assert question.epsilon is not None
            saddle = self._distribution.cut_for_epsilon(question.epsilon).saddle
            self.expected, self.slope = math.exp(min(saddle.log_delta, 0.0)), 1.0

    @cached_property
    def estimate(self) -> float | None:
        """The contour integral's value, if it converges."""
        return self.contour()

    def contour(self, finer: float = 1.0) -> float | None:
        """The same on a contour so many times as long and as fine, to see whether it has converged."""
        if len(self._distribution.upper) > _MOST_IN_CONTOUR:
            return None
        pilot = self._distribution.pilot
        if self._question.delta is not None:
            saddle = pilot.saddle_for_delta(math.log(self._question.delta))
        else:
            assert self._question.epsilon is not None
            saddle = pilot.saddle_for_epsilon(self._question.epsilon)
        window = pilot.window(saddle.theta, -34.0, 0.0)
        contour = contour_through(
            self._distribution.upper,
            centre=saddle.theta,
            deviation=saddle.deviation / finer,
            width=(window.high - window.low) * finer,
        )
        if contour is None:
            return None
        if self._question.delta is not None:
            value = contour.epsilon(self._question.delta, saddle.epsilon)
            return max(value, 0.0) if math.isfinite(value) else None
        assert self._question.epsilon is not None
        log_delta = contour.log_delta(self._question.epsilon)
        return math.exp(log_delta) if log_delta <= 0 else None

    def bounds(self) -> Bounds:
        """Certified bounds as close as the tolerance asks."""
        return self._value(self._question.tolerance, only_upper=False)

    def upper(self) -> float:
        """The upper one of these bounds."""
        return self._value(self._question.tolerance, only_upper=True).upper

    def upper_below(self, limit: float) -> float:
        """A certified upper bound, no finer than it takes to be below a limit that does not depend on it."""
        if self._question.delta is not None and self._distribution.largest_loss <= limit:
            return self._distribution.largest_loss
        relaxed = min(0.3, 0.7 * (1 - self.expected / limit)) if limit > 0 else 0.0
        if relaxed > self._question.tolerance:
            upper = self._value(relaxed, only_upper=True).upper
            if upper <= limit:
                return upper
        return self.upper()

    def _value(self, tolerance: float, *, only_upper: bool) -> Bounds:
        if self._question.delta is not None:
            return self._distribution.epsilon(self._question.delta, tolerance, only_upper=only_upper)
        assert self._question.epsilon is not None
        return self._distribution.delta(self._question.epsilon, tolerance, only_upper=only_upper)


def _guarantee(parts: Parts, question: _Question, answer: _Answer) -> Guarantee:
    mu, mu_kind, notes = _mu(parts)
    if answer.accountant == "clt":
        mu, mu_kind, notes = approximate_mu(parts), "approximate", ["the central limit theorem is no bound"]
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
        asks="epsilon" if for_epsilon else "delta",
        delta_lower=None if for_epsilon else answer.lower,
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


def _theorem(parts: Parts, accountant: str) -> tuple[str, ...]:
    pairs = _unique(mechanism.theorem() for mechanism, _ in parts if mechanism.theorem())
    return (_THEOREMS[accountant], *pairs) if accountant in ("pld", "rdp") else (_THEOREMS[accountant],)


def _unique(lines: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _entry(mechanism: Mechanism, count: int) -> Mapping[str, Any]:
    return {**mechanism.spec(), "count": count}
