"""`dpcalc exp-mech`: the exponential mechanism and the Langevin chains that sample from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc.asked import Asked
from dpcalc.guarantee import Result, Section
from dpcalc.last_iterate.sampling_request import SamplingRequest
from dpcalc.report import rounded_up

if TYPE_CHECKING:
    from dpcalc.last_iterate.sampling import Comparison


@dataclass(frozen=True, kw_only=True)
class ExpMech(SamplingRequest, Asked):
    """Privacy of the exponential mechanism, exact or by Langevin sampling (Bok, Su, Altschuler 2024, section 5).

    The textbook bound is shown next to it, with the one that wins.
    """

    example: ClassVar[str] = "dpcalc exp-mech --lipschitz 1 --diameter 2 --delta 1e-5"

    def answer(self) -> Result:
        """Every bound that applies, the best first."""
        return _result(self, self.comparison())


def _result(request: SamplingRequest, comparison: Comparison) -> Result:
    rows = tuple(
        (
            entry["name"] + (" (best)" if entry["name"] == comparison.winner else ""),
            entry["theorem"],
            rounded_up(entry["mu"]),
            rounded_up(entry["epsilon"]),
            entry["note"],
        )
        for entry in comparison.bounds
    )
    columns = ("bound", "theorem", "μ", f"ε at δ = {comparison.guarantee.delta:g}", "note")
    details: dict[str, Any] = {
        "request": request.stored(),
        "classical_epsilon": comparison.classical_epsilon,
        "winner": comparison.winner,
        "bounds": list(comparison.bounds),
    }
    return Result(
        command="exp-mech",
        guarantee=comparison.guarantee,
        details=details,
        facts=(("compared", comparison.verdict),),
        sections=(Section(title="Bounds", columns=columns, rows=rows),),
    )
