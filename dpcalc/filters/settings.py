"""What a run of a filter does with its log."""

from __future__ import annotations

from dataclasses import dataclass

from dpcalc.filters.names import Mode, Scope
from dpcalc.filters.rule import Rule


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run does with its log."""

    rule: Rule
    mode: Mode = "drop"
    scope: Scope = "individual"
    odometer: float | None = None
    groups: dict[str, str] | None = None
    resumable: bool = False
    # The columns of the log beside its value. Norms beside a sigma are clipped before they are divided by it.
    beside: tuple[str, ...] = ()
    clip_before_noise: float | None = None
    # A run that is over: nobody is left out in hindsight, and the sums are held against this budget, if there is one.
    finished: bool = False
    budget: Rule | None = None
    # The μ and the δ of a budget that everybody's curve under sampling is held against.
    dominating: tuple[float, float] | None = None
    # The δ and the r of a bound that holds at all times; both are fixed beforehand.
    anytime: tuple[float, float] | None = None

    @property
    def rows_state_noise(self) -> bool:
        """Whether the log states the noise of each step."""
        return "sigma" in self.beside

    @property
    def sampling_rate(self) -> float | None:
        """The Poisson rate, if the rule samples."""
        return None if self.rule.subsampled is None else self.rule.subsampled.sampling_rate
