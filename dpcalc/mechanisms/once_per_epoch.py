"""A mechanism on batches that together hold each record once: an epoch in a fixed order, or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpcalc.arrays import Floats
from dpcalc.errors import IncompatibleError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.pairs.base import Pair, Runs


@dataclass(frozen=True, kw_only=True)
class OncePerEpoch(Mechanism):
    """The base mechanism on batches that together hold each record once: un-amplified, and once for the whole epoch.

    The batches of an epoch are disjoint, so by parallel composition one record meets one release of the base. A
    shuffle before each epoch is accounted for in the same way: no amplification is claimed for it.
    """

    type: ClassVar[str] = "once-per-epoch"

    base: Mechanism
    shuffled: bool = False

    def __post_init__(self) -> None:
        if self.base.sampler() != "none":
            raise IncompatibleError(f"cannot sample a mechanism that is already sampled ({self.base.sampler()}).")

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        return self.base.adjacency

    def gdp(self) -> float | None:
        return self.base.gdp()

    def gdp_is_exact(self) -> bool:
        return not self.shuffled and self.base.gdp_is_exact()

    def factors(self) -> tuple[tuple[Mechanism, int], ...]:
        return tuple((replace(self, base=factor), times) for factor, times in self.base.factors())

    def zcdp(self) -> float | None:
        return self.base.zcdp()

    def rdp(self, orders: Floats) -> Floats:
        return self.base.rdp(orders)

    def pairs(self) -> tuple[Pair, Pair]:
        return self.base.pairs()

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return None if self.shuffled else self.base.attained_pairs()

    def runs(self, count: int) -> Runs:
        return self.base.runs(count)

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:
        return None if self.shuffled else self.base.attained_runs(count, order)

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:
        return None if self.shuffled else self.base.attained_last(count, order)

    def as_replace_one(self) -> Mechanism:
        return OncePerEpoch(base=self.base.as_replace_one(), shuffled=self.shuffled)

    def sampler(self) -> str:
        return "shuffled" if self.shuffled else "cyclic"

    def theorem(self) -> str:
        return "disjoint batches: one un-amplified release per epoch (parallel composition)"

    def assumptions(self) -> tuple[str, ...]:
        one = "each record is used exactly once per epoch, in batches that do not depend on the data"
        return (*self.base.assumptions(), one, "the count is the number of epochs")

    def warnings(self) -> tuple[str, ...]:
        if not self.shuffled:
            return ()
        return (
            "shuffled batches are accounted for without amplification; drawing each record's step of every epoch by "
            "itself is as cheap and is amplified (sampling: random-allocation, in a spec and in training alike)",
        )

    def spec(self) -> Mapping[str, Any]:
        return {**self.base.spec(), "sampling": {"scheme": self.sampler()}}
