"""Whole specs: files, results of other commands and inline entries, put together into one list of mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from dpcalc.errors import DpcalcError, IncompatibleError, InputError
from dpcalc.guarantee import ADJACENCIES, Adjacency, Budget, Status
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY
from dpcalc.report import SCHEMA
from dpcalc.spec.entries import STATUSES, Entry, read_entry
from dpcalc.spec.fields import Field, Reader, read_number
from dpcalc.spec.node import MISSING_WORDS, Node

_TOP_KEYS = ("adjacency", "delta", "budget", "mechanisms")
_BUDGET_KEYS = ("epsilon", "delta", "mu", "rho")

# The commands whose `mechanisms` are what was accounted for; the others give back the guarantee itself.
_LISTS_MECHANISMS = ("compose", "calibrate")


@dataclass(frozen=True)
class Document:
    """One spec: what it lists and under which conditions, not yet made into mechanisms."""

    entries: tuple[Node, ...]
    adjacency: Adjacency | None = None
    delta: float | None = None
    budget: Budget = field(default_factory=Budget)
    status: Status = "certified"
    assumptions: tuple[str, ...] = ()

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


def read_document(root: Node) -> Document:
    """The spec or the JSON result at the root of a file."""
    content = root.content
    if isinstance(content, str) and root.plain and content in MISSING_WORDS:
        root.fail("the spec is empty; it needs a list of mechanisms")
    values = root.mapping("a mapping with a list of mechanisms")
    if "schema" in values:
        return _read_result(root)
    root.only_keys(_TOP_KEYS, "a spec")
    return Document(
        entries=_entries(root),
        adjacency=_adjacency(values["adjacency"]) if "adjacency" in values else None,
        delta=read_number(values["delta"], Field(PROBABILITY)) if "delta" in values else None,
        budget=_budget(values["budget"]) if "budget" in values else Budget(),
    )


def _entries(root: Node) -> tuple[Node, ...]:
    values = root.mapping("a spec")
    if "mechanisms" not in values:
        root.fail("mechanisms is missing: a list of entries such as {type: gaussian, noise_multiplier: 1.1}")
    entries = values["mechanisms"].items("a list of entries")
    if not entries:
        values["mechanisms"].fail("the list is empty; there is nothing to account for")
    return tuple(entries)


def _adjacency(node: Node) -> Adjacency:
    return cast(Adjacency, node.word(ADJACENCIES))


def _budget(node: Node) -> Budget:
    node.only_keys(_BUDGET_KEYS, "a budget")
    block = Reader(node)
    limits = {f"max_{key}": read_number(value, Field(NON_NEGATIVE)) for key, value in block.values.items()}
    if not limits:
        node.fail(f"the budget is empty; it may limit {', '.join(_BUDGET_KEYS)}")
    return Budget(**limits)


def _read_result(root: Node) -> Document:
    """The JSON of a dpcalc command: its mechanisms, adjacency and δ, and what its reader must make sure of."""
    values = root.mapping("a result")
    values["schema"].word((SCHEMA,))
    if "adjacency" not in values:
        root.fail("adjacency is missing from the result")
    command = values["command"].text("a command") if "command" in values else ""
    status: Status = "certified"
    if command not in _LISTS_MECHANISMS and "guarantee" in values:
        status = cast(Status, values["guarantee"].word(STATUSES))
    delta = values.get("delta")
    usable = delta is not None and delta.content not in (*MISSING_WORDS, "0", "0.0")
    assumptions = values["assumptions"].items("a list") if "assumptions" in values else []
    return Document(
        entries=_entries(root),
        adjacency=_adjacency(values["adjacency"]),
        delta=read_number(delta, Field(PROBABILITY)) if delta is not None and usable else None,
        status=status,
        assumptions=tuple(item.text("an assumption") for item in assumptions),
    )


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
    stated = sorted({document.delta for document in documents if document.delta is not None})
    if len(stated) > 1:
        raise InputError(f"the specs state different deltas ({', '.join(f'{d:g}' for d in stated)}); give --delta")
    return stated[0] if stated else None


def common_budget(documents: Sequence[Document]) -> Budget:
    """Every limit that a document sets, the smallest where several set one."""
    limits: dict[str, float] = {}
    for document in documents:
        for name, limit in document.budget.limits().items():
            limits[name] = min(limit, limits.get(name, limit))
    return Budget(**limits)
