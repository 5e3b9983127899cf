"""A filter's result worked out again from what it stores: what was asked, and what the log was like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcalc.filters.carrying import settings_of
from dpcalc.filters.enforced import enforced
from dpcalc.filters.request import Request
from dpcalc.filters.settings import Settings
from dpcalc.guarantee import Guarantee

# What a guarantee follows from; the rest of a request is about files and about how the work is done.
_ASKED = (
    "kind", "sigma", "noise_multiplier", "clip", "mu", "epsilon", "delta", "steps_delta", "norm_budget", "orders",
    "rhos", "scope", "mode", "sample_rate", "odometer", "anytime", "finished",
)  # fmt: skip


def stored(request: Request, settings: Settings) -> dict[str, Any]:
    """What `guarantee_of` needs: the request, and what the log held and how precisely."""
    rule = settings.budget or settings.rule
    asked = {name: getattr(request, name) for name in _ASKED}
    given = {name: value for name, value in asked.items() if value not in (None, (), False)}
    return {**given, "log": {"value": rule.quantity, "beside": list(settings.beside), "rounding": rule.tolerance}}


def guarantee_of(details: Mapping[str, Any]) -> Guarantee:
    """The guarantee of the filter that `details.request` describes; the log itself is not at hand."""
    asked = dict(details["request"])
    log = asked.pop("log")
    if unknown := sorted(set(asked) - set(_ASKED)):
        raise KeyError(unknown[0])
    several = {name: tuple(asked.get(name, ())) for name in ("orders", "rhos")}
    request = Request(**{**asked, **several})
    settings = settings_of(request, log["value"], log["rounding"], log["beside"])
    kept = details.get("beyond_budget", 0) == 0
    return enforced(settings, epsilon=request.epsilon, delta=request.delta, kept=kept)
