"""Noisy gradient descent on batches in a fixed cyclic order (Bok et al., section 4.2), and the best shifts for it.

The record that is used last in its epoch is the worst off: any other one is followed by steps that only add noise.
"""

from __future__ import annotations

import math

import numpy as np

from dpcalc.last_iterate import gradient_descent
from dpcalc.last_iterate.bound import COMPOSITION, OPTIMAL_SHIFTS, RDP, SHIFTED, Bound
from dpcalc.last_iterate.contraction import ROUND_UP, Contraction
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.shifts import best_start

# Unrolling further back than this many epochs is not tried; Theorem 4.6 in closed form covers longer ones.
_MOST_EPOCHS = 1_000_000


def composition(setting: Setting) -> Bound:
    """μ = L√E/(bσ) for any loss (Theorem 4.4)."""
    mu = setting.step_mu * math.sqrt(setting.epochs) * ROUND_UP
    return Bound(name=COMPOSITION, theorem="Bok et al. 2024, Theorem 4.4", conditions=("any loss",), mu=mu)


def strongly_convex(setting: Setting) -> Bound:
    """μ = √(1 + c^(2l-2)·(1-c²)/(1-c^l)²·(1-c^(l(E-1)))/(1+c^(l(E-1))))·L/(bσ) (Theorem 4.5)."""
    excess = _unrolled_to_the_start(setting, setting.contraction)
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.5",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M", "b divides n"),
        mu=setting.step_mu * math.sqrt(1 + excess) * ROUND_UP,
        tau=0,
    )


def _unrolled_to_the_start(setting: Setting, contraction: Contraction) -> float:
    """Energy, in units of (L/(bσ))², of all uses but the last, shifted away over the steps up to the last use."""
    if setting.epochs == 1:
        return 0.0
    length, earlier = setting.batches, setting.epochs - 1
    distance = contraction.power(length - 1) * contraction.strided_sum(earlier, length)
    return float(distance**2 / contraction.squared_sum(length * earlier))


def constrained(setting: Setting) -> Bound | None:
    """μ = √((L/b)² + (D/η + Le/b)²/(le))/σ at the best e = E-τ in 1 … E-1 (Theorem 4.6); None for a single epoch.

    Minimised over τ, so that it holds below E = Db/(ηL) too, where the closed form of the theorem does not.
    """
    if setting.epochs == 1:
        return None
    injection, diameter = setting.injection, setting.diameter
    assert diameter is not None
    best = min(diameter / injection, float(setting.epochs - 1))
    candidates = {min(max(round_(best), 1), setting.epochs - 1) for round_ in (math.floor, math.ceil)}

    def mu(epochs: int) -> float:
        energy = injection**2 + (diameter + injection * epochs) ** 2 / (setting.batches * epochs)
        return math.sqrt(energy) / setting.noise * ROUND_UP

    value, epochs = min((mu(epochs), epochs) for epochs in candidates)
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.6",
        conditions=("convex", "M-smooth", "0 ≤ η ≤ 2/M", "projection onto a convex set of diameter D", "b divides n"),
        mu=value,
        tau=setting.epochs - epochs,
        tau_unit="epochs",
    )


def best_shifts(setting: Setting) -> Bound:
    """The optimum of Theorem C.3 over the shifts and over τ: from z_0 = 0, or from z_τ = D right after a use."""
    contraction = setting.contraction
    strong = ("m-strongly convex", "0 < η < 2/M") if contraction.gap > 0 else ("convex", "0 ≤ η ≤ 2/M")
    conditions = [*strong, "M-smooth", "b divides n"]
    first_use = math.sqrt(1 + _unrolled_to_the_start(setting, contraction)) * setting.step_mu
    value, tau = first_use, 0
    if setting.diameter is not None and setting.epochs > 1:
        conditions.append("projection onto a convex set of diameter D")
        energy, epochs = _from_diameter(setting, contraction)
        if math.sqrt(energy) / setting.noise < first_use:
            value, tau = math.sqrt(energy) / setting.noise, (setting.epochs - epochs) * setting.batches
    return Bound(
        name=OPTIMAL_SHIFTS,
        theorem="Bok et al. 2024, Theorem C.3: its optimum over all shifts",
        conditions=tuple(conditions),
        mu=value * ROUND_UP,
        tau=tau,
    )


def _from_diameter(setting: Setting, contraction: Contraction) -> tuple[float, int]:
    """The least energy from z_τ = D over starts right after a use, and the epochs e that follow the best one."""
    length, diameter = setting.batches, setting.diameter
    assert diameter is not None
    epochs = np.arange(min(setting.epochs, _MOST_EPOCHS), -1, -1.0)[1:]  # that follow each use, down to the last step
    # Everything weighed by what is left of it at the end: what is k steps before the end counts c^k.
    left, noise_left = contraction.power(length * epochs), contraction.power(2 * (length * (epochs[:-1] - 1) + 1))
    energy, start = best_start(
        np.append(noise_left * contraction.squared_sum(length), 1.0),
        setting.injection * left,
        np.append(noise_left * contraction.squared_sum(length - 1), 0.0),
        diameter * left,
    )
    return energy, int(epochs[start])


def prior_rdp(setting: Setting) -> Bound:
    """The earlier Rényi bound ρ = ½(L/(bσ))²·(1 + c^(l-2)·(1-c²)/(1-c^l)²·(1-c^(l(E-1)))) (Ye and Shokri 2022)."""
    contraction, length, earlier = setting.contraction, setting.batches, setting.epochs - 1
    excess = 0.0
    if earlier:
        per_epoch = contraction.geometric_sum(length)
        stride = contraction.strided_sum(earlier, length)
        excess = float(contraction.power(length - 2.0) * (1 + contraction.factor) * stride / per_epoch)
    return Bound(
        name=RDP,
        theorem="Ye, Shokri 2022, Theorem 3.3",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M", "b divides n"),
        rho=0.5 * setting.step_mu**2 * (1 + excess) * ROUND_UP**2,
    )


def bounds(setting: Setting) -> list[Bound]:
    """Every bound that applies to cyclic batches, composition first."""
    if setting.batches == 1:
        return gradient_descent.bounds(setting)
    found: list[Bound | None] = [composition(setting)]
    if setting.strongly_convex:
        found.append(strongly_convex(setting))
    if setting.diameter is not None:
        found.append(constrained(setting))
    if setting.strongly_convex:
        found.append(prior_rdp(setting))
    applicable = [bound for bound in found if bound is not None]
    if not setting.is_convex:
        return applicable
    best = best_shifts(setting)
    # Without a diameter the optimum is Theorem 4.5 itself, up to rounding: no need to list it twice.
    if best.mu < min(bound.mu for bound in applicable if bound.rho is None) * (1 - 1e-9):
        applicable.append(best)
    return applicable
