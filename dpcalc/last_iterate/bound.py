"""One bound on the privacy of the last iterate: which theorem, what it gives, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Subsampled:
    """C_p(G(μ)), composed `count` times (Bok et al., Definition 4.7)."""

    mu: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Bound:
    """G(μ) ⊗ C_p(G(μ_1))^{⊗k_1} ⊗ …, a bound on what the last iterate tells; ρ-zCDP where that is what is known.

    Without `subsampled` parts the bound is plain μ-GDP. `conditions` are the preconditions, all of them checked;
    `optimal` says that some losses attain the bound.
    """

    name: str
    theorem: str
    conditions: tuple[str, ...]
    mu: float = 0.0
    subsampled: tuple[Subsampled, ...] = ()
    rho: float | None = None
    tau: int | None = None
    tau_unit: Literal["steps", "epochs"] = "steps"
    optimal: bool = False


COMPOSITION = "composition"
SHIFTED = "shifted-interpolation"
OPTIMAL_SHIFTS = "optimal-shifts"
RDP = "rdp"

# What must hold of clipped gradients; where the model is known, it is known too.
CLIPPED = "clipped gradients are gradients of such losses (those of softmax may not be)"

NOT_CONVEX = (
    "no convexity information (strong convexity m, 0 for merely convex losses, or diameter D): "
    "the answer is composition, which pays for every step as if all iterates were released"
)
