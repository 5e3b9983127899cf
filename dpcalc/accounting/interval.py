"""Certified bounds with the law that they were read from: what an engine answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpcalc.accounting.certified.law import RATIO, Law


@dataclass(frozen=True)
class Interval:
    """Certified bounds, what they consist of, and why they are no nearer to each other, if they are not near."""

    lower: float
    upper: float
    certificate: Mapping[str, Any]
    stopped: str | None = None

    def and_(self, other: Interval) -> Interval:
        """What both of two certified intervals say."""
        better = self if self.upper <= other.upper else other
        return replace(better, lower=max(self.lower, other.lower))

    @property
    def gap(self) -> float:
        """How wide it is, relative to its upper end."""
        if self.upper == 0:
            return 0.0
        return (self.upper - self.lower) / self.upper if self.upper < math.inf else math.inf


def certificate_of(law: Law, engine: str) -> dict[str, Any]:
    """What an interval consists of, by name."""
    grid = {"step": law.step, "grids": len(law.components), "points": law.points, "ratio": RATIO}
    return {"engine": engine, "steps": law.count, "grid": grid, "ledger": asdict(law.ledger)}
