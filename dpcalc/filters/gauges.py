"""What a record has left, in one number: a step whose charge, in the same number, is not above it surely fits.

A gauge turns sums of costs into a number that is at most 1 only for what the rule admits: one half-space of a mixture's
budget (`halfspaces`), or of several limits the fullest one. Charges are whole units of it, rounded up, so that they add
up exactly. Which gauges there are decides how often everything must be weighed, and never who takes part.
"""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.filters.charges import UNKNOWN, Charges, Codes
from dpcalc.filters.halfspaces import half_spaces, normal, shares_along
from dpcalc.filters.rule import Rule

OPEN = np.iinfo(np.int32).max  # no code is refused
WHOLE = 2.0**32  # units in a budget: with what costs at most twice as much, 2²⁰ charges add up exactly
_TOP = 2 * WHOLE
_OCTAVES = 34  # of what may be left
_MOST, _FIRST = 24, 8  # gauges, and those that are there from the start
_LEARNT, _WORTH = 8, 64  # at a time, and from how many records that have none
_STRIDE = 256  # codes, of which one is looked at first
_BINS = 4  # bits behind the leading one of what is left, to look a refused code up by
_CLOSE = 1 + 1e-12
_MARGIN = 1e-11  # of everything that is added up: pays for its rounding
_LOOKS = 6
_FAINT = -600.0  # logarithms of sums that are next to the least that a double holds


class Gauges:
    """Some gauges of a rule whose charges are rows of a table, and the charge of each code by each of them."""

    def __init__(self, rule: Rule, charges: Charges) -> None:
        self._mixture, self._tolerance, self._charges = rule.mixture, rule.tolerance, charges
        self._accepted = rule.accepted
        if rule.mixture is not None:
            steep, logs = rule.mixture.steep, rule.mixture.log_weights
            self._columns = np.concatenate([np.ones(steep.shape), steep, steep**2, -logs], axis=1)
        self._weights = np.zeros((0, len(rule.limits)))
        self._room = _MOST if rule.mixture is not None else 1
        self._first, self._last = 1, 1  # the codes that are there, from one to before the other
        self._table: Floats = np.zeros((self._room, 2))
        self._doubtful = np.ones((self._room, _OCTAVES << _BINS), dtype=np.int32)

    @property
    def count(self) -> int:
        """How many gauges there are."""
        return 1 if self._mixture is None else len(self._weights)

    def reach(self) -> bool:
        """See that every code that has a charge has one here; whether there are new ones."""
        first, last = self._charges.reached()
        if (first, last) == (self._first, self._last):
            return False
        self._first, self._last = first, last
        self._table = np.zeros((self._room, last - first + 2))  # the first column is of code 0
        self._table[:, -1] = _TOP
        if self._mixture is not None and not self.count:
            codes = np.unique(np.geomspace(first, last - 1, _FIRST).astype(np.int64))
            self._add(self._charges.rows[codes])
        self._fill(0, self.count)
        return True

    def never(self, rule: Rule) -> int:
        """The smallest code that is refused even to those who have spent nothing, if there is one."""
        first, last = self._first, self._last
        for every in (_STRIDE, 1):
            codes = np.append(np.arange(first, last, every), last)
            refused = ~rule.admits(np.ascontiguousarray(self._charges.rows[codes[:-1]].T))
            place = int(np.argmax(np.append(refused, True)))
            first, last = int(codes[max(place - 1, 0)]) + (place > 0), int(codes[place])
        return last if last < self._last else OPEN

    def chosen(self, sums: Floats) -> tuple[Indices, Floats]:
        """By which gauge these sums (rows), which are admitted, leave most, and how much that is."""
        scores = self.scores(sums)
        best = scores.argmin(axis=1)
        found = scores[np.arange(best.size), best]
        missed = np.flatnonzero(found > 1)
        if missed.size >= _WORTH and self.count < self._room:
            old = self.count
            self._add(sums[missed[:: -(-missed.size // _LEARNT)]])
            self._fill(old, self.count)
            return self.chosen(sums) if self.count > old else (best, units_left(found))
        return best, units_left(found)

    def _add(self, directions: Floats) -> None:
        assert self._mixture is not None
        directions = np.minimum(directions, UNKNOWN)
        weights = half_spaces(self._mixture, shares_along(self._mixture, directions), self._tolerance)
        self._weights = np.concatenate([self._weights, weights])[: self._room]

    def _fill(self, low: int, high: int) -> None:
        rows = self._charges.rows[self._first : self._last]
        self._table[low:high, 1:-1] = in_units(self.scores(rows)[:, low:high].T)
        ends = ((np.arange(1, (_OCTAVES << _BINS) + 1) + (1023 << _BINS)) << (52 - _BINS)).view(np.float64)
        for gauge in range(low, high):
            self._doubtful[gauge] = self._first + np.searchsorted(self._table[gauge, 1:-1], ends, side="right")

    def charged(self, codes: Codes, gauge: Indices) -> Floats:
        """What each of these codes costs by this gauge, in units."""
        place = np.minimum(codes, self._last)
        np.maximum(place, self._first - 1, out=place)
        place += gauge.astype(np.int32) * np.int32(self._table.shape[1]) - np.int32(self._first - 1)
        return self._table.reshape(-1).take(place)

    def scores(self, sums: Floats) -> Floats:
        """What sums of costs (rows) are by each gauge (columns); 1 or less is surely admitted."""
        if self._mixture is None:
            found: Floats = (sums / self._accepted).max(axis=1, keepdims=True) * _CLOSE
            return found
        with np.errstate(over="ignore"):
            return sums @ self._weights.T

    def doubtful(self, left: Floats, gauge: Indices) -> Codes:
        """A code that costs a little more than is left, so that it and larger ones are most likely refused."""
        bins = (left + 1).view(np.int64) >> (52 - _BINS)
        bins -= 1023 << _BINS
        found: Codes = self._doubtful.reshape(-1).take(gauge * self._doubtful.shape[1] + bins)
        return found

    def verdicts(self, sums: Floats, where: Floats) -> tuple[Bools, Bools]:
        """Which sums (rows) are surely admitted, and which surely not; the ℓ − ε that tells is put into `where`.

        Each look at some ℓ refuses where the condition clearly fails. If it does not, the shares of the terms make a
        half-space of the record's own.
        """
        if self._mixture is None:
            within: Bools = np.all(sums <= self._accepted, axis=1)
            return within, ~within
        yes, no = np.zeros(len(sums), dtype=bool), np.zeros(len(sums), dtype=bool)
        who = np.arange(len(sums))
        for _ in range(_LOOKS):
            here = where.take(who)
            value, slope, spread, doubt = self._look(sums, here)
            nearest = np.log1p(1 / slope)
            fails = value < np.log(-np.expm1(-here)) - doubt
            fits = value + slope * (nearest - here) + np.log1p(slope) > np.where(value > _FAINT, doubt, np.inf)
            no[who], yes[who] = fails, fits
            where[who] = here + (nearest - here) / (1 + spread / (slope * (1 + slope)))  # Newton's step
            some = (~(fails | fits)).nonzero()[0]
            if not some.size:
                break
            who, sums = who.take(some), sums.take(some, axis=0)
        return yes, no

    def refuses(self, sums: Floats, where: Floats) -> Bools:
        """Which sums (rows) are surely not admitted, as far as this ℓ − ε tells."""
        if self._mixture is None:
            return ~self.verdicts(sums, where)[0]
        value, _, _, doubt = self._look(sums, where)
        found: Bools = value < np.log(-np.expm1(-where)) - doubt
        return found

    def room(self, left: Floats, cost: Floats, sums: Floats, more: Floats, where: Floats) -> Floats:
        """About what is left in truth where a gauge says so: the part of a code's cost that fits on top of the sums.

        `more` is that cost at each order. Where it is beyond the gauge, what it says.
        """
        if self._mixture is None:
            part = ((self._accepted - sums) / np.maximum(more, 1e-300)).min(axis=1)
        else:
            terms = self._terms(sums, where)
            total, slope = (terms @ self._columns[:, :2]).T
            total = np.maximum(total, 1e-300)
            slope = np.maximum(slope / total, self._mixture.steep.min())
            with np.errstate(over="ignore"):
                terms *= more
            paid = np.maximum(terms @ self._columns[:, 1] / total, 1e-300)
            part = (np.log(total) + slope * (np.log1p(1 / slope) - where) + np.log1p(slope)) / paid
        return np.maximum(left, np.where(cost < _TOP, np.minimum(part, 1.0) * cost, 0.0))

    def own(self, sums: Floats, where: Floats) -> Floats:
        """The half-space of each of these sums (rows): by the shares of its own terms at this ℓ − ε."""
        assert self._mixture is not None
        terms = self._terms(sums, where)
        shares = terms / np.maximum(terms.sum(axis=1, keepdims=True), 1e-300)
        return half_spaces(self._mixture, normal(shares), self._tolerance)

    def _terms(self, sums: Floats, where: Floats) -> Floats:
        """The terms of the left side at ℓ − ε; sums may be larger than they are said to be, by the tolerance."""
        assert self._mixture is not None
        terms = sums * (-1 - self._tolerance)
        terms += (where + self._mixture.epsilon * (1 - self._tolerance * (1 + self._tolerance)))[:, None]
        terms *= self._columns[:, 1]
        terms -= self._columns[:, 3]
        np.minimum(terms, 600.0, out=terms)  # what is less than the left is no less a bound
        with np.errstate(under="ignore"):
            return np.exp(terms, out=terms)

    def _look(self, sums: Floats, where: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The logarithm of the left side at ℓ − ε, its first two derivatives, and what all may be off by together."""
        assert self._mixture is not None
        steep = self._mixture.steep[:, 0]
        total, slope, spread, size = (self._terms(sums, where) @ self._columns).T
        total = np.maximum(total, 1e-290)  # below _FAINT
        slope = np.minimum(np.maximum(slope / total, steep.min()), steep.max())
        value, spread = np.log(total), np.maximum(spread / total - slope * slope, 0.0)
        doubt = 1 + size / total + np.abs(value) + slope * (self._mixture.epsilon + where + 1)
        return value, slope, spread, _MARGIN * doubt


def in_units(cost: Floats) -> Floats:
    """Costs in whole units, rounded up; what is beyond twice the budget as that."""
    return np.ceil(np.minimum(cost, _TOP / WHOLE) * WHOLE)


def units_left(score: Floats) -> Floats:
    """What is left of a budget of which this is spent, in whole units: rounded down, and 0 if nothing is."""
    left: Floats = np.floor((1 - np.minimum(score, 1.0)) * WHOLE)
    return left
