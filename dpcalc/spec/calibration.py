"""Solves the one number of a spec that is marked `solve`, for a target."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dpcalc.accounting.calibrate import calibrate
from dpcalc.accounting.compose import estimated_epsilon, upper_epsilon
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.report import SYMBOLS, rounded_up, written
from dpcalc.spec.composition import Part, Question, compose_entries, with_carried
from dpcalc.spec.specification import Document
from dpcalc.spec.targets import Target, search
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
_DOUBTFUL = 10.0  # an estimate of ε over its target that leaves open on which side the bound is


@dataclass(frozen=True)
class Calibrated:
    """The value, where it goes in the spec, and the guarantee it gives; `too_much` is just over the target."""

    value: float
    key: str
    where: str
    entry: str
    rises: bool
    guarantee: Guarantee
    too_much: float
    too_much_epsilon: float | None


def calibrate_documents(
    documents: Sequence[Document],
    question: Question,
    targets: Sequence[Target],
    adjacency: Adjacency | None = None,
) -> Calibrated:
    """The value that keeps the composition within all targets, rounded to the safe side and certified."""
    unknown = find_unknown(documents, adjacency)
    build = functools.lru_cache(partial(_parts, unknown))
    try:
        _expect_room(unknown, question, targets)
        if len(targets) == 1 and targets[0].quantity == "epsilon" and targets[0].at:
            value, too_much, epsilon = _for_epsilon(unknown, build, question, targets[0])
        else:
            value, too_much, epsilon = _for_targets(unknown, build, question, targets)
    except InputError as error:
        raise error.at(error.where or unknown.node.where) from None
    entries = unknown.entries(value)
    return Calibrated(
        value=int(value) if unknown.field.whole else value,
        key=unknown.key,
        where=unknown.node.path,
        entry=entries[unknown.position].name,
        rises=unknown.field.more_means == "more loss",
        guarantee=with_carried(compose_entries(entries, question), documents),
        too_much=too_much,
        too_much_epsilon=epsilon,
    )


def _for_epsilon(
    unknown: Unknown, build: Callable[[float], list[Part]], question: Question, target: Target
) -> tuple[float, float, float | None]:
    """ε at δ: by estimates, which are quick, and a certified end."""
    delta = target.at
    assert delta is not None
    relative = partial(_estimated, build, delta, target.limit)
    low, high = _bracket(unknown, relative)

    def fits(value: float) -> bool:
        return relative(value) < _DOUBTFUL and upper_epsilon(build(value), delta, question.tolerance) <= target.limit

    low, high = _widened(unknown, low, high, fits)
    found = calibrate(
        build,
        epsilon=target.limit,
        delta=delta,
        increasing=unknown.field.more_means == "more loss",
        low=low,
        high=high,
        integer=unknown.field.whole,
        tolerance=question.tolerance,
    )
    return found.value, found.too_much, found.too_much_epsilon


def _estimated(build: Callable[[float], list[Part]], delta: float, limit: float, value: float) -> float:
    return estimated_epsilon(build(value), delta) / limit


def _for_targets(
    unknown: Unknown, build: Callable[[float], list[Part]], question: Question, targets: Sequence[Target]
) -> tuple[float, float, float | None]:
    """Any other quantity, or several: by certified bounds alone."""

    @functools.lru_cache
    def ratio(value: float) -> float:
        parts = build(value)
        return max(target.measure(parts, question.tolerance) / target.limit for target in targets)

    low, high = _bracket(unknown, ratio)
    increasing = unknown.field.more_means == "more loss"
    found = search(ratio, low=low, high=high, increasing=increasing, integer=unknown.field.whole)
    epsilon = question.ask(build(found.too_much)).epsilon if question.delta is not None else None
    return found.value, found.too_much, epsilon


def _parts(unknown: Unknown, value: float) -> list[Part]:
    return [(entry.mechanism, entry.count) for entry in unknown.entries(value)]


def _bracket(unknown: Unknown, relative: Callable[[float], float]) -> tuple[float, float]:
    """A range that holds the solution, or ends where there is none; `relative` estimates ε over its target.

    Extreme values are slow to account for and are tried only where they are needed.
    """
    unit = unknown.sensitivity if unknown.key in ("sigma", "scale") else 1.0
    least, most = _ends(unknown)
    low, high = (min(max(unit * end, least), most) for end in _START[unknown.key])
    falls = unknown.field.more_means == "less loss"
    # Well beyond the target on either side: the certified bound is a little above the estimate.
    while high < most and (relative(high) > 0.9 if falls else relative(high) < 1.1):
        low, high = (high, min(high * _WIDER, most)) if falls else (low, min(high * _WIDER, most))
    while low > least and (relative(low) < 1.1 if falls else relative(low) > 0.9):
        low = max(low / _WIDER, least)
    return (math.floor(low), math.ceil(high)) if unknown.field.whole else (low, high)


def _widened(unknown: Unknown, low: float, high: float, fits: Callable[[float], bool]) -> tuple[float, float]:
    """The range with its less private end moved on while that is within the target: an estimate may be too large."""
    least, most = _ends(unknown)
    if unknown.field.more_means == "less loss":
        while low > least and fits(low):
            low = max(low / _WIDER, least)
        return (math.floor(low) if unknown.field.whole else low), high
    while high < most and fits(high):
        high = min(high * _WIDER, most)
    return low, (math.ceil(high) if unknown.field.whole else high)


def _ends(unknown: Unknown) -> tuple[float, float]:
    """The smallest and the largest value that is ever tried."""
    return max(_LEAST, unknown.allowed.low), min(_MOST, unknown.allowed.high)


def _expect_room(unknown: Unknown, question: Question, targets: Sequence[Target]) -> None:
    """Raise if the other mechanisms alone are over a target."""
    others = [(entry.mechanism, entry.count) for entry in unknown.others]
    for target in targets if others else ():
        alone = target.measure(others, question.tolerance)
        if alone > target.limit:
            name, limit = SYMBOLS.get(target.quantity, "the true positive rate"), written(target.limit)
            raise InputError(
                f"no solution: the other mechanisms alone have {name} = {rounded_up(alone)}, above {limit}"
            )
