"""The exponential mechanism π ∝ e^{-F} and the Langevin chains that sample from it (Bok et al., section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcalc.errors import InputError
from dpcalc.last_iterate import gradient_descent
from dpcalc.last_iterate.bound import Bound
from dpcalc.last_iterate.contraction import ROUND_UP, Contraction
from dpcalc.last_iterate.setting import Setting
from dpcalc.rounding import up

GDP = "gdp"
GDP_BOUNDED = "gdp-bounded"  # from the diameter, where strong convexity gives a bound too
BOUNDED_RANGE = "bounded-range"
CLASSICAL = "classical"


@dataclass(frozen=True, kw_only=True)
class Langevin:
    """X ← Π_K[X - η∇F(X) + √(2η) N(0, I)]; without `steps` its stationary distribution."""

    learning_rate: float
    smoothness: float
    steps: int | None = None


def strongly_log_concave(*, lipschitz: float, strong_convexity: float) -> Bound:
    """μ = L/√m for F, F′ m-strongly convex and F - F′ L-Lipschitz (Corollary 5.2); attained by Gaussians."""
    return Bound(
        name=GDP,
        theorem="Bok et al. 2024, Corollary 5.2: by Gopi, Lee, Liu 2022, Theorem 4",
        conditions=(f"F and F′ of neighbours are {strong_convexity:g}-strongly convex, {_difference(lipschitz)}",),
        mu=up(lipschitz / math.sqrt(strong_convexity)),
        optimal=True,
    )


def strongly_log_concave_langevin(*, lipschitz: float, strong_convexity: float, chain: Langevin) -> Bound:
    """Theorem 4.2 with n = 1 and σ = √(2/η); √((2-ηm)/2)·L/√m for the stationary law when η ≤ 2/(M+m)."""
    _check_smoothness(strong_convexity, chain.smoothness)
    rate = chain.learning_rate
    if not rate < 2 / chain.smoothness:
        raise InputError(
            f"η < 2/M is needed (Bok et al., Theorem 4.2), got η = {rate:g} and 2/M = {2 / chain.smoothness:g}"
        )
    contraction = Contraction.of_gradient_step(
        learning_rate=rate, strong_convexity=strong_convexity, smoothness=chain.smoothness
    )
    if contraction.gap == 0:
        raise InputError(f"a step does not contract to working precision, got ηm = {rate * strong_convexity:g}")
    if chain.steps is None:
        ratio = math.sqrt((1 + contraction.factor) / contraction.gap)
    else:
        sums = contraction.geometric_sum(chain.steps), contraction.squared_sum(chain.steps)
        ratio = float(sums[0]) / math.sqrt(float(sums[1]))
    tight = rate * (chain.smoothness + strong_convexity) <= 2
    return Bound(
        name=GDP,
        theorem=f"Bok et al. 2024, {'Corollary 5.2' if chain.steps is None else 'Proposition 5.1 with Theorem 4.2'}",
        conditions=(
            f"F and F′ of neighbours are {strong_convexity:g}-strongly convex and {chain.smoothness:g}-smooth, "
            f"{_difference(lipschitz)}",
            f"η < 2/M = {2 / chain.smoothness:.4g}, and the start is the same for both",
        ),
        mu=ratio * lipschitz * math.sqrt(rate / 2) * ROUND_UP,
        optimal=tight,
    )


def log_concave(*, lipschitz: float, diameter: float) -> Bound:
    """μ = 2√(LD) on a convex body of diameter D (Corollary 5.4)."""
    return Bound(
        name=GDP,
        theorem="Bok et al. 2024, Corollary 5.4",
        conditions=(_each(lipschitz), f"the domain is a convex body of diameter {diameter:g} that holds a unit ball"),
        mu=up(2 * math.sqrt(lipschitz * diameter)),
    )


def log_concave_langevin(*, lipschitz: float, diameter: float, chain: Langevin) -> Bound:
    """√(4LD + 2ηL²) for the stationary law of projected Langevin (Corollary 5.4); Theorem 4.3 after t steps."""
    rate = chain.learning_rate
    if not rate <= 2 / chain.smoothness:
        raise InputError(
            f"η ≤ 2/M is needed (Bok et al., Corollary 5.4), got η = {rate:g} and 2/M = {2 / chain.smoothness:g}"
        )
    conditions = (
        f"{_each(lipschitz)} and {chain.smoothness:g}-smooth; η ≤ 2/M = {2 / chain.smoothness:.4g}",
        f"every step is projected onto a convex body of diameter {diameter:g}",
    )
    stationary = math.sqrt(4 * lipschitz * diameter + 2 * rate * lipschitz**2) * ROUND_UP
    if chain.steps is None:
        return Bound(name=GDP, theorem="Bok et al. 2024, Corollary 5.4", conditions=conditions, mu=stationary)
    setting = Setting(
        algorithm="gd",
        learning_rate=rate,
        sigma=math.sqrt(2 / rate),
        sensitivity=2 * lipschitz,
        dataset_size=1,
        steps=chain.steps,
        smoothness=chain.smoothness,
        diameter=diameter,
    )
    best = min(
        (gradient_descent.composition(setting), gradient_descent.constrained(setting)), key=lambda bound: bound.mu
    )
    theorem = f"{best.theorem} with n = 1 and σ = √(2/η)"
    return Bound(name=GDP, theorem=theorem, conditions=(*conditions, "the start is the same for both"), mu=best.mu)


def _difference(lipschitz: float) -> str:
    return f"F − F′ {lipschitz:g}-Lipschitz"


def _each(lipschitz: float) -> str:
    return f"F and F′ are convex and each {lipschitz:g}-Lipschitz"


def _check_smoothness(strong_convexity: float, smoothness: float) -> None:
    if strong_convexity > smoothness:
        raise InputError(f"m ≤ M is needed, got m = {strong_convexity:g} and M = {smoothness:g}")
