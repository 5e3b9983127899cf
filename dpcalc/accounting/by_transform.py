"""The engine for long runs and long lists: all steps on one grid, composed in one transform for each direction.

Everything certified happens in `certified`; here hints are made, used and made better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import Direction, Law
from dpcalc.accounting.certified.power import powered
from dpcalc.accounting.certified.read import curve
from dpcalc.accounting.interval import Interval, certificate_of
from dpcalc.accounting.question import Question
from dpcalc.accounting.steering.groups import groups_of, spacing_of
from dpcalc.accounting.steering.hints import Hints, make_hints, spans_for, without_tails
from dpcalc.accounting.steering.pilot import Sketch, Way, sketch
from dpcalc.accounting.steering.window import window_for
from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Pair, int]]

_PASSES = 5
_MARGIN = 0.8  # of the tolerance, that a pass aims at
_ROUGH = 0.03  # what a direction that is not the worst aims at first
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
        for _ in range(_PASSES):
            width = aim * near[0] if self.question.delta is not None else aim / self.way(direction).order
            found = self._pass(direction, width, near, aim)
            best = best.and_(found)
            if best.gap <= tolerance or best.upper <= enough:
                return best
            aim *= min(max(_MARGIN * tolerance / max(best.gap, 1e-300), 0.02), 0.5)
        return replace(best, stopped=f"it is what {_PASSES} passes reach")

    def _near(self, direction: Direction) -> tuple[float, float]:
        """About where ε is, and what it is seldom below."""
        if self.question.epsilon is not None:
            return self.question.epsilon, self.question.epsilon
        return self.sketch.nearer(self.way(direction), 1 if direction == "remove" else -1, self.delta)

    def _pass(self, direction: Direction, width: float, near: tuple[float, float], aim: float) -> Interval:
        widths = (width, math.inf) if direction == "remove" else (math.inf, width)
        ways = self.ways
        hints = make_hints(self.sketch, ways, self.delta, widths, self.spacing, one_grid=True)
        law = composed(self.parts, self.sketch, hints, near, aim)
        below, above = (curve(law, direction, upper=upper) for upper in (False, True))
        if self.question.delta is not None:
            lower, upper = below.epsilon(self.question.delta), above.epsilon(self.question.delta)
        else:
            assert self.question.epsilon is not None
            lower, upper = below.delta(self.question.epsilon), min(above.delta(self.question.epsilon), 1.0)
        return Interval(lower, upper, certificate_of(law, "transform"))


def composed(parts: Parts, drawn: Sketch, hints: Hints, near: tuple[float, float], tolerance: float) -> Law:
    """The law of a composition, by one transform of all its steps."""
    steps = [
        (without_tails(_step(parts, drawn, hints, group), hints), parts[group[0]][1])
        for group in groups_of(parts, drawn)
    ]
    return powered(steps, window_for(steps, hints, near, tolerance), worse=hints.worse)


def _step(parts: Parts, drawn: Sketch, hints: Hints, group: list[int]) -> Law:
    """Single steps of some pairs on the same grids."""
    spans = spans_for(hints, drawn.losses, drawn.mean_masses(np.array(group)))
    return discretised([parts[k][0] for k in group], hints.step, spans, hints.tilt)
