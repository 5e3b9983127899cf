"""What is asked of an accountant, and what it answers: values that engines share and are compared by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcalc.errors import InputError
from dpcalc.evidence import Status

TOLERANCE = 1e-3
"""The relative width of the interval that is aimed for if nobody says another."""


@dataclass(frozen=True)
class Question:
    """ε at δ, or δ at ε (exactly one is given), and how wide an interval may be relative to its upper end."""

    delta: float | None
    epsilon: float | None
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if (self.delta is None) == (self.epsilon is None):
            raise InputError("Expected exactly one of delta and epsilon.")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InputError(f"Expected delta={self.delta} in [0, 1).")
        if self.epsilon is not None and not 0 <= self.epsilon < math.inf:
            raise InputError(f"Expected epsilon={self.epsilon} in [0, inf).")
        if not 0 < self.tolerance < 1:
            raise InputError(f"Expected tolerance={self.tolerance} in (0, 1).")

    @property
    def largest(self) -> float:
        """What is true of everything: ε = ∞, or δ = 1."""
        return math.inf if self.delta is not None else 1.0

    def is_met(self, lower: float | None, upper: float) -> bool:
        """Whether an interval is as narrow as was asked for."""
        return lower is not None and upper - lower <= self.tolerance * upper < math.inf


@dataclass(frozen=True)
class Answer:
    """What an accountant says of the quantity asked for: an interval, a best estimate, and what it consists of.

    `stopped` says why an interval is wider than the tolerance, if it is; `certificate` is null for closed forms. Where
    it is `exhausted`, nothing that is read off the same dominating pairs is smaller by more than the tolerance.
    """

    accountant: str
    upper: float
    lower: float | None
    estimate: float | None = None
    status: Status = "certified"
    certificate: Mapping[str, Any] | None = None
    stopped: str | None = field(default=None)
    exhausted: bool = False
