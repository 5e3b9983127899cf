"""Files as arrays: IDX folders, .npz archives and .csv tables, with errors that say what is wrong and where."""

from __future__ import annotations

import csv
import gzip
import math
import struct
from array import array
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files.archive import read_arrays
from dpcalc.files.reader import LIMIT, STANDARD_STREAM, Unpacked, check_size, opened, reading, text_lines
from dpcalc.numbers import BLANKS, parse_number

_NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
_IDX_NAMES = ("train-images", "train-labels", "t10k-images", "t10k-labels")
_UNSIGNED_BYTES = 0x08

# A byte of a file becomes up to so many bytes of features. What it is packed to earns it nothing: that may be tiny.
_WIDENED = 8
# A value of a table while it is read, and as a feature.
_VALUE = 12


def read_idx_folder(folder: Path, *, limit: int = LIMIT) -> list[NDArray[Any]]:
    """Training images and labels, test images and labels of a folder laid out like MNIST, plain or gzipped."""
    return [_read_idx(_find_idx(folder, name), limit) for name in _IDX_NAMES]


def _find_idx(folder: Path, name: str) -> Path:
    dimensions = 3 if name.endswith("images") else 1
    for dot in ("-", "."):
        for ending in ("", ".gz"):
            path = folder / f"{name}{dot}idx{dimensions}-ubyte{ending}"
            if path.is_file():
                return path
    raise InputError(f"expected a file {name}-idx{dimensions}-ubyte or its .gz, found none.", where=str(folder))


def _read_idx(path: Path, limit: int) -> NDArray[np.uint8]:
    where = str(path)
    with reading(where, "damaged or cut short"), path.open("rb") as file:
        stream: BinaryIO = file
        if path.suffix == ".gz":
            stream = cast(
                BinaryIO, Unpacked(cast(BinaryIO, gzip.GzipFile(fileobj=file)), path, name=where, limit=limit)
            )
        magic = stream.read(4)
        if len(magic) < 4 or magic[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
            raise InputError("not an IDX file of unsigned bytes.", where=where)
        dimensions = 3 if "idx3" in path.name else 1
        if magic[3] != dimensions:
            raise InputError(f"expected {dimensions} dimensions, found {magic[3]}.", where=where)
        shape = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
        wanted = math.prod(shape)
        most = max(limit, _WIDENED * path.stat().st_size)
        check_size(_WIDENED * wanted, most, what="its data", where=where)
        content = _read_all(stream, wanted + 1)
        if len(content) != wanted:
            found = f"{len(content)}" if len(content) < wanted else "more"
            raise InputError(f"expected {wanted} bytes of data for shape {shape}, found {found}.", where=where)
        return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _read_all(stream: BinaryIO, most: int) -> bytes:
    pieces = []
    while most > 0 and (piece := stream.read(min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def read_npz(path: Path, *, limit: int = LIMIT) -> list[NDArray[Any]]:
    """The arrays x_train, y_train, x_test, y_test of an archive; nothing in it is ever unpickled."""
    most = max(limit // _WIDENED, path.stat().st_size)
    arrays = read_arrays(str(path), what="a readable .npz archive", wanted=_NPZ_KEYS, limit=most)
    return [arrays[key] for key in _NPZ_KEYS]


def read_csv(path: str, *, limit: int = LIMIT) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Features and labels of a table whose header names a `label` column; every other column is a number.

    `-` is standard input. A table takes memory in proportion to its text; a stream has none beforehand, so it is
    held to the limit.
    """
    name = "standard input" if path == STANDARD_STREAM else path
    size = Path(path).stat().st_size if path != STANDARD_STREAM and Path(path).is_file() else 0
    values, labels = array("d"), array("d")
    with reading(name), opened(path) as stream:
        rows = csv.reader(text_lines(stream, name))
        header = next(rows, [])
        if header.count("label") != 1:
            found = ",".join(header)[:80] or "nothing"
            raise InputError(f"expected a header with a column named label, found {found}.", where=f"{name}:1")
        column = header.index("label")
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                words = f"expected {len(header)} values, found {len(row)}."
                raise InputError(words, where=f"{name}:{rows.line_num}")
            numbers = _numbers(row, f"{name}:{rows.line_num}")
            labels.append(numbers.pop(column))
            values.extend(numbers)
            check_size(_VALUE * len(values), max(limit, _VALUE * size), what="the table", where=name)
    x = np.frombuffer(values, dtype=np.float64) if values else np.empty(0)
    return x.reshape(len(labels), len(header) - 1), np.array(labels)


def _numbers(row: list[str], where: str) -> list[float]:
    together = "".join(row)
    if together.isascii() and together.isprintable() and "_" not in together:
        try:
            return list(map(float, row))
        except ValueError:
            pass
    try:
        return [parse_number(text.strip(BLANKS)) for text in row]
    except ValueError as error:
        raise InputError(f"expected numbers, and labels 0, 1, 2, …: {error}.", where=where) from None
