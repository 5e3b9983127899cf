"""Last-iterate bounds for the trainer: when a regularised logistic model meets their conditions, and what they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee
from dpcalc.last_iterate.bound import COMPOSITION
from dpcalc.last_iterate.setting import Setting
from dpcalc.training.plan import Plan
from dpcalc.training.settings import Settings
from dpcalc.training.sums import TILE, margin

CLIPPED = (
    "the last-iterate bound takes clipped gradients for gradients of convex, smooth losses, as Bok et al. (§D.2) do; "
    "with more than two classes, or with labels that go together, and an active clip this is not proved, so the bound "
    "is labelled approximate"
)

ROUNDED = (
    "the last-iterate bound is proved for exact gradient steps; that they are computed in single precision is not "
    "counted in it, so it is labelled numerical"
)


@dataclass(frozen=True, kw_only=True)
class LastIterate:
    """One bound: its guarantee, why that is not certified, and its row in `details.bounds`."""

    guarantee: Guarantee
    reason: str
    row: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LastIterates:
    """The bounds that apply, or the reasons why none does (empty where nobody would expect one)."""

    guarantees: tuple[LastIterate, ...] = ()
    reasons: tuple[str, ...] = ()


def last_iterate_bounds(plan: Plan, *, classes: int, steps: int | None) -> LastIterates:
    """Every last-iterate bound of `sgd-bound` for this run, under replace-one with L = 2·clip."""
    settings = plan.settings
    if settings.model != "logistic" or settings.regularization == 0 or settings.filter != "none":
        return LastIterates()
    missing = _missing(settings)
    if missing:
        return LastIterates(reasons=(f"the last-iterate bound is not given: {missing}",))
    from dpcalc.last_iterate.evaluate import bounds_of

    try:
        setting = _setting(plan, steps)
        found = [bound for bound in bounds_of(setting, plan.delta) if bound.name != COMPOSITION and bound.rho is None]
    except InputError as error:
        return LastIterates(reasons=(f"the last-iterate bound is not given: {error}",))
    proved = classes == 2 or settings.clip >= largest_gradient(settings) * (1 + margin(TILE, plan.slots)) * (1 + 2e-6)
    return LastIterates(guarantees=tuple(_evaluated(setting, bound, plan, proved) for bound in found))


def _missing(settings: Settings) -> str:
    if settings.clipping != "fixed" or settings.optimizer != "sgd" or settings.momentum:
        return "it needs a fixed clip and plain descent (--clipping fixed, --optimizer sgd, no momentum)"
    if settings.keep_best:
        return "earlier iterates are looked at as well (--keep-best)"
    if settings.feature_clip is None:
        return "the smoothness of the loss is not known without --feature-clip"
    if settings.algorithm == "sgd" and settings.adjacency == "add-remove":
        return "it needs batches of fixed size, which sgd draws under --adjacency replace-one"
    return ""


def squared_input(settings: Settings) -> float:
    """The largest squared norm of a record with its constant 1: R² + 1."""
    assert settings.feature_clip is not None
    return settings.feature_clip**2 + 1


def largest_gradient(settings: Settings) -> float:
    """‖x‖·‖p − y‖ ≤ √(R² + 1)·√2: a clip above this, and above what rounding takes off it, never acts."""
    return math.sqrt(2 * squared_input(settings))


def _setting(plan: Plan, steps: int | None) -> Setting:
    settings, batch_size = plan.settings, plan.batches.batch_size
    return Setting(
        algorithm=settings.algorithm,
        learning_rate=settings.rate,
        sigma=settings.noise_multiplier * settings.clip / batch_size,
        sensitivity=2 * settings.clip,
        dataset_size=plan.records,
        steps=plan.planned_steps if steps is None else steps,
        batch_size=None if settings.algorithm == "gd" else batch_size,
        strong_convexity=settings.regularization,
        # The Hessian of the cross-entropy in the scores has norm at most 1/2.
        smoothness=squared_input(settings) / 2 + settings.regularization,
    )


def _evaluated(setting: Setting, bound: Any, plan: Plan, proved: bool) -> LastIterate:
    from dpcalc.accounting.compose import compose
    from dpcalc.last_iterate.evaluate import evaluate, mechanisms_of

    guarantee = evaluate(setting, bound, delta=plan.delta).guarantee
    if plan.runs > 1:
        together = compose([(m, count * plan.runs) for m, count in mechanisms_of(setting, bound)], delta=plan.delta)
        guarantee = replace(together, theorem=guarantee.theorem, assumptions=guarantee.assumptions)
    guarantee = guarantee.as_weak_as("numerical" if proved else "approximate")
    row = {"name": bound.name, "theorem": bound.theorem, "mu": guarantee.mu, "epsilon": guarantee.epsilon}
    return LastIterate(
        guarantee=guarantee,
        reason=ROUNDED if proved else CLIPPED,
        row={**row, "adjacency": "replace-one", "guarantee": guarantee.status, "tau": bound.tau},
    )
