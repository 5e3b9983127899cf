"""A model and its data in place of the constants of the losses: what they are, why, and the request that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from dpcalc.asked import number, option, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Result, Section
from dpcalc.last_iterate.bound import CLIPPED, NOT_CONVEX
from dpcalc.last_iterate.losses import LinearLoss, LinearName, LossName, loss_of
from dpcalc.last_iterate.request import Request
from dpcalc.numbers import NON_NEGATIVE
from dpcalc.report import rounded_up

_MODEL = "A model, which gives the losses' constants"
_OF_A_MODEL = ("loss", "data", "classes", "feature_clip", "regularization")
_CONSTANTS = ("sensitivity", "strong_convexity", "smoothness")

ACTIVE = (
    "with {classes} classes a clip of {clip:g} changes gradients of norm up to {largest}, and clipped ones are not "
    "those of a convex loss, so the answer is composition; a clip of {largest} never acts"
)
OWN_NORMS = (
    "A norm that is read off the records is a secret of theirs, not a constant: nothing here rests on one, and "
    "choosing the feature clip after looking at them is not covered"
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is public of a data set: its size, its classes, and a norm that follows from its format alone."""

    records: int
    features: int
    classes: int
    reach: float | None = None


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """A linear model whose losses' constants are worked out from what is stated about it."""

    model: Annotated[
        LinearName | None,
        option("--model", help="Work out L, M and m: logistic, or linear with a --loss.", panel=_MODEL),
    ] = None
    loss: Annotated[LossName | None, option("--loss", help="Of a linear model.", panel=_MODEL)] = None
    data: Annotated[
        str | None, option("--data", metavar="FILE", help="n and classes of this data, as in train.", panel=_MODEL)
    ] = None
    classes: Annotated[int | None, whole("--classes", help="Number of classes, without --data.", panel=_MODEL)] = None
    feature_clip: Annotated[
        float | None, number("--feature-clip", help="R: norm that features are brought to.", panel=_MODEL)
    ] = None
    regularization: Annotated[
        float,
        number("--regularization", help="λ, added after clipping.", allowed=NON_NEGATIVE, panel=_MODEL),
    ] = 0.0

    def idle(self) -> Mapping[str, str]:
        """What describes a model, without one."""
        return {} if self.model else dict.fromkeys(_OF_A_MODEL, "has no effect without `model`")

    def check_given(self, request: Request) -> None:
        """Raise for what has no effect, or says the same twice."""
        for name, reason in self.idle().items():
            if getattr(self, name):
                raise InputError(reason, where=name)
        if self.model is None:
            return
        twice = [name for name in _CONSTANTS if getattr(request, name) is not None]
        if twice:
            raise InputError("follows from `model`: leave it out", where=twice[0])
        if self.data is not None and self.classes is not None:
            raise InputError("the data has its own: leave it out", where="classes")

    def losses(self, found: Found | None, diameter: float | None) -> LinearLoss:
        """The losses of the model, with a norm of the features that is public."""
        assert self.model is not None
        classes = self.classes if found is None else found.classes
        if classes is None:
            raise InputError("is needed, or `data` to read it from", where="classes")
        reach = self.feature_clip if self.feature_clip is not None or found is None else found.reach
        if reach is None:
            raise InputError(
                f"is needed: the norm of a record's features, stated beforehand; {OWN_NORMS}", where="feature_clip"
            )
        return LinearLoss(
            loss=loss_of(self.model, self.loss),
            classes=classes,
            reach=reach,
            regularization=self.regularization,
            radius=None if diameter is None else diameter / 2,
        )


def request_of(request: Request, losses: LinearLoss, found: Found | None) -> Request:
    """The request with the constants of these losses; without convexity where a clip that acts has taken it away."""
    if found is not None:
        if request.n not in (None, found.records):
            raise InputError(f"the data has {found.records} records, got {request.n}", where="n")
        request = replace(request, n=found.records)
    if request.clip is None:
        if not math.isfinite(losses.gradient):
            raise InputError("is needed: nothing else bounds the gradients of this loss (or `diameter`)", where="clip")
        request = replace(request, sensitivity=request.clips_apart * losses.gradient)
    if is_unproved(request, losses):
        return replace(request, strong_convexity=None, smoothness=None, diameter=None)
    return replace(request, strong_convexity=losses.regularization, smoothness=losses.smoothness)


def is_unproved(request: Request, losses: LinearLoss) -> bool:
    """Whether the clip may act on gradients that it does not leave gradients of convex losses."""
    return request.clip is not None and losses.acts(request.clip) and not losses.one_score


def explained(result: Result, request: Request, losses: LinearLoss, *, norms: str) -> Result:
    """The result with every constant and its reason; `norms` says where R comes from, and whether it is public."""
    section = Section(
        title="Constants of the losses",
        columns=("", "value", "because"),
        rows=losses.explained(request.clip, request.clips_apart),
        note=f"R is {norms}",
    )
    details: dict[str, Any] = {**result.details, "losses": losses.as_dict() | {"feature_norm_is": norms}}
    guarantee = result.guarantee
    assert guarantee is not None
    if is_unproved(request, losses):
        largest = rounded_up(losses.gradient)
        active = ACTIVE.format(classes=losses.classes, clip=request.clip, largest=largest)
        # The convexity that was stated is what the clip takes away: nobody left it out.
        others = tuple(warning for warning in guarantee.warnings if warning != NOT_CONVEX)
        guarantee = replace(guarantee, warnings=others).with_warnings(active)
    else:
        kept = (line for line in guarantee.assumptions if line != CLIPPED)
        guarantee = replace(guarantee, assumptions=(*kept, *losses.assumptions()))
    return replace(result, sections=(*result.sections, section), details=details, guarantee=guarantee)
