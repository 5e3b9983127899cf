"""ρ-zCDP (Bun, Steinke 2016) and RDP at some orders (Mironov 2017): statements that bound a Rényi curve."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc import conversions
from dpcalc.conversions.ranges import expect
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.declared.base import Declared, times
from dpcalc.mechanisms.validation import expect_adjacency
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, RENYI_ORDER
from dpcalc.rounding import UNIT, times_up, up

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.conversions.bernoulli import RenyiRegion
    from dpcalc.pairs.base import Pair
    from dpcalc.pairs.gaussian import GaussianPair
    from dpcalc.pairs.points import PointPair


class _FromRdp(Declared):
    """What declared Rényi curves share: the pair is the best δ(ε) that the curve implies, at every ε of a grid."""

    conversion: ClassVar[str] = (
        "arXiv 2602.04562: RDP to (ε,δ) by the Bernoulli pairs within it (exact at the orders given), and the best "
        "over real orders"
    )

    @abstractmethod
    def largest_order(self) -> float:
        """Up to which order the curve is known."""

    @abstractmethod
    def region(self) -> RenyiRegion:
        """The Bernoulli pairs that some of the orders allow."""

    def gdp(self) -> float | None:
        return None

    def pure_epsilon(self) -> float | None:
        return None

    def rdp_at(self, orders: Sequence[float]) -> list[float]:
        import numpy as np

        found: list[float] = self.rdp(np.array(orders, dtype=np.float64)).tolist()
        return found

    def epsilon_at(self, delta: float) -> float:
        return conversions.rdp_curve_epsilon(self.rdp, delta, largest=self.largest_order())

    def delta_at(self, epsilon: float) -> float:
        return conversions.rdp_curve_delta(self.rdp, epsilon, largest=self.largest_order())

    def true_positive_rate(self, false_positive_rate: float) -> float:
        shifted = false_positive_rate + self.advantage()
        return min(self.region().true_positive_rate(false_positive_rate), up(shifted, 1))

    def advantage(self) -> float:
        return self._advantage

    @cached_property
    def _advantage(self) -> float:
        return min(self.region().delta(0.0), self.delta_at(0.0))

    def _profile_pair(self, orders: Floats, largest_loss: float) -> PointPair:
        import numpy as np

        from dpcalc.pairs.points import LARGEST_LOSS
        from dpcalc.pairs.profile import pair_of_profiles

        largest_loss = min(largest_loss, LARGEST_LOSS)
        losses = np.sinh(np.linspace(0.0, np.arcsinh(1e3 * largest_loss), 600)) / 1e3
        rdps, known = self.rdp(orders), self.region().profile(losses)
        chunks = np.array_split(losses, 12)
        deltas = np.concatenate([conversions.rdp_deltas(orders, rdps, chunk[:, None]).min(axis=1) for chunk in chunks])
        deltas = np.minimum(deltas, known)
        return pair_of_profiles(losses, deltas, deltas)


@dataclass(frozen=True, kw_only=True)
class DeclaredZCDP(_FromRdp):
    """Any ρ-zCDP mechanism: RDP at most αρ at every order."""

    type: ClassVar[str] = "zcdp"
    name: ClassVar[str] = "ρ-zCDP"

    rho: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect("rho", self.rho, POSITIVE)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> PointPair:
        import numpy as np

        reach = self.rho + 2 * math.sqrt(self.rho * 180)
        orders = 1 + np.geomspace(1e-3, 1e3, 400) * (1 + 20 / math.sqrt(self.rho))
        return self._profile_pair(orders, reach)

    @cached_property
    def _gaussian(self) -> GaussianPair:
        from dpcalc.pairs.gaussian import GaussianPair

        return GaussianPair(math.nextafter(math.sqrt(2 * self.rho), 0.0))

    def zcdp(self) -> float:
        return self.rho

    def largest_order(self) -> float:
        return 1e12

    def region(self) -> RenyiRegion:
        """The Kullback–Leibler divergence is at most ρ too, and decides where errors of both kinds are alike."""
        import numpy as np

        from dpcalc.conversions.bernoulli import RenyiRegion

        orders = np.append(1.0, 1 + np.geomspace(0.03, 300.0, 18) * min(1.0, 10 / math.sqrt(self.rho)))
        return RenyiRegion(orders, orders * self.rho)

    def rdp(self, orders: Floats) -> Floats:
        import numpy as np

        with np.errstate(over="ignore"):
            return orders * self.rho * (1 + 2 * UNIT)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """The Gaussian of μ = √(2ρ) is one of the mechanisms described."""
        return self._gaussian, self._gaussian

    def group(self, size: int) -> DeclaredZCDP:
        """Bun, Steinke (2016), Proposition 27."""
        return DeclaredZCDP(rho=times(self.rho, size, size), adjacency=self.adjacency)

    def repeated(self, times: int) -> DeclaredZCDP:
        return DeclaredZCDP(rho=times_up(self.rho, times), adjacency=self.adjacency)

    def as_replace_one(self) -> DeclaredZCDP:
        """Group privacy: two records are 4ρ-zCDP (Bun, Steinke 2016, Proposition 27)."""
        return DeclaredZCDP(rho=4 * self.rho, adjacency="replace-one")

    def theorem(self) -> str:
        return "declared zCDP: added as RDP, or through the δ(ε) it implies at every ε"

    def reasons(self) -> tuple[str, ...]:
        return ("μ is not given: zCDP bounds Rényi divergences, and no finite μ-GDP is known to follow from them.",)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "rho": self.rho}


@dataclass(frozen=True, kw_only=True)
class DeclaredRDP(_FromRdp):
    """A mechanism whose Rényi divergence is at most epsilons[i] at orders[i]; between them, by convexity."""

    type: ClassVar[str] = "rdp"
    name: ClassVar[str] = "RDP"

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))
        object.__setattr__(self, "epsilons", tuple(float(epsilon) for epsilon in self.epsilons))
        expect("orders", self.orders, RENYI_ORDER)
        expect("epsilons", self.epsilons, NON_NEGATIVE)
        expect_adjacency(self.adjacency)
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise InputError(
                f"Expected as many epsilons ({len(self.epsilons)}) as orders ({len(self.orders)}), at least one."
            )

    @cached_property
    def _pair(self) -> PointPair:
        import numpy as np

        _, largest = conversions.rdp_between(self.orders, self.epsilons)
        orders = np.union1d(1 + np.geomspace(1e-4, largest - 1, 200), self.orders)
        orders = orders[orders <= largest]
        return self._profile_pair(orders, max(self.epsilons) + 180 / (largest - 1))

    def zcdp(self) -> float | None:
        return None

    def largest_order(self) -> float:
        return max(self.orders)

    def region(self) -> RenyiRegion:
        import numpy as np

        from dpcalc.conversions.bernoulli import RenyiRegion

        # Divergences grow with the order, so that the bound of a very large order holds at a smaller one too.
        return RenyiRegion(np.minimum(self.orders, 1e6), np.maximum(self.epsilons, 1e-200))

    def rdp(self, orders: Floats) -> Floats:
        curve, _ = conversions.rdp_between(self.orders, self.epsilons)
        return curve(orders)

    def epsilon_at(self, delta: float) -> float:
        return min(super().epsilon_at(delta), self.region().epsilon(delta))

    def delta_at(self, epsilon: float) -> float:
        return min(super().delta_at(epsilon), self.region().delta(epsilon))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return None

    def group(self, size: int) -> DeclaredRDP:
        """Mironov (2017), Proposition 2: 2^c records are (α/2^c, 3^c·ε)-RDP for α ≥ 2^(c+1)."""
        doublings = (size - 1).bit_length()
        kept = [
            (a / 2**doublings, times_up(e, 3**doublings))
            for a, e in zip(self.orders, self.epsilons, strict=True)
            if a >= 2 ** (doublings + 1)
        ]
        if doublings > 100:
            raise InputError(f"groups of {size:.3g} records are too large: nothing holds for them", where="group")
        if not kept:
            raise InputError(
                f"expected an RDP order of at least {2 ** (doublings + 1)} for groups of {size}, "
                f"got orders up to {self.largest_order():g}",
                where="group",
            )
        orders, epsilons = (tuple(column) for column in zip(*kept, strict=True))
        return DeclaredRDP(orders=orders, epsilons=epsilons, adjacency=self.adjacency)

    def repeated(self, times: int) -> DeclaredRDP:
        epsilons = tuple(times_up(epsilon, times) for epsilon in self.epsilons)
        return DeclaredRDP(orders=self.orders, epsilons=epsilons, adjacency=self.adjacency)

    def theorem(self) -> str:
        return "declared RDP: added per order, or through the δ(ε) it implies at every ε"

    def reasons(self) -> tuple[str, ...]:
        return (f"μ and ρ are not given: RDP at orders up to {self.largest_order():g} bounds neither GDP nor zCDP.",)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "orders": list(self.orders), "epsilons": list(self.epsilons)}
