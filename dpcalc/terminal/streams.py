"""The three standard streams, as they come: closed, full, read no further, or in an encoding without Greek."""

from __future__ import annotations

import codecs
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from dpcalc.errors import WriteError

_SPELT = {
    "ε": "eps", "δ": "delta", "μ": "mu", "µ": "mu", "ρ": "rho", "σ": "sigma", "α": "alpha", "η": "eta", "τ": "tau",
    "λ": "lambda", "κ": "kappa", "Φ": "Phi", "Π": "Pi", "Σ": "sum ", "Δ": "Delta", "ℓ": "l",
    "≤": "<=", "≥": ">=", "≈": "~", "≠": "!=", "∞": "inf", "√": "sqrt", "×": "x", "·": "*", "⊗": "(x)", "∇": "grad ",
    "−": "-", "–": "-", "—": "-", "…": "...", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "²": "^2", "½": "1/2",
    "‖": "||", "→": "->", "←": "<-", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "█": "#", "░": ".", "∂": "d",
    "│": "|", "└": "+", "─": "-", **{chr(dots): "*" for dots in range(0x2801, 0x2900)},
}  # fmt: skip
_HANDLER = "dpcalc.spelt"
# What steers a terminal or turns the direction of text: names, ids and paths may hold anything.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks, in letters that it has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    letters = "".join(_SPELT.get(c, c.encode("ascii", "backslashreplace").decode("ascii")) for c in missing)
    return letters, error.end


def prepare() -> None:
    """Make the streams safe to use: closed ones read as empty or write to nowhere, missing letters are spelt out."""
    codecs.register_error(_HANDLER, _spell)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def write(text: str) -> None:
    """Write to standard output. A reader that has left is no error; a full disk or a closed stream is one."""
    if sys.stdout is None:
        raise WriteError("standard output is closed, so that the result could not be written")
    try:
        if text:  # even no letters are too many for /dev/full
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)
    except OSError as error:
        abandon(sys.stdout)
        raise WriteError(
            f"standard output: {error.strerror or error}, so that the result could not be written"
        ) from None


def harmless(text: str) -> str:
    """The text with everything that would steer a terminal spelt out."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def tell(text: str) -> None:
    """Write to standard error, as far as that is possible: no verdict depends on it."""
    try:
        sys.stderr.write(harmless(text))
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """Let what is left for a stream go nowhere, also when Python flushes it at exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def can_write(text: str) -> bool:
    """Whether standard output has all the characters of a text."""
    return spelt(text) == text


def spelt(text: str) -> str:
    """The text as standard output can tell it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, _HANDLER).decode(encoding)
