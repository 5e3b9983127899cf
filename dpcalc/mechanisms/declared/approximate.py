"""(ε,δ)-DP; ε-DP with δ = 0, whose worst case is randomised response."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc import conversions
from dpcalc.conversions.ranges import expect
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, MuKind
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared.base import Declared, times
from dpcalc.mechanisms.validation import expect_adjacency
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY_OR_ZERO
from dpcalc.rounding import times_up

if TYPE_CHECKING:
    from dpcalc.pairs.base import Pair
    from dpcalc.pairs.points import PointPair


@dataclass(frozen=True, kw_only=True)
class DeclaredDP(Declared):
    """Any (ε,δ)-DP mechanism: two points at ±ε and δ at infinity dominate it (Kairouz, Oh, Viswanath 2015)."""

    type: ClassVar[str] = "dp"
    name: ClassVar[str] = "(ε,δ)-DP"
    conversion: ClassVar[str] = (
        "Kairouz, Oh, Viswanath (2015): the worst case is randomised response that fails with probability δ"
    )
    mu_kind: ClassVar[MuKind | None] = "upper"
    attained: ClassVar[bool] = True

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect("epsilon", self.epsilon, NON_NEGATIVE)
        expect("delta", self.delta, PROBABILITY_OR_ZERO)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> PointPair:
        from dpcalc.pairs.points import pure_dp_pair

        return pure_dp_pair(self.epsilon, self.delta)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def rdp_at(self, orders: Sequence[float]) -> list[float]:
        return [math.inf if self.delta else conversions.pure_dp_rdp_at(self.epsilon, order) for order in orders]

    def epsilon_at(self, delta: float) -> float | None:
        epsilon = conversions.dp_epsilon(self.epsilon, self.delta, delta)
        return epsilon if math.isfinite(epsilon) else None

    def delta_at(self, epsilon: float) -> float:
        return conversions.dp_delta(self.epsilon, self.delta, epsilon)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        return conversions.dp_true_positive_rate(self.epsilon, self.delta, false_positive_rate)

    def group(self, size: int) -> DeclaredDP:
        times(self.epsilon, 1, size)
        epsilon, delta = conversions.group_dp(self.epsilon, self.delta, size)
        if delta >= 1:
            raise InputError(f"groups of {size} have δ = 1: (ε,δ)-DP does not protect them at all", where="group")
        return DeclaredDP(epsilon=epsilon, delta=delta, adjacency=self.adjacency)

    def repeated(self, times: int) -> DeclaredDP:
        """Basic composition."""
        epsilon, delta = times_up(self.epsilon, times), times_up(self.delta, times)
        return DeclaredDP(epsilon=epsilon, delta=delta, adjacency=self.adjacency)

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: a group of two."""
        epsilon, delta = conversions.group_dp(self.epsilon, self.delta, 2)
        return ReplacedDP(epsilon=epsilon, delta=delta, adjacency="replace-one", base=self)

    def replaced(self) -> tuple[tuple[Pair, Pair], tuple[Pair, Pair] | None]:
        if self.delta:
            return super().replaced()
        from dpcalc.pairs.points import two_links_pair

        pair = two_links_pair(self.epsilon)
        return (pair, pair), (pair, pair)

    def theorem(self) -> str:
        return "declared (ε,δ): two points and δ at infinity dominate it (Kairouz, Oh, Viswanath 2015)"

    def reasons(self) -> tuple[str, ...]:
        if not self.delta:
            return ()
        return (
            f"μ, ρ and RDP are not given: with δ = {self.delta:g} > 0 the mechanism may fail outright, "
            "which no finite GDP, zCDP or RDP allows.",
        )

    def pure_epsilon(self) -> float | None:
        return None if self.delta else self.epsilon

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, kw_only=True)
class ReplacedDP(DeclaredDP):
    """What (ε,δ)-DP under add-remove implies under replace-one; replaced by one without influence is removed."""

    base: Mechanism

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return self.base.attained_pairs()
