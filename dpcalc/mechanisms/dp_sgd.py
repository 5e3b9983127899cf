"""DP-SGD as a convenience: it resolves to a sampled Gaussian and a number of steps."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import FixedSizeSampled, OncePerEpoch, PoissonSampled
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive, expect_whole

Scheme = Literal["poisson", "fixed-size", "cyclic", "shuffled"]
SCHEMES: tuple[Scheme, ...] = ("poisson", "fixed-size", "cyclic", "shuffled")


def dp_sgd(
    *,
    noise_multiplier: float,
    batch_size: int,
    dataset_size: int,
    epochs: float | None = None,
    steps: int | None = None,
    sampling: Scheme = "poisson",
    adjacency: Adjacency = "add-remove",
) -> tuple[Mechanism, int]:
    """The mechanism of one step (or of one epoch where records are used once in each) and how often it runs.

    The noise multiplier is relative to the clip norm: the sensitivity to adding or removing a record is the clip, to
    replacing one twice the clip. steps = epochs · dataset_size / batch_size, rounded up.
    """
    expect_positive("noise_multiplier", noise_multiplier)
    expect_whole("batch_size", batch_size)
    expect_whole("dataset_size", dataset_size)
    expect_adjacency(adjacency)
    if batch_size > dataset_size:
        raise InputError(f"Expected batch_size={batch_size} to be at most dataset_size={dataset_size}.")
    if (epochs is None) == (steps is None):
        raise InputError("Expected exactly one of epochs and steps.")
    if sampling not in SCHEMES:
        raise InputError(f"Expected sampling={sampling} to be one of {', '.join(SCHEMES)}.")
    per_epoch = Fraction(int(dataset_size), int(batch_size))
    if epochs is not None:
        expect_positive("epochs", epochs)
        steps = math.ceil(Fraction(epochs).limit_denominator(10**9) * per_epoch)
    assert steps is not None
    expect_whole("steps", steps)
    clipped = Gaussian(noise_multiplier=noise_multiplier)
    if sampling == "poisson":
        return PoissonSampled(base=clipped, sampling_rate=batch_size / dataset_size, adjacency=adjacency), int(steps)
    base = clipped if adjacency == "add-remove" else clipped.as_replace_one()
    if sampling == "fixed-size":
        return FixedSizeSampled(base=base, sampling_rate=batch_size / dataset_size), int(steps)
    return OncePerEpoch(base=base, shuffled=sampling == "shuffled"), math.ceil(steps / per_epoch)
