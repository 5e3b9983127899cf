"""A privacy guarantee as a value: the numbers, and everything they are conditional on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dpcalc.errors import IncompatibleError

Adjacency = Literal["add-remove", "replace-one"]
Status = Literal["certified", "numerical", "approximate"]
MuKind = Literal["exact", "upper", "approximate"]

ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")

# From the strongest claim to the weakest: a combination is as weak as its weakest part.
_STATUSES: tuple[Status, ...] = ("certified", "numerical", "approximate")

# A limit is kept up to rounding in the last digits: 0.1 + 0.2 is within 0.3.
_NOISE = 1e-12

DEFAULT_ORDERS: tuple[float, ...] = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What holds, and on which conditions.

    `epsilon` is a sound upper bound at `delta`; `epsilon_lower` and `epsilon_estimate` show how tight it is.
    A field that a notion cannot give is None, and `warnings` says why.
    """

    adjacency: Adjacency
    status: Status
    accountant: str
    theorem: str
    epsilon: float | None = None
    delta: float | None = None
    epsilon_lower: float | None = None
    epsilon_estimate: float | None = None
    mu: float | None = None
    mu_kind: MuKind | None = None
    rho: float | None = None
    rdp: tuple[tuple[float, float], ...] = ()
    sampler: str = "none"
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    mechanisms: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.epsilon, self.delta, self.epsilon_lower, self.epsilon_estimate, self.mu, self.rho)
        values = [*numbers, *(value for point in self.rdp for value in point)]
        if any(value is not None and (math.isnan(value) or value < 0) for value in values):
            raise ValueError(f"Expected non-negative parameters in a guarantee, got {values}.")
        if (self.mu is None) != (self.mu_kind is None):
            raise ValueError("Expected mu and mu_kind to be given together.")

    def with_warnings(self, *messages: str) -> Guarantee:
        """The same guarantee with more to be aware of."""
        return replace(self, warnings=(*self.warnings, *messages))


def common_adjacency(adjacencies: Iterable[Adjacency]) -> Adjacency:
    """The adjacency all parts share; parts that differ do not compose and raise."""
    found = sorted(set(adjacencies))
    if len(found) != 1:
        raise IncompatibleError(
            f"cannot combine guarantees under {' and '.join(found)}; state them all under one adjacency."
        )
    return found[0]


def weakest_status(statuses: Iterable[Status]) -> Status:
    """How much a combination may claim: as much as its weakest part."""
    return max(statuses, key=_STATUSES.index, default="certified")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits a result is checked against."""

    max_epsilon: float | None = None
    max_delta: float | None = None
    max_mu: float | None = None
    max_rho: float | None = None

    def limits(self) -> dict[str, float]:
        """The limits that were given, by their option names."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def exceeded(self, guarantee: Guarantee) -> tuple[str, ...]:
        """One line for each limit that is not shown to be kept; a quantity that is not known is not kept."""
        lines = []
        for name, limit in self.limits().items():
            quantity = name.removeprefix("max_")
            value: float | None = getattr(guarantee, quantity)
            if value is None:
                lines.append(f"{quantity} is not known for this result, so its limit {limit:g} is not shown to hold")
            elif not value <= limit * (1 + _NOISE):
                lines.append(f"{quantity} = {value:.6g} is over its limit {limit:g}")
        return tuple(lines)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table for people: plain words and numbers, drawn by whichever format was asked for."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a command returns: a guarantee, its details, and how to show them."""

    command: str
    guarantee: Guarantee
    details: Mapping[str, Any] = field(default_factory=dict)
    headline: str = ""
    sections: tuple[Section, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    budget: Budget = field(default_factory=Budget)
    # The command's own question was whether a budget was kept, and it was not: printed, and exit code 1.
    over_own_budget: bool = False
