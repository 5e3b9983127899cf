"""Privacy filters as folds over steps: who takes part in each, so that nobody's sum passes the budget.

A record that is left out of a step loses nothing there, and may take part again later with a smaller norm, so the
decision is a fold and not a cumulative sum (Feldman–Zrnic, Algorithm 3; Koskela et al., Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.errors import InputError
from dpcalc.filters.rule import Rule

Mode = Literal["drop", "clip"]
Who = Indices | slice

EVERYBODY = slice(None)
# Columns folded together: their totals stay in the processor's cache over all rows of a block.
_COLUMNS = 32768


class Refused(NamedTuple):
    """Who was left out in a block of steps: `out[t, j]` tells whether record `records[j]` lost step t."""

    records: Indices
    out: Bools


class IndividualFilter:
    """Decides step by step which records take part, so that the whole run keeps the rule's guarantee.

    >>> from dpcalc.filters.rules import gdp_rule
    >>> everyone = IndividualFilter(gdp_rule(mu=1.0, sigma=2.0), individuals=3)
    >>> everyone.step([2.0, 1.0, 0.5]), everyone.step([0.1, 1.5, 2.5])
    (array([ True,  True,  True]), array([False,  True, False]))
    """

    def __init__(self, rule: Rule, *, individuals: int = 0, mode: Mode = "drop") -> None:
        if mode == "clip" and not (rule.squares and rule.quantity == "norm"):
            raise InputError("--mode clip needs norms of Gaussian steps without sampling; use --mode drop")
        self.rule, self.mode = rule, mode
        self.totals = np.zeros((len(rule.limits), 0))
        self.compensation = np.zeros((len(rule.limits), 0))
        self.steps_active = np.zeros(0, dtype=np.int64)
        self.lost = np.zeros(0, dtype=bool)
        self.clipped = np.zeros(0, dtype=bool)
        self.grow(individuals)

    @property
    def individuals(self) -> int:
        """How many records are known."""
        return self.lost.size

    @property
    def spent(self) -> Floats:
        """What each record has spent, in the rule's unit. Sensitive: for that record's owner only."""
        return self.rule.spent(self.totals)

    def grow(self, individuals: int) -> None:
        """Make room for records that appear for the first time."""
        more = individuals - self.individuals
        if more > 0:
            self.totals = np.pad(self.totals, ((0, 0), (0, more)))
            self.compensation = np.pad(self.compensation, ((0, 0), (0, more)))
            self.steps_active = np.pad(self.steps_active, (0, more))
            self.lost = np.pad(self.lost, (0, more))
            self.clipped = np.pad(self.clipped, (0, more))

    def step(self, norms: ArrayLike, *, who: ArrayLike | None = None) -> Bools:
        """One step: which of the records (all of them, or the indices `who`) take part. Their sums are charged."""
        values = np.asarray(norms, dtype=np.float64)
        records: Who = EVERYBODY if who is None else np.asarray(who, dtype=np.int64)
        expected = (self.individuals,) if isinstance(records, slice) else records.shape
        expected = expected if self.rule.width == 1 else (self.rule.width, *expected)
        if values.shape != expected:
            raise InputError(f"expected norms of shape {expected}, got {values.shape}")
        if not np.all((values >= 0) & (values < np.inf)):
            raise InputError("expected norms in [0, inf), got a negative, infinite or missing one")
        active, _ = self.charge(values, records)
        return active

    def remaining(self) -> Floats:
        """The largest norm each record may still have: √(B − Σ‖g‖²), as in Feldman–Zrnic, Algorithm 7."""
        if not (self.rule.squares and self.rule.quantity == "norm"):
            raise InputError("the remaining norm is known for norms of Gaussian steps without sampling only")
        return np.sqrt(self._room(self.totals[0]))

    def charge(self, values: Floats, who: Who = EVERYBODY, *, costs: Floats | None = None) -> tuple[Bools, Floats]:
        """Who takes part with these values, and the costs that were charged (0 for those who do not)."""
        if costs is None:
            costs = self.rule.costs(values)
        before, carried = self.totals[:, who], self.compensation[:, who]
        if self.mode == "clip":
            costs = np.where(before + costs <= self.rule.accepted[0], costs, self._room(before))
            active = (costs[0] > 0) | (values == 0)
            self.clipped[who] |= active & (costs[0] < self.rule.costs(values)[0])
        total, rest = _compensated(before, carried, costs)
        if self.mode == "drop":
            active = self.rule.admits(total) | np.all(costs == 0, axis=0)
        if active.all():
            self.totals[:, who], self.compensation[:, who] = total, rest
        else:
            self.totals[:, who] = np.where(active, total, before)
            self.compensation[:, who] = np.where(active, rest, carried)
            costs = np.where(active, costs, 0.0)
            self.lost[who] |= ~active
        self.steps_active[who] += active
        return active, costs

    def charge_block(self, block: NDArray[np.floating]) -> Iterator[Refused]:
        """Fold the rows of a (steps × records) block of values; yields who was left out, a group of records at a time.

        Records whose sum stays within the limit over the whole block need no decisions: only the others are folded
        step by step. Either way each record's sum is formed in the same order, so results do not depend on blocks.
        """
        for start in range(0, block.shape[1], _COLUMNS):
            columns = slice(start, min(start + _COLUMNS, block.shape[1]))
            part = block[:, columns]
            costs = None if self.rule.squares else self.rule.costs(part.astype(np.float64, copy=False))
            before = self.totals[:, columns], self.compensation[:, columns]
            total, rest = _sum_squares(part, *before, self.rule.clip) if costs is None else _sum_costs(costs, *before)
            # A compensated sum may fall by a rounding error, so only sums clearly below the limit were so throughout.
            near = ~self.rule.admits(total * (1 + 1e-14))
            self.steps_active[columns] += np.where(near, 0, block.shape[0])
            if not near.any():
                self.totals[:, columns], self.compensation[:, columns] = total, rest
                continue
            np.copyto(before[0], total, where=~near)
            np.copyto(before[1], rest, where=~near)
            records = np.flatnonzero(near)
            costs = costs if costs is None else costs[:, :, records]
            yield self._charge_rows(np.ascontiguousarray(part[:, records]), costs, records + start)

    def _charge_rows(self, block: NDArray[np.floating], costs: Floats | None, records: Indices) -> Refused:
        worker = IndividualFilter(self.rule, mode=self.mode)
        worker.totals, worker.compensation = self.totals[:, records], self.compensation[:, records]
        worker.steps_active, worker.lost = self.steps_active[records], self.lost[records]
        worker.clipped = self.clipped[records]
        out = np.empty(block.shape, dtype=bool)
        for row, values in enumerate(block):
            cost = None if costs is None else costs[:, row]
            out[row] = ~worker.charge(values.astype(np.float64), costs=cost)[0]
        self.totals[:, records], self.compensation[:, records] = worker.totals, worker.compensation
        self.steps_active[records], self.lost[records] = worker.steps_active, worker.lost
        self.clipped[records] = worker.clipped
        return Refused(records, out)

    def _room(self, totals: Floats) -> Floats:
        """What is left of the limit; nothing once the sum equals it up to the tolerance."""
        limit = self.rule.limits[0]
        left = limit - totals
        return np.where(left > self.rule.tolerance * limit, left, 0.0)


class GlobalFilter:
    """One run with one budget: a step runs if it fits, and otherwise nothing does (Feldman–Zrnic, after Lemma 4.2).

    What runs is "the step if it fits, else nothing", whose cost is within the rest of the budget surely. So the filter
    goes on after a refusal, and a step that was refused may be asked again, smaller.
    """

    def __init__(self, rule: Rule) -> None:
        self._filter = IndividualFilter(rule, individuals=1)

    @property
    def spent(self) -> float:
        """What the steps that ran have spent, in the rule's unit."""
        return float(self._filter.spent[0])

    def step(self, *values: float) -> bool:
        """Whether a step with this parameter (ρ: at each order of the rule; then its own δ, if any) may run."""
        rows = [[value] for value in values]
        return bool(self._filter.step(rows if len(rows) > 1 else rows[0])[0])


def _compensated(total: Floats, rest: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Kahan's sum: the new total, within two units of rounding of the exact one, and what it still lacks."""
    increment = costs - rest
    following = total + increment
    return following, (following - total) - increment


def _sum_costs(costs: Floats, total: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """`_compensated` over all steps of costs (limits × steps × records)."""
    for row in range(costs.shape[1]):
        total, rest = _compensated(total, rest, costs[:, row])
    return total, rest


def _sum_squares(block: NDArray[np.floating], total: Floats, rest: Floats, clip: float | None) -> tuple[Floats, Floats]:
    """`_compensated` over the squares of all rows, without temporaries: large logs spend their time here."""
    total, rest, following, increment = total.copy(), rest.copy(), np.empty_like(total), np.empty_like(total)
    for row in block:
        increment[:] = row
        if clip is not None:
            np.minimum(increment, clip, out=increment)
        np.multiply(increment, increment, out=increment)
        np.subtract(increment, rest, out=increment)
        np.add(total, increment, out=following)
        np.subtract(following, total, out=rest)
        np.subtract(rest, increment, out=rest)
        total, following = following, total
    return total, rest
