"""Noisy gradient descent on full batches (Bok et al., section 4.1), and its constrained and strongly convex form."""

from __future__ import annotations

import math

from dpcalc.last_iterate.bound import COMPOSITION, RDP, SHIFTED, Bound
from dpcalc.last_iterate.contraction import ROUND_UP, Contraction
from dpcalc.last_iterate.setting import Setting


def composition(setting: Setting) -> Bound:
    """μ = L√t/(nσ) for any loss (Theorem 4.1)."""
    mu = setting.step_mu * math.sqrt(setting.steps) * ROUND_UP
    return Bound(name=COMPOSITION, theorem="Bok et al. 2024, Theorem 4.1", conditions=("any loss",), mu=mu)


def strongly_convex(setting: Setting) -> Bound:
    """μ = √((1-c^t)/(1+c^t)·(1+c)/(1-c))·L/(nσ) (Theorem 4.2); nothing smaller holds when η ≤ 2/(M+m)."""
    contraction, steps = setting.contraction, setting.steps
    ratio = contraction.geometric_sum(steps) / math.sqrt(contraction.squared_sum(steps))
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.2",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M"),
        mu=setting.step_mu * float(ratio) * ROUND_UP,
        tau=0,
        optimal=is_tight(setting) and setting.diameter is None,
    )


def is_tight(setting: Setting) -> bool:
    """Whether the quadratic with curvature m attains c, η ≤ 2/(M+m): then Theorem 4.2 is exact without constraints."""
    assert setting.smoothness is not None
    m = setting.strong_convexity or 0.0
    return setting.learning_rate * (setting.smoothness + m) <= 2


def constrained(setting: Setting) -> Bound:
    """μ = (s√r + D/√r)/(ησ), s = ηL/n, at the best number r = t-τ of unrolled steps (Theorem 4.3)."""
    mu, remaining = _from_diameter(setting, Contraction(gap=0.0))
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.3",
        conditions=("convex", "M-smooth", "0 ≤ η ≤ 2/M", "projection onto a convex set of diameter D"),
        mu=mu,
        tau=setting.steps - remaining,
    )


def constrained_strongly_convex(setting: Setting) -> Bound:
    """μ = (c^r D + s(1-c^r)/(1-c))·√((1-c²)/(1-c^(2r)))/(ησ) at the best r (Theorem C.3 from z_τ = D)."""
    mu, remaining = _from_diameter(setting, setting.contraction)
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem C.3 from z_τ = D with c < 1",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M", "projection onto a convex set of diameter D"),
        mu=mu,
        tau=setting.steps - remaining,
    )


def _from_diameter(setting: Setting, contraction: Contraction) -> tuple[float, int]:
    """The smallest μ from z_τ = D over all τ, and its t - τ.

    In q = c^r the energy has the one stationary point q = 1 - D(1-c)/s, a minimum, so its two whole neighbours decide.
    """
    injection, diameter = setting.injection, setting.diameter
    assert diameter is not None
    shrink = contraction.gap * diameter / injection
    if contraction.gap == 0:
        best = diameter / injection
    elif contraction.gap >= 1 or shrink >= 1:
        best = math.inf
    else:
        best = math.log1p(-shrink) / math.log1p(-contraction.gap)
    best = min(best, float(setting.steps))
    candidates = {min(max(round_(best), 1), setting.steps) for round_ in (math.floor, math.ceil)}

    def mu(remaining: int) -> float:
        distance = contraction.power(remaining) * diameter + injection * contraction.geometric_sum(remaining)
        return float(distance / math.sqrt(contraction.squared_sum(remaining))) / setting.noise * ROUND_UP

    return min((mu(remaining), remaining) for remaining in candidates)


def prior_rdp(setting: Setting) -> Bound:
    """The earlier Rényi bound ρ = (L/(nσ))²·(1+c)/(1-c)·(1-((1+c)/2)^t), for comparison (Ye and Shokri 2022).

    Never below Theorem 4.2, so it holds wherever that does.
    """
    contraction = setting.contraction
    slower = Contraction(gap=contraction.gap / 2)
    rho = setting.step_mu**2 * (1 + contraction.factor) / 2 * float(slower.geometric_sum(setting.steps)) * ROUND_UP**2
    return Bound(
        name=RDP,
        theorem="Ye, Shokri 2022, Theorem D.6 (as in Bok et al., Figure 1)",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M"),
        rho=rho,
    )


def bounds(setting: Setting) -> list[Bound]:
    """Every bound that applies to full batches, composition first."""
    found = [composition(setting)]
    if setting.strongly_convex:
        found.append(strongly_convex(setting))
    if setting.diameter is not None:
        found.append(constrained(setting))
    if setting.strongly_convex and setting.diameter is not None:
        found.append(constrained_strongly_convex(setting))
    if setting.strongly_convex:
        found.append(prior_rdp(setting))
    return found
