"""An adversary that chooses each spend after seeing the outputs so far does not pass the budget's δ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcalc.ledger.opening import open_terms

RUNS = 100_000


def delta_of(losses: np.ndarray, epsilon: float) -> tuple[float, float]:
    """E_P(1 − e^{ε−L})₊ and its standard error."""
    values = np.maximum(-np.expm1(epsilon - losses), 0.0)
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def play(fits, steps: list[float], choose, seed: int) -> np.ndarray:
    """Losses under P of runs in which `choose` picks a Gaussian step (an index, or −1) from the losses so far."""
    generator = np.random.default_rng(seed)
    losses, spent = np.zeros(RUNS), np.zeros((RUNS, len(steps)), dtype=np.int64)
    for turn in range(12):
        wanted = choose(losses, spent, turn)
        for i, mu in enumerate(steps):
            asking = np.flatnonzero(wanted == i)
            counts = spent[asking].copy()
            counts[:, i] += 1
            kinds, inverse = np.unique(counts, axis=0, return_inverse=True)
            allowed = np.array([fits(kind) for kind in kinds], dtype=bool)
            going = asking[allowed[inverse.reshape(-1)]] if len(kinds) else asking
            losses[going] += mu * generator.standard_normal(len(going)) + mu * mu / 2
            spent[going, i] += 1
    return losses


def greedy(target: float):
    """Stop once enough was lost; otherwise take the largest step early and small ones to finish."""

    def choose(losses, spent, turn):
        wanted = np.where(losses > target * 0.6, 1, 0)
        wanted = np.where(spent[:, 0] >= 2, 1, wanted)
        return np.where(losses > target, -1, wanted)

    return choose


def cautious(target: float):
    """Small steps while losing, large ones as a last chance."""

    def choose(losses, spent, turn):
        wanted = np.where(turn > 7, 0, 1)
        return np.where(losses > target, -1, np.broadcast_to(wanted, losses.shape))

    return choose


@pytest.mark.parametrize("strategy", [greedy, cautious])
@pytest.mark.parametrize(("kind", "epsilon", "delta"), [("gdp", 1.0, 0.05), ("rdp", 1.5, 0.08)])
def test_spends_chosen_from_outputs_stay_within_delta(kind, epsilon, delta, strategy) -> None:
    terms = open_terms("b", epsilon=epsilon, delta=delta, filter=kind)
    steps = [0.35, 0.1]
    unit = [terms.measure.cost(((_gdp(mu), 1),)) for mu in steps]

    def fits(counts) -> bool:
        total = tuple(sum(int(n) * cost[k] for n, cost in zip(counts, unit, strict=True)) for k in range(len(unit[0])))
        return terms.fits(total)

    losses = play(fits, steps, strategy(epsilon), seed=7)
    realised, error = delta_of(losses, epsilon)
    assert realised <= delta + 4 * error
    assert realised > 0.01 * delta  # the adversary does try


def _gdp(mu: float):
    from dpcalc.mechanisms.declared import DeclaredGDP

    return DeclaredGDP(mu=mu)
