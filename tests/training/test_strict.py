"""What training charges is at least the exact value, without slack."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.filters.rule import ROUNDING
from dpcalc.training import clipping, last_iterate
from dpcalc.training.batches import Batches
from dpcalc.training.clipping import Clipping, moved, norms_within, scale_to
from dpcalc.training.looks import Looks
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import epsilon_so_far
from dpcalc.training.queries import Terms
from dpcalc.training.settings import Settings
from dpcalc.training.sums import DOUBLE, SINGLE, SlotSums, margin

mpf = mpmath.mpf
ADDED = Fraction(1, 2**50)  # a sum of two is rounded once more, which the filters' own rounding pays


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


def strategies(margin: float) -> list[Clipping]:
    return [
        clipping.build(name, clip=0.7, noise_multiplier=2.0, batch_size=100, margin=margin, parameters=10_000)
        for name in ("fixed", "quantile", "online")
    ]


def test_a_weighted_gradient_stays_within_the_clip_though_weight_and_product_are_rounded() -> None:
    """To single precision: each by 2^-24 at most."""
    norms = np.array([10 ** random.Random(k).uniform(0, 6) for k in range(200)])
    single = 1 + Fraction(1, 2**24)
    for weight, norm in zip(scale_to(norms, 0.7).astype(np.float32), norms, strict=True):
        assert Fraction(float(weight)) * Fraction(float(norm)) * single <= Fraction(0.7)
    for strategy in strategies(margin=0.01):
        for weights, limit in zip(strategy.weights(norms), (0.7, 1.0), strict=False):
            for weight, norm in zip(weights.astype(np.float32), norms, strict=True):
                assert Fraction(float(weight)) * Fraction(float(norm)) * single * Fraction(1.01) <= Fraction(limit)


def test_a_record_is_charged_its_rounded_norm_the_margin_and_the_grid_of_the_noise() -> None:
    chosen = random.Random(3)
    for norm in (chosen.uniform(1e-6, 0.5) for _ in range(200)):
        reach = (Fraction(norm) * (1 + Fraction(1, 2**24)) ** 2 + Fraction(0.01) * Fraction(0.7)) * (
            1 - Fraction(1, 2**50)
        )
        charged = float(moved(np.array([norm]), clip=0.7, beyond=0.01)[0])
        assert reach <= Fraction(charged)
        back = norms_within(np.array([charged]), clip=0.7, beyond=0.01)
        assert Fraction(float(back[0])) <= Fraction(norm) * (1 + Fraction(1, 2**50))
        assert (
            float(moved(norms_within(np.array([norm]), clip=0.7, beyond=0.01), clip=0.7, beyond=0.01)[0])
            <= norm + 1e-15
        )
    small = np.array([1e-9])
    for with_margin, without in zip(strategies(margin=0.01), strategies(margin=0.0), strict=True):
        assert with_margin.beyond >= 0.01 + 0.99 * without.beyond > 0.01
        assert with_margin.spent(small)[0] > without.spent(small)[0]


def test_batches_without_room_cost_no_less_over_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        model="logistic", algorithm="sgd", noise_multiplier=2.0, batch_size=50, feature_clip=1.0, lr=0.1
    )
    plan = Plan(settings=settings, records=1000, delta=1e-5)
    losses = last_iterate.losses_of(settings, 2)
    for steps in (3, 7, 11, 1001, 9999):
        overflow = random.Random(steps).uniform(1e-12, 1e-10)
        monkeypatch.setattr(Plan, "overflow", overflow)
        failing, _ = plan.releases(steps=steps)[-1]
        assert Fraction(failing.delta) >= steps * Fraction(overflow)
        setting = last_iterate._setting(plan, losses, steps, "add-remove")
        assert Fraction(setting.overflow) >= steps * Fraction(overflow)


def test_the_progress_of_a_run_pays_for_batches_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        model="logistic", algorithm="sgd", sampling="poisson", noise_multiplier=2.0, steps=20, batch_size=50, clip=1.0
    )
    plan = Plan(settings=settings, records=1000, delta=1e-5)
    before = epsilon_so_far(plan, float("inf"))(20)
    monkeypatch.setattr(Plan, "overflow", 0.4 * 1e-5 / 20)
    assert epsilon_so_far(plan, float("inf"))(20) > before * 1.01


def test_what_is_shown_so_far_is_of_a_mu_that_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, seen = random.Random(14), []
    monkeypatch.setattr(conversions, "gdp_epsilon", lambda mu, _: seen.append(mu) or 0.0)
    for noise in (chosen.uniform(1, 90) for _ in range(20)):
        settings = Settings(model="logistic", algorithm="gd", noise_multiplier=noise, steps=400, clip=1.0)
        plan = Plan(settings=settings, records=1000, delta=1e-5)
        single, shown = plan.releases()[0][0].gdp() or 0.0, epsilon_so_far(plan, 9.0)
        for steps in chosen.sample(range(1, 401), 10):
            shown(steps)
            assert Fraction(seen[-1]) ** 2 >= Fraction(single) ** 2 * steps


def test_the_gradient_of_a_layer_stays_within_its_clip_less_the_margin() -> None:
    sums = SlotSums.__new__(SlotSums)
    sums.margin = 0.01
    clips, energies = np.array([0.3, 0.4]), [np.array([4.0, 100.0]), np.array([0.5, 1e6])]
    for scales, energy, clip in zip(sums._scales(energies, clips), energies, clips, strict=True):
        assert np.all(scales * np.sqrt(energy) * 1.01 <= clip)
