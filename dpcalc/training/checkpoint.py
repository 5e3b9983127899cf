"""A run on disk, whole or not at all: what it takes to go on as if nothing had happened.

A checkpoint holds each record's spent budget and the data's fingerprint, so it is as sensitive as the data. Steps that
were computed after the last checkpoint and lost with the process have released nothing, so running them again spends
nothing twice.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc import files
from dpcalc.errors import InputError

FORMAT = "dpcalc-checkpoint/2"

Arrays = dict[str, NDArray[Any]]


def save(path: str, facts: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint beside the old one, and put it in its place in one move; for its owner's eyes only."""
    text = json.dumps({"format": FORMAT, **facts}, default=_as_plain)
    with files.writing(path, mode=files.PRIVATE) as stream:
        np.savez(stream, allow_pickle=False, facts=np.array(text), **arrays)


def load(path: str) -> tuple[dict[str, Any], Arrays]:
    """The facts and arrays of a checkpoint; nothing in it is ever unpickled."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            facts = json.loads(str(archive["facts"]))
            arrays = {name: archive[name] for name in archive.files if name != "facts"}
    except FileNotFoundError:
        raise InputError("no such checkpoint; leave out --resume to start one.", where=path) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"not a readable checkpoint: {error}.", where=path) from None
    if facts.get("format") != FORMAT:
        raise InputError(f"expected format {FORMAT}, found {facts.get('format')!r}.", where=path)
    return facts, arrays


def same_run(path: str, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise unless the checkpoint is of the run that is asked for; another run would break its accounting."""
    for name, value in wanted.items():
        if name not in stored or stored[name] != value:
            raise InputError(
                f"the checkpoint was made with {name} = {stored.get(name)!r}, not {value!r}; the same run is needed.",
                where=path,
            )


def _as_plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value)} does not belong in a checkpoint")
