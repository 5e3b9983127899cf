"""The charts of a result: what a person would draw on a board to explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpcalc.charts import Bars, Chart, Line
from dpcalc.errors import DpcalcError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.render.captions import settings
from dpcalc.render.runs import over_steps
from dpcalc.render.sweeps import sweep
from dpcalc.report import in_a_column, percentage, percents, rounded_up

# δ of a curve that nobody asked for point by point, and how tightly it is drawn: the width of a pen.
_DELTAS = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
_TOLERANCE = 0.02

_MOST_BARS = 12
_SHARES = "its share of the whole, and what it would cost alone"

_TANGENTS = 16
_SEEN = 0.02  # a relative difference that a picture does not show
_RATES = tuple(10 ** (-4 + 4 * i / 60) for i in range(61))


def charts(result: Result) -> tuple[Chart, ...]:
    """Every curve that can be drawn of a result; empty where there is none."""
    run = tuple(chart for chart in (*sweep(result), *over_steps(result)) if not chart.is_empty())
    return run or tuple(chart for chart in _of_guarantee(result) if not chart.is_empty())


def bars(result: Result) -> tuple[Bars, ...]:
    """What each of several mechanisms takes of the whole, the costliest first; a long tail is one bar."""
    costs = [cost for cost in result.details.get("mechanisms", ()) if cost.get("share") is not None]
    if len(costs) < 2:
        return ()
    costs.sort(key=lambda cost: -cost["share"])
    shares = percents([cost["share"] for cost in costs])
    shown = [
        (cost["name"], cost["share"], f"{share}, own ε {in_a_column(cost['epsilon'])}")
        for cost, share in zip(costs[:_MOST_BARS], shares, strict=False)
    ]
    rest = [cost["share"] for cost in costs[_MOST_BARS:]]
    shown += [(f"{len(rest):,} more", sum(rest), percentage(sum(rest)))] if rest else []
    return (Bars(title="The share of each mechanism", subtitle=_SHARES, bars=tuple(shown)),)


def _of_guarantee(result: Result) -> list[Chart]:
    """ε against δ with its certified band, and what an attacker can reach."""
    guarantee = result.guarantee
    if guarantee is None or not guarantee.mechanisms:
        return []
    try:
        points = _points(guarantee)
    except DpcalcError:  # no accountant answers there: nothing to draw
        return []
    limit, subtitle = result.budget.max_epsilon, settings(result)
    lines = (*_before(result, guarantee), _profile(guarantee, points))
    curve = Chart(title="ε at every δ", subtitle=subtitle, x_label="δ", y_label="ε", lines=lines, limit=limit)
    return [curve, *_tradeoff(guarantee, points, subtitle)]


def _profile(guarantee: Guarantee, points: Sequence[tuple[float, float, float | None]]) -> Line:
    """ε over δ from above and below, with the answer marked."""
    ordered = sorted(points, key=lambda point: point[0])
    own = [(delta, high, f"ε = {rounded_up(high)}") for delta, high, _ in ordered if delta == guarantee.delta]
    return Line(
        label="",
        x=tuple(delta for delta, _, _ in ordered),
        y=tuple(high for _, high, _ in ordered),
        lower=tuple(low for _, _, low in ordered),
        marks=tuple(own),
    )


def _before(result: Result, after: Guarantee) -> list[Line]:
    """What a release was compared with, where it was (`diff`)."""
    told = result.details.get("before") or {}
    if not told.get("mechanisms"):
        return []
    numbers = {key: told[key] for key in ("epsilon", "epsilon_lower", "delta")}
    before = replace(after, **numbers, mechanisms=tuple(told["mechanisms"]))
    try:
        line = _profile(before, _points(before))
    except DpcalcError:
        return []
    marks = tuple((x, y, f"before: {rounded_up(y)}") for x, y, _ in line.marks)
    return [replace(line, lower=(), main=False, marks=marks)]


def _points(guarantee: Guarantee) -> list[tuple[float, float, float | None]]:
    """(δ, ε from above, ε from below), each recomputed from the mechanisms that the guarantee lists."""
    from dpcalc.spec.composition import Question, compose_entries
    from dpcalc.spec.risk import listed_entries

    entries = listed_entries(guarantee)
    found = []
    own = guarantee.delta
    for delta in _DELTAS:
        if own is not None and own > 0 and 1 / 3 < delta / own < 3:
            continue
        at = compose_entries(entries, Question(delta=delta, tolerance=_TOLERANCE))
        if at.epsilon is not None:
            found.append((delta, at.epsilon, at.epsilon_lower))
    if own and guarantee.epsilon is not None:
        found.append((own, guarantee.epsilon, guarantee.epsilon_lower))
    return found


def _tradeoff(guarantee: Guarantee, points: Sequence[tuple[float, float, float | None]], subtitle: str) -> list[Chart]:
    """The largest true positive rate at every false positive rate, by the points that are certified."""
    if guarantee.status != "certified" or guarantee.risk is None:
        return []
    bound = _attack_bound(guarantee, points)
    reached = [(float(rate), value) for rate, value in guarantee.risk.tpr_at_fpr.items()]
    marks = tuple((rate, value, f"≤ {percentage(value)}") for rate, value in reached)
    line = Line(label="best attack", x=_RATES, y=tuple(bound(rate) for rate in _RATES), marks=marks)
    return [
        Chart(
            title="What an attacker can reach",
            subtitle=subtitle,
            x_label="false positive rate",
            y_label="true positive rate",
            lines=(line,),
            identity=True,
        )
    ]


def _attack_bound(
    guarantee: Guarantee, points: Sequence[tuple[float, float, float | None]]
) -> Callable[[float], float]:
    from dpcalc.conversions import gdp_tradeoff
    from dpcalc.conversions.attack import true_positive_rate
    from dpcalc.spec.risk import certified_curve

    assert guarantee.risk is not None
    known = [(0.0, guarantee.risk.advantage), *((epsilon, delta) for delta, epsilon, _ in points)]
    mu = guarantee.mu if guarantee.mu_kind in ("exact", "upper") else None
    if guarantee.mu_kind != "exact":
        delta_at = certified_curve(guarantee)
        for epsilon in _slopes(max(epsilon for epsilon, _ in known)):
            known.append((epsilon, delta_at(epsilon)))
            if known[-1][1] < _SEEN * _RATES[0]:  # steeper lines lie above this one at all rates that are drawn
                break

    def bound(rate: float) -> float:
        # Each point of δ(ε) is two lines above the best attack; the lowest of many is concave, as it is.
        bounds = [true_positive_rate(epsilon, delta, rate) for epsilon, delta in known]
        return min(bounds if mu is None else [*bounds, float(gdp_tradeoff(mu, rate))])

    return bound


def _slopes(largest: float) -> list[float]:
    """ε whose lines touch the best attack at the rates that are drawn, close enough for a curve to look like one."""
    top = min(largest, -math.log(_RATES[0]))
    return [top * i / _TANGENTS for i in range(1, _TANGENTS)]
