"""Gaussian noise: reproducible for experiments, or from the operating system's entropy for release.

Hardening of the released noise. A sum in floating point plus noise in floating point shows in its last bits which sum
it was (Mironov, 2012), and noise from a guessable generator can be taken off. So, without a seed:

1. every bit comes from OpenSSL's generator: AES-256 in counter mode, seeded from the operating system's entropy, with
   256 fresh bits for every vector;
2. the true sum and the noise are both rounded to one grid of width at most 2⁻²⁶ σ and added there, exactly: whatever
   the sum, the same set of values can come out, and a value of the grid stands for millions of different draws.
   Rounding d numbers moves a sum by at most √d/2 grid widths, so neighbouring sums come at most √d widths further
   apart, and σ is enlarged in proportion: by 10⁻⁵ for half a million numbers at a noise multiplier of 1. That pays for
   a record at its clip; a filter charges one of a smaller norm the √d widths as well (`rounded`).

What remains: a draw has 53 bits, so the probabilities of the grid's values are right to a relative 3·10⁻⁸ or so, which
moves the privacy loss of a billion released numbers by some 10⁻³; timing is not masked; and exactness on the grid needs
sums below 2²⁴ σ, fifty million records at a noise multiplier of 3. How far one record moves the sum itself, rounding
included, is the theorem of `sums`.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, Protocol

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.training.gaussians import renew, system_gaussians, system_uniforms

GRID_BITS = 26

SEEDED = "the noise is reproducible from its seed: for experiments only, do not release this model"
UNKNOWN_SEED = "nobody knows the seed of the noise, whose Gaussians count as exact"
SYSTEM = (
    "the system's entropy, through OpenSSL's generator, cannot be guessed; Gaussians made of its bits count as exact"
)


class Noise(Protocol):
    """A source of Gaussian noise, and of the other random choices of a run."""

    description: str

    def add(self, sums: Floats, *, deviation: float, sensitivity: float) -> Floats:
        """`sums`, at most `sensitivity` from their neighbours', plus Gaussian noise of `deviation` each; in place."""
        ...

    def uniforms(self, count: int) -> Floats:
        """Independent numbers, uniform on [0, 1)."""
        ...

    def below(self, limit: int) -> int:
        """A whole number, uniform on 0, 1, …, limit − 1."""
        ...

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint needs to go on with the same noise; None where nothing may be repeated."""
        ...

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from a checkpoint's state."""
        ...


class SeededNoise:
    """The same noise for the same seed. For experiments, not for release."""

    description = SEEDED

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        self._generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream])))

    def add(self, sums: Floats, *, deviation: float, sensitivity: float) -> Floats:  # noqa: ARG002
        sums += deviation * self._generator.standard_normal(sums.shape, dtype=np.float32)
        return sums

    def uniforms(self, count: int) -> Floats:
        return self._generator.random(count)

    def below(self, limit: int) -> int:
        return int(self._generator.integers(limit))

    def state(self) -> dict[str, Any] | None:
        return dict(self._generator.bit_generator.state)

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self._generator.bit_generator.state = state


class SystemNoise:
    """Noise nobody can repeat, from the operating system's entropy; see the module's text for what it withstands."""

    description = SYSTEM

    def add(self, sums: Floats, *, deviation: float, sensitivity: float) -> Floats:
        width, enlarged = grid(sums.size, deviation=deviation, sensitivity=sensitivity)
        renew()
        draws = system_gaussians(sums.size).reshape(sums.shape)
        draws *= enlarged
        sums = _on_grid(sums, width)
        sums += _on_grid(draws, width)
        return sums

    def uniforms(self, count: int) -> Floats:
        renew()
        return system_uniforms(count)

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)

    def state(self) -> dict[str, Any] | None:
        return None

    def restore(self, state: dict[str, Any] | None) -> None:
        """Nothing to do: fresh entropy every time."""


def grid(count: int, *, deviation: float, sensitivity: float) -> tuple[float, float]:
    """The width of the grid for `count` numbers (a power of two), and the deviation that pays for rounding to it."""
    width = 2.0 ** (math.floor(math.log2(deviation)) - GRID_BITS)
    return width, deviation * (1 + width * math.sqrt(count) / sensitivity)


def rounded(count: int, noise_multiplier: float) -> float:
    """At least √count widths of the grid in clips: how much further rounding to it can move a noisy sum."""
    return 2.0**-GRID_BITS * math.sqrt(count) * noise_multiplier * (1 + 2.0**-50)


def _on_grid(values: Floats, width: float) -> Floats:
    """The nearest multiples of `width`, a power of two, in place: adding 1.5 · 2⁵² widths leaves no room for less."""
    large = 1.5 * 2.0**52 * width
    values += large
    values -= large
    return values
