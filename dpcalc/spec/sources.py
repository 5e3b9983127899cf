"""Where specs come from: files, standard input, and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpcalc.errors import InputError
from dpcalc.files import read_text
from dpcalc.spec.documents import read_document
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.specification import Document
from dpcalc.spec.text import MAX_BYTES, parse

STANDARD_INPUT = "-"

_DEEPEST = 20
_MOST_FILES = 1000


def read_documents(paths: Sequence[str | Document], inline: Sequence[str]) -> list[Document]:
    """The specs at paths (`-` is standard input) with what they include, and inline entries as one more.

    A document that somebody has made already is taken as it is.
    """
    if not paths and not inline:
        raise InputError("there is nothing to account for; give a SPEC file, - for standard input, or a mechanism")
    if list(paths).count(STANDARD_INPUT) > 1:
        raise InputError("standard input (-) can be read only once")
    documents = [
        document for path in paths for document in ([path] if isinstance(path, Document) else _with_included(path, ()))
    ]
    if inline:
        entries = tuple(parse_inline(text) for text in inline)
        documents.append(Document(entries=entries, name="the command line"))
    return documents


def _with_included(path: str, above: tuple[Path, ...]) -> list[Document]:
    """The spec at a path, after those it includes; `above` are the files that include it."""
    here = Path(path).resolve() if path != STANDARD_INPUT and "\0" not in path else Path(path)
    document = read_document(parse(*_text(path)))
    found: list[Document] = []
    for node in document.include:
        name = node.text("the path of a spec")
        inner = Path(name) if path == STANDARD_INPUT else Path(path).parent / name
        if inner.resolve() in (*above, here):
            node.fail(f"includes itself by way of {name}")
        if len(above) == _DEEPEST:
            node.fail(f"is included {_DEEPEST} levels deep")
        found += _with_included(str(inner), (*above, here))
        if len(found) > _MOST_FILES:
            node.fail(f"more than {_MOST_FILES} files are included")
    return [*found, document]


def _text(path: str) -> tuple[str, str]:
    """The text at a path and what to call it in messages; no more is read than a spec may have."""
    text = read_text(path, limit=MAX_BYTES, what="a spec")
    return text, "standard input" if path == STANDARD_INPUT else path
