"""The mixture of orders: how much it allows, that no adversary gains by it, and that it errs on the safe side only."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcalc.conversions.pure import pure_dp_rdp
from dpcalc.errors import InputError
from dpcalc.filters.delta_split import split_delta
from dpcalc.filters.mixture import ORDERS, Mixture, best_order, renyi_room
from dpcalc.filters.subsampled import gaussian_rdp

Curve = Callable[[np.ndarray], np.ndarray]


def laplace(epsilon: float) -> Curve:
    """Mironov (2017), Table II."""

    def rdp(alpha: np.ndarray) -> np.ndarray:
        up, down = alpha / (2 * alpha - 1), (alpha - 1) / (2 * alpha - 1)
        return np.log(up * np.exp((alpha - 1) * epsilon) + down * np.exp(-alpha * epsilon)) / (alpha - 1)

    return rdp


CURVES: dict[str, Curve] = {
    "gaussian": lambda alpha: alpha * 0.05**2 / 2,
    "poisson 1": lambda alpha: gaussian_rdp(alpha, 1.0, 0.01),
    "poisson .7": lambda alpha: gaussian_rdp(alpha, 0.7, 0.001),
    "response": lambda alpha: pure_dp_rdp(0.05, alpha),
    "laplace": laplace(0.2),
}


def steps_allowed(mixture: Mixture, curve: Curve) -> int:
    cost = curve(np.array(mixture.orders))
    low, high = 0, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if mixture.allows(cost * middle) else (low, middle)
    return low


@pytest.mark.parametrize(
    ("name", "target", "counts"),
    [
        ("gaussian", (3, 1e-5), (179, 149, 169, 170)),
        ("poisson 1", (3, 1e-5), (2195, 1651, 1917, 2040)),
        ("poisson .7", (3, 1e-5), (49_051, 27_778, 40_677, 43_247)),
        ("response", (3, 1e-5), (183, 154, 173, 174)),
        ("gaussian", (8, 1e-8), (652, 588, 630, 634)),
        ("poisson 1", (8, 1e-8), (8599, 7636, 8242, 8315)),
        ("poisson .7", (8, 1e-8), (220_068, 185_439, 210_784, 211_722)),
        ("laplace", (8, 1e-8), (50, 47, 49, 49)),
    ],
)
def test_the_numbers_of_steps_that_were_worked_out_independently(
    name: str, target: tuple[float, float], counts: tuple[int, ...]
) -> None:
    curve, orders = CURVES[name], np.array(ORDERS)
    (epsilon, delta), (single, equal, half, planned) = target, counts
    order = best_order(epsilon, delta, curve)
    assert steps_allowed(Mixture(epsilon, delta, (order,), (1.0,)), curve) == single
    assert steps_allowed(Mixture.default(epsilon, delta), curve) == equal
    best = ORDERS[int(np.argmax(renyi_room(orders, epsilon, delta) / curve(orders)))]
    assert steps_allowed(Mixture.default(epsilon, delta, best), curve) == half
    # Where the best order is flat, its last digits decide about a few steps of many thousands.
    found = steps_allowed(Mixture.default(epsilon, delta, order), curve)
    assert found == pytest.approx(planned, abs=0.5 + 2e-4 * planned)


Step = tuple[tuple[float, float], ...]


def completed(*atoms: tuple[float, float]) -> Step:
    """A step with these (P-mass, loss) and the rest of P at one loss, such that Q adds up to 1."""
    rest = 1 - math.fsum(p for p, _ in atoms)
    return (*atoms, (rest, math.log(rest) - math.log1p(-math.fsum(p * math.exp(-x) for p, x in atoms))))


def rdp(step: Step, order: float) -> float:
    """The larger Rényi divergence of both directions."""
    there = math.log(math.fsum(p * math.exp((order - 1) * x) for p, x in step)) / (order - 1)
    back = math.log(math.fsum(p * math.exp(-order * x) for p, x in step)) / (order - 1)
    return max(there, back)


def true_delta(epsilon: float, first: Step, after: dict[int, Step]) -> float:
    """δ(ε) of a run whose second step depends on the outcome of the first: all paths, one by one."""
    total = 0.0
    for place, (p, x) in enumerate(first):
        for p2, x2 in after.get(place, ((1.0, 0.0),)):
            total += p * p2 * max(0.0, -math.expm1(epsilon - x - x2))
    return total


def test_some_order_within_its_own_budget_is_unsound_and_the_mixture_refuses_it() -> None:
    epsilon, delta, orders = 6.0, 1e-6, (4.0, 60.0)
    first = completed((0.65, 0.65), (6.8e-5, 1.54))
    after = {0: completed((5.8e-6, 5.645)), 1: completed((0.8, 4.478))}
    own = renyi_room(np.array(orders), epsilon, delta)
    assert own == pytest.approx([2.144610, 5.852042], abs=1e-6)
    mixture = Mixture(epsilon, delta, orders, (0.5, 0.5))
    kept = {}
    for place, step in after.items():
        spent = np.array([rdp(first, order) + rdp(step, order) for order in orders])
        assert np.any(spent <= own)
        if mixture.allows(spent):
            kept[place] = step
    assert true_delta(epsilon, first, after) == pytest.approx(1.93356e-6, rel=1e-4)
    assert true_delta(epsilon, first, kept) <= delta


@pytest.mark.parametrize("seed", range(12))
def test_no_tree_gains_by_choosing_its_order_after_the_outcome(seed: int) -> None:
    """Second steps as large as the filter lets them be, each aimed at another order: δ stays within its budget."""
    rng = np.random.default_rng(seed)
    epsilon, delta, orders = 6.0, 1e-6, (4.0, 60.0)
    mixture = Mixture(epsilon, delta, orders, (0.5, 0.5))
    first = completed((rng.uniform(0.3, 0.8), rng.uniform(0.2, 0.8)), (10 ** rng.uniform(-5, -3), rng.uniform(1, 2)))
    after = {}
    for place in range(2):
        if rng.random() < 0.5:
            mass, loss = 10 ** rng.uniform(-7, -4), 0.0  # a rare large loss, for the small order
        else:
            mass, loss = rng.uniform(0.2, 0.9), 0.0  # a likely one, for the large order
        low, high = 0.0, 9.0
        for _ in range(60):
            loss = (low + high) / 2
            spent = np.array([rdp(first, a) + rdp(completed((mass, loss)), a) for a in orders])
            low, high = (loss, high) if mixture.allows(spent) else (low, loss)
        assert low > 0.1
        after[place] = completed((mass, low))
    assert true_delta(epsilon, first, after) <= delta


def test_what_the_steps_left_of_delta_is_not_for_the_tail() -> None:
    epsilon, delta = 6.0, 1e-6
    first, second = completed((0.001, 1.0)), completed((0.0596, 5.0168))

    def delta_of(own: float) -> float:
        return true_delta(epsilon, first, {0: second}) + 0.999 * own

    spent = np.array([rdp(first, 60.0) + rdp(second, 60.0)])
    assert Mixture(epsilon, delta, (60.0,), (1.0,)).allows(spent)
    assert delta_of(delta) == pytest.approx(1.99192e-6, rel=1e-4)
    split = split_delta(delta)
    halved = Mixture(epsilon, split.filter, (60.0,), (1.0,))
    assert not halved.allows(spent)
    low, high = 0.0, 0.0596
    for _ in range(60):
        mass = (low + high) / 2
        fits = halved.allows(np.array([rdp(first, 60.0) + rdp(completed((mass, 5.0168)), 60.0)]))
        low, high = (mass, high) if fits else (low, mass)
    second = completed((low, 5.0168))
    assert 0.99 * delta < delta_of(split.steps) <= delta


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("delta", [1e-12, 3.3e-7, 0.01, 0.7])
def test_both_parts_of_a_split_make_up_delta_and_not_more(delta: float, share: float) -> None:
    split = split_delta(delta, share)
    with mp.workdps(60):
        together = 1 - (1 - mpf(split.filter)) * (1 - mpf(split.steps))
        assert mpf(delta) * (1 - mpf("1e-14")) <= together <= mpf(delta)


def exact_least(mixture: Mixture, spent: np.ndarray, largest_loss: float) -> mpf:
    """The smallest log(left/right) over ε < ℓ ≤ largest_loss, by bisection on the slope with 50 digits."""
    total = sum(map(mpf, mixture.weights))
    points = [
        (mpf(a) - 1, mpf(w) / max(total, mpf(1)) * mpf(mixture.delta), mpf(mixture.epsilon) - mpf(r))
        for a, w, r in zip(mixture.orders, mixture.weights, spent.tolist(), strict=True)
        if math.isfinite(r)
    ]

    def left(x: mpf) -> list[mpf]:
        return [w * mp.exp(a * (x + room)) for a, w, room in points]

    low, high = mpf("1e-9"), mpf(60)
    if math.isfinite(largest_loss):
        high = min(high, mpf(largest_loss) - mpf(mixture.epsilon))
    for _ in range(120):
        x = (low + high) / 2
        terms = left(x)
        slope = sum(a * t for (a, _, _), t in zip(points, terms, strict=True)) / sum(terms) - 1 / mp.expm1(x)
        low, high = (x, high) if slope < 0 else (low, x)
    return mp.log(sum(left(high))) - mp.log(-mp.expm1(-high))


@pytest.mark.parametrize("seed", range(40))
def test_the_last_number_that_is_allowed_is_within_the_condition(seed: int) -> None:
    """Without any slack: the largest spending that passes satisfies the exact inequality, a little more does not."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    orders = tuple(sorted([*(1 + 10 ** rng.uniform(-0.5, 2.5, count - 1)), 400.0]))
    weights = rng.dirichlet(np.ones(count)) if count > 1 else np.ones(1)
    mixture = Mixture(10 ** rng.uniform(-0.5, 1.3), 10 ** rng.uniform(-9, -3), orders, tuple(weights.tolist()))
    largest = mixture.epsilon * (1 + 10 ** rng.uniform(-3, 0)) if seed % 3 == 0 else math.inf
    direction = np.sort(10 ** rng.uniform(-2, 0, count))
    if count > 2 and seed % 4 == 0:
        direction[0] = np.inf
    low, high = 0.0, 1e3 * mixture.epsilon
    for _ in range(75):
        middle = (low + high) / 2
        low, high = (middle, high) if mixture.allows(direction * middle, largest) else (low, middle)
    assert low > 0
    with mp.workdps(50):
        assert exact_least(mixture, direction * low, largest) >= 0
        assert exact_least(mixture, direction * low * (1 + 1e-8), largest) < 0


def test_weights_that_are_a_little_too_large_are_scaled_down() -> None:
    mixture = Mixture(2.0, 1e-6, (16.0, 40.0), (0.6, 0.4 + 9e-10))
    low, high = 0.0, 10.0
    for _ in range(75):
        middle = (low + high) / 2
        low, high = (middle, high) if mixture.allows(np.array([0.4, 1.0]) * middle) else (low, middle)
    with mp.workdps(50):
        assert exact_least(mixture, np.array([0.4, 1.0]) * low, math.inf) >= 0


def test_basic_composition_is_free() -> None:
    mixture = Mixture.default(1.0, 1e-6)
    cost = pure_dp_rdp(0.1, np.array(mixture.orders))
    allowed = [mixture.allows(cost * n, 0.1 * n) for n in range(1, 13)]
    assert allowed == [True] * 10 + [False] * 2
    # One step of which only RDP is known brings back every loss.
    assert not mixture.allows(cost * 10 + 1e-9)


def test_a_bounded_loss_helps_beyond_basic_composition() -> None:
    """Losses that end soon after ε: the condition ends with them."""
    mixture = Mixture(1.0, 1e-3, (8.0,), (1.0,))
    spent = renyi_room(np.array([8.0]), 1.0, 1e-3) * 1.05
    assert not mixture.allows(spent)
    assert mixture.allows(spent, 1.02)


@pytest.mark.parametrize(
    ("spent", "largest"),
    [
        ([math.nan, 0.1], math.inf),
        ([math.nan, 0.0], 0.5),
        ([0.1, 0.1], math.nan),
        ([-1.0, 0.1], 0.5),
        ([0.1, 0.1], -1.0),
        ([math.inf, math.inf], math.inf),
        ([1e300, 1e300], math.inf),
        ([1e300, math.inf], 1e300),
    ],
)
def test_what_is_not_a_bound_never_passes(spent: list[float], largest: float) -> None:
    assert not Mixture(3.0, 1e-5, (4.0, 16.0), (0.5, 0.5)).allows(np.array(spent), largest)


def test_an_order_of_which_nothing_is_known_loses_its_weight_only() -> None:
    mixture = Mixture(3.0, 1e-5, (4.0, 16.0), (0.5, 0.5))
    alone = Mixture(3.0, 0.5e-5, (16.0,), (1.0,))
    for rho in np.linspace(1.5, 3.0, 301):
        assert mixture.allows(np.array([math.inf, rho])) == alone.allows(np.array([rho]))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.02, 1e-9), (0.3, 1e-6), (0.004, 1e-8)])
def test_small_budgets_get_larger_orders(epsilon: float, delta: float) -> None:
    mixture = Mixture.default(epsilon, delta)
    order = best_order(epsilon, delta, lambda alpha: alpha)
    best = float(renyi_room(np.array([order]), epsilon, delta)[0]) / order
    cost = np.array(mixture.orders) * best
    assert mixture.allows(cost * 0.6)
    assert not mixture.allows(cost)


@pytest.mark.parametrize(
    ("orders", "weights", "words"),
    [
        ((), (), "one weight for each order"),
        ((2.0, 3.0), (1.0,), "one weight for each order"),
        ((1.0,), (1.0,), "different orders in"),
        ((2.0, 2.0), (0.5, 0.5), "different orders in"),
        ((2.0, 3.0), (0.5, 0.6), "add up to 1"),
        ((2.0, 3.0), (1.0, 0.0), "positive weights"),
        ((2.0,), (math.nan,), "positive weights"),
    ],
)
def test_mixtures_that_mean_nothing_are_refused(
    orders: tuple[float, ...], weights: tuple[float, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Mixture(1.0, 1e-5, orders, weights)
