"""Poisson batches and removed records: the one-sided shifts against chains whose laws are computed, both directions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dpcalc.errors import InputError
from dpcalc.last_iterate.course import with_rounding
from dpcalc.last_iterate.evaluate import best_of, bounds_of, evaluate
from dpcalc.last_iterate.setting import Setting

CELLS = 300
SLACK = 1.5e-3  # of the grid's rounding


def chain(setting: Setting, others, own, half: float, drift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Laws of the last iterate with and without the record, of `others` and `own` gradients on a line.

    Every step moves the one by `drift`/2 and the other by −`drift`/2, as rounding may.
    """
    points = np.linspace(-half, half, 2 * CELLS + 1)
    edges = np.concatenate(([-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]))
    rate, width = setting.learning_rate, setting.learning_rate * setting.sigma
    radius = half if setting.diameter is None else setting.diameter / 2

    def kernel(drawn: int, used: float, drift: float) -> np.ndarray:
        gradient = setting.strong_convexity * points + (drawn * others(points) + used * own(points)) / setting.batch
        z = (edges[None] - (points - rate * gradient + drift)[:, None]) / width
        moved = np.where(z[:, 1:] <= 0, np.diff(ndtr(z), axis=1), -np.diff(ndtr(-z), axis=1))
        low, high = np.searchsorted(points, [-radius * (1 + 1e-12), radius * (1 + 1e-12)])
        moved[:, low] += moved[:, :low].sum(axis=1)  # Π: everything beyond is put on the ends
        moved[:, high - 1] += moved[:, high:].sum(axis=1)
        moved[:, :low] = moved[:, high:] = 0
        return moved

    sizes = np.arange(setting.largest_batch)
    chances = binom.pmf(sizes, setting.dataset_size - 1, setting.sampling_rate)
    chances /= chances.sum()  # given that no batch of the others is too large
    q = setting.sampling_rate
    drawn = list(zip(sizes, chances, strict=True))
    absent = sum(chance * kernel(size, 0, -drift / 2) for size, chance in drawn)
    unused = sum(chance * kernel(size, 0, drift / 2) for size, chance in drawn)
    used = sum(chance * kernel(size, 1, drift / 2) for size, chance in drawn)
    start = np.eye(points.size)[CELLS]
    laws = start, start
    for _ in range(setting.steps):
        laws = laws[0] @ (q * used + (1 - q) * unused), laws[1] @ absent
    return laws


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def shapes(rng, smoothness: float, clip: float):
    """Clipped gradients of convex, smooth losses: slopes between 0 and M, values within ±clip."""
    slope, shift = rng.uniform(0.2, 1) * smoothness, rng.uniform(-2, 2)
    constant = float(rng.choice([-1, 1])) * clip
    return rng.choice(
        [lambda x: np.clip(slope * (x - shift), -clip, clip), lambda x: np.full_like(x, constant)],
    )


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_chain_tells_more_than_the_bound(seed: int, constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    m, data_part = (0.0 if constrained else rng.uniform(0.2, 0.8)), rng.uniform(0.3, 1.5)
    largest, batch = 5, 2
    rate = rng.uniform(0.5, 1) * 2 / (m + data_part * largest / batch)
    setting = Setting(
        algorithm="sgd",
        learning_rate=rate,
        sigma=rng.uniform(0.5, 1.5),
        sensitivity=rng.uniform(1, 3),
        dataset_size=6,
        steps=int(rng.integers(5, 30)),
        batch_size=batch,
        strong_convexity=m,
        smoothness=m + data_part,
        diameter=2.0 if constrained else None,
        adjacency="add-remove",
        largest_batch=largest,
    )
    others, own = shapes(rng, data_part, setting.sensitivity), shapes(rng, data_part, setting.sensitivity)
    laws = chain(setting, others, own, half=1.0 if constrained else 14.0)
    for delta in (0.2, 0.05, 0.01):
        for bound in bounds_of(setting, delta):
            epsilon = evaluate(setting, bound, delta=delta).guarantee.epsilon
            for p, q in (laws, laws[::-1]):
                assert hockey_stick(p, q, epsilon) <= delta + SLACK


@pytest.mark.parametrize("steps", [4, 25])
def test_runs_that_drift_apart_stay_within_the_bound_that_counts_it(steps: int) -> None:
    setting = Setting(
        algorithm="sgd", learning_rate=0.5, sigma=1.0, sensitivity=2.0, dataset_size=6, steps=steps, batch_size=2,
        strong_convexity=0.5, smoothness=1.0, adjacency="add-remove", largest_batch=3,
    )  # fmt: skip
    drift = 0.2
    laws = chain(setting, lambda x: np.clip(0.5 * x, -2, 2), lambda x: 0 * x - 2.0, half=10.0, drift=drift)
    for delta in (0.2, 0.02):
        epsilons = []
        for wobble in (0.0, drift):
            bound = with_rounding(setting, wobble, delta)
            epsilons.append(evaluate(setting, bound, delta=delta).guarantee.epsilon)
        reached = [max(hockey_stick(p, q, epsilon) for p, q in (laws, laws[::-1])) for epsilon in epsilons]
        assert reached[1] <= delta + SLACK
        assert reached[1] < reached[0]


def test_the_bound_is_not_far_from_a_chain_that_is_known() -> None:
    """A constant gradient and a regulariser: the iterate is a mixture of Gaussians, and one step is attained."""
    setting = Setting(
        algorithm="sgd", learning_rate=0.5, sigma=1.0, sensitivity=3.0, dataset_size=6, steps=1, batch_size=2,
        strong_convexity=0.5, smoothness=1.0, adjacency="add-remove", largest_batch=3,
    )  # fmt: skip
    laws = chain(setting, lambda x: 0 * x, lambda x: 0 * x + 3.0, half=8.0)
    epsilon = best_of([evaluate(setting, b, delta=0.05) for b in bounds_of(setting, 0.05)]).guarantee.epsilon
    worst = max(hockey_stick(p, q, epsilon) for p, q in (laws, laws[::-1]))
    assert worst == pytest.approx(0.05, abs=2 * SLACK)


def test_a_wrong_sensitivity_would_be_seen() -> None:
    """The chain breaks the bound for half its gradient: the comparison above can fail."""
    stated = {
        "algorithm": "sgd", "learning_rate": 0.5, "sigma": 1.0, "dataset_size": 6, "steps": 20, "batch_size": 2,
        "strong_convexity": 0.5, "smoothness": 1.0, "adjacency": "add-remove", "largest_batch": 3,
    }  # fmt: skip
    laws = chain(Setting(sensitivity=3.0, **stated), lambda x: 0 * x, lambda x: 0 * x + 3.0, half=12.0)
    half = Setting(sensitivity=1.5, **stated)
    epsilon = best_of([evaluate(half, b, delta=0.05) for b in bounds_of(half, 0.05)]).guarantee.epsilon
    assert max(hockey_stick(p, q, epsilon) for p, q in (laws, laws[::-1])) > 0.05 + 10 * SLACK


def test_full_batches_lose_half_under_add_remove() -> None:
    common = {
        "learning_rate": 0.1,
        "sigma": 1.0,
        "dataset_size": 50,
        "steps": 40,
        "strong_convexity": 0.2,
        "smoothness": 4.0,
        "algorithm": "gd",
    }
    replaced = bounds_of(Setting(sensitivity=2.0, **common), 1e-5)
    removed = bounds_of(Setting(sensitivity=1.0, adjacency="add-remove", **common), 1e-5)
    assert [b.mu for b in removed] == pytest.approx([b.mu / 2 for b in replaced])


def test_steps_that_large_batches_may_expand_are_refused() -> None:
    """η = 0.5 contracts for batches of b = 100 with M = 3, and not for 182 of them."""
    common = {
        "algorithm": "sgd",
        "sigma": 1.0,
        "sensitivity": 1.0,
        "dataset_size": 10_000,
        "steps": 9,
        "batch_size": 100,
    }
    convex = {"strong_convexity": 0.1, "smoothness": 3.0}
    Setting(learning_rate=0.5, **common, **convex)
    with pytest.raises(InputError, match="batch of 182"):
        Setting(learning_rate=0.5, adjacency="add-remove", largest_batch=182, **common, **convex)
    with pytest.raises(InputError, match="largest size"):
        Setting(learning_rate=0.5, adjacency="add-remove", **common, **convex)


RUN = ("sgd-bound", "--algorithm", "sgd", "--lr", "0.3", "--clip", "2", "--noise-multiplier", "3", "--batch-size", "40")
LOSSES = ("--strong-convexity", "0.1", "--smoothness", "1", "--n", "2000", "--steps", "3000", "--delta", "1e-6")


def test_the_command_pays_for_batches_that_are_too_large(dpcalc) -> None:
    found = dpcalc(*RUN, *LOSSES, "--adjacency", "add-remove", "-f", "json").json
    details = found["details"]
    largest = details["largest_batch"]
    exact = 3000 * binom.sf(largest - 1, 1999, 0.02)  # of the others
    assert exact <= details["overflow"] <= 1e-9
    assert 3000 * binom.sf(largest - 2, 1999, 0.02) > 1e-9  # and one place less would be too few
    assert (found["adjacency"], details["noise_multiplier"], found["guarantee"]) == ("add-remove", 3, "certified")
    assert any(entry.get("type") == "dp" and entry["epsilon"] == 0 for entry in found["mechanisms"])
    wide = dpcalc(*RUN, *LOSSES, "--adjacency", "add-remove", "--largest-batch", 88, "-f", "json").json
    assert wide["details"]["overflow"] >= 3000 * binom.sf(87, 1999, 0.02)


def test_the_result_of_poisson_batches_is_read_back(dpcalc, tmp_path) -> None:
    path = tmp_path / "bound.json"
    assert dpcalc(*RUN, *LOSSES, "--adjacency", "add-remove", "-f", "json", "-o", path).code == 0
    assert dpcalc("compose", path, "--delta", "1e-6").code == 0
    edited = path.read_text().replace('"adjacency": "add-remove"', '"adjacency": "replace-one"')
    path.write_text(edited)
    assert dpcalc("compose", path, "--delta", "1e-6").code == 2


def test_a_largest_batch_needs_poisson_batches(dpcalc) -> None:
    assert dpcalc(*RUN, *LOSSES, "--largest-batch", 60).code == 2


def test_a_largest_batch_that_is_surely_passed_is_named(dpcalc) -> None:
    found = dpcalc(*RUN, *LOSSES, "--adjacency", "add-remove", "--largest-batch", 35)
    assert (found.code, "largest-batch" in found.err) == (2, True)
