"""About what stages cost, in units of `effort`: from the sizes of laws alone, and for hints alone."""

from __future__ import annotations

import math

from dpcalc.accounting.certified.convolve import takes_sums
from dpcalc.accounting.certified.law import Law

_PER_TERM = 0.4  # of a sum of products, all rows
_PER_POINT = 120.0  # of a law that is moved, cut or transformed in blocks
_PER_CELL = 300.0  # of a pair's masses
_PER_FREQUENCY = 3.0  # of each law, times log₂ of how many
_PER_CALL = 3e4


def product_cost(x: Law, y: Law) -> float:
    """Of a product of two laws, each pair of whose grids meets on the coarser one, and of thinning it out."""
    cost, fine_x, fine_y = _PER_CALL, 0.0, 0.0
    keys = (*x.components, *y.components)
    for k in range(min(keys, default=0), max(keys, default=-1) + 1):
        here_x, here_y = (law.components[k].size if k in law.components else 0 for law in (x, y))
        steepness = x.step_of(k) * (1 + abs(x.tilt))
        for n, m in ((here_x, here_y + fine_y), (fine_x, here_y)):
            cost += _PER_CALL + _PER_POINT * (n + m)
            if n and m and takes_sums(int(n), int(m), steepness):
                cost += _PER_TERM * n * m
        fine_x, fine_y = (here_x + fine_x) / 4, (here_y + fine_y) / 4
    return cost * x.batch


def step_cost(cells: int) -> float:
    """Of putting a pair on a grid."""
    return _PER_CALL + _PER_CELL * cells


def power_cost(size: int, laws: int) -> float:
    """Of a transform of so many laws in a window of this size."""
    return _PER_CALL + _PER_FREQUENCY * size * math.log2(size + 2) * (laws + 1)
