"""What a budget fixes for ever: its limit, whom it protects, under which adjacency, and the filter that enforces it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Bools
from dpcalc.errors import InputError
from dpcalc.evidence import Evidence
from dpcalc.filters.mixture import Mixture, renyi_room
from dpcalc.guarantee import Adjacency, Guarantee, Stated
from dpcalc.ledger.measure import Measure
from dpcalc.ledger.units import INFINITE, UNIT, Vector, as_typed, float_down, float_up, root_up, units_down, units_up
from dpcalc.report import rounded_up
from dpcalc.rounding import up

FilterKind = Literal["gdp", "rdp"]

# A stated μ or ρ is kept up to this much of itself, so that k steps of B²/k fit; the guarantee is that of the limit.
_EQUALITY = 1 + Fraction(1, 1 << 40)
# Σε_t and Σδ_t count as equal to their limits up to far less than the rounding of a number that somebody typed.
_TYPED_EQUALITY = 1 + Fraction(1, 1 << 60)

ASSUMPTIONS = (
    "every release of these data is charged here before it runs; what was refused or voided never ran",
    "a release touches the data only as its spec says",
)
PARTITION = "a record belongs to exactly one of the parts {parts}, by itself alone, and no {unit} has records in two"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A budget's terms. `parent` is charged with it; `parts` are children on disjoint records: the largest counts."""

    name: str
    filter: FilterKind
    adjacency: Adjacency
    unit: str
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    orders: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    step_delta: float | None = None
    parent: str | None = None
    is_part: bool = False
    parts: tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Only what JSON knows; what is not set is left out."""
        return {
            key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items() if v not in (None, (), "")
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Terms:
        """Back from JSON."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in stored.items() if key in known
        }
        return cls(**given)

    @property
    def measure(self) -> Measure:
        """What this budget adds up."""
        if self.filter == "gdp":
            return Measure("gdp")
        return Measure("zcdp") if self.rho is not None else Measure("rdp", self.orders)

    # -- the filter ---------------------------------------------------------------------------------------------------

    @cached_property
    def limit(self) -> int:
        """The largest sum of μ² (GDP) or ρ (zCDP) in units; from (ε,δ) rounded down."""
        if self.mu is not None:
            return units_up(as_typed(self.mu) ** 2 * _EQUALITY)
        if self.rho is not None:
            return units_up(as_typed(self.rho) * (2 if self.filter == "gdp" else 1) * _EQUALITY)
        assert self.epsilon is not None
        assert self.delta is not None
        return units_down(Fraction(conversions.gdp_mu(self.epsilon, self.delta)) ** 2)

    @cached_property
    def mixture(self) -> Mixture:
        """The mixture of orders for what is left of δ beside the steps' own."""
        assert self.epsilon is not None
        assert self.delta is not None
        steps = Fraction(self.most_failure, UNIT)
        kept = (as_typed(self.delta) - steps) / (1 - steps)  # so that 1 − (1−δ′)(1−δ″) is δ, exactly
        return Mixture(self.epsilon, float_down(units_down(kept)), self.orders, self.weights)

    @cached_property
    def _alone(self) -> Vector:
        """What may be spent at each order if that order's share of δ were all: then the mixture allows it too."""
        orders, weights = np.array(self.orders), np.array(self.weights)
        rooms = [
            float(renyi_room(orders[i : i + 1], self.mixture.epsilon, self.mixture.delta * float(weights[i]))[0])
            for i in range(len(orders))
        ]
        return tuple(units_down(max(room - 1e-12 * (1 + room), 0.0)) for room in rooms)

    @cached_property
    def most_failure(self) -> int:
        """The largest Σδ_t in units."""
        assert self.step_delta is not None
        return units_up(as_typed(self.step_delta) * _TYPED_EQUALITY)

    @cached_property
    def most_loss(self) -> int:
        """The largest Σb_t, in units, for which basic composition is enough."""
        assert self.epsilon is not None
        return units_up(as_typed(self.epsilon) * _TYPED_EQUALITY)

    def fits(self, total: Vector) -> bool:
        """Whether so much may have been spent in all, the release in question included."""
        if self.measure.kind != "rdp":
            return total[0] <= self.limit
        *divergences, failure, loss = total
        if failure > self.most_failure:
            return False
        if loss <= self.most_loss or any(0 <= r <= b for r, b in zip(divergences, self._alone, strict=True)):
            return True
        return self.mixture.allows(np.array([float_up(r) for r in divergences]), float_up(loss))

    def fit_each(self, totals: Sequence[Vector]) -> Bools:
        """`fits` for several totals of a mixture at once."""
        columns = np.array([[float_up(value) for value in total] for total in totals]).T
        fitting: Bools = self.mixture.allows_each(columns[:-2], columns[-1])
        fitting |= [total[-1] <= self.most_loss for total in totals]
        fitting &= [total[-2] <= self.most_failure for total in totals]
        return fitting

    # -- for people ---------------------------------------------------------------------------------------------------

    @cached_property
    def _reference(self) -> int:
        """The order at which most Gaussian steps fit: where the sizes of entries are compared."""
        return max(range(len(self.orders)), key=lambda i: self._alone[i] / self.orders[i])

    def share(self, cost: Vector) -> float:
        """How large a cost is beside the limit, to compare entries with; no bound."""
        if self.measure.kind != "rdp":
            return min(cost[0] / max(self.limit, 1), 1.0) if cost[0] >= 0 else max(cost[0] / max(self.limit, 1), -1.0)
        limits = [max(alone, 1) for alone in self._alone]
        spent, limit = cost[self._reference], limits[self._reference]
        if abs(spent) >= INFINITE:  # nothing is known at that order: the one of which it takes least
            known = [pair for pair in zip(cost, limits, strict=False) if abs(pair[0]) < INFINITE]
            spent, limit = min(known, key=lambda pair: Fraction(abs(pair[0]), pair[1]), default=(spent, limit))
        return max(-limit, min(spent, limit)) / limit

    def stated(self) -> str:
        """The limit in words: ε = 3 at δ = 1e-6."""
        if self.mu is not None:
            return f"μ = {self.mu:g}"
        if self.rho is not None:
            return f"ρ = {self.rho:g}"
        return f"ε = {self.epsilon:g} at δ = {rounded_up(self.delta)}"

    def guarantee(self) -> Guarantee:
        """What the filter enforces for everyone, however the releases were chosen."""
        mu = root_up(self.limit) if self.filter == "gdp" else None
        rho = (up(mu * mu / 2, 1) if mu is not None else None) if self.rho is None else None
        if self.measure.kind == "zcdp":
            rho = float_up(self.limit)
        elif self.rho is not None:
            rho = float_up(-(-self.limit // 2))
        return Guarantee.of(
            [(Stated(adjacency=self.adjacency, entry=self._declared(mu, rho)), None)],
            Evidence(citations=(_THEOREMS[self.measure.kind],), assumptions=self.assumptions()),
            accountant=f"{self.filter} filter",
            epsilon=self.epsilon,
            delta=self.delta,
            mu=mu,
            mu_kind=None if mu is None else "upper",
            rho=rho,
        )

    def _declared(self, mu: float | None, rho: float | None) -> dict[str, Any]:
        if mu is not None:
            return {"type": "gdp", "mu": mu}
        if rho is not None:
            return {"type": "zcdp", "rho": rho}
        return {"type": "dp", "epsilon": self.epsilon, "delta": self.delta}

    def assumptions(self) -> tuple[str, ...]:
        """What must hold for the guarantee that no program can check."""
        lines = [f"every spec is stated for all that one {self.unit} contributes to the data", *ASSUMPTIONS]
        if self.parts:
            lines.append(PARTITION.format(parts=", ".join(self.parts), unit=self.unit))
        return tuple(lines)


_THEOREMS = {
    "gdp": "Koskela et al. 2023, Theorem C.1: Σμ² ≤ B² is B-GDP for adaptively chosen releases",
    "zcdp": "Feldman, Zrnic 2021, Theorem 4.3: Σρ ≤ B is B-zCDP for adaptively chosen releases",
    "rdp": (
        "Feldman, Zrnic 2021, Theorem 3.1: a mixture of Rényi orders with weights fixed beforehand is a filter; "
        "Whitehouse, Ramdas, Rogers, Wu 2023: with the releases' own δ beside it"
    ),
}


def check_terms(terms: Terms) -> None:
    """Raise unless the limit is one, and the filter can enforce it."""
    given = [name for name in ("epsilon", "mu", "rho") if getattr(terms, name) is not None]
    if len(given) != 1 or (terms.epsilon is None) != (terms.delta is None):
        raise InputError("expected one limit: ε with δ, μ, or ρ", where=f"budget {terms.name}")
    if terms.mu is not None and terms.filter == "rdp":
        raise InputError(
            "a limit on μ needs the GDP filter: Rényi divergences bound no μ", where=f"budget {terms.name}"
        )
    limit = getattr(terms, given[0])
    if not 0 <= limit < math.inf or (terms.delta is not None and not 0 < terms.delta < 1):
        raise InputError(f"expected a finite limit, got {terms.stated()}", where=f"budget {terms.name}")
    if terms.measure.kind != "rdp":
        if terms.limit <= 0:
            raise InputError("the limit is too small to be told from nothing", where=f"budget {terms.name}")
    elif terms.step_delta is None or terms.mixture.epsilon != limit:  # a mixture checks its orders, weights and δ
        raise InputError("expected a part of δ for the steps", where=f"budget {terms.name}")


def check_family(terms: Terms, known: Mapping[str, Terms]) -> None:
    """Raise unless a new budget has a name, a parent and parts that fit those that are known."""
    where = f"budget {terms.name}"
    if terms.name in known:
        raise InputError("is fixed twice", where=where)
    if terms.parent is not None and terms.parent not in known:
        raise InputError(f"there is no budget {terms.parent!r}; there are: {', '.join(known) or 'none'}", where=where)
    parent = None if terms.parent is None else known[terms.parent]
    if parent is not None and (parent.unit, parent.adjacency) != (terms.unit, terms.adjacency):
        raise InputError(
            f"its parent {parent.name} is for one {parent.unit} under {parent.adjacency}; "
            "a tree has one unit of privacy and one adjacency",
            where=where,
        )
    announced = [] if parent is None else [part_terms(parent, part) for part in parent.parts]
    if terms.is_part and terms not in announced:
        raise InputError("is none of the parts that its parent was fixed with", where=where)
    if not terms.is_part and (not terms.name or "/" in terms.name):
        raise InputError(f"expected a name without /, got {terms.name!r}", where=where)
    if len(set(terms.parts)) < len(terms.parts):
        raise InputError("a part is given twice", where=where)
    if len(terms.parts) == 1:
        raise InputError("a partition has two parts or more", where=where)
    if any(not part or "/" in part for part in terms.parts):
        raise InputError("expected parts with names without /", where=where)


def part_terms(parent: Terms, part: str) -> Terms:
    """The child for one part of a partition: the parent's own limit and filter, on that part's records alone."""
    inherited = {
        key: value for key, value in parent.to_json().items() if key not in ("parts", "parent", "is_part", "reason")
    }
    stored = {**inherited, "name": f"{parent.name}/{part}", "parent": parent.name, "is_part": True}
    return Terms.from_json(stored)
