"""Noisy gradient descent on random batches of fixed size (Bok et al., section 4.3), and a one-sided form of its bounds.

Every bound here is G(g) ⊗ C_p(G(μ_1))^{⊗k_1} ⊗ …. How many steps to unroll and how to split the noise is chosen by an
estimate; any choice is valid, so only the chosen one has to be certified, by the accountant.

One-sided shifts (proof in docs/sgd-bound.md). Write a step as X⁺ = Π[Ψ_{S,V}(X) + Z], where V says whether the record
is in the batch and S is the rest of it. Let X̃ start at time τ as X′ does and follow the *same* losses as X,
X̃⁺ = Π[Ψ_{S,V}(X̃) + λ(Ψ_{S,V}(X) - Ψ_{S,V}(X̃)) + Z]. Compared with X′ from a common point, a step of X̃ costs
C_p(G(βL/(bσ))) ⊗ G(αa/(ησ)), 1/α² + 1/β² = 1, with a = λc‖X - X̃‖, and C_p(G(L/(bσ))) where λ = 0: the sensitivity is
L and not 2L, and for b = n this is Theorem 4.3. The distance at τ is at most D, and at most s(1-c^τ)/(1-c) when X and
X′ share batches and noise up to then, so strongly convex losses need no constraint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcalc.last_iterate import gradient_descent
from dpcalc.last_iterate.bound import COMPOSITION, OPTIMAL_SHIFTS, SHIFTED, Bound, Subsampled
from dpcalc.last_iterate.choice import ORDERS, REFINEMENTS, SHARES, around, estimate, grid, log_moments, widened
from dpcalc.last_iterate.contraction import ROUND_UP
from dpcalc.last_iterate.setting import Setting


def central_limit_mu(mu: float, rate: float, count: int) -> float:
    """√2·p√t·√(e^{μ²}Φ(1.5μ) + 3Φ(-0.5μ) - 2), the μ that C_p(G(μ))^{⊗t} approaches (Lemma A.5): an approximation."""
    from scipy.special import ndtr

    if mu < 1e-3:  # the bracket is μ²/2 to leading order, and cancels
        return rate * math.sqrt(count) * mu
    try:
        bracket = math.exp(mu * mu) * float(ndtr(1.5 * mu)) + 3 * float(ndtr(-0.5 * mu)) - 2
    except OverflowError:
        return math.inf
    return math.sqrt(2 * count * bracket) * rate


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """What an analysis leaves free: steps unrolled without and with a shift, and the share of noise for the record."""

    plain: int
    shifted: int
    share: float


def composition_theorem(setting: Setting) -> str:
    """What composes the steps of random batches."""
    return "composition of Poisson-sampled Gaussians" if setting.is_poisson else "Bok et al. 2024, Theorem 4.8"


def composition(setting: Setting) -> Bound:
    """C_p(G(L/(bσ)))^{⊗t} for any loss (Theorem 4.8), or the same of Poisson batches under add-remove."""
    steps = Subsampled(mu=setting.step_mu * ROUND_UP, count=setting.steps)
    theorem = composition_theorem(setting)
    return Bound(name=COMPOSITION, theorem=theorem, conditions=("any loss",), subsampled=(steps,))


def strongly_convex(setting: Setting, delta: float) -> Bound:
    """Theorem 4.9 at its best τ ≥ 1 and split.

    G(2α(L/(bσ))(c^{r+1}-c^t)/(1-c)) ⊗ C_p(G(2βL/(bσ))) ⊗ C_p(G(2L/(bσ)))^{⊗r}, r = t - τ.
    """
    contraction, steps, mu, rate = setting.contraction, setting.steps, setting.step_mu, setting.sampling_rate

    def gaussian(remaining: Any, share: Any) -> Any:
        older = contraction.power(remaining + 1) * contraction.geometric_sum(steps - 1 - remaining)
        return widened(2 * mu * older, share)

    last = np.array([log_moments(2 * mu / math.sqrt(share), rate) for share in SHARES])
    remaining = np.array(grid(0, steps - 1, 200), dtype=float)
    for _ in range(REFINEMENTS):
        moments = last[None] + remaining[:, None, None] * log_moments(2 * mu, rate)
        scores = estimate(gaussian(remaining[:, None], SHARES[None]), moments, delta)
        row, column = np.unravel_index(np.argmin(scores), scores.shape)
        best = int(remaining[row])
        remaining = np.array(around(best, remaining, 0, steps - 1), dtype=float)
    share = float(SHARES[column])
    parts = (
        Subsampled(mu=2 * mu / math.sqrt(share) * ROUND_UP, count=1),
        Subsampled(mu=2 * mu * ROUND_UP, count=best),
    )
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.9",
        conditions=("m-strongly convex", "M-smooth", "0 < η < 2/M"),
        mu=float(gaussian(best, share)) * ROUND_UP,
        subsampled=tuple(part for part in parts if part.count),
        tau=steps - best,
    )


def constrained(setting: Setting, delta: float) -> Bound:
    """Theorem 4.10 at its best τ and split: G(αD/(ησ√r)) ⊗ C_p(G(2βL/(bσ)))^{⊗r}."""
    assert setting.diameter is not None
    reach = setting.diameter / setting.noise
    mu, steps = 2 * setting.step_mu, setting.steps
    moments = np.array([log_moments(mu / math.sqrt(share), setting.sampling_rate) for share in SHARES])
    remaining = np.array(grid(1, steps, 200), dtype=float)
    for _ in range(REFINEMENTS):
        gaussian = widened(reach / np.sqrt(remaining)[:, None], SHARES[None])
        scores = estimate(gaussian, remaining[:, None, None] * moments[None], delta)
        row, column = np.unravel_index(np.argmin(scores), scores.shape)
        best = int(remaining[row])
        remaining = np.array(around(best, remaining, 1, steps), dtype=float)
    share = float(SHARES[column])
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem 4.10",
        conditions=("convex", "M-smooth", "0 ≤ η ≤ 2/M", "projection onto a convex set of diameter D"),
        mu=float(widened(reach / math.sqrt(best), share)) * ROUND_UP,
        subsampled=(Subsampled(mu=mu / math.sqrt(share) * ROUND_UP, count=best),),
        tau=steps - best,
    )


def one_sided(setting: Setting, delta: float, wobble: float = 0.0) -> Bound:
    """One-sided shifts over the last r₂ steps after r₁ steps without, at the best r₁, r₂ and split.

    G(αc^{r₁+r₂}z_τ·√((1-c²)/(1-c^{2r₂}))/(ησ)) ⊗ C_p(G(L/(bσ)))^{⊗r₁} ⊗ C_p(G(βL/(bσ)))^{⊗r₂} with
    z_τ = min(D, s(1-c^τ)/(1-c)). With a `wobble` w that every step injects, z_τ has s + w for s, and c^r z_τ grows by
    w(1-c^r)/(1-c).
    """
    mu, rate, steps = setting.step_mu, setting.sampling_rate, setting.steps
    base = log_moments(mu, rate)
    split = np.array([log_moments(mu / math.sqrt(share), rate) for share in SHARES])
    plain = np.array(grid(0, steps - 1, 30) if setting.strongly_convex else [0], dtype=float)
    shifted = np.array(grid(1, steps, 40), dtype=float)
    for _ in range(REFINEMENTS):
        reach = _one_sided_reach(setting, plain[:, None], shifted[None], wobble)
        scores = estimate(
            widened(reach[:, :, None], SHARES),
            plain[:, None, None, None] * base + shifted[:, None, None] * split[None],
            delta,
        )
        i, j, k = np.unravel_index(np.argmin(scores), scores.shape)
        best = _Choice(plain=int(plain[i]), shifted=int(shifted[j]), share=float(SHARES[k]))
        if setting.strongly_convex:
            plain = np.array(around(best.plain, plain, 0, steps - 1), dtype=float)
        shifted = np.array(around(best.shifted, shifted, 1, steps), dtype=float)
    gaussian = float(widened(_one_sided_reach(setting, best.plain, best.shifted, wobble), best.share))
    parts = (
        Subsampled(mu=mu * ROUND_UP, count=best.plain),
        Subsampled(mu=mu / math.sqrt(best.share) * ROUND_UP, count=best.shifted),
    )
    conditions = ["m-strongly convex", "0 < η < 2/M"] if setting.strongly_convex else ["convex", "0 ≤ η ≤ 2/M"]
    if setting.diameter is not None:
        conditions.append("projection onto a convex set of diameter D")
    return Bound(
        name=OPTIMAL_SHIFTS,
        theorem="after Bok et al. 2024, Theorem 4.10: one-sided shifted interpolation (docs/sgd-bound.md)",
        conditions=(*conditions, "M-smooth"),
        mu=gaussian * ROUND_UP,
        subsampled=tuple(part for part in parts if part.count),
        tau=steps - best.plain - best.shifted,
    )


def _one_sided_reach(setting: Setting, plain: Any, shifted: Any, wobble: float) -> Any:
    """√Σa²/(ησ): infinite where more steps are asked for than there are."""
    contraction = setting.contraction
    unrolled = np.asarray(plain) + np.asarray(shifted)
    tau = np.maximum(setting.steps - unrolled, 0)
    distance = (setting.injection + wobble) * contraction.geometric_sum(tau)
    if setting.diameter is not None:
        distance = np.minimum(distance, setting.diameter)
    distance = contraction.power(unrolled) * distance + wobble * contraction.geometric_sum(unrolled)
    reach = distance / np.sqrt(contraction.squared_sum(shifted)) / setting.noise
    return np.where(unrolled <= setting.steps, reach, np.inf)


def bounds(setting: Setting, delta: float) -> list[Bound]:
    """Every bound that applies to random batches, composition first."""
    if setting.batch == setting.dataset_size:
        return gradient_descent.bounds(setting)
    found = [composition(setting)]
    if setting.strongly_convex and not setting.is_poisson:
        found.append(strongly_convex(setting, delta))
    if setting.diameter is not None and not setting.is_poisson:
        found.append(constrained(setting, delta))
    if setting.strongly_convex or setting.diameter is not None:
        found.append(one_sided(setting, delta))
    return found


def estimated_epsilon(bound: Bound, rate: float, delta: float) -> float:
    """ε at δ by Rényi divergences, uncertified."""
    moments = sum((part.count * log_moments(part.mu, rate) for part in bound.subsampled), np.zeros(ORDERS.size))
    return float(estimate(np.array(bound.mu), moments, delta))


def most_promising(bounds: Sequence[Bound], rate: float, delta: float) -> Bound:
    """The bound whose ε is likely the smallest, by the estimate; of μ-GDP bounds, the smallest μ."""
    known = [bound for bound in bounds if bound.rho is None]
    if not any(bound.subsampled for bound in known):
        return min(known, key=lambda bound: bound.mu)
    return min(known, key=lambda bound: estimated_epsilon(bound, rate, delta))
