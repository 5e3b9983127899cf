"""The μ, ρ and Rényi divergences that a result states beside its (ε,δ), against those of its mechanisms in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from flint import arb

from dpcalc.referee import renyi
from dpcalc.referee.bases import base_of
from dpcalc.referee.runs import LAST_DIGITS

_ATTAINED = ("gaussian", "gdp", "laplace", "zcdp", "dp", "randomized-response")
"""Types whose divergences in `renyi` some data and mechanism of them have."""


def compared(result: Mapping[str, Any]) -> Iterator[tuple[str, float, arb, bool]]:
    """What is stated: its name, its value, a value that follows from the mechanisms, and whether no smaller one does.

    Only what can be worked out is named.
    """
    entries, adjacency = result.get("mechanisms") or (), str(result.get("adjacency"))
    if not entries:
        return
    attained = all(str(entry.get("type")) in _ATTAINED for entry in entries)
    if result.get("mu") is not None and (square := _square(entries)) is not None:
        yield "μ", float(result["mu"]), square.sqrt(), True
    if result.get("rho") is not None and (rho := _added(entries, adjacency, None)) is not None:
        yield (
            "ρ",
            float(result["rho"]),
            rho,
            all(str(entry["type"]) in ("gaussian", "gdp", "zcdp") for entry in entries),
        )
    for row in result.get("rdp") or ():
        order, value = float(row["order"]), row["epsilon"]
        if value == "inf" or math.isinf(float(value)):
            continue
        if (total := _added(entries, adjacency, order)) is not None:
            yield f"the Rényi divergence of order {order:g}", float(value), total, attained


def decided(value: float, follows: arb, least: bool) -> Literal["confirmed", "contradicted"] | None:
    """The verdict on a stated value; None if it is less than what is known here to follow, and more may be true."""
    if follows <= value * (1 + LAST_DIGITS):
        return "confirmed"
    return "contradicted" if least and follows > value * (1 + LAST_DIGITS) else None


def _square(entries: Any) -> arb | None:
    """Σμ² of Gaussians without a sampler."""
    total = arb(0)
    for entry in entries:
        if entry.get("sampling") or entry.get("type") not in ("gaussian", "gdp"):
            return None
        base = base_of(entry)
        assert base is not None
        assert base.mu is not None
        total += int(entry.get("count", 1)) * base.mu**2
    return total


def _added(entries: Any, adjacency: str, order: float | None) -> arb | None:
    """The divergence of an order of all entries together, or without an order their ρ."""
    total = arb(0)
    for entry in entries:
        one = _rho(entry) if order is None else renyi.divergence(entry, adjacency, arb(order))
        if one is None:
            return None
        total += int(entry.get("count", 1)) * one
    return total


def _rho(entry: Mapping[str, Any]) -> arb | None:
    if entry.get("sampling") or entry.get("type") not in (
        "gaussian",
        "gdp",
        "zcdp",
        "discrete-gaussian",
        "exponential",
    ):
        return None
    return renyi.divergence(entry, "add-remove", arb(1))
