"""What a filter remembers of every record, and sums of costs that are exact in any order.

A cost is split into a multiple of 2⁻⁴⁰ of the budget and a multiple of 2⁻⁶⁸ (the rest, rounded to nearest). Sums of
either part are exact in double precision for up to 2²⁴ steps within a budget, so they do not depend on blocks, tiles or
engines. Together they are within 2⁻⁴⁵ of the budget of the true sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Floats, Indices

_COARSE, _FINE = -40, -68
_NAMES = ("totals", "compensation", "steps_active", "lost", "clipped")


@dataclass
class Totals:
    """The sums of costs (a row for each limit) in two parts, steps taken part in, who lost one or was clipped."""

    totals: Floats
    compensation: Floats
    steps_active: Indices
    lost: Bools
    clipped: Bools

    @classmethod
    def empty(cls, limits: int, individuals: int = 0) -> Totals:
        """Nobody has spent anything."""
        return cls(
            np.zeros((limits, individuals)),
            np.zeros((limits, individuals)),
            np.zeros(individuals, dtype=np.int64),
            np.zeros(individuals, dtype=bool),
            np.zeros(individuals, dtype=bool),
        )

    @property
    def individuals(self) -> int:
        """How many records are known."""
        return int(self.lost.size)

    @property
    def sums(self) -> Floats:
        """The sums of costs."""
        return self.totals + self.compensation

    def grow(self, individuals: int) -> Totals:
        """With room for records that appear for the first time."""
        more = individuals - self.individuals
        return self if more <= 0 else Totals.joined([self, Totals.empty(len(self.totals), more)])

    def take(self, records: Indices | slice) -> Totals:
        """Those of some records: a view for a slice, a copy otherwise."""
        return Totals(*(getattr(self, name)[..., records] for name in _NAMES))

    def put(self, records: Indices | slice, part: Totals) -> None:
        """Put back what `take` gave."""
        for name in _NAMES:
            getattr(self, name)[..., records] = getattr(part, name)

    @classmethod
    def joined(cls, parts: Iterable[Totals]) -> Totals:
        """Those of all records of several parts, in this order."""
        listed = list(parts)
        return cls(*(np.concatenate([getattr(part, name) for part in listed], axis=-1) for name in _NAMES))

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Everything, for a state file or a checkpoint."""
        return {prefix + name: getattr(self, name) for name in _NAMES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Totals:
        """What `to_arrays` gave."""
        return cls(*(arrays[prefix + name] for name in _NAMES))


class Parts:
    """Splits costs into their two parts, one row for each limit."""

    def __init__(self, sizes: Sequence[float]) -> None:
        """`sizes` are the budgets of the rows, or about what is spent there."""
        exponents = np.array([math.frexp(size)[1] for size in sizes])
        # Adding and taking away 1.5·2⁵² units rounds to a whole number of them.
        self._coarse = np.ldexp(1.5, np.clip(exponents + _COARSE + 52, -1000, 1000))
        self._fine = np.ldexp(1.5, np.clip(exponents + _FINE + 52, -1000, 1000))

    @property
    def units(self) -> Floats:
        """What the coarse parts are multiples of."""
        found: Floats = self._coarse * (2.0**-52 / 1.5)
        return found

    def sums(self, costs: Floats) -> tuple[Floats, Floats]:
        """Both parts of costs (limits × steps × records), added up over the steps."""
        whole, rest = np.empty((2, len(costs), costs.shape[2]))
        for row, (coarse, fine) in enumerate(zip(self._coarse, self._fine, strict=True)):
            part = costs[row] + coarse
            part -= coarse
            part.sum(axis=0, out=whole[row])
            np.subtract(costs[row], part, out=part)
            part += fine
            part -= fine
            part.sum(axis=0, out=rest[row])
        return whole, rest

    def split(self, costs: Floats) -> tuple[Floats, Floats]:
        """The coarse and the fine part of costs, whose first axis is that of the limits."""
        shape = (-1, *(1,) * (costs.ndim - 1))
        coarse, fine = self._coarse.reshape(shape), self._fine.reshape(shape)
        whole = costs + coarse
        whole -= coarse
        rest = costs - whole
        rest += fine
        rest -= fine
        return whole, rest
