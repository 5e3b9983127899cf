"""A histogram with discrete Gaussian noise, against enumeration of every outcome of its cells."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.mechanisms.declared import DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian
from dpcalc.mechanisms.histogram import Histogram
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.sampled import PoissonSampled


def enumerated_delta(sigma: float, moves: tuple[int, ...], epsilon: float) -> float:
    """Σ max(P(x) − e^ε Q(x), 0) over all integer vectors, cell by cell, in 30 digits; P is moved by `moves`."""
    with mpmath.workdps(30):
        reach = math.ceil(11 * sigma) + max(map(abs, moves))
        weight = {
            x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for x in range(-3 * reach, 3 * reach)
        }
        total = sum(weight[x] for x in range(-2 * reach, 2 * reach))
        factor, lost = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
        for cells in itertools.product(range(-reach, reach + 1), repeat=len(moves)):
            p = mpmath.fprod(weight[x - move] / total for x, move in zip(cells, moves, strict=True))
            q = mpmath.fprod(weight[x] / total for x in cells)
            lost += max(p - factor * q, 0)
        return float(lost)


@pytest.mark.parametrize(
    ("sigma", "cells", "sensitivity"), [(0.6, 2, 1), (1.3, 2, 1), (2.0, 2, 2), (0.7, 3, 1), (3.0, 1, 2)]
)
def test_the_interval_holds_what_enumeration_gives(sigma: float, cells: int, sensitivity: int) -> None:
    mechanism = Histogram(sigma=sigma, cells=cells, sensitivity=sensitivity)
    for epsilon in (0.0, 0.4, 1.7):
        exact = enumerated_delta(sigma, (sensitivity,) * cells, epsilon)
        found = compose([(mechanism, 1)], epsilon=epsilon)
        assert found.status == "certified"
        assert found.delta_lower <= exact * (1 + 1e-9)
        assert exact <= found.delta * (1 + 1e-12)
        assert found.delta <= exact * 1.01 + 1e-12


@pytest.mark.parametrize("moves", [(1, -1), (0, 1), (-1, 0), (-1, -1)])
def test_no_smaller_or_turned_move_is_worse(moves: tuple[int, ...]) -> None:
    bound = compose([(Histogram(sigma=1.1, cells=2), 1)], epsilon=0.8).delta
    assert enumerated_delta(1.1, moves, 0.8) <= bound


def test_two_histograms_are_four_cells() -> None:
    twice = compose([(Histogram(sigma=5, cells=2), 2)], delta=1e-6)
    cells = compose([(DiscreteGaussian(sigma=5), 4)], delta=1e-6)
    assert (twice.epsilon, twice.epsilon_lower) == (cells.epsilon, cells.epsilon_lower)
    assert twice.rho == pytest.approx(4 / 50)


def test_zcdp_and_rdp_are_those_of_the_squared_length_of_the_move() -> None:
    """Canonne, Kamath, Steinke 2020, Theorem 14: Σ move²/2σ²."""
    mechanism = Histogram(sigma=3.0, cells=5, sensitivity=2)
    assert mechanism.zcdp() == pytest.approx(5 * 4 / 18)
    assert mechanism.zcdp() >= 5 * 4 / 18
    orders = np.array([1.5, 2.0, 32.0])
    assert mechanism.rdp(orders) == pytest.approx(orders * 5 * 4 / 18)


def test_replacing_a_record_moves_twice_as_many_cells() -> None:
    replaced = Histogram(sigma=4.0).as_replace_one()
    assert replaced == Histogram(sigma=4.0, cells=2, adjacency="replace-one")


@pytest.mark.parametrize("cells", [1, 2])
def test_a_sampled_histogram_is_bracketed(cells: int) -> None:
    """δ of the mixture (1−q)Q + qP against Q, and the other way, by enumeration; several cells only from above."""
    sigma, rate, epsilon = 1.2, 0.25, 0.5
    found = compose(
        [(PoissonSampled(base=Histogram(sigma=sigma, cells=cells), sampling_rate=rate), 1)], epsilon=epsilon
    )
    # Removal: (1−q)Q + qP − e^ε Q = q(P − (1 + (e^ε − 1)/q) Q).
    exact = rate * enumerated_delta(sigma, (1,) * cells, math.log1p(math.expm1(epsilon) / rate))
    assert found.delta_lower <= exact * (1 + 1e-9) if cells == 1 else True
    assert exact <= found.delta


def test_a_spec_knows_what_replacing_means(dpcalc) -> None:
    added = dpcalc("compose", "-m", "histogram,sigma=20", "--delta", "1e-6", "-f", "json").json
    replaced = dpcalc(
        "compose", "-m", "histogram,sigma=20", "--adjacency", "replace-one", "--delta", "1e-6", "-f", "json"
    ).json
    assert added["mechanisms"][0]["cells"] == 1
    assert replaced["mechanisms"][0]["cells"] == 2
    one = dpcalc("compose", "-m", "discrete-gaussian,sigma=20,sensitivity=1", "--delta", "1e-6", "-f", "json").json
    assert added["epsilon"] == one["epsilon"]
    stated = "adjacency: add-remove\ndelta: 1e-6\nmechanisms: [{type: histogram, sigma: 20}]\n"
    converted = dpcalc("compose", "-", "--adjacency", "replace-one", "-f", "json", stdin=stated).json
    assert converted["epsilon"] == replaced["epsilon"]
    solved = dpcalc("calibrate", "-m", "histogram,sigma=solve,cells=3", "--epsilon", "1", "--delta", "1e-6", "-q")
    assert solved.out.startswith("sigma = ")


def test_the_curve_of_a_declared_bound_is_worked_out_once(monkeypatch) -> None:
    """On a random batch the cells are one release by zCDP: its pair serves every order that is tried."""
    made = []
    kept = DeclaredZCDP._profile_pair
    monkeypatch.setattr(DeclaredZCDP, "_profile_pair", lambda *args: made.append(1) or kept(*args))
    sampled = PoissonSampled(base=Histogram(sigma=37.0, cells=3), sampling_rate=0.2)
    guarantee = compose([(sampled, 5)], delta=1e-7)
    assert guarantee.epsilon > 0
    assert len(made) == 1


def test_a_fixed_order_costs_what_its_epochs_do() -> None:
    """Each record is in one batch of an epoch, so that as many cells of as many epochs are all there is."""
    base = Histogram(sigma=11.0, cells=3)
    fixed, plain = (compose([(each, 4)], delta=1e-6) for each in (OncePerEpoch(base=base), base))
    assert (fixed.epsilon_lower, fixed.epsilon) == (plain.epsilon_lower, plain.epsilon)
