"""Solves the one number of a spec that is marked `solve`, for a target ε."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpcalc.accounting.calibrate import calibrate
from dpcalc.accounting.compose import estimated_epsilon
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Guarantee, weakest_status
from dpcalc.mechanisms.base import Mechanism
from dpcalc.spec.composition import Question, compose_entries
from dpcalc.spec.specification import Document
from dpcalc.spec.unknown import Unknown, find_unknown

# Where the search for a value starts and how far it goes; noise is relative to the sensitivity.
_START: Mapping[str, tuple[float, float]] = {
    "epsilon": (0.1, 1.0),
    "mu": (0.1, 1.0),
    "rho": (0.01, 0.1),
    "rate": (1e-3, 1e-2),
    "batch_size": (16, 256),
    "steps": (16, 256),
    "count": (1, 16),
    "noise_multiplier": (0.5, 8.0),
    "sigma": (0.5, 8.0),
    "scale": (0.5, 8.0),
    "epochs": (1.0, 16.0),
}
_LEAST, _MOST = 1e-12, 1e12
_WIDER = 16.0


@dataclass(frozen=True)
class Calibrated:
    """The value, where it goes in the spec, and the guarantee it gives; `too_much` is just over the target."""

    value: float
    key: str
    where: str
    guarantee: Guarantee
    too_much: float
    too_much_epsilon: float


def calibrate_documents(
    documents: Sequence[Document], question: Question, epsilon: float, adjacency: Adjacency | None = None
) -> Calibrated:
    """The value that keeps the composition within ε at the δ of the question, rounded to the safe side."""
    delta = question.delta
    assert delta is not None
    unknown = find_unknown(documents, adjacency)
    build = functools.lru_cache(partial(_parts, unknown))
    try:
        _expect_room(unknown, question, epsilon)
        low, high = _bracket(unknown, lambda value: estimated_epsilon(build(value), delta, near=epsilon) / epsilon)
        found = calibrate(
            build,
            epsilon=epsilon,
            delta=delta,
            increasing=unknown.field.more_means == "more loss",
            low=low,
            high=high,
            integer=unknown.field.whole,
            tolerance=question.tolerance,
        )
    except InputError as error:
        located = str(error).startswith(unknown.node.source)
        raise InputError(str(error), where=None if located else unknown.node.where) from None
    entries = unknown.entries(found.value)
    guarantee = replace(
        found.guarantee,
        status=weakest_status([found.guarantee.status, *(entry.status for entry in entries)]),
        mechanisms=tuple(entry.spec() for entry in entries),
    )
    value = int(found.value) if unknown.field.whole else found.value
    return Calibrated(value, unknown.key, unknown.node.path, guarantee, found.too_much, found.too_much_epsilon)


def _parts(unknown: Unknown, value: float) -> list[tuple[Mechanism, int]]:
    return [(entry.mechanism, entry.count) for entry in unknown.entries(value)]


def _bracket(unknown: Unknown, relative: Callable[[float], float]) -> tuple[float, float]:
    """A range that holds the solution, or ends where there is none; `relative` estimates ε over its target.

    Extreme values are slow to account for and are tried only where they are needed.
    """
    unit = unknown.sensitivity if unknown.key in ("sigma", "scale") else 1.0
    least, most = max(_LEAST, unknown.allowed.low), min(_MOST, unknown.allowed.high)
    low, high = (min(max(unit * end, least), most) for end in _START[unknown.key])
    falls = unknown.field.more_means == "less loss"
    # Well beyond the target on either side: the certified bound is a little above the estimate.
    while high < most and (relative(high) > 0.9 if falls else relative(high) < 1.1):
        low, high = (high, min(high * _WIDER, most)) if falls else (low, min(high * _WIDER, most))
    while low > least and (relative(low) < 1.1 if falls else relative(low) > 0.9):
        low = max(low / _WIDER, least)
    return (math.floor(low), math.ceil(high)) if unknown.field.whole else (low, high)


def _expect_room(unknown: Unknown, question: Question, epsilon: float) -> None:
    """Raise if the other mechanisms alone are over the target."""
    alone = compose_entries(unknown.others, question).epsilon if unknown.others else 0.0
    if alone is None or alone > epsilon:
        raise InputError(f"no solution: the other mechanisms alone have ε = {alone:.6g}, above {epsilon:g}")
