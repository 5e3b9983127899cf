"""Pairs made from bounds on δ(ε): what is known of a mechanism, as a pair; and groups of two."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.convex import convex_minorant
from dpcalc.effort import note, remembered
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS, PointPair
from dpcalc.rounding import FAINT, UNIT, accumulated

_PLACES = 2**10 * UNIT  # of the mass beyond, for losses that are differences of others and are rounded (`_chain`)
_PER_SPLIT = 60.0  # units of effort
_UP = 1 + 2.0**-48  # more than the rounding of a slope, a chord and a sum of slopes


def pair_of_profiles(losses: Floats, forward: Floats, backward: Floats) -> PointPair:
    """A pair that dominates every (P, Q) with δ(ε_j) ≤ forward_j and δ(ε_j) of (Q, P) ≤ backward_j, 0 = ε_0 < ε_1 < ….

    H(t) = δ(log t) is convex and below these values at t_j = e^{ε_j}; for t < 1 it is 1 - t + t H'(1/t) with H' the
    one of (Q, P), convex likewise. So it is below the convex minorant of both, whose kinks are the points: Q(L = ε_j)
    is the change of slope at t_j, and P(L = -ε_j) that of H'. What is left beyond the last ε_j is mass at infinity.
    The heights are raised by more than the rounding of the slopes, so that the points reproduce no less than was given.
    """
    inside = losses <= LARGEST_LOSS
    losses, forward, backward = losses[inside], forward[inside], backward[inside]
    at_zero = min(float(forward[0]), float(backward[0]), _chord_at_zero(losses, forward, backward))
    up, q_up, p_infinite = _kinks(losses, np.append(at_zero, forward[1:]))
    down, p_down, q_infinite = _kinks(losses, np.append(at_zero, backward[1:]))
    room = _room(up, q_up, p_infinite, p_down), _room(down, p_down, q_infinite, q_up)
    if q_up.sum() >= p_down.sum():
        p_infinite += _spread(up, q_up, -min(room))
    else:
        q_infinite += _spread(down, p_down, -min(room))
    p_up, q_down = q_up * np.exp(up), p_down * np.exp(down)
    atom = max(min(room), 0.0)
    return PointPair(
        np.concatenate((-down[::-1], [0.0], up)),
        np.concatenate((p_down[::-1], [atom], p_up)),
        np.concatenate((q_down[::-1], [atom], q_up)),
        p_infinite,
        q_infinite,
    )


def _room(losses: Floats, masses: Floats, infinite: float, others: Floats) -> float:
    """What these Q-masses of losses leave of all P-mass, beside the others; negative where they are too much."""
    return -math.fsum((*(masses * np.exp(losses)).tolist(), infinite, *others.tolist(), -1.0))


def _spread(losses: Floats, masses: Floats, excess: float) -> float:
    """Takes so much of the Q-masses (in place), from the smallest loss on; what more is then infinitely large.

    Mass at X > 1 moves to 1, where it is left out, and to the next X, so that its mean stays: δ falls at no ε ≥ 0, and
    as much of P is left out as of Q.
    """
    above = np.expm1(losses)
    for k in range(masses.size):
        if excess <= 0:
            break
        share = float(above[k] / above[k + 1]) * (1 + 4 * UNIT) if k + 1 < masses.size else 0.0
        moved = min(float(masses[k]), excess / (1 - share)) if share < 1 else float(masses[k])
        masses[k] -= moved
        excess -= moved * (1 - share)
        if k + 1 == masses.size:
            return moved * float(above[k]) * (1 + 4 * UNIT)
        masses[k + 1] += moved * share
    return 0.0


def _chord_at_zero(losses: Floats, forward: Floats, backward: Floats) -> float:
    """The smallest chord at t = 1 from a point of H′ on the left to one of H on the right; any of them is above H."""
    if losses.size < 2:
        return 1.0
    below = np.exp(-losses[:0:-1])
    t = np.concatenate((below, np.exp(losses[1:])))
    corners = convex_minorant(t, np.concatenate((1 - below + below * backward[:0:-1], forward[1:])))
    last, first = corners[corners < below.size][-1], corners[corners >= below.size][0]
    best = 1.0
    for i, j in ((below.size - last, first - below.size + 1), (1, 1)):
        # Scaled by e^{-left-right}, so that nothing overflows.
        left, right = float(losses[i]), float(losses[j])
        height = -math.expm1(-right) * (-math.expm1(-left) + float(backward[i]) * math.exp(-left))
        height -= math.expm1(-left) * float(forward[j]) * math.exp(-right)
        best = min(best, height / -math.expm1(-(left + right)))
    return best * _UP


def _kinks(losses: Floats, heights: Floats) -> tuple[Floats, Floats, float]:
    """Where the minorant of heights at t = e^loss bends beyond t = 1, by how much, and its last height."""
    t = np.exp(losses)
    heights = np.minimum(heights * _UP, 1.0)
    # A slope below the range of doubles would lose mass: what is as flat as that ends here.
    flat = np.append(np.flatnonzero(heights <= 1e-280 * t), len(t) - 1)[0] + 1
    losses, t, heights = losses[:flat], t[:flat], heights[:flat]
    corners = convex_minorant(np.expm1(losses), heights)
    losses, t, heights = losses[corners], t[corners], heights[corners]
    widths = t[:-1] * np.expm1(np.diff(losses))  # of losses next to 0 the difference of t would be rounding alone
    slopes = np.append(np.diff(heights) / widths, 0.0)
    slopes = np.minimum.accumulate(slopes[::-1])[::-1]  # none steeper than the one before it, whatever was rounded
    return losses[1:], np.diff(slopes), float(heights[-1])


@remembered(32)
def group_of_two(first: Pair, second: Pair) -> PointPair:
    """A pair for the ends of a chain of three data sets whose two links are dominated by `first` and `second`.

    δ(ε_a + ε_b) ≤ δ_a(ε_a) + e^{ε_a} δ_b(ε_b) for any split and, as the links may come in either order, with the roles
    exchanged. `first` is a removal and `second` an addition, or the reverse: seen from the other end it is the same.
    """
    losses = _profile_grid((first, second))
    note(_PER_SPLIT * losses.size**2)
    best = np.minimum(_chain(first, second, losses), _chain(second, first, losses))
    above = losses >= 0
    return pair_of_profiles(losses[above], best[above], best[above])


def profile(pair: Pair, losses: Floats) -> Floats:
    """Upper bounds on δ at each of the increasing losses: P(L > ε) - e^ε Q(L > ε).

    The masses are taken at the unfavourable ends of their errors, and P-mass that is missing from 1 counts as infinite.
    """
    p, q, p_error, q_error = pair.cells(losses)
    lacking = 1 - float(p.sum())
    missing = lacking if lacking > float(p_error.sum()) + 2 * len(p) * UNIT else 0.0
    p_above, q_above = _above(p + p_error) + missing, _above(np.maximum(q - q_error, 0.0))
    rounding = (2 * accumulated(len(p) + 16) + _PLACES) * p_above
    least = np.maximum(-np.expm1(losses), 0.0)
    return np.asarray(np.clip(p_above - np.exp(losses) * q_above + rounding, least, 1.0))


def least_profile(pair: Pair, losses: Floats) -> Floats:
    """Lower bounds on δ at each of the increasing losses: masses at the other ends of their errors, none missing."""
    p, q, p_error, q_error = pair.cells(losses)
    p_above, q_above = _above(np.maximum(p - p_error, 0.0)), _above(q + q_error) + FAINT
    rounding = (2 * accumulated(len(p) + 16) + _PLACES) * p_above
    return np.asarray(np.maximum(p_above - np.exp(losses) * q_above - rounding, 0.0))


def _above(masses: Floats) -> Floats:
    """The mass above each edge."""
    return np.asarray(np.cumsum(masses[::-1])[::-1][1:])


def _chain(first: Pair, second: Pair, losses: Floats) -> Floats:
    """The best split over the grid; δ is convex in e^ε, so that chords between its points are above it."""
    t = np.exp(losses)
    delta_first, delta_second = profile(first, losses), profile(second, losses)
    best = np.ones_like(losses)
    for loss, delta in zip(losses, delta_first, strict=True):
        rest = losses - loss
        inside = rest >= losses[0]
        value = delta + np.exp(loss) * np.interp(np.exp(rest[inside]), t, delta_second)
        best[inside] = np.minimum(best[inside], value)
    return best


def _profile_grid(pairs: tuple[Pair, Pair]) -> Floats:
    """Losses that resolve the bulk of the pairs and reach to where their δ is negligible."""
    edges = np.concatenate(([0.0], np.geomspace(1e-12, LARGEST_LOSS, 400)))
    reach, scale = 0.0, np.inf
    for pair in pairs:
        delta = profile(pair, edges)
        reach = max(reach, float(edges[min(int(np.searchsorted(-delta, -1e-90)), len(edges) - 1)]))
        scale = min(scale, float(delta[0]))
    reach = min(max(2 * reach, 1e-10), LARGEST_LOSS)
    scale = max(min(scale, reach) / 10, 1e-13)
    half = np.sinh(np.linspace(0.0, float(np.arcsinh(reach / scale)), 700)) * scale
    return np.concatenate((-half[:0:-1], half))
