"""A μ that dominates sampled losses over a stated range, then RDP (Koskela et al. 2023, Section 5): approximate.

If every record's composed curve is below that of a μ-GDP mechanism (5.1), its RDP is at most μ²α/2 (5.2), and the RDP
filter's theorem covers adaptive choices (5.3). No μ below √T/σ has its curve above a sampled one at *every* ε, though,
and here curves are compared at a few δ: what follows holds as far as the range does, and is never certified.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpcalc.accounting.implied import implied
from dpcalc.arrays import Bools
from dpcalc.conversions import gdp_epsilon
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.individual import FittedMu, fitted_deltas, fitted_mu
from dpcalc.filters.run import Run
from dpcalc.guarantee import Guarantee
from dpcalc.mechanisms.declared import DeclaredZCDP
from dpcalc.report import written

_THEOREM = "Koskela et al. 2023, Section 5 (5.1-5.3): a dominating μ, then Feldman, Zrnic 2021, Theorem 4.5"


def fitted(run: Run, delta: float) -> FittedMu:
    """Everybody's own dominating μ between δ and 0.05."""
    assert run.norm_counts is not None
    return _fitted(run.norm_counts, len(run.steps.labels), delta)


@lru_cache(maxsize=1)
def _fitted(counts: NormCounts, _steps: int, delta: float) -> FittedMu:
    return fitted_mu(counts, delta)


def beyond(run: Run) -> Bools:
    """Whose curve is not below that of the budget."""
    assert run.settings.dominating is not None
    mu, delta = run.settings.dominating
    return np.asarray(fitted(run, delta).mu > mu)


def guarantee(base: Guarantee, budget: tuple[float, float], kept: bool) -> Guarantee:
    """The RDP of the budget's Gaussian, converted at δ."""
    mu, delta = budget
    named = replace(base, status="approximate", accountant="individual rdp filter, dominating mu", theorem=_THEOREM)
    if not kept:
        return replace(named, remarks=("the budget was not kept, so nothing is guaranteed by it", *named.remarks))
    told = implied(DeclaredZCDP(rho=mu * mu / 2), delta=delta)
    highest = float(fitted_deltas(delta)[-1])
    low, high = (float(gdp_epsilon(mu, at)) for at in (highest, delta))
    return replace(
        named,
        epsilon=told.epsilon,
        delta=delta,
        epsilon_estimate=told.epsilon,
        mu=mu,
        mu_kind="approximate",
        rho=told.rho,
        rdp=told.rdp,
        mechanisms=told.mechanisms,
        assumptions=(
            "the budget was fixed before the run, and with other outputs it would have been kept too",
            *named.assumptions,
            f"the curve of {mu:g}-GDP is above everybody's own at every ε, not only for ε from {low:.4g} to {high:.4g} "
            f"(δ from {written(highest)} to {written(delta)}), where it was looked at",
        ),
    )
