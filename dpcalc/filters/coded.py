"""Who is left out of which step, for records near their budget whose charges are rows of a table."""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.filters.charges import Charges, Codes
from dpcalc.filters.rule import Rule
from dpcalc.filters.totals import Totals

_OPEN = np.iinfo(np.int32).max


def refused_codes(rule: Rule, charges: Charges, state: Totals, codes: Codes, costs: Floats) -> Bools:
    """Fold these codes (steps × records), whose costs add up to `costs`, into the state; who is left out."""
    near = _Near(rule, charges, state, costs)
    out = np.empty(codes.shape, dtype=bool)
    for step, here in enumerate(codes):
        out[step] = near.refused(here)
    state.totals[:] = near.spent.T
    state.steps_active += len(codes) - out.sum(axis=0)
    state.lost |= out.any(axis=0)
    return out


class _Near:
    """Records that are decided step by step, most of them by one number each.

    That is what is left at the order that will last longest, which alone is enough to admit the record. Only beyond it
    all orders are weighed. Costs do not fall with the code and sums only grow, so that whoever was refused once is
    refused for that code and larger ones ever after.
    """

    def __init__(self, rule: Rule, charges: Charges, state: Totals, costs: Floats) -> None:
        self._rule, self._rows, self._width = rule, charges.rows, np.int32(len(rule.limits))
        # A row for each record, as in the table.
        self.spent, self._rest = (np.ascontiguousarray(part.T) for part in (state.totals, state.compensation))
        self._typical = np.maximum(costs.T, np.finfo(float).tiny)
        self._sure = rule.sure if rule.mixture is not None else np.zeros(len(rule.limits))
        people = state.individuals
        self._closed = np.full(people, _OPEN, dtype=np.int32)
        self._order, self._left = np.zeros(people, dtype=np.int32), np.zeros(people)
        self._choose(np.arange(people), self.spent + self._rest)

    def _choose(self, who: Indices, sums: Floats) -> None:
        """The order at which most steps are left to each of these, and how much that is."""
        left = self._sure - sums
        order = np.argmax(left / self._typical.take(who, axis=0), axis=1)
        self._order[who], self._left[who] = order, left[np.arange(order.size), order]

    def refused(self, codes: Codes) -> Bools:
        """One step: who does not take part."""
        costs = self._rows.reshape(-1).take(codes * self._width + self._order)
        fits = costs <= self._left
        unseen = codes < self._closed
        fits &= unseen
        costs *= fits
        self._left -= costs
        self.spent += self._rows.take(codes * fits, axis=0)
        out: Bools = ~fits
        out &= codes > 0
        unseen &= out
        asked = np.flatnonzero(unseen)
        if asked.size:
            out[asked[self._weighed(asked, codes.take(asked))]] = False
        return out

    def _weighed(self, asked: Indices, codes: Codes) -> Bools:
        """Which of those take part whom their order alone does not admit."""
        before, rest = self.spent.take(asked, axis=0), self._rest.take(asked, axis=0)
        after = self._rows.take(codes, axis=0)
        after += before
        fits = self._rule.admits(np.ascontiguousarray((after + rest).T))
        self._closed[asked[~fits]] = codes[~fits]
        before[fits] = after[fits]
        self.spent[asked] = before
        self._choose(asked, before + rest)
        return fits
