"""What a plan costs: the filter's budget, the composition, last-iterate bounds, and the noise for a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.errors import InputError
from dpcalc.filters.rule import theorem_of
from dpcalc.filters.subsampled import gaussian_rdp
from dpcalc.guarantee import DEFAULT_ORDERS, Guarantee
from dpcalc.mechanisms.base import Mechanism
from dpcalc.report import written
from dpcalc.rounding import up
from dpcalc.solve import bracket, solve
from dpcalc.training.plan import Parts, Plan

_CALIBRATION = 1e-3
# Less noise than this protects nobody, so nobody waits for it to be found.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e9

ASSUMPTIONS = ("one record is one person; sizes, classes, settings and test records are public",)
_SEATS = (
    "a batch sits in {slots} slots at random, and δ includes the chance that more records are drawn, for which no "
    "finite μ, ρ or RDP is claimed"
)
_LOOKED = (
    "looks at private records are interleaved with the steps; their costs are composed with the filter's budget "
    "(Vadhan, Zhang 2023: concurrent composition)"
)
_UNATTAINED = (
    "ε has no lower bound: gradients are brought to less than the clip, to leave room for what rounding adds, and "
    "nobody is known to need all of it"
)
_HIDDEN = "only the parameters of the last step are released: no checkpoint, no log, nothing that was measured before"
_SAMPLERS = {"gd": "none", "cgd": "cyclic", "sgd": "none"}


@dataclass(frozen=True, kw_only=True)
class Account:
    """The guarantee of a run or a search, and every bound that was looked at."""

    guarantee: Guarantee
    bounds: tuple[dict[str, Any], ...] = ()
    hides: bool = False
    """Whether it holds only if nothing but the last iterate is released."""


def epsilon_so_far(plan: Plan, final: float) -> Callable[[int], float]:
    """A quick upper bound on ε after any number of steps, for the progress bar; never above the `final` one.

    Of several runs that share a budget the others count as a whole: they may be over already.
    """
    orders = np.array(DEFAULT_ORDERS)
    mechanism, whole = plan.releases()[0]
    others = plan.runs - 1
    rdps = mechanism.rdp(orders)
    looked = sum((plan.runs * count * each.rdp(orders) for each, count in plan.looked), np.zeros(len(orders)))
    mu = None if plan.looked else mechanism.gdp()

    def epsilon(steps: int) -> float:
        count = plan.releases(steps=min(steps, plan.planned_steps))[0][1] + others * whole
        left = plan.delta - (steps + others * plan.total_steps) * plan.overflow
        known = [final, float(conversions.rdp_epsilon(orders, count * rdps + looked, left))]
        if mu is not None:
            known.append(float(conversions.gdp_epsilon(up(mu * math.sqrt(count)), left)))
        return min(known)

    return epsilon


def account(plan: Plan, *, classes: int = 10, steps: int | None = None, listed: bool = True) -> Account:
    """What all runs of this plan guarantee together, certified: the filter's budget, or the composition.

    After so many `steps` of one of them the others count as a whole: they may be over already. Last-iterate bounds are
    listed. One that counts the rounding of its steps is certified, and decides where nothing but the last iterate is to
    be released. Unless they are to be `listed`, those that decide nothing are left out.
    """
    if plan.settings.filter != "none":
        return Account(guarantee=_filter_guarantee(plan, [(m, count * plan.runs) for m, count in plan.looked]))
    parts = _together([plan.releases(steps=steps), *[plan.releases()] * (plan.runs - 1)])
    composed = _composed(parts, plan)
    row = {"name": "composition", "theorem": "; ".join(composed.citations), "mu": composed.mu}
    rows = [{**row, "epsilon": composed.epsilon, "adjacency": composed.adjacency, "guarantee": composed.status}]
    from dpcalc.training.last_iterate import last_iterate_bounds

    found = last_iterate_bounds(plan, classes=classes, steps=steps, certified=not listed)
    certified = composed.with_warnings(*found.reasons)
    rows += [each.row for each in found.guarantees]
    better = [each for each in found.guarantees if _is_better(each.guarantee, composed)]
    proved = [each.guarantee for each in better if each.guarantee.status == "certified"]
    if plan.settings.release == "last" and proved:
        best = min(proved, key=lambda guarantee: guarantee.epsilon or 0.0)
        best = replace(best, assumptions=(*best.assumptions, *ASSUMPTIONS, _HIDDEN))
        return Account(guarantee=best, bounds=tuple(rows), hides=True)
    warnings = [each.reason for each in better if each.reason]
    return Account(guarantee=certified.with_warnings(*warnings), bounds=tuple(rows))


def _is_better(one: Guarantee, other: Guarantee) -> bool:
    return one.adjacency == other.adjacency and (one.epsilon or 0.0) < (other.epsilon or 0.0)


def account_search(plans: Sequence[Plan]) -> Account:
    """What a whole grid search guarantees: each plan is one of its runs, also those that did not win."""
    first = plans[0]
    if any(plan.settings.filter != "none" for plan in plans):
        if len({plan.budget.notion for plan in plans}) > 1:
            raise InputError("a filtered search needs the same budget in every run: do not vary epochs or batches.")
        return Account(guarantee=_filter_guarantee(first, _together([plan.looked for plan in plans])))
    return Account(guarantee=_composed(_together([plan.releases() for plan in plans]), first))


def _together(runs: Sequence[Parts]) -> Parts:
    """What several runs release, each kind of it once with its count."""
    counts: dict[Mechanism, int] = {}
    for mechanism, count in (part for run in runs for part in run):
        counts[mechanism] = counts.get(mechanism, 0) + count
    return list(counts.items())


def _composed(parts: Parts, plan: Plan) -> Guarantee:
    """What so many steps and looks cost; no lower bound, as nobody is known to move a computed sum by a whole clip."""
    from dpcalc.accounting.compose import compose

    composed = compose(parts, delta=plan.delta).unattained()
    composed = replace(composed, remarks=(*composed.remarks, _UNATTAINED))
    if plan.overflow == 0:
        return replace(composed, assumptions=(*composed.assumptions, *ASSUMPTIONS))
    # The overflow is no promise of somebody else: it is proved, so it needs none of the assumptions of a declared one.
    declared = {line for mechanism, _ in parts if mechanism.type == "dp" for line in mechanism.assumptions()}
    kept = (line for line in composed.assumptions if line not in declared)
    remarks = (*composed.remarks, _SEATS.format(slots=plan.slots))
    return replace(composed, assumptions=(*kept, *ASSUMPTIONS), remarks=remarks)


def _filter_guarantee(plan: Plan, looked: Parts) -> Guarantee:
    """The budget of all runs, each as that of `plan`, and what is `looked` at in all of them together.

    Attained by nobody, as a clip is not.
    """
    from dpcalc.accounting.compose import compose
    from dpcalc.accounting.implied import implied

    notion, settings = plan.budget.notion, plan.settings
    assert notion is not None
    whole = notion.repeated(plan.runs) if plan.runs > 1 else notion
    if looked:
        guarantee = compose([(whole, 1), *looked], delta=plan.delta)
        guarantee = replace(guarantee, remarks=(*guarantee.remarks, _LOOKED))
    else:
        guarantee = implied(whole, delta=plan.delta)
    samples = plan.batches.has_random_size
    return replace(
        guarantee.unattained(),
        remarks=(*guarantee.remarks, _UNATTAINED),
        accountant=f"individual {settings.filter} filter",
        theorem=theorem_of(settings.filter, scope="individual", mode=settings.filter_mode),
        assumptions=ASSUMPTIONS,
        sampler=f"poisson, rate {plan.batches.sampling_rate:g}" if samples else _SAMPLERS[settings.algorithm],
        epsilon_estimate=guarantee.epsilon,
    )


def calibrated(plans: Sequence[Plan], *, epsilon: float, classes: int = 10) -> float:
    """The least noise multiplier, to 0.1 % upwards, with which all these runs together are certified within (ε, δ)."""

    @lru_cache
    def ratio(noise_multiplier: float) -> float:
        changed = [plan.with_noise(noise_multiplier) for plan in plans]
        if len(changed) == 1 and changed[0].settings.filter != "none" and not changed[0].looked:
            notion, runs = changed[0].budget.notion, changed[0].runs
            assert notion is not None
            spent = (notion.repeated(runs) if runs > 1 else notion).epsilon_at(changed[0].delta)
            return math.inf if spent is None else spent / epsilon
        accounted = account(changed[0], classes=classes, listed=False) if len(changed) == 1 else account_search(changed)
        found = accounted.guarantee.epsilon
        return math.inf if found is None or accounted.guarantee.status != "certified" else found / epsilon

    start = max(_enough_noise(plans, epsilon), _LEAST_NOISE)
    ends = bracket(ratio, start, 1 / 1.25, least=_LEAST_NOISE, most=_MOST_NOISE)
    if ends is not None:
        return solve(ratio, *ends, width=_CALIBRATION).within
    if ratio(start) > 1:
        raise InputError(f"no noise keeps this within ε = {epsilon:g} at δ = {written(plans[0].delta)}.")
    return _LEAST_NOISE


def _enough_noise(plans: Sequence[Plan], epsilon: float) -> float:
    """A noise multiplier that is enough without amplification, were it not for rounding."""
    mu = float(conversions.gdp_mu(epsilon, plans[0].delta))
    if mu <= 0:
        raise InputError(f"no noise keeps this within ε = {epsilon:g} at δ = {written(plans[0].delta)}.")
    count = sum(plan.releases()[0][1] for plan in plans) * (plans[0].runs if len(plans) == 1 else 1)
    doubled = 2 if plans[0].settings.adjacency == "replace-one" else 1
    enough = doubled * math.sqrt(count) / mu * (1 + 1e-9)
    return _amplified(plans[0], enough, epsilon) if len(plans) == 1 and plans[0].batches.has_random_size else enough


def _amplified(plan: Plan, enough: float, epsilon: float) -> float:
    """About the noise that sampling leaves of `enough`, by RDP: where the search begins, which proves nothing."""
    orders = np.array(DEFAULT_ORDERS)
    count = plan.runs * plan.planned_steps

    def suffices(noise_multiplier: float) -> bool:
        rdps = gaussian_rdp(orders, noise_multiplier, plan.batches.sampling_rate)
        return float(conversions.rdp_epsilon(orders, count * rdps, plan.delta)) <= epsilon

    while suffices(enough / 2):
        enough /= 2
    low = enough / 2
    while enough > 1.03 * low:
        middle = math.sqrt(low * enough)
        low, enough = (low, middle) if suffices(middle) else (middle, enough)
    return enough
