"""One or two parameters over ranges of values: the analysis at each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from dpcalc.asked import fields_of
from dpcalc.errors import InputError
from dpcalc.last_iterate.analysis import Analysis, analyse
from dpcalc.last_iterate.request import Request
from dpcalc.numbers import POSITIVE, parse_number

_FIELDS = {field.argument: field for field in fields_of(Request)}
# Numbers of a request, in the order in which they are told.
_SWEPT = (
    "epochs", "steps", "lr", "sigma", "noise_multiplier", "noise_over_sensitivity", "clip", "batch_size", "n",
    "sensitivity", "strong_convexity", "smoothness", "diameter", "delta",
)  # fmt: skip
# What a swept parameter stands in for.
_INSTEAD = {
    "epochs": ("steps",),
    "steps": ("epochs",),
    "sigma": ("noise_multiplier", "noise_over_sensitivity"),
    "noise-multiplier": ("sigma", "noise_over_sensitivity"),
    "noise-over-sensitivity": ("sigma", "noise_multiplier"),
    "clip": ("sensitivity",),
    "sensitivity": ("clip",),
}
MOST_VALUES = 10_000


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A parameter and the values it takes, written epochs=10:200:10 (the end included) or lr=0.1,0.05."""

    name: str
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Sweep:
        """The sweep; ValueError says what is allowed."""
        name, equals, range_ = text.partition("=")
        names = [each.replace("_", "-") for each in _SWEPT]
        if not equals or name not in names:
            raise ValueError(f"expected NAME=START:STOP:STEP with NAME one of {', '.join(names)}, got {text!r}")
        values = _list(range_) if ":" not in range_ else _range(range_)
        field = _FIELDS[name.replace("-", "_")]
        try:
            return cls(name=name, values=tuple(field.read(value) for value in values))
        except ValueError as error:
            raise ValueError(f"{error} for {name}") from None

    def apply(self, request: Request, value: float) -> Request:
        """The request with the swept parameter set, and the one it stands in for unset."""
        changes: dict[str, Any] = dict.fromkeys(_INSTEAD.get(self.name, ()))
        changes[self.name.replace("-", "_")] = value
        return replace(request, **changes)


def _list(text: str) -> list[float]:
    return [parse_number(part) for part in text.split(",")]


def _range(text: str) -> list[float]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise ValueError(f"expected START:STOP or START:STOP:STEP, got {text!r}")
    start, stop = parse_number(parts[0]), parse_number(parts[1])
    step = parse_number(parts[2], POSITIVE) if len(parts) == 3 else 1.0
    if stop < start:
        raise ValueError(f"expected START ≤ STOP, got {text!r}")
    count = math.ceil((stop - start) / step * (1 - 1e-12) - 1e-9)
    if count >= MOST_VALUES:
        raise ValueError(f"expected at most {MOST_VALUES} values, got {count + 1}")
    # Rounded so that 0.1:0.4:0.1 prints as 0.3 and not 0.30000000000000004; the end itself is always there.
    return [*(float(f"{start + index * step:.12g}") for index in range(count)), stop]


@dataclass(frozen=True, kw_only=True)
class Point:
    """What one choice of the swept values gives."""

    values: tuple[float, ...]
    analysis: Analysis


def run_sweeps(
    request: Request, sweeps: Sequence[Sweep], *, advance: Callable[[int], None] = lambda _: None
) -> list[Point]:
    """The analysis at each choice of values, the last parameter fastest; `advance` is called after each."""
    found = []
    for values in product(*(sweep.values for sweep in sweeps)):
        asked = request
        for sweep, value in zip(sweeps, values, strict=True):
            asked = sweep.apply(asked, value)
        try:
            found.append(Point(values=values, analysis=analyse(asked)))
        except InputError as error:
            where = " ".join(f"`sweep={sweep.name}={value:g}`" for sweep, value in zip(sweeps, values, strict=True))
            raise InputError(str(error), where=where) from None
        advance(1)
    return found


def check_sweeps(sweeps: Sequence[Sweep]) -> None:
    """Raise unless these can be swept together: one or two parameters, none in place of the other."""
    if len(sweeps) > 2:
        raise InputError(f"expected one or two parameters, got {len(sweeps)}", where="sweep")
    names = [sweep.name.replace("-", "_") for sweep in sweeps]
    for sweep, other in zip(sweeps, reversed(names), strict=True):
        if len(sweeps) > 1 and other in (sweep.name.replace("-", "_"), *_INSTEAD.get(sweep.name, ())):
            raise InputError(f"{names[0]} and {names[1]} cannot both be swept: one fixes the other", where="sweep")
    if (size := math.prod(len(sweep.values) for sweep in sweeps)) > MOST_VALUES:
        raise InputError(f"expected at most {MOST_VALUES:,} values in all, got {size:,}", where="sweep")


def bound_label(name: str, theorem: str) -> str:
    """A column or a curve: the kind of bound, and its theorem where several share the kind."""
    number = theorem.partition("Theorem ")[2].partition(" ")[0].rstrip(",")
    return f"{name} {number}" if number and name == "shifted-interpolation" else name


def records(sweeps: Sequence[Sweep], points: Sequence[Point]) -> list[dict[str, Any]]:
    """One row per choice of values: the best bound, and ε of every bound by name."""
    labels: dict[str, None] = {}
    for point in points:
        labels.update({bound_label(e.bound.name, e.bound.theorem): None for e in point.analysis.evaluated})
    rows = []
    for point in points:
        best = point.analysis.best
        by_label = {bound_label(e.bound.name, e.bound.theorem): e.guarantee.epsilon for e in point.analysis.evaluated}
        row = {
            **{sweep.name: value for sweep, value in zip(sweeps, point.values, strict=True)},
            "epsilon": best.guarantee.epsilon,
            "delta": point.analysis.request.delta,
            "mu": best.guarantee.mu,
            "best": best.bound.name,
            "theorem": best.bound.theorem,
        }
        rows.append(row | {f"epsilon {label}": by_label.get(label) for label in labels})
    return rows
