"""Random allocation as laws in balls: one of t steps, drawn uniformly, runs under P, so X = (Z₁ + … + Z_t)/t.

Ratios are on nested grids: points 0 … N of step h, and N/4 … N of each step h·4^k. *Above*, what lies between two
points is put on them with its P- and Q-mass kept, and sums have Q-masses alone. *Below*, outcomes are named after the
point that is nearest, and so are sums of two names: Q-masses b∗b, P-masses those where each of the terms is the one
under P by turns. What is not kept is put onto 0 and ∞ above, and ignored below.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise

from flint import arb, arb_poly

from dpcalc.referee.compose import reach
from dpcalc.referee.laws import Atom, Law, zero

_FINE = 16  # points to a standard deviation of Z, or to a Z of 1
_RARE = 1e-3  # of δ, for what leaves the grid
_CUT = 1e-7  # of δ, for what every product leaves out
_LARGEST = 300.0  # loss

_Rows = tuple[arb_poly, arb_poly, arb_poly]  # Q-masses above, P- and Q-masses below, all from the same point on
Levels = dict[int, tuple[int, _Rows]]


@dataclass(frozen=True)
class Sum:
    """The law of a sum of `count` ratios, on points `start`, `start` + 1, … of every level."""

    count: int
    levels: Levels


@dataclass(frozen=True)
class Grids:
    """The step of the finest grid, N, and the mass that may be left out."""

    h: float
    size: int
    cut: float

    def value(self, level: int, place: int) -> float:
        return self.h * 4.0**level * place

    def points(self, lowest: float, highest: float) -> list[tuple[int, int]]:
        """Level and place of every point from the last below `lowest` to the first above `highest`."""
        found = [(0, place) for place in range(max(math.floor(lowest / self.h) - 1, 0), self.size)]
        level = 0
        while self.value(level, self.size) <= highest:
            level += 1
            found += [(level, place) for place in range(self.size // 4, self.size)]
        while len(found) > 2 and self.value(*found[-2]) > highest:
            found.pop()
        return found


def mean_of(law: Law, steps: int, delta: float, size: int) -> tuple[Law, Law] | None:
    """Laws above and below that of 1 of `steps`, on grids of about `size` points; None for very large losses."""
    low, high = reach(law, arb(_RARE * delta / steps))[0], reach(law, arb(_RARE * delta))[1]
    if high > _LARGEST:
        return None
    lowest, highest = math.exp(low), math.exp(high)
    deviation = min(_deviation(law, lowest, highest), 1.0)
    h = 2.0 ** math.floor(math.log2(deviation / _FINE))
    while h > lowest / 4 and _below_value(law, 16 * h) ** steps > _RARE * delta:
        h /= 2  # so that all terms together are hardly ever 0, or known to a few points alone
    size = 4 * max(size // 4, math.ceil(2 * math.sqrt(steps) / deviation))
    grids = Grids(h, size, _CUT * delta)
    total = _power(_terms(law, grids, grids.points(lowest, highest)), steps, grids)
    return _above(total, grids), _below(total)


def _power(base: Sum, count: int, grids: Grids) -> Sum:
    whole = base
    for bit in bin(count)[3:]:
        whole = _sum(whole, whole, grids)
        if bit == "1":
            whole = _sum(whole, base, grids)
    return whole


def _sum(first: Sum, second: Sum, grids: Grids) -> Sum:
    """Each pair of levels on the coarser one: all finer ones are brought there first."""
    m, n = first.count, second.count
    found: Levels = {}
    fine: tuple[Levels, Levels] = ({}, {})
    for level in range(min(*first.levels, *second.levels), max(*first.levels, *second.levels) + 1):
        here = [({level: each.levels[level]} if level in each.levels else {}) for each in (first, second)]
        whole = _joined(here[1], fine[1])
        for one, other in ((here[0], whole), (fine[0], here[1])):
            if level in one and level in other:
                _add(found, level, _product(one[level], other[level], m, n))
        fine = _coarser(_joined(here[0], fine[0])), _coarser(_joined(here[1], fine[1]))
    return Sum(m + n, _trimmed(_settled(found, grids), m + n, grids))


def _product(one: tuple[int, _Rows], other: tuple[int, _Rows], m: int, n: int) -> tuple[int, _Rows]:
    (start, (u, a, b)), (begin, (v, c, d)) = one, other
    p = a * d * (arb(m) / (m + n)) + b * c * (arb(n) / (m + n))
    return start + begin, (u * v, p, b * d)


def _joined(first: Levels, second: Levels) -> Levels:
    found = dict(first)
    for level, part in second.items():
        _add(found, level, part)
    return found


def _add(levels: Levels, level: int, part: tuple[int, _Rows]) -> None:
    if level not in levels:
        levels[level] = part
        return
    (start, rows), (begin, more) = levels[level], part
    least = min(start, begin)
    one, two, three = (
        _shifted(row, start - least) + _shifted(other, begin - least) for row, other in zip(rows, more, strict=True)
    )
    levels[level] = least, (one, two, three)


def _shifted(row: arb_poly, places: int) -> arb_poly:
    return arb_poly([*(zero() for _ in range(places)), *row.coeffs()]) if places else row


def _coarser(levels: Levels) -> Levels:
    return {level + 1: _gathered(*part) for level, part in levels.items()}


def _gathered(start: int, rows: _Rows) -> tuple[int, _Rows]:
    """On the next grid: above between two points, means kept; below on the nearest of them, for all rows the same."""
    first = start // 4
    size = (start + max(len(row) for row in rows)) // 4 + 2 - first
    above, p, q = ([zero() for _ in range(size)] for _ in range(3))
    for index, weight in enumerate(rows[0].coeffs()):
        place, rest = divmod(start + index, 4)
        above[place - first] += weight * (4 - rest) / 4
        if rest:
            above[place - first + 1] += weight * rest / 4
    for row, found in ((rows[1], p), (rows[2], q)):
        for index, mass in enumerate(row.coeffs()):
            found[(start + index + 2) // 4 - first] += mass
    return first, (arb_poly(above), arb_poly(p), arb_poly(q))


def _settled(levels: Levels, grids: Grids) -> Levels:
    """Without points beyond N on any grid: these are on the next."""
    found, level = dict(levels), min(levels)
    while level <= max(found):
        if level in found:
            start, rows = found[level]
            kept = max(grids.size - start, 0)
            if max(len(row) for row in rows) > kept:
                beyond = [arb_poly(row.coeffs()[kept:]) for row in rows]
                _add(found, level + 1, _gathered(start + kept, (beyond[0], beyond[1], beyond[2])))
                one, two, three = (arb_poly(row.coeffs()[:kept]) for row in rows)
                found[level] = start, (one, two, three)
        level += 1
    return {k: part for k, part in sorted(found.items()) if any(len(row) for row in part[1])}


def _trimmed(levels: Levels, count: int, grids: Grids) -> Levels:
    """Without ends of little P- and Q-mass, the same of all rows."""
    found = dict(levels)
    for level, backwards in ((min(levels), False), (max(levels), True)):
        start, rows = found[level]
        coefficients = rows[0].coeffs()
        order = range(len(coefficients))
        mass, light = 0.0, 0
        for index in reversed(order) if backwards else order:
            x = grids.value(level, start + index) / count
            mass += max(float(coefficients[index].mid()), 0.0) * (1 + x)
            if mass > grids.cut:
                break
            light += 1
        if light == len(coefficients):
            continue
        begin, end = (0, len(coefficients) - light) if backwards else (light, None)
        one, two, three = (arb_poly(row.coeffs()[begin:end]) for row in rows)
        found[level] = start + begin, (one, two, three)
    return found


def _terms(law: Law, grids: Grids, points: list[tuple[int, int]]) -> Sum:
    """One ratio: what lies between two points on them, and outcomes by the point that is nearest."""
    values = [grids.value(*point) for point in points]
    above, p, q = ([zero() for _ in points] for _ in range(3))
    if law.above is not None:
        masses = [_more(law, value) for value in values]
        for k in range(len(values) - 1):
            _split(above, (k, k + 1), values, (masses[k][0] - masses[k + 1][0], masses[k][1] - masses[k + 1][1]))
        middles = [(low + high) / 2 for low, high in pairwise(values)]
        edges = [masses[0], *(_more(law, value) for value in middles)]
        for k in range(len(edges) - 1):
            p[k], q[k] = edges[k][0] - edges[k + 1][0], edges[k][1] - edges[k + 1][1]
    for loss, mass, other in law.atoms:
        x = loss.exp()
        left = bisect_right(values, float(x.lower()) * (1 - 2.0**-50)) - 1
        right = max(bisect_left(values, float(x.upper()) * (1 + 2.0**-50)), left + 1)
        if left < 0 or right >= len(values):
            continue
        _split(above, (left, right), values, (mass, other))
        nearest = right if 2 * x > values[left] + values[right] else left
        p[nearest] += mass
        q[nearest] += other
    if points[0] == (0, 0):  # an outcome that only Q has is a ratio of 0
        above[0] += law.q_infinite
        q[0] += law.q_infinite
    levels: Levels = {}
    for level in range(points[-1][0] + 1):
        here = [k for k, point in enumerate(points) if point[0] == level]
        if here:
            rows = [arb_poly([row[k] for k in here]) for row in (above, p, q)]
            levels[level] = points[here[0]][1], (rows[0], rows[1], rows[2])
    return Sum(1, levels)


def _more(law: Law, value: float) -> tuple[arb, arb]:
    assert law.above is not None
    return law.total if value <= 0 else law.above(arb(value).log())


def _split(above: list[arb], ends: tuple[int, int], values: list[float], masses: tuple[arb, arb]) -> None:
    """What lies between two points, on them, P- and Q-mass kept."""
    low, high = (arb(values[end]) for end in ends)
    up = (masses[0] - masses[1] * low) / (high - low)
    above[ends[0]] += masses[1] - up
    above[ends[1]] += up


def _above(total: Sum, grids: Grids) -> Law:
    atoms: list[Atom] = []
    p_kept = q_kept = zero()
    for level, (start, rows) in total.levels.items():
        for index, weight in enumerate(rows[0].coeffs()):
            mass = weight.max(zero())
            if start + index == 0 or not mass > 0:
                continue
            x = arb(grids.value(level, start + index)) / total.count
            atoms.append((x.log(), mass * x, mass))
            p_kept, q_kept = p_kept + mass * x, q_kept + mass
    return Law(
        atoms=tuple(atoms), p_infinite=(1 - p_kept).max(zero()).upper(), q_infinite=(1 - q_kept).max(zero()).upper()
    )


def _below(total: Sum) -> Law:
    atoms: list[Atom] = []
    for _, (_, rows) in total.levels.items():
        for a, b in zip(rows[1].coeffs(), rows[2].coeffs(), strict=False):
            if a > 0 and b > 0:
                atoms.append(((a / b).log(), a, b))
    return Law(atoms=tuple(atoms))


def _below_value(law: Law, value: float) -> float:
    """About the Q-mass of smaller ratios."""
    loss = arb(value).log()
    continuous = law.total[1] - law.above(loss)[1] if law.above is not None else zero()
    return float((continuous + sum((q for at, _, q in law.atoms if at < loss), zero())).mid())


def _deviation(law: Law, lowest: float, highest: float) -> float:
    """About the standard deviation of Z under Q, of which nothing depends but how fine the grid is."""
    count = 400
    edges = [lowest + (highest - lowest) * (k / count) ** 3 for k in range(count + 1)]
    total = square = mean = 0.0
    if law.above is not None:
        masses = [float(law.above(arb(max(edge, 1e-300)).log())[1].mid()) for edge in edges]
        for k in range(count):
            weight, z = masses[k] - masses[k + 1], (edges[k] + edges[k + 1]) / 2
            total, mean, square = total + weight, mean + weight * z, square + weight * z * z
    for loss, _, q in law.atoms:
        weight, z = float(q.mid()), math.exp(float(loss.mid()))
        total, mean, square = total + weight, mean + weight * z, square + weight * z * z
    return max(math.sqrt(max(square / total - (mean / total) ** 2, 0.0)), 1e-9)
