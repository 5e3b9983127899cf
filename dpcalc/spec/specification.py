"""Whole specs: files, results of other commands and inline entries, put together into one list of mechanisms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from dpcalc.errors import DpcalcError, IncompatibleError, InputError
from dpcalc.evidence import Status
from dpcalc.guarantee import ADJACENCIES, Adjacency, Budget, Quantity
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY_OR_ZERO
from dpcalc.report import written
from dpcalc.spec.entries import Entry, read_entry
from dpcalc.spec.fields import Field, Reader, read_number
from dpcalc.spec.node import Node

_TOP_KEYS = ("adjacency", "delta", "budget", "include", "mechanisms")
_BUDGET_KEYS: tuple[Quantity, ...] = ("epsilon", "delta", "mu", "rho", "advantage")


@dataclass(frozen=True)
class Document:
    """One spec: what it lists and under which conditions, not yet made into mechanisms.

    `delta` and `epsilon` are what it asks at, `name` is what people call it, `include` the files it names; `told` is
    the whole object if it is a result that has been read back, `attained` false if that knows no lower bound.
    """

    entries: tuple[Node, ...]
    adjacency: Adjacency | None = None
    delta: float | None = None
    epsilon: float | None = None
    budget: Budget = field(default_factory=Budget)
    status: Status = "certified"
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    name: str = ""
    include: tuple[Node, ...] = ()
    told: Mapping[str, Any] | None = None
    attained: bool = True

    def read(self, adjacency: Adjacency) -> list[Entry]:
        """The entries under an adjacency, converted to it where that is proved."""
        stated = self.adjacency or adjacency
        found = [read_entry(node, stated) for node in self.entries]
        if self.status != "certified":
            found = [replace(e, status=self.status) if e.status == "certified" else e for e in found]
        if stated == adjacency:
            return found
        return [_converted(entry, node, adjacency) for entry, node in zip(found, self.entries, strict=True)]


def _converted(entry: Entry, node: Node, adjacency: Adjacency) -> Entry:
    if adjacency != "replace-one":
        raise IncompatibleError(
            f"is stated under {entry.mechanism.adjacency}, and a guarantee for replacing a record says nothing about "
            "adding or removing one; compose everything under replace-one",
            where=node.where,
        )
    try:
        return replace(entry, mechanism=entry.mechanism.as_replace_one(), poisson=None)
    except DpcalcError as error:
        raise IncompatibleError(str(error), where=node.where) from None


def read_spec(root: Node) -> Document:
    """The spec at the root of a file."""
    values = root.mapping("a mapping with a list of mechanisms")
    root.only_keys(_TOP_KEYS, "a spec")
    include = tuple(values["include"].items("a list of files")) if "include" in values else ()
    return Document(
        entries=() if include and "mechanisms" not in values else read_entries_of(root),
        adjacency=read_adjacency(values["adjacency"]) if "adjacency" in values else None,
        delta=read_number(values["delta"], Field(PROBABILITY_OR_ZERO)) if "delta" in values else None,
        budget=_budget(values["budget"]) if "budget" in values else Budget(),
        name=root.source,
        include=include,
    )


def read_entries_of(root: Node, *, called: str | None = None) -> tuple[Node, ...]:
    """The nodes of a spec's or a result's `mechanisms`; `called` is the name of those that have none."""
    values = root.mapping("a spec")
    if "mechanisms" not in values:
        root.fail("mechanisms is missing: a list of entries such as {type: gaussian, noise_multiplier: 1.1}")
    entries = values["mechanisms"].items("a list of entries")
    if not entries:
        values["mechanisms"].fail("the list is empty; there is nothing to account for")
    return tuple(entry if called is None else _named(entry, called) for entry in entries)


def _named(entry: Node, name: str) -> Node:
    if not isinstance(entry.content, dict) or "name" in entry.content:
        return entry
    return replace(entry, content={"name": Node(name, entry.source, f"{entry.path}.name"), **entry.content})


def read_adjacency(node: Node) -> Adjacency:
    """The adjacency that stands here."""
    return cast(Adjacency, node.word(ADJACENCIES))


def _budget(node: Node) -> Budget:
    node.only_keys(_BUDGET_KEYS, "a budget")
    block = Reader(node)
    limits = {f"max_{key}": read_number(value, Field(NON_NEGATIVE)) for key, value in block.values.items()}
    if not limits:
        node.fail(f"the budget is empty; it may limit {', '.join(_BUDGET_KEYS)}")
    return Budget(**limits)


def common_adjacency(documents: Sequence[Document], asked: Adjacency | None) -> Adjacency:
    """The adjacency to account under: the one asked for, or the weakest promise that all documents can be brought to.

    Where both are stated this is replace-one, since only add-remove guarantees convert.
    """
    stated = {document.adjacency for document in documents if document.adjacency}
    if asked is not None:
        return asked
    return "replace-one" if "replace-one" in stated else "add-remove"


def common_delta(documents: Sequence[Document]) -> float | None:
    """The δ that the documents agree on; None if none states one."""
    return _agreed("delta", [document.delta for document in documents])


def common_epsilon(documents: Sequence[Document]) -> float | None:
    """The ε at which all documents that ask for δ ask for it; None if none does."""
    return _agreed("epsilon", [document.epsilon for document in documents])


def _agreed(field: str, stated: Sequence[float | None]) -> float | None:
    values = sorted({value for value in stated if value is not None})
    if len(values) > 1:
        shown = ", ".join(map(written, values))
        raise InputError(
            f"the files state different {field}s ({shown}); add --{field} {written(values[-1])}", where=field
        )
    return values[0] if values else None


def common_budget(documents: Sequence[Document], given: Budget | None = None) -> Budget:
    """Every limit that a document sets; `given` wins, and documents that contradict each other raise."""
    limits: dict[Quantity, float] = dict(given.limits()) if given is not None else {}
    stated: dict[Quantity, tuple[float, str]] = {}
    for document in documents:
        for quantity, limit in document.budget.limits().items():
            other, name = stated.setdefault(quantity, (limit, document.name))
            if other != limit and quantity not in limits:
                raise InputError(
                    f"conflicting limits on {quantity}: {written(other)} in {name}, {written(limit)} in "
                    f"{document.name}; say which one holds",
                    where=f"max_{quantity}",
                )
    found = {quantity: limit for quantity, (limit, _) in stated.items()} | limits
    return Budget(**{f"max_{quantity}": limit for quantity, limit in found.items()})
