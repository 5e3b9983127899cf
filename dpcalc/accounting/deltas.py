"""δ at many ε of one composition, from as few laws as tell it narrowly."""

from __future__ import annotations

from collections.abc import Sequence

from dpcalc.accounting.certified.read import Curve, curve, worst
from dpcalc.accounting.compose import answer_of, factored, group
from dpcalc.accounting.engines import one_law
from dpcalc.accounting.question import Question
from dpcalc.mechanisms.base import Mechanism


class Deltas:
    """Certified upper bounds on δ at any ε, each as narrow as the tolerance asks or the best that `compose` has.

    A law bounds δ at every ε from above and below. The first is composed for ε = `reach`, further ones where those
    that are there are too wide.
    """

    def __init__(self, parts: Sequence[tuple[Mechanism, int]], tolerance: float, *, reach: float = 0.0) -> None:
        self._parts = factored(group(parts))
        self._tolerance, self._reach = tolerance, reach
        self._curves: list[tuple[list[Curve], list[Curve]]] = []  # of each law, from above and from below
        self._laws_help = True

    def __call__(self, epsilon: float) -> float:
        found = self._told(epsilon)
        for at in (epsilon,) if self._curves else (max(epsilon, self._reach), epsilon):
            if found is None and self._laws_help:
                self._compose(self._narrowly(at))
                found = self._told(epsilon)
        if found is None:
            self._laws_help = False
            return answer_of(self._parts, Question(None, epsilon, self._tolerance)).upper
        return found

    def _narrowly(self, epsilon: float) -> Question:
        return Question(None, epsilon, self._tolerance / 2)

    def _told(self, epsilon: float) -> float | None:
        """The bound of some law that is narrow enough there."""
        for above, below in self._curves:
            upper, lower = (worst([each.delta(epsilon) for each in curves]) for curves in (above, below))
            if self._narrowly(epsilon).is_met(lower, upper):
                return upper
        return None

    def _compose(self, question: Question) -> None:
        found = one_law(self._parts, question)
        if found is None:
            self._laws_help = False
            return
        law, directions = found
        above = [curve(law, direction, upper=True) for direction in directions]
        below = [curve(law, direction, upper=False) for direction in directions]
        self._curves.append((above, below))
