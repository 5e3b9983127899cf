"""Where specs come from: files, standard input, and the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dpcalc.errors import InputError
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.specification import Document, read_document
from dpcalc.spec.text import MAX_BYTES, decode, parse

STANDARD_INPUT = "-"


def read_documents(paths: Sequence[str], inline: Sequence[str]) -> list[Document]:
    """The specs at paths (`-` is standard input), and inline entries as one more."""
    if not paths and not inline:
        raise InputError("there is nothing to account for: give a SPEC file, - for standard input, or -m MECH")
    if list(paths).count(STANDARD_INPUT) > 1:
        raise InputError("standard input (-) can be read only once")
    documents = [read_document(parse(*_text(path))) for path in paths]
    if inline:
        documents.append(Document(entries=tuple(parse_inline(text) for text in inline)))
    return documents


def _text(path: str) -> tuple[str, str]:
    """The text at a path and what to call it in messages; no more is read than a spec may have."""
    if path == STANDARD_INPUT:
        return decode(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input"), "standard input"
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=ascii(path)[1:-1] if "\0" in path else path) from None
    return decode(data, path), path
