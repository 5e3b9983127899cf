"""A result as plain data: the JSON object that scripts read, and the rows that people read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpcalc.guarantee import Guarantee, Result, Section
from dpcalc.version import __version__

SCHEMA = "dpcalc/1"

# Differences this small, relative to a value, are rounding in its last digits and not shown.
_NOISE = 1e-11


def to_json(result: Result) -> dict[str, Any]:
    """The JSON object of the contract: infinity is the string "inf", NaN never appears."""
    guarantee = result.guarantee
    limits = result.budget.limits()
    budget = {"within": not result.budget.exceeded(guarantee), **limits} if limits else None
    document: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "command": result.command,
            "version": __version__,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "epsilon_lower": guarantee.epsilon_lower,
            "epsilon_estimate": guarantee.epsilon_estimate,
            "mu": guarantee.mu,
            "mu_kind": guarantee.mu_kind,
            "rho": guarantee.rho,
            "rdp": [{"order": order, "epsilon": epsilon} for order, epsilon in guarantee.rdp],
            "adjacency": guarantee.adjacency,
            "sampler": guarantee.sampler,
            "guarantee": guarantee.status,
            "accountant": guarantee.accountant,
            "theorem": guarantee.theorem,
            "assumptions": list(guarantee.assumptions),
            "mechanisms": list(guarantee.mechanisms),
            "budget": budget,
            "warnings": list(guarantee.warnings),
            "details": dict(result.details),
        }
    )
    return document


def plain(value: Any) -> Any:
    """Only what JSON knows: NumPy values become Python's, tuples lists, infinity "inf"; NaN is a bug and raises."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("a result holds NaN")
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value


def rounded_up(value: float | None, digits: int = 6) -> str:
    """An upper bound to so many significant digits, never below the value."""
    return _rounded(value, digits, math.ceil)


def rounded_down(value: float | None, digits: int = 6) -> str:
    """A lower bound to so many significant digits, never above the value."""
    return _rounded(value, digits, math.floor)


def _rounded(value: float | None, digits: int, direction: Any) -> str:
    from fractions import Fraction

    if value is None:
        return "–"
    if value == 0 or math.isinf(value):
        return f"{value:g}".replace("inf", "∞")
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    unit = Fraction(10) ** exponent
    nearest = float(round(Fraction(value) / unit) * unit)
    if abs(value - nearest) <= _NOISE * abs(value):  # 0.72 that came out as 0.7200000000000001 is 0.72
        return f"{nearest:.{digits}g}"
    return f"{float(direction(Fraction(value) / unit) * unit):.{digits}g}"


def guarantee_rows(guarantee: Guarantee) -> list[tuple[str, str]]:
    """What a person reads first: each number with what it is and how far it can be trusted."""
    rows: list[tuple[str, str]] = []
    if guarantee.epsilon is not None and guarantee.delta is not None:
        at = f"δ = {rounded_up(guarantee.delta)}"
        rows.append((f"ε at {at}", f"{rounded_up(guarantee.epsilon)}{_precision(guarantee)}"))
    elif guarantee.epsilon is not None:
        rows.append(("ε", rounded_up(guarantee.epsilon)))
    if guarantee.mu is not None:
        rows.append(("μ-GDP", f"{rounded_up(guarantee.mu)} ({guarantee.mu_kind})"))
    if guarantee.rho is not None:
        rows.append(("ρ-zCDP", rounded_up(guarantee.rho)))
    shown = [(order, epsilon) for order, epsilon in guarantee.rdp if math.isfinite(epsilon)]
    if shown:
        wanted = [point for point in shown if point[0] in (2, 4, 8, 16, 32, 64)] or shown[:6]
        rows.append(("RDP ε at order α", ", ".join(f"{rounded_up(e, 4)} (α={a:g})" for a, e in wanted)))
    rows.append(("Neighbours", _NEIGHBOURS[guarantee.adjacency]))
    if guarantee.sampler != "none":
        rows.append(("Sampling", guarantee.sampler))
    rows.append(("Trust", _STATUS[guarantee.status]))
    rows.append(("Accountant", guarantee.accountant))
    rows.extend(("Theorem", theorem) for theorem in guarantee.theorem.split("; "))
    rows.extend(("Assumes", assumption) for assumption in guarantee.assumptions)
    return rows


_NEIGHBOURS = {
    "add-remove": "add-remove: one record is added or removed",
    "replace-one": "replace-one: one record is replaced by another",
}
_STATUS = {
    "certified": "certified: every error is counted",
    "numerical": "numerical: accurate, but its error is not bounded",
    "approximate": "approximate: do not publish it as a guarantee",
}


def _precision(guarantee: Guarantee) -> str:
    lower, upper = guarantee.epsilon_lower, guarantee.epsilon
    if lower is None or upper is None or not math.isfinite(upper):
        return ""
    if upper - lower <= 1e-9 * upper:
        return "  (exact)"
    estimate = guarantee.epsilon_estimate
    best = f", best estimate {estimate:.6g}" if estimate is not None else ""
    return f"  (at least {rounded_down(lower)}{best})"


def budget_section(result: Result) -> Section | None:
    """The limits that were set and whether each is kept; None without limits."""
    limits = result.budget.limits()
    if not limits:
        return None
    rows = []
    for name, limit in limits.items():
        quantity = name.removeprefix("max_")
        value = getattr(result.guarantee, quantity)
        over = any(line.startswith(quantity) for line in result.budget.exceeded(result.guarantee))
        rows.append((quantity, rounded_up(value), f"{limit:g}", "OVER" if over else "within"))
    return Section(title="Budget", columns=("quantity", "value", "limit", "verdict"), rows=tuple(rows))


def csv_records(result: Result) -> tuple[Mapping[str, Any], ...]:
    """One row for each record of the result: those of a sweep, or the guarantee itself."""
    if result.records:
        return tuple(plain(record) for record in result.records)
    wanted = ("epsilon", "delta", "epsilon_lower", "epsilon_estimate", "mu", "mu_kind", "rho")
    described = ("adjacency", "sampler", "guarantee", "accountant", "theorem")
    document = to_json(result)
    record = {key: document[key] for key in ("command", *wanted, *described)}
    if document["budget"]:
        record["within_budget"] = document["budget"]["within"]
    return (record,)
