"""Numbers as people write them (1e-5, 256/60000), checked against the range they must lie in."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True)
class Range:
    """An interval of allowed values; open ends are excluded. Infinity is never allowed."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return math.isfinite(value) and above and below

    def __str__(self) -> str:
        left = "(" if self.low_open or math.isinf(self.low) else "["
        right = ")" if self.high_open or math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


# An upper bound on a probability that is positive but too small for doubles.
SMALLEST = 5e-324

BLANKS = " \t"  # what may stand around a number in a table; no other space may

# Nobody writes a number with more characters than this, and the time to read one grows with its length.
_LONGEST = 400

POSITIVE = Range(low=0, low_open=True)
NON_NEGATIVE = Range(low=0)
PROBABILITY = Range(low=0, high=1, low_open=True, high_open=True)
PROBABILITY_OR_ZERO = Range(low=0, high=1, high_open=True)
RATE = Range(low=0, high=1, low_open=True)
AT_LEAST_ONE = Range(low=1)
RENYI_ORDER = Range(low=1, low_open=True)


# One dialect for options, specs and logs: ASCII digits, one point, one exponent, one fraction bar. A leading zero is
# octal to some readers and decimal to others, so it is neither here.
_DECIMAL = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"{_DECIMAL}(?:/{_DECIMAL})?")


def is_number(text: str) -> bool:
    """Whether a text is a number of the dialect."""
    return len(text) <= _LONGEST and _NUMBER.fullmatch(text) is not None


def parse_number(text: str, allowed: Range = Range()) -> float:  # noqa: B008 - Range is immutable
    """The value of `1e-5` or `256/60000`; raises ValueError with the text and the allowed range otherwise."""
    numerator, slash, denominator = text.partition("/")
    try:
        if not is_number(text):
            raise ValueError
        value = float(numerator) / float(denominator) if slash else float(numerator)
    except (ValueError, ZeroDivisionError, OverflowError):
        place = "" if allowed == Range() else f" in {allowed}"
        raise ValueError(f"expected a number{place} such as 0.5, 1e-5 or 256/60000, got {_shown(text)}") from None
    if value not in allowed:
        raise ValueError(f"expected a number in {allowed}, got {_shown(text, quoted=False)}")
    return value


def _shown(text: str, *, quoted: bool = True) -> str:
    """What was found, short and printable."""
    short = text if len(text) <= 40 else f"{text[:37]}..."
    return ascii(short) if not short.isprintable() else repr(short) if quoted else short


def parse_whole(text: str, allowed: Range = AT_LEAST_ONE) -> int:
    """A whole number, also written 1e6; raises ValueError otherwise."""
    value = parse_number(text, allowed)
    if value != int(value):
        raise ValueError(f"expected a whole number, got {text}")
    return int(value)


def exact(value: float | Fraction) -> Fraction:
    """The number that was meant: a short decimal as it is written, else the simple fraction that rounds to it."""
    from fractions import Fraction

    if isinstance(value, Fraction):
        return value
    written = Fraction(repr(value))
    if len(repr(value).partition("e")[0].replace(".", "").strip("-0")) < 16:
        return written
    simple = written.limit_denominator(10**6)
    return simple if float(simple) == value else written


def steps_of_epochs(epochs: float | Fraction, records: float | Fraction, batch_size: float | Fraction) -> int:
    """The steps of so many epochs, rounded up, from the numbers as they are written: 1.1 epochs of 200 are 220."""
    return math.ceil(exact(epochs) * exact(records) / exact(batch_size))
