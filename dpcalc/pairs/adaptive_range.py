"""The best an adversary can do with several bounded-range mechanisms, chosen one after the other, as one pair.

Each mechanism's loss is t or t - ε for a t in [0, ε] that may depend on what came before (Dong, Durfee, Rogers 2020).
With u = e^{-t}, Q(loss = t) = (u - e^{-ε}) / (1 - e^{-ε}), and the largest δ of k of them satisfies

    H_k(s) = sup over t of E_Q[X H_{k-1}(s/X)],   X = e^t or e^{t-ε},   H_0(s) = (1 - s)⁺.

H_k is convex, being a supremum of such, and so the profile of a pair that dominates all k together: composing k of
`BoundedRangePair` instead lets the adversary choose t after the outcome. Exchanging P and Q exchanges t and ε - t.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.profile import pair_of_profiles
from dpcalc.rounding import UNIT

_POINTS = 1200  # of the last profile
_FEWEST, _MOST = 24, 150  # steps from 0 to ε
_FEW = 300  # runs whose sums are worked out
_NEVER = 1e-300  # instead of a chance of 0, whose logarithm is no number
_UP = 1 + 1e-13  # more than the rounding of a step


@lru_cache(maxsize=32)
def adaptive_range_pair(epsilon: float, count: int) -> PointPair:
    """A pair that dominates `count` adaptively chosen ε-bounded-range mechanisms."""
    steps = int(np.clip(_POINTS // count, _FEWEST, _MOST))
    width = epsilon / steps
    profile = np.zeros(1)  # H_0 at s = 1 and beyond
    for k in range(1, count + 1):
        profile = _step(profile, k * steps, steps, width)
    losses: Floats = width * np.arange(profile.size, dtype=np.float64)
    return pair_of_profiles(losses, profile, profile)


def _step(before: Floats, last: int, steps: int, width: float) -> Floats:
    """H_k at s = e^{jh}, j = 0 … last, from H_{k-1}: every t of the grid, and what chords say of those in between.

    X ↦ X H(s/X) is convex, so that its chords bound it for t between two grid points. Their mean is A u + B/u + C,
    above the larger of its values at the ends of a cell by at most |B|Δu²/(4u³) if B < 0, and by nothing otherwise.
    """
    places = np.arange(last + 1, dtype=np.int64)[:, None]
    shifts = np.arange(steps + 1, dtype=np.int64)
    x, u = np.exp(width * shifts), np.exp(-width * shifts)
    ratio, unit = float(np.exp(-width * steps)), float(-np.expm1(-width * steps))
    high = x * _at(before, places - shifts, width)  # X H(s/X) at X = e^t
    low = ratio * x * _at(before, places - shifts + steps, width)  # and at e^{t-ε}
    likely = u * -np.expm1(width * (shifts - steps)) / unit
    means = likely * high + -np.expm1(-width * shifts) / unit * low
    steep, flat = np.diff(high) / np.diff(x), np.diff(low) / (ratio * np.diff(x))
    bends = np.maximum(steep - flat, 0.0) + 1e-12 * (steep + flat)
    excess = bends * (ratio / unit * np.diff(u) ** 2 / (4 * u[1:] ** 3))
    best: Floats = np.max(np.maximum(means[:, 1:], means[:, :-1]) + excess, axis=1)
    return np.minimum(best * _UP, 1.0)


def _at(profile: Floats, places: Indices, width: float) -> Floats:
    """H at e^{jh}: 0 beyond the last, and 1 - s + s H(1/s) below s = 1."""
    known = np.where(np.abs(places) < profile.size, profile[np.minimum(np.abs(places), profile.size - 1)], 0.0)
    s = np.exp(width * np.minimum(places, 0))
    return np.asarray(np.where(places < 0, -np.expm1(width * np.minimum(places, 0)) + s * known, known))


def two_point_pair(epsilon: float, t: float) -> PointPair:
    """The pair with losses t and t - ε: some data of two candidates attain it."""
    unit = -np.expm1(-epsilon)
    q = np.array([-np.expm1(-t), np.exp(-t) * -np.expm1(t - epsilon)]) / unit
    p = np.array([np.exp(t - epsilon) * -np.expm1(-t), -np.expm1(t - epsilon)]) / unit
    return PointPair(np.array([t - epsilon, t]), p, q)


def guess_worst_t(epsilon: float, count: int, *, delta: float | None, at: float | None) -> float:
    """About the t that `count` runs of one two-point pair are worst at: for ε at δ, or for δ at the ε `at`.

    A hint: every t is attained. Binomial sums of moderate counts, the normal law for more.
    """
    from scipy.special import gammaln, ndtri

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
        + np.multiply.outer(np.log(np.maximum(p, _NEVER)), k)
        + np.multiply.outer(np.log(np.maximum(1 - p, _NEVER)), count - k)
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
