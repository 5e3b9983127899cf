"""The filter that was asked for, on a log."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any, cast

from dpcalc.errors import InputError
from dpcalc.files.reader import LIMIT, check_size, opened, reading, text_lines
from dpcalc.filters.delta_split import DeltaSplit
from dpcalc.filters.local import Log, run_log
from dpcalc.filters.logs.dense import DenseLog, open_dense
from dpcalc.filters.logs.long import open_long
from dpcalc.filters.logs.source import Source, open_source
from dpcalc.filters.mixture import ORDERS
from dpcalc.filters.names import FilterKind, Quantity
from dpcalc.filters.request import Request
from dpcalc.filters.rule import ROUNDING, Rule, storage_tolerance
from dpcalc.filters.rules import dp_rule, gdp_rule, own_delta_split, rdp_rule, unlimited
from dpcalc.filters.run import Run
from dpcalc.filters.settings import Settings
from dpcalc.guarantee import DEFAULT_ORDERS

# Bytes that a name and its group take.
_LISTED = 200

# Which columns a filter reads, best first; a bare list holds the last but is norms when the noise is given.
_QUANTITIES: dict[FilterKind, tuple[Quantity, ...]] = {
    "gdp": ("norm", "mu"),
    "rdp": ("norm", "mu", "rho"),
    "dp": ("epsilon",),
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
        return settings_of(request, _bare_quantity(request), storage_tolerance(log.dtype))
    if request.first_step is not None:
        raise InputError("it numbers the rows of an array; a table has its own steps", where="first_step")
    if request.engine == "dask" and log.columns.beside:
        words = f"a column {log.columns.beside[0]} needs `engine=local`: the shuffle moves one number an entry"
        raise InputError(words, where="engine")
    return settings_of(request, cast(Quantity, log.columns.value), ROUNDING, log.columns.beside)


def settings_of(request: Request, quantity: Quantity, tolerance: float, beside: Sequence[str] = ()) -> Settings:
    """What is done with a log of this quantity, with these columns `beside` it, stored to this precision."""
    rule = rule_of(request, quantity, tolerance, beside)
    if request.anytime is not None and not rule.is_zcdp:
        raise InputError("it is proved for Gaussian and zCDP steps without sampling", where="anytime")
    return Settings(
        rule=rule.without_limits() if request.finished else rule,
        mode=request.mode,
        scope=request.scope,
        odometer=request.odometer,
        groups=None if request.groups is None else read_groups(str(request.groups), request.read_limit),
        resumable=request.state is not None,
        beside=tuple(beside),
        clip_before_noise=request.clip if "sigma" in beside else None,
        finished=request.finished,
        dominating=request.dominating,
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
            f"`scope=global` takes one parameter for each step, got an array of shape {log.shape}", where=source.name
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


def rule_of(request: Request, quantity: Quantity, tolerance: float, beside: Sequence[str] = ()) -> Rule:
    """The rule for a log of this quantity, with these columns `beside` it, stored to this precision."""
    _check_log(request, quantity, beside)
    noise, clip = (1.0, None) if "sigma" in beside else (request.noise, request.clip)
    common: dict[str, Any] = {"quantity": quantity, "tolerance": tolerance}
    if quantity == "norm":
        common |= {"sigma": noise, "clip": clip}
    several = "order" in beside
    if request.dominating or (not request.has_budget and (request.odometer is not None or request.finished)):
        orders = request.orders or (DEFAULT_ORDERS[:1] if request.sample_rate else ORDERS if several else ())
        return unlimited(request.kind, orders=orders, sampling_rate=request.sample_rate, **common)
    if "delta" not in beside:
        return _limited(request, request.delta, several, common)
    split = _split(request, tolerance)
    return _limited(request, split.filter, several, common).with_split(split)


def _limited(request: Request, delta: float | None, several: bool, common: dict[str, Any]) -> Rule:
    if request.kind == "dp":
        if (
            request.epsilon is None
            or delta is None
            or request.mu is not None
            or request.norm_budget is not None
            or request.rhos
        ):
            raise InputError("the budget of `filter=dp` is `epsilon` with `delta`")
        return dp_rule(epsilon=request.epsilon, delta=delta, orders=request.orders, **common)
    budget: dict[str, Any] = {"mu": request.mu, "epsilon": request.epsilon, "norm_budget": request.norm_budget}
    budget["delta"] = delta
    if request.kind == "gdp":
        return gdp_rule(**budget, **common)
    orders: dict[str, Any] = {"orders": request.orders, "rhos": request.rhos, "several_orders": several}
    return rdp_rule(**budget, **orders, sampling_rate=request.sample_rate, **common)


def _split(request: Request, tolerance: float) -> DeltaSplit:
    """The parts of δ for the filter and for the δ of the steps: fixed beforehand, halves unless told otherwise."""
    if request.delta is None or not request.has_budget:
        raise InputError(
            "steps with a δ of their own need the whole δ and a budget: give `delta`, and see `steps_delta`"
        )
    return own_delta_split(
        request.delta, request.delta / 2 if request.steps_delta is None else request.steps_delta, tolerance
    )


def _check_log(request: Request, quantity: Quantity, beside: Sequence[str]) -> None:
    """What the log says and what the options say must not contradict each other, or be of no use."""
    if request.sample_rate is not None and (quantity != "norm" or "delta" in beside):
        raise InputError(
            "it needs a log of norms, without a δ of the steps: sampling changes that too", where="sample_rate"
        )
    if quantity != "norm" and (request.noise is not None or request.clip is not None):
        raise InputError(f"`sigma`, `clip`: belongs to norms, but the log holds {quantity}")
    if "sigma" in beside and (request.noise is not None or request.norm_budget is not None):
        raise InputError(
            "the log states the noise of each step: give no other, and no `norm_budget`", where="column sigma"
        )
    if "delta" in beside and (request.mode == "clip" or request.odometer is not None or request.anytime is not None):
        raise InputError(
            "with steps that have a δ of their own, clipping and odometers are not proved", where="column delta"
        )
    if request.steps_delta is not None and "delta" not in beside:
        raise InputError("the log has no column delta", where="steps_delta")
