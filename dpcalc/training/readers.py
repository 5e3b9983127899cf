"""Files as arrays: IDX folders, .npz archives and .csv tables, with errors that say what is wrong and where."""

from __future__ import annotations

import csv
import gzip
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError

_NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
_IDX_NAMES = ("train-images", "train-labels", "t10k-images", "t10k-labels")
_UNSIGNED_BYTES = 0x08


def read_idx_folder(folder: Path) -> list[NDArray[Any]]:
    """Training images and labels, test images and labels of a folder laid out like MNIST, plain or gzipped."""
    return [_read_idx(_find_idx(folder, name)) for name in _IDX_NAMES]


def _find_idx(folder: Path, name: str) -> Path:
    dimensions = 3 if name.endswith("images") else 1
    for dot in ("-", "."):
        for ending in ("", ".gz"):
            path = folder / f"{name}{dot}idx{dimensions}-ubyte{ending}"
            if path.is_file():
                return path
    raise InputError(f"expected a file {name}-idx{dimensions}-ubyte or its .gz, found none.", where=str(folder))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read: {error}.", where=str(path)) from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES:
        raise InputError("not an IDX file of unsigned bytes.", where=str(path))
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise InputError("truncated in its header.", where=str(path))
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    wanted = int(np.prod(shape, dtype=np.int64))
    if len(content) - start != wanted:
        found = len(content) - start
        raise InputError(f"expected {wanted} bytes of data for shape {shape}, found {found}.", where=str(path))
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_npz(path: Path) -> list[NDArray[Any]]:
    """The arrays x_train, y_train, x_test, y_test of an archive; nothing in it is ever unpickled."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in _NPZ_KEYS if key not in archive.files]
            if missing:
                raise InputError(
                    f"expected arrays {', '.join(_NPZ_KEYS)}; missing {', '.join(missing)}.", where=str(path)
                )
            return [np.asarray(archive[key]) for key in _NPZ_KEYS]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"not a readable .npz archive: {error}.", where=str(path)) from None


def read_csv(path: Path) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Features and labels of a table whose header names a `label` column; every other column is a number."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return read_csv_lines(str(path), file)
    except OSError as error:
        raise InputError(f"cannot read: {error}.", where=str(path)) from None


def read_csv_lines(name: str, lines: Iterable[str]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The same from lines that are already open."""
    try:
        rows = csv.reader(lines)
        header = next(rows, None)
        if header is None or "label" not in header:
            raise InputError(f"expected a header with a column named label, found {header}.", where=f"{name}:1")
        records = [(rows.line_num, row) for row in rows if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read: {error}.", where=name) from None
    column = header.index("label")
    x, labels = np.empty((len(records), len(header) - 1)), np.empty(len(records))
    for index, (line, row) in enumerate(records):
        if len(row) != len(header):
            raise InputError(f"expected {len(header)} values, found {len(row)}.", where=f"{name}:{line}")
        try:
            x[index] = [float(value) for value in row[:column] + row[column + 1 :]]
            labels[index] = float(row[column])
        except ValueError as error:
            raise InputError(f"expected numbers, and labels 0, 1, 2, …: {error}.", where=f"{name}:{line}") from None
    return x, labels
