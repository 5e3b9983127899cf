"""The keys an entry may have: their ranges, and which way they move ε when they are solved for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from dpcalc.numbers import NON_NEGATIVE, POSITIVE, RATE, RENYI_ORDER, Range, is_number, parse_number, parse_whole
from dpcalc.spec.node import Node, one_of

if TYPE_CHECKING:
    from fractions import Fraction

SOLVE = "solve"

# Whole numbers up to here are told apart by the arithmetic.
_MOST = 1e15
_COUNT = Range(low=1, high=_MOST)


@dataclass(frozen=True)
class Field:
    """A number: where it may lie, whether it is whole, and whether more of it means more or less privacy loss."""

    allowed: Range
    whole: bool = False
    more_means: Literal["more loss", "less loss"] | None = None

    @cached_property
    def what(self) -> str:
        """The number that is expected, in words."""
        return f"a {'whole ' if self.whole else ''}number in {self.allowed}"


FIELDS: Mapping[str, Field] = {
    "noise_multiplier": Field(POSITIVE, more_means="less loss"),
    "sigma": Field(POSITIVE, more_means="less loss"),
    "scale": Field(POSITIVE, more_means="less loss"),
    "sensitivity": Field(POSITIVE),
    "epsilon": Field(NON_NEGATIVE, more_means="more loss"),
    "delta": Field(Range(low=0, high=1, high_open=True)),
    "mu": Field(POSITIVE, more_means="more loss"),
    "rho": Field(POSITIVE, more_means="more loss"),
    "p": Field(Range(low=0, high=1, low_open=True, high_open=True)),
    "gamma": Field(Range(low=0, high=1)),
    "cells": Field(Range(low=1, high=1e9), whole=True, more_means="more loss"),
    "k": Field(Range(low=2, high=_MOST), whole=True),
    "rate": Field(RATE, more_means="more loss"),
    "batch_size": Field(_COUNT, whole=True, more_means="more loss"),
    "dataset_size": Field(_COUNT, whole=True),
    "epochs": Field(POSITIVE, more_means="more loss"),
    "steps": Field(_COUNT, whole=True, more_means="more loss"),
    "selected": Field(_COUNT, whole=True, more_means="more loss"),
    "largest_batch": Field(_COUNT, whole=True),
    "count": Field(_COUNT, whole=True, more_means="more loss"),
    "orders": Field(RENYI_ORDER),
    "epsilons": Field(NON_NEGATIVE),
}

SOLVABLE = tuple(name for name, known in FIELDS.items() if known.more_means)


def read_number(node: Node, known: Field) -> float:
    """The number that stands here, inside its range; raises where it is not."""
    what, text = known.what, node.text(known.what)
    # In quotes a number is a word, except for a fraction, which JSON has no other way to write.
    quoted = not node.plain and "/" not in text
    if text == SOLVE:
        node.fail(f"expected {what}, got solve, which is for dpcalc calibrate")
    if quoted or not is_number(text):
        node.fail(f"expected {what}, such as {'100' if known.whole else '0.5, 1e-5 or 256/60000'}, got {node.found()}")
    try:
        return parse_whole(text, known.allowed) if known.whole else parse_number(text, known.allowed)
    except ValueError as error:
        node.fail(str(error))


@dataclass(frozen=True)
class Reader:
    """The keys of one entry (or of a block inside it), read by name and checked as they are read."""

    node: Node
    values: Mapping[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", self.node.mapping("a mapping of keys"))

    def has(self, key: str) -> bool:
        return key in self.values

    def number(self, key: str, default: float | None = None) -> float:
        """The number at a key; required if there is no default."""
        value = self.values.get(key)
        if value is not None:
            return read_number(value, FIELDS[key])
        if default is None:
            self.node.fail(f"{key} is missing")
        return default

    def positive(self, key: str) -> float:
        """The number at a key that may not be zero here."""
        value = self.number(key)
        if value == 0:
            self.values[key].fail(f"expected a number in {POSITIVE}, got 0")
        return value

    def exact(self, key: str) -> Fraction:
        """The number at a key as it is written, before any rounding: 1.1 is 11/10."""
        from fractions import Fraction

        self.number(key)
        numerator, slash, denominator = self.values[key].text("a number").partition("/")
        return Fraction(numerator) / Fraction(denominator) if slash else Fraction(numerator)

    def whole(self, key: str, default: int | None = None) -> int:
        """The whole number at a key."""
        return int(self.number(key, default))

    def numbers(self, key: str) -> list[float]:
        """The list of numbers at a key."""
        if key not in self.values:
            self.node.fail(f"{key} is missing")
        found = self.values[key].items("a list of numbers such as [2, 4]")
        if not found:
            self.values[key].fail("expected at least one number, got an empty list")
        return [read_number(item, FIELDS[key]) for item in found]

    def form(self, *forms: tuple[str, ...]) -> int:
        """Which of several alternative sets of keys is used; keys of two of them, or of none, are an error.

        The first key of each set decides.
        """
        given = [i for i, keys in enumerate(forms) if not self.values.keys().isdisjoint(keys)]
        if len(given) > 1:
            together = " and ".join(next(key for key in forms[i] if self.has(key)) for i in given)
            self.node.fail(f"{together} do not go together; give {_choices(forms)}")
        if not given or not self.has(forms[given[0]][0]):
            self.node.fail(f"{_choices(forms)} is missing")
        return given[0]


def _choices(forms: Iterable[tuple[str, ...]]) -> str:
    return one_of(" with ".join(keys) for keys in forms)
