"""Random allocation: each record takes part in so many steps of an epoch, drawn uniformly, secretly and by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import IncompatibleError, InputError
from dpcalc.evidence import Evidence
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_whole
from dpcalc.pairs.base import Pair, Runs
from dpcalc.pairs.sums.allocated import AllocatedPair, GroupPair
from dpcalc.pairs.sums.allocated import Side as _Side
from dpcalc.rounding import UNIT, times_up, up


@dataclass(frozen=True, kw_only=True)
class RandomlyAllocated(Mechanism):
    """One epoch of `steps` releases of the base, of which each record takes part in `selected`, uniformly drawn.

    1 of t: X = (Z₁ + … + Z_t)/t dominates, adaptively too, and is attained (Feldman, Shenfeld 2025). k of t: a random
    partition into k blocks and one step of each is a uniform draw of k, so the composition of 1 of ⌊t/k⌋ or ⌈t/k⌉
    steps, in all t, dominates; it is not attained. t of t is the base t times. Replace-one: a removal and an addition.
    """

    type: ClassVar[str] = "randomly-allocated"

    base: Mechanism
    steps: int
    selected: int = 1
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_whole("steps", self.steps)
        expect_whole("selected", self.selected)
        if self.selected > self.steps:
            raise InputError(f"Expected selected={self.selected} of at most steps={self.steps}.")
        if self.base.sampler() != "none":
            raise IncompatibleError(f"cannot sample a mechanism that is already sampled ({self.base.sampler()}).")
        if self.base.adjacency != "add-remove":
            raise IncompatibleError(
                "random allocation needs the base mechanism under add-remove: it compares an epoch with and without "
                f"one record, and this one is stated under {self.base.adjacency}."
            )
        if self.adjacency == "replace-one" and 1 < self.selected < self.steps:
            raise IncompatibleError(
                "no bound is proved for several of an epoch's steps under replace-one; use selected: 1, or add-remove."
            )

    def sampler(self) -> str:
        return "random-allocation"

    def _unsampled(self) -> Mechanism:
        """One release that the record is known to be in, under this adjacency."""
        return self.base if self.adjacency == "add-remove" else self.base.as_replace_one()

    @property
    def _is_plain(self) -> bool:
        return self.selected == self.steps

    def _blocks(self) -> tuple[tuple[int, int], ...]:
        """Sizes of blocks, one step of each of which is drawn, and how many there are of each size."""
        if self._is_plain:
            return ((1, self.steps),)
        size, larger = divmod(self.steps, self.selected)
        return tuple(block for block in ((size, self.selected - larger), (size + 1, larger)) if block[1])

    def _pairs_of(self, pairs: tuple[Pair, Pair], size: int, side: _Side) -> tuple[Pair, Pair]:
        if size == 1:
            return pairs
        remove, add = pairs
        down = AllocatedPair(remove, size, side)
        if add == remove.reversed():
            return down, down.reversed()
        return down, AllocatedPair(add.reversed(), size, side).reversed()

    @cached_property
    def _dominating(self) -> Runs:
        if self._is_plain:
            return ((self._unsampled().pairs(), self.steps),)
        found = []
        for size, count in self._blocks():
            pairs = self._pairs_of(self.base.pairs(), size, "upper")
            if self.adjacency == "replace-one":
                group = GroupPair(*pairs)
                pairs = group, group
            found.append((pairs, count))
        return tuple(found)

    def pairs(self) -> tuple[Pair, Pair]:
        """Of the first block: see `runs` for a whole epoch."""
        return self._dominating[0][0]

    def runs(self, count: int) -> Runs:
        return tuple((pairs, copies * count) for pairs, copies in self._dominating)

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Gradients that do not depend on outputs, all steps released; nothing is known for some of the steps."""
        if self._is_plain:
            return self._unsampled().attained_pairs()
        attained = self.base.attained_pairs()
        return self._pairs_of(attained, self.steps, "lower") if attained and self.selected == 1 else None

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:
        return super().attained_runs(self.steps * count if self._is_plain else count, order)

    def basic_dp(self) -> tuple[float, float]:
        """Whichever steps were drawn, it is the base so many times."""
        epsilon, delta = self._unsampled().basic_dp()
        return times_up(epsilon, self.selected), min(times_up(delta, self.selected), 1.0)

    def gdp(self) -> float | None:
        mu = self._unsampled().gdp()
        return mu if mu is None or self.selected == 1 else up(mu * math.sqrt(self.selected), 2)

    def gdp_is_exact(self) -> bool:
        return self._is_plain and self._unsampled().gdp_is_exact()

    def zcdp(self) -> float | None:
        rho = self._unsampled().zcdp()
        return rho if rho is None else times_up(rho, self.selected)

    def rdp(self, orders: Floats) -> Floats:
        """Never more than that of the steps it took part in: divergences are jointly quasi-convex."""
        return np.asarray(self.selected * self._unsampled().rdp(orders) * (1 + 2 * UNIT))

    def evidence(self) -> Evidence:
        without = "μ, ρ and RDP of random allocation are those of the steps that a record is in, without amplification"
        return super().evidence() + Evidence(remarks=() if self._is_plain else (without,))

    def theorem(self) -> str:
        if self._is_plain:
            return "every record takes part in every step"
        if self.selected > 1:
            return "random allocation of several steps: blocks with one each (Feldman, Shenfeld 2025); an upper bound"
        if self.adjacency == "replace-one":
            return "random allocation; replace-one as a group of one removal and one addition"
        return "random allocation, mean of likelihood ratios, both directions (Feldman, Shenfeld 2025)"

    def assumptions(self) -> tuple[str, ...]:
        drawn = f"{self.selected} of the {self.steps} steps" if self.selected > 1 else f"one of the {self.steps} steps"
        lines = (
            *self.base.assumptions(),
            f"in every epoch each record is drawn into {drawn}, uniformly, secretly and independently of all others",
            "the count is the number of epochs",
        )
        if self.adjacency == "replace-one":
            lines += ("the stated sensitivity bounds the effect of adding or removing one record",)
        return lines

    def spec(self) -> Mapping[str, Any]:
        sampling: dict[str, Any] = {"scheme": self.sampler(), "steps": self.steps}
        if self.selected > 1:
            sampling["selected"] = self.selected
        return {**self.base.spec(), "sampling": sampling}
