"""Rényi divergences of what is only known by its own, on a Poisson-sampled batch.

Z is the likelihood ratio under Q of what is sampled, X = 1 - q + qZ that of the batch, and E[Z^γ] ≤ m_γ is known at
some γ > 1 and γ < 0. *Removing*: at a whole order n, X^n has binomial terms that are moments of Z (Zhu, Wang 2019),

    E[X^n] ≤ 1 + Σ_{k=2}^n C(n,k) (1-q)^{n-k} q^k (m_k - 1),   and a Gaussian attains all its m_k at once.

With f_γ(z) = z^γ - 1 - γ(z - 1), E[f_γ(X)] / γ(γ-1) is a mean of x^{γ-2} by a measure that does not depend on γ: its
logarithm is convex in γ, which serves orders between whole ones. *Adding* asks for E[X^p], p = 1 - α. Two convex
functions that vanish with their slopes at z = 1 are to each other at most as their second derivatives: for p < γ ≤ 2,
both of them outside [0, 1], which serves removing too where α < 2,

    E[X^p] ≤ 1 + c (m_γ - 1),   c = p(p-1)q²/(γ(γ-1)) · max_w w^{2-γ} (1-q+qw)^{p-2},   at w = (2-γ)(1-q)/(q(γ-p)).

It is at w = 1, where small divergences ask for it, for γ = qp + 2(1-q). And as X ≥ Z^q and X ≥ 1 - q, adding costs no
more than q times the divergence of order 1 + q(α-1), nor than -log(1-q).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.effort import note
from dpcalc.pairs.moments import ROUNDING

Curve = Callable[[Floats], Floats]
"""Upper bounds on a divergence at some orders; inf where none is known."""

MOST_TERMS = 1024
"""The largest whole order that is added up term by term."""

_GAMMAS = np.array([-1.0, -0.3, -0.02, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.65, 1.8, 1.9, 2.0])
_PER_TERM = 3.0  # units of effort
_STEEP = 30.0  # where e^x - 1 is hardly less than e^x

LEAST = -700.0
"""The log of the least excess that is told: what is below the range of doubles is not none."""


def sampled_excess(curve: Curve, whole: Curve, rate: float, orders: Floats) -> tuple[Floats, Floats]:
    """Upper bounds on log(E[X^α] - 1) and on log(E[X^{1-α}] - 1), for removing and for adding, at each order α > 1.

    `curve` bounds the divergences of P and Q, either way, and `whole` log(E[X^n] - 1) at whole n ≥ 2; 0 < q < 1.
    """
    removing = _between(whole, orders)
    below = orders < _GAMMAS[-1]
    removing[below] = _by_curvature(curve, rate, orders[below])
    with np.errstate(over="ignore"):
        least = np.minimum(rate * curve(1 + rate * (orders - 1)), -np.log1p(-rate))
        least = _log_expm1((orders - 1) * least * (1 + ROUNDING)) + ROUNDING
    return removing, np.minimum(_by_curvature(curve, rate, 1 - orders), least)


def binomial_excess(curve: Curve, rate: float, orders: Floats) -> Floats:
    """Upper bounds on log(E[X^n] - 1) at whole numbers n ≥ 2 by the moments of Z; inf where some are not known."""
    found = np.full(orders.shape, np.inf)
    few = np.flatnonzero(orders <= MOST_TERMS)
    if not few.size:
        return found
    note(_PER_TERM * float(orders[few].sum()))
    k = np.arange(2.0, orders[few].max() + 1)
    with np.errstate(over="ignore"):
        log_m = (k - 1) * curve(k)
    log_less, log_rate, log_rest = _log_expm1(log_m), np.log(rate), np.log1p(-rate)
    for place in few.tolist():
        n, upto = float(orders[place]), int(orders[place]) - 1
        terms = np.array(_log_choices(int(n))) + (n - k[:upto]) * log_rest + k[:upto] * log_rate + log_less[:upto]
        top = terms.max()
        if top < np.inf:
            size = 1 + n * (1 + abs(log_rate) - log_rest) + np.abs(log_less[:upto]).max()
            found[place] = top + np.log(np.sum(np.exp(terms - top))) + ROUNDING * size
    return found


@lru_cache(256)
def _log_choices(n: int) -> tuple[float, ...]:
    """log C(n, k) for k = 2 … n, of exact whole numbers."""
    numbers = accumulate(range(1, n), lambda number, k: number * (n - k) // (k + 1), initial=n)
    return tuple(math.log(number) for number in numbers)[1:]


def _between(whole: Curve, orders: Floats) -> Floats:
    """log(E[X^α] - 1) from above, for α ≥ 2: by the chord of what is divided by α(α-1), between whole numbers."""
    low, high = np.maximum(np.floor(orders), 2.0), np.maximum(np.ceil(orders), 2.0)
    needed = np.unique(np.concatenate((low, high)))
    divided = whole(needed) - np.log(needed * (needed - 1))
    at_low, at_high = (divided[np.searchsorted(needed, each)] for each in (low, high))
    share = orders - low
    with np.errstate(invalid="ignore"):
        chord = np.where(share == 0, at_low, (1 - share) * at_low + share * at_high)
    found = chord + np.log(orders * (orders - 1)) + ROUNDING * (1 + np.abs(chord) + np.log(orders))
    return np.where(np.isnan(found), np.inf, found)


def _by_curvature(curve: Curve, rate: float, powers: Floats) -> Floats:
    """log(E[X^p] - 1) from above, for p < 0 or 1 < p < 2, by the best m_γ with p < γ ≤ 2."""
    p = powers[None, :]
    gamma = np.concatenate((np.broadcast_to(_GAMMAS[:, None], (_GAMMAS.size, powers.size)), rate * p + 2 * (1 - rate)))
    fits = (p < gamma) & ((gamma > 1) | (gamma < 0))
    gamma = np.where(fits, gamma, 2.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        w = (2 - gamma) * (1 - rate) / (rate * (gamma - p))
        steep = np.where(gamma == 2, 0.0, (2 - gamma) * np.log(w)) + (p - 2) * np.log((1 - rate) + rate * w)
        log_c = np.log(p * (p - 1) / (gamma * (gamma - 1))) + 2 * np.log(rate) + steep
        log_m = np.where(gamma > 1, gamma - 1, -gamma) * curve(np.maximum(gamma, 1 - gamma).ravel()).reshape(
            gamma.shape
        )
        size = 2 + np.abs(log_m) + (2 + np.abs(p)) * (2 + np.abs(np.log1p(-rate)) + np.abs(np.log(rate)))
        bounds = log_c + _log_expm1(log_m) + ROUNDING * size
    return np.asarray(np.min(np.where(fits & ~np.isnan(bounds), bounds, np.inf), axis=0))


def _log_expm1(logarithms: Floats) -> Floats:
    """log(e^x - 1) of x ≥ 0, and the least that is told where it is less."""
    with np.errstate(divide="ignore"):
        found = np.where(logarithms > _STEEP, logarithms, np.log(np.expm1(np.minimum(logarithms, _STEEP))))
    return np.maximum(found, LEAST)
