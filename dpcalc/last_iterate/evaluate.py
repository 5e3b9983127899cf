"""Every bound that applies to a run, told as ε at δ, and the best of them as a guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpcalc import conversions
from dpcalc.evidence import Evidence
from dpcalc.guarantee import DEFAULT_ORDERS, Adjacency, Guarantee, Stated
from dpcalc.last_iterate import cyclic, gradient_descent, stochastic
from dpcalc.last_iterate.bound import CLIPPED, COMPOSITION, Bound
from dpcalc.last_iterate.setting import Setting
from dpcalc.mechanisms.base import Mechanism

_UNITS: dict[Adjacency, str] = {
    "replace-one": "two records' gradients differ by L = {length:g} at most (twice a clipping norm); "
    "σ is on the average",
    "add-remove": "gradients have at most the norm L = {length:g} (a clipping norm); a removed record leaves its place "
    "empty, and n and b as they are; σ is on the average",
}
_RUN = {
    "gd": "the start and all settings do not depend on the data",
    "cgd": "the start, the partition into batches and all settings do not depend on the data",
    "sgd": "batches are drawn independently and stay secret; the start and all settings do not depend on the data",
}
_LAST_ITERATE = "; no momentum, no averaging of iterates"
_KEPT = "of a larger batch at most {most} records are used; δ includes the chance that more are drawn"
_SAMPLERS = {"gd": "none", "cgd": "cyclic", "sgd": "fixed-size"}
_REGULARISED = ", by a regulariser added after clipping"
_HOPELESS = 200.0  # an ε above which nobody looks closer


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A bound with its certified ε at δ."""

    bound: Bound
    guarantee: Guarantee

    def row(self) -> dict[str, Any]:
        """The entry of `details.bounds`."""
        bound, guarantee = self.bound, self.guarantee
        row: dict[str, Any] = {
            "name": bound.name,
            "theorem": bound.theorem,
            "mu": guarantee.mu if not bound.subsampled else None,
            "rho": guarantee.rho if bound.rho is not None else None,
            "epsilon": guarantee.epsilon,
            "tau": bound.tau,
            "tau_unit": None if bound.tau is None else bound.tau_unit,
            "conditions": list(bound.conditions),
            "guarantee": guarantee.status,
            "accountant": guarantee.accountant,
        }
        if bound.subsampled:
            row["gaussian_mu"] = bound.mu
            row["subsampled"] = [{"mu": part.mu, "count": part.count} for part in bound.subsampled]
        return row


def bounds_of(setting: Setting, delta: float) -> list[Bound]:
    """Every bound that applies, composition first; δ guides the free choices of the stochastic ones."""
    if setting.algorithm == "gd":
        return gradient_descent.bounds(setting)
    if setting.algorithm == "cgd":
        return cyclic.bounds(setting)
    return stochastic.bounds(setting, delta)


def evaluate(setting: Setting, bound: Bound, *, delta: float, tolerance: float = 1e-3) -> Evaluated:
    """The bound with its ε at δ, certified to about the relative `tolerance`."""
    if bound.subsampled:
        guarantee = _subsampled_guarantee(setting, bound, delta=delta, tolerance=tolerance)
    elif bound.rho is not None:
        guarantee = _renyi_guarantee(setting, bound, delta)
    else:
        guarantee = _gaussian_guarantee(setting, bound, delta)
    return Evaluated(bound=bound, guarantee=guarantee)


def best_of(evaluated: Sequence[Evaluated]) -> Evaluated:
    """The one with the smallest ε; of equals (ε = 0, say) the one with the smallest μ, then the first."""

    def order(each: Evaluated) -> tuple[float, float]:
        known = each.guarantee.epsilon, each.guarantee.mu
        epsilon, mu = (math.inf if value is None else value for value in known)
        return epsilon, mu

    return min(evaluated, key=order)


def _evidence(setting: Setting, bound: Bound) -> Evidence:
    run = _RUN[setting.algorithm] + ("" if bound.name == COMPOSITION else _LAST_ITERATE)
    units = _UNITS[setting.adjacency].format(length=setting.sensitivity)
    kept = (_KEPT.format(most=setting.largest_batch),) if setting.is_poisson and setting.largest_batch else ()
    assumptions = (*_losses(setting, bound), run, units, *kept)
    return Evidence(citations=(bound.theorem,), assumptions=assumptions)


def _stated(setting: Setting, entry: Mapping[str, Any]) -> list[tuple[Stated, None]]:
    return [(Stated(adjacency=setting.adjacency, entry=entry, drawn=_sampler(setting)), None)]


def _sampler(setting: Setting) -> str:
    return f"poisson, rate {setting.sampling_rate:g}" if setting.is_poisson else _SAMPLERS[setting.algorithm]


def _losses(setting: Setting, bound: Bound) -> list[str]:
    """What must hold of the losses, with the numbers that were given for them."""
    if bound.name == COMPOSITION:
        return []
    m, M, D = setting.strong_convexity, setting.smoothness, setting.diameter
    assert M is not None
    shape = f"{m:g}-strongly convex, {M:g}-smooth{_REGULARISED}" if m else f"convex and {M:g}-smooth"
    lines = [f"every loss is {shape}; η {'<' if D is None and m else '≤'} 2/M = {2 / setting.step_smoothness:.4g}"]
    if D is not None:
        lines.append(f"iterates are projected onto a convex set of diameter {D:g}")
    return [*lines, CLIPPED]


def _gaussian_guarantee(setting: Setting, bound: Bound, delta: float) -> Guarantee:
    mu = bound.mu
    epsilon = float(conversions.gdp_epsilon(mu, delta))
    return Guarantee.of(
        _stated(setting, {"type": "gdp", "mu": mu}),
        _evidence(setting, bound),
        accountant="gdp",
        epsilon=epsilon,
        delta=delta,
        epsilon_estimate=epsilon,
        mu=mu,
        mu_kind="exact" if bound.optimal else "upper",
        rho=mu * mu / 2,
        rdp=tuple((order, order * mu * mu / 2) for order in DEFAULT_ORDERS),
    )


def _renyi_guarantee(setting: Setting, bound: Bound, delta: float) -> Guarantee:
    rho = bound.rho
    assert rho is not None
    epsilon = conversions.zcdp_epsilon(rho, delta)
    return Guarantee.of(
        _stated(setting, {"type": "zcdp", "rho": rho}),
        _evidence(setting, bound),
        accountant="rdp",
        epsilon=epsilon,
        delta=delta,
        epsilon_estimate=epsilon,
        rho=rho,
        rdp=tuple((order, order * rho) for order in DEFAULT_ORDERS),
    )


def mechanisms_of(setting: Setting, bound: Bound) -> list[tuple[Mechanism, int]]:
    """G(μ) ⊗ C_p(G(μ_1))^{⊗k_1} ⊗ … as mechanisms, and beside them Poisson batches that are too large."""
    from dpcalc.mechanisms.declared import DeclaredDP
    from dpcalc.mechanisms.gaussian import Gaussian
    from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled

    def gaussian(mu: float) -> Gaussian:
        return Gaussian(noise_multiplier=float(np.nextafter(1 / mu, 0)), adjacency=setting.adjacency)

    sampled = PoissonSampled if setting.is_poisson else FixedSizeSampled
    parts: list[tuple[Mechanism, int]] = [
        (sampled(base=gaussian(part.mu), sampling_rate=setting.sampling_rate), part.count) for part in bound.subsampled
    ]
    if setting.overflow:
        parts.append((DeclaredDP(epsilon=0.0, delta=setting.overflow, adjacency=setting.adjacency), 1))
    # A Gaussian this small is below the resolution of any accountant; keep a valid, slightly larger one.
    return [(gaussian(max(bound.mu, 1e-9)), 1), *parts] if bound.mu > 0 else parts


def _subsampled_guarantee(setting: Setting, bound: Bound, *, delta: float, tolerance: float) -> Guarantee:
    from dpcalc.accounting.compose import compose

    parts = mechanisms_of(setting, bound)
    # Far beyond any use a loss distribution is not worth its time: G(μ) for each C_p(G(μ)) is a bound, and simple.
    hopeless = not setting.overflow and stochastic.estimated_epsilon(bound, setting.sampling_rate, delta) > _HOPELESS
    accountant: Literal["gdp", "auto"] = "gdp" if hopeless else "auto"
    composed = compose(parts, delta=delta, tolerance=tolerance, accountant=accountant)
    # No lower bound: the composition is attained, but it need not be by the last iterate of any run. And so nothing
    # about the width of an interval, whose tolerance nobody asked for.
    return replace(
        composed,
        warnings=(),
        theorem=bound.theorem,
        assumptions=_evidence(setting, bound).assumptions,
        sampler=_sampler(setting),
        epsilon_lower=None,
    )
