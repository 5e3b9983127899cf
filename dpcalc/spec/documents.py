"""What a file may be: a spec, or what another kind of document says in its place. A new kind is a line of the table."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from dpcalc.spec.node import MISSING_WORDS, Node
from dpcalc.spec.specification import Document, read_spec


class Kind(NamedTuple):
    """A kind of document: keys of which it has one at least and a spec none, and the function that reads it."""

    keys: tuple[str, ...]
    reader: str


# What only a result has is there too: a file with one of these that does not say `schema` has lost it.
KINDS = (
    Kind(
        ("schema", "command", "version", "guarantee", "accountant", "theorem", "details"),
        "dpcalc.spec.results:read_result",
    ),
    Kind(("history",), "dpcalc.spec.opacus:read_history"),
)


def read_document(root: Node) -> Document:
    """The spec at the root of a file, or the document of another kind; what a result claims is checked."""
    content = root.content
    if isinstance(content, str) and root.plain and content in MISSING_WORDS:
        root.fail("the spec is empty; it needs a list of mechanisms")
    values = root.mapping("a mapping with a list of mechanisms")
    for kind in KINDS:
        if any(key in values for key in kind.keys):
            module, _, name = kind.reader.partition(":")
            document: Document = getattr(import_module(module), name)(root)
            return document
    return read_spec(root)
