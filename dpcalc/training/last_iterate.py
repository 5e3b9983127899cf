"""Last-iterate bounds for the trainer: when a linear model meets their conditions, and what they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Guarantee, MuKind
from dpcalc.last_iterate.bound import CLIPPED as CONVEX_WHEN_CLIPPED
from dpcalc.last_iterate.bound import COMPOSITION
from dpcalc.last_iterate.course import with_rounding
from dpcalc.last_iterate.losses import LinearLoss
from dpcalc.last_iterate.setting import Setting
from dpcalc.report import rounded_up
from dpcalc.rounding import times_up
from dpcalc.training.names import LINEAR
from dpcalc.training.plan import Plan
from dpcalc.training.settings import Settings
from dpcalc.training.step_rounding import wobble
from dpcalc.training.sums import SPARSE, TILE, margin

CLIPPED = (
    "the last-iterate bound takes clipped gradients for gradients of convex, smooth losses, as Bok et al. (§D.2) do; "
    "with more than two classes, or with labels that go together, and an active clip this is not proved, so the bound "
    "is labelled approximate"
)

EXPONENTIALS = "exponentials in single precision are right to 25 units in the last place"

ROUNDED = (
    "the last-iterate bound is proved for exact gradient steps; that they are computed in single precision is not "
    "counted in it, so it is labelled numerical (one for a bounded domain and the last iterate alone counts it)"
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


def last_iterate_bounds(plan: Plan, *, classes: int, steps: int | None, certified: bool = False) -> LastIterates:
    """Every last-iterate bound of `sgd-bound` for this run: under replace-one, and under add-remove if it has that.

    Or only those that are `certified`, for searches in which no other decides anything.
    """
    settings = plan.settings
    expected = settings.regularization > 0 or settings.diameter is not None
    if settings.model not in LINEAR or not expected or settings.filter != "none":
        return LastIterates()
    missing = _missing(settings)
    if missing:
        return LastIterates(reasons=(f"the last-iterate bound is not given: {missing}",))
    from dpcalc.last_iterate.evaluate import bounds_of

    losses = losses_of(settings, classes)
    try:
        found = [
            (setting, bound)
            for adjacency in _neighbours(settings)
            for setting in [_setting(plan, losses, steps, adjacency)]
            for bound in bounds_of(setting, plan.delta)
            if bound.name != COMPOSITION and bound.rho is None
        ]
    except InputError as error:
        return LastIterates(reasons=(f"the last-iterate bound is not given: {error}",))
    reason = "" if losses.one_score or not acts(losses, plan) else _active(losses, plan)
    listed = [] if certified else [_evaluated(setting, bound, plan, reason) for setting, bound in found]
    if not reason and steps is None and classes:
        listed += _certified(plan, losses)
    return LastIterates(guarantees=tuple(listed))


def _certified(plan: Plan, losses: LinearLoss) -> list[LastIterate]:
    """The bounds that count what rounding does to every step, where that is known."""
    shaken = wobble(plan, losses)
    if shaken is None:
        return []
    settings = [_setting(plan, losses, None, adjacency) for adjacency in _neighbours(plan.settings)]
    bounds = [(setting, with_rounding(setting, shaken, plan.delta)) for setting in settings]
    return [_evaluated(setting, bound, plan, "", rounded=True) for setting, bound in bounds if bound is not None]


def _neighbours(settings: Settings) -> tuple[Adjacency, ...]:
    """Under which neighbours a bound is known: those of the run, and for batches that nothing draws replaced ones."""
    if settings.adjacency == "replace-one":
        return ("replace-one",)
    return ("add-remove",) if settings.algorithm == "sgd" else ("replace-one", "add-remove")


def _missing(settings: Settings) -> str:
    if settings.clipping != "fixed" or settings.optimizer != "sgd" or settings.momentum:
        return "it needs a fixed clip and plain descent (no learned clip, no Adam, no momentum)"
    if settings.keep_best or settings.validate_every is not None:
        return "an earlier iterate may be the one that is kept"
    if settings.feature_clip is None:
        return "the smoothness of the loss is not known without a clip of the features"
    if settings.sampling != "poisson":
        return "nothing is proved for random allocation, whose draws depend on each other"
    return ""


def losses_of(settings: Settings, classes: int) -> LinearLoss:
    """The losses of a linear model on features that are clipped.

    Labels that go together (no classes) have the mean of their logistic losses, with a slope of 1/√k and a curvature of
    1/(4k) in k scores: below those of the cross-entropy, which are used.
    """
    assert settings.feature_clip is not None
    return LinearLoss(
        loss=settings.loss,
        classes=classes or 3,
        reach=settings.feature_clip,
        regularization=settings.regularization,
        radius=None if settings.diameter is None else settings.diameter / 2,
    )


def acts(losses: LinearLoss, plan: Plan) -> bool:
    """Whether the clip, or what rounding takes off it, may change a gradient."""
    return losses.acts(plan.settings.clip / never_acting(plan))


def never_acting(plan: Plan) -> float:
    """How far above the largest gradient a clip must be so as never to act: gradients are brought to less than it."""
    together = SPARSE if plan.looks_at_everyone else 1
    return (1 + margin(TILE, plan.slots, together=together)) * (1 + 2e-6)


def _active(losses: LinearLoss, plan: Plan) -> str:
    never = losses.gradient * never_acting(plan)
    return CLIPPED + (f"; a clip of {rounded_up(never)} would never act" if math.isfinite(never) else "")


def _setting(plan: Plan, losses: LinearLoss, steps: int | None, adjacency: Adjacency) -> Setting:
    settings, batch_size = plan.settings, plan.batches.batch_size
    steps = plan.planned_steps if steps is None else steps
    return Setting(
        algorithm=settings.algorithm,
        learning_rate=settings.rate,
        sigma=settings.noise_multiplier * settings.clip / batch_size,
        sensitivity=settings.clip if adjacency == "add-remove" else 2 * settings.clip,
        dataset_size=plan.records,
        steps=steps,
        batch_size=None if settings.algorithm == "gd" else batch_size,
        strong_convexity=losses.regularization,
        smoothness=losses.smoothness,
        diameter=settings.diameter,
        adjacency=adjacency,
        largest_batch=plan.slots if plan.batches.has_random_size else None,
        overflow=min(1.0, times_up(plan.overflow, steps)),
    )


def _evaluated(setting: Setting, bound: Any, plan: Plan, unproved: str, *, rounded: bool = False) -> LastIterate:
    from dpcalc.accounting.compose import compose
    from dpcalc.last_iterate.evaluate import evaluate, mechanisms_of

    guarantee = evaluate(setting, bound, delta=plan.delta).guarantee
    if plan.runs > 1:
        together = compose([(m, count * plan.runs) for m, count in mechanisms_of(setting, bound)], delta=plan.delta)
        guarantee = replace(together, theorem=guarantee.theorem, assumptions=guarantee.assumptions)
    if rounded:
        kept = (line for line in guarantee.assumptions if line != CONVEX_WHEN_CLIPPED)
        kind: MuKind | None = None if guarantee.mu is None else "upper"
        guarantee = replace(guarantee, assumptions=(*kept, EXPONENTIALS), mu_kind=kind, epsilon_lower=None)
    else:
        guarantee = guarantee.as_weak_as("approximate" if unproved else "numerical")
    row = {"name": bound.name, "theorem": bound.theorem, "mu": guarantee.mu, "epsilon": guarantee.epsilon}
    return LastIterate(
        guarantee=guarantee,
        reason="" if rounded else unproved or ROUNDED,
        row={**row, "adjacency": setting.adjacency, "guarantee": guarantee.status, "tau": bound.tau},
    )
