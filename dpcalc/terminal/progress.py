"""Progress of long work, on stderr, for people only."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHORTEST_BAR = 6
_BETWEEN_NOTES = 0.1


@contextmanager
def progress(description: str, *, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar while the block runs; yields `advance(amount=1, notes=tuple)`. Silent unless stderr is a terminal.

    `notes` is asked ten times a second for words; as many are shown as have room beside a short bar, the first first.
    """
    if not sys.stderr.isatty():
        yield lambda *_, **__: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    room = shutil.get_terminal_size().columns - 1
    known = () if total is None else (TaskProgressColumn(), TimeRemainingColumn(compact=True))
    columns = (TextColumn("{task.description}"), BarColumn(None), *known, TextColumn("{task.fields[note]}"))
    taken = len(description) + _SHORTEST_BAR + (15 if known else 0) + 2
    with Progress(*columns, console=Console(stderr=True, width=room), transient=True, expand=True) as bar:
        task = bar.add_task(description, total=total, note="")

        asked, note = 0.0, ""

        def advance(amount: float = 1, notes: Callable[[], tuple[str, ...]] = tuple) -> None:
            nonlocal asked, note
            if time.monotonic() - asked >= _BETWEEN_NOTES:
                asked, note = time.monotonic(), fitting(notes(), room - taken)
            bar.update(task, advance=amount, note=note)

        yield advance


def fitting(notes: tuple[str, ...], room: int) -> str:
    """The first notes that fit beside each other: one that does not is left out whole, with those after it."""
    shown = ""
    for note in notes:
        longer = f"{shown}  {note}" if shown else note
        if len(longer) > room:
            break
        shown = longer
    return shown
