"""`dpcalc exp-mech`: the exponential mechanism and the Langevin chains that sample from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpcalc.asked import Asked
from dpcalc.guarantee import Result
from dpcalc.last_iterate.sampling_request import SamplingRequest


@dataclass(frozen=True, kw_only=True)
class ExpMech(SamplingRequest, Asked):
    """Privacy of the exponential mechanism, exact or by Langevin sampling (Bok, Su, Altschuler 2024, section 5).

    The textbook bound is shown next to it, with the one that wins.
    """

    example: ClassVar[str] = "dpcalc exp-mech --lipschitz 1 --diameter 2 --delta 1e-5"

    def answer(self) -> Result:
        """Every bound that applies, the best first."""
        from dpcalc.last_iterate.sampling_result import sampling_result

        return sampling_result(self, self.comparison())
