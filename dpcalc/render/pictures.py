"""The charts of a result: what a person would draw on a board to explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpcalc.charts import Bars, Chart, Line
from dpcalc.errors import DpcalcError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.render.sweeps import sweep
from dpcalc.report import in_a_column, percentage, percents, rounded_up, written

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
    drawn = [*sweep(result), *_over_steps(result)] or _of_guarantee(result)
    return tuple(chart for chart in drawn if not chart.is_empty())


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
    return (Bars(title="What each mechanism costs", subtitle=_SHARES, bars=tuple(shown)),)


def _settings(result: Result) -> str:
    guarantee = result.guarantee
    if guarantee is None:
        return ""
    run = next((row[1] for row in result.labelled if row[0] == "run"), None)
    if run is not None:
        return f"{run}; {guarantee.status}"
    listed = [_entry(entry) for entry in guarantee.mechanisms[:2]]
    more = len(guarantee.mechanisms) - len(listed)
    told = [*listed, *([f"{more} more"] if more else []), guarantee.adjacency, guarantee.status]
    return "; ".join(told)


def _entry(entry: Any) -> str:
    """An entry in a few words: gaussian, noise_multiplier 1.1, 14,063 times."""
    keys = ("noise_multiplier", "sigma", "scale", "epsilon", "mu", "rho")
    number = next(
        (f" {key.replace('_', ' ')} {entry[key]:.4g}" for key in keys if isinstance(entry.get(key), (int, float))), ""
    )
    times = f", {entry['count']:,} times" if entry.get("count", 1) > 1 else ""
    return f"{entry.get('type', 'mechanism')}{number}{times}"


def _of_guarantee(result: Result) -> list[Chart]:
    """ε against δ with its certified band, and what an attacker can reach."""
    guarantee = result.guarantee
    if guarantee is None or not guarantee.mechanisms:
        return []
    try:
        points = _points(guarantee)
    except DpcalcError:  # no accountant answers there: nothing to draw
        return []
    limit = result.budget.max_epsilon
    ordered = sorted(points, key=lambda point: point[0])
    own = [(delta, high, f"ε = {rounded_up(high)}") for delta, high, _ in ordered if delta == guarantee.delta]
    upper = Line(
        label="",
        x=tuple(delta for delta, _, _ in ordered),
        y=tuple(high for _, high, _ in ordered),
        lower=tuple(low for _, _, low in ordered),
        marks=tuple(own),
    )
    subtitle = _settings(result)
    curve = Chart(title="ε at every δ", subtitle=subtitle, x_label="δ", y_label="ε", lines=(upper,), limit=limit)
    return [curve, *_tradeoff(guarantee, points, subtitle)]


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


def _over_steps(result: Result) -> list[Chart]:
    """A run step by step: who takes part, the clip, the loss, what each person lost."""
    details = result.details
    subtitle = _settings(result)
    drawn = []
    for key, title, label in _STEPS:
        values = details.get(key)
        if isinstance(values, (list, tuple)) and len(set(values)) > 1:
            x = tuple(float(i + 1) for i in range(len(values)))
            line = Line(label="", x=x, y=tuple(None if value is None else float(value) for value in values))
            drawn.append(
                Chart(title=title, subtitle=subtitle, x_label="step", y_label=label, lines=(line,), steps=True)
            )
    if result.command not in _RUNS:
        return []
    return [*_measured(result, subtitle), *_growth(result, subtitle), *drawn, *_individual(result, subtitle)]


def _measured(result: Result, subtitle: str) -> list[Chart]:
    """How good the model was on the way, on public test records."""
    points = result.details.get("measured") or ()
    mistakes = "mse" in result.details
    x = tuple(float(point["step"]) for point in points)
    line = Line(label="", x=x, y=tuple(point["test"] if mistakes else 100 * point["test"] for point in points))
    title = "Mean squared error on test records" if mistakes else "Test records that are right"
    label = "error, on 1,000 at most" if mistakes else "%, of 1,000 at most"
    return [Chart(title=title, subtitle=subtitle, x_label="step", y_label=label, lines=(line,), timed=True)]


_RUNS = ("train", "filter")


def _growth(result: Result, subtitle: str) -> list[Chart]:
    """ε after so many steps of a run whose steps are all alike."""
    guarantee = result.guarantee
    entries = () if guarantee is None else guarantee.mechanisms
    repeated = [entry for entry in entries if entry.get("count", 1) > 1]
    if guarantee is None or not guarantee.delta:
        return []
    if len(repeated) != 1:
        told = result.details.get("epsilon_so_far") or ()
        points = [(float(point["step"]), point["epsilon"]) for point in told]
        return [_grown(result, points, subtitle)]
    (steps,) = repeated
    from dpcalc.spec.composition import Question, compose_entries
    from dpcalc.spec.risk import listed_entries

    total = int(steps["count"])
    counts = sorted({max(1, total * i // 6) for i in range(1, 6)})
    epsilons = []
    for count in counts:
        listed = tuple({**entry, "count": count} if entry is steps else entry for entry in entries)
        part = replace(guarantee, mechanisms=listed)
        epsilons.append(
            compose_entries(listed_entries(part), Question(delta=guarantee.delta, tolerance=_TOLERANCE)).epsilon
        )
    return [_grown(result, [*zip(map(float, counts), epsilons, strict=True), (total, guarantee.epsilon)], subtitle)]


def _grown(result: Result, points: Sequence[tuple[float, float | None]], subtitle: str) -> Chart:
    assert result.guarantee is not None
    return Chart(
        title="ε after each step",
        subtitle=subtitle,
        x_label="step",
        y_label=f"ε at δ = {written(result.guarantee.delta)}",
        lines=(Line(label="", x=tuple(x for x, _ in points), y=tuple(y for _, y in points)),),
        limit=result.budget.max_epsilon,
        timed=True,
    )


_STEPS = (
    ("loss_per_step", "Loss on the batch (sensitive)", "loss"),
    ("clip_per_step", "Clip", "norm"),
    ("active_per_step", "Records that take part (sensitive)", "records"),
)


def _individual(result: Result, subtitle: str) -> list[Chart]:
    """The quantiles of what each person lost, under the limit."""
    from dpcalc.filters.individual import QUANTILES

    found = result.details.get("individual_epsilon")
    if not isinstance(found, (list, tuple)) or len(found) != len(QUANTILES):
        return []
    line = Line(label="", x=tuple(100 * share for share in QUANTILES), y=tuple(found))
    epsilon = None if result.guarantee is None else result.guarantee.epsilon
    return [
        Chart(
            title="What each person lost (sensitive)",
            subtitle=subtitle,
            x_label="% of the records lost at most this",
            y_label="individual ε",
            lines=(line,),
            limit=epsilon,
        )
    ]
