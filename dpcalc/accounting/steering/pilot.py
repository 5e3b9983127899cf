"""A rough look at a composition: which Rényi order decides at the δ or ε asked for, and about where that leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair

_ORDERS = np.geomspace(0.02, 1e5, 60)
_FINER = np.exp(np.linspace(-0.25, 0.25, 9))
_LARGEST, _SMALLEST = 690.0, 1e-11
_FAINT = -640.0  # log of a mass


@lru_cache(maxsize=1)
def edges() -> Floats:
    """Losses from -690 to 690, denser towards 0: relative steps of a tenth."""
    half = np.geomspace(_SMALLEST, _LARGEST, 320)
    return np.concatenate((-half[::-1], [0.0], half))


@dataclass(frozen=True)
class Way:
    """One direction: the order λ that decides, and about which ε."""

    order: float
    epsilon: float


@dataclass(frozen=True)
class Sketch:
    """Pairs on coarse cells: log X of each cell, log of its Q-mass, and how often each pair runs."""

    ratios: Floats
    logs: Floats
    counts: Floats

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def cumulants(self, powers: Floats) -> Floats:
        """log E_Q X^power of the whole composition, for each power; ∞ where it leaves the range of doubles."""
        total = np.zeros(len(powers))
        for ratios, logs, count in zip(self.ratios, self.logs, self.counts, strict=True):
            terms = logs + np.multiply.outer(powers, ratios)
            top = terms.max(axis=1)
            total += count * (np.log(np.exp(terms - top[:, None]).sum(axis=1)) + top)
        return total

    def without(self, rare: float) -> Sketch:
        """The sketch without cells whose P- and Q-mass are both below `rare`."""
        faint = (self.logs < math.log(rare)) & (self.logs + self.ratios < math.log(rare))
        return Sketch(self.ratios, np.where(faint, -np.inf, self.logs), self.counts)

    def ways(self, delta: float) -> tuple[Way, Way]:
        """For removing and adding, the λ with the smallest RDP bound on ε at δ, and that bound."""
        return self._way(1, delta), self._way(-1, delta)

    def _way(self, sign: int, delta: float) -> Way:
        orders = _ORDERS
        for _ in range(2):
            powers = orders + 1 if sign > 0 else -orders
            with np.errstate(over="ignore", invalid="ignore"):
                found = (self.cumulants(powers) - math.log(delta) - np.log1p(orders)) / orders + np.log(
                    orders / (1 + orders)
                )
            best = int(np.nanargmin(found))
            value, order = float(found[best]), float(orders[best])
            orders = order * _FINER
        return Way(order, max(value, 1e-12))

    def delta_at(self, epsilon: float) -> float:
        """About δ at ε, the larger of both directions: the RDP bound at its best order."""
        best = 0.0
        for sign in (1, -1):
            powers = _ORDERS + 1 if sign > 0 else -_ORDERS
            with np.errstate(over="ignore", invalid="ignore"):
                logs = self.cumulants(powers) - _ORDERS * epsilon - np.log1p(_ORDERS) + _ORDERS * np.log(
                    _ORDERS / (1 + _ORDERS)
                )
            best = max(best, math.exp(min(float(np.nanmin(logs)), 0.0)))
        return best


def sketch(parts: Sequence[tuple[Pair, int]]) -> Sketch:
    """Parts on the common coarse cells; cells that no part has mass in are left out."""
    at = edges()
    ratios, logs = [], []
    for pair, _ in parts:
        p, q = pair.masses(at)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_q, log_p = np.log(q[1:-1]), np.log(p[1:-1])
            ratio = np.clip(log_p - log_q, at[:-1], at[1:])
        ratios.append(np.where(np.isnan(ratio), 0.0, ratio))
        logs.append(np.maximum(log_q, np.minimum(log_p - at[1:], log_q + 1)))
    all_ratios, all_logs = np.array(ratios), np.array(logs)
    used = np.flatnonzero((all_logs > _FAINT).any(axis=0) | ((all_logs + all_ratios) > _FAINT).any(axis=0))
    if not used.size:
        used = np.array([len(at) // 2])
    return Sketch(all_ratios[:, used], all_logs[:, used], np.array([float(count) for _, count in parts]))
