"""Costs as whole numbers of one small unit, so that sums are exact and their order does not matter.

A cost is rounded up to the next multiple of u = 2⁻¹⁰⁰ and is at least one unit unless it is exactly 0. Integers have
any size here, so nothing overflows and nothing is lost to subnormals. An infinite cost (of a step that says nothing at
some order) is a multiple of a number that no finite double reaches: it adds up, and can be taken back, like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

UNIT = 1 << 100
INFINITE = 1 << 1200

Vector = tuple[int, ...]


def units_up(value: float | Fraction) -> int:
    """The cost in units, rounded up."""
    return INFINITE if value == math.inf else math.ceil(Fraction(value) * UNIT)


def units_down(value: float | Fraction) -> int:
    """A limit in units, rounded down."""
    return math.floor(Fraction(value) * UNIT)


def as_typed(value: float) -> Fraction:
    """The decimal number that people wrote for this double: ten steps of 0.1 are 1, whatever binary says."""
    return Fraction(repr(float(value)))


def float_up(units: int) -> float:
    """The smallest double that is not below so many units; infinity where there is none."""
    if units >= INFINITE:
        return math.inf
    try:
        value = units / UNIT
    except OverflowError:
        return math.inf
    return value if Fraction(value) * UNIT >= units else math.nextafter(value, math.inf)


def float_down(units: int) -> float:
    """The largest double that is not above so many units."""
    value = float_up(units)
    exact = units >= INFINITE if value == math.inf else Fraction(value) * UNIT <= units
    return value if exact else math.nextafter(value, 0.0)


def root_up(units: int) -> float:
    """√ of a number of units, rounded up."""
    root = math.isqrt(units << 100)
    return float_up(root if root * root == units << 100 else root + 1)


def add(left: Vector, right: Vector) -> Vector:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def subtract(left: Vector, right: Vector) -> Vector:
    return tuple(a - b for a, b in zip(left, right, strict=True))


def largest(vectors: Iterable[Vector]) -> Vector:
    """The maximum, component by component."""
    return tuple(max(column) for column in zip(*vectors, strict=True))


def two_largest(vectors: Sequence[Vector]) -> Vector:
    """The sum of the two largest, component by component."""
    return tuple(sum(sorted(column)[-2:]) for column in zip(*vectors, strict=True))


def encode(vector: Vector) -> list[str]:
    """As JSON keeps it: decimal text, since other readers of JSON round large numbers."""
    return [_encode_one(value) for value in vector]


def _encode_one(units: int) -> str:
    infinities, finite = divmod(units, INFINITE)
    return f"{finite}+{infinities}inf" if infinities else str(finite)


def decode(texts: Sequence[str]) -> Vector:
    """Back from text."""
    return tuple(_decode_one(text) for text in texts)


def _decode_one(text: str) -> int:
    finite, plus, infinities = text.partition("+")
    return int(finite) + (int(infinities.removesuffix("inf")) * INFINITE if plus else 0)
