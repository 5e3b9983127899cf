"""The referee on random allocation, truncated batches and declared divergences among others."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import pytest

pytest.importorskip("flint")

from flint import arb, ctx

from dpcalc.accounting.compose import compose
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.histogram import Histogram
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.mechanisms.staircase import Staircase
from dpcalc.mechanisms.truncated import TruncatedPoisson
from dpcalc.referee import laws, samplers, sums
from dpcalc.referee.bases import base_of
from dpcalc.referee.check import checked


def result(parts: list[Any], delta: float, *, factor: float = 1.0) -> dict[str, Any]:
    found = compose(parts, delta=delta)
    assert found.epsilon is not None
    return {
        "schema": "dpcalc/1",
        "guarantee": "certified",
        "adjacency": found.adjacency,
        "epsilon": factor * found.epsilon,
        "delta": delta,
        "question": {"delta": delta},
        "epsilon_lower": None if found.epsilon_lower is None or factor != 1 else found.epsilon_lower,
        "mechanisms": list(found.mechanisms),
    }


GAUSSIAN = Gaussian(noise_multiplier=2.0)
NOISES = (
    GAUSSIAN,
    Laplace(scale=1.0, sensitivity=1.0),
    DiscreteGaussian(sigma=1.2, sensitivity=1),
    DiscreteLaplace(scale=1.5, sensitivity=2),
    DeclaredGDP(mu=0.5),
    RandomizedResponse(epsilon=1.0),
)
DESCRIBED = (
    Exponential(epsilon=1.0),
    Staircase(epsilon=1.0),
    Histogram(sigma=8.0, cells=2),
    DeclaredDP(epsilon=0.5, delta=1e-4),
)
CASES: dict[str, tuple[list[Any], float]] = {
    "gaussian": ([(RandomlyAllocated(base=GAUSSIAN, steps=12), 2)], 1e-3),
    "laplace": ([(RandomlyAllocated(base=Laplace(scale=1.0, sensitivity=1.0), steps=12), 1)], 1e-3),
    "coins": ([(RandomlyAllocated(base=RandomizedResponse(epsilon=1.0), steps=6), 1)], 1e-2),
    "replaced": ([(RandomlyAllocated(base=GAUSSIAN, steps=4, adjacency="replace-one"), 1)], 1e-2),
    "several": ([(RandomlyAllocated(base=GAUSSIAN, steps=7, selected=2), 1)], 1e-3),
    "all": ([(RandomlyAllocated(base=GAUSSIAN, steps=3, selected=3), 2)], 1e-4),
    "truncated": (
        [(TruncatedPoisson(base=GAUSSIAN, sampling_rate=0.1, dataset_size=200, largest_batch=24), 10)],
        1e-4,
    ),
    **{
        f"turned {base.type}": ([(PoissonSampled(base=base, sampling_rate=0.3, adjacency="replace-one"), 2)], 1e-3)
        for base in (
            GAUSSIAN,
            Laplace(scale=1.0, sensitivity=1.0),
            DiscreteGaussian(sigma=2.0, sensitivity=2),
            DiscreteLaplace(scale=1.5, sensitivity=2),
        )
    },
    **{
        f"fixed-size {base.type}": ([(FixedSizeSampled(base=base, sampling_rate=0.2), 2)], 1e-2)
        for base in (*NOISES, *DESCRIBED)
    },
    **{
        f"truncated {base.type}": (
            [(TruncatedPoisson(base=base, sampling_rate=0.2, dataset_size=40, largest_batch=10), 2)],
            1e-2,
        )
        for base in (*NOISES[1:], *DESCRIBED)
    },
    "truncated and replaced": (
        [
            (
                TruncatedPoisson(
                    base=GAUSSIAN, sampling_rate=0.2, dataset_size=40, largest_batch=10, adjacency="replace-one"
                ),
                1,
            )
        ],
        1e-2,
    ),
    "sampled histogram": ([(PoissonSampled(base=Histogram(sigma=2.0, cells=3), sampling_rate=0.1), 1)], 1e-3),
    "sampled zcdp": ([(PoissonSampled(base=DeclaredZCDP(rho=0.01), sampling_rate=0.05), 1)], 1e-6),
    "declared": ([(DeclaredZCDP(rho=0.02), 2), (Laplace(scale=4.0, sensitivity=1.0), 2)], 1e-3),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_answered_is_confirmed(name: str) -> None:
    assert checked(result(*CASES[name]), 0.4).verdict == "confirmed"


@pytest.mark.parametrize(
    "name",
    [
        *("gaussian", "laplace", "coins", "all"),
        *(name for name in CASES if "turned" in name),
        *(f"fixed-size {base.type}" for base in NOISES),
    ],
)
def test_a_twentieth_less_is_contradicted(name: str) -> None:
    assert checked(result(*CASES[name], factor=0.95), 0.4).verdict == "contradicted"


def test_a_sampled_gaussian_contradicts_what_is_stated_of_sampled_zcdp() -> None:
    found = checked(result([(PoissonSampled(base=DeclaredZCDP(rho=0.01), sampling_rate=0.05), 3)], 1e-6, factor=0.8), 2)
    assert found.verdict == "contradicted"


@pytest.mark.parametrize("factor", [1.0, 0.995])
def test_ratios_of_any_size_are_on_nested_grids(factor: float) -> None:
    """Noise of .3: ratios up to e^24, where a uniform grid would have 10⁹ points."""
    found = checked(result([(RandomlyAllocated(base=Gaussian(noise_multiplier=0.3), steps=4), 1)], 1e-5, factor=factor))
    assert found.verdict == ("confirmed" if factor == 1 else "contradicted")


@pytest.mark.parametrize("size", [16, 64])
def test_means_of_few_outcomes_are_bracketed_by_every_outcome(size: int) -> None:
    """Three answers of each of five steps, of ratios e^5, 1 and e^-5: all 3⁵ outcomes, one of five steps under P."""
    ctx.prec = 128
    law = laws.answers(arb("0.98"), 4)
    (_, p0, q0), (_, p1, q1), (_, p2, q2) = (tuple(float(each) for each in atom) for atom in law.atoms)
    p, q = (p0, p1, p2), (q0, q1, q2)
    means = sums.mean_of(law, 5, 1e-6, size)
    assert means is not None
    for epsilon in (0.0, 0.7, 1.9, 3.0):
        remove = add = 0.0
        for outcome in itertools.product(range(3), repeat=5):
            under_q = math.prod(q[each] for each in outcome)
            under_p = under_q * sum(p[each] / q[each] for each in outcome) / 5
            remove += max(under_p - math.exp(epsilon) * under_q, 0)
            add += max(under_q - math.exp(epsilon) * under_p, 0)
        for exact, turn in ((remove, lambda each: each), (add, laws.exchanged)):
            above, below = (float(laws.profile(turn(each), arb(epsilon))) for each in means)
            assert below - 1e-12 <= exact <= above + 1e-12
            assert size < 64 or above - below < 0.02


def test_profiles_at_many_losses_are_those_at_each() -> None:
    """Of a law with atoms, some of them at these losses, and a part without."""
    ctx.prec = 128
    law = laws.mixed(laws.laplace(arb(1) / 2), arb(1) / 3)
    losses = sorted([*(arb(k) / 16 for k in range(-20, 21)), *(atom[0] for atom in law.atoms)], key=float)
    for found, loss in zip(laws.profiles(law, losses), losses, strict=True):
        one = laws.profile(law, loss)
        assert found.overlaps(one)
        assert found.rad() < 1e-30
    several = laws.Law(atoms=tuple(atom for law in (laws.answers(arb("0.9"), 3), law) for atom in law.atoms))
    for found, loss in zip(laws.profiles(several, losses), losses, strict=True):
        assert found.overlaps(laws.profile(several, loss))


def test_names_of_sums_are_the_same_under_both_measures() -> None:
    """P-masses of names, one step under P by turns, add up to 1, and no event tells more than all outcomes do."""
    ctx.prec = 128
    law = laws.gaussian(arb(2))
    means = sums.mean_of(law, 7, 1e-6, 64)
    assert means is not None
    above, below = means
    for masses in zip(*((p, q) for _, p, q in below.atoms), strict=True):
        assert 1 - 1e-5 < float(sum(masses, arb(0))) <= 1 + 1e-12
    for k in range(-8, 9):
        assert laws.profile(below, arb(k) / 2) <= laws.profile(above, arb(k) / 2)


def test_an_overflow_is_a_binomial_tail() -> None:
    ctx.prec = 200
    with mpmath.workdps(40):
        rate = mpmath.mpf(0.1)
        exact = sum(mpmath.binomial(50, k) * rate**k * (1 - rate) ** (50 - k) for k in range(9, 51))
        found = samplers.overflow(50, arb(0.1), 9)
        assert abs(mpmath.mpf(str(found.mid().str(40, radius=False))) - exact) < mpmath.mpf(10) ** -35


def test_two_links_are_geometric_noise_moved_by_two() -> None:
    """Noise of ratio e^-ε on the integers: half-lines attain what ε-DP allows at each of two steps."""
    ctx.prec = 200
    with mpmath.workdps(40):
        ratio = mpmath.exp(-mpmath.mpf(0.75))
        unit = (1 - ratio) / (1 + ratio)
        p = {x: unit * ratio ** abs(x) for x in range(-300, 301)}
        for epsilon in (0.0, 0.3, 0.9, 1.4):
            exact = sum(max(p[x] - mpmath.exp(epsilon) * p[x + 2], 0) for x in range(-298, 299))
            found = laws.profile(laws.two_links(arb(0.75)), arb(epsilon))
            assert abs(mpmath.mpf(str(found.mid().str(40, radius=False))) - exact) < mpmath.mpf(10) ** -35


def test_a_histogram_is_the_product_of_its_cells() -> None:
    """All places of two cells one by one, against the law of their sum."""
    ctx.prec = 160
    base = base_of({"type": "histogram", "sigma": 1.5, "cells": 2, "sensitivity": 1})
    assert base is not None
    assert base.law is not None
    with mpmath.workdps(40):
        weights = {x: mpmath.exp(-(mpmath.mpf(x) ** 2) / 4.5) for x in range(-40, 41)}
        norm = sum(weights.values())
        mass = {x: weight / norm for x, weight in weights.items()}
        inside = range(-39, 40)
        exact = sum(
            max(mass[x] * mass[y] - mpmath.exp(0.4) * mass[x + 1] * mass[y + 1], 0) for x in inside for y in inside
        )
        found = laws.profile(base.law, arb(0.4))
        assert abs(mpmath.mpf(str(found.mid().str(40, radius=False))) - exact) < mpmath.mpf(10) ** -30
