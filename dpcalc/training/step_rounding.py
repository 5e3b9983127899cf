"""How far the steps of a linear model, as they are computed, are from the exact ones: an upper bound (docs/train.md).

Shifted interpolation needs of a step no more than ‖φ(x) − φ′(x̃)‖ ≤ c‖x − x̃‖ + s, and that what comes out is a function
of φ(x) + noise alone. If what is computed before the noise is within e of the exact map in each of two runs, s grows by
2e; if what is done after it is within r of a projection, distances grow by 2r. So 2(e + r) is injected by every step,
whether it uses the record or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.last_iterate.losses import LinearLoss
from dpcalc.training.names import LINEAR
from dpcalc.training.noise import grid
from dpcalc.training.plan import Plan
from dpcalc.training.sums import DOUBLE, SINGLE, TILE, gamma

# No Gaussian of a run is so many deviations away: the chance of one is below 10⁻³⁴⁰.
_FURTHEST = 40.0
# Parameters are checked to be finite models only beyond this, which projected ones must never meet.
_WIDEST = 1e6
# Whole numbers up to here are added exactly, and rounding to the noise's grid gives whole numbers.
_EXACT = 2.0**51


@dataclass(frozen=True, kw_only=True)
class ExactMove:
    """θ(1 − ηλ) − (η/b)·(noisy sum), in whole numbers of `unit`, what one `width` of the noise's grid moves θ by.

    Only whole numbers are added, and exactly, so that the result is a function of the exact sum of the noise and of
    what was computed before it: nothing else of the iterate shows through its last bits.
    """

    width: float
    unit: float
    decay: float

    def __call__(self, parameters: NDArray[np.float32], noisy: Floats) -> Floats:
        """The next parameters, before they are projected."""
        kept = parameters.astype(np.float64) * (1 - self.decay)
        whole: Floats = np.rint(kept / self.unit) - np.rint(noisy / self.width)
        return whole * self.unit


def exact_move(plan: Plan, numbers: int) -> ExactMove | None:
    """How a run moves whose last iterate alone is released; None for others, and where whole numbers get too large."""
    settings, batch = plan.settings, plan.batches.batch_size
    plain = settings.optimizer == "sgd" and not settings.momentum and settings.clipping == "fixed"
    if settings.release != "last" or settings.model not in LINEAR or not plain or settings.diameter is None:
        return None
    deviation = settings.noise_multiplier * settings.clip
    width, enlarged = grid(numbers, deviation=deviation, sensitivity=settings.clip)
    unit = settings.rate * width / batch
    reach = settings.diameter / unit + (max(batch, plan.slots) * settings.clip + _FURTHEST * enlarged) / width
    return ExactMove(width=width, unit=unit, decay=settings.rate * settings.regularization) if reach < _EXACT else None


def wobble(plan: Plan, losses: LinearLoss) -> float | None:
    """2(e + r) on the parameters; None where it is not known: for PyTorch's kernels, or without an exact move."""
    settings, radius = plan.settings, losses.radius
    if plan.features is None or settings.backend != "numpy" or radius is None or radius > _WIDEST / 2:
        return None
    numbers = (plan.features + 1) * losses.classes
    move = exact_move(plan, numbers)
    if move is None:
        return None
    # Three times to a grid: the sum and what is kept of the parameters before the noise, the noise itself after it.
    grids = 3 * math.sqrt(numbers) * move.unit / 2
    # What is kept, the rate that the unit stands for, and the projection, in double precision.
    doubles = 2.0**-48 * (radius + settings.rate * settings.clip) + (numbers + 16) * 2.0**-52 * radius
    singles = 2.0**-24 * radius + numbers * 2.0**-149
    return 2 * (settings.rate * _of_gradients(plan, losses) + grids + doubles + singles) * (1 + 1e-9)


def _of_gradients(plan: Plan, losses: LinearLoss) -> float:
    """The average gradient before noise: scores, signals, weights, tiles, and their sum, of as many as there may be."""
    assert plan.features is not None
    assert losses.radius is not None
    clip, batch = plan.settings.clip, plan.batches.batch_size
    record = math.sqrt(losses.squared_input)
    largest = record * losses.radius  # no score is larger
    scores = gamma(plan.features + 3, SINGLE) * largest  # their error, as a vector
    # Every function of the scores, with 25 units in the last place for an exponential: see the table in docs/train.md.
    functions = 2 * SINGLE * (4 * largest + losses.classes + 64) * math.sqrt(losses.classes)
    signals = losses.curvature * scores + functions
    most = max(batch, plan.slots)
    tiles = gamma(TILE + 2, SINGLE) + gamma(-(-most // TILE) + TILE + 2, DOUBLE)
    # Weights and their products are rounded by 2⁻²⁴ each; products too small for that are below 2⁻⁶⁰ clips together.
    return (record * signals + clip * (tiles + 2.0**-21)) * (most / batch)
