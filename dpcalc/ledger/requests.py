"""What a spend asks for: specs, results or mechanisms, read under the ledger's adjacency, and their canonical text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from dpcalc.errors import IncompatibleError, InputError
from dpcalc.guarantee import Adjacency, Guarantee, Result
from dpcalc.ledger.chain import canonical, digest
from dpcalc.ledger.measure import Parts
from dpcalc.mechanisms.base import Mechanism
from dpcalc.report import plain
from dpcalc.spec.documents import read_document
from dpcalc.spec.entries import Entry
from dpcalc.spec.node import Node
from dpcalc.spec.sources import read_documents
from dpcalc.spec.specification import Document
from dpcalc.spec.text import parse


@dataclass(frozen=True)
class Request:
    """Certified releases, fixed before they run, for a ledger of one adjacency."""

    documents: tuple[Document, ...]
    adjacency: Adjacency

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The releases under the ledger's adjacency; raises unless all are certified and convert by proof."""
        found = [entry for document in self.documents for entry in document.read(self.adjacency)]
        for entry in found:
            if entry.status != "certified":
                raise InputError(f"is {entry.status}, and a ledger accepts only what is certified", where=entry.name)
        return tuple(found)

    def parts(self, adjacency: Adjacency, *, position: int = -1, count: int = 0) -> Parts:
        """Mechanisms and counts, with another count for the entry at a position if one is given."""
        entries = self.entries if adjacency == self.adjacency else self._in_a_part
        return tuple(
            (entry.mechanism, count if i == position else entry.count)
            for i, entry in enumerate(entries)
            if i != position or count > 0
        )

    @cached_property
    def _in_a_part(self) -> tuple[Entry, ...]:
        """The releases under add-remove, for a part of a partition: a record may leave the part, or come to it."""
        for document in self.documents:
            if (document.adjacency or self.adjacency) != "add-remove":
                raise IncompatibleError(
                    "is stated for replacing a record, and a record may also move from one part to another; "
                    "state it under add-remove",
                    where=document.entries[0].where,
                )
        return tuple(entry for document in self.documents for entry in document.read("add-remove"))

    @cached_property
    def specs(self) -> list[dict[str, Any]]:
        """What was asked for as plain data that reads back: each list under the adjacency it is stated for."""
        return [
            {
                "adjacency": document.adjacency or self.adjacency,
                "mechanisms": [plain(entry.spec()) for entry in document.read(document.adjacency or self.adjacency)],
            }
            for document in self.documents
        ]

    @cached_property
    def digest(self) -> str:
        """The same for the same releases, however they are named, ordered or split up."""
        counts: dict[str, int] = {}
        for spec in self.specs:
            for entry in spec["mechanisms"]:
                kept = {key: value for key, value in entry.items() if key not in ("name", "count")}
                text = canonical([spec["adjacency"], kept])
                counts[text] = counts.get(text, 0) + entry["count"]
        return digest(canonical(sorted(counts.items())))

    @cached_property
    def names(self) -> list[str]:
        """What the user calls the releases."""
        return list(dict.fromkeys(entry.name for entry in self.entries))

    @cached_property
    def assumptions(self) -> list[str]:
        """What the reader must make sure of for the releases to cost what is charged."""
        own = (line for entry in self.entries for line in entry.mechanism.assumptions())
        return list(dict.fromkeys((*own, *(line for document in self.documents for line in document.assumptions))))

    def with_value(self, position: int, key: str, text: str) -> Request:
        """The same with another number at a key of the entry at a position."""
        changed, at = [], position
        for document in self.documents:
            nodes = list(document.entries)
            if 0 <= at < len(nodes):
                fields = dict(nodes[at].mapping("an entry"))
                fields[key] = replace(fields[key], content=text, plain=True)
                nodes[at] = replace(nodes[at], content=fields)
            at -= len(nodes)
            changed.append(replace(document, entries=tuple(nodes)))
        return Request(tuple(changed), self.adjacency)

    def node(self, position: int) -> Node:
        """Where the entry at a position was written."""
        return [node for document in self.documents for node in document.entries][position]


def asked(things: Any, adjacency: Adjacency) -> Request:
    """The request for what a caller of Python or the command line hands over."""
    if isinstance(things, Request):
        return things
    if isinstance(things, Mechanism):
        things = ((things, 1),)
    elif _is_pair(things):
        things = (things,)
    if isinstance(things, (list, tuple)) and things and all(isinstance(t, Mechanism) or _is_pair(t) for t in things):
        return _of_mechanisms(tuple(t if isinstance(t, tuple) else (t, 1) for t in things), adjacency)
    documents = [d for thing in (things if isinstance(things, (list, tuple)) else [things]) for d in _documents(thing)]
    if not documents:
        raise InputError("there is nothing to charge")
    return Request(tuple(documents), adjacency)


def _is_pair(thing: Any) -> bool:
    return (
        isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], Mechanism) and isinstance(thing[1], int)
    )


@lru_cache(maxsize=1024)
def _of_mechanisms(parts: tuple[tuple[Mechanism, int], ...], adjacency: Adjacency) -> Request:
    documents = []
    for mechanism, count in parts:
        if count < 1:
            raise InputError(f"expected a count of at least 1, got {count}")
        documents.append(_document([{**mechanism.spec(), "count": count}], mechanism.adjacency))
    return Request(tuple(documents), adjacency)


def _document(mechanisms: Sequence[Mapping[str, Any]], adjacency: Adjacency) -> Document:
    return _read({"adjacency": adjacency, "mechanisms": list(mechanisms)})


def _read(spec: Mapping[str, Any]) -> Document:
    return read_document(parse(json.dumps(plain(spec), allow_nan=False), "the spend"))


def _documents(thing: Any) -> list[Document]:
    if isinstance(thing, Document):
        return [thing]
    if isinstance(thing, str):
        return read_documents([thing], [])
    if hasattr(thing, "spec"):  # an entry of a spec, as a value
        return [_read({"mechanisms": [thing.spec()]})]
    if hasattr(thing, "to_dict"):  # a result, as Python tells it
        thing = thing.to_dict()
    if isinstance(thing, Result):
        thing = thing.guarantee
    if isinstance(thing, Guarantee):
        document = _document(thing.mechanisms, thing.adjacency)
        return [replace(document, status=thing.status, assumptions=thing.assumptions)]
    if isinstance(thing, Mapping):
        return [_read(thing)]
    raise InputError(f"expected mechanisms, a spec, or a result to charge, got {type(thing).__name__}")


@lru_cache(maxsize=4096)
def _stored(text: str, adjacency: Adjacency) -> Request:
    return Request(tuple(_read(spec) for spec in json.loads(text)), adjacency)


def stored_request(specs: Sequence[Mapping[str, Any]], adjacency: Adjacency) -> Request:
    """The request that an entry of the ledger was made from."""
    return _stored(canonical(list(specs)), adjacency)
