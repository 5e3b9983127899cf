"""How the records of a batch are drawn: the `sampling` of an entry, as a block or as a word with its keys beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.sampled import FixedSizeSampled, OncePerEpoch, PoissonSampled
from dpcalc.numbers import steps_of_epochs
from dpcalc.spec.fields import Reader
from dpcalc.spec.node import Node

Build = Callable[[Adjacency], Mechanism]

RATE_KEYS = ("rate", "batch_size", "dataset_size")


@dataclass(frozen=True)
class Scheme:
    """A sampler: whether it has a rate, and how it wraps a mechanism that `build` gives under an adjacency."""

    has_rate: bool
    wrap: Callable[[Build, float, Adjacency], Mechanism]


def _poisson(build: Build, rate: float, adjacency: Adjacency) -> Mechanism:
    return PoissonSampled(base=build("add-remove"), sampling_rate=rate, adjacency=adjacency)


def _fixed_size(build: Build, rate: float, adjacency: Adjacency) -> Mechanism:
    return FixedSizeSampled(base=build(adjacency), sampling_rate=rate)


def _cyclic(build: Build, _rate: float, adjacency: Adjacency) -> Mechanism:
    return OncePerEpoch(base=build(adjacency))


def _shuffled(build: Build, _rate: float, adjacency: Adjacency) -> Mechanism:
    return OncePerEpoch(base=build(adjacency), shuffled=True)


SCHEMES: Mapping[str, Scheme] = {
    "poisson": Scheme(has_rate=True, wrap=_poisson),
    "fixed-size": Scheme(has_rate=True, wrap=_fixed_size),
    "cyclic": Scheme(has_rate=False, wrap=_cyclic),
    "shuffled": Scheme(has_rate=False, wrap=_shuffled),
}


@dataclass(frozen=True)
class Sampling:
    """The sampler of an entry; `keys` is where its rate is written: the block, or the entry itself."""

    scheme: str
    keys: Reader

    def wrap(self, build: Build, adjacency: Adjacency) -> Mechanism:
        """The mechanism on sampled batches."""
        scheme = SCHEMES[self.scheme]
        return scheme.wrap(build, self.rate() if scheme.has_rate or self.has_rate() else 1.0, adjacency)

    def has_rate(self) -> bool:
        """Whether the size of a batch is stated."""
        return any(self.keys.has(key) for key in RATE_KEYS)

    def rate(self) -> float:
        """The share of the records in a batch."""
        if self.keys.form(("rate",), ("batch_size", "dataset_size")) == 0:
            return self.keys.number("rate")
        batch_size, dataset_size = self.keys.whole("batch_size"), self.keys.whole("dataset_size")
        if batch_size > dataset_size:
            self.keys.values["batch_size"].fail(
                f"expected a batch no larger than the data set of {dataset_size}, got {batch_size}"
            )
        return batch_size / dataset_size

    def steps_of(self, epochs: Fraction) -> int:
        """The steps of so many epochs, rounded up, from the numbers as they are written."""
        self.rate()
        if self.keys.has("rate"):
            return steps_of_epochs(epochs, 1, self.keys.exact("rate"))
        return steps_of_epochs(epochs, self.keys.exact("dataset_size"), self.keys.exact("batch_size"))

    def epochs_of(self, steps: int) -> int:
        """The most often that any record is used in so many steps of a fixed order.

        With rest batches dropped an epoch has ⌊1/rate⌋ steps; every other way to batch uses a record no more often.
        """
        self.rate()
        if self.keys.has("rate"):
            return -(-steps // math.floor(1 / self.keys.exact("rate")))
        return -(-steps // (self.keys.whole("dataset_size") // self.keys.whole("batch_size")))


def read_sampling(entry: Reader) -> Sampling | None:
    """The sampler of an entry; None if it has none and so uses every record."""
    node = entry.values.get("sampling")
    if node is None:
        for key in RATE_KEYS:
            if entry.has(key):
                entry.values[key].fail(f"{key} belongs to a sampling, and there is none; add sampling: poisson")
        return None
    if isinstance(node.content, dict):
        return _block(entry, node)
    scheme = node.word(SCHEMES)
    return Sampling(scheme, entry)


def _block(entry: Reader, node: Node) -> Sampling:
    node.only_keys(("scheme", *RATE_KEYS), "sampling")
    block = Reader(node)
    if not block.has("scheme"):
        node.fail("scheme is missing: poisson, fixed-size, cyclic or shuffled")
    scheme = block.values["scheme"].word(SCHEMES)
    inside = [key for key in RATE_KEYS if block.has(key)]
    beside = [key for key in RATE_KEYS if entry.has(key)]
    if inside and beside:
        entry.values[beside[0]].fail(f"{beside[0]} stands beside a sampling that has {inside[0]}; keep one of them")
    return Sampling(scheme, entry if beside else block)
