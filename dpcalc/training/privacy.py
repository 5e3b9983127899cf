"""What a run costs: its mechanisms, its filter's rule, its last-iterate bounds, and the noise for a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.errors import InputError
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import gdp_rule, rdp_rule
from dpcalc.filters.subsampled import SubsampledRenyi
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import FixedSizeSampled, OncePerEpoch, PoissonSampled
from dpcalc.notions import GaussianDP, Notion, RenyiDP, ZeroConcentratedDP
from dpcalc.training.settings import Settings

Parts = list[tuple[Mechanism, int]]

# Orders at which a filter under sampling may keep its budget; the best one is chosen before the run.
_FILTER_ORDERS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0, 64.0, 96.0)
_CALIBRATION = 1e-3

ASSUMPTIONS = (
    "one record is one individual, and the noise multiplier is relative to the clip, on the sum of a batch",
    "the number of training records and of classes, the batch size and every hyperparameter are public",
    "test records, and whatever is measured on them, are public",
)


@dataclass(frozen=True, kw_only=True)
class Account:
    """The guarantee of a run or a search, and every bound that was looked at."""

    guarantee: Guarantee
    bounds: tuple[dict[str, Any], ...] = ()


def releases(settings: Settings, records: int, *, steps: int | None = None) -> Parts:
    """The run as mechanisms; `steps` counts those taken so far, else the plan."""
    steps = settings.planned_steps(records) if steps is None else steps
    batches = settings.batches(records)
    base: Mechanism = Gaussian(noise_multiplier=settings.noise_multiplier)
    if settings.adjacency == "replace-one":
        base = base.as_replace_one()
    if settings.algorithm == "gd":
        return [(base, steps)]
    if settings.algorithm == "cgd":
        return [(OncePerEpoch(base=base), -(-steps // batches.steps_per_epoch))]
    if batches.sampling_rate == 1.0:
        return [(base, steps)]
    if settings.adjacency == "replace-one":
        return [(FixedSizeSampled(base=base, sampling_rate=batches.sampling_rate), steps)]
    return [(PoissonSampled(base=base, sampling_rate=batches.sampling_rate), steps)]


def noise_units(settings: Settings) -> tuple[float, float]:
    """The clip and the noise in the units of logs and filters: norms, or shares of a step where the clip moves."""
    if settings.clipping == "fixed":
        return settings.clip, settings.noise_multiplier * settings.clip
    return 1.0, settings.noise_multiplier


def filter_rule(settings: Settings, records: int, delta: float) -> Rule:
    """The budget that the planned steps would spend on a record whose every gradient is clipped."""
    (mechanism, count) = releases(settings, records)[0]
    clip, sigma = noise_units(settings)
    if settings.algorithm == "sgd" and mechanism.sampler() == "poisson":
        rate = settings.batches(records).sampling_rate
        order, rho = _best_order(rate, settings.noise_multiplier, count, delta)
        return rdp_rule(sigma=sigma, clip=clip, orders=[order], rhos=[rho], sampling_rate=rate)
    rule = rdp_rule if settings.filter == "rdp" or settings.algorithm == "sgd" else gdp_rule
    return rule(sigma=sigma, clip=clip, norm_budget=count * clip * clip)


def _best_order(rate: float, noise_multiplier: float, count: int, delta: float) -> tuple[float, float]:
    """The order at which the planned steps cost the least ε, and their RDP there, by the bound that filters use."""
    one = SubsampledRenyi(orders=_FILTER_ORDERS, sampling_rate=rate).rdp(np.array([noise_multiplier**-2.0]))[:, 0]
    costs = [conversions.rdp_epsilon([a], [count * r], delta) for a, r in zip(_FILTER_ORDERS, one, strict=True)]
    best = int(np.argmin(costs))
    return _FILTER_ORDERS[best], float(count * one[best])


def epsilon_so_far(settings: Settings, records: int, delta: float) -> Any:
    """A quick upper bound on ε after any number of steps, for the progress bar."""
    orders = np.array(DEFAULT_ORDERS)
    mechanism, planned = releases(settings, records)[0]
    rdps = mechanism.rdp(orders)

    def epsilon(steps: int) -> float:
        count = releases(settings, records, steps=steps)[0][1]
        if settings.filter != "none":
            count = min(count, planned)
        return float(conversions.rdp_epsilon(orders, count * rdps, delta))

    return epsilon


def account(
    settings: Settings, records: int, *, delta: float, runs: int = 1, classes: int = 10, steps: int | None = None
) -> Account:
    """What `runs` such runs guarantee together: the filter's budget, the composition, or a last-iterate bound."""
    if settings.filter != "none":
        return Account(guarantee=_filter_guarantee(settings, records, delta, runs))
    composed = _composed([(m, count * runs) for m, count in releases(settings, records, steps=steps)], delta)
    row = {"name": "composition", "theorem": composed.theorem, "mu": composed.mu, "epsilon": composed.epsilon}
    rows = [{**row, "adjacency": composed.adjacency, "guarantee": composed.status}]
    from dpcalc.training.last_iterate import last_iterate_bounds

    found = last_iterate_bounds(settings, records, delta=delta, runs=runs, classes=classes, steps=steps)
    best = composed.with_warnings(*found.reasons)
    for each in found.guarantees:
        rows.append(each.row)
        if settings.adjacency == "replace-one" and (each.guarantee.epsilon or 0.0) < (best.epsilon or 0.0):
            best = replace(each.guarantee, assumptions=(*each.guarantee.assumptions, *ASSUMPTIONS))
    return Account(guarantee=best, bounds=tuple(rows))


def account_search(configurations: Sequence[Settings], records: int, *, delta: float) -> Account:
    """What a whole grid search guarantees: every run counts, also those that did not win."""
    if any(settings.filter != "none" for settings in configurations):
        if len({filter_budget(settings, records, delta) for settings in configurations}) > 1:
            raise InputError("a filtered search needs the same budget in every run: do not vary epochs or batches.")
        return account(configurations[0], records, delta=delta, runs=len(configurations))
    counts: dict[Mechanism, int] = {}
    for settings in configurations:
        for mechanism, count in releases(settings, records):
            counts[mechanism] = counts.get(mechanism, 0) + count
    return Account(guarantee=_composed(list(counts.items()), delta))


def filter_budget(settings: Settings, records: int, delta: float) -> Notion | None:
    """The notion of privacy that the filter of a run enforces."""
    return filter_rule(settings, records, delta).notion


def _composed(parts: Parts, delta: float) -> Guarantee:
    from dpcalc.accounting.compose import compose

    composed = compose(parts, delta=delta)
    return replace(composed, assumptions=(*composed.assumptions, *ASSUMPTIONS))


def _filter_guarantee(settings: Settings, records: int, delta: float, runs: int) -> Guarantee:
    from dpcalc.conversions.implied import convert

    notion = filter_budget(settings, records, delta)
    assert notion is not None
    guarantee, _ = convert(_repeated(notion, runs), delta=delta)
    theorems = {
        "gdp": "individual GDP filter (Koskela et al., Algorithm 1 and Theorem 11)",
        "rdp": "individual RDP filter (Feldman–Zrnic, Algorithm 3 and Theorem 4.5)",
    }
    clipped = "; clip to the remaining budget (Feldman–Zrnic, Algorithm 7)" if settings.filter_mode == "clip" else ""
    batches = settings.batches(records)
    sampler = {"gd": "none", "cgd": "cyclic", "sgd": "poisson"}[settings.algorithm]
    assumptions = (
        "the budget was fixed before the run, and each record's own norm decides whether it takes part",
        *(("every record's norm is computed at every step, sampled or not",) if settings.algorithm == "sgd" else ()),
        *ASSUMPTIONS,
    )
    return replace(
        guarantee,
        accountant=f"{settings.filter} filter",
        theorem=theorems[settings.filter] + clipped,
        assumptions=assumptions,
        sampler=sampler if batches.sampling_rate < 1 or settings.algorithm != "sgd" else "none",
        epsilon_estimate=guarantee.epsilon,
    )


def _repeated(notion: Notion, runs: int) -> Notion:
    """What several runs under one such budget each enforce together."""
    if runs == 1:
        return notion
    if isinstance(notion, GaussianDP):
        return GaussianDP(parameter=notion.parameter * math.sqrt(runs) * (1 + 1e-15))
    if isinstance(notion, ZeroConcentratedDP):
        return ZeroConcentratedDP(parameter=notion.parameter * runs)
    assert isinstance(notion, RenyiDP)
    return RenyiDP(orders=notion.orders, epsilons=tuple(runs * epsilon for epsilon in notion.epsilons))


def calibrated(
    configurations: Sequence[Settings], records: int, *, epsilon: float, delta: float, **known: Any
) -> float:
    """The least noise multiplier, to 0.1 % upwards, with which all these runs together stay within (ε, δ)."""

    def cost(noise_multiplier: float) -> float:
        changed = [replace(settings, noise_multiplier=noise_multiplier) for settings in configurations]
        if len(changed) == 1:
            found = account(changed[0], records, delta=delta, **known).guarantee.epsilon
        else:
            found = account_search(changed, records, delta=delta).guarantee.epsilon
        return math.inf if found is None else found

    low, high = 0.0, _enough_noise(configurations, records, epsilon, delta, int(known.get("runs", 1)))
    cost_low, cost_high = math.inf, cost(high)
    while cost_high > epsilon:
        low, cost_low, high = high, cost_high, high * 1.1
        cost_high = cost(high)
        if high > 1e9:
            raise InputError(f"no noise keeps this within ε = {epsilon:g} at δ = {delta:g}.")
    while low == 0.0 or high > low * (1 + _CALIBRATION):
        middle = high / 1.25 if low == 0.0 else _between(low, cost_low, high, cost_high, epsilon)
        found = cost(middle)
        if found <= epsilon:
            high, cost_high = middle, found
        else:
            low, cost_low = middle, found
    return high


def _between(low: float, cost_low: float, high: float, cost_high: float, target: float) -> float:
    """Where a power law through both ends meets the target, kept away from the ends."""
    share = 0.5
    if 0 < cost_high < cost_low < math.inf:
        share = math.log(cost_low / target) / math.log(cost_low / cost_high)
    width = math.log(high / low)
    edge = min(0.4, 0.45 * _CALIBRATION / width)
    return low * math.exp(width * min(max(share + edge, edge), 1 - edge))


def _enough_noise(configurations: Sequence[Settings], records: int, epsilon: float, delta: float, runs: int) -> float:
    """A noise multiplier that is enough without amplification."""
    mu = float(conversions.gdp_mu(epsilon, delta))
    if mu <= 0:
        raise InputError(f"no noise keeps this within ε = {epsilon:g} at δ = {delta:g}.")
    count = runs * sum(releases(settings, records)[0][1] for settings in configurations)
    doubled = 2 if configurations[0].adjacency == "replace-one" else 1
    return doubled * math.sqrt(count) / mu * (1 + 1e-9)
