"""What a step costs a record, in units that add up, and when a record's sums are within its budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Bools, Floats
from dpcalc.filters.charges import Charges, charges
from dpcalc.filters.delta_split import DeltaSplit
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.names import FilterKind, Mode, Quantity, Scope
from dpcalc.filters.subsampled import SubsampledRenyi
from dpcalc.filters.totals import Parts
from dpcalc.mechanisms.declared import Declared

# A sum may pass its limit by this much, relatively, and still count as equal: sums (`totals`) err by less than an
# eighth of it. The reported budget is widened by twice as much.
ROUNDING = 2.5e-13

_THEOREMS: dict[tuple[str, Scope], str] = {
    ("gdp", "individual"): "Koskela et al. 2023, Theorem 12",
    ("gdp", "global"): "Koskela et al. 2023, Theorem C.1",
    ("rdp", "individual"): "Feldman, Zrnic 2021, Theorem 4.5",
    ("rdp", "global"): "Feldman, Zrnic 2021, Theorem 4.3",
    ("dp", "individual"): "Feldman, Zrnic 2021, Theorem 4.5, with the RDP of ε-DP steps; basic composition",
    ("dp", "global"): "Feldman, Zrnic 2021, Theorem 4.3, with the RDP of ε-DP steps; basic composition",
}
_CLIP_THEOREM = "Feldman, Zrnic 2021, Algorithm 7 and Proposition 5.2"


def theorem_of(kind: str, *, scope: Scope, mode: Mode) -> str:
    """What a filter rests on, for `filter` and for `train`."""
    return _CLIP_THEOREM if mode == "clip" else _THEOREMS[kind, scope]


def storage_tolerance(dtype: np.dtype[Any]) -> float:
    """How far a sum of squares of norms stored as `dtype` may be from the truth, relatively; never below ROUNDING."""
    if dtype.kind == "f" and dtype.itemsize < 8:
        return 2 * float(np.finfo(dtype).eps)
    return ROUNDING


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How values of a log become costs, the limits on their sums, and the notion of privacy that these enforce.

    Costs are v² for norms and μ; v for ρ, one row for each order; the subsampled RDP at each order under Poisson
    sampling; for ε the RDP of ε-DP at each order and, last, ε itself. With `split` there is one more row, the step's
    own δ_t. A record takes part while the rule `admits` its sums, up to a relative `tolerance` that `notion` covers.
    """

    kind: FilterKind
    quantity: Quantity
    limits: tuple[float, ...]
    notion: Declared | None
    scale: float = 1.0
    clip: float | None = None
    tolerance: float
    orders: tuple[float, ...] = ()
    subsampled: SubsampledRenyi | None = None
    mixture: Mixture | None = None
    split: DeltaSplit | None = None
    tracked: tuple[float, ...] | None = None

    @property
    def squares(self) -> bool:
        """Whether the cost is the square of the value: one limit, no interpolation."""
        return self.subsampled is None and self.quantity in ("norm", "mu")

    @property
    def width(self) -> int:
        """How many numbers a step has: one, ρ at each order, and its own δ."""
        return (len(self.orders) or 1 if self.quantity == "rho" else 1) + (self.split is not None)

    @property
    def is_zcdp(self) -> bool:
        """Whether every step is known at all orders at once, in proportion to α: Gaussian or zCDP."""
        return self.squares or (self.quantity == "rho" and not self.orders)

    @cached_property
    def accepted(self) -> Floats:
        """The largest sums that count as within the limits."""
        return np.array(self.limits) * (1 + self.tolerance)

    @property
    def rising(self) -> bool:
        """Whether a mixture is charged whose costs are those of one value, the last row, and rise with it."""
        return self.kind == "dp" and self.mixture is not None and self.split is None

    def admits(self, totals: Floats, open_: Bools | None = None) -> Bools:
        """Whether sums of costs, one column a record, are within the budget; not those known to be beyond it."""
        if self.mixture is None:
            rows = totals <= self.accepted[:, None]
            within: Bools = rows[0] if len(rows) == 1 else np.all(rows, axis=0)
            return within
        known, sure, hopeless = len(self.orders), self._sure, self._hopeless
        allowed: Bools = np.any(totals[:known] <= sure[:known], axis=0)
        unsure = np.any(totals[:known] <= hopeless[:known], axis=0)
        if self.kind == "dp":
            allowed |= totals[known] <= sure[known]
            unsure |= totals[known] < hopeless[known]
        unsure &= ~allowed
        if open_ is not None:
            unsure &= open_
        rest = np.flatnonzero(unsure)
        if rest.size:
            allowed[rest] = self._weighed(totals if rest.size == allowed.size else totals.take(rest, axis=1))
        for row in self._limited:
            allowed &= totals[row] <= self.accepted[row]
        return allowed

    def _weighed(self, totals: Floats) -> Bools:
        """What the mixture says of sums that no order alone decides."""
        assert self.mixture is not None
        known, widened = len(self.orders), self._widened(totals)
        largest_loss = widened[known] if self.kind == "dp" else np.full(totals.shape[1], np.inf)
        allowed = self.mixture.allows_each(widened[:known], largest_loss)
        nothing = np.flatnonzero(~allowed & (totals[0] == 0))
        allowed[nothing] = np.all(totals[:, nothing] == 0, axis=0)
        return allowed

    def _widened(self, totals: Floats) -> Floats:
        """Sums are rounded relative to the budget, and small ones may be far below it."""
        return (totals + self.tolerance * np.array(self.magnitudes)[:, None]) * (1 + self.tolerance)

    @cached_property
    def sure(self) -> Floats:
        """Sums of costs, for each limit, up to which a mixture surely admits a record, whatever the others are."""
        assert self.mixture is not None
        ends = np.concatenate([self.mixture.enough, [self.mixture.epsilon] * (len(self.limits) - len(self.orders))])
        # Widened (above), they stay short of their ends by the tolerance.
        found = ends * (1 - 2 * self.tolerance) - 2 * self.tolerance * np.array(self.magnitudes)
        return np.where(found > 0, found, -1.0)

    @cached_property
    def _sure(self) -> Floats:
        return self.sure[:, None]

    @cached_property
    def _hopeless(self) -> Floats:
        """Sums above which, at all orders, a mixture admits nobody whose losses reach the last."""
        assert self.mixture is not None
        too_much, beyond = self.mixture.too_much
        return np.concatenate([np.maximum(too_much, 0.0), [beyond] * (len(self.limits) - len(self.orders))])[:, None]

    @cached_property
    def _limited(self) -> list[int]:
        return np.flatnonzero(self.accepted < np.inf).tolist() if self.mixture is not None else []

    @property
    def charges(self) -> Charges | None:
        """The table of costs by norm, where steps are sampled and several orders are charged."""
        if self.subsampled is None or len(self.limits) == 1 or self.split is not None:
            return None
        largest = math.inf if self.clip is None else self.clip
        return charges(self.subsampled, self.scale / self._storage, largest, self._units)

    @cached_property
    def _units(self) -> tuple[float, ...]:
        return tuple(Parts(self.magnitudes).units.tolist())

    @property
    def _storage(self) -> float:
        """The RDP may rise much faster than the square of a norm, so a rounded norm is widened before and not after."""
        return 1 + self.tolerance if self.tolerance > ROUNDING else 1.0

    def costs(self, values: Floats) -> Floats:
        """What each value costs, one new row for each limit; values above the clip count as the clip.

        Where a step has several numbers (`width`), the first axis holds ρ at each order, and last its own δ.
        """
        rows = values[None] if self.width == 1 else values
        if self.split is None:
            return self._main_costs(rows)
        return np.concatenate([self._main_costs(rows[:-1]), rows[-1:]])

    def _main_costs(self, values: Floats) -> Floats:
        table = self.charges
        if table is not None:
            return table.costs(values[0])
        if self.clip is not None:
            values = np.minimum(values, self.clip)
        if self.subsampled is not None:
            return self.subsampled.rdp((values[0] * self._storage / self.scale) ** 2)
        if self.kind == "dp":
            return np.stack([*(conversions.pure_dp_rdp(values[0], order) for order in self.orders), values[0]])
        return values * values if self.squares else values

    def spent(self, totals: Floats) -> Floats:
        """Sums of costs as people read them, in `unit`."""
        row: Floats = totals[len(self.orders) if self.kind == "dp" else 0]
        return np.sqrt(row) / self.scale if self.squares else row

    @property
    def unit(self) -> str:
        """What `spent` is measured in."""
        if self.kind == "dp":
            return "sum of epsilon"
        if self.squares:
            return "mu"
        return f"rdp at order {self.orders[0]:g}" if self.orders else "zCDP rho"

    def epsilons(self, totals: Floats, delta: float) -> Floats:
        """ε at δ of sums of costs, had all steps been fixed beforehand: the best order, or the sum of ε."""
        known = len(self.orders)
        orders = np.array(self.orders)[:, None]
        best: Floats = conversions.rdp_epsilons(orders, totals[:known], delta).min(axis=0)
        return np.minimum(best, totals[known]) if self.kind == "dp" else best

    @property
    def magnitudes(self) -> tuple[float, ...]:
        """What sums are measured by when they are rounded: the budget, or where there is none a likely one."""
        if self.tracked is not None:
            return self.tracked
        likely = self.mixture.epsilon if self.mixture is not None else self.scale**2 if self.squares else 1.0
        return tuple(limit if limit < math.inf else likely for limit in self.limits)

    def without_limits(self) -> Rule:
        """The same costs and no budget, for runs that are over and only tracked."""
        limits = (math.inf,) * len(self.limits)
        return replace(self, limits=limits, notion=None, mixture=None, tracked=self.magnitudes)

    def with_split(self, split: DeltaSplit) -> Rule:
        """The same rule for steps that keep it up to a δ_t of their own, whose sum may be `split.steps`."""
        return replace(self, limits=(*self.limits, split.steps), split=split)
