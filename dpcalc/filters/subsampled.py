"""RDP of Poisson-subsampled Gaussian steps for millions of norms at once: an interpolated upper bound.

A record whose norm is v under noise σ behaves like noise multiplier σ/v. Its RDP, divided by u = (v/σ)², is smooth and
positive in u, so its logarithm is interpolated by Chebyshev polynomials piece by piece; the error of each piece is
measured off the nodes, multiplied by a safety factor and added. RDP of the remove direction dominates that of the add
direction (Mironov, Talwar, Zhang 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from dpcalc.arrays import Floats
from dpcalc.filters.pieces import Pieces, coefficients
from dpcalc.pairs.subsampled_gaussian import log_mgf

_PIECES = Pieces(first=0.25, ratio=4.0)
_DEGREES = (8, 12, 16, 24, 48, 96, 192)
_WANTED = 1e-10
_SAFETY = 4.0
# Relative accuracy of the transform itself, with a margin.
_TRANSFORM = 1e-11


@dataclass(frozen=True, kw_only=True)
class SubsampledRenyi:
    """Upper bounds on the RDP of a subsampled Gaussian step at some orders, as a function of u = (norm/σ)²."""

    orders: tuple[float, ...]
    sampling_rate: float

    def rdp(self, squares: Floats) -> Floats:
        """RDP at each order (the new first axis) for each u; 0 where u = 0."""
        result = np.zeros((len(self.orders), *squares.shape))
        smallest, largest = float(squares.min(initial=np.inf)), float(squares.max(initial=0.0))
        for piece in range(_PIECES.count(largest)):
            low, high = _PIECES.range(piece)
            whole = smallest > low and largest <= high
            chosen = slice(None) if whole else (squares > low) & (squares <= high)
            inside = squares[chosen]
            if not inside.size:
                continue
            position = _PIECES.to_unit(inside, piece)
            for row, order in enumerate(self.orders):
                polynomial, margin = _log_slope(order, self.sampling_rate, piece)
                result[row][chosen] = inside * np.exp(chebyshev.chebval(position, polynomial) + margin)
        return result


def gaussian_rdp(orders: Floats, noise_multiplier: float, sampling_rate: float) -> Floats:
    """RDP of one subsampled Gaussian step at each order, without interpolation."""
    moments: Floats = log_mgf(orders - 1, np.array([noise_multiplier]), sampling_rate, "remove")[0] / (orders - 1)
    return moments


@lru_cache(maxsize=4096)
def _log_slope(order: float, sampling_rate: float, piece: int) -> tuple[Floats, float]:
    """Chebyshev coefficients of log(RDP/u) on a piece, and the margin that makes it an upper bound."""
    for degree in _DEGREES:
        nodes, between = _PIECES.nodes(piece, degree + 1), _PIECES.nodes(piece, 2 * degree + 1)
        truth = _exact_log_slope(order, sampling_rate, np.concatenate([nodes, between]))
        found = coefficients(truth[: nodes.size])
        error = float(np.abs(chebyshev.chebval(_PIECES.to_unit(between, piece), found) - truth[nodes.size :]).max())
        if error < _WANTED:
            break
    return found, _SAFETY * error + _TRANSFORM


def _exact_log_slope(order: float, sampling_rate: float, squares: Floats) -> Floats:
    moments = log_mgf(np.array([order - 1.0]), 1 / np.sqrt(squares), sampling_rate, "remove")[:, 0]
    slopes: Floats = np.log(moments / ((order - 1) * squares))
    return slopes
