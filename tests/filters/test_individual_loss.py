"""Individual ε under Poisson sampling: never below the truth, and close to certified brackets and closed forms."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpcalc.accounting.compose import compose, upper_epsilon
from dpcalc.conversions import gdp_delta, gdp_epsilon
from dpcalc.errors import InputError
from dpcalc.filters.buckets import Buckets, distance
from dpcalc.filters.counts import LARGEST_STEPS, NormCounts
from dpcalc.filters.edge_losses import edge_losses
from dpcalc.filters.individual import fitted_mu, sampled_epsilons
from dpcalc.filters.individual_loss import individual_epsilons
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from individual import Record, alike_records, certified, counts_of, parts_of, random_record


def counts_from(norms: np.ndarray, sigma: float, rate: float, clip: float | None = 1.0) -> NormCounts:
    counts = NormCounts(Buckets(sigma=sigma, clip=clip), rate, norms.shape[1])
    counts.add(norms)
    return counts


def test_equal_norms_give_the_published_dp_sgd_number() -> None:
    """q = 256/60000, σ = 1.1, 14,063 steps, δ = 1e-5: ε = 2.38168973."""
    found = individual_epsilons(counts_from(np.ones((14_063, 1)), 1.1, 256 / 60000), 1e-5)[0]
    assert 2.38168973 <= found <= 2.38168973 * 1.01


def test_records_of_one_log_are_never_below_and_hardly_above_their_compositions() -> None:
    """45 of nine shapes, answered together: thousands in benchmarks/individual.py."""
    records = alike_records(np.random.default_rng(4000))
    found = sampled_epsilons(NormCounts.joined(map(counts_of, records)), records[0].delta)
    for record, epsilon in zip(records, found.tolist(), strict=True):
        low, high = certified(record)
        assert low <= epsilon <= 1.03 * high


@pytest.mark.parametrize("seed", range(8))
def test_random_records_are_never_below_and_hardly_above_their_composition(seed: int) -> None:
    record = random_record(np.random.default_rng(1000 + seed))
    low, high = certified(record)
    found = float(sampled_epsilons(counts_of(record), record.delta)[0])
    assert low <= found <= 1.03 * high


@pytest.mark.parametrize("seed", range(6))
def test_records_of_the_whole_range_are_never_below_and_hardly_above_their_composition(seed: int) -> None:
    """q 1e-7…1, z 0.2…20, one to a million steps, δ 1e-12…1e-3."""
    record = random_record(np.random.default_rng(3000 + seed), whole=True)
    low, high = certified(record)
    assert low <= float(sampled_epsilons(counts_of(record), record.delta)[0]) <= 1.03 * high


@pytest.mark.parametrize("short", [0.4, 0.05, 1.2e-2, 1e-3])
@pytest.mark.parametrize(
    ("rate", "noise", "norm"), [(0.35, 1.7, 0.45), (2e-3, 0.9, 1.0), (0.02, 0.6, 0.31), (1e-5, 3.0, 0.07)]
)
def test_near_the_largest_delta_one_step_is_close_to_its_closed_form(rate, noise, norm, short) -> None:
    """ε is the shortfall of δ over a slope there, so that errors of a thousandth of δ would show; and 0 beyond."""
    m = norm / noise
    largest = rate * float(distance(np.array(m)))
    delta = largest * (1 - short)
    found = individual_epsilons(counts_of(Record(rate, noise, delta, {norm: 1})), delta)[0]
    exact = math.log1p(rate * math.expm1(float(gdp_epsilon(m, delta / rate))))
    assert exact * (1 - 1e-9) <= found
    there = rate * float(gdp_delta(m, math.log1p(math.expm1(found) / rate)))
    assert found <= 1.03 * exact or there >= delta - 5e-4 * largest
    assert individual_epsilons(counts_of(Record(rate, noise, delta, {norm: 1})), largest * 1.0005)[0] == 0


@pytest.mark.parametrize("record", [Record(0.011, 1.3, 0.3, {0.9: 700}), Record(3e-3, 0.8, 0.02, {1.0: 90, 0.23: 800})])
@pytest.mark.parametrize("short", [0.3, 0.02, -2e-3])
def test_near_the_largest_delta_a_run_is_close_to_its_composition(record: Record, short: float) -> None:
    largest = compose(parts_of(record), epsilon=0.0).delta
    assert largest is not None
    near = record._replace(delta=largest * (1 - short))
    low, high = certified(near)
    assert low <= float(individual_epsilons(counts_of(near), near.delta)[0]) <= 1.03 * high


@pytest.mark.parametrize("seed", range(16))
def test_extreme_records_are_never_below_their_composition(seed: int) -> None:
    record = random_record(np.random.default_rng(2000 + seed), wide=True)
    assert certified(record)[0] <= float(sampled_epsilons(counts_of(record), record.delta)[0])


@pytest.mark.parametrize(
    "record",
    [
        Record(2e-6, 0.4, 1e-7, {1.0: 2, 0.01: 5000}),  # rare large norms
        Record(1e-3, 0.25, 1e-6, {0.8: 1}),  # one step of little noise
        Record(0.3, 2.0, 0.0299, {0.5: 1}),  # δ just below δ(0)
        Record(0.5, 0.21, 1e-5, {1.0: 3}),  # ε in the tens
        Record(0.9999, 1.5, 1e-6, {0.7: 4}),  # hardly any sampling
        Record(0.02, 3.0, 1e-4, {1e-4: 200_000}),  # below the lowest edges
    ],
    ids=lambda record: f"q {record.rate} z {record.noise}",
)
def test_adversarial_records_are_never_below_their_composition(record: Record) -> None:
    low, high = certified(record)
    found = float(sampled_epsilons(counts_of(record), record.delta)[0])
    assert low <= found
    assert found <= 1.05 * high + 1e-3


@pytest.mark.parametrize(
    "record",
    [
        Record(7e-6, 0.42, 2e-11, {0.8: 1, 0.09: 140_000}),
        Record(8e-7, 0.45, 1.5e-7, {0.45: 160_000, 1.0: 80_000, 0.25: 350_000}),
        Record(3e-7, 0.3, 4e-11, {1.0: 600_000}),
        Record(2e-5, 6.2, 3.4e-12, {0.14: 1}),
        Record(4.5e-4, 0.65, 3.2e-12, {0.61: 1, 0.18: 430}),
    ],
    ids=lambda record: f"q {record.rate} δ {record.delta}",
)
def test_rounding_does_not_add_up_over_steps_that_hardly_matter(record: Record) -> None:
    """Rare draws in up to 6e5 steps: what a step's moment errs by is relative to what it moves, not to 1."""
    low, high = certified(record)
    assert low <= float(individual_epsilons(counts_of(record), record.delta)[0]) <= 1.03 * high


@pytest.mark.parametrize(
    "record",
    [
        Record(1.4e-4, 19.5, 5.2e-9, {0.19: 1}),  # neighbouring edges differed in what counted as ∞
        Record(2.9e-3, 8.1, 3.9e-12, {0.82: 1, 0.037: 14}),  # the coin of one large norm cost more than rounding it up
        Record(1.05e-5, 0.39, 4e-6, {1.0: 1, 0.31: 2}),  # ε far below Chernoff's bound
        Record(0.0313, 10.95, 4.9e-12, {0.7476: 1, 0.137: 1}),  # two coins whose remainders cost 3 %
        Record(0.01646, 4.7276, 0.0010153, {0.66435: 1, 0.02835: 127}),  # one of them close to δ(0)
    ],
    ids=lambda record: f"q {record.rate} δ {record.delta}",
)
def test_a_few_steps_are_close_to_their_composition(record: Record) -> None:
    low, high = certified(record)
    assert low <= float(individual_epsilons(counts_of(record), record.delta)[0]) <= 1.03 * high


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize(("mu", "steps"), [(1.0, 1), (0.3, 40), (0.02, 900), (2.5, 2)])
def test_without_sampling_it_is_the_gaussian_closed_form(mu: float, steps: int, delta: float) -> None:
    found = individual_epsilons(counts_from(np.full((steps, 1), 1.0), 1 / mu, 1.0), delta)[0]
    exact = gdp_epsilon(mu * math.sqrt(steps), delta)
    assert exact <= found <= 1.03 * exact + 1e-9


def test_one_sampled_step_is_above_its_closed_form() -> None:
    """δ(ε) = qδ_μ(ε') with ε' = log(1 + (e^ε − 1)/q): amplification of one Gaussian step by sampling."""
    for rate, mu, delta in [(0.01, 1.0, 1e-5), (0.3, 0.4, 1e-4), (1e-4, 3.0, 1e-6)]:
        found = individual_epsilons(counts_from(np.ones((1, 1)), 1 / mu, rate), delta)[0]
        exact = math.log1p(rate * math.expm1(gdp_epsilon(mu, delta / rate)))
        assert exact <= found <= 1.03 * exact


def test_a_probability_below_delta_costs_nothing() -> None:
    """q·Σ(2Φ(m/2) − 1) ≤ δ: nothing is told apart beyond δ, at ε = 0; with a slightly smaller δ something is."""
    total = 1e-4 * float(distance(np.array(0.5)))
    counts = counts_from(np.full((1, 1), 0.5), 1.0, 1e-4)
    assert individual_epsilons(counts, total * 1.01)[0] == 0
    assert individual_epsilons(counts, total * 0.99)[0] > 0


def test_never_above_the_composition_of_all_steps_at_the_clip() -> None:
    norms = np.ones((300, 3))
    norms[200:, 1], norms[:, 2] = 0.0, 0.99
    found = sampled_epsilons(counts_from(norms, 0.9, 0.02), 1e-5)
    step = PoissonSampled(base=Gaussian(noise_multiplier=0.9, adjacency="add-remove"), sampling_rate=0.02)
    same = 1 + 1e-6  # its noise differs in the last digit, and with it the grids of a composition
    assert found[0] <= upper_epsilon([(step, 300)], 1e-5) * same
    assert found[1] <= upper_epsilon([(step, 200)], 1e-5) * same
    assert found[2] < found[0]


def test_counts_do_not_depend_on_blocks_or_order() -> None:
    norms = np.random.default_rng(1).uniform(0, 1.3, (5000, 7)).astype(np.float32)
    once, bit_by_bit = counts_from(norms, 2.0, 0.01), NormCounts(Buckets(sigma=2.0, clip=1.0), 0.01, 7)
    for start in range(0, 5000, 313):
        bit_by_bit.add(norms[::-1][start : start + 313])
    assert np.array_equal(once.packed, bit_by_bit.packed)
    apart = NormCounts.joined([counts_from(norms[:, :3], 2.0, 0.01), counts_from(norms[:, 3:], 2.0, 0.01)])
    assert np.array_equal(once.packed, apart.packed)
    assert once.on_edges(slice(None))[0].sum() <= 5000 * 7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_norm_is_never_rounded_down(dtype: type) -> None:
    """s(norm) is at most the counts' mean of s over the edges: the coin dominates, whatever the storage."""
    rng = np.random.default_rng(3)
    norms = (10 ** rng.uniform(-7, 0.2, 4000)).astype(dtype)
    counts = counts_from(norms[None, :], 0.7, 0.1)
    whole, _ = counts.on_edges(slice(None))
    coins = whole @ distance(counts.buckets.edges)
    exact = distance(np.minimum(norms.astype(np.float64), 1.0) / 0.7)
    assert np.all(coins >= exact * (1 - 1e-12))
    large = norms > 1e-3
    assert np.all(coins[large] <= exact[large] * 1.01)


def test_norms_without_a_clip_or_far_beyond_the_noise_are_bounded_too() -> None:
    norms = np.array([[0.5, 7.9, 9.0, 3e30, 0.0, 5e-324]])
    found = individual_epsilons(counts_from(norms, 1.0, 1e-3, clip=None), 1e-5)
    step = PoissonSampled(base=Gaussian(noise_multiplier=2.0, adjacency="add-remove"), sampling_rate=1e-3)
    assert (compose([(step, 1)], delta=1e-5).epsilon_lower or 0) <= found[0] < 1
    assert found[0] < found[1] < found[2] <= found[3] == math.inf
    assert found[4] == found[5] == 0
    # Told apart with probability q at most.
    assert individual_epsilons(counts_from(norms, 1.0, 1e-3, clip=None), 2e-3).max() == 0


def test_the_finite_pairs_dominate_the_step_in_both_directions() -> None:
    """H of the atoms is at least H of the step at every t, where the step's is a Black–Scholes call."""
    from scipy.special import ndtr

    strikes = np.array([0.01, 0.3, 0.9, 1.0, 1.003, 1.2, 3.0, 40.0])
    for rate in (1e-5, 0.01, 0.6, 1.0):
        edges = np.array([1e-3, 0.05, 0.7, 3.0])
        pairs = edge_losses(edges, rate, 1e-9)
        above = np.expm1(pairs.losses) - rate * (strikes[:, None] - 1)
        for row, m in enumerate(edges):
            d = m / 2 - np.log(strikes) / m
            call, put = ndtr(d) - strikes * ndtr(d - m), strikes * ndtr(m - d) - ndtr(-d)
            remove = np.maximum(above, 0) @ pairs.masses[row] + pairs.infinite[row]
            lowest = rate * strikes + (1 - rate)
            add = np.maximum(-above, 0) @ pairs.masses[row] + pairs.infinite_add[row] * lowest
            assert np.all(remove >= rate * call * (1 - 1e-12) - 1e-16 * rate)
            assert np.all(add >= rate * put * (1 - 1e-12) - 1e-16 * rate)
            assert remove == pytest.approx(rate * call, rel=0.01, abs=1e-3 * rate * m)
            assert add == pytest.approx(rate * put, rel=0.01, abs=1e-3 * rate * m)


def test_nobody_who_never_took_part_has_lost_anything() -> None:
    assert individual_epsilons(counts_from(np.zeros((5, 2)), 1.0, 0.1), 1e-5).tolist() == [0, 0]
    assert individual_epsilons(NormCounts(Buckets(sigma=1.0, clip=1.0), 0.1, 0), 1e-5).tolist() == []


def test_nonsense_is_refused() -> None:
    counts = counts_from(np.ones((1, 1)), 1.0, 0.1)
    for delta in (0.0, 1.0, math.nan, -1e-5):
        with pytest.raises(InputError, match="delta"):
            individual_epsilons(counts, delta)
    for rate in (0.0, 1.2, math.nan):
        with pytest.raises(InputError, match="sampling rate"):
            NormCounts(Buckets(sigma=1.0), rate)
    for sigma, clip in [(0.0, 1.0), (math.nan, 1.0), (1.0, math.nan), (1.0, 0.0), (math.inf, 1.0)]:
        with pytest.raises(InputError, match=r"sigma|clip"):
            Buckets(sigma=sigma, clip=clip)
    with pytest.raises(InputError, match="norms"):
        counts.repeat(np.array([math.nan]), 1)
    with pytest.raises(InputError, match="steps"):
        counts.repeat(np.array([1.0]), LARGEST_STEPS)


def test_sixteen_million_steps_are_counted() -> None:
    counts = NormCounts(Buckets(sigma=20.0, clip=1.0), 1e-5, 1)
    counts.repeat(np.array([1.0]), LARGEST_STEPS)
    assert counts.on_edges(slice(None))[0].sum() == LARGEST_STEPS
    low, high = certified(Record(1e-5, 20.0, 1e-6, {1.0: LARGEST_STEPS}))
    assert low <= individual_epsilons(counts, 1e-6)[0] <= 1.03 * high


def test_the_fitted_curve_is_above_the_records_own_where_it_says_so() -> None:
    counts = counts_from(np.full((2000, 1), 1.0), 1.5, 0.01)
    fitted = fitted_mu(counts, 1e-5)
    for delta in np.geomspace(fitted.delta_low, fitted.delta_high, 6):
        epsilon = sampled_epsilons(counts, float(delta))[0]
        assert epsilon == 0 or gdp_delta(fitted.mu[0] * (1 + 2e-3), epsilon) >= delta


def test_a_few_steps_beside_many_small_ones_are_within_three_per_cent() -> None:
    """Four steps' transform is far below its own rounding where that of noise alone is not: its size is enough."""
    few, many = Record(0.065, 12.7, 2.3e-11, {1.0: 4}), Record(0.065, 12.7, 2.3e-11, {0.0015: 400_000})
    found = float(individual_epsilons(NormCounts.joined(map(counts_of, (few, many))), few.delta)[0])
    low, high = certified(few)
    assert low <= found <= 1.03 * high


def test_nobody_of_many_is_above_its_own_number_of_steps_at_the_clip() -> None:
    """Twelve numbers of steps, more than are composed for everybody: each has its own ceiling, as some are at it."""
    numbers = [3, 4, 6, 9, 13, 20, 31, 47, 70, 105, 160, 240]
    norms = (np.arange(max(numbers))[:, None] < np.array(numbers)).astype(np.float64)
    found = sampled_epsilons(counts_from(norms, 1.3, 0.02), 1e-6)
    step = PoissonSampled(
        base=Gaussian(noise_multiplier=1.3 * (1 - 2.0**-50), adjacency="add-remove"), sampling_rate=0.02
    )
    for number, epsilon in zip(numbers, found.tolist(), strict=True):
        assert epsilon <= upper_epsilon([(step, number)], 1e-6)
