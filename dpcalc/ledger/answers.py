"""What a ledger says to a spend."""

from __future__ import annotations

from dataclasses import dataclass

from dpcalc.errors import DpcalcError, InputError
from dpcalc.ledger import amounts
from dpcalc.ledger.requests import Request
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import Vector


@dataclass(frozen=True)
class Answer:
    """What a ledger says to a spend. `before` and `after` are the totals of the budget's own filter."""

    accepted: bool
    budget: Terms
    key: str | None
    before: Vector
    after: Vector
    request: Request
    entry: int | None = None
    recorded: bool = False
    refused_by: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def spent(self) -> dict[str, float]:
        """What is spent of the budget now, rounded up."""
        return amounts.spent(self.budget, self.after if self.accepted else self.before)

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of it, rounded down."""
        return amounts.remaining(self.budget, self.after if self.accepted else self.before)

    def expect_new(self) -> Answer:
        """Itself; raises if the key was charged before: a second run would be a second release, charged once."""
        if not self.recorded:
            raise InputError(
                f"the key {self.key!r} was charged before as entry {self.entry}, and its run may have told something; "
                "take a new key, or void that one if it provably never ran"
            )
        return self


class RefusedError(DpcalcError):
    """The budget does not allow the spend; nothing was written (exit code 1)."""

    exit_code = 1

    def __init__(self, answer: Answer, advice: str = "") -> None:
        super().__init__(
            f"{answer.refused_by} refused: {', '.join(answer.request.names)} does not fit into what is left of "
            f"{answer.budget.stated()}{f' ({advice})' if advice else ''}"
        )
        self.answer = answer
