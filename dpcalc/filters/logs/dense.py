"""Arrays (steps × individuals) in .npy and .npz files, read in blocks of steps."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files import reading
from dpcalc.files.archive import read_header
from dpcalc.files.reader import check_size, size_of
from dpcalc.filters.logs.source import Source

Block = tuple[int, NDArray[np.floating]]

_ENTRIES = 4_000_000
_MAPPED_ROWS = 32  # what is mapped takes no memory: wide arrays in blocks of so many rows


@dataclass(frozen=True)
class DenseLog:
    """An array of values, step by step."""

    source: Source
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    _read: Callable[[], Iterator[NDArray[Any]]]

    def blocks(self) -> Iterator[Block]:
        """The first row's number and the rows of each block, checked to be finite and not negative."""
        row = 0
        for raw in self._read():
            block = np.asarray(raw) if raw.dtype.kind == "f" else raw.astype(np.float64)
            if not _plainly_fine(block) and not np.all((block >= 0) & (block < np.inf)):
                bad = np.argwhere(~((block >= 0) & (block < np.inf)))[0]
                found = block[bad[0], bad[1]]
                place = f"{self.source.name}: step {row + bad[0]}, individual {bad[1]}"
                raise InputError(f"expected a number in [0, inf), got {found}", where=place)
            yield row, block
            row += len(block)


def _plainly_fine(block: NDArray[np.floating]) -> bool:
    """Whether all numbers are finite and not negative, by one pass over their bits; false for -0 and odd layouts."""
    if block.itemsize not in (4, 8) or not block.flags.c_contiguous or not block.dtype.isnative:
        return False
    bits, infinity = (np.uint32, 0x7F800000) if block.itemsize == 4 else (np.uint64, 0x7FF0000000000000)
    return bool(block.view(bits).max(initial=0) < infinity)


def open_dense(source: Source) -> DenseLog:
    """The array of a .npy file (memory-mapped) or a .npz file (streamed); a list counts as one individual."""
    with reading(source.name, "not a complete array of numbers"):
        if source.format == "npz":
            return _npz(source)
        if source.compressed:
            return _streamed(source, source.open, None)
        with source.open() as stream:
            stored, _, dtype = read_header(stream)
        shape = _checked_shape(stored, dtype, source)
        matrix = np.load(source.path, mmap_mode="r", allow_pickle=False).reshape(shape)

    def read() -> Iterator[NDArray[Any]]:
        rows = max(_rows(shape), min(_MAPPED_ROWS, 16 * _ENTRIES // shape[1]))
        for start in range(0, shape[0], rows):
            yield matrix[start : start + rows]

    return DenseLog(source, shape, dtype, read)


def _npz(source: Source) -> DenseLog:
    with source.open() as stream, zipfile.ZipFile(stream) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist() if entry.filename.endswith(".npy")}
    names = [name.removesuffix(".npy") for name in sizes]
    wanted = "norms" if "norms" in names or not names else names[0]
    if len(names) != 1 and "norms" not in names:
        found = ", ".join(names)[:80] or "none"
        raise InputError(f"expected one array, or one that is called norms, got {found}", where=source.name)

    @contextmanager
    def member() -> Iterator[Any]:
        with source.open() as stream, zipfile.ZipFile(stream) as archive, archive.open(f"{wanted}.npy") as array:
            yield array

    return _streamed(source, member, sizes[f"{wanted}.npy"])


def _streamed(source: Source, opener: Callable[[], Any], size: int | None) -> DenseLog:
    """`size` is what the archive says that the array has, its header included."""
    with opener() as stream:
        stored, fortran, dtype = read_header(stream)
        held = None if size is None else size - stream.tell()
    if fortran and len(stored) == 2 and min(stored) > 1:
        raise InputError(
            "a compressed array must be stored by rows (C order); save it with order='C'", where=source.name
        )
    shape = _checked_shape(stored, dtype, source)
    announced = shape[0] * shape[1] * dtype.itemsize
    check_size(announced, max(source.limit, size_of(source.path)), what="the array", where=source.name)
    if held is not None and held != announced:
        raise InputError(f"cut short: {announced} bytes of data announced, {held} there", where=source.name)

    def read() -> Iterator[NDArray[Any]]:
        with opener() as stream:
            read_header(stream)
            for start in range(0, shape[0], _rows(shape)):
                rows = min(_rows(shape), shape[0] - start)
                wanted = rows * shape[1] * dtype.itemsize
                with reading(source.name, f"cut short at step {start}"):
                    data = stream.read(wanted)
                if len(data) < wanted:
                    raise InputError(f"cut short: {shape[0]} steps announced, step {start} missing", where=source.name)
                yield np.frombuffer(data, dtype=dtype).reshape(rows, shape[1])

    return DenseLog(source, shape, dtype, read)


def _checked_shape(shape: tuple[int, ...], dtype: np.dtype[Any], source: Source) -> tuple[int, int]:
    if dtype.kind not in "fiu":
        raise InputError(f"expected an array of numbers, got {dtype}", where=source.name)
    if len(shape) == 1:
        shape = (shape[0], 1)
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"expected an array (steps × individuals), got shape {str(shape)[:60]}", where=source.name)
    source.check_memory(people=shape[1], steps=shape[0])
    return shape


def _rows(shape: tuple[int, int]) -> int:
    return max(1, min(65_536, _ENTRIES // shape[1]))
