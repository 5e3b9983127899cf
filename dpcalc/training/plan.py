"""One value for what runs and what is accounted for: sampler, steps, noise, clipping, filter, neighbours, δ and runs.

The trainer takes everything that concerns privacy from its plan, the account is made from the same plan, and a
checkpoint holds it, so that none of them can differ from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpcalc import conversions
from dpcalc.errors import InputError
from dpcalc.filters.rule import Rule
from dpcalc.filters.rules import gdp_rule, rdp_rule, unlimited
from dpcalc.filters.subsampled import SubsampledRenyi, gaussian_rdp
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.rounding import times_up
from dpcalc.training.batches import Batches
from dpcalc.training.looks import Looks, looks_of
from dpcalc.training.names import FIXED
from dpcalc.training.settings import Settings

Parts = list[tuple[Mechanism, int]]

# Orders at which a filter under sampling may keep its budget; the best one is chosen before the run.
_FILTER_ORDERS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0, 64.0, 96.0)

# The part of δ that may go to Poisson batches that overflow their slots, over all steps and runs.
_OVERFLOW_SHARE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run on so many records, one of `runs` that share a budget at `delta`; `tracked` if every norm is logged."""

    settings: Settings
    records: int
    delta: float
    runs: int = 1
    tracked: bool = False
    features: int | None = None
    """Numbers of a record, where it is known: what rounding does to a step depends on it."""

    def __post_init__(self) -> None:
        looks_of(self.settings, self.records)
        if self.tracked and self.settings.filter == "none" and self.batches.fixed_size and self._samples:
            raise InputError(
                "individual losses of uniform batches are not known, so there is nothing to audit: `log` needs "
                "`adjacency=add-remove` here, or `algorithm=gd` or cgd."
            )

        if self.tracked and self.batches.allocated:
            raise InputError("individual losses under random allocation are not known; `log` needs `sampling=poisson`.")

    def with_noise(self, noise_multiplier: float) -> Plan:
        """The same run with another noise multiplier."""
        return replace(self, settings=replace(self.settings, noise_multiplier=noise_multiplier))

    @cached_property
    def batches(self) -> Batches:
        """How batches come about."""
        return self.settings.batches(self.records)

    @property
    def _samples(self) -> bool:
        return self.settings.algorithm == "sgd" and self.batches.sampling_rate < 1

    @property
    def planned_steps(self) -> int:
        """Where plain private training stops, which fixes the budget."""
        return self.settings.planned_steps(self.records)

    @property
    def total_steps(self) -> int:
        """The steps that are run, with those a filter adds."""
        return self.settings.all_steps(self.records)

    @property
    def looks_at_everyone(self) -> bool:
        """Whether every record's norm is needed at every step, sampled or not."""
        return self.settings.algorithm == "sgd" and (self.settings.filter != "none" or self.tracked)

    @cached_property
    def slots(self) -> int:
        """The slots of a sum: places in the file, ranks in a batch, or room for a Poisson batch."""
        if self.looks_at_everyone:
            return self.records
        return self.batches.slots_within(_OVERFLOW_SHARE * self.delta / (self.total_steps * self.runs))

    @property
    def overflow(self) -> float:
        """The part of δ that a step pays for Poisson batches larger than their slots."""
        return 0.0 if self.looks_at_everyone else self.batches.overflow(self.slots)

    def releases(self, *, steps: int | None = None) -> Parts:
        """One run as mechanisms; `steps` counts those taken so far, else the plan."""
        steps = self.planned_steps if steps is None else steps
        mechanism, count = self._step(), steps
        if isinstance(mechanism, OncePerEpoch | RandomlyAllocated):
            count = -(-steps // self.batches.steps_per_epoch)
        if self.overflow == 0:
            return [(mechanism, count), *self.looked]
        return [
            (mechanism, count),
            *self.looked,
            (DeclaredDP(epsilon=0.0, delta=min(1.0, times_up(self.overflow, steps))), 1),
        ]

    @cached_property
    def looks(self) -> Looks:
        """Which looks at private records steer the run."""
        return looks_of(self.settings, self.records)

    @property
    def looked(self) -> Parts:
        """What all of them cost, however many are taken."""
        replaced = self.settings.adjacency == "replace-one"
        return [(each.as_replace_one() if replaced else each, count) for each, count in self.looks.releases()]

    def _step(self) -> Mechanism:
        base: Mechanism = Gaussian(noise_multiplier=self.settings.noise_multiplier)
        if self.settings.adjacency == "replace-one":
            base = base.as_replace_one()
        if self.settings.algorithm == "cgd":
            return OncePerEpoch(base=base)
        if not self._samples:
            return base
        if self.batches.allocated:
            return RandomlyAllocated(base=base, steps=self.batches.steps_per_epoch)
        sampled = FixedSizeSampled if self.batches.fixed_size else PoissonSampled
        return sampled(base=base, sampling_rate=self.batches.sampling_rate)

    @property
    def units(self) -> tuple[float, float]:
        """The clip and the noise in the units of logs and filters: norms, or shares of a step where the clip moves."""
        settings = self.settings
        if settings.clipping in FIXED:
            return settings.clip, settings.noise_multiplier * settings.clip
        return 1.0, settings.noise_multiplier

    @cached_property
    def rule(self) -> Rule | None:
        """What each record is charged: against the budget of the planned steps, or without limit for a log alone."""
        if self.settings.filter == "none" and not self.tracked:
            return None
        if self.settings.filter != "none":
            return self.budget
        clip, sigma = self.units
        if not self._samples:
            return unlimited("gdp", sigma=sigma, clip=clip)
        rate = self.batches.sampling_rate
        return unlimited("rdp", sigma=sigma, clip=clip, orders=self.budget.orders, sampling_rate=rate)

    @cached_property
    def budget(self) -> Rule:
        """The budget that the planned steps would spend on a record whose every gradient is clipped, as a rule."""
        (_, count), (clip, sigma) = self.releases()[0], self.units
        if self._samples:
            order, rho = self._best_order(count)
            rate = self.batches.sampling_rate
            return rdp_rule(sigma=sigma, clip=clip, orders=[order], rhos=[rho], sampling_rate=rate)
        kind = rdp_rule if self.settings.filter == "rdp" or self.settings.algorithm == "sgd" else gdp_rule
        return kind(sigma=sigma, clip=clip, norm_budget=count * clip * clip)

    def _best_order(self, count: int) -> tuple[float, float]:
        """The order at which the planned steps cost the least ε, and their RDP there, as they will be charged."""
        orders, noise, rate = np.array(_FILTER_ORDERS), self.settings.noise_multiplier, self.batches.sampling_rate
        costs = conversions.rdp_epsilons(orders, count * gaussian_rdp(orders, noise, rate), self.delta)
        best = float(orders[np.argmin(costs)])
        charged = SubsampledRenyi(orders=(best,), sampling_rate=rate)
        return best, count * float(charged.rdp(np.array([noise**-2.0]))[0, 0])

    def as_dict(self) -> dict[str, Any]:
        """Every field by name, as plain values: what a checkpoint holds and compares."""
        rule = self.rule
        charged: Mapping[str, Any] = {} if rule is None else {
            "filter_limits": list(rule.limits), "filter_orders": list(rule.orders), "filter_tolerance": rule.tolerance,
        }  # fmt: skip
        return {
            "delta": self.delta,
            "grid_runs": self.runs,
            "records": self.records,
            "logged": self.tracked,
            **self.settings.as_dict(),
            "slots": self.slots,
            **charged,
        }
