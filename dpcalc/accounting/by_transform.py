"""The engine for long runs and long lists: all steps on one grid, composed in one transform for each direction.

Everything certified happens in `certified`; here hints are made, used and made better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dpcalc.accounting.certified.coarsen import on_grid
from dpcalc.accounting.certified.compose import split
from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import RATIO, Direction, Law
from dpcalc.accounting.certified.power import Window, powered
from dpcalc.accounting.certified.read import curve
from dpcalc.accounting.interval import Interval, certificate_of
from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.groups import groups_of, spacing_of
from dpcalc.accounting.steering.hints import Hints, make_hints
from dpcalc.accounting.steering.pilot import Sketch, Way, sketch
from dpcalc.accounting.steering.spans import paired, spans_for
from dpcalc.accounting.steering.window import whole_window, window_for
from dpcalc.accounting.steering.work import power_cost, step_cost
from dpcalc.effort import spend
from dpcalc.pairs.base import Pair
from dpcalc.rounding import LEAST_DIVISOR

Parts = Sequence[tuple[Pair, int]]

_PASSES = 5
_MARGIN = 0.8  # of the tolerance, that a pass aims at
_ROUGH = 0.03  # what a direction that is not the worst aims at first
_BETWEEN = 0.3  # of how far it is below the worst, what it may be off by more
_FEWER = 0.7  # of its first guess, what ε of a few steps often is
_FEW, _FEW_MARGIN = 4, 0.45  # different steps, of which finer grids cost little
_COARSER = 30.0  # times what is aimed at, where that leads nowhere
_ROUGHEST = 0.5  # what is worth aiming at
_WORTHWHILE = 1.5  # a change of what is aimed at
_USEFUL = 0.7  # what a pass should at least make of the gap
_KNOWN = 0.3  # a gap below which windows are laid by the interval itself
_TOGETHER = 24  # laws of a batch that are composed before the others are
_COPIES = 64  # that are composed before the others are, where windows would be longer than
_LONG = 60_000  # points
_LONGEST = 1 << 20  # points of a window: a longer one is not worth waiting for
_THIN = 0.03  # of the variance that grids add, for those that are read
_FINE = 0.1  # the step of these, times the order
_MANY_POINTS = 400_000  # of a single step
_LARGE_BLOCK = 1 << 21  # doubles, untouched
_LARGEST = 1e4  # the largest ε that is tried


def interval(parts: Parts, question: Question, directions: Iterable[Direction]) -> Interval:
    """Certified bounds on the worst of some directions of a composition of pairs: the worse one first.

    The others need only stay below it, which is often seen in the same law.
    """
    _keep_memory()
    run = _Run.of(parts, question)
    ranked = sorted(directions, key=lambda direction: -run.way(direction).epsilon)
    tilt = run.sketch.common_tilt(run.ways, run.delta, question.tolerance) if len(ranked) > 1 else None
    best, law = run.bounds(ranked[0], tilt=tilt)
    for direction in ranked[1:]:
        if law is not None and run.upper(law, direction) <= best.upper:
            continue
        other, _ = run.bounds(direction, enough=best.upper)
        best = replace(other if other.upper > best.upper else best, lower=max(best.lower, other.lower))
    return best


def law_of(parts: Parts, question: Question, directions: Iterable[Direction]) -> Law | None:
    """A law that tells all of some directions about where it is asked; None where one does not, or where none is."""
    _keep_memory()
    run = _Run.of(parts, question)
    worst = max(directions, key=lambda direction: run.way(direction).epsilon)
    tilt = run.sketch.common_tilt(run.ways, run.delta, question.tolerance)
    return None if tilt is None else run.bounds(worst, tilt=tilt)[1]


@cache
def _keep_memory() -> None:
    """Make the C library keep what was freed: glibc hands rows of this size back to the system at once, which clears
    every page when it is asked for anew, unless a larger block was freed before."""
    np.empty(_LARGE_BLOCK)


@dataclass(frozen=True)
class _Run:
    """What is known of a composition before it is composed."""

    parts: Parts
    question: Question
    sketch: Sketch
    delta: float
    ways: tuple[Way, Way]
    spacing: float | None

    @classmethod
    def of(cls, parts: Parts, question: Question) -> _Run:
        drawn = sketch(parts)
        delta = drawn.delta(question)
        ways = drawn.ways(delta)
        if not max(way.epsilon for way in ways) < _LARGEST:
            raise OverflowError(f"losses of more than {_LARGEST:g} leave the range of doubles")
        return cls(parts, question, drawn, delta, ways, spacing_of(parts))

    def way(self, direction: Direction) -> Way:
        return self.ways[0 if direction == "remove" else 1]

    def upper(self, law: Law, direction: Direction) -> float:
        """The upper bound of a direction that a law gives."""
        above, delta = curve(law, direction, upper=True), self.question.delta
        return above.epsilon(delta) if delta is not None else min(above.delta(self.question.epsilon or 0.0), 1.0)

    def lower(self, law: Law, direction: Direction) -> float:
        """The lower bound of a direction that a law gives."""
        below, delta = curve(law, direction, upper=False), self.question.delta
        return below.epsilon(delta) if delta is not None else below.delta(self.question.epsilon or 0.0)

    def bounds(
        self, direction: Direction, enough: float = 0.0, tilt: float | None = None
    ) -> tuple[Interval, Law | None]:
        """Passes until the interval of a direction is narrow, or below `enough`, or finer grids are of no more help.

        And the law of the last of them, if a `tilt` is given that serves both directions.
        """
        tolerance = self.question.tolerance
        best = Interval(0.0, self.question.largest, {}, "nothing was certified")
        near = self._near(direction)
        margin = _MARGIN if len(self.parts) > _FEW else _FEW_MARGIN
        aim = tolerance * margin if enough == 0 else max(tolerance * _MARGIN, _ROUGH)
        width = aim / self.way(direction).order
        if self.question.delta is not None:
            width = aim * max(near[1], _FEWER * near[0])
        law: Law | None = None
        worked = 0.0
        for _ in range(_PASSES):
            try:
                law = self._law(direction, width, near, aim, tilt)
            except OverflowError as failure:  # something between this and what worked, or a wide interval at least
                best = replace(best, stopped=str(failure))
                change = math.sqrt(worked / aim) if worked else _COARSER
                width, aim = change * width, change * aim
                if change < _WORTHWHILE or aim > _ROUGHEST:
                    break
                continue
            worked = aim
            upper = self.upper(law, direction)
            lower = self.lower(law, direction) if upper > enough else 0.0
            before, best = best, best.and_(Interval(lower, upper, certificate_of(law, "transform")))
            law = None if tilt is None else law
            if best.gap <= tolerance or best.upper <= enough:
                return best, law
            if best.gap > _USEFUL * before.gap:
                return replace(
                    best, stopped="finer grids make it no narrower, as rounding errors of all steps add up"
                ), law
            change = min(max(_MARGIN * tolerance / max(best.gap, LEAST_DIVISOR), 0.02), 0.5)
            width, aim = change * width, change * aim
            if self.question.delta is not None and best.gap < _KNOWN:
                near = best.upper, best.lower
        if best.upper == self.question.largest:
            raise OverflowError(best.stopped)
        return replace(best, stopped=best.stopped or f"it is what {_PASSES} passes reach"), law

    def _near(self, direction: Direction) -> tuple[float, float]:
        """About where ε is, and what it is seldom below."""
        if self.question.epsilon is not None:
            return self.question.epsilon, self.question.epsilon
        return self.sketch.nearer(self.way(direction), 1 if direction == "remove" else -1, self.delta)

    def _law(
        self, direction: Direction, width: float, near: tuple[float, float], aim: float, tilt: float | None
    ) -> Law:
        """The composition for one direction (with a tilt: for the other too), on no more points than reading needs."""
        first, second = self.ways if direction == "remove" else self.ways[::-1]
        rough = _ROUGH * second.epsilon + _BETWEEN * max(first.epsilon - second.epsilon, 0.0)
        widths = (width, math.inf if tilt is None else rough)
        widths = widths if direction == "remove" else widths[::-1]
        hints = make_hints(self.sketch, self.ways, self.delta, widths, self.spacing, one_grid=True, bell=near[1] > 0)
        hints = hints if tilt is None else replace(hints, tilt=tilt)
        return thinned(composed(self.parts, self.sketch, hints, near, aim), hints)


def thinned(law: Law, hints: Hints) -> Law:
    """The law on a coarser grid, which adds less variance to the whole than the finest one did to all steps."""
    grid = int(math.log(max(_THIN * hints.total, 1.0), RATIO**2))
    while grid and law.step_of(grid) * hints.steepest() > _FINE:
        grid -= 1
    return on_grid(law, grid)


def composed(parts: Parts, drawn: Sketch, hints: Hints, near: tuple[float, float], tolerance: float) -> Law:
    """The law of a composition: by one transform of all its steps, or of parts that were composed before."""
    steps: list[tuple[Law, int]] = []
    for group in groups_of(parts, drawn):
        count = parts[group[0]][1]
        for law in split(_step(parts, drawn, hints, group), _TOGETHER):
            whole = law.batch < _TOGETHER // 2 or len(parts) < 2 * _TOGETHER
            steps.append((law if whole else _power([(law, 1)], hints, tolerance), count))
    window = window_for(steps, hints, near, tolerance)
    while window.size > _LONG and (shorter := _shortened(steps, hints, tolerance)) is not None:
        steps = shorter
        window = window_for(steps, hints, near, tolerance)
    return _powered(steps, window, hints)


def _step(parts: Parts, drawn: Sketch, hints: Hints, group: list[int]) -> Law:
    """Single steps of some pairs on the same grids."""
    spans = paired(spans_for(hints, drawn.losses, drawn.mean_masses(np.array(group))), len(group))
    cells = sum(last - first for first, last in spans)
    if cells > _MANY_POINTS:
        raise OverflowError("single steps would have too many points")
    spend(len(group) * step_cost(cells))
    return discretised([parts[k][0] for k in group], hints.step, spans, hints.tilt)


def _power(laws: list[tuple[Law, int]], hints: Hints, tolerance: float) -> Law:
    return _powered(laws, whole_window(laws, hints, tolerance), hints)


def _powered(laws: list[tuple[Law, int]], window: Window, hints: Hints) -> Law:
    if window.size > _LONGEST:
        raise OverflowError("one window of a transform would have too many points")
    spend(power_cost(window.size, sum(law.batch for law, _ in laws)))
    return powered(laws, window, worse=hints.worse)


def _shortened(steps: list[tuple[Law, int]], hints: Hints, tolerance: float) -> list[tuple[Law, int]] | None:
    """Many copies as fewer powers of them, on the next coarser grid, which adds less variance than they did.

    None where copies are too few for that.
    """
    grid = min(k for law, _ in steps for k in law.components) + 1
    copies = sum(law.batch * count for law, count in steps)
    if sum(law.batch * count for law, count in steps if count < _COPIES) > copies / _COPIES:
        return None
    out = []
    for law, count in steps:
        fewer = count // _COPIES
        if fewer:
            out.append((on_grid(_power([(law, count // fewer)], hints, tolerance), grid), fewer))
        rest = count - (count // fewer * fewer if fewer else 0)
        if rest:
            out.append((on_grid(law, grid), rest))
    return out
