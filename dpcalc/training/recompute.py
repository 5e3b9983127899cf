"""A run's result worked out again from the plans that it stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, account_search
from dpcalc.training.settings import Settings


def stored(plans: Sequence[Plan], classes: int) -> dict[str, Any]:
    """What `guarantee_of` needs: the plan of each run, as data. All share records, δ and the number of such runs."""
    first = plans[0]
    return {
        "records": first.records,
        "classes": classes,
        "features": first.features,
        "delta": first.delta,
        "grid_runs": first.runs,
        "logged": first.tracked,
        "settings": [plan.settings.as_dict() for plan in plans],
    }


def _settings(stored: Mapping[str, Any]) -> Settings:
    """Settings from the plain values of `Settings.as_dict`."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return Settings(**values)


def guarantee_of(details: Mapping[str, Any]) -> Guarantee:
    """The guarantee of the runs that `details.request` describes, all of them together."""
    request = dict(details["request"])
    common = {"records": request["records"], "delta": request["delta"], "runs": request["grid_runs"]}
    common["features"] = request["features"]
    plans = [
        Plan(
            settings=_settings(each),
            tracked=request["logged"],
            **common,
        )
        for each in request["settings"]
    ]
    runs = common["runs"]
    if not (
        plans and common["records"] >= 1 and runs >= 1 and details["grid_runs"] == runs and len(plans) in (1, runs)
    ):
        raise InputError("expected the runs of details.grid_runs")
    _same_run(details, plans)
    accounted = account(plans[0], classes=request["classes"]) if len(plans) == 1 else account_search(plans)
    return accounted.guarantee


def _same_run(details: Mapping[str, Any], plans: Sequence[Plan]) -> None:
    """Stop where the run that is told is none of the planned ones."""
    told = {
        "settings": details["settings"],
        "planned_steps": details["planned_steps"],
        "records": details["data"]["records"],
    }
    if told not in [
        {"settings": plan.settings.as_dict(), "planned_steps": plan.planned_steps, "records": plan.records}
        for plan in plans
    ]:
        raise InputError("details.settings, planned_steps or data are not those of a run in details.request")
