"""Who is left out of which step, where charges are rows of a table: a tile of steps at a time.

Costs do not fall with the code and sums only grow, so whoever was refused once is refused for that code and larger ones
ever after. What is left of the codes of a tile (`open`) is charged at once where a sum over the tile fits. Otherwise a
record goes from one step that may not fit to the next: up to there one number tells that all fit (`gauges`), and there
all orders are weighed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.filters.charges import Charges, Codes
from dpcalc.filters.gauges import OPEN, Gauges, in_units, units_left
from dpcalc.filters.rule import Rule
from dpcalc.filters.totals import Totals

_STALE = -2.0
_TOGETHER = 32_768  # codes that stay in the processor's cache
_PROBES = 3  # for a code that costs hardly more than what is left
_FEW = 5  # where less than one in so many codes is open, they are picked out


class Coded:
    """What is remembered of everybody while tiles are folded, beside the state: it speeds up decisions, no more.

    The smallest code that was refused, a gauge, and what is left by it.
    """

    def __init__(self, rule: Rule, charges: Charges, state: Totals) -> None:
        self.rule, self.charges, self.gauges = rule, charges, Gauges(rule, charges)
        people = state.individuals
        self.closed: Codes = np.full(people, OPEN, dtype=np.int32)
        self.gauge, self.left = np.zeros(people, dtype=np.int32), np.full(people, _STALE)
        self.where = np.full(people, 1.0)
        self.carried = bool(state.compensation.any())

    def fold(self, state: Totals, tile: NDArray[np.floating], columns: slice) -> tuple[Indices, Bools] | None:
        """Charge a tile (steps × records) to the state of these columns; who was left out, and of which steps."""
        codes = self.charges.codes(tile)
        if self.gauges.reach():
            np.minimum(self.closed, self.gauges.never(self.rule), out=self.closed)
        closed, steps = self.closed[columns], len(codes)
        fits, dense, few = codes, np.arange(0), np.arange(0)
        if codes.max() < closed.min():
            near = self._at_once(state, codes, slice(None), columns)
        else:
            fits = codes * (codes < closed)
            counts = np.count_nonzero(fits, axis=0)
            many = counts * _FEW > steps
            dense, few = np.flatnonzero(many), np.flatnonzero(~many & (counts > 0))
            near = dense[self._at_once(state, fits[:, dense], dense, columns)]
        out = codes != fits
        if near.size or few.size:
            _Near(self, state, np.concatenate([near, few]), columns).fold(fits, near.size, out)
        lost = np.count_nonzero(out, axis=0)
        state.steps_active += steps - lost
        refused = np.flatnonzero(lost)
        state.lost[refused] = True
        if 2 * refused.size > lost.size:
            return np.arange(columns.start, columns.stop), out
        return (refused + columns.start, out[:, refused]) if refused.size else None

    def _at_once(self, state: Totals, codes: Codes, who: Indices | slice, columns: slice) -> Indices:
        """Charge all steps to those whose sums surely fit; the places among these records of the others."""
        if not codes.size:
            return np.arange(0)
        totals = state.totals[:, who] + self.charges.sums(codes)
        sums = totals + state.compensation[:, who] if self.carried else totals
        near = np.arange(0)
        if not np.any(self.gauges.scores(sums.max(axis=1)[None]) <= 1):
            near = np.flatnonzero(~self._sure(sums))
            scores = self.gauges.scores(sums[:, near].T)
            best = scores.argmin(axis=1)
            some = ~np.any(scores <= 1, axis=1)
            near, best = near[some], best[some]
            everybody = np.arange(columns.start, columns.stop)[who]
            self.gauge[everybody[near]] = best
        kept = state.totals[:, who][:, near]
        if isinstance(who, slice):
            state.totals[:] = totals
            state.totals[:, near] = kept
        else:
            totals[:, near] = kept
            state.totals[:, who] = totals
        self.left[columns][who] = _STALE
        return near

    def _sure(self, sums: Floats) -> Bools:
        """Which sums (columns) fit by one order alone, or within all limits."""
        if self.rule.mixture is None:
            return self.rule.admits(sums)
        found: Bools = np.any(sums <= self.rule.sure[:, None], axis=0)
        return found


class _Near:
    """Records that may not fit into all steps of a tile, a row for each."""

    def __init__(self, memory: Coded, state: Totals, who: Indices, columns: slice) -> None:
        self._memory, self._rule, self._gauges, self._charges = memory, memory.rule, memory.gauges, memory.charges
        self._state, self._who, self._all = state, who, columns.start + who
        self.spent: Floats = np.ascontiguousarray(state.totals[:, who].T)
        self._rest = np.ascontiguousarray(state.compensation[:, who].T) if memory.carried else np.zeros((1, 1))
        self._closed, self._left = memory.closed[self._all], memory.left[self._all]
        self._gauge, self._where = memory.gauge[self._all], memory.where[self._all]
        self._owner, self._own = np.full(who.size, -1), np.zeros((0, self.spent.shape[1]))
        stale = (self._left == _STALE).nonzero()[0]
        scores = self._gauges.scores(self._sums(stale))
        self._left[stale] = units_left(scores[np.arange(stale.size), self._gauge[stale]])

    def _sums(self, records: Indices) -> Floats:
        found = self.spent.take(records, axis=0)
        return found + self._rest[records] if self._memory.carried else found

    def fold(self, codes: Codes, dense: int, out: Bools) -> None:
        """Go through the open codes (steps × columns); most of those of the first, `dense`, records are open."""
        steps = len(codes)
        turned = np.ascontiguousarray(codes[:, self._who].T)
        marks, later = np.zeros(turned.shape, dtype=bool), turned != 0
        self._close(turned)
        self._drop(turned, later, marks)
        tall = max(1, _TOGETHER // steps)
        events = [self._first_event(turned[top : top + tall], later, top) for top in range(0, dense, tall)]
        flat, marked = turned.reshape(-1), marks.reshape(-1)
        if events:
            event = np.concatenate(events)
            refused = ~self._weighed(event // steps, flat.take(event))
            marked[event[refused]] = True
            later.reshape(-1)[event] = False
            self._drop(turned[:dense], later[:dense], marks[:dense])
        self._one_by_one(flat, later.reshape(-1).nonzero()[0], steps, marked)
        out[:, self._who] |= marks.T
        memory = self._memory
        self._state.totals[:, self._who] = self.spent.T
        memory.closed[self._all], memory.where[self._all] = self._closed, self._where
        self._left[self._owner >= 0] = _STALE
        memory.left[self._all], memory.gauge[self._all] = self._left, self._gauge

    def _close(self, codes: Codes) -> None:
        """Find out first which codes do not even fit on top of what was spent before this tile."""
        most = codes.max(axis=1)
        record = (self._gauges.charged(most, self._gauge) > self._left).nonzero()[0]
        record = record[most[record] > 0]
        before, code, where = self._sums(record), most[record], self._where.take(record)
        paid = self._charges.rows.take(code, axis=0)
        refused = self._gauges.refuses(before + paid, where).nonzero()[0]
        before, paid, record = before.take(refused, axis=0), paid.take(refused, axis=0), record[refused]
        self._closed[record] = self._least_refused(record, code[refused], before, paid, where[refused])

    def _drop(self, codes: Codes, later: Bools, marks: Bools) -> None:
        """Mark those of the `later` steps whose codes are closed now, and leave them out."""
        late = codes >= self._closed[: len(codes), None]
        late &= later
        marks |= late
        later &= ~late
        codes *= later

    def _first_event(self, codes: Codes, later: Bools, top: int) -> Indices:
        """Charge these records, from `top` on, up to a step that may not fit; the places of those steps."""
        rows, steps = slice(top, top + len(codes)), codes.shape[1]
        sums = np.cumsum(self._gauges.charged(codes, self._gauge[rows, None]), axis=1)
        fits = sums <= self._left[rows, None]
        count = np.count_nonzero(fits, axis=1)
        self.spent[rows] += self._charges.sums_of((codes * fits).reshape(-1), np.arange(len(codes) + 1) * steps)
        some = count.nonzero()[0]
        self._left[top + some] -= sums[some, count[some] - 1]
        later[rows] &= ~fits
        short = (count < steps).nonzero()[0]
        found: Indices = (top + short) * steps + count[short]
        return found

    def _one_by_one(self, codes: Codes, place: Indices, steps: int, marked: Bools) -> None:
        """The same for codes at these places, from one step that may not fit to the next."""
        record, code = place // steps, codes.take(place)
        while code.size:
            beyond, event = self._up_to_the_next(record, code)
            some, asked = record[event], code[event]
            refused = ~self._weighed(some, asked)
            marked[place[event[refused]]] = True
            beyond[event] = False
            rest = beyond.nonzero()[0]
            record, code, place = record.take(rest), code.take(rest), place.take(rest)
            late = code >= self._closed.take(record)
            marked[place[late]] = True
            rest = (~late).nonzero()[0]
            record, code, place = record.take(rest), code.take(rest), place.take(rest)

    def _up_to_the_next(self, record: Indices, code: Codes) -> tuple[Bools, Indices]:
        """Charge everybody's steps up to one that may not fit; which come after, and where that one is."""
        bounds = np.concatenate([[True], record[1:] != record[:-1], [True]]).nonzero()[0]
        start, end = bounds[:-1], bounds[1:]
        who = record[start]
        costs = self._costs(record, code)
        sums = np.cumsum(costs)
        before = sums[start] - costs[start]
        beyond: Bools = sums > (self._left[who] + before).repeat(end - start)
        later = np.concatenate([[0], np.cumsum(beyond)])
        event = end - (later[end] - later[start])
        some = (event > start).nonzero()[0]
        if some.size:
            ends = np.concatenate([[0], np.cumsum(event[some] - start[some])])
            self.spent[who[some]] += self._charges.sums_of(code[~beyond], ends)
            self._left[who[some]] -= sums[event[some] - 1] - before[some]
        return beyond, event[event < end]

    def _weighed(self, record: Indices, code: Codes) -> Bools:
        """Which of these records take part with these codes, all orders weighed."""
        before, paid = self._sums(record), self._charges.rows.take(code, axis=0)
        after, where = before + paid, self._where.take(record)
        fits, refused = self._gauges.verdicts(after, where)
        unsure = (~(fits | refused)).nonzero()[0]
        if unsure.size:
            fits[unsure] = self._rule.admits(np.ascontiguousarray(after.take(unsure, axis=0).T))
        self._where[record] = where
        no, yes = (~fits).nonzero()[0], fits.nonzero()[0]
        if yes.size:
            some = record[yes]
            self.spent[some] += paid.take(yes, axis=0)
            self._choose(some, after.take(yes, axis=0), where[yes])
        if no.size:
            before, paid = before.take(no, axis=0), paid.take(no, axis=0)
            self._closed[record[no]] = self._least_refused(record[no], code[no], before, paid, where[no])
        return fits

    def _choose(self, record: Indices, sums: Floats, where: Floats) -> None:
        """Take the best gauge for these records, which have spent so much, or one of their own where none is good."""
        self._gauge[record], self._left[record] = self._gauges.chosen(sums)
        missed = (self._left[record] == 0).nonzero()[0]
        self._owner[record] = -1
        if missed.size and self._rule.mixture is not None:
            record, sums = record[missed], sums.take(missed, axis=0)
            weights = self._gauges.own(sums, where[missed])
            self._owner[record] = np.arange(len(self._own), len(self._own) + record.size)
            self._own = np.concatenate([self._own, weights])
            self._left[record] = units_left((weights * sums).sum(axis=1))

    def _costs(self, record: Indices, code: Codes) -> Floats:
        """What these codes cost these records, each by its own gauge."""
        costs = self._gauges.charged(code, self._gauge.take(record))
        if len(self._own):
            owner = self._owner.take(record)
            some = (owner >= 0).nonzero()[0]
            rows = self._charges.rows.take(code.take(some), axis=0)
            with np.errstate(over="ignore"):
                rows *= self._own.take(owner.take(some), axis=0)
                costs[some] = in_units(rows.sum(axis=1))
        return costs

    def _least_refused(self, record: Indices, code: Codes, before: Floats, paid: Floats, where: Floats) -> Codes:
        """A code that is refused like this one: most often one that costs hardly more than what is left."""
        gauge, found = self._gauge.take(record), code.copy()
        cost = self._gauges.charged(code, gauge)
        room = self._gauges.room(self._left.take(record), cost, before, paid, where)
        some = np.arange(code.size)
        for _ in range(_PROBES):
            least = self._gauges.doubtful(room, gauge)
            refused = self._gauges.refuses(before + self._charges.rows.take(np.minimum(least, code), axis=0), where)
            found[some[refused]] = np.minimum(least, code)[refused]
            rest = (~refused & (least < code)).nonzero()[0]
            if not rest.size:
                break
            room = np.sqrt(np.maximum(room[rest], 1.0) * cost[rest])
            some, code, cost, gauge, where = some[rest], code[rest], cost[rest], gauge[rest], where[rest]
            before = before.take(rest, axis=0)
        return found
