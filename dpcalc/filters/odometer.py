"""Odometers: the privacy loss so far, by filters of fixed width that restart each time they would halt.

The m-th stretch ends at T_m, and the loss up to T_m is at most mΔ in RDP (Feldman–Zrnic, Algorithm 5, Proposition
4.10; Corollary 4.11 per record) and √m·Δ in GDP (Koskela et al., §C.5). Every single loss must be at most Δ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.fold import EVERYBODY, Who
from dpcalc.filters.rule import Rule
from dpcalc.filters.totals import Totals


class Odometer:
    """Tracks every record's loss in stretches of one width; for a whole run, track a single record."""

    def __init__(self, rule: Rule, *, width: float, individuals: int = 0) -> None:
        if rule.kind == "dp":
            raise InputError("an odometer is proved for `filter=gdp` and `filter=rdp`, not for dp")
        if len(rule.limits) > 1:
            raise InputError("an odometer needs one order, got several")
        self.width = width
        self._rule = rule
        self._stretch = IndividualFilter(replace(rule, limits=(_width_cost(rule, width),)), individuals=individuals)
        self.restarts = np.zeros(individuals, dtype=np.int64)
        self._stops: list[tuple[int, NDArray[np.int64]]] = []

    def grow(self, individuals: int) -> None:
        """Make room for records that appear for the first time."""
        self._stretch.grow(individuals)
        self.restarts = np.pad(self.restarts, (0, individuals - self.restarts.size))

    def step(self, previous: int, values: Floats, who: Who = EVERYBODY) -> None:
        """Add a step's values; `previous` is the label of the step before, where a stretch that is full has ended."""
        fits, _ = self._stretch.charge(values, who)
        if fits.all():
            return
        records = np.arange(self.restarts.size)[who][~fits]
        self._stretch.forget(records)
        again, _ = self._stretch.charge(values[..., ~fits], records)
        if not again.all():
            worst = float(self._amount(self._rule.costs(values[..., ~fits])[0]).max())
            raise InputError(
                f"expected every loss to be at most the odometer's width {self.width:g}, got {worst:g} after step "
                f"{previous}; choose a larger `odometer`"
            )
        self.restarts[records] += 1
        self._stops.append((previous, records))

    def stopping_times(self, record: int, last: int) -> list[int]:
        """T_1, T_2, … of a record: the last step of each stretch; `last` ends the current one."""
        return [step for step, records in self._stops if record in records] + [last]

    def all_stopping_times(self, last: int) -> list[list[int]]:
        """The stopping times of every record."""
        times: list[list[int]] = [[] for _ in range(self.restarts.size)]
        for step, records in self._stops:
            for record in records.tolist():
                times[record].append(step)
        return [[*ends, last] for ends in times]

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything it remembers, for a state file."""
        return {
            **self._stretch.state.to_arrays("odometer_"),
            "odometer_restarts": self.restarts,
            "odometer_stops": np.concatenate([np.zeros(0, dtype=np.int64), *(who for _, who in self._stops)]),
            "odometer_stop_steps": np.repeat(
                np.array([step for step, _ in self._stops], dtype=np.int64), [who.size for _, who in self._stops]
            ),
        }

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `to_arrays` gave."""
        self._stretch.state = Totals.from_arrays(arrays, "odometer_")
        self.restarts = arrays["odometer_restarts"]
        stops = zip(arrays["odometer_stop_steps"].tolist(), arrays["odometer_stops"], strict=True)
        self._stops = [(step, np.array([record])) for step, record in stops]

    def losses(self, stretches: NDArray[np.int64]) -> Floats:
        """Upper bounds on the loss up to T_m for m = `stretches`: √m·Δ (GDP) or mΔ (RDP), and never above the budget
        of a filter that goes on beside it; tolerance included.
        """
        counted = stretches.astype(np.float64)
        losses = (np.sqrt(counted) if self._rule.kind == "gdp" else counted) * self.width
        return np.minimum(losses, self._amount(np.array(self._rule.limits))) * (1 + 2 * self._rule.tolerance)

    @property
    def unit(self) -> str:
        """What its width and its losses are measured in; a rule may measure what is spent in another unit."""
        if self._rule.kind == "gdp":
            return "mu"
        return f"rdp at order {self._rule.orders[0]:g}" if self._rule.orders else "zCDP rho"

    def _amount(self, costs: Floats) -> Floats:
        """Sums of costs in its unit."""
        if self._rule.kind == "gdp":
            return np.sqrt(costs) / self._rule.scale
        return costs / _width_cost(self._rule, 1.0)


def _width_cost(rule: Rule, width: float) -> float:
    """The width in the unit of the rule's costs: μ for gdp, RDP at the order (zCDP without one) for rdp."""
    if rule.kind == "gdp":
        return (width * rule.scale) ** 2
    if rule.squares:
        return 2 * width * rule.scale**2 / (rule.orders[0] if rule.orders else 1.0)
    return width
