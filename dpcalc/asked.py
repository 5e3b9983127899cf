"""What can be asked, as frozen records. Each annotated field is an option, an argument in Python and a value to sweep.

    sigma: Annotated[float | None, number("--sigma", help="Noise on the sum.")] = None

The annotation says how a text or a value is read, so that the command line and Python check the same.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dpcalc.errors import InputError
from dpcalc.guarantee import Budget, Result
from dpcalc.numbers import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, PROBABILITY, Range, parse_number, parse_whole

A = TypeVar("A", bound="Asked")
P = TypeVar("P")

# Which records a step uses: all of them, batches in a fixed cycle, or random batches.
Algorithm = Literal["gd", "cgd", "sgd"]

_OUTPUT = "Output"
_BUDGET = "Budget limits (exit code 1 over, 3 not certified)"


@dataclass(frozen=True, kw_only=True)
class Option:
    """How a field is given: its flags (none if by its place), what it means, its group, and what reads its text."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    panel: str | None = None
    parse: Callable[[str], Any] | None = None
    repeated: bool = False
    shows_default: bool = True
    between: str = ","


def option(*flags: str, help: str, **about: Any) -> Option:
    """A word, a file, one of the words of a literal type, or a switch."""
    return Option(flags=flags, help=help, **about)


def argument(*, help: str, metavar: str, repeated: bool = False) -> Option:
    """What is given by its place, without a flag."""
    return Option(flags=(), help=help, metavar=metavar, repeated=repeated)


def number(*flags: str, help: str, allowed: Range = POSITIVE, **about: Any) -> Option:
    """A number such as 1e-5 or 256/60000, in a range that is told when it is broken."""
    return Option(flags=flags, help=help, metavar="NUMBER", parse=lambda text: parse_number(text, allowed), **about)


def whole(*flags: str, help: str, allowed: Range = AT_LEAST_ONE, **about: Any) -> Option:
    """A whole number."""
    return Option(flags=flags, help=help, metavar="COUNT", parse=lambda text: parse_whole(text, allowed), **about)


def parsed(*flags: str, help: str, metavar: str, parse: Callable[[str], Any], **about: Any) -> Option:
    """What has a way to be read of its own; `parse` raises ValueError with what is allowed."""
    return Option(flags=flags, help=help, metavar=metavar, parse=parse, **about)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a record: how it is given, and of which kind one value of it is."""

    name: str
    option: Option
    kind: Any
    default: Any

    @property
    def needed(self) -> bool:
        """Whether it has to be given."""
        return self.default is MISSING

    @property
    def argument(self) -> str:
        """Its name in Python: that of its longest flag."""
        return max(self.option.flags, key=len, default=self.name).removeprefix("--").replace("-", "_")

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be; none if it may be anything."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def read(self, value: Any) -> Any:
        """The value of a text, of a number, or of a list of them where it may be repeated; ValueError otherwise."""
        if not self.option.repeated:
            return self.read_one(value)
        several = isinstance(value, (list, tuple))
        if several and hasattr(self.kind, "_fields"):  # a pair such as an order and its ε, and not a list of them
            several = any(isinstance(each, (list, tuple, str)) for each in value)
        return tuple(self.read_one(each) for each in (value if several else [value]))

    def read_one(self, value: Any) -> Any:
        """One value, as the text of it would be read."""
        value = _plain(value)
        if self.option.parse is not None:
            if isinstance(value, bool) or not isinstance(value, (str, int, float, list, tuple)):
                raise ValueError(f"expected a number, got {value!r}")
            parts = value if isinstance(value, (list, tuple)) else [value]
            value = self.option.parse(self.option.between.join(map(_text, parts)))
        if self.choices and value not in self.choices:
            guess = _guess(str(value), self.choices)
            raise ValueError(f"expected one of {', '.join(self.choices)}, got {value!r}{guess}")
        return Path(value) if self.kind is Path else value


def _plain(value: Any) -> Any:
    """A number of an array as Python's own."""
    return value.item() if hasattr(value, "item") else value


def _text(value: Any) -> str:
    value = _plain(value)
    return value if isinstance(value, str) else repr(value)


@cache
def fields_of(record: type) -> tuple[Field, ...]:
    """The annotated fields of a record: those given by their place, those it calls leading, those of every question."""
    hints = get_type_hints(record, include_extras=True)
    listed = [each for each in dataclasses.fields(record) if get_origin(hints[each.name]) is Annotated]
    shared = {each.name for each in dataclasses.fields(Asked)}
    found = (_field(each, hints[each.name]) for each in listed)
    rank = {name: place for place, name in enumerate(reversed(getattr(record, "leading", ())), start=1)}
    return tuple(
        sorted(found, key=lambda each: (each.name in shared, bool(each.option.flags), -rank.get(each.name, 0)))
    )


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    kind, about = get_args(hint)[:2]
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if about.repeated:
        kind = get_args(kind)[0]
    return Field(name=field.name, option=about, kind=kind, default=field.default)


def check(record: Any) -> None:
    """Read the values of a new record as its annotations say; InputError names the field that is wrong."""
    kind: type = type(record)
    for field in fields_of(kind):
        value = getattr(record, field.name)
        if value is not None and value != field.default:
            try:
                object.__setattr__(record, field.name, field.read(value))
            except ValueError as error:
                raise InputError(str(error), where=field.argument) from None


@dataclass(frozen=True, kw_only=True)
class Asked(ABC):
    """A question with the limits that its answer is held against: a command, and a function in Python.

    `example` is the line that its help ends with, `leading` are the fields that a newcomer looks for, `draws` tells
    whether its guarantee can be drawn. What `writes` by itself shows no result.
    """

    example: ClassVar[str]
    leading: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[bool] = True
    writes: ClassVar[bool] = False

    prior: Annotated[
        float,
        number("--prior", help="Chance that a record is in, for the risk.", allowed=PROBABILITY, panel=_OUTPUT),
    ] = 0.5
    max_epsilon: Annotated[
        float | None, number("--max-epsilon", help="Largest allowed ε.", allowed=NON_NEGATIVE, panel=_BUDGET)
    ] = None
    max_delta: Annotated[
        float | None, number("--max-delta", help="Largest allowed δ.", allowed=NON_NEGATIVE, panel=_BUDGET)
    ] = None
    max_mu: Annotated[
        float | None, number("--max-mu", help="Largest allowed μ (GDP).", allowed=NON_NEGATIVE, panel=_BUDGET)
    ] = None
    max_rho: Annotated[
        float | None, number("--max-rho", help="Largest allowed ρ (zCDP).", allowed=NON_NEGATIVE, panel=_BUDGET)
    ] = None
    max_advantage: Annotated[
        float | None,
        number(
            "--max-advantage", help="Largest allowed advantage of an attacker.", allowed=NON_NEGATIVE, panel=_BUDGET
        ),
    ] = None

    @abstractmethod
    def answer(self) -> Result:
        """What is answered, before limits are looked at."""

    def idle(self) -> Mapping[str, str]:
        """Fields that play no part here, with the reason; on the command line they may not be given at all."""
        return {}

    @property
    def limits(self) -> Budget:
        """The limits that were given."""
        return Budget(**{each.name: getattr(self, each.name) for each in dataclasses.fields(Budget)})

    def result(self) -> Result:
        """The answer with the limits that were given."""
        result = self.answer()
        given = {f"max_{quantity}": limit for quantity, limit in self.limits.limits().items()}
        result = replace(result, budget=replace(result.budget, **given))
        guarantee = result.guarantee
        unasked = guarantee is not None and guarantee.epsilon is None and guarantee.delta is None
        if unasked and result.budget.max_epsilon is not None:
            raise InputError("a limit on ε needs the δ at which ε is meant", where="max_epsilon")
        return result

    def part(self, record: type[P]) -> P:
        """The fields of a smaller record that this question has too."""
        return record(**{each.name: getattr(self, each.name) for each in dataclasses.fields(record)})  # type: ignore[arg-type]

    @classmethod
    @cache
    def fields(cls) -> tuple[Field, ...]:
        """What can be given, in the order of its help."""
        return fields_of(cls)

    @classmethod
    def given(cls: type[A], values: Mapping[str, Any]) -> A:
        """The question with these arguments, each read and checked as the command line does."""
        known = {each.argument: each for each in cls.fields()}
        for name in values:
            if name not in known:
                raise InputError(_unknown(name, list(known)), where=cls.__name__.lower())
        read = {}
        for name, field in known.items():
            if values.get(name) is not None:
                try:
                    read[field.name] = field.read(values[name])
                except ValueError as error:
                    raise InputError(str(error), where=name) from None
            elif field.needed:
                raise InputError("is missing", where=name)
        return cls(**read)

    @classmethod
    def words(cls) -> str:
        """What it is for: each paragraph of its docstring on one line, so that a terminal can wrap it."""
        paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"has no argument {name}{_guess(name, known)}"


def _guess(word: str, known: Sequence[str]) -> str:
    """What may have been meant, if anything is close."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
