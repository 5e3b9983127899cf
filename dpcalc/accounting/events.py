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
_ROUNDED = 32  # more than there are roundings of a loss or a factor
_FURTHEST, _NEARLY_ONE = 1e100, 0.999  # where losses of a base are well within the doubles, and known to all digits


def by_one_release(parts: Parts, question: Question) -> Answer | None:
    """δ = P(L > ε) - e^ε Q(L > ε) of a list of one release; None of more, or of pairs that can only be bounded."""
    if len(parts) > 1 or parts[0][1] > 1:
        return None
    above, below = parts[0][0].pairs(), parts[0][0].attained_pairs()
    if any(pair.rough() is not pair for pair in (*above, *(below or ()))):
        return None

    def upper(epsilon: float) -> float:
        return max(_release(pair, epsilon, upper=True) for pair in above) + 2 * FAINT

    def lower(epsilon: float) -> float:
        return max((_release(pair, epsilon, upper=False) for pair in below or ()), default=0.0)

    if question.epsilon is not None:
        return (
            Answer("pld", upper(question.epsilon), lower(question.epsilon)) if question.epsilon < LARGEST_LOSS else None
        )
    assert question.delta is not None
    delta = question.delta
    _, high = _crossing(lambda epsilon: upper(epsilon) <= delta)
    low, _ = _crossing(lambda epsilon: not lower(epsilon) > delta)
    return Answer("pld", high, low)


def _release(pair: Pair, epsilon: float, *, upper: bool) -> float:
    """A bound on δ of one release at ε; of a sampled one through its base, which loses no digits at small rates.

    X = 1 - q + qZ: E(X - e^ε)⁺ = q E(Z - t)⁺ with t = 1 + (e^ε - 1)/q, and E(1 - e^ε X)⁺ = q e^ε E(s - Z)⁺ with
    s = 1 - (1 - e^{-ε})/q, which is q e^ε s times the base's δ for adding at -log s.
    """
    read, towards = (profile, -1) if upper else (least_profile, 1)
    found = float(read(pair, np.array([epsilon]))[0])
    (base, rate), (other, other_rate) = pair.unmixed(), pair.reversed().unmixed()
    off = 1 + towards * _ROUNDED * UNIT
    if rate < 1 and (moved := math.expm1(epsilon) / rate) < _FURTHEST:
        better = rate * float(read(base, np.array([math.log1p(moved) * off]))[0]) * (1 - towards * _ROUNDED * UNIT)
    elif other_rate < 1 and (moved := -math.expm1(-epsilon) / other_rate * off) < _NEARLY_ONE:
        times = other_rate * math.exp(epsilon) * (1 - moved) * (1 - towards * _ROUNDED * UNIT)
        better = times * float(read(other.reversed(), np.array([-math.log1p(-moved) * off]))[0])
    else:
        return found
    return min(found, better) if upper else max(found, better)


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
