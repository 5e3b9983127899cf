"""Compositions of laws in balls: every atom for itself where there are few, on a grid otherwise.

On the grid of step h the *upper* measure splits each cell between its two edges with P- and Q-mass kept, which only
raises every δ; what leaves the grid goes to ±∞. The *lower* one keeps the names of cells and adds them up, which is
post-processing; what leaves the grid is ignored. Both directions are read off either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flint import arb, arb_poly

from dpcalc.referee.laws import Atom, Law, zero

MOST_ATOMS = 60_000


@dataclass(frozen=True)
class Bounds:
    """Numbers that are at least (`upper`) and at most (`lower`) the δ at some ε, over both directions."""

    upper: float
    lower: float


# -- few atoms -------------------------------------------------------------------------------------------------------


def number_of_atoms(parts: Sequence[tuple[Law, int]]) -> int:
    """How many outcomes a composition has, up to the order of equal steps; very many if a law is not discrete."""
    total = 1
    for law, count in parts:
        if law.above is not None:
            return MOST_ATOMS + 1
        total *= math.comb(count + len(law.atoms) - 1, len(law.atoms) - 1) if law.atoms else 1
        if total > MOST_ATOMS:
            return total
    return total


def exactly(parts: Sequence[tuple[Law, int]], epsilon: arb) -> Bounds:
    """δ at ε from every outcome, merged only where the same steps had the same outcomes."""
    atoms: list[Atom] = [(zero(), arb(1), arb(1))]
    reached_p, reached_q = arb(1), arb(1)
    for law, count in parts:
        outcomes = several(law.atoms, count)
        reached_p *= (1 - law.p_infinite) ** count
        reached_q *= (1 - law.q_infinite) ** count
        atoms = [(a + b, p * r, q * s) for a, p, q in atoms for b, r, s in outcomes]
    factor = epsilon.exp()
    remove = sum(((p - factor * q).max(zero()) for _, p, q in atoms), 1 - reached_p)
    add = sum(((q - factor * p).max(zero()) for _, p, q in atoms), 1 - reached_q)
    return Bounds(max(up(remove), up(add)), max(down(remove), down(add)))


def several(atoms: Sequence[Atom], count: int) -> list[Atom]:
    """All ways to choose `count` of the atoms with repetition, with the number of orders as weight."""
    if count == 1:
        return list(atoms)
    found: list[tuple[Atom, int]] = [((zero(), arb(1), arb(1)), count)]
    for position, (loss, p, q) in enumerate(atoms):
        last = position == len(atoms) - 1
        grown: list[tuple[Atom, int]] = []
        for (at, r, s), left in found:
            for times in (left,) if last else range(left + 1):
                ways = arb(math.comb(left, times))
                grown.append(((at + times * loss, ways * r * p**times, ways * s * q**times), left - times))
        found = grown
    return [atom for atom, left in found if left == 0]


def up(ball: arb) -> float:
    """A double that is not below any point of the ball."""
    return math.nextafter(float(ball.upper()), math.inf)


def down(ball: arb) -> float:
    """A double that is not above any point of the ball."""
    return math.nextafter(float(ball.lower()), -math.inf)


# -- a grid ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Coefficients from index `start` on: P-masses of the upper measure, or P- or Q-masses of the lower one."""

    start: int
    masses: arb_poly

    def times(self, other: Row) -> Row:
        return Row(self.start + other.start, self.masses * other.masses)


@dataclass(frozen=True)
class Composed:
    """A composition on the grid of step h: upper measure with its masses at ±∞, and P- and Q-mass of cells."""

    step: arb
    upper: Row
    p: Row
    q: Row
    p_infinite: arb
    q_infinite: arb

    def times(self, other: Composed, cut: arb) -> Composed:
        return Composed(
            self.step,
            self.upper.times(other.upper),
            self.p.times(other.p),
            self.q.times(other.q),
            self.p_infinite + other.p_infinite,
            self.q_infinite + other.q_infinite,
        )._trimmed(cut)

    def _trimmed(self, cut: arb) -> Composed:
        """Without the ends whose P- and Q-mass is below `cut`: onto ±∞ above, ignored below."""
        masses, start = self.upper.masses.coeffs(), self.upper.start
        first, p_low, q_low = _light_end(masses, start, 1, self.step, cut)
        last, p_high, q_high = _light_end(masses[::-1], start + len(masses) - 1, -1, self.step, cut)
        if first + last >= len(masses):
            return self
        low, high = start + first, start + len(masses) - last
        return Composed(
            self.step,
            Row(low, arb_poly(masses[first : len(masses) - last])),
            _within(self.p, low, high),
            _within(self.q, low, high),
            self.p_infinite + p_low + p_high,
            self.q_infinite + q_low + q_high,
        )

    def delta(self, epsilon: arb) -> Bounds:
        """δ at ε from above and below, over both directions."""
        factor, nothing = epsilon.exp(), zero()
        remove, add = self.p_infinite, self.q_infinite
        for j, mass in enumerate(self.upper.masses.coeffs()):
            loss = self.step * (self.upper.start + j)
            if not loss < epsilon:  # a point surely below ε adds nothing
                remove += mass.max(nothing) * (1 - factor / loss.exp()).max(nothing)
            if not loss > -epsilon:
                ratio = loss.exp()
                add += (mass / ratio).max(nothing) * (1 - factor * ratio).max(nothing)
        below, under = nothing, nothing
        start = max(self.p.start, self.q.start)
        rows = (row.masses.coeffs()[start - row.start :] for row in (self.p, self.q))
        for p, q in zip(*rows, strict=False):
            below += (p - factor * q).max(nothing)
            under += (q - factor * p).max(nothing)
        return Bounds(max(up(remove), up(add)), max(down(below), down(under)))


def _light_end(masses: Sequence[arb], start: int, way: int, step: arb, cut: arb) -> tuple[int, arb, arb]:
    """How many points from the end on have less than `cut` of P- and Q-mass together, and these masses."""
    p = q = zero()
    for index, mass in enumerate(masses):
        other = mass * (-step * (start + way * index)).exp()
        if not p + q + mass + other < cut:
            return index, p, q
        p, q = p + mass, q + other
    return len(masses), p, q


def _within(row: Row, low: int, high: int) -> Row:
    start = max(row.start, low - 1)
    kept = row.masses.coeffs()[start - row.start : max(high + 1 - row.start, 0)]
    return Row(start, arb_poly(kept or [zero()]))


def discretised(law: Law, step: arb, low: int, high: int) -> Composed:
    """One step on the grid points from `low` to `high`."""
    count = high - low + 1
    upper = [zero() for _ in range(count)]
    p_cells, q_cells = [zero() for _ in range(count)], [zero() for _ in range(count)]
    p_infinite, q_infinite = law.p_infinite, law.q_infinite

    def points(index: int) -> arb:
        return (step * (low + index)).exp()

    if law.above is not None:
        edges = [law.above(step * (low + j)) for j in range(count)]
        for j in range(count - 1):
            p, q = edges[j][0] - edges[j + 1][0], edges[j][1] - edges[j + 1][1]
            _split(upper, (j, j + 1), points, p, q)
        halves = [law.above(step * (low + j) - step / 2) for j in range(count + 1)]
        for j in range(count):
            p_cells[j] += halves[j][0] - halves[j + 1][0]
            q_cells[j] += halves[j][1] - halves[j + 1][1]
        p_infinite = p_infinite + edges[-1][0] + law.total[0] - edges[0][0]
        q_infinite = q_infinite + edges[-1][1] + law.total[1] - edges[0][1]
    for loss, p, q in law.atoms:
        place = loss / step
        left, right = math.floor(float(place.lower())) - low, math.ceil(float(place.upper())) - low
        if left < 0 or right >= count:
            p_infinite, q_infinite = p_infinite + p, q_infinite + q
            continue
        _split(upper, (left, max(right, left + 1) if left + 1 < count else left), points, p, q)
        nearest = round(float(place.mid())) - low
        p_cells[nearest] += p
        q_cells[nearest] += q
    whole, p_row, q_row = (Row(low, arb_poly(row)) for row in (upper, p_cells, q_cells))
    return Composed(step, whole, p_row, q_row, p_infinite, q_infinite)


def _split(upper: list[arb], ends: tuple[int, int], points: Callable[[int], arb], p: arb, q: arb) -> None:
    """Put a cell's mass on the two grid points around it, P- and Q-mass kept."""
    left, right = ends
    if left == right:
        upper[left] += p
        return
    below, above = points(left), points(right)
    width = above - below
    upper[left] += (q * above - p) / width * below
    upper[right] += (p - q * below) / width * above


def power(base: Composed, count: int, cut: arb) -> Composed:
    """The composition of `count` copies, by doubling."""
    whole = base
    for bit in bin(count)[3:]:
        whole = whole.times(whole, cut)
        if bit == "1":
            whole = whole.times(base, cut)
    return whole


def on_grid(parts: Sequence[tuple[Law, int]], step: float, delta: float) -> Composed:
    """The composition on the grid of a step that is exact in binary."""
    h = arb(step)
    steps = sum(count for _, count in parts)
    cut = arb(delta) / (arb(10) ** 6 * steps)
    whole: Composed | None = None
    for law, count in parts:
        low, high = _range(law, h, cut / 4)
        part = power(discretised(law, h, low, high), count, cut)
        whole = part if whole is None else whole.times(part, cut)
    assert whole is not None
    return whole


def reach(law: Law, mass: arb) -> tuple[float, float]:
    """Losses outside of which the law has little P- and Q-mass."""
    low = min((float(loss.lower()) for loss, _, _ in law.atoms), default=0.0)
    high = max((float(loss.upper()) for loss, _, _ in law.atoms), default=0.0)
    if law.above is not None:
        while sum(law.above(arb(high)), zero()) > mass and high < 2000:
            high = 1.1 * high + 0.01
        while sum(law.total, zero()) - sum(law.above(arb(low)), zero()) > mass and low > -2000:
            low = 1.1 * low - 0.01
    return low, high


def _range(law: Law, step: arb, mass: arb) -> tuple[int, int]:
    low, high = reach(law, mass)
    return math.floor(low / float(step)) - 1, math.ceil(high / float(step)) + 1
