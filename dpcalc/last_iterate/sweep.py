"""One parameter over a range of values: the analysis at each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


def run_sweep(
    request: Request, sweep: Sweep, *, advance: Callable[[int], None] = lambda _: None
) -> list[tuple[float, Analysis]]:
    """The analysis at each value, in order; `advance` is called after each."""
    found = []
    for value in sweep.values:
        try:
            found.append((value, analyse(sweep.apply(request, value))))
        except InputError as error:
            raise InputError(str(error), where=f"--sweep {sweep.name}={value:g}") from None
        advance(1)
    return found


def bound_label(name: str, theorem: str) -> str:
    """A column or a curve: the kind of bound, and its theorem where several share the kind."""
    number = theorem.partition("Theorem ")[2].partition(" ")[0].rstrip(",")
    return f"{name} {number}" if number and name == "shifted-interpolation" else name


def records(sweep: Sweep, results: Sequence[tuple[float, Analysis]]) -> list[dict[str, Any]]:
    """One row per value: the best bound, and ε of every bound by name."""
    labels: dict[str, None] = {}
    for _, analysis in results:
        labels.update({bound_label(each.bound.name, each.bound.theorem): None for each in analysis.evaluated})
    rows = []
    for value, analysis in results:
        best = analysis.best
        by_label = {bound_label(e.bound.name, e.bound.theorem): e.guarantee.epsilon for e in analysis.evaluated}
        row = {
            sweep.name: value,
            "epsilon": best.guarantee.epsilon,
            "delta": analysis.request.delta,
            "mu": best.guarantee.mu,
            "best": best.bound.name,
            "theorem": best.bound.theorem,
        }
        rows.append(row | {f"epsilon {label}": by_label.get(label) for label in labels})
    return rows
