"""The best shifts of the meta-theorem (Bok et al., Theorem C.3), for any sequence of steps.

Step k maps with Lipschitz constant c_k, moves neighbouring runs apart by at most s_k, and adds noise of standard
deviation w_k. The theorem gives μ² = Σ (a_k/w_k)² for any shifts with z_k = c_k z_{k-1} + s_k - a_k, a_k, z_k ≥ 0 and
z_t = 0. Weigh every quantity by A_k = c_{k+1}⋯c_t, what is left of it at the end. In these units the distance that has
been injected up to step k is S_k (with the starting distance), the distance that has been shifted away is B_k ≤ S_k,
and the problem is to go from (0, 0) to (U_t, S_t), U_k = Σ_{j≤k} (A_j w_j)², with the least energy Σ (ΔB)²/ΔU below the
obstacle S. Cauchy–Schwarz is the straight line. Where the line would cross the obstacle it is not feasible, and the
optimum is the greatest convex minorant of the points (U_k, S_k), its slopes never negative because S grows.
"""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Floats


def least_energy(noise: Floats, injected: Floats) -> float:
    """Σ (a_k/w_k)² at the best feasible shifts: the energy of the greatest convex minorant from the origin.

    `noise` holds U_k and `injected` S_k at the points that can bind: just before each injection, and the end.
    """
    widths = np.diff(noise, prepend=0.0)
    if not widths[-1] > 0:  # nothing is left of the last step's noise: no shift can be hidden in it
        return 0.0 if injected[-1] == 0 else float("inf")
    slope = injected[-1] / noise[-1]
    if np.all(noise[:-1] * slope <= injected[:-1]):  # the straight line is feasible
        return float(injected[-1] * slope)
    binding = widths > 0  # of points that share a U the first has the lowest obstacle
    widths, rises = _pooled(widths[binding], np.diff(injected[binding], prepend=0.0))
    return float(np.sum(rises**2 / widths))


def _pooled(widths: Floats, rises: Floats) -> tuple[Floats, Floats]:
    """The segments of the greatest convex minorant: neighbours whose slopes fall are merged until slopes only rise."""
    for _ in range(8):  # whole falling runs at once
        slopes = rises / widths
        first = np.concatenate(([True], slopes[1:] > slopes[:-1]))
        if first.all():
            return widths, rises
        starts = np.flatnonzero(first)
        widths, rises = np.add.reduceat(widths, starts), np.add.reduceat(rises, starts)
    stack: list[tuple[float, float]] = []
    for segment in zip(widths.tolist(), rises.tolist(), strict=True):
        width, rise = segment
        while stack and stack[-1][1] * width >= rise * stack[-1][0]:
            last = stack.pop()
            width, rise = width + last[0], rise + last[1]
        stack.append((width, rise))
    return np.array([width for width, _ in stack]), np.array([rise for _, rise in stack])
