"""What a mechanism says about itself. Accountants ask these questions and never name a mechanism class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc import conversions
from dpcalc.errors import IncompatibleError
from dpcalc.evidence import Evidence
from dpcalc.guarantee import Adjacency

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.pairs.base import Pair, Runs


class Mechanism(ABC):
    """One release. An immutable record that completely documents the mathematical behaviour.

    A subclass is a frozen dataclass with keyword-only fields, validated on construction.
    """

    type: ClassVar[str]
    is_curve: ClassVar[bool] = False
    """Whether it is a bound on Rényi divergences, and any mechanism within it (`declared.RenyiCurve`)."""
    adjacency: Adjacency

    def gdp(self) -> float | None:
        """The smallest μ known such that the mechanism is μ-GDP, by default that of its ε; None if no finite one is."""
        epsilon = self.pure_epsilon()
        return None if epsilon is None else conversions.pure_dp_mu(epsilon)

    def gdp_is_exact(self) -> bool:
        """Whether `gdp` is the mechanism's whole trade-off curve (a Gaussian) and not only a bound on it."""
        return False

    def zcdp(self) -> float | None:
        """A ρ such that the mechanism is ρ-zCDP (RDP at most αρ at every order); None if no finite one is known."""
        epsilon = self.pure_epsilon()
        return None if epsilon is None else conversions.pure_dp_rho(epsilon)

    def rdp(self, orders: Floats) -> Floats:
        """Upper bounds on the Rényi divergence at each order > 1, over both directions; inf where there is none."""
        import numpy as np

        remove, add = self.pairs()
        if add == remove.reversed():
            return self._least_rdp(remove.two_sided_rdp(orders), orders)
        return self._least_rdp(np.max([pair.rdp(orders) for pair in dict.fromkeys((remove, add))], axis=0), orders)

    def _least_rdp(self, bound: Floats, orders: Floats) -> Floats:
        """The bound that the pairs give, or a smaller one that is known of the mechanism."""
        import numpy as np

        epsilon = self.pure_epsilon()
        return bound if epsilon is None else np.minimum(bound, conversions.pure_dp_rdp(epsilon, orders))

    def sampled_excess(self, rate: float, orders: Floats) -> tuple[Floats, Floats] | None:  # noqa: ARG002
        """Upper bounds on log(E[X^α] - 1) and log(E[X^{1-α}] - 1), X = 1 - q + q dP/dQ, for a rate q < 1.

        None where the pairs, mixed, know as much.
        """
        return None

    def rdp_is_of_pairs(self) -> bool:
        """Whether no smaller Rényi divergences are known than those of the dominating pairs."""
        return type(self).rdp is Mechanism.rdp or self.gdp_is_exact()

    @classmethod
    def rdps(cls, mechanisms: Sequence[Mechanism], orders: Floats) -> Floats:
        """`rdp` of some mechanisms of this class, one row for each: pairs that serve both directions in one go."""
        import numpy as np

        if cls.rdp is not Mechanism.rdp:  # a curve of its own, for which no pair need be made
            return np.stack([mechanism.rdp(orders) for mechanism in mechanisms])
        rows = np.empty((len(mechanisms), len(orders)))
        kinds: dict[type[Pair], list[tuple[int, Pair]]] = {}
        for row, mechanism in enumerate(mechanisms):
            remove, add = mechanism.pairs()
            if add == remove.reversed():
                kinds.setdefault(type(remove), []).append((row, remove))
            else:
                rows[row] = mechanism.rdp(orders)
        for kind, members in kinds.items():
            bounds = kind.two_sided_rdps([pair for _, pair in members], orders)
            for (row, _), bound in zip(members, bounds, strict=True):
                rows[row] = mechanisms[row]._least_rdp(bound, orders)
        return rows

    @abstractmethod
    def pairs(self) -> tuple[Pair, Pair]:
        """Dominating pairs for the two directions (remove, add); the same object twice if one serves both."""

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Pairs that some neighbouring data of some mechanism of this description attain, for lower bounds.

        By default the dominating pairs themselves; None where nothing better than zero is known.
        """
        return self.pairs()

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:  # noqa: ARG002
        """A pair that dominates replacing a record which is sampled at a rate, and one that is attained by it.

        None where that is not known: see `pairs.turned`. The mechanism is stated for adding or removing a record.
        """
        return None

    def runs(self, count: int) -> Runs:
        """Pairs that dominate `count` adaptive runs together, with how often: by default those of one run."""
        return ((self.pairs(), count),)

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:  # noqa: ARG002
        """Pairs that `count` runs together attain, with how often; None if unknown.

        Where the data may be chosen, they are bad at the Rényi order that decides about the whole list.
        """
        attained = self.attained_pairs()
        return attained and ((attained, count),)

    def attained_sampled(self, rate: float, order: Callable[[], float]) -> tuple[Pair, Pair] | None:  # noqa: ARG002
        """Pairs that one run attains and that are bad on a sample: by default those of `attained_pairs`."""
        return self.attained_pairs()

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:  # noqa: ARG002
        """Pairs that `count` runs attain after all others, the data being chosen by what was released before them.

        None where such choices gain nothing, or are not worked out.
        """
        return None

    def factors(self) -> tuple[tuple[Mechanism, int], ...]:
        """Mechanisms that together, each so often, tell neighbours apart as one run of this does: by default itself."""
        return ((self, 1),)

    def basic_dp(self) -> tuple[float, float]:
        """The (ε, δ) that basic composition adds up: the largest finite loss, and what is at infinity."""
        return self._basic_dp

    @cached_property
    def _basic_dp(self) -> tuple[float, float]:
        pairs = self.pairs()
        largest = max(0.0, *(pair.support()[1] for pair in pairs))
        if largest == math.inf:
            return largest, max(pair.at_infinity()[0] for pair in pairs)
        return largest, max(pair.failure() for pair in pairs)

    def pure_epsilon(self) -> float | None:
        """The ε of ε-DP if the mechanism has a finite one."""
        epsilon, delta = self.basic_dp()
        return epsilon if delta == 0 and epsilon < math.inf else None

    def as_replace_one(self) -> Mechanism:
        """The same release under replace-one, through a proved conversion from add-remove."""
        raise IncompatibleError(f"no proved conversion of a {self.type} from {self.adjacency} to replace-one is known.")

    def replaced(self) -> tuple[tuple[Pair, Pair], tuple[Pair, Pair] | None]:
        """Pairs that dominate replacing a record, this being stated for adding or removing one; and attained ones."""
        mechanism = self.as_replace_one()
        return mechanism.pairs(), mechanism.attained_pairs()

    def sampler(self) -> str:
        """How records are drawn: none, or the word that a spec has for it."""
        return "none"

    def theorem(self) -> str:
        """What the dominating pair rests on, in a few words."""
        return ""

    def assumptions(self) -> tuple[str, ...]:
        """What the reader must make sure of for the guarantee to hold."""
        return ()

    def warnings(self) -> tuple[str, ...]:
        """What the reader should be told even though the guarantee holds."""
        return ()

    def evidence(self) -> Evidence:
        """What its numbers rest on."""
        cited = (self.theorem(),) if self.theorem() else ()
        return Evidence(citations=cited, assumptions=self.assumptions(), warnings=self.warnings())

    @abstractmethod
    def spec(self) -> Mapping[str, Any]:
        """The entry of a spec's `mechanisms` list that, under `adjacency`, reads back as this mechanism."""
