"""Reads one entry of a spec: the mechanism it describes, how often it runs, and what the user calls it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from dpcalc.errors import DpcalcError, InputError
from dpcalc.evidence import STATUSES, Status
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.spec.fields import Reader
from dpcalc.spec.node import Node
from dpcalc.spec.sampling import SAMPLING_KEYS, SCHEMES, Sampling, read_sampling
from dpcalc.spec.types import ENTRY_TYPES, EntryType

COMMON_KEYS = ("name", "type", "count", "guarantee", "sampling", *SAMPLING_KEYS)


# Samplers that compare a batch with and without a record, whatever the adjacency.
_ADDED = {
    "poisson": "Poisson sampling",
    "truncated-poisson": "Poisson sampling",
    "random-allocation": "random allocation",
}


@dataclass(frozen=True)
class Entry:
    """A mechanism, how often it runs, its name, and how far its statement can be trusted.

    `poisson` is the mechanism and count that Poisson sampling would give, for a run whose batches are shuffled.
    """

    mechanism: Mechanism
    count: int
    name: str
    type: str
    status: Status = "certified"
    poisson: tuple[Mechanism, int] | None = None

    def spec(self) -> dict[str, Any]:
        """The entry that reads back as this one."""
        spec: dict[str, Any] = {"name": self.name, **self.mechanism.spec(), "count": self.count}
        return spec if self.status == "certified" else {**spec, "guarantee": self.status}


def read_entry(node: Node, adjacency: Adjacency) -> Entry:
    """The entry at a node, its numbers under an adjacency; errors point to the key."""
    values = node.mapping("an entry such as {type: gaussian, noise_multiplier: 1.1}")
    if "type" not in values:
        node.fail(f"type is missing; it is one of {', '.join(ENTRY_TYPES)}")
    word = values["type"].word(ENTRY_TYPES)
    kind = ENTRY_TYPES[word]
    node.only_keys(kind.keys, word, common=COMMON_KEYS)
    entry = Reader(node)
    if kind.is_run and not entry.has("sampling"):
        node.fail(f"sampling is missing ({', '.join(SCHEMES)}); without it a run has no guarantee")
    sampling = read_sampling(entry, is_run=kind.is_run)
    steps = _steps(entry, sampling) if kind.is_run else 1
    count = entry.whole("count", 1)
    try:
        mechanism = _mechanism(entry, kind, sampling, adjacency)
        poisson = _poisson(entry, kind, sampling, adjacency)
    except DpcalcError as error:
        if error.where is not None:
            raise
        raise error.at(node.where) from None
    return Entry(
        mechanism=mechanism,
        count=count * steps,
        name=values["name"].text("a name") if "name" in values else word,
        type=word,
        status=_status(values),
        poisson=None if poisson is None else (poisson[0], poisson[1] * count),
    )


def _status(values: Mapping[str, Node]) -> Status:
    return cast(Status, values["guarantee"].word(STATUSES)) if "guarantee" in values else "certified"


def _mechanism(entry: Reader, kind: EntryType, sampling: Sampling | None, adjacency: Adjacency) -> Mechanism:
    if sampling is None:
        return kind.build(entry, adjacency)
    if sampling.scheme in _ADDED and adjacency == "replace-one" and not kind.moves:
        raise InputError(
            f"{_ADDED[sampling.scheme]} amplifies a guarantee for adding or removing a record, and this one is stated "
            "under replace-one; state it under add-remove"
        )
    return sampling.wrap(lambda under: kind.build(entry, under), adjacency)


def _steps(entry: Reader, sampling: Sampling | None) -> int:
    """How often a record's gradient is released: every step if batches are drawn, once an epoch in a fixed order."""
    assert sampling is not None
    scheme = SCHEMES[sampling.scheme]
    allocated = sampling.scheme == "random-allocation"
    if entry.form(("steps",), ("epochs",)) == 0:
        steps = entry.whole("steps")
        if allocated:
            return sampling.whole_epochs(steps=steps)
        return steps if scheme.counts_steps else sampling.epochs_of(steps)
    epochs = entry.exact("epochs")
    if allocated:
        return sampling.whole_epochs(epochs=epochs)
    return sampling.steps_of(epochs) if scheme.counts_steps else math.ceil(epochs)


def _poisson(
    entry: Reader, kind: EntryType, sampling: Sampling | None, adjacency: Adjacency
) -> tuple[Mechanism, int] | None:
    """What Poisson sampling at the same rate would give for a shuffled run, where its batches are stated."""
    if sampling is None or sampling.scheme != "shuffled" or not sampling.has_rate():
        return None
    drawn = Sampling("poisson", sampling.keys)
    steps = _steps(entry, drawn) if kind.is_run else drawn.steps_of()
    try:
        return _mechanism(entry, kind, drawn, adjacency), steps
    except InputError:
        return None  # there is no Poisson figure to compare with
