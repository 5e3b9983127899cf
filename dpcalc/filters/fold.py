"""Steps folded into sums of costs, a tile of a dense log at a time: who takes part, so that nobody passes the budget.

A record that is left out of a step loses nothing there, and may take part again later with a smaller norm, so the
decision is a fold and not a cumulative sum (Feldman–Zrnic, Algorithm 3; Koskela et al., Algorithm 1).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.errors import InputError
from dpcalc.filters.coded import Coded
from dpcalc.filters.names import Mode
from dpcalc.filters.rule import Rule
from dpcalc.filters.totals import Parts, Totals

Who = Indices | slice

EVERYBODY = slice(None)
# Entries folded together stay in the processor's cache.
_COLUMNS, _ENTRIES = 8192, 32_768
# Decisions on several orders take dozens of calls, each of which is paid once for all columns.
_MORE_COLUMNS, _MORE_ENTRIES = 16_384, 327_680
_KEPT = 2_000_000
_ANYTHING = 1e300  # more than any cost
_MANY = 200  # records for which one pass over them is cheaper than several over all steps


class Refused(NamedTuple):
    """Who was left out in a block of steps: `out[t, j]` tells whether record `records[j]` lost step first + t."""

    records: Indices
    out: Bools
    first: int = 0


class Fold:
    """What everybody has spent under a rule, and how a step changes it."""

    def __init__(self, rule: Rule, *, individuals: int = 0, mode: Mode = "drop") -> None:
        if mode == "clip" and not (rule.squares and rule.quantity == "norm"):
            raise InputError("`mode=clip` needs norms of Gaussian steps without sampling; use `mode=drop`")
        self.rule, self.mode = rule, mode
        self.state = Totals.empty(len(rule.limits), individuals)
        self._parts = Parts(rule.magnitudes)
        self._coded: Coded | None = None
        self._coded_of: Totals | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What makes decisions fast stays where it is."""
        return self.__dict__ | {"_coded": None, "_coded_of": None}

    @property
    def individuals(self) -> int:
        """How many records are known."""
        return self.state.individuals

    def grow(self, individuals: int) -> None:
        """Make room for records that appear for the first time."""
        self.state = self.state.grow(individuals)

    def charge(self, values: Floats, who: Who = EVERYBODY, *, costs: Floats | None = None) -> tuple[Bools, Floats]:
        """Who takes part with these values, and the costs that were charged (0 for those who do not)."""
        state, self._coded = self.state, None
        if costs is None:
            costs = self.rule.costs(values)
        before, carried = state.totals[:, who], state.compensation[:, who]
        whole, rest = self._added(costs, before, carried)
        active = self.rule.admits(whole + rest) | np.all(costs == 0, axis=0)
        if self.mode == "clip" and not active.all():
            room = self._room(before + carried)
            clipped = ~active & (room[0] > 0)
            costs = np.where(clipped, room, costs)
            whole, rest = self._added(costs, before, carried)
            state.clipped[who] |= clipped
            active |= clipped
        if active.all():
            state.totals[:, who], state.compensation[:, who] = whole, rest
        else:
            state.totals[:, who] = np.where(active, whole, before)
            state.compensation[:, who] = np.where(active, rest, carried)
            costs = np.where(active, costs, 0.0)
            state.lost[who] |= ~active
        state.steps_active[who] += active
        return active, costs

    def _added(self, costs: Floats, before: Floats, carried: Floats) -> tuple[Floats, Floats]:
        """Both parts of the sums after these costs."""
        whole, rest = self._parts.split(costs)
        whole += before
        rest += carried
        return whole, rest

    def charge_block(self, block: NDArray[np.floating]) -> Iterator[Refused]:
        """Fold the rows of a (steps × records) block of values; yields who was left out, a tile at a time.

        Records whose sum stays within the limit over a whole tile need no decisions. Sums are exact in any order, so
        results depend neither on tiles nor on blocks.
        """
        charges = self.rule.charges
        if charges is not None and (self._coded is None or self._coded_of is not self.state):
            self._coded, self._coded_of = Coded(self.rule, charges, self.state), self.state
        np.empty(_KEPT)  # freed at once, so that the allocator keeps the memory of tiles instead of returning it
        columns, entries = (_COLUMNS, _ENTRIES) if self.rule.mixture is None else (_MORE_COLUMNS, _MORE_ENTRIES)
        wide = max(1, min(block.shape[1], columns))
        tall = max(1, entries // wide)
        for left in range(0, block.shape[1], wide):
            some = slice(left, min(left + wide, block.shape[1]))
            for top in range(0, len(block), tall):
                found = self._charge_tile(block[top : top + tall, some], some)
                if found is not None:
                    yield Refused(found[0], found[1], top)

    def _charge_tile(self, tile: NDArray[np.floating], columns: slice) -> tuple[Indices, Bools] | None:
        state = self.state.take(columns)
        if self._coded is not None:
            return self._coded.fold(state, tile, columns)
        values = tile.astype(np.float64)
        costs = self.rule.costs(values)
        totals, compensation = self._parts.sums(costs)
        totals += state.totals
        compensation += state.compensation
        near = ~self.rule.admits(totals + compensation)
        if not near.any():
            state.totals[:], state.compensation[:] = totals, compensation
            state.steps_active[:] += len(tile)
            return None
        if np.count_nonzero(near) > near.size // 2:  # all of them: cheaper than to pick them out
            return np.arange(columns.start, columns.stop), self._judged(state, costs)
        np.copyto(state.totals, totals, where=~near)
        np.copyto(state.compensation, compensation, where=~near)
        state.steps_active += np.where(near, 0, len(tile))
        records = np.flatnonzero(near)
        some = state.take(records)
        out = self._judged(some, costs[:, :, records])
        state.put(records, some)
        return records + columns.start, out

    def _judged(self, state: Totals, costs: Floats) -> Bools:
        """Fold costs (limits × steps × records) into this state step by step; who is left out."""
        worker = copy.copy(self)
        worker.state = state
        if self.mode != "clip" and state.individuals > _MANY:
            return worker._refused_by_step(costs)
        whole, rest = self._parts.split(costs)
        return worker._refused(whole, rest, worker._until_clipped(whole, rest) if self.mode == "clip" else True)

    def _until_clipped(self, whole: Floats, rest: Floats) -> Bools:
        """Fold everybody's steps up to the one that is clipped to what is left; which ones (step, record) follow it.

        A record that was clipped has nothing left, so from there on it is judged as if it were dropped.
        """
        state, steps = self.state, whole.shape[1]
        sums = np.cumsum(whole, axis=1) + state.totals[:, None]
        rests = np.cumsum(rest, axis=1) + state.compensation[:, None]
        fits = self._admitted(sums + rests)
        first = np.where(fits.all(axis=0), steps, np.argmin(fits, axis=0))
        self._accept(sums, rests, first, EVERYBODY)
        state.steps_active += first
        room = np.where(first < steps, self._room(state.sums), 0.0)
        clipped = room[0] > 0
        state.totals[:], state.compensation[:] = self._added(room, state.totals, state.compensation)
        state.steps_active += clipped
        state.clipped |= clipped
        still: Bools = np.arange(steps)[:, None] >= first + clipped
        return still

    def _refused(self, whole: Floats, rest: Floats, still: Bools | bool = True) -> Bools:
        """Fold a tile of everybody's costs, those that are `still` to be judged; who is left out.

        What does not fit now never will, since sums only grow. Of what does, in order, the first steps are accepted
        until one does not fit together with them: that one is refused, and the rest is judged again.
        """
        state, steps = self.state, whole.shape[1]
        fits = self._fitting(whole, rest, EVERYBODY) & still
        out = still & ~fits
        who = np.flatnonzero(fits.any(axis=0))
        fits, whole, rest = fits[:, who], whole[:, :, who], rest[:, :, who]
        while who.size:
            sums = np.cumsum(np.where(fits, whole, 0.0), axis=1) + state.totals[:, None, who]
            rests = np.cumsum(np.where(fits, rest, 0.0), axis=1) + state.compensation[:, None, who]
            late = fits & ~self._admitted(sums + rests)
            first = np.where(late.any(axis=0), np.argmax(late, axis=0), steps)
            before = np.arange(steps)[:, None] < first
            self._accept(sums, rests, first, who)
            state.steps_active[who] += (fits & before).sum(axis=0)
            left = fits & ~before
            fits = left & self._fitting(whole, rest, who)
            out[:, who] |= left & ~fits
            some = fits.any(axis=0)
            who, fits, whole, rest = who[some], fits[:, some], whole[:, :, some], rest[:, :, some]
        state.lost |= out.any(axis=0)
        return out

    def _accept(self, sums: Floats, rests: Floats, first: Indices, who: Who) -> None:
        """Charge the steps before the `first` one that does not fit, given all sums."""
        state, place, columns = self.state, np.maximum(first - 1, 0), np.arange(first.size)
        state.totals[:, who] = np.where(first > 0, sums[:, place, columns], state.totals[:, who])
        state.compensation[:, who] = np.where(first > 0, rests[:, place, columns], state.compensation[:, who])

    def _refused_by_step(self, costs: Floats) -> Bools:
        """The same, step by step. Who was refused once is refused ever after for costs that are not below those."""
        state = self.state
        out = np.empty(costs.shape[1:], dtype=bool)
        sums, rests, taken = np.empty_like(state.totals), np.empty_like(state.totals), np.empty(state.individuals)
        closed = np.full(state.individuals, np.inf) if self.rule.rising else None
        for step in range(costs.shape[1]):
            whole, rest = self._parts.split(costs[:, step])
            np.add(state.totals, whole, out=sums)
            np.add(state.compensation, rest, out=rests)
            np.add(sums, rests, out=sums)
            fits = self.rule.admits(sums, None if closed is None else costs[-1, step] < closed)
            np.copyto(taken, fits)  # to multiply is much faster than to copy where a mask says so
            whole *= taken
            rest *= taken
            state.totals += whole
            state.compensation += rest
            np.logical_not(fits, out=out[step])
            if closed is not None:
                taken *= _ANYTHING
                taken += costs[-1, step]
                np.minimum(closed, taken, out=closed)
        state.steps_active += len(out) - out.sum(axis=0)
        state.lost |= out.any(axis=0)
        return out

    def _fitting(self, whole: Floats, rest: Floats, who: Who) -> Bools:
        """Which costs fit by themselves on top of what has been spent."""
        sums = whole + self.state.totals[:, None, who]
        sums += rest + self.state.compensation[:, None, who]
        return self._admitted(sums)

    def _admitted(self, sums: Floats) -> Bools:
        return self.rule.admits(sums.reshape(len(sums), -1)).reshape(sums.shape[1:])

    def _room(self, totals: Floats) -> Floats:
        """What is left of the limit; nothing once the sum equals it up to the tolerance."""
        limit = self.rule.limits[0]
        left = limit - totals
        return np.where(left > self.rule.tolerance * limit, left, 0.0)
