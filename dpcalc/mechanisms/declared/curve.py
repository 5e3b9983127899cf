"""What declared Rényi curves share: pairs above all mechanisms within them, and mechanisms that attain these."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from dpcalc import conversions
from dpcalc.mechanisms.declared.base import Declared
from dpcalc.rounding import SMALLEST_NORMAL, up

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.conversions.bernoulli import RenyiRegion
    from dpcalc.pairs.base import Pair, Runs
    from dpcalc.pairs.points import PointPair
    from dpcalc.pairs.renyi_frontier import Frontier

_FEW = 64  # runs of which a better last one is worth its while


class RenyiCurve(Declared):
    """What declared Rényi curves share: the pair is the best δ(ε) that the curve implies, at every ε of a grid."""

    is_curve: ClassVar[bool] = True
    conversion: ClassVar[str] = (
        "arXiv 2602.04562: RDP to (ε,δ) by the Bernoulli pairs within it (exact at the orders given), and the best "
        "over real orders"
    )

    @abstractmethod
    def largest_order(self) -> float:
        """Up to which order the curve is known."""

    @abstractmethod
    def region(self, near: float = 0.0) -> RenyiRegion:
        """The Bernoulli pairs that some of the orders allow, among them those that should decide `near` an ε."""

    @abstractmethod
    def frontier(self) -> Frontier | None:
        """Bernoulli pairs at the limits of all orders."""

    @abstractmethod
    def gaussian(self) -> float:
        """The ρ of a Gaussian mechanism that all orders allow."""

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """That Gaussian is one of the mechanisms described."""
        if self.gaussian() == 0:
            return None
        from dpcalc.pairs.gaussian import GaussianPair

        pair = GaussianPair(math.nextafter(math.sqrt(2 * self.gaussian()), 0.0))
        return pair, pair

    def attained_sampled(self, rate: float, order: Callable[[], float]) -> tuple[Pair, Pair] | None:
        """The worse of that Gaussian and of the Bernoulli pairs within the curve, at the order that decides."""
        import numpy as np

        from dpcalc.pairs.subsampled_renyi import log_excess

        gaussian, frontier = self.attained_pairs(), self.frontier()
        bernoulli, moment = (None, -math.inf) if frontier is None else frontier.worst(order(), rate)
        if bernoulli is None:
            return gaussian
        sigma = np.array([1 / math.sqrt(2 * max(self.gaussian(), SMALLEST_NORMAL))])
        least = float(np.logaddexp(0.0, log_excess(np.array([1 + order()]), sigma, rate)[0, 0]))
        return gaussian if gaussian and least >= moment else (bernoulli, bernoulli.reversed())

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:
        """The last of a few runs is the Bernoulli pair that is worst after all that was released before it."""
        frontier = self.frontier() if count <= _FEW else None
        tests = None if frontier is None else frontier.tests()
        if tests is None:
            return None
        first = self.attained_runs(count - 1, order) if count > 1 else ()
        return None if first is None else (*first, ((tests, tests), 1))

    def sampled_excess(self, rate: float, orders: Floats) -> tuple[Floats, Floats] | None:
        """By the moments that the curve bounds, and not by the pair, which may be any mechanism within it anew."""
        from dpcalc.pairs.sampled_curve import sampled_excess

        return sampled_excess(self.rdp, lambda whole: self._sampled_moments(rate, whole), rate, orders)

    def _sampled_moments(self, rate: float, orders: Floats) -> Floats:
        """Upper bounds on log(E[(1 - q + q dP/dQ)^n] - 1) at whole numbers n."""
        from dpcalc.pairs.sampled_curve import binomial_excess

        return binomial_excess(self.rdp, rate, orders)

    def gdp(self) -> float | None:
        return None

    def pure_epsilon(self) -> float | None:
        return None

    def rdp_at(self, orders: Sequence[float]) -> list[float]:
        import numpy as np

        found: list[float] = self.rdp(np.array(orders, dtype=np.float64)).tolist()
        return found

    def epsilon_at(self, delta: float) -> float:
        """By single orders, or by tests within several: where δ is large these are much better."""
        found = conversions.rdp_curve_epsilon(self.rdp, delta, largest=self.largest_order())
        return min(found, self.region(found).epsilon(delta)) if found else found

    def delta_at(self, epsilon: float) -> float:
        return self._delta(epsilon) if epsilon else self._advantage

    def _delta(self, epsilon: float) -> float:
        found = conversions.rdp_curve_delta(self.rdp, epsilon, largest=self.largest_order())
        return min(found, self.region(epsilon).delta(epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        shifted = false_positive_rate + self.advantage()
        return min(self.region().true_positive_rate(false_positive_rate), up(shifted, 1))

    def advantage(self) -> float:
        return self._advantage

    @cached_property
    def _advantage(self) -> float:
        return self._delta(0.0)

    def _profile_pair(self, orders: Floats, largest_loss: float, mu: float = math.inf) -> PointPair:
        """The pair of the best δ that single orders give at some losses, and the Bernoulli pairs at theirs.

        It is no larger than that of μ-GDP, where that is known too.
        """
        import numpy as np

        from dpcalc.pairs.points import LARGEST_LOSS
        from dpcalc.pairs.profile import pair_of_profile

        largest_loss = min(largest_loss, LARGEST_LOSS)
        losses = np.minimum(np.sinh(np.linspace(0.0, np.arcsinh(1e3 * largest_loss), 300)) / 1e3, largest_loss)
        rdps = self.rdp(orders)
        deltas = np.concatenate(
            [conversions.rdp_deltas(orders, rdps, chunk[:, None]).min(axis=1) for chunk in np.array_split(losses, 6)]
        )
        frontier = self.frontier()
        if frontier is not None:
            more, above = frontier.profile()
            inside = more < losses[-1]  # what is said at the last one counts as infinite
            losses, first = np.unique(np.append(losses, more[inside]), return_index=True)
            deltas = np.append(deltas, above[inside])[first]
        if mu < math.inf:
            deltas = np.minimum(deltas, conversions.gdp_delta(mu, losses))
        return pair_of_profile(losses, deltas)
