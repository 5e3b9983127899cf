"""The one number of a spec that is marked `solve`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.numbers import Range
from dpcalc.spec.entries import Entry
from dpcalc.spec.fields import FIELDS, SOLVABLE, SOLVE, Field, read_number
from dpcalc.spec.node import Node
from dpcalc.spec.specification import Document, common_adjacency


@dataclass(frozen=True)
class Unknown:
    """Where `solve` stands, and the entries around it."""

    document: Document
    entry: Node
    node: Node
    position: int
    adjacency: Adjacency
    others: tuple[Entry, ...]

    @property
    def key(self) -> str:
        """The key that is solved for: noise_multiplier, count, …"""
        return _key(self.node)

    @property
    def field(self) -> Field:
        known = FIELDS[self.key]
        if not self._is_allocated:
            return known
        if self.key == "epochs":
            return replace(known, whole=True)
        if self.key == "steps" and self.node.path.rpartition(".")[0] == self.entry.path and self._is("type", "dp-sgd"):
            self.node.fail("random allocation counts whole epochs; solve for epochs")
        return replace(known, more_means="less loss") if self.key == "steps" else known

    @property
    def _is_allocated(self) -> bool:
        return self._is("sampling", "random-allocation") or self._is("scheme", "random-allocation")

    def _is(self, key: str, word: str) -> bool:
        stated = self._beside(key)
        return stated is not None and stated.content == word

    @property
    def allowed(self) -> Range:
        """Where the value may lie; a batch is no larger than the data set."""
        size = self._beside("dataset_size")
        if self.key != "batch_size" or size is None:
            return self.field.allowed
        return replace(self.field.allowed, high=read_number(size, FIELDS["dataset_size"]))

    @property
    def sensitivity(self) -> float:
        """What noise is relative to; one if the entry states none."""
        stated = self._beside("sensitivity")
        return 1.0 if stated is None else read_number(stated, FIELDS["sensitivity"])

    def _beside(self, key: str) -> Node | None:
        return next((node for node in _scalars(self.entry) if _key(node) == key), None)

    def entries(self, value: float) -> list[Entry]:
        """All entries, in order, with a value in place of `solve`."""
        text = str(int(value)) if self.field.whole else repr(float(value))
        filled = _filled(self.entry, self.node, text)
        (solved,) = replace(self.document, entries=(filled,)).read(self.adjacency)
        return [*self.others[: self.position], solved, *self.others[self.position :]]


def find_unknown(documents: Sequence[Document], asked: Adjacency | None) -> Unknown:
    """The one `solve` of the documents; none, several, or one in the wrong place is an error."""
    marked = [
        (document, entry, node)
        for document in documents
        for entry in document.entries
        for node in _scalars(entry)
        if node.content == SOLVE and _key(node) != "name"
    ]
    if len(marked) != 1:
        places = "; ".join(node.where for _, _, node in marked) or "none"
        raise InputError(f"expected exactly one number to be the word solve, got {len(marked)} ({places})")
    document, entry, node = marked[0]
    if _key(node) not in SOLVABLE:
        node.fail(f"cannot be solved for; these can: {', '.join(SOLVABLE)}")
    adjacency = common_adjacency(documents, asked)
    before: list[Entry] = []
    after: list[Entry] = []
    side = before
    for each in documents:
        for part in each.entries:
            if part is entry:
                side = after
            else:
                side.extend(replace(each, entries=(part,)).read(adjacency))
    return Unknown(document, entry, node, len(before), adjacency, (*before, *after))


def _key(node: Node) -> str:
    return node.path.rpartition(".")[2]


def _scalars(node: Node) -> Iterator[Node]:
    if isinstance(node.content, str):
        yield node
        return
    inner = node.content.values() if isinstance(node.content, dict) else node.content
    for value in inner:
        yield from _scalars(value)


def _filled(tree: Node, target: Node, text: str) -> Node:
    """The tree with a number where the target stood."""
    if tree is target:
        return replace(tree, content=text, plain=True)
    if isinstance(tree.content, dict):
        return replace(tree, content={key: _filled(value, target, text) for key, value in tree.content.items()})
    if isinstance(tree.content, list):
        return replace(tree, content=[_filled(value, target, text) for value in tree.content])
    return tree
