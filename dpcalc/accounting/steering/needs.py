"""How tight pairs must be made that can only be bounded, for an answer to be as tight as asked: hints alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.pilot import Sketch, Way, sketch
from dpcalc.pairs.base import Need, Pair
from dpcalc.rounding import LEAST_DIVISOR

Runs = Sequence[tuple[tuple[Pair, Pair], int]]

_RARE = 1e-3  # of the tolerance in δ
_LEAST = 0.03  # of the standard deviation of all losses: ε is seldom less, and 0 where δ is large
_NO_LOSS = np.zeros(1)


def only_bounded(runs: Runs) -> bool:
    """Whether some pair has to be made as tight as the question needs it."""
    return any(pair.rough() is not pair for pairs, _ in runs for pair in pairs)


def need_of(runs: Runs, question: Question, share: float, *, near: float | None = None) -> Need:
    """What the question asks of such pairs, if bounds may cost this share of its tolerance; ε is `near`, if known."""
    drawn = _drawn(runs)
    delta, ways = _ways(drawn, question)
    if near is not None and 0 < near < math.inf:
        top = max(way.epsilon for way in ways)
        ways = _nearer(ways[0], near / top), _nearer(ways[1], near / top)
    top, tolerance = max(way.epsilon for way in ways), share * question.tolerance
    copies = float(sum(count for pairs, count in runs if pairs[0].rough() is not pairs[0]))
    if question.delta is not None:
        least = _LEAST * math.sqrt(float(drawn.counts @ drawn.scales**2))
        widths = [tolerance * max(way.epsilon, 3 * (top - way.epsilon), least) for way in ways]
    else:
        widths = [tolerance / way.order for way in ways]
    orders, epsilons = [way.order for way in ways], [way.epsilon for way in ways]
    rare = max(_RARE * min(tolerance, 1e-2) * delta / copies, LEAST_DIVISOR)
    return Need((orders[0], orders[1]), (epsilons[0], epsilons[1]), (widths[0], widths[1]), copies, rare)


def order_of(runs: Runs, question: Question) -> float:
    """About the Rényi order that decides."""
    return max(_ways(_drawn(runs), question)[1], key=lambda way: way.epsilon).order


def _drawn(runs: Runs) -> Sketch:
    return sketch([(pairs[0].rough(), count) for pairs, count in runs])


def _ways(drawn: Sketch, question: Question) -> tuple[float, tuple[Way, Way]]:
    """About δ, and what decides there for removing and for adding."""
    delta = drawn.delta(question)
    return delta, drawn.ways(delta)


def _nearer(way: Way, factor: float) -> Way:
    return replace(way, epsilon=max(factor * way.epsilon, 1e-12))


def sharpened(runs: Runs, need: Need) -> Runs:
    """The same pairs, as tight as needed; without those of which nothing is known."""
    found = [((pairs[0].sharpened(need), pairs[1].sharpened(need.reversed())), count) for pairs, count in runs]
    return [(pairs, count) for pairs, count in found if all(pair.masses(_NO_LOSS)[0].any() for pair in pairs)]
