"""The best an adversary can do with several bounded-range mechanisms, chosen one after the other, as one pair.

Each mechanism's loss is t or t - ε for a t in [0, ε] that may depend on what came before (Dong, Durfee, Rogers 2020).
With u = e^{-t}, Q(loss = t) = (u - e^{-ε}) / (1 - e^{-ε}), and the largest δ of k of them satisfies

    H_k(s) = sup over t of E_Q[X H_{k-1}(s/X)],   X = e^t or e^{t-ε},   H_0(s) = (1 - s)⁺.

H_k is convex, being a supremum of such, and so the profile of a pair that dominates all k together: composing k of
`BoundedRangePair` instead lets the adversary choose t after the outcome. Exchanging P and Q exchanges t and ε - t.

Of many runs most are worth ε²/4 of a Gaussian's μ² and hardly more: N(m²) beside one run is dominated by a Gaussian of
μ² = m² + a/(1 - a/m²), a = ε²/4 (`adaptive_range_mu`).
"""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.conversions import gdp_delta
from dpcalc.effort import note, remembered
from dpcalc.elementary import ndtr, ndtri
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.profile import pair_of_profile
from dpcalc.rounding import SMALLEST_NORMAL, UNIT

MOST_RUNS = 400
"""More of them are not worked out one by one."""

_FINEST, _FINE, _COARSE, _FEW = 512, 64, 40, 48  # steps from 0 to ε: fewest and most for a few runs, and for more
_POINTS = 1500  # of a few runs
_REACH = 18.0  # standard deviations of the loss: e^{-18²/2} is 1e-70
_UP = 1 + 2**12 * UNIT  # more than the rounding of a step, in which e^ε errs by ε/2 + 4 units
_ROUNDING = 2**13 * UNIT  # of slopes, relative to these, with that of e^ε
_PER_CHOICE = 15.0  # units of effort
_AT_ONCE = 128  # runs that are worked out before a Gaussian takes over
_NOTICED = 2.0**-30  # of itself: by how much a Gaussian's δ has to be larger


@remembered(32)
def adaptive_range_pair(epsilon: float, count: int) -> PointPair:
    """A pair that dominates `count` adaptively chosen ε-bounded-range mechanisms."""
    losses, profile = _profile(epsilon, count)
    return pair_of_profile(losses, profile)


@remembered(32)
def adaptive_range_mu(epsilon: float, count: int) -> float:
    """A μ such that `count` adaptively chosen ε-bounded-range mechanisms are μ-GDP.

    Let N(m) be a Gaussian mechanism of μ = m > ε/2. Beside one run with any t, the logarithm of the likelihood ratio is
    under Q a mixture of two normal laws of variance m², ε apart, whose log-density has a second derivative of at most
    -1/m² + ε²/4m⁴. That of N(M), M² = m² + a/(1 - a/m²), a = ε²/4, has -1/M², which is as large. So the quotient of
    both densities is log-concave and their difference changes its sign at most twice; mass and mean of the ratio being
    the same, N(M) is above in convex order (Karlin, Novikoff 1963). From H_B ≤ δ of N(m), each further run adds as
    much: with x = m²/a - 1, n of them add at most a(n + 1/x + log((x + n - 1)/x)).
    """
    first = min(count, _AT_ONCE)
    square, a = _least_mu(epsilon, first) ** 2, epsilon * epsilon / 4
    x, n = square / a - 1, count - first
    grown = square + (a * (n + 1 / x + math.log((x + n - 1) / x)) if n else 0.0)
    return math.sqrt(grown) * (1 + 64 * UNIT)


def _least_mu(epsilon: float, count: int) -> float:
    """About the least m with H_count ≤ δ of N(m) at every s, and surely one."""
    losses, profile = _profile(epsilon, count, whole=True)
    low, high = 0.5 * epsilon * math.sqrt(count), 2.0 * epsilon * math.sqrt(count)
    for _ in range(24):
        middle = (low + high) / 2
        places, heights = _highest(losses, profile, middle)
        above = ndtr(middle / 2 - places / middle) - np.exp(places) * ndtr(-middle / 2 - places / middle)
        low, high = (low, middle) if np.all(heights * (1 + _NOTICED) <= above) else (middle, high)
    for _ in range(8):
        places, heights = _highest(losses, profile, high)
        above = np.asarray(gdp_delta(high, places)) * (1 - _NOTICED)
        if np.all(heights <= above):
            return high
        high *= 1 + 2.0**-16
    raise ArithmeticError("no Gaussian is found above a profile")


def _highest(losses: Floats, profile: Floats, mu: float) -> tuple[Floats, Floats]:
    """Where the chords of a profile, convex in s = e^l, may be above a Gaussian's δ, and how high they are there.

    The difference is concave in s between two points, so that it is largest at an end or where slopes are equal.
    """
    s = np.exp(losses)
    slopes = np.diff(profile) / (s[:-1] * np.expm1(np.diff(losses)))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.nan_to_num(-mu * (ndtri(-slopes) + mu / 2), nan=0.0, posinf=np.inf, neginf=-np.inf)
    places = np.clip(level, losses[:-1], losses[1:])
    chords = np.maximum(profile[:-1] + slopes * (s[:-1] * np.expm1(places - losses[:-1])), 0.0)
    return np.concatenate((losses, places)), np.concatenate((profile, chords))


def _profile(epsilon: float, count: int, *, whole: bool = False) -> tuple[Floats, Floats]:
    """H_count at losses 0, h, …: up to its end, or so far that what is left is nothing to speak of.

    Steps and losses are rounded up: the former add up to an ε no smaller than that of the mechanisms, and at the
    latter δ is no larger.
    """
    steps = min(max(_POINTS // count, _FINE), _FINEST) if count <= _FEW else _COARSE
    width = math.nextafter(epsilon / steps, math.inf)
    profile: Floats = np.zeros(1)  # H_0 at s = 1 and beyond
    for k in range(1, count + 1):
        spread = _REACH * math.sqrt(k) / 2 + k * math.tanh(epsilon / 4) / 2
        last = k * steps if whole else min(k, math.ceil(spread)) * steps
        shifts = _shifts(steps, k)
        note(_PER_CHOICE * last * shifts.size)
        profile = _step(profile, last, steps, width, shifts)
    losses = np.nextafter(width * np.arange(profile.size, dtype=np.float64), np.inf)
    losses[0] = 0.0
    return losses, profile


def _shifts(steps: int, run: int) -> Indices:
    """Which t are looked at: all, or most of them around ε/2 where the best is after many runs; any will do."""
    every = np.arange(steps + 1, dtype=np.int64)
    return every if run <= _FEW else every[(every % 4 == 0) | (np.abs(every - steps // 2) <= steps // 8)]


def _step(before: Floats, last: int, steps: int, width: float, shifts: Indices) -> Floats:
    """H_k at s = e^{jh}, j = 0 … last, from H_{k-1}: some t of the grid, and what chords say of those in between.

    X ↦ X H(s/X) is convex, so that its chords bound it for t between two of them. Their mean is A u + B/u + C: with
    B < 0 it bulges over the chord of its ends by at most E = |B|Δu²/(4u³), and so over the larger end, which is D above
    the other, by (4E - D)²/(16E) at most, and by nothing if D ≥ 4E. All this holds for rounded values as it does for
    exact ones, of which every mean is a mean too; and of an error of D at most half gets into the sum.
    """
    x, u = np.exp(width * shifts)[:, None], np.exp(-width * shifts)[:, None]
    ratio, unit = float(np.exp(-width * steps)), float(-np.expm1(-width * steps))
    around = _around(before, last, steps, width)
    high = np.stack([around[steps - shift : steps - shift + last + 1] for shift in shifts.tolist()])
    low = np.stack([around[2 * steps - shift : 2 * steps - shift + last + 1] for shift in shifts.tolist()])
    high *= x  # X H(s/X) at X = e^t
    low *= ratio * x  # and at e^{t-ε}
    likely = u * -np.expm1(width * (shifts - steps))[:, None] / unit
    means = likely * high + (-np.expm1(-width * shifts)[:, None] / unit) * low
    apart_u = -np.expm1(-width * np.diff(shifts))[:, None] * u[:-1]  # of small ε differences would be rounding alone
    apart_x = np.expm1(width * np.diff(shifts))[:, None] * x[:-1]
    bulge = _bends(high, low, apart_x, ratio) * (ratio / unit * apart_u**2 / (4 * u[1:] ** 3)) + SMALLEST_NORMAL
    larger = np.maximum(means[1:], means[:-1])
    over = np.maximum(4 * bulge - np.abs(np.diff(means, axis=0)), 0.0)
    best: Floats = np.max(larger + over * (over / (16 * bulge)), axis=0)
    return np.minimum(best * _UP, 1.0)


def _bends(high: Floats, low: Floats, apart: Floats, ratio: float) -> Floats:
    """By how much the slopes of `high` exceed those of `low`, at most; cells that are wide magnify their rounding."""
    steep, flat = np.diff(high, axis=0) / apart, np.diff(low, axis=0) / (ratio * apart)
    return np.asarray(np.maximum(steep - flat, 0.0) + _ROUNDING * (np.abs(steep) + np.abs(flat)))


def _around(profile: Floats, last: int, steps: int, width: float) -> Floats:
    """H at e^{jh} from j = -steps to last + steps: below s = 1 it is 1 - s + s H(1/s), and it grows nowhere."""
    places = np.arange(-steps, last + steps + 1, dtype=np.int64)
    known = profile[np.minimum(np.abs(places), profile.size - 1)]
    below = width * np.minimum(places, 0)
    return np.asarray(np.where(places < 0, -np.expm1(below) + np.exp(below) * known, known))
