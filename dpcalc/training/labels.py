"""Records with several labels at once: their label sets as one number each, and how well scores rank them.

A label set is an integer whose bit j says whether label j is there, so that a record has one number to carry, with one
label or with many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.tiles import Array

MOST_LABELS = 62


def packed(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The label sets of rows of 0 and 1."""
    if not 1 <= labels.shape[1] <= MOST_LABELS:
        raise InputError(f"expected 1 to {MOST_LABELS} labels a record, got {labels.shape[1]}.")
    wrong = np.argwhere((labels != 0) & (labels != 1))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(f"label {column} of record {row} is {labels[row, column]:g}; expected 0 or 1.")
    found: NDArray[np.int64] = labels.astype(np.int64) @ _bits(labels.shape[1])
    return found


def unpacked(sets: NDArray[np.int64], labels: int) -> NDArray[np.bool_]:
    """A row of bits for each label set."""
    found: NDArray[np.bool_] = (sets[:, None] & _bits(labels)) != 0
    return found


def _bits(labels: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.left_shift(np.int64(1), np.arange(labels, dtype=np.int64))
    return found


def macro_auc(scores: Array, sets: NDArray[np.int64]) -> float:
    """The mean over labels of the area under the ROC curve: the chance that a record with the label scores higher than
    one without it, ties counting half. Labels that all records have, or none, do not count; ½ if no label does.
    """
    there = unpacked(sets, scores.shape[1])
    found = [_auc(column, has) for column, has in zip(scores.T, there.T, strict=True) if 0 < has.sum() < len(has)]
    return float(np.mean(found)) if found else 0.5


def _auc(scores: Array, has: NDArray[np.bool_]) -> float:
    """Mann and Whitney's statistic, by mean ranks; a score that is no number ranks as the lowest."""
    values = np.where(np.isnan(scores), -np.inf, scores)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2
    positives = int(has.sum())
    above = float(ranks[place][has].sum()) - positives * (positives + 1) / 2
    return above / (positives * (len(has) - positives))
