"""How the records of a batch are drawn: the `sampling` of an entry, as a block or as a word with its keys beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.numbers import steps_of_epochs
from dpcalc.spec.fields import Reader
from dpcalc.spec.node import Node, one_of

if TYPE_CHECKING:
    from fractions import Fraction

Build = Callable[[Adjacency], Mechanism]

RATE_KEYS = ("rate", "batch_size", "dataset_size")
ALLOCATION_KEYS = ("steps", "selected")
TRUNCATION_KEYS = ("largest_batch",)
SAMPLING_KEYS = (*RATE_KEYS, *ALLOCATION_KEYS, *TRUNCATION_KEYS)
_RUN_KEYS = tuple(key for key in SAMPLING_KEYS if key != "steps")  # a run has steps of its own


@dataclass(frozen=True)
class Scheme:
    """A sampler: its keys, whether it counts steps (or else epochs), and how it wraps what `build` gives."""

    keys: tuple[str, ...]
    counts_steps: bool
    wrap: Callable[[Build, Sampling, Adjacency], Mechanism]


@dataclass(frozen=True)
class Sampling:
    """The sampler of an entry; `keys` is where its numbers are written: the block, or the entry itself."""

    scheme: str
    keys: Reader
    is_run: bool = False

    def wrap(self, build: Build, adjacency: Adjacency) -> Mechanism:
        """The mechanism on sampled batches."""
        if self.has_rate() and self.scheme != "truncated-poisson":
            self.rate()
        return SCHEMES[self.scheme].wrap(build, self, adjacency)

    def has_rate(self) -> bool:
        """Whether the size of a batch is stated."""
        return not self.keys.values.keys().isdisjoint(RATE_KEYS)

    def rate(self) -> float:
        """The share of the records in a batch."""
        return self._rate

    @cached_property
    def _rate(self) -> float:
        if self.keys.form(("rate",), ("batch_size", "dataset_size")) == 0:
            return self.keys.number("rate")
        batch_size, dataset_size = self.keys.whole("batch_size"), self.keys.whole("dataset_size")
        if batch_size > dataset_size:
            self.keys.values["batch_size"].fail(
                f"expected a batch no larger than the data set of {dataset_size}, got {batch_size}"
            )
        return batch_size / dataset_size

    def steps_an_epoch(self) -> int:
        """The steps that a record's own is drawn from: stated, or the size of the data set over that of a batch."""
        if self.keys.has("steps") and not (self.is_run and self.scheme_beside):
            if self.has_rate():
                self.keys.values["steps"].fail("steps and the size of a batch do not go together; keep one of them")
            return self.keys.whole("steps")
        if not self.has_rate():
            self.keys.node.fail("steps is missing: how many steps an epoch has, of which each record is in one")
        return self.steps_of()

    @property
    def scheme_beside(self) -> bool:
        """Whether the sampling is a word, with its keys in the entry."""
        return "type" in self.keys.values

    def steps_of(self, epochs: float | Fraction = 1) -> int:
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

    def whole_epochs(self, *, steps: int | None = None, epochs: Fraction | None = None) -> int:
        """How many epochs of random allocation these are: a part of one would be a sampler of its own."""
        from fractions import Fraction

        length = self.steps_an_epoch()
        found = Fraction(steps, length) if steps is not None else epochs
        assert found is not None
        if found.denominator > 1:
            least = math.ceil(found)
            stated = f"steps: {least * length}" if steps is not None else f"epochs: {least}"
            self.keys.node.fail(
                f"random allocation draws one of the {length} steps of an epoch, so epochs are whole: {stated}"
            )
        return int(found)


def _poisson(build: Build, sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.sampled import PoissonSampled

    return PoissonSampled(base=build("add-remove"), sampling_rate=sampling.rate(), adjacency=adjacency)


def _truncated(build: Build, sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    keys = sampling.keys
    for key in ("dataset_size", "largest_batch"):
        if not keys.has(key):
            keys.node.fail(f"{key} is missing; truncated-poisson has rate, dataset_size and largest_batch")
    rate = keys.number("rate") if keys.has("rate") else sampling.rate()
    from dpcalc.mechanisms.truncated import TruncatedPoisson

    return TruncatedPoisson(
        base=build("add-remove"),
        sampling_rate=rate,
        dataset_size=keys.whole("dataset_size"),
        largest_batch=keys.whole("largest_batch"),
        adjacency=adjacency,
    )


def _fixed_size(build: Build, sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.sampled import FixedSizeSampled

    return FixedSizeSampled(base=build(adjacency), sampling_rate=sampling.rate())


def _cyclic(build: Build, _sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.once_per_epoch import OncePerEpoch

    return OncePerEpoch(base=build(adjacency))


def _shuffled(build: Build, _sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.once_per_epoch import OncePerEpoch

    return OncePerEpoch(base=build(adjacency), shuffled=True)


def _allocated(build: Build, sampling: Sampling, adjacency: Adjacency) -> Mechanism:
    from dpcalc.mechanisms.allocated import RandomlyAllocated

    return RandomlyAllocated(
        base=build("add-remove"),
        steps=sampling.steps_an_epoch(),
        selected=sampling.keys.whole("selected", 1),
        adjacency=adjacency,
    )


SCHEMES: Mapping[str, Scheme] = {
    "poisson": Scheme(RATE_KEYS, counts_steps=True, wrap=_poisson),
    "fixed-size": Scheme(RATE_KEYS, counts_steps=True, wrap=_fixed_size),
    "cyclic": Scheme(RATE_KEYS, counts_steps=False, wrap=_cyclic),
    "shuffled": Scheme(RATE_KEYS, counts_steps=False, wrap=_shuffled),
    "random-allocation": Scheme((*RATE_KEYS, *ALLOCATION_KEYS), counts_steps=False, wrap=_allocated),
    "truncated-poisson": Scheme((*RATE_KEYS, *TRUNCATION_KEYS), counts_steps=True, wrap=_truncated),
}


def read_sampling(entry: Reader, *, is_run: bool = False) -> Sampling | None:
    """The sampler of an entry; None if it has none and so uses every record."""
    own = _RUN_KEYS if is_run else SAMPLING_KEYS
    node = entry.values.get("sampling")
    if node is None:
        for key in own:
            if entry.has(key):
                entry.values[key].fail(f"{key} belongs to a sampling, and there is none; add sampling: poisson")
        return None
    scheme, keys = _block(entry, node, own) if isinstance(node.content, dict) else (node.word(SCHEMES), entry)
    for key in own:
        if key in keys.values and key not in SCHEMES[scheme].keys:
            owner = next(name for name, other in SCHEMES.items() if key in other.keys)
            keys.values[key].fail(f"{key} belongs to sampling: {owner}, not to {scheme}")
    return Sampling(scheme, keys, is_run)


def _block(entry: Reader, node: Node, own: tuple[str, ...]) -> tuple[str, Reader]:
    """The scheme of a block, and where its numbers are: inside, or beside it."""
    node.only_keys(("scheme", *SAMPLING_KEYS), "sampling")
    block = Reader(node)
    if not block.has("scheme"):
        node.fail(f"scheme is missing: {one_of(SCHEMES)}")
    scheme = block.values["scheme"].word(SCHEMES)
    inside = [key for key in SAMPLING_KEYS if key in block.values]
    beside = [key for key in own if key in entry.values]
    if inside and beside:
        entry.values[beside[0]].fail(f"{beside[0]} stands beside a sampling that has {inside[0]}; keep one of them")
    return scheme, entry if beside else block
