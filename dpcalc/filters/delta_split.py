"""Steps with a δ of their own beside a filter: δ in two parts that are fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

from dpcalc.errors import InputError
from dpcalc.rounding import UNIT


class DeltaSplit(NamedTuple):
    """δ in two parts, fixed beforehand: `filter` for the filter's own (ε,δ′), `steps` for the δ_t of the steps."""

    filter: float
    steps: float


def split_delta(delta: float, steps_share: float = 0.5) -> DeltaSplit:
    """A split of δ for steps that are ε_t-DP, ρ_t-zCDP or μ_t-GDP only up to a δ_t of their own.

    While Σδ_t ≤ δ″ and the rest of the steps passes a filter for (ε,δ′), the run is (ε, 1 − (1−δ′)(1−δ″))-DP.
    Proof: P = (1−δ_t)P′ + δ_tP″ and Q likewise (for (ε_t,δ_t)-DP: Kairouz, Oh, Viswanath 2015), so with W = Π(1−δ_t)
    along the path P ≥ WP′ and Q ≥ WQ′, and δ(ε) ≤ 1 − E_{P′}W(1 − (1−e^{ε−L′})₊) ≤ 1 − (1−δ″)(1−δ′). ∎
    (Whitehouse, Ramdas, Rogers, Wu 2023 for the sum of both.) To let the steps use what they like of δ and keep the
    rest for the filter is unsound: the two parts are then spent on different outcomes.
    """
    if not (0 < delta < 1 and 0 < steps_share < 1):
        raise InputError(f"expected δ and its share in (0, 1), got {delta} and {steps_share}")
    steps = delta * steps_share
    return DeltaSplit((delta - steps) / (1 - steps) * (1 - 8 * UNIT), steps)
