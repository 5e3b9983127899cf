"""A log file: where its bytes are, how they are compressed, and which format they hold."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from dpcalc.errors import InputError
from dpcalc.files.reader import LIMIT, STANDARD_STREAM, Unpacked, check_size, reading, rereadable, size_of

Format = Literal["npy", "npz", "csv", "jsonl", "parquet"]

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}

# What a filter keeps of a person, with a name, and of a step; and how much more than a log, unpacked, that may be.
_PERSON, _STEP = 100, 32
_FACTOR = 16


@dataclass(frozen=True)
class Source:
    """A log that can be read more than once; `name` is what messages call it, `limit` what it may take in memory."""

    name: str
    path: Path
    format: Format
    compressed: bool
    limit: int = LIMIT

    def open(self) -> BinaryIO:
        """The bytes of the log, unpacked, but not without end."""
        return _open(self.path, self.name, self.limit)

    def files(self) -> list[Path]:
        """The Parquet files of a data set, in order; the file itself otherwise."""
        return sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]

    def check_memory(self, *, people: int, steps: int) -> None:
        """Raise if so many people and steps are more than a log of this size may come with."""
        needed = _PERSON * people + _STEP * steps
        if needed > self.limit:
            what = f"a log of {people:,} individuals and {steps:,} steps"
            earned = 0 if self.compressed or self.format == "npz" else _FACTOR * size_of(self.path)
            check_size(needed, max(self.limit, earned), what=what, where=self.name)


@contextmanager
def open_source(name: str, *, limit: int = LIMIT) -> Iterator[Source]:
    """The log called `name`; standard input (`-`) and other streams are kept in a temporary file while it is read."""
    with rereadable(name, limit=limit, what="a log from a stream") as path:
        yield _described("standard input" if name == STANDARD_STREAM else name, path, limit)


def _described(name: str, path: Path, limit: int) -> Source:
    if path.is_dir():
        if not any(path.rglob("*.parquet")):
            raise InputError("expected a log, or a folder of .parquet files, got a folder without any", where=name)
        return Source(name, path, "parquet", False, limit)
    with reading(name, "damaged or cut short"):
        with path.open("rb") as stream:
            magic = stream.read(6)
        with _open(path, name, limit) as stream:
            head = stream.read(4096)
    compressed = any(magic.startswith(start) for start in _OPENERS)
    return Source(name, path, _format(head, name), compressed, limit)


def _open(path: Path, name: str, limit: int) -> BinaryIO:
    with path.open("rb") as stream:
        magic = stream.read(6)
    for start, opener in _OPENERS.items():
        if magic.startswith(start):
            unpacked = Unpacked(cast(BinaryIO, opener(path, "rb")), path, name=name, limit=limit)
            return cast(BinaryIO, io.BufferedReader(unpacked, 1 << 16))
    return path.open("rb")


def _format(head: bytes, name: str) -> Format:
    """By content, so that a wrong or missing file extension does no harm."""
    if not head.strip():
        raise InputError("the log is empty", where=name)
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK"):
        return "npz"
    if head.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if head.lstrip().startswith(b"{") else "csv"
