"""Each record's own loss in people's terms: its ε, quantiles over everybody, and a fitted μ under sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcalc import conversions
from dpcalc.accounting.compose import upper_epsilon
from dpcalc.arrays import Floats, Indices
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.individual_loss import individual_epsilons
from dpcalc.filters.rule import Rule
from dpcalc.filters.run import Run
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)

# Beyond this many records ε is read off a chord of its curve, which is convex in μ: above it by less than 1e-8 of it.
_EXACTLY = 4096
_CHORDS = 20_000
_FITTED_DELTAS = 4
_LEVELS, _MORE_LEVELS = 8, 64  # numbers of steps at the clip that are composed, always and if somebody is near them
_LARGEST_DELTA = 0.05


@dataclass(frozen=True)
class FittedMu:
    """A μ-GDP curve above each record's own, for ε between `epsilon_low` and `epsilon_high` only; approximate."""

    mu: Floats
    epsilon_low: Floats
    epsilon_high: Floats
    delta_high: float
    delta_low: float


def epsilons(run: Run, delta: float) -> Floats:
    """Every record's ε at δ, had all steps been fixed beforehand; for steps that were chosen it is after the fact.

    Let step one be Gaussian with μ = 1, and step two with μ = 2 unless the first lost more than its own ε(1): then the
    record is left alone. Everybody who is told ε(1) has lost more, and the true δ is 1.9 times the stated one.
    """
    if run.norm_counts is not None:
        return sampled_epsilons(run.norm_counts, delta)
    if run.settings.rule.orders:
        return run.settings.rule.epsilons(run.filter.totals, delta)
    return _from_curve(
        run.filter.spent, _curve(run.settings.rule, delta), power=1.0 if run.settings.rule.squares else 0.5
    )


def sampled_epsilons(counts: NormCounts, delta: float) -> Floats:
    """An upper bound on ε at δ of each record's norms taken as given, never above that of its steps at the clip."""
    found = individual_epsilons(counts, delta)
    clip = counts.buckets.clip
    if clip is None or not found.any():
        return found
    taken = counts.taken()
    known = np.unique(taken[found > 0])
    levels = (
        known if known.size <= _LEVELS else known[-1 - np.unique(np.geomspace(1, known.size, _LEVELS).astype(int) - 1)]
    )
    noise = counts.buckets.sigma / (clip * (1 + counts.buckets.tolerance)) * (1 - 2.0**-50)
    step: Mechanism = Gaussian(noise_multiplier=noise, adjacency="add-remove")
    if counts.sampling_rate < 1:
        step = PoissonSampled(base=step, sampling_rate=counts.sampling_rate)
    ceilings = {int(level): upper_epsilon([(step, int(level))], delta) for level in levels}
    # More steps only cost more: whoever is below what fewer cost at the clip need not know what their own number does.
    above = found > np.concatenate([[0.0], _rising(ceilings)[1]])[np.searchsorted(_rising(ceilings)[0], taken)]
    for level in np.setdiff1d(taken[above & (found > 0)], list(ceilings))[-_MORE_LEVELS:]:
        ceilings[int(level)] = upper_epsilon([(step, int(level))], delta)
    numbers, costs = _rising(ceilings)
    bounded: Floats = np.minimum(found, costs[np.minimum(np.searchsorted(numbers, taken), numbers.size - 1)])
    return bounded


def _rising(ceilings: dict[int, float]) -> tuple[Indices, Floats]:
    """The numbers of steps, rising, and what each costs."""
    return np.array(sorted(ceilings)), np.array([ceilings[number] for number in sorted(ceilings)])


def _curve(rule: Rule, delta: float) -> Callable[[Floats], Floats]:
    """ε as a function of what was spent."""
    if rule.squares:
        return lambda spent: np.asarray(conversions.gdp_epsilon(spent, delta))
    return lambda rho: np.array([conversions.zcdp_epsilon(r, delta) if r else 0.0 for r in rho.tolist()])


def _from_curve(spent: Floats, curve: Callable[[Floats], Floats], *, power: float) -> Floats:
    unique, places = np.unique(spent, return_inverse=True)
    if unique.size <= _EXACTLY:
        return curve(unique)[places]
    nodes = np.linspace(0.0, unique[-1] ** power, _CHORDS) ** (1 / power)
    nodes[-1] = unique[-1]
    return np.interp(spent**power, nodes**power, curve(nodes))


def quantiles(values: Floats) -> list[float]:
    """The quantiles 0, .25, .5, .75, .99 and 1."""
    return [float(value) for value in np.quantile(values, QUANTILES)] if values.size else []


def fitted_mu(counts: NormCounts, delta: float) -> FittedMu:
    """The smallest μ whose curve is above a record's own at several δ, from the one asked for to 0.05 (Koskela §5)."""
    deltas = fitted_deltas(delta)
    found = np.array([sampled_epsilons(counts, float(at)) for at in deltas])
    mu = np.zeros(counts.individuals)
    for at, epsilon in zip(deltas, found, strict=True):
        np.maximum(mu, _mu_above(epsilon, float(at)), out=mu)
    low = np.where(found > 0, found, np.inf).min(axis=0)
    return FittedMu(mu, np.where(np.isfinite(low), low, 0.0), found[0], float(deltas[-1]), delta)


def fitted_deltas(delta: float) -> Floats:
    """Where curves are compared: from δ to 0.05, or four decades."""
    return np.geomspace(delta, max(delta, min(_LARGEST_DELTA, delta * 1e4)), _FITTED_DELTAS)


def _mu_above(epsilon: Floats, delta: float) -> Floats:
    """μ with ε(μ, δ) = ε, from a table, rounded up."""
    top = 0.1
    while conversions.gdp_epsilon(top, delta) < epsilon.max(initial=0.0):
        top *= 2
    nodes = np.linspace(0.0, top, 8192)
    # The first node whose ε is not below, by halves: few records ask for few entries of the table.
    low, high = np.full(epsilon.shape, -1), np.full(epsilon.shape, nodes.size - 1)
    while (apart := high - low > 1).any():
        middle = np.where(apart, (low + high) // 2, high)
        asked, places = np.unique(middle, return_inverse=True)
        enough = np.asarray(conversions.gdp_epsilon(nodes[asked], delta))[places] >= epsilon
        low, high = np.where(apart & ~enough, middle, low), np.where(apart & enough, middle, high)
    above = nodes[high]
    return np.where(epsilon > 0, above, 0.0)
