"""What is asked of `filter`, checked for contradictions, and carried out on a log."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from dpcalc.errors import InputError
from dpcalc.files.reader import LIMIT, check_size, opened, reading, text_lines
from dpcalc.filters.filters import Mode
from dpcalc.filters.local import Log, run_log
from dpcalc.filters.logs.dense import DenseLog, open_dense
from dpcalc.filters.logs.long import open_long
from dpcalc.filters.logs.source import Source, open_source
from dpcalc.filters.mixture import ORDERS, DeltaSplit
from dpcalc.filters.rule import ROUNDING, FilterKind, Quantity, Rule, Scope, storage_tolerance
from dpcalc.filters.rules import dp_rule, gdp_rule, own_delta_split, rdp_rule, unlimited
from dpcalc.filters.run import Run, Settings
from dpcalc.guarantee import DEFAULT_ORDERS

Engine = Literal["local", "dask"]

# Bytes that a name and its group take.
_LISTED = 200

# Which columns a filter reads, best first; a bare list holds the last but is norms when the noise is given.
_QUANTITIES: dict[FilterKind, tuple[Quantity, ...]] = {
    "gdp": ("norm", "mu"),
    "rdp": ("norm", "mu", "rho"),
    "dp": ("epsilon",),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """The filter, its noise and its budget, as the user states them."""

    kind: FilterKind
    sigma: float | None = None
    noise_multiplier: float | None = None
    clip: float | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    norm_budget: float | None = None
    orders: tuple[float, ...] = ()
    rhos: tuple[float, ...] = ()
    scope: Scope = "individual"
    mode: Mode = "drop"
    odometer: float | None = None
    sample_rate: float | None = None
    groups: Path | None = None
    state: Path | None = None
    first_step: int | None = None
    engine: Engine = "local"
    scheduler: str | None = None
    steps_delta: float | None = None
    anytime: float | None = None
    finished: bool = False
    read_limit: int = LIMIT

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
            ("--sample-rate", self.sample_rate is not None and self.kind != "rdp", _NO_SAMPLING.get(self.kind, "")),
            (
                "--noise-multiplier",
                self.noise_multiplier is not None and (self.clip is None or self.sigma is not None),
                "expected --noise-multiplier with --clip and without --sigma",
            ),
            ("--rho", self.rhos and not self.orders, "expected --order with --rho: RDP is stated at an order"),
            ("--order", self.orders and self.kind == "gdp", "--order and --rho belong to --filter rdp"),
            (
                "--scope global",
                not individual and for_individuals,
                "--mode clip, --groups and --sample-rate are for --scope individual",
            ),
            ("--engine dask", not local and needs_local, "--odometer and --scope global need --engine local"),
            ("--scheduler", local and self.scheduler, "a scheduler is for --engine dask"),
            ("--epsilon", self.epsilon is not None and self.delta is None, _NEEDS_DELTA),
            ("--finished", self.finished and self.mode == "clip", "a run that is over is not clipped in hindsight"),
            ("--anytime", self.anytime is not None and self.delta is None, "an odometer for all times needs --delta"),
            (
                "--steps-delta",
                self.steps_delta is not None and self.delta is None,
                "it is a part of --delta: give both",
            ),
        ]

    @property
    def noise(self) -> float | None:
        """The noise on the sum."""
        if self.noise_multiplier is not None and self.clip is not None:
            return self.noise_multiplier * self.clip
        return self.sigma

    @property
    def has_budget(self) -> bool:
        """Whether any budget was given."""
        return any(given is not None for given in (self.mu, self.epsilon, self.norm_budget, self.rhos or None))

    def rule(self, quantity: Quantity, tolerance: float, beside: Sequence[str] = ()) -> Rule:
        """The rule for a log of this quantity, with these columns `beside` it, stored to this precision."""
        self._check_log(quantity, beside)
        noise, clip = (1.0, None) if "sigma" in beside else (self.noise, self.clip)
        common: dict[str, Any] = {"quantity": quantity, "tolerance": tolerance}
        if quantity == "norm":
            common |= {"sigma": noise, "clip": clip}
        several = "order" in beside
        if not self.has_budget and (self.odometer is not None or self.finished):
            orders = self.orders or (DEFAULT_ORDERS[:1] if self.sample_rate else ORDERS if several else ())
            return unlimited(self.kind, orders=orders, sampling_rate=self.sample_rate, **common)
        if "delta" not in beside:
            return self._limited(self.delta, several, common)
        split = self._split(tolerance)
        return self._limited(split.filter, several, common).with_split(split)

    def _limited(self, delta: float | None, several: bool, common: dict[str, Any]) -> Rule:
        if self.kind == "dp":
            if (
                self.epsilon is None
                or delta is None
                or self.mu is not None
                or self.norm_budget is not None
                or self.rhos
            ):
                raise InputError("the budget of --filter dp is --epsilon with --delta")
            return dp_rule(epsilon=self.epsilon, delta=delta, orders=self.orders, **common)
        budget: dict[str, Any] = {"mu": self.mu, "epsilon": self.epsilon, "norm_budget": self.norm_budget}
        budget["delta"] = delta
        if self.kind == "gdp":
            return gdp_rule(**budget, **common)
        orders: dict[str, Any] = {"orders": self.orders, "rhos": self.rhos, "several_orders": several}
        return rdp_rule(**budget, **orders, sampling_rate=self.sample_rate, **common)

    def _split(self, tolerance: float) -> DeltaSplit:
        """The parts of δ for the filter and for the δ of the steps: fixed beforehand, halves unless told otherwise."""
        if self.delta is None or not self.has_budget:
            raise InputError(
                "steps with a δ of their own need the whole δ and a budget: give --delta, and see --steps-delta"
            )
        return own_delta_split(self.delta, self.delta / 2 if self.steps_delta is None else self.steps_delta, tolerance)

    def _check_log(self, quantity: Quantity, beside: Sequence[str]) -> None:
        """What the log says and what the options say must not contradict each other, or be of no use."""
        if self.sample_rate is not None and (quantity != "norm" or "delta" in beside):
            raise InputError(
                "it needs a log of norms, without a δ of the steps: sampling changes that too", where="--sample-rate"
            )
        if quantity != "norm" and (self.noise is not None or self.clip is not None):
            raise InputError(f"it belongs to norms, but the log holds {quantity}", where="--sigma or --clip")
        if "sigma" in beside and (self.noise is not None or self.norm_budget is not None):
            raise InputError(
                "the log states the noise of each step: give no other, and no --norm-budget", where="column sigma"
            )
        if "delta" in beside and (self.mode == "clip" or self.odometer is not None or self.anytime is not None):
            raise InputError(
                "with steps that have a δ of their own, clipping and odometers are not proved", where="column delta"
            )
        if self.steps_delta is not None and "delta" not in beside:
            raise InputError("the log has no column delta", where="--steps-delta")


_NEEDS_DELTA = "an ε budget needs its δ: give --epsilon and --delta"
_NO_SAMPLING = {
    "gdp": "the GDP filter is proved for Gaussian steps without sampling: no finite μ makes a subsampled step "
    "Gaussian; use --filter rdp, which filters on the subsampled RDP",
    "dp": "--filter dp takes the ε of each step as it is, sampling included",
}


def carry_out(request: Request, name: str, *, advance: Callable[..., None] = lambda *_, **__: None) -> Run:
    """Pass the log through the filter that was asked for."""
    with open_source(name, limit=request.read_limit) as source:
        log = _open(request, source)
        settings = _settings(request, log)
        if request.engine == "dask":
            from dpcalc.filters.cluster import run_on_cluster

            return run_on_cluster(log, settings, scheduler=request.scheduler, state=request.state, advance=advance)
        return run_log(log, settings, state=request.state, first_step=request.first_step or 0, advance=advance)


def _settings(request: Request, log: Log) -> Settings:
    if isinstance(log, DenseLog):
        rule = request.rule(_bare_quantity(request), storage_tolerance(log.dtype))
        noisy = False
    else:
        if request.first_step is not None:
            raise InputError("it numbers the rows of an array; a table has its own steps", where="--first-step")
        if request.engine == "dask" and log.columns.beside:
            raise InputError(f"a column {log.columns.beside[0]} needs --engine local", where="--engine dask")
        rule = request.rule(cast(Quantity, log.columns.value), ROUNDING, log.columns.beside)
        noisy = "sigma" in log.columns.beside
    if request.anytime is not None and not rule.is_zcdp:
        raise InputError("it is proved for Gaussian and zCDP steps without sampling", where="--anytime")
    return Settings(
        rule=rule.without_limits() if request.finished else rule,
        mode=request.mode,
        scope=request.scope,
        odometer=request.odometer,
        groups=None if request.groups is None else read_groups(str(request.groups), request.read_limit),
        resumable=request.state is not None,
        rows_state_noise=noisy,
        clip_before_noise=request.clip if noisy else None,
        finished=request.finished,
        budget=rule if request.finished and rule.notion is not None else None,
        anytime=None if request.anytime is None or request.delta is None else (request.delta, request.anytime),
    )


def _open(request: Request, source: Source) -> Log:
    individual = request.scope == "individual"
    if source.format not in ("npy", "npz"):
        quantities = _QUANTITIES[request.kind]
        if not individual:
            first = _bare_quantity(request)
            quantities = (first, *(quantity for quantity in quantities if quantity != first))
        return open_long(source, quantities=quantities, individual=individual)
    log = open_dense(source)
    if not individual and log.shape[1] != 1:
        raise InputError(
            f"--scope global takes one parameter for each step, got an array of shape {log.shape}", where=source.name
        )
    return log


def _bare_quantity(request: Request) -> Quantity:
    """What numbers without a name are: norms where the noise is known, the filter's own parameter otherwise."""
    if request.kind != "dp" and request.noise is not None:
        return "norm"
    if request.scope == "individual":
        return _QUANTITIES[request.kind][0]
    return _QUANTITIES[request.kind][-1]


def read_groups(path: str, limit: int = LIMIT) -> dict[str, str]:
    """The group of each individual, from a CSV file with the columns id and group."""
    groups: dict[str, str] = {}
    with reading(path, "not CSV"), opened(path) as stream:
        reader = csv.reader(text_lines(stream, path))
        header = next(reader, [])
        if sorted(header) != ["group", "id"]:
            raise InputError(f"expected columns id,group, got {','.join(header)[:80]}", where=f"{path}:1")
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if len(row) != 2:
                if not row:
                    continue
                raise InputError(f"expected an id and a group, got {','.join(row)[:60]!r}", where=where)
            name, group = row if header[0] == "id" else reversed(row)
            if name in groups:
                raise InputError(f"individual {name[:60]} is listed twice", where=where)
            if not group:
                raise InputError(f"individual {name[:60]} has no group", where=where)
            groups[name] = group
            check_size(_LISTED * len(groups), limit, what=f"a list of {len(groups):,} individuals", where=path)
    return groups
