"""How much work an answer may take: counted and not timed, so that it stops at the same place on every machine.

Steering says what a piece of work will cost before it starts it, and looks for something cheaper where too little is
left. No bound depends on that: what was certified until then is the answer, and says what stopped it. A unit is about
a nanosecond of a processor of 2024; estimates of costs are rough, a factor of two off or so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

WHOLE = 1.2e10
"""What one call may take."""

ANSWER = 0.7
"""The share of what is left, for one of several questions of a call: the first is what was asked."""


class OutOfEffort(OverflowError):  # noqa: N818
    """What comes next would take more work than is left."""


@dataclass
class _Budget:
    left: float


_budget: ContextVar[_Budget | None] = ContextVar("effort", default=None)


@contextmanager
def within(share: float = 1.0, most: float = WHOLE) -> Iterator[None]:
    """Work in here may take this share of what is left outside, which is all of it where nothing was said, or `most`.

    What it takes is taken from outside too.
    """
    outer = _budget.get()
    whole = share * (WHOLE if outer is None else outer.left)
    inner = _Budget(min(whole, most))
    start = inner.left
    token = _budget.set(inner)
    try:
        yield
    finally:
        _budget.reset(token)
        if outer is not None:
            outer.left -= start - inner.left


def spend(units: float) -> None:
    """Count work that is about to be done; raise OutOfEffort, and count nothing, where there is not as much left."""
    budget = _budget.get()
    if budget is not None:
        if units > budget.left:
            raise OutOfEffort("narrower would take more work than one answer may")
        budget.left -= units


def note(units: float) -> None:
    """Count work that has to be done in any case."""
    budget = _budget.get()
    if budget is not None:
        budget.left -= units
