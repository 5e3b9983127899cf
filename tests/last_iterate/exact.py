"""The optimum of Theorem C.3 in rational arithmetic: a taut string over every step, from every start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, kw_only=True)
class Run:
    """Steps of η_k and σ_k as exact numbers; the record is used in steps first, first + batches, … (from 0)."""

    rates: Sequence[float]
    sigmas: Sequence[float]
    strong_convexity: float
    smoothness: float
    injection: Fraction  # L/b
    batches: int = 1
    diameter: float | None = None

    def contraction(self, rate: float) -> Fraction:
        """max(|1 - ηm|, |1 - ηM|)."""
        eta = Fraction(rate)
        return max(abs(1 - eta * Fraction(self.strong_convexity)), abs(1 - eta * Fraction(self.smoothness)))

    def energy(self) -> Fraction:
        """μ² of the worst record at the best start and shifts."""
        return max(self._energy_of(first) for first in range(min(self.batches, len(self.rates))))

    def _energy_of(self, first: int) -> Fraction:
        steps = len(self.rates)
        factors = [self.contraction(rate) for rate in self.rates]
        noises = [(Fraction(rate) * Fraction(sigma)) ** 2 for rate, sigma in zip(self.rates, self.sigmas, strict=True)]
        used = [
            Fraction(rate) * self.injection if k % self.batches == first else 0 for k, rate in enumerate(self.rates)
        ]
        starts = [(0, Fraction(0))]
        if self.diameter is not None:
            starts += [(tau, Fraction(self.diameter)) for tau in range(1, steps)]
        left = [Fraction(1)]
        for factor in reversed(factors[1:]):
            left.insert(0, left[0] * factor)
        weighed = [a * s for a, s in zip(left, used, strict=True)]
        widths = [a * a * w for a, w in zip(left, noises, strict=True)]
        energies = [taut_string(widths[t:], _rises(weighed[t:], left[t - 1] * z if t else z)) for t, z in starts]
        return min(energy for energy in energies if energy is not None)


def _rises(weighed: Sequence[Fraction], initial: Fraction) -> list[Fraction]:
    return [initial + weighed[0], *weighed[1:]]


def taut_string(widths: Sequence[Fraction], rises: Sequence[Fraction]) -> Fraction | None:
    """Σ (ΔB)²/ΔU from (0, 0) to the end below the injected sums: from each corner the segment of least slope.

    None where there is something to shift and no noise to hide it in.
    """
    energy, place = Fraction(0), 0
    while place < len(widths):
        width = rise = Fraction(0)
        least: tuple[Fraction, Fraction, int] | None = None
        for k in range(place, len(widths)):
            width, rise = width + widths[k], rise + rises[k]
            if width > 0 and (least is None or rise <= least[0] * width):  # of equal slopes the furthest
                least = (rise / width, rise, k + 1)
        if least is None:
            return None if rise else energy
        energy, place = energy + least[0] * least[1], least[2]
    return energy


def root(energy: Fraction) -> float:
    """√ of an exact number, to the nearest float or so."""
    scale = 1 << 400
    return math.isqrt(energy.numerator * scale**2 // energy.denominator) / scale if energy else 0.0
