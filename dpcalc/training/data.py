"""Data sets as arrays ready to train on: read, checked, and with every record's features within a norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files import LIMIT, STANDARD_STREAM, reading
from dpcalc.training.labels import packed
from dpcalc.training.readers import read_csv, read_idx_folder, read_npz
from dpcalc.training.tiles import aligned

SYNTHETIC = "synthetic"

_MOST_CLASSES = 10_000


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Training records, and test records that are nobody's secret; features are rows of float32.

    A record has one of `classes`, or, if `multilabel`, any of so many labels, as a set of bits (see `labels`).
    """

    name: str
    x_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    classes: int
    multilabel: bool = False

    @property
    def exclusive_classes(self) -> int:
        """How many classes there are of which a record has exactly one; none where it has labels."""
        return 0 if self.multilabel else self.classes

    @property
    def features(self) -> int:
        return int(self.x_train.shape[1])

    def __len__(self) -> int:
        return len(self.x_train)

    def with_features_clipped(self, norm: float) -> Dataset:
        """Each record's features scaled down to `norm` where they exceed it."""
        return replace(self, x_train=_within(self.x_train, norm), x_test=_within(self.x_test, norm))


def load(source: str, *, test: str | None = None, limit: int = LIMIT) -> Dataset:
    """The data set at `source`: a folder of IDX files, an .npz, a .csv (`-`: on standard input), or `synthetic`.

    `test` is a second .csv table to test on. Bytes become numbers in [0, 1]; other numbers are taken as they are. A
    file that is small on the disk may take `limit` bytes of memory.
    """
    path = Path(source)
    if test is not None and path.suffix != ".csv" and source != STANDARD_STREAM:
        raise InputError(f"`test_data` goes with a .csv table; {source} brings its own test records.")
    if source == SYNTHETIC:
        return synthetic()
    with reading(source):
        is_folder, is_there = path.is_dir(), source == STANDARD_STREAM or path.exists()
    if is_folder:
        return _checked(source, *read_idx_folder(path, limit=limit))
    if not is_there:
        raise InputError("no such file or folder.", where=source)
    if path.suffix == ".npz" and path.is_file():
        return _checked(source, *read_npz(path, limit=limit))
    if path.suffix == ".csv" or source == STANDARD_STREAM:
        x, y = read_csv(source, limit=limit)
        x_test, y_test = (x[:0], y[:0]) if test is None else read_csv(test, limit=limit)
        return _checked("standard input" if source == STANDARD_STREAM else source, x, y, x_test, y_test)
    raise InputError("expected a folder of IDX files, an .npz archive or a .csv table.", where=source)


def synthetic(records: int = 10_000, tests: int = 2_000, *, side: int = 16, classes: int = 10) -> Dataset:
    """A built-in task, always the same: small images of ten smooth shapes, shifted, scaled and noisy, in [0, 1]."""
    generator = np.random.default_rng(20_240_229)
    count = records + tests
    grid = np.arange(side)
    centres = generator.uniform(3, side - 4, (classes, 4, 2))
    rows, columns = (np.exp(-(((grid - centres[:, :, axis, None]) / 1.8) ** 2)) for axis in (0, 1))
    shapes = np.einsum("kbr,kbc->krc", rows, columns)
    y = generator.integers(0, classes, count)
    images = shapes[y] * generator.uniform(0.4, 1.0, (count, 1, 1))
    for axis in (1, 2):
        shifts = generator.integers(-1, 2, count)
        index = (grid + shifts[:, None]) % side
        images = np.take_along_axis(images, np.expand_dims(index, 3 - axis), axis=axis)
    x = np.clip(images + 0.3 * generator.standard_normal(images.shape), 0, 1)
    return _checked(SYNTHETIC, x[:records], y[:records], x[records:], y[records:])


def _checked(name: str, x_train: Any, y_train: Any, x_test: Any, y_test: Any) -> Dataset:
    if np.ndim(x_train) and len(x_train) == 0:
        raise InputError("there are no training records.", where=name)
    if np.ndim(y_train) == 2:
        return _checked_sets(name, x_train, y_train, x_test, y_test)
    train = _features(name, "training", x_train), _labels(name, "training", y_train)
    test = _features(name, "test", x_test), _labels(name, "test", y_test)
    _check_lengths(name, train, test)
    classes = int(train[1].max()) + 1
    if classes < 2:
        raise InputError("expected at least two classes, every training label is 0.", where=name)
    if classes > len(train[0]):
        raise InputError(f"label {classes - 1} is out of range for {len(train[0])} training records.", where=name)
    if test[1].max(initial=0) >= classes:
        raise InputError(
            f"test label {test[1].max()} is out of range: training labels end at {classes - 1}.", where=name
        )
    return Dataset(name=name, x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1], classes=classes)


def _checked_sets(name: str, x_train: Any, y_train: Any, x_test: Any, y_test: Any) -> Dataset:
    """Records with rows of labels, each 0 or 1."""
    if np.shape(y_test)[1:] != y_train.shape[1:]:
        raise InputError(f"training records have {y_train.shape[1]} labels, test records others.", where=name)
    try:
        train = _features(name, "training", x_train), packed(y_train)
        test = _features(name, "test", x_test), packed(y_test)
    except InputError as error:
        raise InputError(str(error), where=name) from None
    _check_lengths(name, train, test)
    return Dataset(
        name=name, x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1],
        classes=y_train.shape[1], multilabel=True,
    )  # fmt: skip


def _check_lengths(name: str, train: tuple[Any, Any], test: tuple[Any, Any]) -> None:
    for kind, (x, y) in (("training", train), ("test", test)):
        if len(x) != len(y):
            raise InputError(f"{len(x)} {kind} records but {len(y)} {kind} labels.", where=name)
    if len(test[0]) and test[0].shape[1] != train[0].shape[1]:
        raise InputError(
            f"training records have {train[0].shape[1]} features, test records {test[0].shape[1]}.", where=name
        )


def _features(name: str, kind: str, x: NDArray[Any]) -> NDArray[np.float32]:
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        raise InputError(f"expected {kind} records as rows of numbers, got shape {x.shape} of {x.dtype}.", where=name)
    scale = 255 if x.dtype == np.uint8 else 1
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    rows = aligned(flat.shape)
    with np.errstate(over="ignore"):
        rows[...] = flat
    rows /= np.float32(scale)
    if rows.shape[1] == 0:
        raise InputError(f"{kind} records have no features.", where=name)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        raise InputError(f"{kind} record {broken[0]} has a feature that is not a finite number.", where=name)
    return rows


def _labels(name: str, kind: str, y: NDArray[Any]) -> NDArray[np.int64]:
    if y.ndim != 1 or y.dtype.kind not in "fiub":
        raise InputError(f"expected one {kind} label a record, got shape {y.shape} of {y.dtype}.", where=name)
    wrong = np.flatnonzero(~((y >= 0) & (y < _MOST_CLASSES) & (np.floor(y) == y)))
    if len(wrong):
        raise InputError(
            f"{kind} label {y[wrong[0]]:g} of record {wrong[0]} is not one of 0, 1, …, {_MOST_CLASSES - 1}.", where=name
        )
    return y.astype(np.int64)


def _within(rows: NDArray[np.float32], norm: float) -> NDArray[np.float32]:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    # A hair below the norm, so that rounding to single precision cannot carry a record over it.
    scale = np.minimum(1, norm * (1 - 2.0**-20) / np.maximum(lengths, np.finfo(np.float64).tiny))
    clipped: NDArray[np.float32] = (rows * scale[:, None]).astype(np.float32)
    return clipped
