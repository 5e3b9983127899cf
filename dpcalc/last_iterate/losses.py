"""Losses of linear scores, with the constants that the last-iterate theorems ask for, each with its reason.

A record x with a constant 1 appended is x̃, of norm at most √(R² + 1) for features of norm R. It has a score θ_j·x̃ for
each class j, and its loss is a convex function of the scores. If that function has slope at most S and curvature at
most c, then the loss has a gradient of norm at most S·‖x̃‖ and is c·‖x̃‖²-smooth in θ, since its gradient is x̃ ⊗ (the
gradient in the scores) and its Hessian x̃x̃ᵀ ⊗ (the Hessian in the scores). The regulariser (λ/2)‖θ‖² is added after
clipping and is the same for all records: it adds λ to both convexity and smoothness, and nothing to the sensitivity.

`cross-entropy` is that of the softmax of all scores. The others are functions φ of one score u and a sign y = ±1: with
two classes u = (θ₁ − θ₀)·x̃/√2, with more one φ for each class, y = 1 for the own and −1 for the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dpcalc.errors import InputError
from dpcalc.rounding import up

LossName = Literal["cross-entropy", "logistic", "squared", "huber", "smoothed-hinge"]
LinearName = Literal["logistic", "linear"]


class _Shape(NamedTuple):
    """Slope and curvature of a loss in its scores, and why they are no larger."""

    slope: float
    curvature: float
    why_slope: str
    why_curvature: str


_SHAPES: dict[LossName, _Shape] = {
    "cross-entropy": _Shape(
        math.sqrt(2), 0.5, "‖p − e_y‖² ≤ 2(1 − p_y)² ≤ 2", "rows of diag(p) − ppᵀ sum to 2p(1 − p) ≤ 1/2"
    ),
    "logistic": _Shape(1, 0.25, "|φ′| = 1/(1 + e^(yu)) ≤ 1", "φ″ = p(1 − p) ≤ 1/4"),
    "squared": _Shape(math.inf, 1, "φ′ = u − y has no bound", "φ″ = 1"),
    "huber": _Shape(1, 1, "φ′ = u − y, held within ±1", "φ″ is 0 or 1"),
    "smoothed-hinge": _Shape(1, 1, "|φ′| = 1 − yu, held within 0 and 1", "φ″ is 0 or 1"),
}


@dataclass(frozen=True, kw_only=True)
class LinearLoss:
    """A loss of linear scores on records whose features have at most the norm `reach`, R.

    Parameters are within `radius` of 0 where they are projected. All numbers are upper bounds.
    """

    loss: LossName
    classes: int
    reach: float
    regularization: float = 0.0
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise InputError(f"expected at least two classes, got {self.classes}", where="classes")

    @property
    def squared_input(self) -> float:
        """‖x̃‖² ≤ R² + 1."""
        return up(self.reach**2 + 1)

    @property
    def one_score(self) -> bool:
        """Whether the loss depends on one linear score: clipping its gradient gives that of a convex loss again."""
        return self.classes == 2

    @property
    def gradient(self) -> float:
        """The largest norm of a record's gradient: S·√(R² + 1); infinite if nothing bounds it."""
        return up(self._slope()[0] * math.sqrt(self.squared_input))

    @property
    def smoothness(self) -> float:
        """M = c·(R² + 1) + λ."""
        return up(self.curvature * self.squared_input + self.regularization)

    @property
    def curvature(self) -> float:
        """Of the loss in its scores."""
        return _SHAPES[self.loss].curvature

    def _slope(self) -> tuple[float, str]:
        """S and its reason. With several classes each has a φ of its own, and slopes add in squares."""
        shape, scores = _SHAPES[self.loss], 1 if self.one_score else self.classes
        if self.loss == "squared" and self.radius is not None:
            slope = self.radius * math.sqrt(self.squared_input) + math.sqrt(scores)
            return up(slope), f"‖u − y‖ ≤ ‖θ‖·√(R² + 1) + √{scores}, as ‖θ‖ ≤ {self.radius:g}"
        if self.loss == "cross-entropy" or scores == 1:
            return shape.slope, shape.why_slope
        return shape.slope * math.sqrt(scores), f"{shape.why_slope}, and {scores} scores"

    def acts(self, clip: float) -> bool:
        """Whether a clip at this norm may change a gradient."""
        return clip < self.gradient

    def explained(self, clip: float | None, apart: int) -> tuple[tuple[str, str, str], ...]:
        """Every constant with its value and its reason, for people."""
        slope, why = self._slope()
        own, whose = (self.gradient, "G") if clip is None else (clip, "the clip")
        rows = [
            ("R", self.reach, "norm of a record's features, at most; with the constant 1 it is √(R² + 1)"),
            ("G", self.gradient, f"norm of a gradient: {_short(slope)}·√(R² + 1), as {why}"),
            ("L", apart * own, f"what a record moves the sum by, at most: {'twice ' if apart > 1 else ''}{whose}"),
            ("M", self.smoothness, f"{_short(self.curvature)}·(R² + 1) + λ, as {_SHAPES[self.loss].why_curvature}"),
            ("m", self.regularization, "λ: the regulariser alone is strongly convex"),
        ]
        return tuple((name, f"{value:.6g}", reason) for name, value, reason in rows if math.isfinite(value))

    def assumptions(self) -> tuple[str, ...]:
        """What must hold of the run for these constants to be those of its losses."""
        features = f"features are brought to norm {self.reach:g} or less, a constant 1 is appended; {self.loss} loss"
        if self.loss == "squared" and self.radius is not None:
            return (features, f"the set of iterates is within {self.radius:g} of 0")
        return (features,)

    def as_dict(self) -> dict[str, Any]:
        """The constants by name."""
        gradient = self.gradient
        return {
            "loss": self.loss,
            "classes": self.classes,
            "feature_norm": self.reach,
            "largest_gradient": gradient if math.isfinite(gradient) else None,
            "smoothness": self.smoothness,
            "strong_convexity": self.regularization,
        }


def _short(value: float) -> str:
    return "√2" if value == math.sqrt(2) else f"{value:.4g}"


def loss_of(model: LinearName, loss: LossName | None) -> LossName:
    """The loss of a linear model; `logistic` is the one with the cross-entropy."""
    if model == "logistic":
        if loss not in (None, "cross-entropy"):
            raise InputError(f"the logistic model has the cross-entropy; for {loss} use `model=linear`", where="loss")
        return "cross-entropy"
    return loss or "cross-entropy"
