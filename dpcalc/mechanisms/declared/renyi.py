"""ρ-zCDP (Bun, Steinke 2016) and RDP at some orders (Mironov 2017): statements that bound a Rényi curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc import conversions
from dpcalc.conversions.many_runs import zcdp_runs_mu
from dpcalc.conversions.ranges import expect
from dpcalc.effort import remembered
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared.base import times
from dpcalc.mechanisms.declared.curve import RenyiCurve
from dpcalc.mechanisms.validation import expect_adjacency
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, RENYI_ORDER
from dpcalc.rounding import UNIT, down, over_down, times_up, up

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.conversions.bernoulli import RenyiRegion
    from dpcalc.pairs.base import Pair, Runs
    from dpcalc.pairs.points import PointPair
    from dpcalc.pairs.renyi_frontier import Frontier

_ALIKE = 1.002  # μ² of what dominates many runs, over that of Gaussian ones: no more is to be gained


@dataclass(frozen=True, kw_only=True)
class DeclaredZCDP(RenyiCurve):
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
        return self._below()

    def _below(self, mu: float = math.inf) -> PointPair:
        """The pair, where also some μ-GDP is known."""
        import numpy as np

        reach = self.rho + 2 * math.sqrt(self.rho * 180)
        orders = 1 + np.geomspace(1e-3, 1e3, 400) * (1 + 20 / math.sqrt(self.rho))
        return self._profile_pair(orders, reach, mu)

    def runs(self, count: int) -> Runs:
        """All together ρ·count-zCDP, and nearly as good as Gaussian ones where they are many."""
        pair = self._pair if count == 1 else _pair_of_runs(self, count)
        return (((pair, pair), 1),)

    def zcdp(self) -> float:
        return self.rho

    def gaussian(self) -> float:
        return self.rho

    def frontier(self) -> Frontier | None:
        from dpcalc.pairs.renyi_frontier import zcdp_frontier

        return zcdp_frontier(self.rho)

    def largest_order(self) -> float:
        return 1e12

    def region(self, near: float = 0.0) -> RenyiRegion:
        """The Kullback–Leibler divergence is at most ρ too, and decides where errors of both kinds are alike.

        Beyond ρ the orders of the Gaussian of this ρ count that decide there.
        """
        import numpy as np

        from dpcalc.conversions.bernoulli import RenyiRegion

        common = np.geomspace(0.02, 12.0, 24) * min(1 / math.sqrt(self.rho), 1e6)
        around = np.geomspace(0.7, 1.4, 17) * min((near / self.rho - 1) / 2, 1e6) if near > self.rho else np.zeros(0)
        orders = np.append(1.0, 1 + np.sort(np.append(common, around)))
        return RenyiRegion(orders, orders * self.rho)

    def rdp(self, orders: Floats) -> Floats:
        import numpy as np

        with np.errstate(over="ignore"):
            return orders * self.rho * (1 + 2 * UNIT)

    def _sampled_moments(self, rate: float, orders: Floats) -> Floats:
        """Those of a Gaussian, which attains all bounds at once."""
        import numpy as np

        from dpcalc.pairs.subsampled_renyi import log_excess

        sigma = np.array([down(1 / math.sqrt(2 * self.rho))])
        return np.asarray(log_excess(orders, sigma, rate)[0])

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

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


@remembered(32)
def _pair_of_runs(mechanism: DeclaredZCDP, count: int) -> Pair:
    """A pair that dominates so many adaptively chosen ones."""
    whole, mu = mechanism.repeated(count), zcdp_runs_mu(mechanism.rho, count)
    if mu * mu >= 2 * whole.rho * _ALIKE:
        return whole._below(mu)
    from dpcalc.pairs.gaussian import GaussianPair

    return GaussianPair(mu)


@dataclass(frozen=True, kw_only=True)
class DeclaredRDP(RenyiCurve):
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

    def region(self, near: float = 0.0) -> RenyiRegion:  # noqa: ARG002
        import numpy as np

        from dpcalc.conversions.bernoulli import RenyiRegion

        # Divergences grow with the order, so that the bound of a very large order holds at a smaller one too.
        return RenyiRegion(np.minimum(self.orders, 1e6), np.maximum(self.epsilons, 1e-200))

    def rdp(self, orders: Floats) -> Floats:
        curve, _ = conversions.rdp_between(self.orders, self.epsilons)
        return curve(orders)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def gaussian(self) -> float:
        return min(over_down(epsilon, order) for order, epsilon in zip(self.orders, self.epsilons, strict=True))

    def frontier(self) -> Frontier | None:
        from dpcalc.pairs.renyi_frontier import rdp_frontier

        return rdp_frontier(self.orders, self.epsilons)

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


def together(parts: Sequence[tuple[Mechanism, int]]) -> Sequence[tuple[Mechanism, int]]:
    """The parts with declared Rényi curves added up, order by order; the same where that says no more than they do."""
    curves = [(each, count) for each, count in parts if isinstance(each, DeclaredZCDP | DeclaredRDP)]
    stated = [set(each.orders) for each, _ in curves if isinstance(each, DeclaredRDP)]
    common = tuple(sorted(set.intersection(*stated))) if stated else ()
    if not curves or (len(curves) == 1 and (curves[0][1] == 1 or not stated)) or (stated and not common):
        return parts
    adjacency = curves[0][0].adjacency
    whole: Mechanism
    if stated:
        sums = tuple(_sum_up([(_at(each, order), count) for each, count in curves]) for order in common)
        whole = DeclaredRDP(orders=common, epsilons=sums, adjacency=adjacency)
    else:
        rho = _sum_up([(each.rho, count) for each, count in curves if isinstance(each, DeclaredZCDP)])
        whole = DeclaredZCDP(rho=rho, adjacency=adjacency)
    return [*((each, count) for each, count in parts if not isinstance(each, RenyiCurve)), (whole, 1)]


def _at(curve: DeclaredZCDP | DeclaredRDP, order: float) -> float:
    """What is declared at an order, rounded to nearest."""
    if isinstance(curve, DeclaredZCDP):
        return order * curve.rho
    return min(epsilon for known, epsilon in zip(curve.orders, curve.epsilons, strict=True) if known == order)


def _sum_up(terms: Sequence[tuple[float, int]]) -> float:
    """Σ count·value, rounded up, of values that may be off by one rounding."""
    return up(math.fsum(value * count for value, count in terms), 3)
