"""Poisson batches of which at most so many records are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.sampled import PoissonSampled, sampled
from dpcalc.mechanisms.validation import expect_whole
from dpcalc.pairs.base import Pair, Runs
from dpcalc.pairs.blended import BlendedPair
from dpcalc.pairs.moments import ROUNDING
from dpcalc.pairs.profile import group_of_two
from dpcalc.rounding import FAINT, UNIT, down


@dataclass(frozen=True, kw_only=True)
class TruncatedPoisson(PoissonSampled):
    """The base on a Poisson batch, of which `largest_batch` records are kept, uniformly, if it is larger.

    Let N of the other records be sampled, τ = P(N ≥ B). If N < B the record is simply added; otherwise it is kept with
    probability at most B/(B+1) and then takes the place of another. So (1-τ)·Law(1-q+qZ) + τ·Law(1-q′+q′Z′) dominates,
    q′ = qB/(B+1), Z the ratio of the base under add-remove and Z′ under replace-one, both directions. Not attained:
    who sees outputs alone does not see N.
    """

    scheme: ClassVar[str] = "truncated-poisson"

    dataset_size: int
    largest_batch: int
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_whole("dataset_size", self.dataset_size)
        expect_whole("largest_batch", self.largest_batch)

    def _is_mixture(self) -> bool:
        return False

    @cached_property
    def overflow(self) -> tuple[float, float]:
        """Bounds on τ, for one record more and for one less than the data set has."""
        low, _ = binomial_tail(self.dataset_size - 1, self.sampling_rate, self.largest_batch)
        _, high = binomial_tail(self.dataset_size, self.sampling_rate, self.largest_batch)
        return low, high

    @cached_property
    def _one_record(self) -> tuple[Pair, Pair]:
        low, high = self.overflow
        added = sampled(self.base.pairs(), self.sampling_rate)
        if high == 0:
            return added
        replaced = sampled(self.base.replaced()[0], self._replacing)
        remove, add = (
            BlendedPair(first, second, (1 - low) * (1 + 2 * UNIT), high)
            for first, second in zip(added, replaced, strict=True)
        )
        return remove, add

    @property
    def _replacing(self) -> float:
        """q′: the probability that the record takes the place of another, from above."""
        return min(self.sampling_rate * (self.largest_batch / (self.largest_batch + 1)) * (1 + 4 * UNIT), 1.0)

    def _excess(self, orders: Floats) -> tuple[Floats, Floats] | None:
        """Those of both cases, in their shares."""
        added = super()._excess(orders)
        low, high = self.overflow
        if added is None or high == 0 or self._replacing == 1:
            return added if high == 0 else None
        replaced = self.base.as_replace_one().sampled_excess(self._replacing, orders)
        if replaced is None:
            return None
        one, other = (
            np.logaddexp(first + math.log1p(-low), second + math.log(high)) + ROUNDING * (1 - math.log(high))
            for first, second in zip(added, replaced, strict=True)
        )
        return one, other

    @property
    def _pairs(self) -> tuple[Pair, Pair]:
        if self.adjacency == "add-remove":
            return self._one_record
        pair = group_of_two(*self._one_record)
        return pair, pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Where the other records contribute nothing, a batch is told by whether it kept this one: a smaller rate."""
        return self._alone.attained_pairs()

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:
        return self._alone.attained_runs(count, order)

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:
        return self._alone.attained_last(count, order)

    @cached_property
    def _alone(self) -> PoissonSampled:
        """The record among others that contribute nothing."""
        rate = self.sampling_rate if self.overflow[1] == 0 else self._kept
        return PoissonSampled(base=self.base, sampling_rate=rate, adjacency=self.adjacency)

    @cached_property
    def _kept(self) -> float:
        """The probability that the record is in the batch and stays there, from below.

        Of M ~ Bin(n, q) records min(M, B) stay, each as likely as any other: E min(M, B)/n, and E(M; M < B) is
        nq·P(Bin(n-1, q) < B-1).
        """
        size, rate, most = self.dataset_size, self.sampling_rate, self.largest_batch
        room = 1 - binomial_tail(size - 1, rate, most - 1)[1]
        return down(rate * room + most / size * binomial_tail(size, rate, most)[0], 4)

    def _unsampled(self) -> Mechanism:
        """The worst of both cases with every record sampled."""
        return self.base if self.overflow[1] == 0 and self.adjacency == "add-remove" else self.base.as_replace_one()

    def gdp_is_exact(self) -> bool:
        return self.overflow[1] == 0 and super().gdp_is_exact()

    def theorem(self) -> str:
        words = "Poisson subsampling, of larger batches a uniform part: added, or in the place of another record"
        return words if self.adjacency == "add-remove" else f"{words}; replace-one as a group of two"

    def assumptions(self) -> tuple[str, ...]:
        kept = f"of a batch of more than {self.largest_batch} records a uniform part of {self.largest_batch} is kept"
        return (*super().assumptions(), kept, f"the data set has {self.dataset_size} records")

    def spec(self) -> Mapping[str, Any]:
        sampling = {
            "scheme": self.scheme,
            "rate": self.sampling_rate,
            "dataset_size": self.dataset_size,
            "largest_batch": self.largest_batch,
        }
        return {**self.base.spec(), "sampling": sampling}


def binomial_tail(trials: int, rate: float, least: int) -> tuple[float, float]:
    """Bounds on P(Bin(trials, rate) ≥ least): from the likeliest term of the smaller tail on, a sum of ratios."""
    if least <= 0 or trials < least:
        value = 1.0 if least <= 0 else 0.0
        return value, value
    if rate >= 1:
        return 1.0, 1.0
    if least > trials * rate:
        return _smaller_tail(trials, rate, least, 1)
    low, high = _smaller_tail(trials, rate, least - 1, -1)
    return max(math.nextafter(1 - high, 0.0), 0.0), min(math.nextafter(1 - low, 1.0), 1.0)


def _smaller_tail(trials: int, rate: float, first: int, direction: int) -> tuple[float, float]:
    """Σ of the probabilities of first, first ± 1, …, away from the mean: each less than the last by a falling ratio."""
    terms = (
        math.lgamma(trials + 1),
        -math.lgamma(first + 1),
        -math.lgamma(trials - first + 1),
        first * math.log(rate),
        (trials - first) * math.log1p(-rate),
    )
    room = trials - first if direction > 0 else first
    size = min(room, int(60 * math.sqrt(trials * rate * (1 - rate) + 1)) + 200)
    k = first + direction * np.arange(size, dtype=np.float64)
    odds = rate / (1 - rate)
    ratios = (trials - k) / (k + 1) * odds if direction > 0 else k / (trials - k + 1) / odds
    products = np.cumprod(ratios)
    total = 1 + float(products.sum())
    # What is left out is below a geometric series with the last ratio.
    last, ratio = (float(products[-1]), min(float(ratios[-1]), 1.0)) if size else (0.0, 0.0)
    rest = 0.0 if size == room else last / (1 - ratio) if ratio < 1 else math.inf
    error = 16 * UNIT * (sum(map(abs, terms)) + size + 3)
    exponent = math.fsum(terms)
    return (
        min(math.exp(exponent - error) * total, 1.0),
        min(math.exp(exponent + error) * (total + rest) + FAINT, 1.0),
    )
