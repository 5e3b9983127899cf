"""What a single event tells: all of one release, and a lower bound where losses are too large to be composed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpcalc.accounting.question import Answer, Question
from dpcalc.mechanisms.base import Mechanism
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS
from dpcalc.pairs.profile import least_profile, profile
from dpcalc.rounding import FAINT, UNIT, down

Parts = Sequence[tuple[Mechanism, int]]

_SHARES = (0.0, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-7)  # of the largest loss: where the event begins, next to it an atom
_HALVINGS = 200


def by_one_release(parts: Parts, question: Question) -> Answer | None:
    """δ = P(L > ε) - e^ε Q(L > ε) of a list of one release; None of more, or of pairs that can only be bounded."""
    if len(parts) > 1 or parts[0][1] > 1:
        return None
    above, below = parts[0][0].pairs(), parts[0][0].attained_pairs()
    if any(pair.rough() is not pair for pair in (*above, *(below or ()))):
        return None

    def upper(epsilon: float) -> float:
        return max(float(profile(pair, np.array([epsilon]))[0]) for pair in above) + 2 * FAINT

    def lower(epsilon: float) -> float:
        return max((float(least_profile(pair, np.array([epsilon]))[0]) for pair in below or ()), default=0.0)

    if question.epsilon is not None:
        return (
            Answer("pld", upper(question.epsilon), lower(question.epsilon)) if question.epsilon < LARGEST_LOSS else None
        )
    assert question.delta is not None
    delta = question.delta
    _, high = _crossing(lambda epsilon: upper(epsilon) <= delta)
    low, _ = _crossing(lambda epsilon: not lower(epsilon) > delta)
    return Answer("pld", high, low)


def _crossing(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring ε ≥ 0 of which the first does not satisfy a condition and the second does; 0 and ∞ at the ends."""
    if holds(0.0):
        return 0.0, 0.0
    low, high = 0.0, LARGEST_LOSS
    if not holds(high):
        return low, math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2 if low > high / 4 else max(math.sqrt(low * high), high * 2.0**-40)
        if not low < middle < high or high - low <= 4 * UNIT * high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def surely(runs: Sequence[tuple[tuple[Pair, Pair], int]], question: Question) -> float:
    """A lower bound by the event that every loss is large: δ(ε) ≥ Πp - e^ε Πq, p and q the masses of one release.

    That is all that there is to say of lists whose losses add up to more than doubles hold.
    """
    return max(
        (
            _by_event([(pairs[way], count) for pairs, count in runs], question, share)
            for way in (0, 1)
            for share in _SHARES
        ),
        default=0.0,
    )


def _by_event(runs: Sequence[tuple[Pair, int]], question: Question, share: float) -> float:
    masses_p, masses_q = [], []
    for pair, count in runs:
        top = pair.support()[1]
        if not 0 < top < math.inf:
            return 0.0
        p, q, p_error, q_error = (float(column[-1]) for column in pair.cells(np.array([share * top])))
        if not p > p_error:
            return 0.0
        masses_p.append((p - p_error, count))
        masses_q.append((q + q_error + FAINT, count))
    log_p, log_q = _log_of_product(masses_p, -1), _log_of_product(masses_q, 1)
    if question.delta is not None:
        rest = down(math.exp(log_p)) - question.delta
        return max(0.0, _log_of_product([(rest, 1)], -1) - log_q) if rest > 0 else 0.0
    assert question.epsilon is not None
    exponent = min(question.epsilon + log_q, 0.0)
    p, q = math.exp(log_p), math.exp(exponent)
    return max(0.0, p - q - UNIT * (6 * p + (6 - exponent) * q))


def _log_of_product(masses: Sequence[tuple[float, int]], side: int) -> float:
    """log Π massᶜᵒᵘⁿᵗ, below the truth (-1) or above it (1), of masses that may be off by two roundings.

    Half of what is paid for each logarithm is its own error, and half four roundings; the last is that of a difference.
    """
    logs = [count * math.log(mass) for mass, count in masses]
    rounded = sum(count for _, count in masses) + 4 * math.fsum(map(abs, logs))
    return math.fsum(logs) + side * 2 * UNIT * rounded
