"""Adversaries that choose mechanisms one after the other, as pairs that some data attain: bounded-range ones."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.effort import note, remembered
from dpcalc.pairs.points import BoundPair, PointPair
from dpcalc.rounding import FAINT, LEAST_DIVISOR, UNIT, accumulated

MOST_STEERED = 400
"""Of more runs a single t is hardly worse than choices that depend on the outcomes."""

_STEPS, _MOST_STEPS, _POINTS = 24, 1200, 2400  # from 0 to ε: at least and at most, and of all runs together
_REACH = 14.0  # standard deviations of the loss that choices are worked out for
_PER_CHOICE = 8.0  # units of effort
_NEAR = 2.0**-9  # of their masses: tests that are nearer to each other count as one
_ROUNDED = 2.0**-40  # more than the rounding of a side's masses then, and of its slope


@remembered(32)
def steered_pair(epsilon: float, count: int) -> BoundPair:
    """What adversaries attain who choose t by what is left to be reached: a pair below `count` runs together.

    One who tells P from Q by whether the loss passes a target does so with probabilities p and q, so that H(s) ≥ p - sq
    at every s. The target may depend on all that was released before these runs, on nothing after them: beside others
    they are to come last. The polygon from (0, 0) through the (q, p) of all targets, and its mirror image, t and ε - t
    being exchanged with P and Q, belongs to a pair below all; its sides are the points.
    """
    return pair_of_tests(*_tests(epsilon, count), accumulated((32 + 4 * epsilon) * count + 64))


def pair_of_tests(p: Floats, q: Floats, doubt: float) -> BoundPair:
    """The pair of the polygon through tests of these P- and Q-masses, the rarest first, and its mirror image.

    Masses are known up to a relative `doubt`. Whoever attains the tests attains them with P and Q exchanged too.
    """
    corners = _corners(p * (1 - doubt), q * (1 + doubt))
    up, right = np.diff(corners, axis=0).T
    sides, rest = np.log(up / right), 1 - float(corners[-1].sum())
    losses = np.concatenate((-sides, [0.0], sides[::-1]))
    masses = np.concatenate((right, [rest], up[::-1]))
    return BoundPair(losses, masses, masses[::-1].copy(), doubt=_ROUNDED)


def _corners(p: Floats, q: Floats) -> Floats:
    """Some of the tests, from the rarest on, with (0, 0): sides that are not short and turn right, each steeper than 1.

    What is between (0, 0) and the first, or the last and its mirror image, is told by no test at all.
    """
    found = [(0.0, 0.0)]
    slopes: list[float] = []
    for high, right in zip(p.tolist(), q.tolist(), strict=True):
        if right <= FAINT or 1 - high - right <= _NEAR:
            continue
        if high - found[-1][0] < _NEAR * high or right - found[-1][1] < _NEAR * right:
            continue
        while True:
            slope = (high - found[-1][0]) / (right - found[-1][1])
            if not slopes or slope * (1 + _ROUNDED) < slopes[-1]:
                break
            found.pop()
            slopes.pop()
        if slope > 1 + _ROUNDED:
            found.append((high, right))
            slopes.append(slope)
    return np.array(found)


def _tests(epsilon: float, count: int) -> tuple[Floats, Floats]:
    """P- and Q-probability of passing each target, the largest first, by choices that are about the best.

    From the last run back, by how much of the target is left: what is chosen is a hint, its probabilities are added up
    exactly. Outside the grid the test is over: passed below it, and failed above.
    """
    steps = min(max(_POINTS // count, _STEPS), _MOST_STEPS)
    reach = min(count, math.ceil(_REACH * math.sqrt(count) / 2 + count * math.tanh(epsilon / 4) / 2)) * steps
    left = np.arange(-reach, reach + 1)
    value = np.maximum(-np.expm1(epsilon / steps * np.minimum(left, 0)), 0.0)  # δ of no run
    p = q = np.where(left < 0, 1.0, 0.0)
    (hit, miss), chances_q = _chances(epsilon, steps)
    note(_PER_CHOICE * count * steps * left.size)
    for _ in range(count):
        padded = np.concatenate((np.full(steps, value[0]), value, np.full(steps, value[-1])))
        means = [
            hit[t] * padded[steps - t : steps - t + value.size]
            + miss[t] * padded[2 * steps - t : 2 * steps - t + value.size]
            for t in range(steps + 1)
        ]
        chosen, value = np.argmax(means, axis=0), np.max(means, axis=0)
        p, q = _before(p, chosen, steps, np.stack((hit, miss))), _before(q, chosen, steps, chances_q)
    return p[reach:][::-1], q[reach:][::-1]


def _before(after: Floats, chosen: Indices, steps: int, chances: Floats) -> Floats:
    """The probability of passing one run earlier."""
    padded = np.concatenate((np.ones(steps), after, np.zeros(steps)))
    place = np.arange(after.size) + steps - chosen
    hit, miss = chances[:, chosen]
    return np.asarray(hit * padded[place] + miss * padded[place + steps])


def _chances(epsilon: float, steps: int) -> tuple[Floats, Floats]:
    """P- and Q-probability of the loss t and of t - ε (two rows each), for every t of the grid: nothing cancels."""
    t = epsilon * np.arange(steps + 1) / steps
    rest, unit = t[::-1], -np.expm1(-epsilon)
    hit, miss = -np.expm1(-rest) / unit, -np.expm1(-t) / unit
    return np.stack((hit, np.exp(-rest) * miss)), np.stack((np.exp(-t) * hit, miss))


def two_point_pair(epsilon: float, t: float) -> PointPair:
    """The pair with losses t and t - ε: some data of two candidates attain it."""
    unit = -np.expm1(-epsilon)
    q = np.array([-np.expm1(-t), np.exp(-t) * -np.expm1(t - epsilon)]) / unit
    p = np.array([np.exp(t - epsilon) * -np.expm1(-t), -np.expm1(t - epsilon)]) / unit
    return PointPair(np.array([t - epsilon, t]), p, q)


def worst_t(epsilon: float, order: float, rate: float = 1.0) -> float:
    """The t of the two-point pair with the largest E e^{λ·loss}, λ an order, sampled at a rate."""
    t = epsilon * np.arange(1, 400) / 400
    return float(t[np.argmax(log_sampled_moments(t, epsilon - t, order, rate))])


def log_sampled_moments(a: Floats, b: Floats, order: float, rate: float) -> Floats:
    """About log E e^{λ·loss} of pairs with losses a and -b, sampled at a rate: a hint, as every pair is attained."""
    p = np.minimum(np.expm1(-b) / np.expm1(-(a + b)), 1 - UNIT)  # of large losses it would round to 1
    q = np.maximum(p * np.exp(-a), LEAST_DIVISOR)
    high, low = (np.logaddexp(np.log1p(-rate), np.log(rate) + loss) if rate < 1 else loss for loss in (a, -b))
    return np.asarray(np.logaddexp(np.log(q) + (1 + order) * high, np.log1p(-q) + (1 + order) * low))
