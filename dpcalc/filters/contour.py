"""The sum over a contour's nodes, and the smallest ε at which it stays within δ with all its errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Bools, Complexes, Floats
from dpcalc.filters.transforms import BLOCK, ROUND, phases
from dpcalc.rounding import LEAST_DIVISOR

_PRECISE = 2e-4


@dataclass(frozen=True)
class Kernel:
    """The weights of a contour's nodes, the drop of noise included, and what is beyond the last one."""

    step: float
    points: Complexes
    weights: Complexes
    beyond: float

    @classmethod
    def of(cls, c: float, step: float, nodes: int, noise: float) -> Kernel:
        """Nodes c + i·step·j, j < nodes, with a drop of noise of this μ."""
        points: Complexes = np.asarray(c + 1j * step * np.arange(nodes), dtype=np.complex128)
        exponent = noise**2 * points * (points + 1) / 2 - np.log(points * (points + 1)) + math.log(step / math.pi)
        exponent[0] -= math.log(2)
        end = step * (nodes - 1)
        cut = math.exp(min(noise**2 / 2 * (c * (c + 1) - end * end), 700.0)) / (noise**2 * end**3) / math.pi
        return cls(step, points, np.exp(exponent), cut)

    def solve(
        self, sums: Complexes, wrong: Floats, vague: Bools, goal: Floats, start: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """ε ≤ start at which log of the sum with all errors is at most `goal`; the slope there; the share of errors.

        Where `sums` are `vague` they bound the real part alone.
        """
        wrong = wrong + ROUND * 8 * np.outer(start, self.points.imag)
        top = sums[:, 0].real
        terms = np.exp(sums - top[:, None]) * self.weights
        errors = self._errors(terms, wrong, vague)
        c, goal = float(self.points[0].real), goal - top
        high, low = start.copy(), np.zeros(len(terms))
        slope, share = np.full(len(terms), c), np.zeros(len(terms))
        at_zero = _sum(terms.real) + errors
        high[_accepted(at_zero, np.zeros(len(terms)), goal)] = 0.0
        x, live = 0.9 * high, np.flatnonzero(high > 0)
        for turn in range(30):
            if not live.size:
                break
            epsilon = x[live]
            turned = terms[live] * phases(-self.step * epsilon, self.points.size)
            value = _sum(turned.real) + errors[live]
            known = np.where(np.isfinite(value) & (value > 0), value, 1.0)
            fine = known == value
            slope[live] = np.where(fine, ((turned @ self.points).real + c * errors[live]) / known, c)
            share[live] = np.where(fine, errors[live] / known, 1.0)
            good = _accepted(value, c * epsilon, goal[live])
            high[live[good]], low[live[~good]] = epsilon[good], epsilon[~good]
            over = np.log(known) - c * epsilon - goal[live]
            newton = (epsilon + over / np.maximum(slope[live], LEAST_DIVISOR)) * np.where(good, 1 - 5e-5, 1 + 5e-5)
            inside = fine & (newton > low[live]) & (newton < high[live]) & (turn % 6 < 5)
            x[live] = np.where(inside, newton, (low[live] + high[live]) / 2)
            live = live[high[live] - low[live] > _PRECISE * high[live]]
        return high, slope, share

    def _errors(self, terms: Complexes, wrong: Floats, vague: Bools) -> Floats:
        """The sum of all errors, relative to M(c): of each term at most its own, or what |M(c+iy)| ≤ M(c) leaves.

        Of a vague one, what it and the true one may be.
        """
        size, first = np.abs(terms), np.exp(np.minimum(wrong[:, :1], 600.0))
        own = np.where(wrong < 600, size * (np.expm1(np.minimum(wrong, 600.0)) + 2.0 * vague), np.inf)
        errors = np.minimum(own, size + first * np.abs(self.weights)).sum(axis=1) * (1 + 1e-9)
        errors += self.beyond * first[:, 0] + size.sum(axis=1) * ROUND * (self.points.size / BLOCK + BLOCK + 16)
        return np.asarray(np.where(wrong[:, 0] < 600, errors, np.inf))  # otherwise M(c) itself is not known


def _sum(terms: Floats) -> Floats:
    """The sum of each row by blocks of 16, so that no number is added to more than 16 and n/16 others."""
    return np.asarray(terms.reshape(len(terms), -1, BLOCK).sum(axis=2).sum(axis=1))


def _accepted(value: Floats, exponent: Floats, goal: Floats) -> Bools:
    """Whether value·e^{−exponent} ≤ e^goal, rounding included; never for what is not a positive number."""
    known = np.where(np.isfinite(value) & (value > 0), value, np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(known) - exponent <= goal - ROUND * (64 + 4 * (exponent + np.abs(goal))))
