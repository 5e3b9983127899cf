"""Certified upper and lower bounds on δ(ε) and ε(δ) of a composition, by privacy-loss distributions.

Outline: a pilot finds the saddle point; each pair is put on a grid from above and from below (`discretise`); the grids
are composed by FFT under the tilt of the saddle point (`convolve`), and δ(ε) is summed with every error added or taken
away (`curve`). The steps come from the tolerance (`plan`) and are refined until the two bounds meet it.

A mechanism that runs often is composed in two stages: blocks of it on a fine grid over a short range, then, put on the
coarse grid by the same chords, the blocks among themselves and with everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from dpcalc.accounting.convolve import Composed, compose_grids, fitting_window
from dpcalc.accounting.curve import Curve
from dpcalc.accounting.discretise import (
    NEARLY,
    Cells,
    Grid,
    Lump,
    cells_of_grid,
    cells_of_pair,
    even_knots,
    lower_grid,
    lower_masses,
    lump_of_grid,
    lumped,
    occupied_knots,
    upper_grid,
    widening_knots,
)
from dpcalc.accounting.pilot import Outline, Pilot, Saddle, Window, coarse_outline, common_outline
from dpcalc.accounting.plan import LOG_OUTSIDE, MOST_POINTS, Plan, make_plan
from dpcalc.arrays import Indices
from dpcalc.numbers import SMALLEST
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS
from dpcalc.pairs.stacked import Stack, stacks

Parts = Sequence[tuple[Pair, int]]
Side = Literal["upper", "lower"]

_SPARE = 1e-6  # share of δ given away to truncation,
_SHARES = (_SPARE, 0.02, 0.3)  # and more where that may serve
_LEAST_LOG_DELTA, _MOST_ROUNDS = -650.0, 6
_HALVINGS = 6  # of a range that holds the end of a pair's grid
_WIDEST = 4 * MOST_POINTS  # a block's window, in steps
_LOG_BLOCK = -32.0  # log of the tilted probability left outside the window of a block
_MOST_KEPT = 4_000_000  # cells kept between the two bounds
_FEW = 16  # with more different pairs, the largest loss of each is known but roughly
_MANY = 48  # with more different pairs, similar ones are put on grids together
_FAR = np.array([LARGEST_LOSS])
_ROUNDING = 4e-16  # relative error of a loss at an edge


class Cut(NamedTuple):
    """What is left of a composition without losses that are too rare to matter, and the log of their probability."""

    pilot: Pilot
    saddle: Saddle
    log_spare: float


@dataclass(frozen=True)
class Bounds:
    """A certified interval: the truth is between `lower` and `upper`."""

    lower: float
    upper: float


def probability_out_of_range(parts: Parts) -> float:
    """The probability of some loss, infinite ones included, whose exponential leaves the range of doubles."""
    far = np.array([float(pair.masses(_FAR)[0][-1]) for pair, _ in parts])
    counts = np.array([float(count) for _, count in parts])
    return -float(np.expm1(counts @ np.log1p(-np.minimum(far, 1 - 1e-16))))


class LossDistribution:
    """A composition in one direction: dominating pairs to bound it from above, attained ones from below."""

    def __init__(self, upper: Parts, lower: Parts) -> None:
        self.upper, self.lower = list(upper), list(lower)
        self.steps = sum(count for _, count in self.upper)
        self._outlines: dict[int, Outline] = {}
        self._pilots: dict[tuple[int, float], Pilot] = {}
        self._block_pilots: dict[tuple[int, float, int], Pilot] = {}
        self._cuts: dict[tuple[float, float], Cut] = {}
        self._limits_of: dict[tuple[int, float], tuple[float, float]] = {}
        self._cells: dict[tuple[int, float, bytes], Cells] = {}
        self._kept = 0
        self._stack_of: dict[int, Stack] = {}
        self._stacked: dict[tuple[int, Side, float], Grid] = {}
        if len(self.upper) > _MANY:
            self._stack_up()
        self.pilot = Pilot(self.upper)

    def _stack_up(self) -> None:
        """Outline similar pairs together; they are put on grids together as well."""
        pairs = {id(pair): pair for pair, _ in (*self.upper, *self.lower)}
        for stack in stacks(list(pairs.values())):
            outline = common_outline(stack.rows)
            if outline is not None:
                for pair in stack.members:
                    self._outlines[id(pair)], self._stack_of[id(pair)] = outline, stack

    def _outline(self, pair: Pair) -> Outline:
        if id(pair) not in self._outlines:
            self._outlines[id(pair)] = coarse_outline(pair)
        return self._outlines[id(pair)]

    @cached_property
    def largest_loss(self) -> float:
        """An upper bound on the composed loss: ε for every δ; infinite unless every pair is bounded."""
        total = 0.0
        for pair, count in self.upper:
            sketch = self._outline(pair)
            empty = np.flatnonzero(np.cumsum(sketch.masses[::-1])[::-1] + sketch.infinite == 0)
            if not empty.size:
                return np.inf
            high = float(sketch.edges[empty[0] - 1])
            if len(self.upper) <= _FEW:
                high = _largest_loss(pair, low=0.7 * high, high=high)
            total += count * high * (1 + 1e-12)
        return max(total, 0.0)

    def cut_for_delta(self, delta: float, share: float = _SPARE) -> Cut:
        """What matters for the ε at which δ is the one asked for, and its saddle point."""
        if (delta, share) not in self._cuts:
            log_spare = float(np.log(delta * share))
            pilot = self.pilot.cut(log_spare - float(np.log(self.steps)))
            saddle = pilot.saddle_for_delta(float(np.log(delta) + np.log1p(-share)))
            self._cuts[delta, share] = Cut(pilot, saddle, log_spare)
        return self._cuts[delta, share]

    def cut_for_epsilon(self, epsilon: float, share: float = _SPARE) -> Cut:
        """What matters for δ at this ε, and its saddle point: δ tells what matters, and what matters tells δ."""
        log_delta = np.clip(self.pilot.saddle_for_epsilon(epsilon).log_delta, _LEAST_LOG_DELTA, 0.0)
        for _ in range(_MOST_ROUNDS):
            log_spare = float(log_delta + np.log(share))
            pilot = self.pilot.cut(log_spare - float(np.log(self.steps)))
            saddle, before = pilot.saddle_for_epsilon(epsilon), log_delta
            log_delta = np.clip(saddle.log_delta, _LEAST_LOG_DELTA, 0.0)
            if abs(log_delta - before) < 1:
                break
        return Cut(pilot, saddle, log_spare)

    def epsilon(self, delta: float, tolerance: float, *, only_upper: bool = False) -> Bounds:
        """Bounds on ε(δ) whose relative gap is `tolerance` where possible; `only_upper` leaves the lower at 0."""
        return self._best(
            (self.cut_for_delta(delta, share) for share in _SHARES),
            lambda curve: curve.epsilon(delta),
            lambda saddle: tolerance * max(saddle.epsilon, 0.0),
            Bounds(0.0, self.largest_loss),
            tolerance,
            only_upper=only_upper,
        )

    def delta(self, epsilon: float, tolerance: float, *, only_upper: bool = False) -> Bounds:
        """Bounds on δ(ε), the upper one positive unless no loss can exceed ε."""
        if epsilon >= self.largest_loss and all(_ends_abruptly(pair) for pair, _ in self.upper):
            return Bounds(0.0, 0.0)
        found = self._best(
            (self.cut_for_epsilon(epsilon, share) for share in _SHARES),
            lambda curve: curve.delta(epsilon),
            lambda saddle: tolerance / max(saddle.theta, 1e-3),
            Bounds(0.0, 1.0),
            tolerance,
            only_upper=only_upper,
        )
        return Bounds(found.lower, max(found.upper, SMALLEST))

    def _best(
        self,
        cuts: Iterable[Cut],
        value: Callable[[Curve], float],
        target: Callable[[Saddle], float],
        best: Bounds,
        tolerance: float,
        *,
        only_upper: bool,
    ) -> Bounds:
        """The tightest bounds from some cuts.

        Losses so rare that all of them together have a small share of δ may outweigh everything under a tilt. Where the
        tilt tears the losses apart, into common and rare ones, more of δ is spent on leaving the rare ones out.
        """
        for cut in cuts:
            found = self._refine(cut, value, tolerance, target(cut.saddle), only_upper=only_upper)
            best = Bounds(max(best.lower, found.lower), min(best.upper, found.upper))
            if not cut.saddle.is_torn() or best.upper - best.lower <= tolerance * best.upper:
                break
        return best

    def _refine(
        self, cut: Cut, value: Callable[[Curve], float], tolerance: float, target: float, *, only_upper: bool
    ) -> Bounds:
        target = max(target, 1e-4 * cut.saddle.deviation)
        best, gap = Bounds(0.0, np.inf), np.inf
        for _ in range(2 if cut.saddle.is_torn() else 4):
            plan = make_plan(cut.pilot, cut.saddle, self.upper, target, log_untilted=cut.log_spare)
            upper = value(self._curve(self.upper, "upper", cut, plan))
            lower = 0.0
            if self.lower and not only_upper:
                lower = value(self._curve(self.lower, "lower", cut, plan))
            best = Bounds(max(best.lower, lower), min(best.upper, upper))
            gap, before = best.upper - best.lower, gap
            met = only_upper or gap <= tolerance * best.upper
            if met or gap > 0.7 * before or self.lower != self.upper or plan.at_limit:
                break
            target *= float(np.clip(0.6 * tolerance * best.upper / gap, 0.02, 0.5))
        return best

    def _curve(self, parts: Parts, side: Side, cut: Cut, plan: Plan) -> Curve:
        theta = min(cut.saddle.theta, 2 / plan.step)
        log_rare = cut.log_spare - float(np.log(self.steps))
        grids: list[tuple[Grid, int]] = []
        shift = lost = 0.0
        for pair, count in parts:
            size = plan.block(count)
            if size > 1 and self._block_window(pair, size, theta, log_rare).width * plan.factor > _WIDEST * plan.step:
                size = 1
            step = plan.step if size == 1 else plan.step / plan.factor
            grid = self._discretised(pair, side, step, plan.ratio, log_rare).tilted(theta)
            if side == "lower":
                grid = self._better_lumped(pair, grid, plan.ratio, log_rare)
            shift += count * _ROUNDING * (abs(grid.offset) + float(np.abs(grid.losses[[0, -1]]).max()))
            if side == "lower" and pair.has_atoms():
                shift += count * NEARLY * plan.step
            if size == 1:
                grids.append((grid, count))
                continue
            rest = count % size
            if rest and plan.is_few(rest, count):
                grids.append((self._discretised(pair, side, plan.step, plan.ratio, log_rare).tilted(theta), rest))
                rest = 0
            for block_size, blocks in ((size, count // size), (rest, 1)):
                if block_size:
                    window = self._block_window(pair, block_size, theta, log_rare).lowered(block_size * grid.offset)
                    window = fitting_window([(grid, block_size)], window, _LOG_BLOCK)
                    composed = compose_grids([(grid, block_size)], window, log_mass=_LOG_BLOCK, log_untilted=log_rare)
                    grids.append((_block(composed, side, plan), blocks))
                    lost += blocks * composed.below
        if side == "lower":
            grids = _that_help(grids)
        offset = sum(count * grid.offset for grid, count in grids)
        window = cut.pilot.window(theta, LOG_OUTSIDE, cut.log_spare).lowered(offset)
        window = fitting_window(grids, window, LOG_OUTSIDE)
        composed = compose_grids(grids, window, log_mass=LOG_OUTSIDE, log_untilted=cut.log_spare)
        return Curve(composed, side=side, near=cut.saddle.epsilon, shift=shift, steps=self.steps, lost=lost)

    def _block_window(self, pair: Pair, size: int, theta: float, log_rare: float) -> Window:
        if (id(pair), log_rare) not in self._pilots:
            self._pilots[id(pair), log_rare] = Pilot([(pair, 1)]).cut(log_rare)
        if (id(pair), log_rare, size) not in self._block_pilots:
            self._block_pilots[id(pair), log_rare, size] = self._pilots[id(pair), log_rare].with_count(size)
        return self._block_pilots[id(pair), log_rare, size].window(theta, _LOG_BLOCK, log_rare)

    def _cells_of(self, pair: Pair, step: float, knots: Indices) -> Cells:
        """The cells of a pair, kept from the upper bound for the lower one."""
        key = (id(pair), step, knots.tobytes())
        if key in self._cells:
            return self._cells.pop(key)
        cells = cells_of_pair(pair, step=step, knots=knots, snap=pair.has_atoms())
        self._kept += cells.mass.size
        if self._kept > _MOST_KEPT:
            self._cells, self._kept = {}, 0
        self._cells[key] = cells
        return cells

    def _knots(self, pair: Pair, step: float, ratio: float, log_rare: float) -> Indices:
        low, high = self._limits(pair, log_rare)
        first, last = int(np.floor(low / step)) - 1, int(np.ceil(high / step)) + 1
        last = min(last, first + 4 * MOST_POINTS)
        # Atoms are on grid points, and should stay on edges of cells.
        return occupied_knots(pair, step, first, last) if pair.has_atoms() else widening_knots(first, last, ratio)

    def _limits(self, pair: Pair, log_rare: float) -> tuple[float, float]:
        """Losses below and above which less than e^log_rare of a pair lies, or of any of its stack."""
        stack = self._stack_of.get(id(pair))
        rows = pair if stack is None else stack.rows
        if (id(rows), log_rare) not in self._limits_of:
            rare = float(np.exp(log_rare))
            low, high = self._outline(pair).tail_limits(rare)
            lowest = high / 2
            for _ in range(_HALVINGS if high > 0 else 0):
                middle = (lowest + high) / 2
                is_rare = float(np.max(rows.masses(np.array([middle]))[0][..., -1])) < rare
                lowest, high = (lowest, middle) if is_rare else (middle, high)
            self._limits_of[id(rows), log_rare] = low, high
        return self._limits_of[id(rows), log_rare]

    def _discretised(self, pair: Pair, side: Side, step: float, ratio: float, log_rare: float) -> Grid:
        if (id(pair), side, step) in self._stacked:
            return self._stacked.pop((id(pair), side, step))
        knots = self._knots(pair, step, ratio, log_rare)
        stack = self._stack_of.get(id(pair))
        if stack is not None and len(stack.members) * len(knots) < _MOST_KEPT // 8:
            return self._discretised_stack(stack, pair, side, step, knots)
        cells = self._cells_of(pair, step, knots)
        if side == "upper":
            return upper_grid(cells, step=step, knots=knots)
        return replace(lower_grid(cells, step=step, knots=knots), infinite=self._outline(pair).infinite)

    def _better_lumped(self, pair: Pair, grid: Grid, ratio: float, log_rare: float) -> Grid:
        """A tilted grid from below, or that of the pair with its small losses lumped together where that says more."""
        lump = lumped(pair, grid.step / 2)
        if lump is None:
            return grid
        knots = self._knots(pair, grid.step, ratio, log_rare)
        other = lower_grid(cells_of_pair(lump, step=grid.step, knots=knots), step=grid.step, knots=knots)
        other = replace(other, infinite=grid.infinite, offset=lump.offset).tilted(grid.theta)
        return other if _log_moment(other) > _log_moment(grid) else grid

    def _discretised_stack(self, stack: Stack, wanted: Pair, side: Side, step: float, knots: Indices) -> Grid:
        """The grid of one pair of a stack; those of the others are kept until they are asked for."""
        cells = self._cells_of(stack.rows, step, knots)
        if side == "upper":
            grids = [upper_grid(cells.row(k), step=step, knots=knots) for k in range(len(stack.members))]
        else:
            rows = lower_masses(cells, step=step, knots=knots)
            grids = [Grid(step, int(knots[0]), row, knots=knots) for row in rows]
        for pair, grid in zip(stack.members, grids, strict=True):
            self._stacked[id(pair), side, step] = grid
        return self._stacked.pop((id(wanted), side, step))


def _ends_abruptly(pair: Pair) -> bool:
    """Whether a loss has an end that it reaches, and not a tail that is only too thin for doubles."""
    sketch = coarse_outline(pair)
    empty = np.flatnonzero(np.cumsum(sketch.masses[::-1])[::-1] + sketch.infinite == 0)
    high = float(sketch.edges[empty[0] - 1]) if empty.size else 0.0
    if high <= 0:
        return False
    end = _largest_loss(pair, low=0.7 * high, high=high)
    return bool(pair.masses(np.array([end * (1 - 1e-6)]))[0][-1] > 1e-200)


def _largest_loss(pair: Pair, *, low: float, high: float) -> float:
    """The least loss found by bisection that a pair, which never exceeds `high`, never exceeds."""
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if pair.masses(np.array([middle]))[0][-1] > 0 else (low, middle)
    return high


def _that_help(grids: list[tuple[Grid, int]]) -> list[tuple[Grid, int]]:
    """The grids without those that say less from below than nothing would: losses far below the step.

    A composition is at least its parts. Every pair has E[e^{θL}] ≥ 1, and a grid with less only lowers the bound.
    """
    return [part for part in grids if _log_moment(part[0]) > 0 or part[0].infinite > 0] or grids[:1]


def _log_moment(grid: Grid) -> float:
    """log E[e^{θL}] of a tilted grid."""
    return grid.log_scale + grid.theta * grid.offset


def _block(composed: Composed, side: Side, plan: Plan) -> Grid:
    """Copies composed on the fine grid as one distribution on the coarse one."""
    if side == "upper":
        return _coarsened(composed.upper(), upper_grid, plan)
    fine = composed.lower()
    coarse, lump = _coarsened(fine, lower_grid, plan), lump_of_grid(fine, plan.step / 2)
    if lump is None:
        return coarse
    other = _coarsened(fine, lower_grid, plan, lump)
    return other if _log_moment(other) > _log_moment(coarse) else coarse


def _coarsened(fine: Grid, make: Callable[..., Grid], plan: Plan, lump: Lump | None = None) -> Grid:
    cells, first = cells_of_grid(fine, factor=plan.factor, lump=lump)
    knots = even_knots(first, first + len(cells.mass))
    coarse = make(cells, step=plan.step, knots=knots, theta=fine.theta)
    offset = fine.offset + (lump.at if lump is not None else 0.0)
    # Tilted masses count from the grid's own zero.
    log_scale = fine.log_scale - (fine.theta * lump.at if lump is not None else 0.0)
    return replace(coarse, log_scale=log_scale, infinite=fine.infinite, offset=offset).tilted(fine.theta)
