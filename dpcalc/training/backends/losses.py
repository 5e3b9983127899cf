"""Losses of class scores beside the cross-entropy: each record's loss, and its derivative in the scores.

With two classes a loss is a function φ of u = (s₁ − s₀)/√2 and a sign y = ±1; with more there is one φ for each class,
y = 1 for the own and −1 for the rest. Every number of a record is computed from that record alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dpcalc.last_iterate.losses import LossName
from dpcalc.training.tiles import Array

# Scores u and signs y of the same shape: φ and φ′ of each.
_Piece: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]


def _logistic(u: Array, y: Array) -> tuple[Array, Array]:
    margins = y * u
    tails = np.exp(-np.abs(margins))
    losses = np.maximum(-margins, 0) + np.log1p(tails)
    return losses, -y * np.where(margins > 0, tails, 1) / (1 + tails)


def _squared(u: Array, y: Array) -> tuple[Array, Array]:
    gaps = u - y
    return gaps * gaps / 2, gaps


def _huber(u: Array, y: Array) -> tuple[Array, Array]:
    gaps = u - y
    held = np.clip(gaps, -1, 1)
    return held * (gaps - held / 2), held


def _smoothed_hinge(u: Array, y: Array) -> tuple[Array, Array]:
    gaps = 1 - y * u
    held = np.clip(gaps, 0, 1)
    return held * (gaps - held / 2), -y * held


_PIECES: dict[LossName, _Piece] = {
    "logistic": _logistic,
    "squared": _squared,
    "huber": _huber,
    "smoothed-hinge": _smoothed_hinge,
}


def losses_and_signals(loss: LossName, scores: Array, y: Array, signal: Array) -> Array:
    """Each record's loss; `signal` is given its derivative in the scores."""
    piece = _PIECES[loss]
    if scores.shape[1] == 2:
        half = scores.dtype.type(math.sqrt(0.5))
        losses, slopes = piece((scores[:, 1] - scores[:, 0]) * half, (2 * y - 1).astype(scores.dtype))
        signal[:, 1] = slopes * half
        signal[:, 0] = -signal[:, 1]
        return losses
    signs = np.full(scores.shape, -1, dtype=scores.dtype)
    signs[np.arange(len(y)), y] = 1
    found, signal[...] = piece(scores, signs)
    return np.asarray(found.sum(axis=1))
