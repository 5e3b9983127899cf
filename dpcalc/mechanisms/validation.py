"""Checks on parameters, with messages that name the parameter, its value and what is allowed."""

from __future__ import annotations

import math
from typing import NoReturn

from dpcalc.errors import InputError
from dpcalc.guarantee import ADJACENCIES


def expect_positive(name: str, value: float, *, least: float = 0.0) -> None:
    """A finite number above zero, or above something very small."""
    if not least < value < math.inf:
        _refuse(name, value, f"in ({least:g}, {math.inf})")


def expect_rate(name: str, value: float) -> None:
    """A probability above zero."""
    if not 0 < value <= 1:
        _refuse(name, value, "in (0, 1]")


def expect_proportion(name: str, value: float) -> None:
    """A part of a whole, none and all of it included."""
    if not 0 <= value <= 1:
        _refuse(name, value, "in [0, 1]")


def expect_whole(name: str, value: float, *, low: int = 1) -> None:
    """A whole number, at least `low`."""
    if not (math.isfinite(value) and value == int(value) >= low):
        _refuse(name, value, f"to be a whole number, at least {low}")


def expect_adjacency(value: str) -> None:
    """One of the two neighbouring relations."""
    if value not in ADJACENCIES:
        raise InputError(f"Expected adjacency={value} to be one of {', '.join(ADJACENCIES)}.")


def _refuse(name: str, value: float, allowed: str) -> NoReturn:
    raise InputError(f"Expected {name}={value} {allowed}.")
