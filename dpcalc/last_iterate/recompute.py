"""Results of `sgd-bound` and `exp-mech` worked out again from the requests that they store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcalc.guarantee import Guarantee
from dpcalc.last_iterate.analysis import analyse
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.sampling_request import SamplingRequest
from dpcalc.last_iterate.schedule import read_schedule


def guarantee_of(details: Mapping[str, Any]) -> Guarantee:
    """The best bound of the run that `details.request` describes, the keys of which are those of a Request."""
    request = dict(details["request"])
    schedule = request.get("schedule")
    if schedule is not None:
        request["schedule"] = read_schedule(_table(schedule), name="details.request.schedule")
    return analyse(Request(**request)).guarantee


def sampling_guarantee_of(details: Mapping[str, Any]) -> Guarantee:
    """The best bound of the choice or sample that `details.request` describes."""
    return SamplingRequest(**details["request"]).comparison().guarantee


def _table(rows: list[Mapping[str, Any]]) -> str:
    lines = [f"{row['step']},{row['lr']!r},{row['sigma']!r}" for row in rows]
    return "\n".join(["step,lr,sigma", *lines])
