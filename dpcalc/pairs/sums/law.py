"""The law of X = (Z₁ + … + Z_n)/n, Z_i independent copies of dP/dQ under Q, on nested linear grids (L6).

Stages map certified laws to certified laws under any hints: `terms` (a pair to the law of one Z), `plus` (two
independent blocks), `coarsened`, `without_left` and `without_right`. Nothing here looks at a tolerance;
docs/certificate.md has the lemmas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.rounding import SMALLEST_NORMAL, UNIT, accumulated

RATIO = 4
"""How many steps of a grid make one of the next coarser."""

UPPER, P_LOWER, Q_LOWER = 0, 1, 2
"""The rows of a part."""

Spans = tuple[tuple[int, int], ...]
"""Index ranges on the grids 0, 1, …: each inside the next; grid k is used outside the range of grid k - 1."""

_BLOCK = 64  # terms of an inner product that are added in a row
_COARSENING = 8  # roundings of a weight that is split or gathered: products, three sums, and two with others
PER_SUM = 8
"""Roundings of a weight of a sum, besides those of its terms."""


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

    def without_nothing(self) -> Part:
        """The same from the first point with some weight to the last."""
        there = np.flatnonzero(self.rows.any(axis=0))
        return Part(self.start + int(there[0]), self.rows[:, there[0] : there[-1] + 1])

    def convolved(self, other: Part, mine: int, theirs: int) -> Part:
        """Sums of independent blocks of so many terms. One term of either runs under P: a = (m·a∗b + n·b∗a)/(m + n)."""
        (u, a, b), (v, c, d) = self.rows, other.rows
        p = (mine * _convolved(a, d) + theirs * _convolved(b, c)) / (mine + theirs)
        return Part(self.start + other.start, np.stack([_convolved(u, v), p, _convolved(b, d)]))


def _convolved(x: Floats, y: Floats) -> Floats:
    """x ∗ y by halves of the shorter one: a sum of sums is rounded less often than one long sum."""
    x, y = (x, y) if len(x) <= len(y) else (y, x)
    return _halved(x, y)


def _halved(x: Floats, y: Floats) -> Floats:
    if len(x) <= _BLOCK:
        return np.convolve(x, y)
    half = len(x) // 2
    out = np.zeros(len(x) + len(y) - 1)
    out[: half + len(y) - 1] = _halved(x[:half], y)
    out[half:] += _halved(x[half:], y)
    return out


def _roundings(terms: int) -> int:
    """How often an entry of `_convolved` is rounded."""
    return terms if terms <= _BLOCK else 1 + _roundings(-(-terms // 2))


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
        most, moved, same = 0, 0, self is other  # roundings of a weight on one grid, and on the way to it
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
                    most = max(most, moved + _roundings(min(a.size, b.size)) + 2)
            fine_x = None if up_x is None else up_x.coarser()
            fine_y = fine_x if same else None if up_y is None else up_y.coarser()
            moved += 2 * _COARSENING
        count, terms = self.count + other.count, PER_SUM + most
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
            infinite=(self.infinite + beyond * self._raised(part.size)) * (1 + 8 * UNIT),
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
