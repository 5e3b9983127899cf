"""Linear queries Σ q(X_i) that an analyst chooses by earlier answers, under a budget of its own for each record.

Every query is answered with Gaussian noise of one σ. A record takes part while the sum of its ‖q_t(X_i)‖², this query
included, is within the norm budget B; otherwise it counts as 0, and may come back to a smaller query. All answers
together, however many, are μ-GDP for μ = √B/σ and so κ-zCDP for κ = B/(2σ²) (Feldman and Zrnic 2021, Corollary 4.7 and
Theorem 1.2; Koskela et al. 2023, Theorem 12).

Rounding. Each record's vector is brought to multiples of the noise's grid before its norm is taken, so what is charged
is what is summed; sums of such multiples are exact as long as they stay below 2⁵¹ of them, which is
checked; the noise is brought to the same grid and added exactly (see `noise`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpcalc import conversions, files
from dpcalc.arrays import Floats, Indices
from dpcalc.errors import InputError
from dpcalc.files.archive import check_alike, load_sealed, save_sealed
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.rule import ROUNDING, Rule
from dpcalc.filters.rules import gdp_rule
from dpcalc.filters.totals import Totals
from dpcalc.rounding import up
from dpcalc.training.noise import Noise, SystemNoise, grid

_FORMAT = "dpcalc-queries/1"
_EXACT = 2.0**51


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is fixed before the first query: the norm budget of a record, and the noise on every answer."""

    norm_budget: float
    sigma: float

    @classmethod
    def of(
        cls,
        *,
        norm_budget: float,
        rho: float | None = None,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        sigma: float | None = None,
    ) -> Terms:
        """The noise for a privacy level, rounded up: ρ-zCDP, μ-GDP or (ε,δ)-DP; or the noise itself."""
        given = {"rho": rho, "mu": mu, "epsilon": epsilon, "sigma": sigma}
        for name, value in {**given, "norm_budget": norm_budget}.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"expected a number above 0, got {value}", where=name)
        if sum(value is not None for value in given.values()) != 1:
            raise InputError("exactly one of rho, mu, epsilon and sigma says how much noise there is")
        if sigma is not None:
            return cls(norm_budget=norm_budget, sigma=sigma)
        if epsilon is not None:
            if delta is None:
                raise InputError("a budget in ε needs its δ", where="delta")
            mu = conversions.gdp_mu(epsilon, delta)
        elif rho is not None:
            mu = math.sqrt(2 * rho)
        if not mu:
            raise InputError("no noise gives so little ε at this δ", where="epsilon")
        # What sums may pass their limit by is paid for with noise.
        return cls(norm_budget=norm_budget, sigma=up(math.sqrt(norm_budget * (1 + 2 * ROUNDING)) / mu, 8))

    @property
    def rule(self) -> Rule:
        """Who takes part: while Σ‖q‖² ≤ B."""
        return gdp_rule(sigma=self.sigma, norm_budget=self.norm_budget)

    def deviation(self, dimension: int) -> float:
        """The noise's own deviation on each number of an answer, with what its grid adds to it."""
        return grid(dimension, deviation=self.sigma, sensitivity=math.sqrt(self.norm_budget))[1]

    def width(self) -> float:
        """The grid of values, sums and noise: a power of two."""
        return grid(1, deviation=self.sigma, sensitivity=math.sqrt(self.norm_budget))[0]

    def error(self, *, dimension: int = 1, beta: float) -> float:
        """With probability 1 − β no number of an answer is further from the sum over those who take part.

        The sum is that of their values as multiples of the grid: how many people there are must not show in a number
        that is published. Never above √(B log(d/β)/κ) of Corollary 4.7 but for the noise's own rounding: the quantile
        of the largest of d Gaussians.
        """
        from scipy.special import ndtri

        if not 0 < beta < 1:
            raise InputError(f"expected a number between 0 and 1, got {beta}", where="beta")
        tail = -math.expm1(math.log1p(-beta) / dimension) / 2
        return up(self.deviation(dimension) * -float(ndtri(tail)), 16) + self.width() / 2


@dataclass(frozen=True)
class Answer:
    """A released answer, and how far it may be from the sum over the records that took part."""

    name: str
    values: tuple[float, ...]
    error: float
    beta: float


class LinearQueries:
    """Answers queries about the same people, one after the other, until everybody's budget is used up, and beyond.

    >>> from dpcalc.training.noise import SeededNoise
    >>> days = LinearQueries(Terms.of(norm_budget=2, mu=0.5), noise=SeededNoise(1))
    >>> round(days.answer("monday", [1, 0, 1, 1] * 100).values[0])
    301

    With a `state` file every answer is on the disk, and charged, before it is given; one that was given before under
    the same name is given again and costs nothing. The state is as sensitive as the data, and so is a refusal: whether
    values differ from those of before, or cannot be summed, must not reach who chooses the queries.
    """

    def __init__(self, terms: Terms, *, state: str | None = None, noise: Noise | None = None) -> None:
        self.terms, self._state = terms, state
        self._noise = SystemNoise() if noise is None else noise
        self._filter = IndividualFilter(terms.rule)
        self._names: list[str] = []
        self._given: dict[str, dict[str, Any]] = {}
        if state is not None and Path(state).exists():
            with self._held():
                pass

    @property
    def spent(self) -> dict[str, float]:
        """μ that each person has spent. SENSITIVE: for that person alone."""
        return dict(zip(self._names, self._filter.spent.tolist(), strict=True))

    @property
    def left_out(self) -> int:
        """How many were left out of a query. SENSITIVE: counted without noise."""
        return int(self._filter.lost.sum())

    @property
    def answers(self) -> dict[str, tuple[float, ...]]:
        """All answers so far, which may be published."""
        return {name: tuple(given["values"]) for name, given in self._given.items()}

    def answer(self, name: str, values: ArrayLike, *, ids: Sequence[str] | None = None, beta: float = 0.05) -> Answer:
        """Σ q(X_i) with noise: `values` has q of each person (a number, or a row), who are `ids` or come in order.

        q must depend on that person's record and on earlier answers alone.
        """
        rows = np.asarray(values, dtype=np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        people = [str(index) for index in range(len(rows))] if ids is None else [str(each) for each in ids]
        _check(rows, people)
        with self._held():
            asked = _digest(rows, people)
            given = self._given.get(name)
            if given is not None and given["asked"] != asked:
                raise InputError("was answered before for other values; give the query another name", where=name)
            if given is None:
                released = self._released(rows, self._places(people))
                given = self._given[name] = {"values": released, "asked": asked}
        bound = self.terms.error(dimension=rows.shape[1], beta=beta)
        return Answer(name, tuple(given["values"]), bound, beta)

    def _released(self, rows: Floats, who: Indices) -> list[float]:
        """Charge whom it fits, and their sum with noise."""
        terms, width = self.terms, self.terms.width()
        reach = math.sqrt(terms.norm_budget)
        if len(self._names) * (reach / width + 1) * 2 > _EXACT:
            raise InputError(f"{len(self._names):,} people are too many for exact sums at this budget")
        # A norm beyond the budget never fits, so that its multiples need not be representable either.
        rounded = np.round(np.clip(rows, -2 * reach, 2 * reach) / width)
        norms = width * np.sqrt(np.einsum("ij,ij->i", rounded, rounded))
        if rows.shape[1] > 1:  # of one number the norm is exact
            norms *= 1 + (rows.shape[1] + 8) * 2.0**-52
        active, _ = self._filter.charge(norms, who)
        sums = width * rounded[active].sum(axis=0)
        noisy = self._noise.add(sums, deviation=terms.sigma, sensitivity=reach)
        return [float(value) for value in noisy]

    def _places(self, people: Sequence[str]) -> Indices:
        known = {name: index for index, name in enumerate(self._names)}
        for person in people:
            if person not in known:
                known[person] = len(known)
        self._names = list(known)
        self._filter.grow(len(known))
        return np.array([known[person] for person in people], dtype=np.int64)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The state as it is on the disk, which nobody else changes meanwhile, and its successor after that."""
        if self._state is None:
            yield
            return
        with files.locked(self._state):
            if Path(self._state).exists():
                self._load(self._state)
            before = dict(self._given)
            try:
                yield
                if len(self._given) > len(before):
                    self._save(self._state)
            except BaseException:
                self._given = before  # what is not on the disk was not answered, though it stays charged here
                raise

    def _facts(self) -> dict[str, Any]:
        return {"format": _FORMAT, "norm_budget": self.terms.norm_budget, "sigma": self.terms.sigma}

    def _save(self, path: str) -> None:
        facts = {**self._facts(), "names": self._names, "given": self._given}
        save_sealed(path, facts, self._filter.state.to_arrays())

    def _load(self, path: str) -> None:
        facts, arrays = load_sealed(path, what="a readable state of queries")
        with files.reading(path, "not a readable state of queries"):
            for name, value in self._facts().items():
                if facts.get(name) != value:
                    words = f"belongs to {name} = {str(facts.get(name))[:40]}, not {value}: terms are fixed for ever"
                    raise InputError(words, where=path)
            names, given = list(facts["names"]), dict(facts["given"])
            given = {
                name: {"values": list(map(float, old["values"])), "asked": old["asked"]} for name, old in given.items()
            }
            check_alike(path, arrays, Totals.empty(1, len(names)).to_arrays())
            self._names, self._given = names, given
            self._filter.state = Totals.from_arrays(arrays)


def _check(rows: Floats, people: Sequence[str]) -> None:
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"expected a number or a row of numbers for each person, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError("expected finite numbers, got an infinite or missing one")
    if len(people) != len(rows):
        raise InputError(f"expected {len(rows)} ids, got {len(people)}", where="ids")
    if len(set(people)) != len(people):
        raise InputError("expected each person once", where="ids")


def _digest(rows: Floats, people: Sequence[str]) -> str:
    found = hashlib.sha256(json.dumps([*people, list(rows.shape)]).encode())
    found.update(np.ascontiguousarray(rows).tobytes())
    return found.hexdigest()
