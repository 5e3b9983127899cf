"""What stands under the title of a picture: the settings that its curves belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcalc.guarantee import Result
from dpcalc.report import beside_a_budget, written

# The settings of a run in the order in which they are told, and the word before each.
_TOLD = {
    "algorithm": "",
    "kind": "filter ",
    "n": "n ",
    "batch_size": "batch ",
    "sigma": "σ ",
    "noise_multiplier": "noise/clip ",
    "noise_over_sensitivity": "bσ/L ",
    "clip": "clip ",
    "sensitivity": "L ",
    "lipschitz": "L ",
    "lr": "rate ",
    "epochs": "epochs ",
    "steps": "steps ",
    "strong_convexity": "m ",
    "smoothness": "M ",
    "diameter": "D ",
    "sample_rate": "sampled at ",
    "mu": "μ ",
    "norm_budget": "Σ‖g‖² ≤ ",
    "epsilon": "ε ",
    "delta": "δ ",
}
_BOUNDED = ("mu", "rho", "epsilon")  # of entries, which declare them: upper bounds
_NOISE = ("noise_multiplier", "sigma", "scale")


def settings(result: Result) -> str:
    """The run, the question or the first entries in a few words, and how far the numbers can be trusted."""
    guarantee = result.guarantee
    if guarantee is None:
        return ""
    run = next((row[1] for row in result.labelled if row[0] == "run"), None) or requested(result)
    if run:
        return f"{run}; {guarantee.status}"
    listed = [_entry(entry) for entry in _costliest(result, guarantee.mechanisms)[:2]]
    more = len(guarantee.mechanisms) - len(listed)
    told = [*listed, *([f"{more} more"] if more else []), guarantee.adjacency, guarantee.status]
    return "; ".join(told)


def _costliest(result: Result, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries, those with the largest share first where shares are told."""
    costs = result.details.get("mechanisms") or ()
    if len(costs) != len(entries):
        return list(entries)
    ranked = sorted(zip(costs, entries, strict=True), key=lambda pair: -(pair[0].get("share") or 0.0))
    return [entry for _, entry in ranked]


def requested(result: Result, *swept: str) -> str:
    """What was asked for, without what is swept; empty where no question is kept."""
    settings, request = result.details.get("settings"), result.details.get("request", {})
    if isinstance(settings, Mapping):  # of a run, of which full batches have no size
        whole = settings.get("algorithm") == "gd"
        request = {**{key: value for key, value in settings.items() if not (whole and key == "batch_size")}, **request}
    left_out = {name.replace("-", "_") for name in swept}
    known = {key: request[key] for key in _TOLD if request.get(key) is not None and key not in left_out}
    return ", ".join(f"{_TOLD[key]}{_value(value)}" for key, value in known.items())


def _value(value: object) -> str:
    """A number as it was given, one that was worked out to a few digits."""
    if isinstance(value, float):
        return min(written(value), f"{value:.4g}", key=len)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _entry(entry: Any) -> str:
    """An entry in a few words: gaussian noise multiplier 1.1, poisson 0.004267, 14,063 times."""
    key = next((key for key in (*_NOISE, *_BOUNDED) if isinstance(entry.get(key), (int, float))), None)
    number = "" if key is None else beside_a_budget(entry[key]) if key in _BOUNDED else f"{entry[key]:.4g}"
    what = " ".join(filter(None, (entry.get("type", "mechanism"), key and key.replace("_", " "), number)))
    times = f"{entry['count']:,} times" if entry.get("count", 1) > 1 else ""
    return ", ".join(filter(None, (what, _sampled(entry.get("sampling")), times)))


def _sampled(sampling: Any) -> str:
    """How batches are drawn, without which the noise says nothing."""
    if not isinstance(sampling, Mapping):
        return str(sampling or "")
    rate = sampling.get("rate")
    return f"{sampling.get('scheme', 'sampled')}{f' {rate:.4g}' if isinstance(rate, (int, float)) else ''}"
