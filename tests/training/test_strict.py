"""What training charges is at least the exact value, without slack."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import pytest

from dpcalc.filters.rule import ROUNDING
from dpcalc.training.batches import Batches
from dpcalc.training.looks import Looks
from dpcalc.training.queries import Terms
from dpcalc.training.sums import DOUBLE, SINGLE, margin

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def test_the_margin_of_a_sum_is_rounded_up() -> None:
    chosen = random.Random(1)
    for _ in range(100):
        tile, slots, together = chosen.choice([8, 32, 128]), chosen.randint(100, 10**6), chosen.choice([1, 3])
        tiles = -(-slots // tile) + together
        parts = (2 * tile * together, tile + 1, SINGLE), (2 * slots, tiles, DOUBLE)
        exact = sum(factor * count * Fraction(unit) / (1 - count * Fraction(unit)) for factor, count, unit in parts)
        assert Fraction(margin(tile, slots, together=together)) >= exact + Fraction(1, 2**51)


def test_the_chance_that_a_batch_overflows_is_rounded_up() -> None:
    """The Chernoff bound e^{-n KL(s, q)}: the divergence cancels where the slots are few."""
    chosen = random.Random(2)
    for _ in range(200):
        records = chosen.choice([10**3, 10**6, 10**9])
        size = chosen.randint(records // 100, records // 3)
        batches = Batches(algorithm="sgd", records=records, batch_size=size, fixed_size=False)
        slots = size + int(chosen.uniform(2, 9) * size**0.5)
        n, s, q = records - 1, mpf(slots / (records - 1)), mpf(batches.sampling_rate)
        kl = s * mpmath.log(s / q) + (1 - s) * mpmath.log((1 - s) / (1 - q))
        assert mpf(batches.overflow(slots)) >= mpmath.exp(-n * kl)
    assert Batches(algorithm="sgd", records=10**6, batch_size=100, fixed_size=False).overflow(5000) > 0


def test_the_epsilon_of_above_threshold_is_rounded_up() -> None:
    for deviation in range(5, 400, 3):
        looks = Looks(deviation=float(deviation), watched=9, stop_by="above-threshold")
        *_, (mechanism, _) = looks.releases()
        assert Fraction(mechanism.epsilon) >= Fraction(2, looks.scale)


def test_noise_of_linear_queries_is_rounded_up() -> None:
    """σ² ≥ B(1 + 2u)/(2ρ), where u is what sums may pass their limit by."""
    chosen = random.Random(3)
    for _ in range(200):
        budget, rho, mu = (chosen.uniform(0.1, 5) for _ in range(3))
        needed = Fraction(budget) * (1 + 2 * Fraction(ROUNDING))
        assert Fraction(Terms.of(norm_budget=budget, rho=rho).sigma) ** 2 >= needed / (2 * Fraction(rho))
        assert Fraction(Terms.of(norm_budget=budget, mu=mu).sigma) ** 2 >= needed / Fraction(mu) ** 2


def test_the_error_of_an_answer_is_rounded_up() -> None:
    chosen = random.Random(4)
    for _ in range(100):
        terms, beta = Terms.of(norm_budget=1.0, mu=chosen.uniform(0.1, 3)), chosen.uniform(1e-3, 0.5)
        z = mpmath.sqrt(2) * mpmath.erfinv(1 - mpf(beta))
        exact = mpf(terms.deviation(1)) * z + mpf(terms.width()) / 2
        assert mpf(terms.error(beta=beta)) >= exact
