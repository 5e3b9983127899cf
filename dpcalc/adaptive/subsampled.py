"""RDP of Poisson-subsampled Gaussian steps for millions of norms at once: an interpolated upper bound.

A record whose norm is v under noise σ behaves like noise multiplier σ/v. Its RDP, divided by u = (v/σ)², is smooth and
positive in u, so its logarithm is interpolated by Chebyshev polynomials on dyadic pieces; the error of each piece is
measured off the nodes, multiplied by a safety factor and added. RDP of the remove direction dominates that of the add
direction (Mironov, Talwar, Zhang 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from dpcalc.accounting.subsampled_gaussian import log_mgf

Floats = NDArray[np.float64]

_PIECES_BELOW_ONE = 11
_FIRST_EDGE = 2.0**-_PIECES_BELOW_ONE
_DEGREES = (12, 24, 48, 96, 192)
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
        for piece in range(piece_edges(largest).size if largest > 0 else 0):
            low, high = piece_range(piece)
            whole = smallest > low and largest <= high
            chosen = slice(None) if whole else (squares > low) & (squares <= high)
            inside = squares[chosen]
            if not inside.size:
                continue
            position = to_unit(inside, piece)
            for row, order in enumerate(self.orders):
                coefficients, margin = _log_slope(order, self.sampling_rate, piece)
                result[row][chosen] = inside * np.exp(chebyshev.chebval(position, coefficients) + margin)
        return result


def gaussian_rdp(orders: Floats, noise_multiplier: float, sampling_rate: float) -> Floats:
    """RDP of one subsampled Gaussian step at each order, without interpolation."""
    moments: Floats = log_mgf(orders - 1, np.array([noise_multiplier]), sampling_rate, "remove")[0] / (orders - 1)
    return moments


def piece_edges(largest: float) -> Floats:
    """Upper edges of the pieces of u that reach `largest`: 2^-11, 2^-10, …"""
    edges = [_FIRST_EDGE]
    while edges[-1] < largest:
        edges.append(2 * edges[-1])
    return np.array(edges)


def to_unit(squares: Floats, piece: int) -> Floats:
    """The place of u within its piece, from -1 to 1."""
    low, high = piece_range(piece)
    return (2 * squares - (low + high)) / (high - low)


def locate(squares: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The piece of each u and its place there; an edge belongs to the piece below it."""
    mantissas, exponents = np.frexp(squares)
    edge = mantissas == 0.5
    pieces = exponents.astype(np.int64) + _PIECES_BELOW_ONE - edge
    inside: Floats = np.where(pieces > 0, np.where(edge, 1.0, 4 * mantissas - 3), 2 * squares / _FIRST_EDGE - 1)
    return np.maximum(pieces, 0), inside


def piece_range(piece: int) -> tuple[float, float]:
    """The values of u that a piece covers."""
    high = _FIRST_EDGE * 2.0**piece
    return (high / 2 if piece else 0.0), high


def piece_nodes(piece: int, count: int) -> Floats:
    """Chebyshev nodes of a piece."""
    low, high = piece_range(piece)
    nodes: Floats = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return nodes


def node_coefficients(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Chebyshev coefficients from the values at `piece_nodes`, along the first axis."""
    count = values.shape[0]
    angles = np.pi * (np.arange(count) + 0.5) / count
    transform = np.cos(np.outer(np.arange(count), angles)) * (2 / count)
    transform[0] /= 2
    coefficients: NDArray[np.generic] = transform @ values
    return coefficients


@lru_cache(maxsize=4096)
def _log_slope(order: float, sampling_rate: float, piece: int) -> tuple[Floats, float]:
    """Chebyshev coefficients of log(RDP/u) on a piece, and the margin that makes it an upper bound."""
    for degree in _DEGREES:
        nodes, between = piece_nodes(piece, degree + 1), piece_nodes(piece, 2 * degree + 1)
        truth = _exact_log_slope(order, sampling_rate, np.concatenate([nodes, between]))
        coefficients = np.asarray(node_coefficients(truth[: nodes.size]), dtype=np.float64)
        error = float(np.abs(chebyshev.chebval(to_unit(between, piece), coefficients) - truth[nodes.size :]).max())
        if error < _WANTED:
            break
    return coefficients, _SAFETY * error + _TRANSFORM


def _exact_log_slope(order: float, sampling_rate: float, squares: Floats) -> Floats:
    moments = log_mgf(np.array([order - 1.0]), 1 / np.sqrt(squares), sampling_rate, "remove")[:, 0]
    slopes: Floats = np.log(moments / ((order - 1) * squares))
    return slopes
