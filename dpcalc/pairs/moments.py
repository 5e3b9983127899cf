"""Upper bounds on the moments of a likelihood ratio, for Rényi divergences that hold to the last digit.

With X = dP/dQ under Q the mean of X is one, so E[X^β] - 1 is the mean of f_β(X), f_β(x) = x^β - 1 - β(x - 1), which is
convex and nowhere negative for β > 1 and for β < 0: nothing cancels. For β = α its logarithm is the Rényi divergence of
P from Q, for β = 1 - α that of Q from P, each times α - 1. The mean of a convex function grows when X is spread onto
the two ends of its cell with its mean kept, so the masses of cells bound it (connect the dots: Doroshenko et al. 2022).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import exp_remainder
from dpcalc.pairs.cells import Cells
from dpcalc.rounding import FAINT

# More than the rounding of exp, of e^z - 1 - z and of a sum of products, in units of what is summed.
ROUNDING = 2.0**-46
_LARGEST_EXPONENT = 600.0
_TOGETHER = 400_000  # values held at once
_EVEN, _FINE = 1500, 400  # edges over the whole range, and towards each end of it


class Spreadable(Protocol):
    """What is asked of a pair here; every `Pair` answers it."""

    def cells(self, edges: Floats) -> Cells: ...

    def support(self) -> tuple[float, float]: ...

    def at_infinity(self) -> tuple[float, float]: ...

    def missing(self) -> tuple[float, float]: ...

    def window(self, powers: Floats) -> tuple[float, float, Floats]: ...


def log_mean_excess(weights: Floats, losses: Floats, powers: Floats) -> Floats:
    """Upper bounds on log Σ w f_β(e^l) for each β > 1 or β < 0, the rounding of weights and losses included."""
    weights, losses = weights[weights > 0], losses[weights > 0]
    if not weights.size:
        return np.full(powers.shape, -np.inf)
    size = max(1, _TOGETHER // weights.size)
    parts = [_log_sums(weights, losses, powers[start : start + size]) for start in range(0, powers.size, size)]
    rounding: Floats = ROUNDING * (1 + np.abs(powers) * np.abs(losses).max())
    return np.concatenate(parts) + rounding


def _log_sums(weights: Floats, losses: Floats, powers: Floats) -> Floats:
    """log Σ w (R(βl) - β R(l)) with R(z) = e^z - 1 - z, each difference raised by its rounding.

    Where e^{βl} leaves the range of doubles, log Σ w e^{βl}, which is more and hardly more.
    """
    exponents = np.multiply.outer(powers, losses)
    top = exponents.max(axis=-1)
    grown = exp_remainder(np.minimum(exponents, _LARGEST_EXPONENT))
    taken = np.multiply.outer(powers, exp_remainder(np.minimum(losses, _LARGEST_EXPONENT)))
    values = np.maximum(grown - taken, 0.0) + ROUNDING * (np.abs(grown) + np.abs(taken))
    with np.errstate(divide="ignore"):
        near = np.log(values @ weights)
    if np.all(top <= _LARGEST_EXPONENT):
        return np.asarray(near)
    far = np.log(np.exp(exponents - top[..., None]) @ weights) + top
    return np.where(top <= _LARGEST_EXPONENT, near, far)


def spread(pair: Spreadable, edges: Floats) -> Floats:
    """Q-masses on increasing finite edges that dominate what the pair has between them: its cells on their ends.

    What is outside belongs to the first or last edge if no finite loss is beyond it, and to nothing otherwise. Masses
    may be wrong by a few units of rounding of the tail beyond them; the weights are raised by as much.
    """
    a, b, *errors = pair.cells(edges)
    scale, width = np.exp(-edges[:-1]), np.diff(edges)
    doubt_p, doubt_q = (
        np.maximum(ROUNDING / 4 * (_tails(masses) + masses), error)[1:-1]
        for masses, error in zip((a, b), errors, strict=True)
    )
    p, q, rise = a[1:-1] * scale, b[1:-1], np.expm1(width)
    doubt = np.where(p + q > 0, (doubt_p * scale + doubt_q * np.exp(width)) / rise, 0.0)
    lifted = np.clip((p - q) / rise, 0.0, q)
    weights = np.append(q - lifted + doubt, 0.0)
    weights[1:] += lifted + doubt
    low, high = pair.support()
    p_infinite, q_infinite = pair.at_infinity()
    if edges[0] <= low:
        weights[0] += max(float(b[0]) - q_infinite, 0.0)
    if edges[-1] >= high:
        weights[-1] += max(float(a[-1]) - p_infinite, 0.0) * np.exp(-edges[-1])
    return weights


def _tails(masses: Floats) -> Floats:
    return np.minimum(np.cumsum(masses), np.cumsum(masses[::-1])[::-1])


def chord_excess(pair: Spreadable, powers: Floats, *, rate: float, side: int) -> Floats:
    """Upper bounds on log E_Q[f_β(1 - q + qX)], over X > 1 only (side 1), X < 1 only (-1) or all X (0); inf if unknown.

    The unsampled X is spread, which by affinity spreads the sampled one (and spares it the cancellation of 1/q).
    """
    result = np.full(powers.shape, np.inf)
    size = np.ceil(np.log(1 + np.abs(powers)))  # powers of similar size share their edges
    for octave in np.unique(size):
        at = np.flatnonzero(size == octave)
        low, high, log_outside = pair.window(powers[at])
        if high - low <= _LARGEST_EXPONENT:
            losses = _edges(low, high)
            keep = np.ones(len(losses), dtype=bool) if side == 0 else side * losses > 0
            weights, ends = spread(pair, losses), ends_of(pair)
            sampled, ends = mixed_losses(losses[keep], rate), (rate * ends[0], ends[1])
            value = log_excess_of_points(weights[keep], sampled, ends, powers[at], side=side, rate=rate)
            result[at] = np.logaddexp(value, log_outside)
    return result


def ends_of(pair: Spreadable) -> tuple[float, float]:
    """P-mass at ∞ and Q-mass at 0, with what is missing."""
    (p, q), (p_missing, q_missing) = pair.at_infinity(), pair.missing()
    return p + p_missing, q + q_missing


def log_excess_of_points(
    weights: Floats, losses: Floats, ends: tuple[float, float], powers: Floats, *, side: int, rate: float = 1.0
) -> Floats:
    """`log_mean_excess` with P-mass at ∞ and Q-mass where X, before it was sampled, was 0: the two `ends`."""
    value = log_mean_excess(weights, losses, powers)
    infinite, at_zero = ends
    if at_zero > 0 and side <= 0:
        value = np.logaddexp(value, np.log(at_zero) + _excess_at_zero(powers, rate))
    if infinite > 0 and side >= 0:  # f_β(x)/x tends to infinity for β > 1 and to -β for β < 0
        log_slope = np.log(np.maximum(-powers, FAINT))
        value = np.where(powers > 1, np.inf, np.logaddexp(value, np.log(infinite) + log_slope))
    return np.asarray(value)


def _excess_at_zero(powers: Floats, rate: float) -> Floats:
    """log f_β(1 - q): infinite for β < 0 if nothing else is mixed in."""
    if rate == 1.0:
        return np.where(powers > 1, np.log(np.maximum(powers - 1, FAINT)), np.inf)
    return log_mean_excess(np.ones(1), np.log1p(-np.array([rate])), powers)


def mixed_losses(losses: Floats, rate: float) -> Floats:
    """log(1 - q + q e^l) without cancellation near 0 or overflow far above."""
    if rate == 1.0:
        return losses
    near = np.log1p(rate * np.expm1(np.minimum(losses, 600.0)))
    return np.where(losses > 600.0, np.logaddexp(np.log1p(-rate), losses + np.log(rate)), near)


def _edges(low: float, high: float) -> Floats:
    """From end to end: even steps, and steps that shrink towards both ends and towards 0."""
    width = high - low
    fine: Floats = width * np.geomspace(1e-5, 0.5, _FINE)
    edges = np.concatenate((np.linspace(low, high, _EVEN), low + fine, high - fine, -fine, [0.0], fine))
    edges = np.unique(edges[(edges >= low) & (edges <= high)])
    far_enough = np.append(np.diff(edges) > 1e-9 * width, True)
    far_enough[0] = True
    return np.asarray(edges[far_enough])
