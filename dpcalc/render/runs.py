"""The charts of a run, step by step: what it reached and cost, who took part, what each person lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpcalc.charts import Chart, Line
from dpcalc.guarantee import Result
from dpcalc.render.captions import settings
from dpcalc.report import written

_RUNS = ("train", "filter")
_STEPS = (
    ("loss_per_step", "Loss on the batch (sensitive)", "loss"),
    ("clip_per_step", "Clip", "norm"),
    ("active_per_step", "Records that take part (sensitive)", "records"),
)
_SHOWN = {0.0: "the least", 0.5: "half of all", 1.0: "the most"}  # quantiles over everybody, as lines
_TOLERANCE = 0.02  # the width of a pen


def over_steps(result: Result) -> list[Chart]:
    """A run step by step: who takes part, the clip, the loss, what each person lost."""
    if result.command not in _RUNS:
        return []
    details, subtitle = result.details, settings(result)
    drawn = []
    whole = (details.get("request") or {}).get("scope") == "global"
    for key, title, label in () if whole else _STEPS:
        values = details.get(key)
        if isinstance(values, (list, tuple)) and len(set(values)) > 1:
            x = tuple(float(i + 1) for i in range(len(values)))
            line = Line(label="", x=x, y=tuple(None if value is None else float(value) for value in values))
            drawn.append(
                Chart(title=title, subtitle=subtitle, x_label="step", y_label=label, lines=(line,), steps=True)
            )
    before = (*_measured(result, subtitle), *_growth(result, subtitle), *_stretches(result, subtitle))
    return [*before, *drawn, *_individual(result, subtitle), *_spending(result, subtitle)]


def _measured(result: Result, subtitle: str) -> list[Chart]:
    """How good the model was on the way, on public test records."""
    points = result.details.get("measured") or ()
    mistakes = "mse" in result.details
    x = tuple(float(point["step"]) for point in points)
    line = Line(label="", x=x, y=tuple(point["test"] if mistakes else 100 * point["test"] for point in points))
    title = "Mean squared error on test records" if mistakes else "Test records that are right"
    label = "error, on 1,000 at most" if mistakes else "%, of 1,000 at most"
    return [Chart(title=title, subtitle=subtitle, x_label="step", y_label=label, lines=(line,), timed=True)]


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


def _stretches(result: Result, subtitle: str) -> list[Chart]:
    """The loss of a whole run as its odometer has told it, under the budget where there is one."""
    told = result.details.get("odometer") or {}
    ends, losses = list(map(float, told.get("stopping_times") or ())), list(told.get("loss") or ())
    if not ends:
        return []
    symbol = {"mu": "μ"}.get(told.get("unit", ""), "ρ")
    # A stretch's loss is that of all its steps, from the one after the end of the stretch before.
    line = Line(label="", x=(min(1.0, ends[0]), *(end + 1 for end in ends[:-1]), ends[-1]), y=(*losses, losses[-1]))
    limit = (result.details.get("request") or {}).get("mu")
    title, label = "Loss up to each step, by the odometer", f"{symbol}, at most"
    return [
        Chart(title=title, subtitle=subtitle, x_label="step", y_label=label, lines=(line,), limit=limit, steps=True)
    ]


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


def _spending(result: Result, subtitle: str) -> list[Chart]:
    """What people have lost after some of the steps: half of them at most the middle line, as ε where μ tells it."""
    from dpcalc import conversions
    from dpcalc.filters.individual import QUANTILES

    points = [(point["step"], point["spent"]) for point in result.details.get("spent_so_far") or ()] or result.course
    unit = result.details.get("spent_unit")
    guarantee = result.guarantee
    delta = (None if guarantee is None else guarantee.delta) or 0.0
    in_epsilon = unit == "mu" and delta > 0

    def line(share: float, label: str) -> Line:
        spent = [quantiles[QUANTILES.index(share)] for _, quantiles in points]
        y = [float(conversions.gdp_epsilon(value, delta)) for value in spent] if in_epsilon else spent
        return Line(label=label, x=tuple(float(step) for step, _ in points), y=tuple(y), main=share == 1)

    return [
        Chart(
            title="What each person has lost so far (sensitive)",
            subtitle=subtitle,
            x_label="step",
            y_label=f"own ε at δ = {written(delta)}, after the fact" if in_epsilon else f"spent ({unit})",
            lines=tuple(line(share, label) for share, label in _SHOWN.items()),
            limit=guarantee.epsilon if in_epsilon and guarantee is not None else None,
            timed=True,
        )
    ]
