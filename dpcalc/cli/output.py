"""Puts a result where it belongs: on the screen or into a file, warnings and broken limits on standard error."""

from __future__ import annotations

import shutil
import sys

from dpcalc.files import PRIVATE, SHARED, write_text
from dpcalc.guarantee import Result
from dpcalc.render import render
from dpcalc.render.words import answer
from dpcalc.report import verdict_line
from dpcalc.terminal import streams
from dpcalc.terminal.wrapping import Wrapper

_STYLES = {"over": "bold red", "unproved": "bold yellow", "within": "bold green"}


def emit(result: Result, format: str, output: str | None, *, quiet: bool = False, verbose: bool = False) -> None:
    """Write the result, then what has to be said beside it; a limit that is not kept is said once on each stream."""
    on_screen = output in (None, "-")
    drawn = format == "table" and on_screen and _is_terminal(sys.stdout)
    if drawn:
        _draw(result, streams.harmless(render(result, format, width=_columns(), quiet=quiet, verbose=verbose)))
    else:
        text = render(result, format, quiet=quiet, verbose=verbose)
        if on_screen:
            text = streams.harmless(text)
            streams.write(_plain_json(text) if format == "json" and not streams.can_write(text) else text)
        else:
            write_text(str(output), text, mode=PRIVATE if result.private else SHARED)
    told = not on_screen and not quiet and _is_terminal(sys.stderr)
    if told:  # a person sees the answer, and where the rest of it is
        streams.tell(wrapped(f"{output}: {answer(result)}") + "\n")
    if format not in ("github", "junit") or not on_screen:
        tell_beside(result, verdicts=not (drawn or told))


def tell_beside(result: Result, *, verdicts: bool) -> None:
    """Warnings, and the limits that are not kept, on standard error."""
    warnings = () if result.guarantee is None else result.guarantee.warnings
    lines = [f"warning: {line}" for line in warnings]
    if verdicts:
        words = {"over": "over budget", "unproved": "not certified"}
        lines += [f"{words[v.outcome]}: {verdict_line(v)}" for v in result.verdicts if v.outcome in words]
    for line in lines:
        streams.tell(wrapped(line) + "\n")


def wrapped(line: str, *, first: str = "", further: str = "  ") -> str:
    """A line for standard error: wrapped on a terminal, whole elsewhere."""
    if not _is_terminal(sys.stderr):
        return first + line
    return Wrapper(_columns(), initial_indent=first, subsequent_indent=further, break_on_hyphens=False).fill(line)


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())


def _columns() -> int:
    from dpcalc.render.screen import NARROWEST

    return max(shutil.get_terminal_size().columns, NARROWEST)


def _draw(result: Result, text: str) -> None:
    """On a terminal: the answer bold and in the colour of its verdict, through Rich, which obeys NO_COLOR."""
    from rich.console import Console
    from rich.text import Text

    style = next((_STYLES[outcome] for outcome in _STYLES if outcome in result.outcomes), "bold")
    head, gap, rest = text.rstrip("\n").partition("\n\n")
    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False, soft_wrap=True)
    with console.capture() as capture:
        console.print(Text(head, style=style), soft_wrap=True, end="")
        console.print(Text(f"{gap}{rest}\n"), soft_wrap=True, end="")
    streams.write(capture.get())


def _plain_json(text: str) -> str:
    """The same object in ASCII, for an output that has no other letters."""
    import json

    return json.dumps(json.loads(text), indent=2) + "\n"
