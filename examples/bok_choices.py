"""Bok et al., Theorem C.13 and Propositions C.14 and C.15: how many steps to unroll for random batches.

    python examples/bok_choices.py [--delta 1e-5]

Theorems 4.9 and 4.10 hold for any number r = t - τ of unrolled steps and any split of the noise. The paper chooses r by
the central limit theorem and splits it evenly; dpcalc searches both by Rényi divergences. Any choice is valid, so both
are certified here, and the smaller ε wins. The first table shows which steps' shifts Theorem C.13 should spend: the
last ones, as in Theorem 4.9, leave the least distance z.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from tables import header, row

from dpcalc.last_iterate import stochastic
from dpcalc.last_iterate.bound import Bound, Subsampled
from dpcalc.last_iterate.evaluate import evaluate
from dpcalc.last_iterate.setting import Setting

# The logistic regression of §4.4, and a corner of Figure 10 (σ = 3, D = 1).
LOGISTIC = {"learning_rate": 0.05, "sigma": 0.01, "sensitivity": 10.0, "dataset_size": 60_000, "batch_size": 1500}
SMOOTHNESS = 32.5


def bracket(mu: float) -> float:
    """e^{μ²}Φ(1.5μ) + 3Φ(-0.5μ) - 2, from the central limit of C_p(G(μ)): (14) and (15) have μ = 2L/(bσ), 2√2L/(bσ)."""
    return stochastic.central_limit_mu(mu, 1.0, 1) ** 2 / 2


def strongly_convex_choice(setting: Setting) -> tuple[float, float]:
    """Proposition C.14: r, and the approximate μ of (14)."""
    mu, rate, c = setting.step_mu, setting.sampling_rate, setting.contraction.power(1)
    inside = rate * (1 - c) / (2 * math.sqrt(2) * mu * math.sqrt(math.log(1 / c))) * math.sqrt(bracket(2 * mu))
    steps = -math.log(inside) / math.log(1 / c) - 1
    return steps, strongly_convex_mu(setting, steps)


def strongly_convex_mu(setting: Setting, steps: float) -> float:
    mu, rate, c = setting.step_mu, setting.sampling_rate, setting.contraction.power(1)
    older = mu * c ** (steps + 1) / (1 - c)
    return math.sqrt(8 * older**2 + 2 * rate**2 * steps * bracket(2 * mu))


def constrained_choice(setting: Setting) -> tuple[float, float]:
    """Proposition C.15: r, and the approximate μ of (15)."""
    root = math.sqrt(bracket(2 * math.sqrt(2) * setting.step_mu))
    steps = setting.diameter / (setting.sampling_rate * setting.noise * root)
    return steps, constrained_mu(setting, steps)


def constrained_mu(setting: Setting, steps: float) -> float:
    reach, inside = setting.diameter / setting.noise, bracket(2 * math.sqrt(2) * setting.step_mu)
    return math.sqrt(2 * reach**2 / steps + 2 * setting.sampling_rate**2 * steps * inside)


def bound_at(setting: Setting, steps: int) -> Bound:
    """Theorem 4.9 or 4.10 with so many unrolled steps and the noise split evenly, as printed."""
    mu, root = setting.step_mu, math.sqrt(2)
    if setting.diameter is not None:
        parts, gaussian = (Subsampled(mu=2 * root * mu, count=steps),), root * setting.diameter / setting.noise
        return Bound(name="", theorem="4.10", conditions=(), mu=gaussian / math.sqrt(steps), subsampled=parts)
    c = setting.contraction
    older = c.power(steps + 1) * c.geometric_sum(setting.steps - 1 - steps)
    parts = (Subsampled(mu=2 * root * mu, count=1), Subsampled(mu=2 * mu, count=steps))
    return Bound(name="", theorem="4.9", conditions=(), mu=2 * root * mu * float(older), subsampled=parts)


def epsilon(setting: Setting, bound: Bound, delta: float) -> float:
    return float(evaluate(setting, bound, delta=delta).guarantee.epsilon or math.inf)


def where_to_shift(setting: Setting, spent: int) -> dict[str, float]:
    """z_{t-1} of Theorem C.13, in units of ηL/b, if `spent` of its t - 1 shifts are full and the others 0."""
    c, steps = setting.contraction.power(1), setting.steps
    weights = c ** (steps - 1 - np.arange(1, steps))  # of a_1, …, a_{t-1}
    chosen = {
        "the last": weights[-spent:],
        "the first": weights[:spent],
        "spread": weights[:: max(1, len(weights) // spent)],
    }
    return {name: float((1 - c ** (steps - 1)) / (1 - c) - some[:spent].sum()) for name, some in chosen.items()}


def settings() -> list[tuple[str, Setting]]:
    found = [
        (
            f"logistic, λ = {m}, E = {epochs}",
            Setting(algorithm="sgd", steps=40 * epochs, strong_convexity=m, smoothness=SMOOTHNESS + m, **LOGISTIC),
        )
        for m in (0.002, 0.004, 0.2)
        for epochs in (50, 200)
    ]
    for rate, over_b, eta in ((0.0025, 0.5, 0.2), (0.01, 0.5, 0.1), (0.01, 1.0, 0.2)):
        records = round(1 / rate)
        setting = Setting(
            algorithm="sgd", steps=20_000, learning_rate=eta, sigma=3.0, sensitivity=over_b, dataset_size=records,
            batch_size=1, diameter=1.0, smoothness=1.0,
        )  # fmt: skip
        found.append((f"b/n = {rate}, L/b = {over_b}, η = {eta}", setting))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delta", type=float, default=1e-5)
    delta = parser.parse_args().delta
    first = settings()[4][1]
    print(f"z of Theorem C.13 with 500 of {first.steps - 1} shifts spent, c = {first.contraction.power(1):.4f}\n")
    print(header("which shifts", "z over ηL/b"))
    for name, distance in where_to_shift(first, 500).items():
        print(row(name, f"{distance:.3f}"))
    print(f"\nSteps to unroll; certified ε at δ = {delta:g}\n")
    columns = ("setting", "composition", "r of C.14 or C.15", "its μ by (14) or (15)", "ε, paper's choice")
    print(header(*columns, "our r", "ε, our choice", "difference", "one-sided (ours)"))
    for name, setting in settings():
        choose = strongly_convex_choice if setting.diameter is None else constrained_choice
        steps, mu = choose(setting)
        whole = min(max(round(steps), 1), setting.steps - 1)
        theirs = epsilon(setting, bound_at(setting, whole), delta)
        search = stochastic.strongly_convex if setting.diameter is None else stochastic.constrained
        found = search(setting, delta)
        ours = epsilon(setting, found, delta)
        composed, sided = (
            epsilon(setting, each(setting), delta)
            for each in (stochastic.composition, lambda s: stochastic.one_sided(s, delta))
        )
        capped = f"{whole:,}" if whole == round(steps) else f"{steps:,.0f}, there are {setting.steps:,}"
        print(
            row(
                name, f"{composed:.4f}", capped, f"{mu:.4f}", f"{theirs:.4f}", f"{setting.steps - (found.tau or 0):,}",
                f"{ours:.4f}", f"{ours - theirs:+.4f}", f"{sided:.4f}",
            ),
            flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
