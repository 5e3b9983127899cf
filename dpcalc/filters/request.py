"""What is asked of `filter`, checked for contradictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dpcalc.asked import number, option, whole
from dpcalc.errors import InputError
from dpcalc.files import LIMIT
from dpcalc.filters.names import Engine, FilterKind, Mode, Scope
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, RATE, RENYI_ORDER

_NOISE = "Noise (for logs of norms)"
_LIMIT = "Budget (give one)"
_WHAT = "What to do"
_RUNNING = "Running and files"

_NO_PLD_FILTER = (
    "to stop when the composed curve so far passes (ε,δ) is unsound: curves cross, and steps chosen by the outcome "
    "pass between them (each of two compositions has δ(4) = 0.0184, the choice among them 0.0285); use gdp, rdp or dp"
)
_NEEDS_DELTA = "an ε budget needs its δ: give `epsilon` and `delta`"
_NO_SAMPLING = {
    "gdp": "the GDP filter is proved for Gaussian steps without sampling: no finite μ makes a subsampled step "
    "Gaussian; use `filter=rdp`, which filters on the subsampled RDP",
    "dp": "`filter=dp` takes the ε of each step as it is, sampling included",
}


def _but_pld(text: str) -> str:
    if text == "pld":
        raise ValueError(_NO_PLD_FILTER)
    return text


@dataclass(frozen=True, kw_only=True)
class Request:
    """The filter, its noise and its budget, as the user states them."""

    kind: Annotated[FilterKind, option("--filter", help="What is added up.", parse=_but_pld, panel=_WHAT)]
    sigma: Annotated[float | None, number("--sigma", help="Noise on the sum (standard deviation).", panel=_NOISE)] = (
        None
    )
    noise_multiplier: Annotated[
        float | None, number("--noise-multiplier", help="Noise on the sum, relative to --clip.", panel=_NOISE)
    ] = None
    clip: Annotated[float | None, number("--clip", help="Norms above C count as C.", panel=_NOISE)] = None
    mu: Annotated[float | None, number("--mu", help="B-GDP.", panel=_LIMIT)] = None
    epsilon: Annotated[float | None, number("--epsilon", help="(ε,δ)-DP, with --delta.", panel=_LIMIT)] = None
    delta: Annotated[
        float | None, number("--delta", help="δ at which to give ε, strictly between 0 and 1.", allowed=PROBABILITY)
    ] = None
    steps_delta: Annotated[
        float | None,
        number("--steps-delta", help="Part of δ for the steps' own δ (half).", allowed=PROBABILITY, panel=_LIMIT),
    ] = None
    norm_budget: Annotated[float | None, number("--norm-budget", help="Largest Σ‖g‖² of a record.", panel=_LIMIT)] = (
        None
    )
    orders: Annotated[
        tuple[float, ...],
        number("--order", help="RDP order; repeatable.", allowed=RENYI_ORDER, panel=_LIMIT, repeated=True),
    ] = ()
    rhos: Annotated[
        tuple[float, ...], number("--rho", help="RDP budget at that --order.", panel=_LIMIT, repeated=True)
    ] = ()
    scope: Annotated[
        Scope, option("--scope", help="A budget for each record, or one for the whole run.", panel=_WHAT)
    ] = "individual"
    mode: Annotated[Mode, option("--mode", help="Leave a record out, or clip it to what it has left.", panel=_WHAT)] = (
        "drop"
    )
    sample_rate: Annotated[
        float | None, number("--sample-rate", help="Poisson sampling rate (--filter rdp).", allowed=RATE, panel=_WHAT)
    ] = None
    odometer: Annotated[
        float | None, number("--odometer", help="Also track the loss in stretches of WIDTH (μ or ρ).", panel=_WHAT)
    ] = None
    anytime: Annotated[
        float | None, number("--anytime", help="Also bound ε at all times at once, with this r.", panel=_WHAT)
    ] = None
    finished: Annotated[bool, option("--finished", help="The run is over: did everybody stay within?", panel=_WHAT)] = (
        False
    )
    groups: Annotated[
        Path | None, option("--groups", help="CSV id,group: the same for each subgroup.", panel=_WHAT)
    ] = None
    state: Annotated[
        Path | None, option("--state", help="Continue from FILE if it is there, and save to it.", panel=_RUNNING)
    ] = None
    first_step: Annotated[
        int | None,
        whole("--first-step", help="Number of an array's first row (0).", allowed=NON_NEGATIVE, panel=_RUNNING),
    ] = None
    engine: Annotated[Engine, option("--engine", help="local, or dask for tables.", panel=_RUNNING)] = "local"
    scheduler: Annotated[
        str | None,
        option("--scheduler", metavar="URL", help="Address of a Dask scheduler; default: a local one.", panel=_RUNNING),
    ] = None
    read_limit: Annotated[
        int, whole("--read-limit", help="Bytes that reading a file may take, if it has fewer.", panel=_RUNNING)
    ] = LIMIT

    def __post_init__(self) -> None:
        for where, wrong, words in self._contradictions():
            if wrong:
                raise InputError(words, where=where)

    def _contradictions(self) -> list[tuple[str, object, str]]:
        """Options that do not go together: where, whether they were given, and what is the matter."""
        individual, local = self.scope == "individual", self.engine == "local"
        for_individuals = self.mode == "clip" or self.groups or self.sample_rate is not None
        needs_local = self.odometer is not None or not individual
        return [
            ("sample_rate", self.sample_rate is not None and self.kind != "rdp", _NO_SAMPLING.get(self.kind, "")),
            (
                "noise_multiplier",
                self.noise_multiplier is not None and (self.clip is None or self.sigma is not None),
                "expected `noise_multiplier` with `clip` and without `sigma`",
            ),
            ("rho", self.rhos and not self.orders, "expected `order` with `rho`: RDP is stated at an order"),
            ("order", self.orders and self.kind == "gdp", "`order` and `rho` belong to `filter=rdp`"),
            (
                "scope",
                not individual and for_individuals,
                "`mode=clip`, `groups` and `sample_rate` are for `scope=individual`",
            ),
            ("engine", not local and needs_local, "`odometer` and `scope=global` need `engine=local`"),
            ("scheduler", local and self.scheduler, "a scheduler is for `engine=dask`"),
            ("epsilon", self.epsilon is not None and self.delta is None, _NEEDS_DELTA),
            (
                "mu",
                self.mu is not None and self.sample_rate is not None and not (self.finished and self.delta),
                "under sampling a dominating μ is fitted to a run that is over: give `finished` and `delta`, or filter "
                "with `epsilon` and `delta`",
            ),
            ("finished", self.finished and self.mode == "clip", "a run that is over is not clipped in hindsight"),
            ("anytime", self.anytime is not None and self.delta is None, "an odometer for all times needs `delta`"),
            (
                "steps_delta",
                self.steps_delta is not None and self.delta is None,
                "it is a part of `delta`: give both",
            ),
        ]

    @property
    def noise(self) -> float | None:
        """The noise on the sum."""
        if self.noise_multiplier is not None and self.clip is not None:
            return self.noise_multiplier * self.clip
        return self.sigma

    @property
    def dominating(self) -> tuple[float, float] | None:
        """The μ and the δ of a budget for curves under sampling, if that is asked for."""
        if self.sample_rate is None or self.mu is None or self.delta is None:
            return None
        return self.mu, self.delta

    @property
    def has_budget(self) -> bool:
        """Whether any budget was given."""
        return any(given is not None for given in (self.mu, self.epsilon, self.norm_budget, self.rhos or None))
