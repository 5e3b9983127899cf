"""What happened in a run, step by step, and how it may end early."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpcalc.errors import CertificationError


class DivergedError(CertificationError):
    """Training has left the range of numbers; what was released until then is still accounted for."""

    def __init__(self, step: int, why: str) -> None:
        super().__init__(f"training diverged at step {step}: {why}; lower `lr` or `clip`.")
        self.step, self.why = step, why


@dataclass
class History:
    """What happened at each step. Counts and losses are those of the private records: the guarantee leaves them out.

    `measured` are (step, quality on some public test records), a few over the run; `spent` are (step, quantiles of what
    each record has spent of a filter's budget), as few.
    """

    active: list[int] = field(default_factory=list)
    clips: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    measured: list[tuple[int, float]] = field(default_factory=list)
    spent: list[tuple[int, list[float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A checkpoint knows lists only.
        self.measured = [(int(step), float(quality)) for step, quality in self.measured]
        self.spent = [(int(step), list(found)) for step, found in self.spent]
