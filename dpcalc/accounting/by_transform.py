"""The engine for long runs and long lists: all steps on one grid, composed in one transform for each direction.

Everything certified happens in `certified`; here hints are made, used and made better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.accounting.certified.coarsen import on_grid
from dpcalc.accounting.certified.compose import split
from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import Direction, Law
from dpcalc.accounting.certified.power import powered
from dpcalc.accounting.certified.read import curve
from dpcalc.accounting.interval import Interval, certificate_of
from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.groups import groups_of, spacing_of
from dpcalc.accounting.steering.hints import Hints, make_hints
from dpcalc.accounting.steering.pilot import Sketch, Way, sketch
from dpcalc.accounting.steering.spans import paired, spans_for
from dpcalc.accounting.steering.window import whole_window, window_for
from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Pair, int]]

_PASSES = 5
_MARGIN = 0.8  # of the tolerance, that a pass aims at
_ROUGH = 0.03  # what a direction that is not the worst aims at first
_FEWER = 0.7  # of its first guess, what ε of a few steps often is
_USEFUL = 0.7  # what a pass should at least make of the gap
_KNOWN = 0.3  # a gap below which windows are laid by the interval itself
_TOGETHER = 24  # laws of a batch that are composed before the others are
_COPIES = 512  # that are composed before the others are, where windows would be longer than
_LONG = 40_000  # points
_SMALLEST_DELTA = 1e-290
_LARGEST = 1e4  # the largest ε that is tried


def interval(parts: Parts, question: Question, directions: Iterable[Direction]) -> Interval:
    """Certified bounds on the worst of some directions of a composition of pairs: the worse one first.

    The others need only stay below it.
    """
    run = _Run.of(parts, question)
    ranked = sorted(directions, key=lambda direction: -run.way(direction).epsilon)
    best = run.bounds(ranked[0])
    for direction in ranked[1:]:
        other = run.bounds(direction, enough=best.upper)
        best = replace(other if other.upper > best.upper else best, lower=max(best.lower, other.lower))
    return best


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
        if question.delta is not None:
            delta = max(question.delta, _SMALLEST_DELTA)
        else:
            assert question.epsilon is not None
            delta = math.exp(max(drawn.log_delta(question.epsilon), math.log(_SMALLEST_DELTA)))
        ways = drawn.ways(delta)
        if not max(way.epsilon for way in ways) < _LARGEST:
            raise OverflowError(f"losses of more than {_LARGEST:g} leave the range of doubles")
        return cls(parts, question, drawn, delta, ways, spacing_of(parts))

    def way(self, direction: Direction) -> Way:
        return self.ways[0 if direction == "remove" else 1]

    def bounds(self, direction: Direction, enough: float = 0.0) -> Interval:
        """Passes until the interval of a direction is narrow, or below `enough`, or finer grids are of no more help."""
        tolerance = self.question.tolerance
        best = Interval(0.0, self.question.largest, {}, "nothing was certified")
        near = self._near(direction)
        aim = tolerance * _MARGIN if enough == 0 else max(tolerance * _MARGIN, _ROUGH)
        width = aim / self.way(direction).order
        if self.question.delta is not None:
            width = aim * max(near[1], _FEWER * near[0])
        for _ in range(_PASSES):
            before, best = best, best.and_(self._pass(direction, width, near, aim, enough))
            if best.gap <= tolerance or best.upper <= enough:
                return best
            if best.gap > _USEFUL * before.gap:
                return replace(best, stopped="finer grids make it no narrower")
            change = min(max(_MARGIN * tolerance / max(best.gap, 1e-300), 0.02), 0.5)
            width, aim = change * width, change * aim
            if self.question.delta is not None and best.gap < _KNOWN:
                near = best.upper, best.lower
        return replace(best, stopped=f"it is what {_PASSES} passes reach")

    def _near(self, direction: Direction) -> tuple[float, float]:
        """About where ε is, and what it is seldom below."""
        if self.question.epsilon is not None:
            return self.question.epsilon, self.question.epsilon
        return self.sketch.nearer(self.way(direction), 1 if direction == "remove" else -1, self.delta)

    def _pass(
        self, direction: Direction, width: float, near: tuple[float, float], aim: float, enough: float
    ) -> Interval:
        """Bounds by one composition; no lower one where the upper one is below `enough`."""
        widths = (width, math.inf) if direction == "remove" else (math.inf, width)
        ways = self.ways
        hints = make_hints(self.sketch, ways, self.delta, widths, self.spacing, one_grid=True, bell=near[1] > 0)
        law = composed(self.parts, self.sketch, hints, near, aim)
        above, delta, epsilon = curve(law, direction, upper=True), self.question.delta, self.question.epsilon
        upper = above.epsilon(delta) if delta is not None else min(above.delta(epsilon or 0.0), 1.0)
        if upper <= enough:
            return Interval(0.0, upper, certificate_of(law, "transform"))
        below = curve(law, direction, upper=False)
        lower = below.epsilon(delta) if delta is not None else below.delta(epsilon or 0.0)
        return Interval(lower, upper, certificate_of(law, "transform"))


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
    return powered(steps, window, worse=hints.worse)


def _step(parts: Parts, drawn: Sketch, hints: Hints, group: list[int]) -> Law:
    """Single steps of some pairs on the same grids."""
    spans = paired(spans_for(hints, drawn.losses, drawn.mean_masses(np.array(group))))
    return discretised([parts[k][0] for k in group], hints.step, spans, hints.tilt)


def _power(laws: list[tuple[Law, int]], hints: Hints, tolerance: float) -> Law:
    return powered(laws, whole_window(laws, hints, tolerance), worse=hints.worse)


def _shortened(steps: list[tuple[Law, int]], hints: Hints, tolerance: float) -> list[tuple[Law, int]] | None:
    """Many copies as fewer powers of them, on a grid sixteen times coarser, which adds as little variance as they do.

    None where copies are too few for that.
    """
    grid = min(k for law, _ in steps for k in law.components) + 2
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
