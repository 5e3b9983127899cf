"""The one writer of every file that dpcalc leaves behind.

A regular file is replaced as a whole or not at all: a temporary neighbour is written, flushed to the disk and moved
into place; the mode of an existing file is kept and symbolic links are followed. FIFOs and devices are written to as
they are. A killed process leaves at most a temporary neighbour behind, which the next write to the same name removes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from dpcalc.errors import BusyError, InputError, WriteError
from dpcalc.files.reader import STANDARD_STREAM, reason

PRIVATE, SHARED = 0o600, 0o666

_STANDARD = {"stdout": 1, "stderr": 2}
_DESCRIPTOR = re.compile(r"/dev/(?:(stdout|stderr)|fd/(\d{1,9}))|/proc/self/fd/(\d{1,9})", re.ASCII)

# What SQLite keeps beside a database: replaced, it takes what was last written with it.
_BESIDE = re.compile(r"(.*)-(?:wal|shm|journal)", re.DOTALL)


# -- before any work -------------------------------------------------------------------------------------------------


def check_paths(outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None]) -> None:
    """Raise unless every output can be written and is neither an input nor another output; nothing is touched.

    Both map the name of a field, as a message tells it, to its path; None and `-` (a standard stream) are passed over.
    """
    taken: dict[tuple[object, ...], str] = {}
    for field, path in inputs.items():
        if path is not None and str(path) != STANDARD_STREAM:
            taken.setdefault(_identity(str(path)), field)
    for field, number in (("standard input", 0), ("standard output", 1), ("standard error", 2)):
        with contextlib.suppress(OSError):  # closed
            taken.setdefault(_identity_of(os.fstat(number)), field)
    for field, path in outputs.items():
        if path is None or str(path) == STANDARD_STREAM:
            continue
        other = taken.setdefault(_identity(str(path)), field)
        if other != field and not _is_stream(_target(str(path))):
            raise InputError(f"{field} and {other} are the same file; nothing was written", where=str(path))
        target = _target(str(path))
        folder = taken.get(_identity(str(target.parent)))
        if folder in inputs and target.exists():
            raise InputError(f"{field} is a file of the folder of {folder}; nothing was written", where=str(path))
        beside = _BESIDE.fullmatch(str(target))
        if beside is not None and taken.get(_identity(beside[1])) in inputs:
            raise InputError("is a database's own file; nothing was written", where=str(path))
        check_writable(str(path))


def check_writable(path: str) -> None:
    """Raise unless a file can be put at `path`, before hours of work go into it."""
    target = _target(path)
    if target.is_dir():
        raise InputError("is a folder, not a file", where=path)
    if _descriptor(target) is not None and not target.exists():
        raise InputError("is not open", where=path)
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError("may not be written to", where=path)
    if _is_stream(target):
        return
    parent = target.parent
    if not parent.is_dir():
        raise InputError(f"there is no folder {str(parent)!r}", where=path)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"the folder {str(parent)!r} may not be written to", where=path)


def _identity(path: str) -> tuple[object, ...]:
    """The same for two names of one file, whether or not it exists yet."""
    target = _target(path)
    try:
        return _identity_of(target.stat())
    except OSError:
        return (str(target),)


def _identity_of(found: os.stat_result) -> tuple[object, ...]:
    return (found.st_dev, found.st_ino)


def _target(path: str) -> Path:
    """The file behind symbolic links; what is a stream by its own name, since a pipe has no other."""
    try:
        if _is_stream(Path(path)):
            return Path(path)
        target = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InputError(f"not a file name: {reason(error)}", where=ascii(path)[1:-1]) from None
    if target.is_symlink():
        raise InputError("its symbolic links lead in a circle", where=path)
    return target


def _is_stream(target: Path) -> bool:
    try:
        return _descriptor(target) is not None or not stat.S_ISREG(target.stat().st_mode)
    except OSError:
        return False


def _descriptor(target: Path) -> int | None:
    """The number of the open file that a name such as /dev/stdout stands for, whatever kind of file that is."""
    found = _DESCRIPTOR.fullmatch(str(target))
    return None if found is None else _STANDARD.get(found[1]) or int(found[2] or found[3])


# -- writing ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(path: str, *, mode: int = SHARED) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file at `path` when the block ends well, and is forgotten otherwise.

    A new file gets `mode` (less the umask); what derives from individuals is PRIVATE. An existing one keeps its own.
    """
    target = _target(path)
    try:
        with _direct(target) if _is_stream(target) else _replaced(target, mode) as stream:
            yield stream
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise WriteError(f"cannot be written: {reason(error)}", where=path) from None


def write_text(path: str, text: str, *, mode: int = SHARED) -> None:
    """Put a text into a file, whole or not at all."""
    with writing(path, mode=mode) as stream:
        stream.write(text.encode())


@contextlib.contextmanager
def _direct(target: Path) -> Iterator[BinaryIO]:
    """For a FIFO or a device: gathered first, since archives want to go back and a failure should send nothing."""
    import tempfile

    with tempfile.TemporaryFile() as gathered:
        yield gathered
        gathered.seek(0)
        number = _descriptor(target)
        # An open file goes on where it is: opened again, it would begin at its start.
        with target.open("wb") if number is None else os.fdopen(os.dup(number), "wb") as stream:
            shutil.copyfileobj(gathered, stream)


@contextlib.contextmanager
def _replaced(target: Path, mode: int) -> Iterator[BinaryIO]:
    _remove_leftovers(target)
    temporary = target.with_name(f".{_short(target.name)}.{_host()}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w+b") as stream:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable where the system lets folders be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _short(name: str) -> str:
    """Of a name as long as the file system allows, enough to be told apart with a few letters more."""
    data = name.encode(errors="surrogateescape")
    return name if len(data) <= 180 else f"{zlib.crc32(data):08x}"


def _host() -> str:
    import socket

    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes of this machine left beside the target."""
    pattern = re.compile(re.escape(f".{_short(target.name)}.{_host()}-") + r"(\d+)-[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            found = pattern.fullmatch(entry.name)
            if found is not None and not _is_running(int(found.group(1))):
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def growing(path: str, *, new: bool) -> Iterator[BinaryIO]:
    """A private file that is written in place, for what is taken up again after a kill: a new one, or one to go on."""
    target = _target(path)
    if _is_stream(target):
        raise InputError("what is taken up again must be a regular file", where=path)
    if not new and not target.exists():
        raise InputError("there is no such file to go on with", where=path)
    try:
        handle = os.open(target, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0), PRIVATE)
        with os.fdopen(handle, "r+b") as stream:
            yield stream
    except OSError as error:
        raise WriteError(f"cannot be written: {reason(error)}", where=path) from None


def reserve(handle: int, size: int) -> None:
    """Give a file `size` bytes that the disk really has, so that writing into a map of it cannot fail."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, max(size, 1))
    os.ftruncate(handle, size)


# -- one process at a time -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: str, *, patience: float = 10.0) -> Iterator[None]:
    """Hold the file at `path` for this process alone, from loading to saving; BusyError after `patience` seconds.

    The lock is on a neighbour (the file itself is replaced by saving), which goes with the last holder.
    """
    target = _target(path)
    neighbour = target.with_name(f".{_short(target.name)}.lock")
    end = time.monotonic() + patience
    while True:
        try:
            handle = os.open(neighbour, os.O_RDWR | os.O_CREAT, PRIVATE)
        except OSError as error:
            raise WriteError(f"cannot be locked: {reason(error)}", where=path) from None
        if _try_lock(handle) and _is_still(neighbour, handle):
            break
        os.close(handle)
        if time.monotonic() > end:
            raise BusyError("another dpcalc process is using this file", where=path)
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            neighbour.unlink()
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: the last writer wins there
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(neighbour: Path, handle: int) -> bool:
    """Whether the locked file is the one in the folder, and not one that its last holder has just removed."""
    try:
        return os.path.samestat(neighbour.stat(), os.fstat(handle))
    except OSError:
        return False
