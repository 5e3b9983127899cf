"""Pairs made from bounds on δ(ε): what is known of a mechanism, as a pair; and groups of two."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.convex import convex_minorant
from dpcalc.effort import note, remembered
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS, PointPair
from dpcalc.rounding import FAINT, FUNCTION, UNIT, accumulated

_PLACE = 4 * FUNCTION + 4 * UNIT  # of e^loss: the error of this one, of the point after it, and of the points' distance
_PER_SPLIT = 60.0  # units of effort
_UP = 1 + 2.0**-48  # 32 units: a slope errs by 12, its change and a sum of masses by one each, a value at zero by 10
_SHARE_UP = 1 + 2 * FUNCTION + 8 * UNIT  # a quotient of two expm1, and what is made of it


def pair_of_profile(losses: Floats, heights: Floats) -> PointPair:
    """A pair that dominates every (P, Q) with δ(ε_j) ≤ height_j, 0 = ε_0 < ε_1 < …, of both (P, Q) and (Q, P).

    H(t) = δ(log t) is convex and below these values at t_j = e^{ε_j}, and so below their convex minorant, whose kinks
    are the points: Q(L = ε_j) is the change of slope at t_j. What is left beyond the last ε_j is mass at infinity. The
    heights are raised by more than the rounding of the slopes, so that the points reproduce no less than was given.
    P(L = -ε_j) is the same, and so is δ of (Q, P); what is left of either's mass is at 0. So δ of the pair at t < 1 is
    1 - t + t δ(1/t), as it is for any (P, Q): what is no less for t ≥ 1 is no less below.
    """
    inside = losses <= LARGEST_LOSS
    losses, heights = losses[inside], heights[inside]
    below = np.exp(-losses)
    # Of (ε, δ)-DP, δ(0) is (1 - e^-ε + 2 e^-ε δ) / (1 + e^-ε) at most: a chord between e^-ε and e^ε.
    at_zero = float(np.min((-np.expm1(-losses) + 2 * below * heights) / (1 + below)))
    losses, q, infinite = _kinks(losses, np.append(at_zero, heights[1:]))
    infinite += _spread(losses, q, -_room(losses, q, infinite) / 2)
    p, atom = q * np.exp(losses), max(_room(losses, q, infinite), 0.0)
    return PointPair(
        np.concatenate((-losses[::-1], [0.0], losses)),
        np.concatenate((q[::-1], [atom], p)),
        np.concatenate((p[::-1], [atom], q)),
        infinite,
        infinite,
    )


def _room(losses: Floats, masses: Floats, infinite: float) -> float:
    """What Q-masses of losses above 0 and as much P-mass below it leave for 0; negative where they are too much."""
    return -math.fsum((*(masses * np.exp(losses)).tolist(), *masses.tolist(), infinite, -1.0))


def _spread(losses: Floats, masses: Floats, excess: float) -> float:
    """Takes so much of the Q-masses (in place), from the smallest loss on; what more is then infinitely large.

    Mass at X > 1 moves to 1, where it is left out, and to the next X, so that its mean stays: δ falls at no ε ≥ 0, and
    as much of P is left out as of Q.
    """
    above = np.expm1(losses)
    for k in range(masses.size):
        if excess <= 0:
            break
        share = float(above[k] / above[k + 1]) * _SHARE_UP if k + 1 < masses.size else 0.0
        moved = min(float(masses[k]), excess / (1 - share)) if share < 1 else float(masses[k])
        masses[k] -= moved
        excess -= moved * (1 - share)
        if k + 1 == masses.size:
            return moved * float(above[k]) * _SHARE_UP
        masses[k + 1] += moved * share
    return 0.0


def _kinks(losses: Floats, heights: Floats) -> tuple[Floats, Floats, float]:
    """Where the minorant of heights at t = e^loss bends beyond t = 1, by how much, and its last height."""
    t = np.exp(losses)
    heights = np.minimum.accumulate(heights * _UP)  # δ(ε) grows nowhere
    # A slope below the range of doubles would lose mass: what is as flat as that ends here.
    flat = np.append(np.flatnonzero(heights <= 1e-280 * t), len(t) - 1)[0] + 1
    losses, t, heights = losses[:flat], t[:flat], heights[:flat]
    corners = convex_minorant(np.expm1(losses), heights)
    losses, t, heights = losses[corners], t[corners], heights[corners]
    # Of losses next to 0 the difference of t would be rounding alone, and of large ones that of the losses counts most.
    widths = t[1:] * -np.expm1(-np.diff(losses))
    slopes = np.append(np.diff(heights) / widths, 0.0)
    slopes = np.minimum.accumulate(slopes[::-1])[::-1]  # none steeper than the one before it, whatever was rounded
    return losses[1:], np.diff(slopes), min(float(heights[-1]), 1.0)


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
    return pair_of_profile(losses[above], best[above])


def profile(pair: Pair, losses: Floats) -> Floats:
    """Upper bounds on δ at each of the increasing losses: P(L > ε) - e^ε Q(L > ε).

    The masses are taken at the unfavourable ends of their errors, and P-mass that is missing from 1 counts as infinite.
    """
    p, q, p_error, q_error = pair.cells(losses)
    lacking = 1 - float(p.sum())
    missing = lacking if lacking > float(p_error.sum()) + 2 * len(p) * UNIT else 0.0
    p_above, q_above = _above(p + p_error) + missing, _above(np.maximum(q - q_error, 0.0))
    rounding = 2 * accumulated(len(p) + 16) * p_above
    least = np.maximum(-np.expm1(losses), 0.0)
    return np.asarray(np.clip(p_above - np.exp(losses) * q_above + rounding, least, 1.0))


def least_profile(pair: Pair, losses: Floats) -> Floats:
    """Lower bounds on δ at each of the increasing losses: masses at the other ends of their errors, none missing."""
    p, q, p_error, q_error = pair.cells(losses)
    p_above, q_above = _above(np.maximum(p - p_error, 0.0)), _above(q + q_error) + FAINT
    rounding = 2 * accumulated(len(p) + 16) * p_above
    return np.asarray(np.maximum(p_above - np.exp(losses) * q_above - rounding, 0.0))


def _above(masses: Floats) -> Floats:
    """The mass above each edge."""
    return np.asarray(np.cumsum(masses[::-1])[::-1][1:])


def _chain(first: Pair, second: Pair, losses: Floats) -> Floats:
    """The best split over the grid; δ is convex in e^ε, so that chords between its points are above it.

    What the first leaves of a loss is rounded down, and so is where it lies between points. A chord is read from its
    lower end, with which all of it is a sum of positive terms: these err by 12 units, which profiles have to spare.
    """
    t = np.exp(losses)
    delta_first, delta_second = profile(first, losses), profile(second, losses)
    best = np.ones_like(losses)
    for loss, delta in zip(losses, delta_first, strict=True):
        rest = np.nextafter(losses - loss, -np.inf)
        inside = rest >= losses[0]
        at = np.exp(rest[inside]) * (1 - _PLACE)
        value = delta + np.exp(loss) * np.interp(-at, -t[::-1], delta_second[::-1])
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
