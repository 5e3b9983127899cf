"""Privacy filters: who takes part in each step, so that nobody's sum passes the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.conversions.ranges import numbers
from dpcalc.errors import InputError
from dpcalc.filters.fold import EVERYBODY, Fold, Who
from dpcalc.filters.rule import Rule


class IndividualFilter(Fold):
    """Decides step by step which records take part, so that the whole run keeps the rule's guarantee.

    >>> from dpcalc.filters.rules import gdp_rule
    >>> everyone = IndividualFilter(gdp_rule(mu=1.0, sigma=2.0), individuals=3)
    >>> everyone.step([2.0, 1.0, 0.5]), everyone.step([0.1, 1.5, 2.5])
    (array([ True,  True,  True]), array([False,  True, False]))
    """

    @property
    def totals(self) -> Floats:
        """The sums of costs, one row for each limit."""
        return self.state.sums

    @property
    def steps_active(self) -> Indices:
        """How many steps each record took part in."""
        return self.state.steps_active

    @property
    def lost(self) -> Bools:
        """Who was left out of at least one step."""
        return self.state.lost

    @property
    def clipped(self) -> Bools:
        """Whose norm was clipped to what was left of the budget."""
        return self.state.clipped

    @property
    def spent(self) -> Floats:
        """What each record has spent, in the rule's unit. Sensitive: for that record's owner only."""
        return self.rule.spent(self.totals)

    def forget(self, records: Indices) -> None:
        """Let these records start anew, with nothing spent."""
        self.state.totals[:, records] = self.state.compensation[:, records] = 0.0
        self._coded = None

    def step(self, norms: ArrayLike, *, who: ArrayLike | None = None) -> Bools:
        """One step: which of the records (all of them, or the indices `who`) take part. Their sums are charged.

        Nothing is clipped here, so a norm above the rule's clip is an error: what is summed would cost more than that.
        """
        values, records = numbers(norms), self._records(who)
        if values is None:
            raise InputError(f"expected numbers, got {str(norms)[:40]}")
        expected = (self.individuals,) if isinstance(records, slice) else records.shape
        expected = expected if self.rule.width == 1 else (self.rule.width, *expected)
        if values.shape != expected:
            raise InputError(f"expected norms of shape {expected}, got {values.shape}")
        if not np.all((values >= 0) & (values < np.inf)):
            raise InputError("expected norms in [0, inf), got a negative, infinite or missing one")
        clip, above = self.rule.clip, 0
        if clip is not None:
            costly = values[0] if self.rule.width > 1 else values
            above = int(np.count_nonzero(costly > clip * (1 + self.rule.tolerance)))
        if above:
            raise InputError(f"expected norms up to the clip {clip:g}, got {above} above it: clip what is summed first")
        active, _ = self.charge(values, records)
        return active

    def _records(self, who: ArrayLike | None) -> Who:
        """The indices of records, each at most once."""
        if who is None:
            return EVERYBODY
        records = np.asarray(who)
        whole = (records.dtype.kind in "iu" and records.ndim == 1) or not records.size
        if not whole or np.any((records < 0) | (records >= self.individuals)):
            raise InputError(f"expected indices of records in [0, {self.individuals - 1}], got {str(who)[:40]}")
        if np.unique(records).size < records.size:
            raise InputError("expected each record once in a step, got one twice")
        return records.astype(np.int64)

    def remaining(self) -> Floats:
        """The largest norm each record may still have: √(B − Σ‖g‖²), as in Feldman–Zrnic, Algorithm 7."""
        if not (self.rule.squares and self.rule.quantity == "norm"):
            raise InputError("the remaining norm is known for norms of Gaussian steps without sampling only")
        return np.sqrt(self._room(self.totals[0]))


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
