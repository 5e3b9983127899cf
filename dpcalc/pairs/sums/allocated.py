"""The pair of one step out of t, drawn uniformly and secretly: X = (Z₁ + … + Z_t)/t (random allocation)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.effort import note, remembered, spend
from dpcalc.pairs.base import Need, Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.points import BoundPair, PointPair
from dpcalc.pairs.profile import group_of_two
from dpcalc.pairs.sums.balanced import below
from dpcalc.pairs.sums.hints import make_hints
from dpcalc.pairs.sums.law import P_LOWER, Q_LOWER, RATIO, UPPER, SumLaw
from dpcalc.pairs.sums.pilot import of_mean, one_term
from dpcalc.pairs.sums.terms import terms
from dpcalc.rounding import FAINT, SMALLEST_NORMAL, UNIT, accumulated

Side = Literal["upper", "lower"]

_FAINT = FAINT * 2.0**53  # weights below count as infinite above, and as nothing below
_ADDED = 2.0**-30  # more than what the rounding of sums of some thousand masses can be
_GENERIC = 0.02  # of the standard deviation, squared: the variance of what is asked without a question
_MOST_POINTS = 60_000
_PER_TERM, _PER_POINT, _PER_CALL = 1.8, 500.0, 1.5e5  # units of effort: of all rows of a sum of products, and so on


def upper_pair(law: SumLaw) -> BoundPair:
    """A measure above the law of the mean, as points: over-weights are allowed (L1)."""
    x = np.concatenate([law.values(k) / law.count for k in law.parts] or [np.zeros(0)])
    weights = np.concatenate([part.rows[UPPER] for part in law.parts.values()] or [np.zeros(0)])
    weights = weights * (1 + 2 * law.relative)
    seen = (x > 0) & (weights > _FAINT)
    hidden_q = float(weights[~seen].sum())
    hidden_p = float((weights[~seen] * x[~seen]).sum())
    order = np.argsort(x[seen], kind="stable")
    x, q = x[seen][order], weights[seen][order]
    raised = 1 + accumulated(len(weights) + 16)
    infinite = (law.infinite * (1 + 2 * law.relative) + law.gone_p + hidden_p) * raised
    zero = (law.gone_q + hidden_q) * raised
    p = q * x
    over = max(float(p.sum()) + infinite - 1, float(q.sum()) + zero - 1, 0.0) + _ADDED
    shift = law.shift + 8 * UNIT * (1 + float(np.abs(np.log(x)).max(initial=0.0)))
    return BoundPair(np.log(x), p, q, infinite, zero, shift, over)


def lower_pair(law: SumLaw, infinite: float = 0.0) -> BoundPair:
    """P- and Q-mass of what the names of cells tell, as points: a post-processing of the outputs (L3).

    `infinite` is at most the P-mass of what Q never gives in the step that is drawn, which is that of the mean.
    """
    rows = np.concatenate([part.rows for part in law.parts.values()] or [np.zeros((3, 0))], axis=1)
    p, q = rows[P_LOWER], rows[Q_LOWER]
    seen = (np.minimum(p, q) > law.lost / UNIT + 64 * SMALLEST_NORMAL) & (np.maximum(p, q) > _FAINT)
    p, q = p[seen], q[seen]
    losses = np.log(p / q)
    order = np.argsort(losses, kind="stable")
    doubt = 1.001 * (law.relative + law.slack) + 16 * UNIT * (1 + float(np.abs(losses).max(initial=0.0)))
    return below(losses[order], p[order], q[order], doubt, infinite)


def mean_law(pair: Pair, steps: int, need: Need) -> SumLaw:
    """The certified law of the mean of so many copies, on grids that should serve a need."""
    drawn = one_term(pair)
    hints = make_hints(need, of_mean(pair, steps), drawn, steps)
    spans = hints.spans(drawn)
    note(2 * _PER_POINT * sum(last - first for first, last in spans))
    term = terms(pair, hints.step, spans, need.rare, steps)
    law = term
    for bit in bin(steps)[3:]:
        spend(_cost(law, law))
        law = hints.trimmed(law.plus(law))
        if bit == "1":
            spend(_cost(law, term))
            law = hints.trimmed(law.plus(term))
        if law.points > _MOST_POINTS:
            raise OverflowError("the law of so few steps already has too many points")
    return law


def _cost(x: SumLaw, y: SumLaw) -> float:
    """About what a sum costs, each pair of whose grids meets on the coarser one, and thinning it out."""
    cost, fine = _PER_CALL, 0.0
    for k in range(min((*x.parts, *y.parts)), max((*x.parts, *y.parts)) + 1):
        here_x, here_y = (law.parts[k].size if k in law.parts else 0 for law in (x, y))
        cost += _PER_CALL + _PER_POINT * (here_x + here_y + fine) + _PER_TERM * (here_x + fine) * (here_y + fine)
        fine = (max(here_x, here_y) + fine) / RATIO
    return cost


@remembered(32)
def bounds(pair: Pair, steps: int, need: Need) -> dict[Side, BoundPair]:
    """The mean of so many copies from above and from below."""
    law = mean_law(pair, steps, need)
    return {"upper": upper_pair(law), "lower": lower_pair(law, pair.surely_infinite()[0])}


@dataclass(frozen=True)
class AllocatedPair(Pair):
    """One of `steps` runs under P, the others under Q, which one being drawn uniformly; bounded from a `side`."""

    term: Pair
    steps: int
    side: Side = "upper"

    def sharpened(self, need: Need) -> Pair:
        """The points that bound this pair, as tight as needed."""
        return bounds(self.term, self.steps, need)[self.side]

    def rough(self) -> Pair:
        """About this pair, as points: for hints."""
        found = of_mean(self.term, self.steps)
        x, q = found.values[found.values > 0], found.weights[found.values > 0]
        return PointPair(np.log(x), q * x, q)

    @cached_property
    def _generic(self) -> Pair:
        """The points for no question in particular."""
        found = of_mean(self.term, self.steps)
        spread = max(float(np.sqrt(found.weights @ np.minimum(np.abs(found.values - 1), 1.0) ** 2)), 1e-12)
        order, width = 1 / spread, _GENERIC * spread
        return self.sharpened(Need((order, order), (5 * spread, 5 * spread), (width, width), 1.0, 1e-15))

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return self._generic.masses(edges)

    def cells(self, edges: Floats) -> Cells:
        return self._generic.cells(edges)

    def excess(self) -> float:
        return self._generic.excess()

    def at_infinity(self) -> tuple[float, float]:
        return self._generic.at_infinity()

    def support(self) -> tuple[float, float]:
        return self.term.support()

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """Spread onto what single terms are: f_β is convex, so the mean of ratios costs no more than one."""
        return self.term.log_excess(powers, side) if side == 0 else np.full(powers.shape, math.inf)


@dataclass(frozen=True)
class GroupPair(Pair):
    """One record removed and another added, each change dominated by a pair of its own: see `group_of_two`."""

    first: Pair
    second: Pair

    def sharpened(self, need: Need) -> Pair:
        return group_of_two(self.first.sharpened(need), self.second.sharpened(need.reversed()))

    def rough(self) -> Pair:
        return group_of_two(self.first.rough(), self.second.rough())

    @cached_property
    def _generic(self) -> Pair:
        return group_of_two(self.first, self.second)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return self._generic.masses(edges)

    def cells(self, edges: Floats) -> Cells:
        return self._generic.cells(edges)

    def at_infinity(self) -> tuple[float, float]:
        return self._generic.at_infinity()

    def support(self) -> tuple[float, float]:
        return self._generic.support()
