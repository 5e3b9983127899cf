"""A public task with several labels a record, in place of MIMIC-III: digits of MNIST laid over one another.

A record is one to three images of MNIST, each used once, as the brightest of their pixels. Its labels are which of the
digits 1 to 9 are in it; a record of zeros only has none, as a patient without a diagnosis.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpcalc.training.data import Dataset
from dpcalc.training.labels import packed
from dpcalc.training.tiles import as_aligned

MOST = 3
LABELS = tuple(range(1, 10))


def overlaid(data: Dataset, records: int | None = None, seed: int = 0) -> Dataset:
    """Records of the images of `data`; at most `records` to train on, and a quarter as many to test."""
    generator = np.random.default_rng(seed)
    train = _overlaid(data.x_train, data.y_train, generator)
    test = _overlaid(data.x_test, data.y_test, generator)
    if records is not None:
        train, test = [part[:records] for part in train], [part[: max(1, records // 4)] for part in test]
    return replace(
        data,
        name=f"{data.name}, laid over one another",
        x_train=as_aligned(train[0]),
        y_train=packed(train[1]),
        x_test=as_aligned(test[0]),
        y_test=packed(test[1]),
        classes=len(LABELS),
        multilabel=True,
    )


def _overlaid(x: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    sizes = generator.integers(1, MOST + 1, len(x))
    ends = np.cumsum(sizes)
    starts = np.concatenate([[0], ends[:-1]])[ends <= len(x)]
    order = generator.permutation(len(x))[: ends[len(starts) - 1]]
    images = np.maximum.reduceat(x[order], starts, axis=0)
    there = np.maximum.reduceat(y[order][:, None] == np.array(LABELS), starts, axis=0)
    return [images, there.astype(np.int64)]
