"""Cells moved onto their ends, against what they may truly hold: above it for every threshold, without slack.

The truth has its masses as far off as is told and its ends where rounded logarithms may have put them. It lies on
both ends of its cell; what was computed has E(Y − t)⁺ at least as large for all t, if it has so at the corners of both.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcalc.accounting.certified import discretise
from dpcalc.pairs.cells import Cells
from dpcalc.rounding import UNIT

LOGARITHM = 4 * mpf(UNIT)  # of log, exp and expm1, relatively


def beyond(weights: Any, points: Any, t: Any) -> Any:
    return sum(weight * max(point - t, 0) for weight, point in zip(weights, points, strict=True))


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-4])
@pytest.mark.parametrize("told", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize(("first", "step"), [(-6, 0.1), (1, 1e-3), (1000, 0.03), (-8, 2.0)])
@pytest.mark.parametrize("near", [0.0, 1e-5])
def test_cells_on_their_ends_are_above_the_truth(
    rate: float, told: float, first: int, step: float, near: float
) -> None:
    rng = np.random.default_rng(4)
    with mp.workdps(50):
        edges = np.arange(first, first + 12) * step
        edges = edges[np.expm1(edges) / rate > -1]
        q = np.array([[rate]])
        z = np.exp(edges)[None] + np.expm1(edges)[None] * ((1 - q) / q)
        if edges.size < 3 or not (np.diff(z) > 0).all():
            pytest.skip("no ratio so far below 1 at this rate")
        share = rng.uniform(0.05, 0.95, z[:, 1:].shape) if near == 0 else np.full(z[:, 1:].shape, near)
        size = rng.random(share.shape)
        mass = size * (z[:, :-1] + share * np.diff(z))
        cells = Cells(mass, size, told * mass, told * size)
        (down, up), rho, eta = discretise._split(cells, z, q, edges, np.zeros(share.shape, dtype=bool))
        raised = 1 + 2 * (mpf(rho) + mpf(eta))  # as reading does
        for k, (p_off, q_off) in product(range(share.size), product((-1, 0, 1), repeat=2)):
            p, b = mpf(float(mass[0, k])) * (1 + p_off * mpf(told)), mpf(float(size[0, k])) * (1 + q_off * mpf(told))
            ends = [mpf(float(z[0, k])), mpf(float(z[0, k + 1]))]
            slips = [LOGARITHM * abs(mp.log(end)) for end in ends]
            low, high = ends[0] * mp.exp(-slips[0]), ends[1] * mp.exp(slips[1])
            if not low <= p / b <= high:
                continue
            upper = (p - b * low) / (high - low)
            truth = [1 - mpf(rate) + mpf(rate) * end for end in (low, high)]
            places = [mpf(float(edge)) for edge in edges[k : k + 2]]
            points = [mp.exp(place - mpf(UNIT) * abs(place) + mpf(eta)) for place in places]
            found = [mpf(float(weight[0, k])) * raised for weight in (down, up)]
            for t in (mpf(0), *truth, *points):
                assert beyond(found, points, t) >= beyond([b - upper, upper], truth, t)
