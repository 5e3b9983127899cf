"""How much work an answer may take: counted and not timed, so that it stops at the same place on every machine.

Steering says what a piece of work will cost before it starts it, and looks for something cheaper where too little is
left. No bound depends on that: what was certified until then is the answer, and says what stopped it. A unit is about
a nanosecond of a processor of 2024; estimates of costs are rough, a factor of two off or so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Generic, ParamSpec, TypeVar

WHOLE = 9e9
"""What one call may take."""

ANSWER = 0.7
"""The share of what is left, for one of several questions of a call: the first is what was asked."""


class OutOfEffort(OverflowError):  # noqa: N818
    """What comes next would take more work than is left."""


@dataclass
class _Budget:
    """What is left, within a call of which `call` is the mark."""

    left: float
    call: object = field(default_factory=object)


_budget: ContextVar[_Budget | None] = ContextVar("effort", default=None)
_made: ContextVar[list[tuple[Callable[[float], None], float]] | None] = ContextVar("made", default=None)

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


@dataclass
class _Entry(Generic[_Answer]):
    """A value, if it was made, the work that it took, and the mark of the last call that it was counted in."""

    value: tuple[_Answer, ...] = ()
    work: Sequence[tuple[Callable[[float], None], float]] = ()
    call: object = None


@contextmanager
def within(share: float = 1.0, most: float = WHOLE) -> Iterator[None]:
    """Work in here may take this share of what is left outside, which is all of it where nothing was said, or `most`.

    What it takes is taken from outside too.
    """
    outer = _budget.get()
    whole = share * (WHOLE if outer is None else outer.left)
    inner = _Budget(min(whole, most)) if outer is None else _Budget(min(whole, most), outer.call)
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
    _remember(spend, units)


def note(units: float) -> None:
    """Count work that has to be done in any case."""
    budget = _budget.get()
    if budget is not None:
        budget.left -= units
    _remember(note, units)


def _remember(count: Callable[[float], None], units: float) -> None:
    made = _made.get()
    if made is not None:
        made.append((count, units))


def remembered(maxsize: int) -> Callable[[Callable[_Asked, _Answer]], Callable[_Asked, _Answer]]:
    """A cache of so many values, whose work counts once in every call that asks for one: as if it were made anew.

    So no answer depends on what was asked before. Arguments are positional and hashable.
    """

    def decorate(function: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
        @lru_cache(maxsize=maxsize)
        def entry(*asked: Hashable) -> _Entry[_Answer]:  # noqa: ARG001
            return _Entry()

        @wraps(function)
        def found(*asked: _Asked.args, **named: _Asked.kwargs) -> _Answer:
            if named:
                raise TypeError("what is remembered is asked for by position")
            kept, budget = entry(*asked), _budget.get()
            call = None if budget is None else budget.call
            if kept.value:
                for count, units in kept.work if kept.call is not call else ():
                    count(units)
            else:
                outer, work = _made.get(), list[tuple[Callable[[float], None], float]]()
                token = _made.set(work)
                try:
                    kept.value, kept.work = (function(*asked, **named),), work
                finally:
                    _made.reset(token)
                    if outer is not None:
                        outer.extend(work)
            kept.call = call
            return kept.value[0]

        found.cache_clear = entry.cache_clear  # type: ignore[attr-defined]
        return found

    return decorate
