"""A guarantee as it should be published: a sentence that says all that belongs to the number, and fields for forms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from dpcalc.guarantee import Guarantee
from dpcalc.report import percentage, rounded_up, written
from dpcalc.version import __version__

Statement = tuple[str, dict[str, str]]

_STATUS = {
    "certified": "certified: every numerical error is counted",
    "numerical": "numerical: accurate, but its error is not bounded; not a guarantee",
    "approximate": "approximate: no bound; not a guarantee",
}
_TO_SAY = "to be stated by the publisher"


def model_card(guarantee: Guarantee, unit: str) -> Statement:
    """For a model card or the methods section of a paper."""
    fields = {
        "Guarantee": _parameters(guarantee),
        "Neighbours": _neighbours(guarantee, unit),
        "Unit": f"one {unit}",
        "Trust": _STATUS[guarantee.status],
        "Mechanisms": "; ".join(described(entry) for entry in guarantee.mechanisms) or "none listed",
        "Sampling": guarantee.sampler,
        "Accounting": f"{guarantee.accountant}; {'; '.join(guarantee.citations)}",
        "Assumptions": "; ".join(guarantee.assumptions) or "none beyond the mechanisms",
        "Attack risk": _risk(guarantee),
        "Not covered": "whatever else was computed from the same data, such as a search for hyperparameters",
        "Computed by": f"dpcalc {__version__}, {date.today().isoformat()}",
    }
    return _sentence(guarantee, unit), fields


def registry(guarantee: Guarantee, unit: str) -> Statement:
    """For a registry of deployments: what this number can say about each field, and which ones it cannot."""
    fields = {
        "dp_flavor": "approximate DP" if guarantee.delta else "pure DP",
        "epsilon": rounded_up(guarantee.epsilon),
        "delta": "0" if guarantee.delta is None else rounded_up(guarantee.delta),
        "mu_gdp": _known(guarantee.mu if guarantee.mu_kind in ("exact", "upper") else None, guarantee),
        "rho_zcdp": _known(guarantee.rho, guarantee),
        "privacy_unit": unit,
        "adjacency": guarantee.adjacency,
        "bound": guarantee.status,
        "mechanisms": "; ".join(described(entry) for entry in guarantee.mechanisms) or "none listed",
        "sampling": guarantee.sampler,
        "composition": f"{guarantee.accountant}; {'; '.join(guarantee.citations)}",
        "assumptions": "; ".join(guarantee.assumptions) or "none",
        "model": f"{_TO_SAY}: central, local or shuffled; who holds the data",
        "contribution_bound": f"{_TO_SAY}: how much one {unit} can contribute, over which time",
        "implementation": f"{_TO_SAY}: software that drew the noise",
        "accounting_software": f"dpcalc {__version__}",
        "date": date.today().isoformat(),
    }
    return _sentence(guarantee, unit), fields


def described(entry: Mapping[str, Any]) -> str:
    """An entry in words: model (dp-sgd, noise_multiplier 1.1, count 14,063)."""
    left_out = ("name", "type", "count", "guarantee")
    numbers = [f"{key} {_value(value)}" for key, value in entry.items() if key not in left_out]
    count = entry.get("count", 1)
    times = [f"{count:,} times"] if isinstance(count, int) and count > 1 else []
    kind = str(entry.get("type", "mechanism"))
    name = str(entry.get("name", kind))
    inside = ", ".join(([kind] if name != kind else []) + numbers + times)
    return f"{name} ({inside})" if inside else name


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} {_value(inner)}" for key, inner in value.items()) + ")"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value[:12])) + (", …]" if len(value) > 12 else "]")
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _sentence(guarantee: Guarantee, unit: str) -> str:
    parameters = _parameters(guarantee)
    if guarantee.status != "certified":
        return f"Not a guarantee: {parameters} is {guarantee.status}, and must not be published as a bound."
    return (
        f"What is released satisfies {parameters}-differential privacy for one {unit} "
        f"({_neighbours(guarantee, unit)}), an upper bound with all numerical errors counted."
    )


def _parameters(guarantee: Guarantee) -> str:
    if guarantee.epsilon is None:
        return "no ε is known at this δ; (ε, δ)"
    delta = guarantee.delta
    shown = "0" if not delta else written(delta) if guarantee.asks == "epsilon" else rounded_up(delta)
    epsilon = written(guarantee.epsilon) if guarantee.asks == "delta" else rounded_up(guarantee.epsilon)
    return f"(ε = {epsilon}, δ = {shown})"


def _neighbours(guarantee: Guarantee, unit: str) -> str:
    return f"one {unit} added or removed" if guarantee.adjacency == "add-remove" else f"one {unit} replaced by another"


def _risk(guarantee: Guarantee) -> str:
    risk = guarantee.risk
    if risk is None:
        return "not known"
    rates = ", ".join(f"{percentage(tpr)} at {written(100 * float(fpr))} %" for fpr, tpr in risk.tpr_at_fpr.items())
    return f"advantage ≤ {rounded_up(risk.advantage, 3)}; true positives ≤ {rates} false positives"


def _known(value: float | None, guarantee: Guarantee) -> str:
    """A number of another notion, where it says something beside ε."""
    says_little = value is None or (guarantee.epsilon is not None and value > guarantee.epsilon)
    return "not stated" if says_little else rounded_up(value)
