"""A log file: where its bytes are, how they are compressed, and which format they hold."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from dpcalc.errors import InputError

Format = Literal["npy", "npz", "csv", "jsonl", "parquet"]

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


@dataclass(frozen=True)
class Source:
    """A log that can be read more than once; `name` is what messages call it."""

    name: str
    path: Path
    format: Format
    compressed: bool

    def open(self) -> BinaryIO:
        """The bytes of the log, uncompressed."""
        return _open(self.path)

    def files(self) -> list[Path]:
        """The Parquet files of a data set, in order; the file itself otherwise."""
        return sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]


@contextmanager
def open_source(name: str) -> Iterator[Source]:
    """The log called `name`; `-` is standard input, kept in a temporary file while it is read."""
    if name != "-":
        yield _described(name, Path(name))
        return
    with tempfile.NamedTemporaryFile(prefix="dpcalc-stdin-") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        yield _described("standard input", Path(spool.name))


def _described(name: str, path: Path) -> Source:
    if path.is_dir():
        if not any(path.rglob("*.parquet")):
            raise InputError("expected a log, or a folder of .parquet files, got a folder without any", where=name)
        return Source(name, path, "parquet", False)
    with path.open("rb") as stream:
        magic = stream.read(6)
    compressed = any(magic.startswith(start) for start in _OPENERS)
    try:
        with _open(path) as stream:
            head = stream.read(4096)
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"the compressed file is damaged or cut short ({error})", where=name) from None
    return Source(name, path, _format(head, name), compressed)


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        magic = stream.read(6)
    for start, opener in _OPENERS.items():
        if magic.startswith(start):
            return cast(BinaryIO, opener(path, "rb"))
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
