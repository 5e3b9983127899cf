"""The law of X = (Z₁ + … + Z_n)/n, Z_i independent copies of dP/dQ under Q, on nested linear grids (L6).

Stages map certified laws to certified laws under any hints: `terms` (pair → law of one Z), `plus` (two independent
blocks), `coarsened`, `without_left` and `without_right`. Nothing here looks at a tolerance; docs/certificate.md has
the lemmas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Cells, Pair
from dpcalc.rounding import SMALLEST_NORMAL, UNIT, accumulated

RATIO = 4
"""How many steps of a grid make one of the next coarser."""

UPPER, P_LOWER, Q_LOWER = 0, 1, 2
"""The rows of a part."""

Spans = tuple[tuple[int, int], ...]
"""Index ranges on the grids 0, 1, …: each inside the next; grid k is used outside the range of grid k - 1."""

_TOO_MUCH = 1e-9  # masses that add up to more than 1 by this are not those of a pair
_UNKNOWN = 1e-10  # lower cells whose relative error is larger are ignored
_POINTS = 4  # units of a logarithm, relative to it, and of the point it is taken of
_FAINT = 1e-300  # a mass of 0 may be one that doubles cannot hold
_BLOCK = 32  # terms of an inner product that are added in a row
_COARSENING, _SUM = 16, 32  # roundings of a weight, besides those of the terms of a sum

_SHARES = np.array([0.0, 0.25, 0.5, 0.75])  # exact: what goes to the upper of two coarse points
_NEAR = np.array([0.0, 0.0, 0.5, 1.0])  # a name half-way goes either way with equal chance, so that names do not drift


@dataclass(frozen=True)
class Part:
    """Weights on the points start, start + 1, … of one grid: an array (row, point)."""

    start: int
    rows: Floats

    @property
    def size(self) -> int:
        return int(self.rows.shape[-1])

    def plus(self, other: Part | None) -> Part:
        """Two parts on one grid, added."""
        if other is None:
            return self
        start = min(self.start, other.start)
        rows = np.zeros((3, max(self.start + self.size, other.start + other.size) - start))
        rows[:, self.start - start : self.start - start + self.size] = self.rows
        rows[:, other.start - start : other.start - start + other.size] += other.rows
        return Part(start, rows)

    def coarser(self) -> Part:
        """On the next grid: weights split onto two neighbours (L2), lower masses gathered into cells (L3)."""
        pad = self.start % RATIO
        count = -(-(pad + self.size) // RATIO)
        block = np.zeros((3, count * RATIO))
        block[:, pad : pad + self.size] = self.rows
        fours = block.reshape(3, count, RATIO)
        rows = np.zeros((3, count + 1))
        for row, part in ((UPPER, _SHARES), (P_LOWER, _NEAR), (Q_LOWER, _NEAR)):
            rows[row, :-1] = fours[row] @ (1 - part)
            rows[row, 1:] += fours[row] @ part
        return Part(self.start // RATIO, rows)

    def convolved(self, other: Part, mine: int, theirs: int) -> Part:
        """Sums of independent blocks of so many terms. One term of either runs under P: a = (m·a∗b + n·b∗a)/(m + n)."""
        (u, a, b), (v, c, d) = self.rows, other.rows
        p = (mine * _convolved(a, d) + theirs * _convolved(b, c)) / (mine + theirs)
        return Part(self.start + other.start, np.stack([_convolved(u, v), p, _convolved(b, d)]))


def _convolved(x: Floats, y: Floats) -> Floats:
    """x ∗ y in blocks of the shorter one: a sum of sums is rounded less often than one long sum."""
    x, y = (x, y) if len(x) <= len(y) else (y, x)
    if len(x) <= _BLOCK:
        return np.convolve(x, y)
    out = np.zeros(len(x) + len(y) - 1)
    for start in range(0, len(x), _BLOCK):
        piece = np.convolve(x[start : start + _BLOCK], y)
        out[start : start + len(piece)] += piece
    return out


def _roundings(terms: int) -> int:
    """How often an entry of `_convolved` is rounded."""
    return terms if terms <= _BLOCK else _BLOCK + -(-terms // _BLOCK)


@dataclass(frozen=True)
class SumLaw:
    """A law above and one below that of the sum of `count` terms; component k has the points step·4^k·i, i ≥ 0.

    Row UPPER has weights of a measure that exceeds, in convex order, the Q-law of the sum; P_LOWER and Q_LOWER are P-
    and Q-mass of a post-processing (names of cells, added). The ledger, one lemma each: `infinite` is P-mass at ∞ of
    the mean (L8); `gone_p` and `gone_q` are masses of outcomes whose whole ratio counts as {0, ∞}, whatever the other
    terms are (L8); `relative` is the rounding of weights (L10); `slack` the relative error of the lower masses (L9);
    `shift` how far, in log X, points may be from where the weights belong (L9); `lost` what underflow may have taken
    from a row (L10).
    """

    step: float
    parts: Mapping[int, Part]
    count: int = 1
    infinite: float = 0.0
    gone_p: float = 0.0
    gone_q: float = 0.0
    relative: float = 0.0
    slack: float = 0.0
    shift: float = 0.0
    lost: float = 0.0

    def step_of(self, k: int) -> float:
        return self.step * float(RATIO) ** k

    def values(self, k: int) -> Floats:
        """The points of a part, as sums."""
        part = self.parts[k]
        return np.arange(part.start, part.start + part.size, dtype=np.float64) * self.step_of(k)

    @property
    def points(self) -> int:
        return sum(part.size for part in self.parts.values())

    def plus(self, other: SumLaw) -> SumLaw:
        """The law of the sum of two independent blocks (L6): each pair of grids meets on the coarser one."""
        if self.step != other.step:
            raise ValueError("laws on different grids have no sum")
        parts: dict[int, Part] = {}
        terms, same = float(_SUM), self is other
        fine_x: Part | None = None
        fine_y: Part | None = None
        keys = (*self.parts, *other.parts)
        for k in range(min(keys, default=0), max(keys, default=-1) + 1):
            x, y = self.parts.get(k), other.parts.get(k)
            up_x, up_y = (_added(x, fine_x), _added(y, fine_y))
            pairs = [(x, up_y), (fine_x, y)]
            if same and x is not None:
                pairs = [(x, x if fine_x is None else x.plus(Part(fine_x.start, 2 * fine_x.rows)))]
            for a, b in pairs:
                if a is not None and b is not None:
                    out = a.convolved(b, *((1, 1) if same else (self.count, other.count)))
                    parts[k] = out.plus(parts.get(k))
                    terms += _roundings(min(a.size, b.size)) + 4
            fine_x = None if up_x is None else up_x.coarser()
            fine_y = fine_x if same else None if up_y is None else up_y.coarser()
            terms += 2 * _COARSENING
        count = self.count + other.count
        # What numbers below the normal range may have lost, in all entries of a row.
        whole = sum(part.size for part in parts.values()) * terms * SMALLEST_NORMAL
        furthest = max(((part.start + part.size) * self.step_of(k) for k, part in parts.items()), default=0.0)
        return SumLaw(
            self.step,
            parts,
            count,
            (self.count * self.infinite + other.count * other.infinite) / count * (1 + 8 * UNIT),
            (self.gone_p + other.gone_p + whole * max(furthest / count, 1.0)) * (1 + 4 * UNIT),
            (self.gone_q + other.gone_q + whole) * (1 + 4 * UNIT),
            self.relative + other.relative + accumulated(terms),
            self.slack + other.slack,
            max(self.shift, other.shift),
            self.lost * _total(other) + other.lost * _total(self) + whole,
        )

    def coarsened(self, k: int, left: int, right: int) -> SumLaw:
        """The first `left` and the last `right` points of part k on grid k + 1."""
        part = self.parts[k]
        left = min(max(left, 0), part.size)
        right = min(max(right, 0), part.size - left)
        parts = {key: each for key, each in self.parts.items() if key != k}
        moved = parts.get(k + 1)
        for start, end in ((0, left), (part.size - right, part.size)):
            if end > start:
                moved = Part(part.start + start, part.rows[:, start:end]).coarser().plus(moved)
        if moved is not None:
            parts[k + 1] = moved
        if left + right < part.size:
            parts[k] = Part(part.start + left, part.rows[:, left : part.size - right])
        return replace(self, parts=dict(sorted(parts.items())), relative=self.relative + accumulated(_COARSENING))

    def without_left(self, k: int, left: int) -> SumLaw:
        """The first `left` points of part k taken off: above, all that happens there counts as {0, ∞}; below, nothing.

        Given such a block at v the whole ratio has a mean of at most max(1, v/count), the other terms' being 1.
        """
        part = self.parts[k]
        left = min(max(left, 0), part.size)
        weight = float(part.rows[UPPER, :left].sum()) * self._raised(part.size)
        mean = max(1.0, float(self.values(k)[left - 1]) / self.count) if left else 1.0
        parts = dict(self.parts)
        parts[k] = Part(part.start + left, part.rows[:, left:])
        if left == part.size:
            del parts[k]
        return replace(
            self,
            parts=parts,
            gone_p=(self.gone_p + weight * mean) * (1 + 8 * UNIT),
            gone_q=(self.gone_q + weight) * (1 + 8 * UNIT),
        )

    def without_right(self, k: int, right: int) -> SumLaw:
        """The last `right` points of part k gathered in the one before: above, split onto it and ∞ (L2)."""
        part, values = self.parts[k], self.values(k)
        right = min(max(right, 0), part.size - 1)
        stays = part.size - right
        rows = part.rows[:, :stays].copy()
        rows[:, -1] += part.rows[:, stays:].sum(axis=1)
        beyond = float(part.rows[UPPER, stays:] @ (values[stays:] - values[stays - 1])) / self.count
        return replace(
            self,
            parts={**self.parts, k: Part(part.start, rows)},
            infinite=self.infinite + beyond * self._raised(part.size) * (1 + 8 * UNIT),
            relative=self.relative + accumulated(right + 4),
        )

    def _raised(self, terms: int) -> float:
        """What a sum of so many weights is multiplied by to be no less than the exact one."""
        return (1 + 2 * self.relative) * (1 + accumulated(terms + 8))


def _added(part: Part | None, finer: Part | None) -> Part | None:
    return finer if part is None else part.plus(finer)


def _total(law: SumLaw) -> float:
    """The largest sum of a row."""
    return float(sum(np.max(part.rows.sum(axis=-1), initial=0.0) for part in law.parts.values())) * 1.001


def terms(pair: Pair, step: float, spans: Spans, ignored: float = 0.0) -> SumLaw:
    """One term Z = dP/dQ as a law on these grids, from the masses of cells (L2, L8, L9).

    Below, cells of up to `ignored` mass in all are left out, those of which least is known.
    """
    which, start, z = _layout(step, spans)
    first = 1 if z[0] == 0 else 0  # what is below the first positive edge lies between 0 and it
    with np.errstate(divide="ignore"):
        edges = np.log(z[first:])
    cells = pair.cells(edges)
    infinite, gone = _missing(cells)  # with what cells of mass 0 may hold
    if first == 0:  # what lies below the grid
        below_p, below_q = float(cells.p[0] + cells.p_error[0]), float(cells.q[0] + cells.q_error[0])
        gone = (gone[0] + max(below_p, below_q * z[0], below_q), gone[1] + below_q)
        cells = Cells(*(column[1:] for column in cells))
    down, up = _split(Cells(*(column[:-1] for column in cells)), z, _off(edges))
    p, q, p_error, q_error = (float(column[-1]) for column in cells)
    at_last = (q + q_error) * (1 + 4 * UNIT)
    spared = max(q - q_error, 0.0) * float(z[-1]) * (1 - 8 * UNIT - 2 * _off(edges))
    infinite += max((p + p_error) * (1 + 4 * UNIT) - spared, 0.0)
    low_p, low_q, slack = _known(cells, ignored)
    parts: dict[int, Part] = {}
    for k in np.unique(which).tolist():
        here = which == k
        index, size = start[here] - start[here].min(), int(np.ptp(start[here])) + 2
        name = index + (up[here] > down[here])
        parts[k] = Part(
            int(start[here].min()),
            np.stack(
                [
                    np.bincount(index, down[here], size) + np.bincount(index + 1, up[here], size),
                    np.bincount(name, low_p[:-1][here], size),
                    np.bincount(name, low_q[:-1][here], size),
                ]
            ),
        )
    last = max(parts)
    parts[last].rows[:, -1] += [at_last, low_p[-1], low_q[-1]]
    return SumLaw(
        step,
        parts,
        1,
        infinite * (1 + 8 * UNIT),
        gone[0] * (1 + 8 * UNIT),
        gone[1] * (1 + 8 * UNIT),
        accumulated(_SUM),
        slack,
        _off(edges),
        _SUM * len(z) * SMALLEST_NORMAL,
    )


def _layout(step: float, spans: Spans) -> tuple[Floats, Floats, Floats]:
    """The cells between neighbouring points from left to right: grid and index of the left point; and all points."""
    left: list[tuple[int, int, int]] = []
    right: list[tuple[int, int, int]] = []
    for k in range(len(spans) - 1, -1, -1):
        low, high = spans[k]
        inner = (spans[k - 1][0] // RATIO, spans[k - 1][1] // RATIO) if k else (high, high)
        aligned = k == 0 or (spans[k - 1][0] % RATIO == 0 and spans[k - 1][1] % RATIO == 0)
        if not (0 <= low <= inner[0] <= inner[1] <= high and aligned):
            raise ValueError(f"Expected nested spans on whole points, got {spans}.")
        left.append((k, low, inner[0]))
        right.append((k, inner[1], high))
    blocks = [block for block in (*left, *right[::-1]) if block[2] > block[1]]
    which = np.concatenate([np.full(end - first, k) for k, first, end in blocks])
    start = np.concatenate([np.arange(first, end) for _, first, end in blocks])
    end = blocks[-1][2] * (step * float(RATIO) ** blocks[-1][0])
    points = np.append(start * (step * float(RATIO) ** which), end)
    if not (np.isfinite(points).all() and (np.diff(points) > 0).all() and points[-1] < 1e300):
        raise ValueError("a grid whose points doubles cannot tell apart")
    return which, start, points


def _off(edges: Floats) -> float:
    """How far, relatively, e^edge may be from the point whose logarithm was taken."""
    return _POINTS * UNIT * (1 + float(np.abs(edges[np.isfinite(edges)]).max(initial=0.0)))


def _missing(cells: Cells) -> tuple[float, tuple[float, float]]:
    """P-mass that is missing from 1 belongs to ∞, Q-mass to 0 (L8); more than 1 is refused."""
    lacking = []
    for masses, errors in ((cells.p, cells.p_error), (cells.q, cells.q_error)):
        allowed = float(errors.sum()) + 2 * len(masses) * UNIT
        rest = 1 - float(masses.sum())
        if not rest > -allowed - _TOO_MUCH:
            raise CertificationError(f"the masses of a pair add up to {1 - rest:.12g}, more than 1.")
        lacking.append(rest if rest > allowed else 0.0)
    faint = _FAINT * len(cells.p)
    return lacking[0], (lacking[1] + faint, lacking[1] + faint)


def _split(cells: Cells, z: Floats, off: float) -> tuple[Floats, Floats]:
    """Weights on the lower and the upper point of each cell, raised by all that its masses and points may be off by."""
    low, high = z[:-1], z[1:]
    gap = high - low
    doubt_p = cells.p_error + 8 * UNIT * cells.p + _FAINT
    doubt_q = cells.q_error + (8 * UNIT + 4 * off) * cells.q + _FAINT
    doubt = np.where((cells.p > 0) | (cells.q > 0), (doubt_p + doubt_q * high) / gap, 0.0)
    down = np.maximum(cells.q * high - cells.p, 0.0) / gap + doubt
    up = np.maximum(cells.p - cells.q * low, 0.0) / gap + doubt
    return down, up


def _known(cells: Cells, ignored: float) -> tuple[Floats, Floats, float]:
    """The lower law's P- and Q-masses, ignoring cells of which too little is known, and the error of the rest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.maximum(cells.p_error / cells.p, cells.q_error / cells.q)
    known = (worst < _UNKNOWN) & (cells.p > 16 * SMALLEST_NORMAL) & (cells.q > 16 * SMALLEST_NORMAL)
    order = np.argsort(np.where(known, -worst, -np.inf))
    known[order[np.cumsum((cells.p + cells.q)[order]) <= ignored]] = False
    slack = float(np.max(worst, where=known, initial=0.0))
    return np.where(known, cells.p, 0.0), np.where(known, cells.q, 0.0), slack + 8 * UNIT
