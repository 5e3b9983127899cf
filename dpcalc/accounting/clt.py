"""The central limit theorem for privacy losses: a quick approximation, labelled as one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcalc.accounting.steering.pilot import sketch
from dpcalc.mechanisms.base import Mechanism
from dpcalc.pairs.base import Pair

_KNOTS = np.concatenate((-np.geomspace(1e-9, 690.0, 6000)[::-1], [0.0], np.geomspace(1e-9, 690.0, 6000)))


def approximate_mu(parts: Sequence[tuple[Mechanism, int]]) -> float:
    """√Σ count·Var(L), the larger of the two directions: the composition is close to a Gaussian of this μ.

    For many weak mechanisms the summed loss is near N(μ²/2, μ²) (Dong, Roth, Su 2022, Theorem 5). Not a bound.
    """
    return max(math.sqrt(sum(count * _variance(mechanism, index) for mechanism, count in parts)) for index in (0, 1))


def _variance(mechanism: Mechanism, index: int) -> float:
    return sum(copies * _variance_of(pairs[index].rough()) for pairs, copies in mechanism.runs(1))


def _variance_of(pair: Pair) -> float:
    drawn = sketch([(pair, 1)], _KNOTS)
    masses = drawn.masses[0] * np.exp(drawn.losses)
    mean = float(masses @ drawn.losses)
    return float(masses @ (drawn.losses - mean) ** 2)
