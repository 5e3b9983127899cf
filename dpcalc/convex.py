"""Convex minorants of points in the plane."""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Floats, Indices


def convex_minorant(x: Floats, y: Floats) -> Indices:
    """Which of the points with increasing x are the corners of the largest convex function below all of them.

    Any selection that keeps both ends joins points by chords above a convex function through or below them, so that
    rounding in the choice costs tightness at most.
    """
    xs, ys = x.tolist(), y.tolist()
    corners: list[int] = []
    for i in range(len(xs)):
        while len(corners) > 1:
            j, k = corners[-1], corners[-2]
            if (ys[j] - ys[k]) * (xs[i] - xs[j]) < (ys[i] - ys[j]) * (xs[j] - xs[k]):
                break
            corners.pop()
        corners.append(i)
    return np.array(corners, dtype=np.int64)
