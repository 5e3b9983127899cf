"""What would fit into the rest of a budget: the largest count, the least noise, the largest declared cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpcalc.errors import InputError
from dpcalc.ledger.answers import Answer, RefusedError
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opened import opened
from dpcalc.ledger.requests import Request
from dpcalc.ledger.tree import State, accounts, charged, main_account
from dpcalc.solve import Ends, Ratio, bracket, solve
from dpcalc.spec.fields import FIELDS, read_number

_DIGITS = 4
_CLOSE = 1e-5  # relative width at which a search ends, well within the digits
_FURTHEST = 2.0**60
_MOST_COUNT = 10**15
_NOISE = ("noise_multiplier", "sigma", "scale")
_DECLARED = ("epsilon", "mu", "rho")


@dataclass(frozen=True)
class Advice:
    """For the costliest entry, the others as they stand: what of it would still fit. None where nothing does."""

    entry: str
    asked: int
    largest_count: int
    noise_key: str | None = None
    least_noise: float | None = None
    largest: tuple[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """As `details.refusal` tells it."""
        told: dict[str, Any] = {"entry": self.entry, "count": self.asked, "largest_count": self.largest_count}
        told["least_noise"] = None if self.noise_key is None else {self.noise_key: self.least_noise}
        if self.largest is not None:
            told[f"largest_{self.largest[0]}"] = self.largest[1]
        return told

    def sentence(self) -> str:
        """In words."""
        parts = []
        if self.largest_count > 0:
            parts.append(f"{self.largest_count:,} of {self.asked:,} would fit")
        if self.least_noise is not None:
            parts.append(f"all {self.asked:,} with {self.noise_key} {self.least_noise:g}")
        if self.largest is not None:
            parts.append(f"{self.largest[0]} up to {self.largest[1]:g}")
        return f"{self.entry}: {'; '.join(parts)}" if parts else f"{self.entry}: nothing of it would fit"


class Room:
    """What is left on the path from a budget to the root, as it was found."""

    def __init__(self, ledger: Ledger, budget: str) -> None:
        self._path = ledger.path(budget)
        self._states: dict[str, State] = ledger.states(budget)
        self.adjacency = self._path[0].adjacency

    def fits(self, request: Request, position: int = -1, count: int = 0) -> bool:
        """Whether a request would be accepted, the entry at a position with another count."""
        kept = accounts(self._path)
        if position >= 0 and count == 0 and len(request.entries) == 1:
            return True
        try:
            cost = {a.name: a.measure.cost(request.parts(a.adjacency, position=position, count=count)) for a in kept}
        except InputError:  # so much noise, or so little cost, that it is beyond what can be computed with
            return False
        after = charged(self._path, self._states, cost)
        return all(terms.fits(after[terms.name][main_account(terms).name]) for terms in self._path)

    def advice(self, request: Request) -> Advice:
        """What of a request that does not fit would."""
        position = self.costliest(request)
        entry = request.entries[position]
        count = self.largest_count(request, position, entry.count)
        noise = noise_key(request, position)
        fields = request.node(position).mapping("an entry")
        declared = next((key for key in _DECLARED if key in fields), None) if noise is None else None
        return Advice(
            entry=entry.name,
            asked=entry.count,
            largest_count=count,
            noise_key=noise,
            least_noise=self.least_noise(request, position, noise, entry.count) if noise else None,
            largest=self._largest(request, position, declared) if declared else None,
        )

    def largest_count(self, request: Request, position: int, most: int = _MOST_COUNT) -> int:
        """How many releases of the entry at a position fit, the others as they stand; at most `most`."""
        if not self.fits(request, position, 0):
            return 0
        ratio = _ratio(lambda count: count <= most and self.fits(request, position, int(count)))
        ends = bracket(ratio, 1, 2, least=1, most=most + 1) if ratio(1) <= 1 else Ends(0, 1)
        assert ends is not None  # one more than most does not fit
        return int(solve(ratio, *ends, whole=True).within)

    def costliest(self, request: Request) -> int:
        """The entry that costs most by the budget's own measure."""
        measure = self._path[0].measure

        def cost(position: int) -> float:
            entry = request.entries[position]
            return self._path[0].share(measure.cost(((entry.mechanism, entry.count),)))

        return max(range(len(request.entries)), key=cost)

    def least_noise(self, request: Request, position: int, key: str, count: int) -> float | None:
        """The least noise with which so many releases of an entry fit, rounded up; None if no noise is enough."""
        stated = _number(request, position, key)

        def fits(value: float) -> bool:
            return self._fits_with(request, position, key, value, count)

        return _settled(fits, stated * 2, 1 / 2, math.ceil)

    def _largest(self, request: Request, position: int, key: str) -> tuple[str, float] | None:
        """The largest declared cost that fits, rounded down; None if none does."""
        stated = _number(request, position, key)

        def fits(value: float) -> bool:
            return self._fits_with(request, position, key, value, request.entries[position].count)

        found = _settled(fits, stated / 2, 2, math.floor)
        return None if found is None else (key, found)

    def _fits_with(self, request: Request, position: int, key: str, value: float, count: int) -> bool:
        try:
            return self.fits(request.with_value(position, key, repr(value)), position, count)
        except InputError:
            return False


def charge(url: str, budget: str, releases: Any, *, key: str, note: str = "") -> Answer:
    """Charge a job that is about to run and has nothing else to ask of the ledger; a refusal says what would fit."""
    with opened(url) as ledger:
        try:
            return ledger.spend(budget, releases, key=key, note=note)
        except RefusedError as refused:
            advice = Room(ledger, budget).advice(refused.answer.request)
            raise RefusedError(refused.answer, advice.sentence()) from None


def noise_key(request: Request, position: int) -> str | None:
    """The key of an entry that is its noise."""
    fields = request.node(position).mapping("an entry")
    return next((key for key in _NOISE if key in fields), None)


def _number(request: Request, position: int, key: str) -> float:
    return read_number(request.node(position).mapping("an entry")[key], FIELDS[key])


def _ratio(fits: Callable[[float], bool]) -> Ratio:
    """What only fits or does not, as a ratio of which no more is known."""
    return lru_cache(lambda value: 0.5 if fits(value) else 2.0)


def _settled(
    fits: Callable[[float], bool], start: float, factor: float, rounding: Callable[[Fraction], int]
) -> float | None:
    """The last value that fits, in four digits rounded to the safe side; None if none does.

    The factor leads away from what fits; a start that fits is itself a stride from one that does not.
    """
    ratio = _ratio(fits)
    if ratio(start) <= 1:
        ends: Ends | None = Ends(start, start * factor)
    else:
        ends = bracket(ratio, start, factor, least=start / _FURTHEST, most=start * _FURTHEST)
    if ends is None:
        return None
    right = solve(ratio, *ends, width=_CLOSE).within
    unit = Fraction(10) ** (math.floor(math.log10(right)) - _DIGITS + 1)
    rounded = float(rounding(Fraction(right) / unit) * unit)
    return rounded if fits(rounded) else right
