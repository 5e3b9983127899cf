"""Arrays in .npz archives: sizes are checked before memory is taken, nothing is unpickled, and edits are noticed."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError
from dpcalc.files.reader import LIMIT, check_size, reading
from dpcalc.files.writer import PRIVATE, writing

Arrays = dict[str, NDArray[Any]]

_FACTS, _DIGEST = "facts", "digest"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the array in an .npy stream, which is left where the numbers begin."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as the one for arrays of Python 2
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not known")
        shape, fortran, dtype = _HEADERS[version](stream)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"an array cannot have the shape {shape}")
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are programs")
    if dtype.kind not in "fiubUS":
        raise ValueError(f"expected numbers or text, got {dtype}")
    return shape, fortran, dtype


def read_arrays(path: str, *, what: str, wanted: Sequence[str] | None = None, limit: int = LIMIT) -> Arrays:
    """The arrays of an archive, all or the `wanted` ones, if together they are within the limit."""
    with reading(path, f"not {what}"):
        kept = Path(path).is_file() or not Path(path).exists()
    if not kept:  # a device may have no end to look for
        raise InputError(f"not {what}: it is not a regular file", where=path)
    with reading(path, f"not {what}"), zipfile.ZipFile(path) as archive:
        members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise InputError("holds two arrays of one name", where=path)
        missing = [name for name in wanted or () if name not in members]
        if missing:
            raise InputError(f"expected arrays {', '.join(wanted or ())}; missing {', '.join(missing)}", where=path)
        chosen = {name: members[name] for name in (members if wanted is None else wanted)}
        size = sum(entry.file_size for entry in chosen.values())
        check_size(size, max(limit, Path(path).stat().st_size), what="its content", where=path)
        return {name: _member(archive, entry) for name, entry in chosen.items()}


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(entry) as stream:
        shape, _, dtype = read_header(stream)  # type: ignore[arg-type]
        found, announced = entry.file_size - stream.tell(), math.prod(shape) * dtype.itemsize
    if announced != found:
        raise ValueError(f"{entry.filename} announces {announced} bytes of data and has {found}")
    with archive.open(entry) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def save_sealed(path: str, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write facts and arrays with a digest over all of them, whole or not at all, for their owner alone."""
    text = np.frombuffer(json.dumps(facts, default=_as_plain).encode(), dtype=np.uint8)
    content: dict[str, Any] = {_FACTS: text, **arrays}
    content[_DIGEST] = _digest(content)
    with writing(path, mode=PRIVATE) as stream:
        np.savez(stream, **content)


def load_sealed(path: str, *, what: str) -> tuple[dict[str, Any], Arrays]:
    """What `save_sealed` wrote. A file that was changed since is refused: its sums may not be anybody's spending.

    The digest notices damage and edits, not somebody who computes it anew: whoever may write the file is trusted.
    """
    arrays = read_arrays(path, what=what)
    with reading(path, f"not {what}"):
        digest = arrays.pop(_DIGEST)
        if not np.array_equal(digest, _digest(arrays)):
            raise InputError("was changed after dpcalc wrote it: its digest does not fit", where=path)
        facts = json.loads(arrays.pop(_FACTS).tobytes().decode())
        if not isinstance(facts, dict):
            raise TypeError("expected facts by name")
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
                raise ValueError(f"{name} holds a number that is not finite")
    return facts, arrays


def check_alike(path: str, arrays: Arrays, expected: Arrays, *, any_length: Sequence[str] = ()) -> None:
    """Raise unless the arrays have the names, types and shapes of the expected ones, but for some lengths."""
    for name in sorted({*arrays, *expected}):
        if name not in arrays or name not in expected:
            raise InputError(f"{'lacks' if name in expected else 'has no use for'} the array {name[:40]}", where=path)
        found, wanted = arrays[name], expected[name]
        same = found.ndim == wanted.ndim if name in any_length else found.shape == wanted.shape
        if not same or found.dtype != wanted.dtype:
            words = f"expected {wanted.dtype} of shape {wanted.shape}, got {found.dtype} of shape {found.shape}"
            raise InputError(f"array {name}: {words}", where=path)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        found.update(array.tobytes())
    return np.frombuffer(found.digest(), dtype=np.uint8)


def _as_plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value)} has no place among facts")
