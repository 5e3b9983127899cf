"""What bounds on Rényi divergences allow at every ε, from above and from below: Bernoulli pairs at their limits.

Two outcomes of losses a > 0 and -b < 0 have P- and Q-masses y, x and 1-y, 1-x that follow from a and b. Their moments
ψ = E_Q X^β, β = α or 1-α, are compared with the bounds. *Below*: a pair within all of them is attained by a mechanism,
which may be chosen by all that was released before it, and by nothing after it; so that beside others one such release
is to come last. *Above*: ψ is convex in (x, y), so that every test within ψ ≤ M lies below a line, at any point of it:

    y′ - s x′ ≤ y - s x + (M - ψ)/ψ_y,   s = -ψ_x/ψ_y,   and the right side bounds δ(log s).

Which losses and orders are tried are hints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.effort import note, remembered
from dpcalc.elementary import exp_remainder
from dpcalc.pairs.adaptive_attack import log_sampled_moments, pair_of_tests
from dpcalc.pairs.points import LARGEST_LOSS, BoundPair, PointPair
from dpcalc.rounding import FAINT, LARGEST_EXPONENT, UNIT, accumulated

_FIRST, _STEP, _RATIO = 0.01, 0.015, 1.03  # of √(α-1) up to 1, and of one order to the next beyond
_LIKELY, _RAREST = 80.0, 650.0  # -log of probabilities: where tests stand close to each other, and of the last
_CLOSE, _FAR = 300, 60  # so many tests
_ROUNDED = 2.0**-40  # more than the rounding of a moment or a mass, relative to the largest part of it
_LAST_PLACES = 64 * UNIT  # more than the rounding of masses, and of slopes next to 1
_SOME, _AROUND = 50, 13  # orders of a first look, and how many next to the one that decides are looked at again
_HALVINGS = 15, 22  # of a first look, and of the second
_SHY = 1 - 2.0**-16  # of a loss that was found
_PER_MOMENT = 150.0  # units of effort


@dataclass(frozen=True, eq=False)
class Frontier:
    """Losses of Bernoulli pairs that are about at the limits; log E X^α ≤ `limits` is what all pairs satisfy.

    Those whose moments are within `narrower` limits satisfy all bounds, also at orders between.
    """

    a: Floats
    b: Floats
    orders: Floats
    limits: Floats
    narrower: Floats

    def tests(self) -> BoundPair | None:
        """A pair below all the pairs that are within bounds; None if there is none."""
        found = _excess(self.a, self.b, self.orders, self.narrower).max(axis=-1) <= 0
        p, q = _masses(self.a[found], self.b[found])
        return pair_of_tests(p[::-1], q[::-1], accumulated(32)) if found.any() else None

    def worst(self, order: float, rate: float) -> tuple[PointPair | None, float]:
        """Of the pairs within bounds that with the largest E e^{λ·loss}, λ an order, sampled at a rate, and its log."""
        found = _excess(self.a, self.b, self.orders, self.narrower).max(axis=-1) <= 0
        found &= _masses(self.a, self.b)[1] > FAINT
        if not found.any():
            return None, -np.inf
        a, b = (np.concatenate((one[found], other[found])) for one, other in ((self.a, self.b), (self.b, self.a)))
        logs = log_sampled_moments(a, b, order, rate)
        k = int(np.argmax(logs))
        (p, q), (q_down, p_down) = _masses(a[k], b[k]), _masses(b[k], a[k])
        return PointPair(np.array([-b[k], a[k]]), np.array([p_down, p]), np.array([q_down, q])), float(logs[k])

    def profile(self) -> tuple[Floats, Floats]:
        """Some ε > 0 in increasing order, and upper bounds on δ there, in either direction."""
        ways = [self._lines(self.a, self.b, 1), self._lines(self.b, self.a, -1)]
        log_slopes, heights = (np.concatenate(column) for column in zip(*ways, strict=True))
        # δ falls with ε. Below s = 1 the other direction is meant, whose δ at -log s is δ(log s)/s + 1 - 1/s.
        losses = np.abs(log_slopes) * (1 + _ROUNDED) + _LAST_PLACES
        doubt = _LAST_PLACES + 4 * UNIT * np.abs(log_slopes)
        mirrored = np.exp(-log_slopes) * heights * (1 + doubt) - np.expm1(-log_slopes) * (1 - doubt)
        deltas = np.where(log_slopes > 0, heights, mirrored)
        order = np.argsort(losses, kind="stable")
        order = order[(deltas[order] > 0) & (deltas[order] < 1)]
        losses, deltas = losses[order], deltas[order]
        apart = np.append(True, np.diff(losses) > 0)[: losses.size]
        return losses[apart], deltas[apart]

    def _lines(self, up: Floats, down: Floats, way: int) -> tuple[Floats, Floats]:
        """log s and the right side for the order that decides about E X^α (`way` 1), or E X^{1-α} (-1).

        At β > 1 s = (1 - 1/β)e^a(1 - e^{-β(a+b)})/(1 - e^{-(β-1)(a+b)}) and ψ_y = βe^{(β-1)a}(1 - e^{-(β-1)(a+b)}); at
        β < 0, with signs of exponents turned, a and -b exchange their parts.
        """
        high, low = (_log_moments(up, down, self.orders, sign) for sign in (1, -1))
        top = np.argmax(high / self.limits, axis=-1)
        rows, alpha, limit = np.arange(top.size), self.orders[top], self.limits[top]
        times, steep = (alpha, alpha - 1) if way == 1 else (alpha - 1, alpha)  # |β| and |β - 1|
        one, other = -np.expm1(-times * (up + down)), -np.expm1(-steep * (up + down))
        log_slope = np.log(steep / times * one / other) + way * up
        log_unit = -np.log(times * other) - steep * up
        p, q = _masses(self.a, self.b)
        moved = np.exp(log_slope) * q
        with np.errstate(over="ignore", invalid="ignore"):
            slack = np.max(
                [np.expm1(limit - log) * np.exp(log + log_unit) for log in (high[rows, top], low[rows, top])], axis=0
            )
        doubt = _LAST_PLACES + 4 * UNIT * np.abs(log_slope)
        height = p - moved + slack + doubt * (p + moved) + _ROUNDED * np.abs(slack)
        return log_slope, np.where(alpha * up < LARGEST_EXPONENT, height, np.inf)


@remembered(32)
def zcdp_frontier(rho: float) -> Frontier | None:
    """Bernoulli pairs at the limits of ρ-zCDP: log E X^α ≤ α(α-1)ρ at every α > 1; None where they are out of reach.

    The left side is convex in α. Between two orders, d apart, it is below its chord, which is below the right side if
    the ends are below it by ρd²/4; up to the first, α₁, if it is at most (α₁-1)ρ there, being 0 at α = 1; and beyond
    the last because a divergence is never more than the largest loss.
    """
    likely, reach = (float(rho + 2 * np.sqrt(rho * logarithm)) for logarithm in (_LIKELY, _RAREST))
    reach = min(reach, LARGEST_LOSS)
    last = 2 + 1.01 * reach / rho
    near = 1 + np.arange(_FIRST, 1.0, _STEP) ** 2
    orders = np.concatenate((near, np.geomspace(2.0, last, 2 + int(np.log(last / 2) / np.log(_RATIO)))))
    apart = np.diff(orders)
    apart = np.maximum(np.append(apart, 0.0), np.append(0.0, apart))
    limits = rho * orders * (orders - 1)
    narrower = limits - rho * apart**2 / 4
    narrower[0] = min(narrower[0], rho * (near[0] - 1))
    return _frontier(orders, limits, narrower, likely, reach)


@remembered(32)
def rdp_frontier(orders: tuple[float, ...], epsilons: tuple[float, ...]) -> Frontier | None:
    """Bernoulli pairs at the limits of these divergences of these orders; None where they are out of reach."""
    known = np.array(orders, dtype=np.float64)
    limits = (known - 1) * np.array(epsilons, dtype=np.float64)
    if not (limits > 0).all():
        return None
    likely, reach = (float(np.min((limits + logarithm) / (known - 1))) for logarithm in (_LIKELY, _RAREST))
    return _frontier(known, limits, limits, likely, min(reach, LARGEST_LOSS))


def _frontier(orders: Floats, limits: Floats, narrower: Floats, likely: float, reach: float) -> Frontier | None:
    """Losses a from that of two equal ones to the reach, each with about the largest b that the limits allow."""
    note(_PER_MOMENT * (_CLOSE + _FAR) * orders.size)
    limits, narrower = limits * (1 + _LAST_PLACES), narrower * (1 - _ROUNDED)
    low, high = 0.0, reach
    for _ in range(sum(_HALVINGS)):
        middle = np.array([(low + high) / 2])
        holds = _excess(middle, middle, orders, narrower).max() <= 0
        low, high = (float(middle[0]), high) if holds else (low, float(middle[0]))
    if not 0 < low < reach:
        return None
    likely = min(max(likely, low), reach)
    share = np.linspace(0.0, 1.0, _CLOSE if orders.size > _CLOSE else 2 * _CLOSE)
    close, far = low + (likely - low) * share * (share + 0.3) / 1.3, np.geomspace(likely, reach, _FAR)
    a = np.concatenate((close[:-1], far))
    return Frontier(a, _largest(a, low, orders, narrower), orders, limits, narrower)


def _largest(a: Floats, most: float, orders: Floats, limits: Floats) -> Floats:
    """About the largest b that the limits allow, at most `most`: a look at some orders, then at nearby ones."""
    some = np.unique(np.append(np.arange(0, orders.size, max(1, orders.size // _SOME)), orders.size - 1))
    low, high = np.full(a.shape, np.log(most) - _RAREST), np.full(a.shape, np.log(most))
    low, high = _bisected((low, high), a, orders[some], limits[some], _HALVINGS[0])
    worst = some[np.argmax(_excess(a, np.exp(high), orders[some], limits[some]), axis=-1)]
    around = np.clip(worst[:, None] + np.arange(-_AROUND, _AROUND + 1), 0, orders.size - 1)
    low, _ = _bisected((low - 1, high), a, orders[around], limits[around], _HALVINGS[1])
    return np.asarray(_SHY * np.exp(low))


def _bisected(
    ends: tuple[Floats, Floats], a: Floats, orders: Floats, limits: Floats, halvings: int
) -> tuple[Floats, Floats]:
    low, high = ends
    for _ in range(halvings):
        middle = (low + high) / 2
        holds = _excess(a, np.exp(middle), orders, limits).max(axis=-1) <= 0
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, high


def _masses(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """P- and Q-mass of the outcome of loss a, beside one of loss -b: nothing cancels."""
    p = np.expm1(-b) / np.expm1(-(a + b))
    return p, p * np.exp(-a)


def _excess(a: Floats, b: Floats, orders: Floats, limits: Floats) -> Floats:
    """By how much log E X^α, from above, exceeds its limit, a column for each order: the larger of both directions."""
    return np.maximum(_log_moments(a, b, orders), _log_moments(b, a, orders)) - limits


def _log_moments(a: Floats, b: Floats, orders: Floats, sign: int = 1) -> Floats:
    """Upper bounds (`sign` 1) or lower ones (-1) on log E_Q X^α of two outcomes with X = e^a and e^{-b}.

    E X^α - 1 = Σ q f_α(X) with f_α(e^l) = R(αl) - αR(l), R(z) = e^z - 1 - z; where e^{αa} is beyond the doubles,
    E X^α ≤ 1 + q e^{αa} is enough.
    """
    a, b = a[:, None], b[:, None]
    both = np.expm1(-(a + b))
    exponents = orders * a
    parts = (
        (np.expm1(-b) / both * np.exp(-a), exp_remainder(np.minimum(exponents, LARGEST_EXPONENT)), exp_remainder(a)),
        (np.expm1(-a) / both, exp_remainder(-orders * b), exp_remainder(-b)),
    )
    rare, excess = parts[0][0], np.zeros(np.broadcast_shapes(a.shape, orders.shape))
    for mass, all_, one in parts:
        excess += mass * (np.maximum(all_ - orders * one, 0.0) + sign * _ROUNDED * (all_ + orders * one))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log(rare) + exponents, 0.0) + 16 * UNIT * exponents
    return np.where(exponents < LARGEST_EXPONENT, np.log1p(np.maximum(excess, 0.0)), far)
