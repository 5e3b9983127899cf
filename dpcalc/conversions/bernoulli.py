"""What bounds on Rényi divergences imply for tests and for (ε,δ): exactly the Bernoulli pairs within the bounds.

A test with false positive rate x and true positive rate y turns the pair into Ber(y) and Ber(x), whose divergences are
no larger, in either direction; and the pair (Ber(y), Ber(x)) itself attains its own rates. So the largest rate T(x) is
the largest y with D_α(y‖x) ≤ ρ_α and D_α(x‖y) ≤ ρ_α at every order known, and the largest δ at ε is the supremum of
T(x) - e^ε x (arXiv 2602.04562). T is concave, Rényi divergences being jointly quasi-convex. Rates are kept as log-odds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import exp_remainder

_ROUNDING = 1e-13  # of rates whose logarithms are as large as 700, and of what is computed from them
_LARGEST_ODDS = 720.0
_LARGEST_EXPONENT = 500.0
_COARSE, _FINE = 200, 17
_NARROWEST = 1e-11  # in log-odds

Score = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, eq=False)
class RenyiRegion:
    """The Bernoulli pairs whose divergences of the given orders, both ways, are within bounds; order 1 is KL."""

    orders: Floats
    bounds: Floats

    def true_positive_rate(self, rate: float) -> float:
        """Upper bound on the true positive rate of any test with this false positive rate, between 0 and 1."""
        odds = np.array([np.log(rate) - np.log1p(-rate)])
        return float(min(1.0, _rate(self._largest(odds))[0] * (1 + _ROUNDING)))

    def delta(self, epsilon: float) -> float:
        """Upper bound on δ at ε: the supremum of T(x) - e^ε x."""
        found = self._supremum(lambda y, log_x: y - np.exp(np.minimum(epsilon + log_x, 700.0)))
        return float(np.clip(found, 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        """Upper bound on ε at δ: the supremum of log((T(x) - δ)/x)."""

        def score(y: Floats, log_x: Floats) -> Floats:
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(np.maximum(y - delta, 0.0)) - log_x)

        found = self._supremum(score)
        return max(0.0, found + _ROUNDING * (1 + abs(found)))

    def profile(self, epsilons: Floats) -> Floats:
        """Upper bounds on δ at many ε: T lies below every chord continued, so below a polygon with their crossings."""
        odds = np.linspace(-280.0, 30.0, int(np.clip(5000 // self.orders.size, 500, 3000)))
        x, y = _rate(odds), _rate(self._largest(odds)) * (1 + _ROUNDING)
        slopes = np.maximum(np.diff(y), 0.0) / np.diff(x)
        # The chord before a cell and the one after it cross within it, or one of them is flat there: then at its end.
        before, after, width = slopes[:-2], slopes[2:], np.diff(x)[1:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            at = (y[2:-1] - y[1:-2] - after * width) / (before - after)
        at = np.where(np.isfinite(at), np.clip(at, 0.0, width), width)
        corners_x = np.concatenate((np.zeros(2), x[1:-2] + at, x[1:-2]))
        corners_y = np.concatenate((y[:2], y[1:-2] + before * at, y[1:-2]))
        deltas = [
            np.max(corners_y - np.multiply.outer(np.exp(chunk), corners_x), axis=1)
            for chunk in np.array_split(epsilons, max(1, epsilons.size // 100))
        ]
        return np.asarray(np.clip(np.concatenate(deltas), 0.0, 1.0))

    def _supremum(self, score: Score) -> float:
        """Upper bound on the supremum of a score that is unimodal in x, and monotone along lines.

        A concave function through three points a < b < c lies below the lines through a, b and through b, c continued:
        what they reach at c and at a bounds the score between a and c, and the middle one is the best of a grid. All
        points are raised alike, by a hundred times as much as they may be out of line.
        """
        odds = np.linspace(-700.0, 40.0, _COARSE)
        while True:
            log_x, y = _log_rate(odds), _rate(self._largest(odds)) * (1 + _ROUNDING)
            scores = score(y, log_x)
            best = int(np.argmax(scores))
            if best in {0, odds.size - 1}:
                return np.inf
            three = slice(best - 1, best + 2)
            (a, b, c), (left, top, right) = np.exp(log_x[three]), y[three]
            if not a < b < c:
                return float(scores[best])
            to_left = top - max(right - top, 0.0) / (c - b) * (b - a)
            to_right = top + max(top - left, 0.0) / (b - a) * (c - b)
            upper = score(np.array([to_left, top, min(to_right, 1.0)]), log_x[three])
            width = odds[best + 1] - odds[best - 1]
            if width < _NARROWEST or (width < 1e-3 and upper.max() - scores[best] <= 1e-11 * abs(scores[best])):
                return float(upper.max())
            odds = np.linspace(odds[best - 1], odds[best + 1], _FINE)

    def _largest(self, odds: Floats) -> Floats:
        """Upper bounds on the log-odds of T(x) at log-odds of x: the smallest seen that are surely too large.

        By secants, an end that stays twice counting half (the Illinois method), and by halves; what is close enough is
        asked no more.
        """
        low, high = odds.copy(), np.full(odds.shape, _LARGEST_ODDS)
        found = np.where(self._excess(high, odds) <= 0, np.inf, high)
        at = np.flatnonzero(np.isfinite(found))
        odds, low, high = odds[at], low[at], high[at]
        value_low, value_high, held = np.full(at.shape, -1.0), np.ones(at.shape), np.full(at.shape, -1)
        for k in range(70):
            share = value_low / (value_low - value_high) if k % (5 if k < 15 else 2) else 0.5
            middle = low + np.clip(share, 1e-3, 1 - 1e-3) * (high - low)
            excess = self._excess(middle, odds)
            holds = excess <= 0
            weight = np.where(holds == held, 0.5, 1.0)
            low, high = np.where(holds, middle, low), np.where(holds, high, middle)
            value_low = np.where(holds, excess, value_low * weight)
            value_high = np.where(holds, value_high * weight, excess)
            found[at] = high
            far = high - low > 1e-15 * np.maximum(np.abs(high), 1.0)
            if not far.any():
                break
            at, held = at[far], holds[far]
            odds, low, high, value_low, value_high = (each[far] for each in (odds, low, high, value_low, value_high))
        return found

    def _excess(self, first: Floats, second: Floats) -> Floats:
        """Positive where some divergence is surely above its bound: how far the largest is, between -1 and 1."""
        worst = np.full(first.shape, -np.inf)
        for p, q in ((first, second), (second, first)):
            # What cannot be computed rules nothing out.
            worst = np.fmax(worst, np.fmax.reduce(_divergences(p, q, self.orders) / self.bounds, axis=-1))
        return np.asarray(np.clip(worst - 1, -1.0, 1.0))


def _log_rate(odds: Floats) -> Floats:
    return np.asarray(-np.logaddexp(0.0, -odds))


def _rate(odds: Floats) -> Floats:
    return np.asarray(np.exp(_log_rate(odds)))


def _divergences(first: Floats, second: Floats, orders: Floats) -> Floats:
    """D_α(Ber‖Ber) at log-odds `first` and `second`, a column for each order, from below by a shade.

    log1p Σ q f_α(p/q) with f_α(e^l) = R(αl) - αR(l), R(z) = e^z - 1 - z, and for KL Σ p R(-l): nothing cancels.
    """
    logs = [(_log_rate(sign * first)[..., None], _log_rate(sign * second)[..., None]) for sign in (1, -1)]
    sums = np.zeros((*first.shape, orders.size))
    for p, q in logs:
        loss = p - q
        exponents = np.minimum(orders * loss, _LARGEST_EXPONENT)
        grown, taken = exp_remainder(exponents), orders * exp_remainder(np.minimum(loss, _LARGEST_EXPONENT))
        one = np.exp(p) * exp_remainder(-np.maximum(loss, -_LARGEST_EXPONENT))
        near = np.exp(q) * (np.maximum(grown - taken, 0.0) - _ROUNDING * (np.abs(grown) + np.abs(taken)))
        sums = sums + np.where(orders == 1.0, one, near)
    plain = np.logaddexp(*(orders * p + (1 - orders) * q for p, q in logs))
    above = np.where(orders == 1.0, 1.0, orders - 1)  # the moment of order 1 is not used
    moments = np.where(plain > 30.0, plain, np.log1p(np.maximum(sums, 0.0))) / above
    return np.where(orders == 1.0, sums, moments) * (1 - _ROUNDING)
