"""What `exp-mech` answers with: the best bound against the textbook's, and all of them where there are more."""

from __future__ import annotations

import math

from dpcalc.guarantee import Result, Section
from dpcalc.last_iterate.exponential_mechanism import BOUNDED_RANGE, CLASSICAL, GDP, GDP_BOUNDED
from dpcalc.last_iterate.sampling import Comparison
from dpcalc.last_iterate.sampling_request import SamplingRequest
from dpcalc.report import rounded_up

NAMES = {
    GDP: "Gaussian",
    GDP_BOUNDED: "Gaussian, by the diameter",
    BOUNDED_RANGE: "bounded range",
    CLASSICAL: "textbook",
}


def sampling_result(request: SamplingRequest, comparison: Comparison) -> Result:
    """The answer with its μ, what the textbook gives, and every bound if there was a choice."""
    guarantee, classical = comparison.guarantee, comparison.classical_epsilon
    ranked = sorted(comparison.bounds, key=lambda entry: (entry["name"] != comparison.winner, entry["epsilon"]))
    rows = tuple(
        (NAMES[each["name"]], each["epsilon"], each["mu"], str(each["theorem"]).partition(": ")[0]) for each in ranked
    )
    table = Section(title="", columns=("bound", "ε", "μ", "by"), rows=rows, leads=True)
    return Result(
        command="exp-mech",
        guarantee=guarantee,
        details={
            "request": request.stored(),
            "classical_epsilon": classical,
            "winner": comparison.winner,
            "bounds": list(comparison.bounds),
        },
        qualifier="" if guarantee.mu is None else f" (μ = {rounded_up(guarantee.mu)})",
        aside=_against(guarantee.epsilon, classical),
        sections=(table,) if len(rows) > 2 else (),
    )


def _against(epsilon: float | None, classical: float) -> str:
    """The textbook's bound beside ours."""
    if not math.isfinite(classical):
        return "the textbook gives no finite ε"
    if epsilon is not None and epsilon < classical * (1 - 1e-9):
        return f"the textbook gives {rounded_up(classical)}"
    return f"the textbook's {rounded_up(classical)} is not improved"
