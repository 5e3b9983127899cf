"""δ(ε) as a contour integral: accurate to many digits at a cost that does not depend on the number of steps.

    δ(ε) = (1/2πi) ∫ exp(K(λ) - λε) / (λ(λ+1)) dλ   along Re λ = c, any c > 0,

with K(λ) = Σ counts·log E_P[e^{λL}]. The trapezoid rule on the line through the saddle point converges exponentially.
It is independent of the loss distributions, so the two check each other; it is not itself a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcalc.arrays import Complexes
from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Pair, int]]

# Relative accuracy that the integral claims for δ where it answers at all.
ACCURACY = 1e-7
_MOST_POINTS = 800


def composed_log_mgf(parts: Parts, exponents: Complexes) -> Complexes | None:
    """K at complex exponents; None if some part has no transform."""
    total = np.zeros_like(exponents)
    for pair, count in parts:
        value = pair.log_mgf(exponents)
        if value is None:
            return None
        total += count * value
    return total


class Contour:
    """The integral along one line, for every ε near the saddle point that it was made for."""

    def __init__(self, exponents: Complexes, log_terms: Complexes, spacing: float) -> None:
        self._exponents, self._log_terms, self._spacing = exponents, log_terms, spacing

    def log_delta(self, epsilon: float) -> float:
        """log δ(ε), or -inf where the sum has cancelled away."""
        terms = self._log_terms - self._exponents * epsilon
        top = float(terms[0].real)
        parts = np.exp(terms - top).real
        total = float((parts.sum() - parts[0] / 2) * self._spacing / np.pi)
        return top + float(np.log(total)) if total > 0 else -np.inf

    def epsilon(self, delta: float, near: float) -> float:
        """ε(δ) by Newton's method from a point near it; the slope of log δ at the saddle point is about -c."""
        target, epsilon = float(np.log(delta)), near
        slope = -float(self._exponents[0].real)
        for _ in range(30):
            value = self.log_delta(epsilon)
            if not np.isfinite(value):
                return np.nan
            following = epsilon - (value - target) / slope
            if abs(following - near) * abs(self._exponents[0].real) > 3:
                return np.nan  # too far from the saddle point that the contour was made for
            if abs(following - epsilon) <= 1e-13 * abs(epsilon):
                return float(following)
            if following != epsilon:
                secant = (self.log_delta(following) - value) / (following - epsilon)
                slope = secant if np.isfinite(secant) and secant < 0 else slope
            epsilon = following
        return float(epsilon) if abs(self.log_delta(epsilon) - target) < ACCURACY else np.nan


def contour_through(parts: Parts, *, centre: float, deviation: float, width: float) -> Contour | None:
    """The contour through Re λ = centre for a loss of this spread and reach there; None where it converges too slowly.

    Spacing 2π/W repeats the loss with period W: more than the width of nearly all of it, and at least 40 lengths 1/c of
    the factor 1/λ. The height is doubled until the integrand has died down.
    """
    smooth_parts = [part for part in parts if not part[0].has_atoms()]
    atomic_parts = [part for part in parts if part[0].has_atoms()]
    if not smooth_parts:
        return None
    spacing = 2 * np.pi / max(1.5 * width, 40 / centre)
    height = 9.0 / max(deviation, 1e-300)
    for _ in range(3):
        count = int(np.ceil(height / spacing)) + 1
        if not 1 < count <= _MOST_POINTS:
            return None
        exponents = (centre + 1j * spacing * np.arange(count)).astype(np.complex128)
        # Atoms never die down, so that the others have to; `count` times the last terms is about what is left out.
        smooth = composed_log_mgf(smooth_parts, exponents)
        atoms = composed_log_mgf(atomic_parts, exponents)
        if smooth is None or atoms is None or not np.isfinite(smooth[0] + atoms[0]):
            return None
        last = float(smooth[-(count // 3) - 1 :].real.max() - smooth[0].real)
        if last + np.log(count) < np.log(ACCURACY) - 5:
            log_terms = smooth + atoms - np.log(exponents) - np.log(exponents + 1)
            return Contour(exponents, np.where(np.isnan(log_terms), -np.inf, log_terms), spacing)
        height *= 2
    return None
