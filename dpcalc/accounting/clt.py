"""The central limit theorem for privacy losses: a quick approximation, labelled as one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcalc.accounting.pilot import fine_outline
from dpcalc.mechanisms.base import Mechanism


def approximate_mu(parts: Sequence[tuple[Mechanism, int]]) -> float:
    """√Σ count·Var(L), the larger of the two directions: the composition is close to a Gaussian of this μ.

    For many weak mechanisms the summed loss is near N(μ²/2, μ²) (Dong, Roth, Su 2022, Theorem 5). Not a bound.
    """
    return max(math.sqrt(sum(count * _variance(mechanism, index) for mechanism, count in parts)) for index in (0, 1))


def _variance(mechanism: Mechanism, index: int) -> float:
    sketch = fine_outline(mechanism.pairs()[index])
    mean = float(sketch.masses @ sketch.losses)
    return float(sketch.masses @ (sketch.losses - mean) ** 2)
