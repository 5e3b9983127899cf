"""What is asked of `filter`, checked for contradictions, and carried out on a log."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpcalc.errors import InputError
from dpcalc.filters.filters import Mode
from dpcalc.filters.local import Log, run_log
from dpcalc.filters.logs.dense import DenseLog, open_dense
from dpcalc.filters.logs.long import open_long
from dpcalc.filters.logs.source import Source, open_source
from dpcalc.filters.rule import ROUNDING, FilterKind, Quantity, Rule, Scope, storage_tolerance
from dpcalc.filters.rules import dp_rule, gdp_rule, rdp_rule, unlimited
from dpcalc.filters.run import Run, Settings
from dpcalc.guarantee import DEFAULT_ORDERS

Engine = Literal["local", "dask"]

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
    first_step: int = 0
    engine: Engine = "local"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.sample_rate is not None and self.kind != "rdp":
            raise InputError(_NO_SAMPLING[self.kind], where="--sample-rate")
        if self.noise_multiplier is not None and (self.clip is None or self.sigma is not None):
            raise InputError("expected --noise-multiplier with --clip and without --sigma", where="--noise-multiplier")
        if self.rhos and not self.orders:
            raise InputError("expected --order with --rho: RDP is stated at an order", where="--rho")
        if self.scope == "global" and (self.mode == "clip" or self.groups or self.sample_rate is not None):
            raise InputError(
                "--mode clip, --groups and --sample-rate are for --scope individual", where="--scope global"
            )
        if self.engine == "dask" and (self.state or self.odometer is not None or self.scope == "global"):
            raise InputError("--state, --odometer and --scope global need --engine local", where="--engine dask")
        if self.epsilon is not None and self.delta is None:
            raise InputError("an ε budget needs its δ: give --epsilon and --delta", where="--epsilon")

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

    def rule(self, quantity: Quantity, tolerance: float) -> Rule:
        """The rule for a log of this quantity, stored to this precision."""
        noise = self.noise if quantity == "norm" else None
        clip = self.clip if quantity == "norm" else None
        if self.sample_rate is not None and quantity != "norm":
            raise InputError(f"--sample-rate needs a log of norms, got {quantity}")
        if not self.has_budget and self.odometer is not None:
            orders = self.orders or (DEFAULT_ORDERS[:1] if self.sample_rate else ())
            return unlimited(
                self.kind,
                quantity=quantity,
                sigma=noise,
                clip=clip,
                orders=orders,
                sampling_rate=self.sample_rate,
                tolerance=tolerance,
            )
        if self.kind == "dp":
            if self.epsilon is None or self.delta is None or self.mu is not None or self.norm_budget is not None:
                raise InputError("the budget of --filter dp is --epsilon with --delta")
            return dp_rule(epsilon=self.epsilon, delta=self.delta, quantity=quantity, tolerance=tolerance)
        if self.kind == "gdp":
            if self.orders:
                raise InputError("--order and --rho belong to --filter rdp", where="--order")
            return gdp_rule(
                quantity=quantity,
                sigma=noise,
                clip=clip,
                mu=self.mu,
                epsilon=self.epsilon,
                delta=self.delta,
                norm_budget=self.norm_budget,
                tolerance=tolerance,
            )
        return rdp_rule(
            quantity=quantity,
            sigma=noise,
            clip=clip,
            mu=self.mu,
            epsilon=self.epsilon,
            delta=self.delta,
            norm_budget=self.norm_budget,
            orders=self.orders,
            rhos=self.rhos,
            sampling_rate=self.sample_rate,
            tolerance=tolerance,
        )


_NO_SAMPLING = {
    "gdp": "the GDP filter is proved for Gaussian steps without sampling: no finite μ makes a subsampled step "
    "Gaussian; use --filter rdp, which filters on the subsampled RDP",
    "dp": "--filter dp takes the ε of each step as it is, sampling included",
}


def carry_out(request: Request, name: str, *, advance: Callable[..., None] = lambda *_, **__: None) -> Run:
    """Pass the log through the filter that was asked for."""
    with open_source(name) as source:
        log = _open(request, source)
        dense = isinstance(log, DenseLog)
        quantity: Quantity = _bare_quantity(request) if dense else log.columns.value  # type: ignore[union-attr,assignment]
        tolerance = storage_tolerance(log.dtype) if isinstance(log, DenseLog) else ROUNDING
        settings = Settings(
            rule=request.rule(quantity, tolerance),
            mode=request.mode,
            scope=request.scope,
            odometer=request.odometer,
            groups=None if request.groups is None else read_groups(request.groups),
            resumable=request.state is not None,
        )
        if request.engine == "dask":
            from dpcalc.filters.cluster import run_on_cluster

            return run_on_cluster(log, settings, scheduler=request.scheduler, advance=advance)
        return run_log(log, settings, state=request.state, first_step=request.first_step, advance=advance)


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


def read_groups(path: Path) -> dict[str, str]:
    """The group of each individual, from a CSV file with the columns id and group."""
    groups: dict[str, str] = {}
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if not {"id", "group"} <= set(reader.fieldnames or ()):
            raise InputError(f"expected columns id,group, got {','.join(reader.fieldnames or ())}", where=f"{path}:1")
        for row in reader:
            if row["id"] in groups:
                raise InputError(f"individual {row['id']} is listed twice", where=f"{path}:{reader.line_num}")
            if not row["group"]:
                raise InputError(f"individual {row['id']} has no group", where=f"{path}:{reader.line_num}")
            groups[row["id"]] = row["group"]
    return groups
