"""A run on disk, whole or not at all: what it takes to go on as if nothing had happened.

A checkpoint holds each record's spent budget and the data's fingerprint, so it is as sensitive as the data. Steps that
were computed after the last checkpoint and lost with the process have released nothing, so running them again spends
nothing twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files.archive import Arrays, load_sealed, save_sealed

FORMAT = "dpcalc-checkpoint/3"


def save(path: str, facts: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint beside the old one, and put it in its place in one move; for its owner's eyes only."""
    save_sealed(path, {"format": FORMAT, **facts}, arrays)


def load(path: str) -> tuple[dict[str, Any], Arrays]:
    """The facts and arrays of a checkpoint; nothing in it is ever unpickled, and an edited one is refused."""
    if not Path(path).exists():
        raise InputError("no such checkpoint; leave out `resume` to start one.", where=path)
    facts, arrays = load_sealed(path, what="a readable checkpoint")
    if facts.get("format") != FORMAT:
        raise InputError(f"expected format {FORMAT}, found {str(facts.get('format'))[:40]!r}.", where=path)
    return facts, arrays


def same_run(path: str, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise unless the checkpoint is of the run that is asked for; another run would break its accounting."""
    for name, value in wanted.items():
        if name not in stored or stored[name] != value:
            raise InputError(
                f"the checkpoint was made with {name} = {stored.get(name)!r}, not {value!r}; the same run is needed.",
                where=path,
            )
