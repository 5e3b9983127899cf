"""The answer to a request: every bound, the best one as a guarantee, and what the reader should know about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcalc import conversions
from dpcalc.guarantee import Guarantee
from dpcalc.last_iterate import course
from dpcalc.last_iterate.bound import COMPOSITION, NOT_CONVEX
from dpcalc.last_iterate.evaluate import Evaluated, best_of, bounds_of, evaluate
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.stochastic import central_limit_mu, most_promising

_COARSE = 1e-3  # relative precision of the bounds that are only there for comparison
_NO_PRIVACY = 1e6  # a μ beyond which the central limit has nothing to say


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """All bounds of one run with their ε, and the best of them."""

    request: Request
    setting: Setting
    evaluated: Sequence[Evaluated]
    best: Evaluated

    @property
    def guarantee(self) -> Guarantee:
        """The best bound, with the warnings that belong to it."""
        return self.best.guarantee.with_warnings(*self._warnings())

    @property
    def epsilon(self) -> float:
        """ε of the best bound."""
        epsilon = self.best.guarantee.epsilon
        return math.inf if epsilon is None else epsilon

    def details(self) -> dict[str, Any]:
        """`details` of the contract, with the units spelled out."""
        setting, bound = self.setting, self.best.bound
        details: dict[str, Any] = {
            "algorithm": setting.algorithm,
            "steps": setting.steps,
            "sigma": setting.sigma,
            "noise_over_sensitivity": setting.noise_over_sensitivity,
            "sensitivity": setting.sensitivity,
            "batch_size": setting.batch,
            "contraction": setting.contraction.factor if setting.is_convex else None,
            "tau": bound.tau,
            "best": bound.name,
            "bounds": [each.row() for each in self.evaluated],
            "request": self.request.stored(),
        }
        if (clip := self.request.clip) is not None:
            details |= {"clip": clip, "noise_multiplier": self.request.clips_apart * setting.noise_over_sensitivity}
        if setting.algorithm != "sgd":
            details["epochs"] = setting.epochs
        if setting.is_poisson:
            details |= {"largest_batch": setting.largest_batch, "overflow": setting.overflow}
        elif bound.subsampled:
            details["clt"] = self._central_limit()
        return details

    def _central_limit(self) -> Mapping[str, Any]:
        setting, bound = self.setting, self.best.bound
        terms = [central_limit_mu(part.mu, setting.sampling_rate, part.count) for part in bound.subsampled]
        mu = math.hypot(bound.mu, *terms)
        epsilon = float(conversions.gdp_epsilon(mu, self.request.delta)) if mu < _NO_PRIVACY else math.inf
        return {"mu": mu, "epsilon": epsilon, "guarantee": "approximate"}

    def _warnings(self) -> list[str]:
        setting, found = self.setting, []
        if not setting.is_convex:
            found.append(NOT_CONVEX)
        if setting.strong_convexity and not setting.strongly_convex:
            found.append(
                f"η = {setting.learning_rate:g} is 2/M, where steps need not contract: strong convexity is not used"
            )
        if setting.algorithm == "cgd" and setting.steps % setting.batches:
            found.append(
                f"t = {setting.steps} is not a whole number of epochs of {setting.batches} batches; "
                f"accounted for as {setting.epochs} epochs, since some records are used that often"
            )
        if self.best.bound.name == COMPOSITION and len(self.evaluated) > 1:
            found.append("composition is the best bound here: the run is too short for the last-iterate bounds to pay")
        return found


def analyse(request: Request, *, tolerance: float = 1e-4, only_best: bool = False) -> Analysis:
    """Every bound for the request, with certified ε at its δ; `only_best` certifies the most promising one alone."""
    setting = request.setting()
    if request.schedule is not None:
        bounds = course.bounds(setting, request.schedule, request.delta)
    else:
        bounds = bounds_of(setting, request.delta)
    favourite = most_promising(bounds, setting.sampling_rate, request.delta)
    if only_best:
        bounds = [favourite]
    evaluated = [
        evaluate(setting, bound, delta=request.delta, tolerance=tolerance if bound is favourite else _COARSE)
        for bound in bounds
    ]
    return Analysis(request=request, setting=setting, evaluated=evaluated, best=best_of(evaluated))
