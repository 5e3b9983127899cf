"""The smallest guarantee that can be vouched for, for a list of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dpcalc.accounting.closed_forms import (
    by_basic_composition,
    by_gdp,
    composed_mu,
    gdp_value,
    is_exactly_gaussian,
    is_zero,
)
from dpcalc.accounting.guarantees import guarantee_of
from dpcalc.accounting.question import Answer, Question
from dpcalc.accounting.renyi import by_rdp
from dpcalc.effort import ANSWER, within
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Guarantee, common_adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_whole

Accountant = Literal["auto", "gdp", "rdp", "pld", "clt"]
Parts = Sequence[tuple[Mechanism, int]]

ACCOUNTANTS: tuple[Accountant, ...] = ("auto", "gdp", "rdp", "pld", "clt")

_DIGITS = 1e-9  # by more than this, relatively, no upper bound may be below a lower one


def compose(
    parts: Parts,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    accountant: Accountant = "auto",
    tolerance: float = 1e-3,
) -> Guarantee:
    """The guarantee of running every mechanism `count` times, adaptively: ε at `delta`, or δ at `epsilon`.

    ε (or δ) is a certified upper bound unless the accountant is "clt". "auto" takes the tightest certified accountant;
    `tolerance` is the relative width of the certified interval to aim for. δ = 0 asks for pure ε.
    """
    question = Question(delta, epsilon, tolerance)
    if accountant not in ACCOUNTANTS:
        raise InputError(f"Expected accountant={accountant} to be one of {', '.join(ACCOUNTANTS)}.")
    grouped = group(parts)
    return guarantee_of(grouped, question, answer_of(grouped, question, accountant))


def upper_epsilon(parts: Parts, delta: float, tolerance: float = 1e-3) -> float:
    """The ε that `compose` certifies at δ, without the other fields."""
    return answer_of(group(parts), Question(delta, None, tolerance), "auto").upper


def estimated_epsilon(parts: Parts, delta: float) -> float:
    """About ε at δ, fast: within some per cent for many steps, and an upper estimate for most others."""
    grouped = group(parts)
    if is_exactly_gaussian(grouped):
        return by_gdp(grouped, Question(delta, None)).upper
    basic = by_basic_composition(grouped, Question(delta, None)).upper
    from dpcalc.accounting.engines import rough_epsilon

    return min(rough_epsilon(factored(grouped), delta), basic)


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


def factored(parts: Parts) -> list[tuple[Mechanism, int]]:
    """The parts in terms of mechanisms whose pairs are known exactly."""
    if all(mechanism.factors() == ((mechanism, 1),) for mechanism, _ in parts):
        return list(parts)
    return group([(factor, count * times) for mechanism, count in parts for factor, times in mechanism.factors()])


def answer_of(parts: Parts, question: Question, accountant: Accountant = "auto") -> Answer:
    """What one accountant says, or the best of all of them, of parts that are grouped already; in bounded time."""
    with within(ANSWER):
        return _answered(factored(parts), question, accountant)


def _answered(parts: Parts, question: Question, accountant: Accountant) -> Answer:
    if accountant == "gdp":
        return by_gdp(parts, question)
    if accountant == "rdp":
        return by_rdp(parts, question)
    if accountant == "pld":
        return _by_laws(parts, question)
    if accountant == "clt":
        from dpcalc.accounting.clt import approximate_mu

        return Answer("clt", gdp_value(approximate_mu(parts), question), None, None, "approximate")
    return _best(parts, question)


def _by_laws(parts: Parts, question: Question, known: float = math.inf) -> Answer:
    """What the engines say, which are imported where they are needed: Gaussians and pure ε start without them."""
    from dpcalc.accounting.engines import by_laws

    return by_laws(parts, question, known=known)


def _added_up(parts: Parts, question: Question, known: float) -> list[Answer]:
    """An upper bound with declared Rényi curves added up, which no list of theirs need attain."""
    if not any(mechanism.is_curve for mechanism, _ in parts):
        return []
    from dpcalc.mechanisms.declared import together

    whole = together(parts)
    if whole is parts:
        return []
    try:
        return [replace(_by_laws(whole, question, known), lower=None)]
    except (ArithmeticError, ValueError, CertificationError):
        return []


def _converted(parts: Parts, question: Question) -> list[Answer]:
    """What a declared Rényi curve says by itself, if it is all there is: no more than what `convert` tells."""
    if len(parts) != 1 or parts[0][1] != 1 or not parts[0][0].is_curve:
        return []
    from dpcalc.mechanisms.declared import RenyiCurve

    curve = parts[0][0]
    assert isinstance(curve, RenyiCurve)
    upper = curve.epsilon_at(question.delta) if question.delta is not None else curve.delta_at(question.epsilon or 0.0)
    return [Answer("rdp", upper, None)]


def _by_events(parts: Parts, question: Question, lower: float | None) -> tuple[list[Answer], float | None]:
    """All of one release, by an event; and a lower bound, by what surely is large where nothing else is known."""
    from dpcalc.accounting.events import by_one_release, surely

    single = by_one_release(parts, question)
    if single is not None or lower:
        return [] if single is None else [single], None if single is None else single.lower
    from dpcalc.accounting.engines import attained

    try:
        return [], surely(attained(parts, question), question)
    except ArithmeticError:  # no lower bound, as it would take more work than is left
        return [], None


def _best(parts: Parts, question: Question) -> Answer:
    """The tightest answer; an accountant that fails leaves the question to the others."""
    if is_exactly_gaussian(parts):
        return by_gdp(parts, question)
    basic = by_basic_composition(parts, question)
    if question.delta == 0 or basic.upper == 0:
        return basic
    if is_zero(parts, question):
        return Answer("basic", 0.0, 0.0, 0.0)
    candidates = [basic, *_converted(parts, question)]
    lower, estimate, stopped, exhausted = None, None, None, False
    try:
        found = _by_laws(parts, question, basic.upper)
        candidates.insert(0, found)
        lower, estimate, stopped = found.lower, found.estimate, found.stopped
        exhausted = found.exhausted and all(mechanism.rdp_is_of_pairs() for mechanism, _ in parts)
    except (ArithmeticError, ValueError, CertificationError) as failure:
        stopped = f"the loss distributions give no answer ({failure})"
    upper = min(answer.upper for answer in candidates)
    if not question.is_met(lower, upper):
        candidates += _added_up(parts, question, upper)
        single, event = _by_events(parts, question, lower)
        candidates += single
        lower = max((known for known in (lower, event) if known), default=lower)
        if not exhausted:
            with np.errstate(over="ignore", invalid="ignore"):  # orders at which doubles do not reach are passed over
                candidates.append(by_rdp(parts, question))
        if composed_mu(parts) is not None:
            candidates.append(by_gdp(parts, question))
    winner = min((answer for answer in candidates if not math.isnan(answer.upper)), key=lambda answer: answer.upper)
    if lower is not None and winner.upper < lower * (1 - _DIGITS):
        raise CertificationError(
            f"accountant {winner.accountant} gives at most {winner.upper:.9g}, but at least {lower:.9g} is certain; "
            "this is a fault of the program, so no answer is given."
        )
    lower = None if lower is None else min(lower, winner.upper)
    met = question.is_met(lower, winner.upper)
    return Answer(
        winner.accountant,
        winner.upper,
        lower,
        None if estimate is None else min(max(estimate, lower or 0.0), winner.upper),
        certificate=winner.certificate,
        stopped=None if met or winner.upper in (0.0, math.inf) else stopped,
    )
