"""Adversaries that choose bounded-range mechanisms one after the other, as pairs that some data attain."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.pairs.points import BoundPair, PointPair
from dpcalc.rounding import FAINT, UNIT, accumulated

MOST_STEERED = 400
"""Of more runs a single t is hardly worse than choices that depend on the outcomes."""

_STEPS, _MOST_STEPS, _POINTS = 24, 1200, 2400  # from 0 to ε: at least and at most, and of all runs together
_REACH = 14.0  # standard deviations of the loss that choices are worked out for
_FEW = 300  # runs whose sums are worked out


@lru_cache(maxsize=32)
def steered_pair(epsilon: float, count: int, delta: float | None, at: float | None) -> BoundPair:
    """What an adversary attains who wants δ at some ε to be large, and chooses t by what is left to be reached.

    The choices are about the best ones, by recursion from the last run; whatever they are, the law of the loss that
    they lead to is added up exactly: a point for each multiple of a part of ε, rounded a few times a run.
    """
    steps = min(max(_POINTS // count, _STEPS), _MOST_STEPS)
    width = epsilon / steps
    target, choices = _choices(epsilon, count, steps, delta, at)
    reach = len(choices[0]) // 2
    size = count * steps
    p, q = np.zeros(2 * size + 1), np.zeros(2 * size + 1)
    p[size] = q[size] = 1.0
    chances_p, chances_q = _chances(epsilon, steps)
    for choice in choices:
        there = np.flatnonzero(q > FAINT)
        t = choice[np.clip(target - (there - size) + reach, 0, 2 * reach)]
        p, q = (_moved(masses, there, t, steps, chances) for masses, chances in ((p, chances_p), (q, chances_q)))
    seen = np.minimum(p, q) > FAINT
    doubt = accumulated((32 + 4 * epsilon) * count + 64)
    return BoundPair(width * (np.flatnonzero(seen) - size).astype(np.float64), p[seen], q[seen], doubt=doubt)


def _chances(epsilon: float, steps: int) -> tuple[Floats, Floats]:
    """P- and Q-probability of the loss t and of t - ε (two rows each), for every t of the grid: nothing cancels."""
    t = epsilon * np.arange(steps + 1) / steps
    rest, unit = t[::-1], -np.expm1(-epsilon)
    hit, miss = -np.expm1(-rest) / unit, -np.expm1(-t) / unit
    return np.stack((hit, np.exp(-rest) * miss)), np.stack((np.exp(-t) * hit, miss))


def _moved(masses: Floats, there: Indices, t: Indices, steps: int, chances: Floats) -> Floats:
    """The law of the loss after one more run."""
    mass, size = masses[there], len(masses)
    hit, miss = mass * chances[:, t]
    return np.asarray(np.bincount(there + t, hit, size) + np.bincount(there + t - steps, miss, size))


def _choices(
    epsilon: float, count: int, steps: int, delta: float | None, at: float | None
) -> tuple[int, list[Indices]]:
    """Which loss to aim at, in steps, and the t of each run from the first on, by how much is still missing."""
    width = epsilon / steps
    reach = min(count, math.ceil(_REACH * math.sqrt(count) / 2 + count * math.tanh(epsilon / 4) / 2)) * steps
    value = np.maximum(-np.expm1(width * np.minimum(np.arange(-reach, reach + 1), 0)), 0.0)  # δ of no run
    (hit, miss), _ = _chances(epsilon, steps)
    found: list[Indices] = []
    for _ in range(count):
        below = np.concatenate((np.full(steps, value[0]), value, np.full(steps, value[-1])))
        means = [
            hit[t] * below[steps - t : steps - t + value.size]
            + miss[t] * below[2 * steps - t : 2 * steps - t + value.size]
            for t in range(steps + 1)
        ]
        found.append(np.argmax(means, axis=0))
        value = np.max(means, axis=0)
    wanted = round(at / width) if at is not None else int(np.count_nonzero(value[reach:] > (delta or 0.0))) - 1
    return min(max(wanted, 0), reach - 1), found[::-1]


def two_point_pair(epsilon: float, t: float) -> PointPair:
    """The pair with losses t and t - ε: some data of two candidates attain it."""
    unit = -np.expm1(-epsilon)
    q = np.array([-np.expm1(-t), np.exp(-t) * -np.expm1(t - epsilon)]) / unit
    p = np.array([np.exp(t - epsilon) * -np.expm1(-t), -np.expm1(t - epsilon)]) / unit
    return PointPair(np.array([t - epsilon, t]), p, q)


def guess_worst_t(epsilon: float, count: int, *, delta: float | None, at: float | None) -> float:
    """About the t that `count` runs of one two-point pair are worst at: for ε at δ, or for δ at the ε `at`.

    A hint: every t is attained. One run has e^{2t} = s e^ε; otherwise binomial sums, and the normal law for many.
    """
    from scipy.special import gammaln, ndtri

    if count == 1:
        known = (
            at if at is not None else epsilon + 2 * np.log1p(-min(np.sqrt((delta or 0.0) * -np.expm1(-epsilon)), 0.5))
        )
        return float(np.clip((epsilon + known) / 2, epsilon / 2, epsilon))
    t = epsilon * np.arange(1, 100) / 100
    p = np.minimum(np.expm1(t - epsilon) / np.expm1(-epsilon), 1 - UNIT)  # of large ε it would round to 1
    if count > _FEW:
        mean, deviation = count * (t - epsilon * (1 - p)), epsilon * np.sqrt(count * p * (1 - p))
        score = mean - ndtri(delta) * deviation if delta is not None else (mean - (at or 0.0)) / deviation
        return float(t[np.argmax(score)])
    k = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
    weights = np.exp(
        logs
        + np.multiply.outer(np.log(np.maximum(p, FAINT)), k)
        + np.multiply.outer(np.log(np.maximum(1 - p, FAINT)), count - k)
    )
    losses = count * (t[:, None] - epsilon) + epsilon * k

    def deltas(epsilons: Floats) -> Floats:
        return np.asarray(
            (weights * np.maximum(-np.expm1(np.minimum(epsilons[:, None] - losses, 0.0)), 0.0)).sum(axis=1)
        )

    if delta is None:
        return float(t[np.argmax(deltas(np.full(t.shape, at or 0.0)))])
    low, high = np.zeros_like(t), count * t
    for _ in range(30):
        middle = (low + high) / 2
        more = deltas(middle) > delta
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return float(t[np.argmax(low)])
