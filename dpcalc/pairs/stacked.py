"""Many sampled Gaussians at once: groups of similar ones whose masses are computed together, one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Complexes, Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.mixture import MixturePair
from dpcalc.pairs.points import GaussianPair, ReversedPair, gaussian_masses

_TOGETHER = 50


@dataclass(frozen=True, eq=False)
class Stack:
    """Some pairs, and a pair whose masses have one row for each of them."""

    members: tuple[Pair, ...]
    rows: Pair


@dataclass(frozen=True, eq=False)
class _GaussianRows:
    """A GaussianPair for each of a column of μ."""

    mus: Floats

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return gaussian_masses(self.mus, edges)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:  # noqa: ARG002
        return None

    def has_atoms(self) -> bool:
        return False

    def spacing(self) -> float | None:
        return None


def stacks(pairs: Sequence[Pair]) -> list[Stack]:
    """The sampled Gaussians among some pairs, those of one rate and direction in groups of similar noise."""
    kinds: dict[tuple[bool, float], list[tuple[float, Pair]]] = {}
    for pair in pairs:
        inner = pair.pair if isinstance(pair, ReversedPair) else pair
        if isinstance(inner, MixturePair) and isinstance(inner.pair, GaussianPair):
            kinds.setdefault((inner is not pair, inner.rate), []).append((inner.pair.mu, pair))
    found = []
    for (is_reversed, rate), members in kinds.items():
        members.sort(key=lambda member: member[0])
        for start in range(0, len(members), _TOGETHER):
            mus, chunk = zip(*members[start : start + _TOGETHER], strict=True)
            rows: Pair = MixturePair(_GaussianRows(np.array(mus)[:, None]), rate)
            found.append(Stack(chunk, ReversedPair(rows) if is_reversed else rows))
    return found
