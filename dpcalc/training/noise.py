"""Gaussian noise: reproducible for experiments, or from the operating system's entropy for release.

Hardening of the released noise. A sum in floating point plus noise in floating point shows, in its last bits, which
sum it was (Mironov, 2012), and a single inverted uniform can be traced back (Jin et al., 2022). So, without a seed:

1. every random bit comes from the operating system (`os.urandom`), none from a generator whose state could be guessed;
2. each draw is the sum of four independent Gaussians over two, which makes it infeasible to solve for the uniforms
   behind one (Holohan and Braghin, 2021, Theorem 1 with n = 2; the "secure mode" of Opacus);
3. the true sum and the noise are both rounded to one grid of width at most 2⁻³⁰ σ and added there, exactly: whatever
   the sum, the same set of values can come out. Rounding d numbers moves a sum by at most √d/2 grid widths, so two
   neighbouring sums come at most √d widths further apart, and σ is enlarged in proportion.

What remains: the single-precision arithmetic that forms the sum of clipped gradients is not exact, so one record may
move it by a relative 10⁻⁶ or so more than its clip (gradients are therefore clipped 2⁻¹⁶ below the clip), timing is not
masked, and a draw beyond about 8.6 σ never occurs (probability below 10⁻¹⁶ each).
"""

from __future__ import annotations

import math
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRID_BITS = 30
_TERMS = 4

SEEDED = (
    "noise: reproducible from --seed, so anyone who knows the seed can take it off; for experiments only, do not "
    "release this model"
)
SYSTEM = (
    "noise: operating-system entropy, each draw a sum of four Gaussians, added exactly on a grid of 2^-30 standard "
    "deviations against floating-point attacks"
)


class Noise(Protocol):
    """A source of Gaussian noise, and of the other random choices of a run."""

    description: str

    def add(self, sums: Floats, *, deviation: float, sensitivity: float) -> Floats:
        """`sums`, at most `sensitivity` from their neighbours', plus Gaussian noise of `deviation` each."""
        ...

    def uniforms(self, count: int) -> Floats:
        """Independent numbers, uniform on [0, 1)."""
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
        noisy: Floats = sums + deviation * self._generator.standard_normal(sums.shape, dtype=np.float32)
        return noisy

    def uniforms(self, count: int) -> Floats:
        return self._generator.random(count)

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
        draws = enlarged * system_gaussians(sums.size).reshape(sums.shape)
        # Whole multiples of a power of two, below 2^53 of it: both roundings and the sum are exact.
        noisy: Floats = (np.rint(sums / width) + np.rint(draws / width)) * width
        return noisy

    def uniforms(self, count: int) -> Floats:
        return _system_bits(count) * 2.0**-53

    def state(self) -> dict[str, Any] | None:
        return None

    def restore(self, state: dict[str, Any] | None) -> None:
        """Nothing to do: fresh entropy every time."""


def grid(count: int, *, deviation: float, sensitivity: float) -> tuple[float, float]:
    """The width of the grid for `count` numbers (a power of two), and the deviation that pays for rounding to it."""
    width = 2.0 ** (math.floor(math.log2(deviation)) - GRID_BITS)
    return width, deviation * (1 + width * math.sqrt(count) / sensitivity)


def system_gaussians(count: int) -> Floats:
    """Standard Gaussians, each (a + b + c + d)/2 of four by Box and Muller's transform of system entropy."""
    pairs = -(-count * _TERMS // 2)
    uniforms = (_system_bits(2 * pairs).reshape(2, pairs) + 0.5) * 2.0**-53
    radii = np.sqrt(-2 * np.log(uniforms[0]))
    angles = (2 * math.pi) * uniforms[1]
    terms = np.concatenate([radii * np.cos(angles), radii * np.sin(angles)])
    # A pair's sine and cosine are independent, so any four terms are.
    sums: Floats = terms[: _TERMS * count].reshape(_TERMS, count).sum(axis=0) / math.sqrt(_TERMS)
    return sums


def _system_bits(count: int) -> Floats:
    """Whole numbers, uniform on 0 … 2^53 - 1."""
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    return bits.astype(np.float64)
