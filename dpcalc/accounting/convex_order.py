"""The engine: laws of X = dP/dQ composed on nested grids, refined until the certified interval is as narrow as asked.

Everything certified happens in `certified`; here hints are made, used and made better.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpcalc.accounting.certified.compose import halved, product, single
from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import Direction, Law
from dpcalc.accounting.certified.read import curve, worst
from dpcalc.accounting.interval import Interval, certificate_of
from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.groups import groups_of, spacing_of
from dpcalc.accounting.steering.hints import SMALL_DELTA, Hints, Spending, make_hints
from dpcalc.accounting.steering.pilot import SMALLEST_DELTA, Sketch, Way, sketch
from dpcalc.accounting.steering.spans import spans_for
from dpcalc.accounting.steering.work import product_cost, step_cost
from dpcalc.effort import spend
from dpcalc.pairs.base import Pair
from dpcalc.rounding import LEAST_DIVISOR

Parts = Sequence[tuple[Pair, int]]

_PASSES = 7
_MOST_POINTS = 150_000
_FEW_STEPS = 4096  # on a lattice, whose points need not be thinned out
_LARGEST = 1e4  # the largest ε that is tried
_COARSER, _ROUGHEST = 30.0, 0.5  # times what is aimed at, where that leads nowhere; and what is worth aiming at
_TOO_MANY = 600_000  # points of a product: a law that needs them is not worth waiting for


def interval(parts: Parts, question: Question, directions: Iterable[Direction]) -> Interval:
    """Certified bounds on the worst of some directions of a composition of pairs."""
    search = _Search(parts, question, tuple(directions))
    if len(search.directions) == 1 or search.delta > SMALL_DELTA:
        return search.run()
    ranked = sorted(search.directions, key=lambda direction: -search.way(direction).epsilon)
    best = search.only(ranked[0]).run()
    for direction in ranked[1:]:
        other = search.only(direction).run(enough=best.upper)
        best = replace(other if other.upper > best.upper else best, lower=max(best.lower, other.lower))
    if question.is_met(best.lower, best.upper):
        return best
    try:  # where its own scale did not serve a direction, the common one may
        return best.and_(search.run())
    except ArithmeticError:
        return best


class _Search:
    """Passes with better and better hints; what was certified on the way stays certified."""

    def __init__(self, parts: Parts, question: Question, directions: tuple[Direction, ...]) -> None:
        self.parts, self.question, self.directions = list(parts), question, directions
        self.sketch = sketch(self.parts)
        self.delta = self.sketch.delta(question)
        self.ways = self.sketch.ways(self.delta)
        if question.epsilon is not None:
            self.ways = (
                replace(self.ways[0], epsilon=question.epsilon),
                replace(self.ways[1], epsilon=question.epsilon),
            )
        self.spacing = spacing_of(self.parts)
        few = len(self.parts) == 1 and self.parts[0][1] <= _FEW_STEPS
        self.lattice = self.spacing if few and self.sketch.is_lattice(self.spacing) else None
        if not max(way.epsilon for way in self.ways) < _LARGEST:
            raise OverflowError(f"losses of more than {_LARGEST:g} leave the range of doubles")

    def way(self, direction: Direction) -> Way:
        return self.ways[0 if direction == "remove" else 1]

    def only(self, direction: Direction) -> _Search:
        """The same search in one direction."""
        other = copy.copy(self)
        other.directions = (direction,)
        return other

    def run(self, enough: float = 0.0) -> Interval:
        """Passes until the interval is narrow, or below `enough`, or hints are of no more help."""
        tolerance = self.question.tolerance
        best = Interval(0.0, self.question.largest, {}, "nothing was certified")
        aim, idle = tolerance, 0
        if self.question.delta is not None and enough > self.way(self.directions[0]).epsilon:
            aim = max(tolerance, 0.3 * (1 - self.way(self.directions[0]).epsilon / enough))
        for _ in range(_PASSES):
            hints = make_hints(self.sketch, self.ways, self.delta, self._widths(aim), self.spacing)
            if self.lattice is not None:
                hints = replace(hints, step=self.lattice, tilt=0.5)  # every loss is a point: nothing is split
            try:
                law = build(self.parts, self.sketch, hints)
            except OverflowError as failure:
                if best.upper < self.question.largest:
                    return replace(best, stopped=str(failure))
                aim *= _COARSER
                if aim > _ROUGHEST:
                    raise
                continue
            found, ends = self._read(law)
            before, best = best, best.and_(found)
            gap = best.gap
            if gap <= tolerance or best.upper <= enough:
                return best
            if law.points > _MOST_POINTS:
                return replace(best, stopped=f"finer grids would have more than {_MOST_POINTS} points")
            idle = idle + 1 if gap > 0.8 * before.gap and best.upper > 0.8 * before.upper else 0
            if idle > 1:
                return replace(best, stopped="finer grids make it no narrower")
            self._learn(ends)
            aim *= min(0.6, max(0.05, 0.7 * tolerance / gap)) if gap < 0.5 else 0.5
        return replace(best, stopped=f"it is what {_PASSES} passes reach")

    def _widths(self, aim: float) -> tuple[float, float]:
        """How far in ε the bounds of each direction may be apart: ∞ if it is not read, less for the worse one."""
        widths = {"remove": math.inf, "add": math.inf}
        least = 1e-3 * math.sqrt(float(self.sketch.counts @ self.sketch.scales**2))
        ways = dict(zip(widths, self.ways, strict=True))
        top = max(ways[direction].epsilon for direction in self.directions)
        for direction in self.directions:
            way = ways[direction]
            if self.question.delta is None:
                widths[direction] = aim / way.order
            else:
                widths[direction] = aim * max(way.epsilon, 3 * (top - way.epsilon), least)
        return widths["remove"], widths["add"]

    def _read(self, law: Law) -> tuple[Interval, dict[Direction, _End]]:
        ends: dict[Direction, _End] = {}
        for direction in self.directions:
            below, above = (curve(law, direction, upper=upper) for upper in (False, True))
            if self.question.delta is not None:
                delta = self.question.delta
                upper = above.epsilon(delta)
                slope = above.slope(upper, delta) if upper < math.inf else 0.0
                ends[direction] = _End(below.epsilon(delta), upper, slope)
            else:
                assert self.question.epsilon is not None
                epsilon = self.question.epsilon
                upper = min(above.delta(epsilon), 1.0)
                ends[direction] = _End(below.delta(epsilon), upper, above.slope(epsilon, upper))
        lower, upper = worst([end.lower for end in ends.values()]), worst([end.upper for end in ends.values()])
        return Interval(lower, upper, certificate_of(law, "convex-order")), ends

    def _learn(self, ends: Mapping[Direction, _End]) -> None:
        """Better guesses of each direction's ε (or of δ) for the next pass."""
        if self.question.delta is None:
            upper = max(end.upper for end in ends.values())
            if upper < self.delta:
                self.delta = max(upper, SMALLEST_DELTA)
            if upper > 1.5 * max(end.lower for end in ends.values()):  # Rényi orders led astray
                slopes = {"remove": self.ways[0].order, "add": self.ways[1].order}
                slopes |= {direction: max(end.slope, 1e-2) for direction, end in ends.items() if end.slope > 0}
                self.ways = (
                    replace(self.ways[0], order=slopes["remove"]),
                    replace(self.ways[1], order=slopes["add"]),
                )
            return
        ways = dict(zip(("remove", "add"), self.ways, strict=True))
        for direction, end in ends.items():
            way = ways[direction]
            if end.upper < 0.6 * way.epsilon:  # Rényi orders led astray
                order = min(max(end.slope, 1e-2), 2.2 * math.log(1 / self.delta) / max(end.upper, LEAST_DIVISOR))
                ways[direction] = Way(order, end.upper)
            elif end.lower > 0:
                known = end.upper if end.upper < 1.5 * end.lower else min(way.epsilon, 1.2 * end.lower)
                ways[direction] = Way(way.order, known)
        self.ways = ways["remove"], ways["add"]


class _End(NamedTuple):
    """One direction's bounds, and -d log δ / dε at the upper one."""

    lower: float
    upper: float
    slope: float


def build(parts: Parts, drawn: Sketch, hints: Hints) -> Law:
    """The law of a composition: all powers at once, from the highest bit of the counts to the lowest."""
    spending = Spending(hints)
    batches = _batches(parts, drawn, hints)
    law: Law | None = None
    for bit in range(max(count for _, count in batches).bit_length() - 1, -1, -1):
        if law is not None:
            spend(product_cost(law, law))
            law = spending.trimmed(product(law, law, worse=hints.worse))
        for batch, count in batches:
            if count >> bit & 1:
                spend(0.0 if law is None else product_cost(law, batch))
                law = batch if law is None else product(law, batch, worse=hints.worse)
                if len(batches) > 1:
                    law = spending.trimmed(law)
        if law is not None and law.points > _TOO_MANY:
            raise OverflowError("the law of so few steps already has too many points")
    assert law is not None
    return law


def _batches(parts: Parts, drawn: Sketch, hints: Hints) -> list[tuple[Law, int]]:
    """The single steps as laws; pairs that run equally often and are alike are multiplied with each other at once."""
    return [(_folded(parts, drawn, hints, group), parts[group[0]][1]) for group in groups_of(parts, drawn)]


def _folded(parts: Parts, drawn: Sketch, hints: Hints, group: list[int]) -> Law:
    """The product of the laws of some pairs, two by two."""
    spans = spans_for(hints, drawn.losses, drawn.mean_masses(np.array(group)))
    spend(len(group) * step_cost(sum(last - first for first, last in spans)))
    law = discretised([parts[k][0] for k in group], hints.step, spans, hints.tilt)
    spending = Spending(hints)
    while law.batch > 1:
        spend(product_cost(law, law) / 2)
        law = spending.trimmed(halved(law, worse=hints.worse))
    return single(law) if len(group) > 1 else law
