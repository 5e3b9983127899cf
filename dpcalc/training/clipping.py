"""Where gradients are clipped, and how the noise of a step is shared between its queries.

Whatever the strategy, one step is one Gaussian mechanism with the noise multiplier of the run: the queries of a step
are released together, and a record's squared shares add up to at most 1/multiplier² (joint clipping, McMahan et al.,
2018). A strategy also tells each record's own share, so that filters and logs count what was really used.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.noise import Noise

ClippingName = Literal["fixed", "quantile", "online"]

# Single-precision gradients are clipped this much below the clip, so that rounding cannot carry one over it.
_MARGIN = 1 - 2.0**-16

_QUANTILE_RATE = 0.2
_ONLINE_RATE = 2.5e-3
_ONLINE_SPLIT = 7.124


class Clipping(Protocol):
    """A clip that may move from step to step, on released values only."""

    clip: float
    rate_factor: float
    noise_multiplier: float

    def weights(self, norms: Floats) -> Floats:
        """For each query of a step (rows), the factor on each record's gradient."""
        ...

    def spent(self, norms: Floats) -> Floats:
        """Each record's own norm, in the units in which the noise is `deviation`."""
        ...

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:
        """The noisy average gradient, in place of the sums; `within` is Σ(1[norm ≤ clip] − ½). Moves the clip."""
        ...

    def state(self) -> dict[str, Floats]: ...

    def restore(self, state: dict[str, Floats]) -> None: ...


def scale_to(norms: Floats, limit: Floats | float) -> Floats:
    """The factors that bring gradients of these norms to `limit`, where they exceed it."""
    target = limit * _MARGIN
    scales: Floats = target / np.maximum(norms, np.maximum(target, np.finfo(np.float64).tiny))
    return scales


class FixedClip:
    """One clip for the whole run."""

    rate_factor = 1.0

    def __init__(self, clip: float, noise_multiplier: float) -> None:
        self.clip, self.noise_multiplier = clip, noise_multiplier

    def weights(self, norms: Floats) -> Floats:
        return scale_to(norms, self.clip)[None]

    def spent(self, norms: Floats) -> Floats:
        return np.minimum(norms, self.clip)

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:  # noqa: ARG002
        deviation = self.noise_multiplier * self.clip
        return _average(noise.add(sums[0], deviation=deviation, sensitivity=self.clip), batch_size)

    def state(self) -> dict[str, Floats]:
        return {}

    def restore(self, state: dict[str, Floats]) -> None:
        """A fixed clip has no memory."""


class QuantileClip:
    """A clip that follows a quantile of the norms (Andrew et al., 2021): C ← C·exp(−0.2(b̃ − γ)).

    The noisy fraction b̃ below the clip takes σ_b = batch/20 and leaves z_g = (z⁻² − (2σ_b)⁻²)^(−1/2) for the gradient.
    """

    rate_factor = 1.0

    def __init__(self, clip: float, noise_multiplier: float, *, quantile: float, batch_size: int) -> None:
        self.clip, self._quantile = clip, quantile
        self._counting = batch_size / 20
        left = noise_multiplier**-2 - (2 * self._counting) ** -2
        if left <= 0:
            raise InputError(
                f"quantile clipping needs a noise multiplier below batch size / 10 = {batch_size / 10:g}, got "
                f"{noise_multiplier:g}."
            )
        self._total, self.noise_multiplier = noise_multiplier, left**-0.5

    def weights(self, norms: Floats) -> Floats:
        return scale_to(norms, self.clip)[None]

    def spent(self, norms: Floats) -> Floats:
        own = (np.minimum(norms / self.clip, 1) / self.noise_multiplier) ** 2 + (2 * self._counting) ** -2
        shares: Floats = np.minimum(1, self._total * np.sqrt(own))
        return shares

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:
        deviation = self.noise_multiplier * self.clip
        gradient = _average(noise.add(sums[0], deviation=deviation, sensitivity=self.clip), batch_size)
        count = noise.add(np.array([within]), deviation=self._counting, sensitivity=0.5)[0]
        self.clip *= math.exp(-_QUANTILE_RATE * (float(count) / batch_size + 0.5 - self._quantile))
        return gradient

    def state(self) -> dict[str, Floats]:
        return {"clip": np.array(self.clip)}

    def restore(self, state: dict[str, Floats]) -> None:
        self.clip = float(state["clip"])


class OnlineClip:
    """A clip and learning rate that descend with the parameters (OSO-DPSGD, Galli et al., Algorithm 1).

    The direction in which the clip acts is released with ν_q = 7.124ν, which leaves ν_g = 1.01ν for the gradient.
    """

    def __init__(self, clip: float, noise_multiplier: float) -> None:
        self.clip, self.rate_factor = clip, 1.0
        self._total, self._direction_noise = noise_multiplier, _ONLINE_SPLIT * noise_multiplier
        self.noise_multiplier = (noise_multiplier**-2 - self._direction_noise**-2) ** -0.5
        self._gradient: Floats = np.zeros(())
        self._direction: Floats = np.zeros(())

    def weights(self, norms: Floats) -> Floats:
        # The second sum is of unit vectors: the directions of the gradients that the clip acts on.
        directions = np.where(norms > self.clip, _MARGIN / np.maximum(norms, self.clip), 0.0)
        return np.stack([scale_to(norms, self.clip), directions])

    def spent(self, norms: Floats) -> Floats:
        own = (np.minimum(norms / self.clip, 1) / self.noise_multiplier) ** 2
        own = own + (norms > self.clip) * self._direction_noise**-2
        shares: Floats = np.minimum(1, self._total * np.sqrt(own))
        return shares

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:  # noqa: ARG002
        deviation = self.noise_multiplier * self.clip
        gradient = _average(noise.add(sums[0], deviation=deviation, sensitivity=self.clip), batch_size)
        direction = _average(noise.add(sums[1], deviation=self._direction_noise, sensitivity=1.0), batch_size)
        if self._gradient.shape:
            self.clip *= math.exp(_ONLINE_RATE * np.sign(gradient @ self._direction))
            self.rate_factor *= math.exp(_ONLINE_RATE * np.sign(gradient @ self._gradient))
        self._gradient, self._direction = gradient, direction
        return gradient

    def state(self) -> dict[str, Floats]:
        moving = {"clip": np.array(self.clip), "rate_factor": np.array(self.rate_factor)}
        return {**moving, "gradient": self._gradient, "direction": self._direction}

    def restore(self, state: dict[str, Floats]) -> None:
        self.clip, self.rate_factor = float(state["clip"]), float(state["rate_factor"])
        self._gradient, self._direction = state["gradient"], state["direction"]


def _average(sums: Floats, batch_size: int) -> Floats:
    """`sums` over the public batch size, in their place."""
    sums /= batch_size
    return sums


def build(
    name: ClippingName, *, clip: float, noise_multiplier: float, quantile: float = 0.5, batch_size: int = 1
) -> Clipping:
    """The clipping strategy called `name`, starting at `clip`."""
    if name == "quantile":
        return QuantileClip(clip, noise_multiplier, quantile=quantile, batch_size=batch_size)
    return OnlineClip(clip, noise_multiplier) if name == "online" else FixedClip(clip, noise_multiplier)
