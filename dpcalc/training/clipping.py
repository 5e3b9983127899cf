"""Where gradients are clipped, and how the noise of a step is shared between its queries.

Whatever the strategy, one step is one Gaussian mechanism with the noise multiplier of the run: the queries of a step
are released together, and a record's squared shares add up to at most 1/multiplier² (joint clipping, McMahan et al.,
2018). A strategy also tells each record's own share, so that filters and logs count what was really used.

`margin` is what rounding adds to the movement of a sum, in clips (see `sums`). Every gradient is brought to
K = C/(1 + margin), so that no record moves the computed sum by more than C; one of norm κ moves it by at most
κ + margin·C. The grid of the noise moves it by up to √parameters widths more, however small κ is: `beyond` is both
together, and κ + beyond·C, at most C, is what a record is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.names import CLIPS, ClippingName
from dpcalc.training.noise import Noise, rounded

# Weights aim this much below their limit: a weight and its product with a signal are rounded by 2⁻²⁴ each.
_SLACK = 1 - 2.0**-20
# A norm as it is charged: above that of the rounded, weighted gradient.
_CHARGED = 1 + 2.0**-22

_QUANTILE_RATE = 0.2


@dataclass(frozen=True)
class Online:
    """How online clipping learns: ρ_c, ρ_r, and ν_q over ν (Galli et al. use 2.5e-3 twice, and 7.124)."""

    clip_rate: float = 2.5e-3
    lr_rate: float = 2.5e-3
    split: float = 7.124


class Clipping(Protocol):
    """A clip that may move from step to step, on released values only."""

    clip: float
    margin: float
    beyond: float
    rate_factor: float
    noise_multiplier: float
    queries: int

    def weights(self, norms: Floats) -> Floats:
        """For each query of a step (rows), the factor on each record's gradient."""
        ...

    def spent(self, norms: Floats) -> Floats:
        """How far each record can move the sums, in the units in which the noise is `deviation`."""
        ...

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:
        """The noisy average gradient, in place of the sums; `within` is Σ(1[norm ≤ clip] − ½). Moves the clip."""
        ...

    def state(self) -> dict[str, Floats]: ...

    def restore(self, state: dict[str, Floats]) -> None: ...


def scale_to(norms: Floats, limit: Floats | float) -> Floats:
    """The factors that bring gradients of these norms to `limit`, where they exceed it."""
    target = limit * _SLACK
    scales: Floats = target / np.maximum(norms, np.maximum(target, np.finfo(np.float64).tiny))
    return scales


def layer_clips(clip: float, shares: Sequence[float], layers: int) -> Floats:
    """The clips of the layers, in proportion to the shares (all alike if there are none): their squares add to C²."""
    if shares and len(shares) != layers:
        raise InputError(f"expected one for each of the {layers} layers, got {len(shares)}", where="layer_shares")
    parts = np.array(shares or [1.0] * layers)
    parts /= parts.max()
    clips: Floats = clip * (1 - 2.0**-50) * (parts / np.sqrt(parts @ parts))
    if clips.min() < CLIPS.low:
        words = f"leave a layer a clip of {clips.min():.3g}; expected {CLIPS.low:g} or more"
        raise InputError(words, where="layer_shares")
    return clips


def moved(norms: Floats, *, clip: float, beyond: float) -> Floats:
    """How far a record of each norm can move the sum: its own norm and what rounding adds, at most the clip."""
    reach = np.minimum(clip, norms * _CHARGED + beyond * clip)
    return np.where(norms > 0, reach, 0.0)


def norms_within(reach: Floats, *, clip: float, beyond: float) -> Floats:
    """The norms to which gradients must be brought so that none moves the sum by more than its `reach`."""
    return np.maximum(0.0, reach - beyond * clip) / _CHARGED


def _kept(clip: float) -> float:
    """A clip that has moved, kept where the theorem on sums holds."""
    return min(max(clip, CLIPS.low), CLIPS.high)


class FixedClip:
    """One clip for the whole run."""

    rate_factor = 1.0
    queries = 1

    def __init__(self, clip: float, noise_multiplier: float, *, margin: float = 0.0, parameters: int = 0) -> None:
        self.clip, self.noise_multiplier, self.margin = clip, noise_multiplier, margin
        self.beyond = margin + rounded(parameters, noise_multiplier)

    def weights(self, norms: Floats) -> Floats:
        return scale_to(norms, self.clip / (1 + self.margin))[None]

    def spent(self, norms: Floats) -> Floats:
        return moved(norms, clip=self.clip, beyond=self.beyond)

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
    Counts of ±½ are exact.
    """

    rate_factor = 1.0
    queries = 1

    def __init__(
        self, clip: float, noise_multiplier: float, *, quantile: float, batch_size: int,
        margin: float = 0.0, parameters: int = 0,
    ) -> None:  # fmt: skip
        self.clip, self._quantile, self.margin = clip, quantile, margin
        self._counting = batch_size / 20
        left = noise_multiplier**-2 - (2 * self._counting) ** -2
        if left <= 0:
            raise InputError(
                f"quantile clipping needs a noise multiplier below batch size / 10 = {batch_size / 10:g}, got "
                f"{noise_multiplier:g}."
            )
        self._total, self.noise_multiplier = noise_multiplier, left**-0.5
        self.beyond = margin + rounded(parameters, self.noise_multiplier)

    def weights(self, norms: Floats) -> Floats:
        return scale_to(norms, self.clip / (1 + self.margin))[None]

    def spent(self, norms: Floats) -> Floats:
        reach = moved(norms, clip=self.clip, beyond=self.beyond) / self.clip
        own = (reach / self.noise_multiplier) ** 2 + (2 * self._counting) ** -2
        shares: Floats = np.minimum(1, self._total * np.sqrt(own))
        return shares

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:
        deviation = self.noise_multiplier * self.clip
        gradient = _average(noise.add(sums[0], deviation=deviation, sensitivity=self.clip), batch_size)
        count = noise.add(np.array([within]), deviation=self._counting, sensitivity=0.5)[0]
        self.clip = _kept(self.clip * math.exp(-_QUANTILE_RATE * (float(count) / batch_size + 0.5 - self._quantile)))
        return gradient

    def state(self) -> dict[str, Floats]:
        return {"clip": np.array(self.clip)}

    def restore(self, state: dict[str, Floats]) -> None:
        self.clip = float(state["clip"])


class OnlineClip:
    """A clip and learning rate that descend with the parameters (OSO-DPSGD, Galli et al., Algorithm 1).

    The direction in which the clip acts is released with ν_q = 7.124ν, which leaves ν_g = 1.01ν for the gradient. With
    momentum the derivative is the same up to a positive factor, and only its sign is used.
    """

    queries = 2

    def __init__(
        self, clip: float, noise_multiplier: float, *, margin: float = 0.0, parameters: int = 0,
        online: Online = Online(),  # noqa: B008 - immutable
    ) -> None:  # fmt: skip
        self.clip, self.rate_factor, self.margin, self._online = clip, 1.0, margin, online
        self._total, self._direction_noise = noise_multiplier, online.split * noise_multiplier
        self.noise_multiplier = (noise_multiplier**-2 - self._direction_noise**-2) ** -0.5
        self.beyond = margin + rounded(parameters, self.noise_multiplier)
        self._gradient: Floats = np.zeros(())
        self._direction: Floats = np.zeros(())

    def weights(self, norms: Floats) -> Floats:
        # The second sum is of unit vectors, margin included: the directions of the gradients that the clip acts on.
        unit = _SLACK / (1 + self.margin)
        directions = np.where(norms > self.clip, unit / np.maximum(norms, self.clip), 0.0)
        return np.stack([scale_to(norms, self.clip / (1 + self.margin)), directions])

    def spent(self, norms: Floats) -> Floats:
        own = (moved(norms, clip=self.clip, beyond=self.beyond) / self.clip / self.noise_multiplier) ** 2
        own = own + (norms > self.clip) * self._direction_noise**-2
        shares: Floats = np.minimum(1, self._total * np.sqrt(own))
        return shares

    def release(self, sums: Floats, within: float, *, batch_size: int, noise: Noise) -> Floats:  # noqa: ARG002
        deviation = self.noise_multiplier * self.clip
        gradient = _average(noise.add(sums[0], deviation=deviation, sensitivity=self.clip), batch_size)
        direction = _average(noise.add(sums[1], deviation=self._direction_noise, sensitivity=1.0), batch_size)
        if self._gradient.shape:
            self.clip = _kept(self.clip * math.exp(self._online.clip_rate * np.sign(gradient @ self._direction)))
            self.rate_factor *= math.exp(self._online.lr_rate * np.sign(gradient @ self._gradient))
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
    name: ClippingName,
    *,
    clip: float,
    noise_multiplier: float,
    quantile: float = 0.5,
    batch_size: int = 1,
    margin: float = 0.0,
    parameters: int = 0,
    online: Online = Online(),  # noqa: B008 - immutable
) -> Clipping:
    """The clipping strategy called `name`, starting at `clip`, for sums of so many parameters."""
    if name == "quantile":
        return QuantileClip(
            clip, noise_multiplier, quantile=quantile, batch_size=batch_size, margin=margin, parameters=parameters
        )
    if name == "online":
        return OnlineClip(clip, noise_multiplier, online=online, margin=margin, parameters=parameters)
    return FixedClip(clip, noise_multiplier, margin=margin, parameters=parameters)
