"""Reading what others wrote: sizes before bytes, and whatever a library says about it as one short error.

A small file takes little memory, whatever it claims: what is read as a whole has a limit, what is unpacked may not grow
without end, and a line has a longest length.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from dpcalc.errors import DpcalcError, InputError

STANDARD_STREAM = "-"

# What a file may take in memory, or be unpacked to, unless it is larger itself; --read-limit raises it.
LIMIT = 500_000_000
_RAISED = "; `read_limit` raises that"
_PIECE = 1 << 20
LONGEST_LINE = 1 << 20
_MOST_EMPTY = 1000
_LONGEST_REASON = 120


# -- failures --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(where: str, what: str = "cannot be read") -> Iterator[None]:
    """Turn what any library raises about the content of a file into an InputError that names the place."""
    try:
        yield
    except Exception as error:
        if not is_damage(error):
            raise
        raise InputError(f"{what} ({reason(error)})", where=_shown(where)) from None


def is_damage(error: Exception) -> bool:
    """Whether an exception is a library's way to say that what it reads is not right, and no mistake of ours."""
    if isinstance(error, DpcalcError):
        return False
    return isinstance(error, _kinds()) or type(error).__module__.partition(".")[0] == "pyarrow"


def _kinds() -> tuple[type[Exception], ...]:
    import csv
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    return (
        OSError,
        EOFError,
        ValueError,
        ArithmeticError,
        LookupError,
        TypeError,
        SyntaxError,
        RuntimeError,  # also RecursionError and NotImplementedError: archives with passwords or unknown methods
        MemoryError,
        Warning,
        csv.Error,
        lzma.LZMAError,
        struct.error,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zlib.error,
    )


def reason(error: BaseException) -> str:
    """What an exception says, in one short line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    first = str(text).strip().splitlines()[0] if str(text).strip() else type(error).__name__
    short = first if len(first) <= _LONGEST_REASON else f"{first[: _LONGEST_REASON - 3]}..."
    return short[:1].lower() + short[1:]


def _shown(where: str) -> str:
    return ascii(where)[1:-1] if "\0" in where else where


# -- sizes -----------------------------------------------------------------------------------------------------------


def check_size(size: int, limit: int, *, what: str, where: str) -> None:
    """Raise if something would take more memory than it may."""
    if size > limit:
        words = f"{what} would take {in_words(size)}, more than the {in_words(limit)} that it may{_RAISED}"
        raise InputError(words, where=where)


def in_words(count: int) -> str:
    """A number of bytes as people say it."""
    for unit, value in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= value:
            return f"{count / value:.3g} {unit}"
    return f"{count} bytes"


def read_bytes(path: str, *, limit: int, what: str) -> bytes:
    """The content of a file, or of standard input for `-`, if it is at most `limit` bytes; no more is ever read."""
    name = "standard input" if path == STANDARD_STREAM else path
    with reading(name), opened(path) as stream:
        data = b"".join(_pieces(stream, limit + 1))
    if len(data) > limit:
        raise InputError(f"larger than the {in_words(limit)} that {what} may have", where=name)
    return data


def read_text(path: str, *, limit: int, what: str) -> str:
    """The same as text: UTF-8, with or without a mark at its beginning, and no NUL."""
    name = "standard input" if path == STANDARD_STREAM else path
    data = read_bytes(path, limit=limit, what=what)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"not UTF-8 text (byte {error.start})", where=f"{name}:{line}") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InputError("not a text file (it holds a NUL character)", where=f"{name}:{line}")
    return text


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input for `-`; who is about to type it is told so."""
    if path == STANDARD_STREAM:
        if sys.stdin is None:
            raise InputError("is closed", where="standard input")
        if sys.stdin.isatty() and sys.stderr is not None:
            sys.stderr.write("reading standard input from the terminal; Ctrl-D ends it\n")
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as stream:
        if _place(stream.fileno()) in _OUTPUTS.get():
            raise InputError("is read and would be replaced; nothing was written", where=path)
        yield stream


# Files that are going to be replaced: which others a file includes is known only when it is read.
_OUTPUTS: ContextVar[frozenset[tuple[int, int]]] = ContextVar("outputs", default=frozenset())


@contextlib.contextmanager
def not_reading(paths: Iterable[str | None]) -> Iterator[None]:
    """While the block runs, none of these files is opened to be read."""
    places = {_place(path) for path in paths if path is not None and path != STANDARD_STREAM}
    token = _OUTPUTS.set(frozenset(place for place in places if place is not None))
    try:
        yield
    finally:
        _OUTPUTS.reset(token)


def _place(file: str | int) -> tuple[int, int] | None:
    """Device and number of a regular file, the same by whatever name."""
    try:
        found = os.fstat(file) if isinstance(file, int) else Path(file).stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _pieces(stream: BinaryIO, most: int) -> Iterator[bytes]:
    while most > 0:
        piece = stream.read(min(most, _PIECE))
        yield piece
        if len(piece) < min(most, _PIECE):  # the end, which a terminal would otherwise have to be told twice
            return
        most -= len(piece)


@contextlib.contextmanager
def rereadable(path: str, *, limit: int, what: str) -> Iterator[Path]:
    """A file that can be read more than once: the one at `path`, or a copy of what a stream has to say."""
    with reading(path):
        is_stream = path == STANDARD_STREAM or not _is_kept(path)
    if not is_stream:
        yield Path(path)
        return
    name = "standard input" if path == STANDARD_STREAM else path
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="dpcalc-") as spool:
        with reading(name), opened(path) as stream:
            size = sum(spool.write(piece) for piece in _pieces(stream, limit + 1))
            spool.flush()
        if size > limit:
            raise InputError(f"more than the {in_words(limit)} that {what} may have{_RAISED}", where=name)
        yield Path(spool.name)


def _is_kept(path: str) -> bool:
    mode = Path(path).stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


class Unpacked(io.RawIOBase):
    """What a decompressing stream gives, up to `limit` bytes or the size of its file.

    Whoever keeps more of it than a piece at a time has to check what that takes.
    """

    def __init__(self, stream: BinaryIO, path: Path, *, name: str, limit: int) -> None:
        super().__init__()
        self._stream, self._name = stream, name
        self._most = max(limit, path.stat().st_size)
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        piece = self._stream.read(len(view))
        self._done += len(piece)
        if self._done > self._most:
            raise InputError(f"unpacks to more than {in_words(self._most)}{_RAISED}", where=self._name)
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


def lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a stream with their numbers: none too long to hold, and not nothing for ever."""
    number = empty = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(f"longer than the {in_words(LONGEST_LINE)} that a line may have", where=f"{name}:{number}")
        empty = 0 if line.strip() else empty + 1
        if empty > _MOST_EMPTY:
            raise InputError(f"more than {_MOST_EMPTY} empty lines", where=f"{name}:{number}")
        yield number, line


def text_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """The same as text, which is UTF-8, with or without a mark at its beginning."""
    for number, line in lines(stream, name):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError("expected UTF-8 text, got other bytes", where=f"{name}:{number}") from None


def size_of(path: Path) -> int:
    """How many bytes a file, or all files of a folder, have on the disk."""
    if path.is_dir():
        return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    return path.stat().st_size
