"""The chart of a sweep: ε along one or two parameters."""

from __future__ import annotations

from dpcalc.charts import Chart, Line, tick_text
from dpcalc.guarantee import Result
from dpcalc.render.captions import requested
from dpcalc.report import written

_LINES = 6


def sweep(result: Result) -> list[Chart]:
    """ε of every bound along a swept parameter, the best one thick."""
    rows = result.details.get("sweep")
    if not rows or not result.records:
        return []
    from dpcalc.last_iterate.results import bounds_in_words

    first = result.records[0]
    name = next(iter(first))
    if len(result.details.get("swept", ())) > 1:
        return [_against(result, *result.details["swept"])]
    x = tuple(float(row[name]) for row in result.records)
    best = tuple(row["epsilon"] for row in result.records)
    columns = [column for column in first if column.startswith("epsilon ")]
    others = {column.removeprefix("epsilon "): tuple(row[column] for row in result.records) for column in columns}
    names = bounds_in_words(list(others))
    lines = [
        Line(label=name, x=x, y=y, main=False) for name, y in zip(names, others.values(), strict=True) if y != best
    ]
    winners = [name for name, y in zip(names, others.values(), strict=True) if y == best]
    lines.append(Line(label=winners[0] if winners else "the best", x=x, y=best))
    return [
        Chart(
            title=f"ε of the last iterate against {name}",
            subtitle=requested(result, name),
            x_label=name,
            y_label=f"ε at δ = {written(first['delta'])}",
            lines=tuple(lines),
            limit=result.budget.max_epsilon,
        )
    ]


def _against(result: Result, name: str, other: str) -> Chart:
    """The best ε along one swept parameter, a line for some values of the other, that with the least ε thick."""
    values = list(dict.fromkeys(row[other] for row in result.records))
    shown = values if len(values) <= _LINES else [values[i * (len(values) - 1) // (_LINES - 1)] for i in range(_LINES)]
    rows = {value: [row for row in result.records if row[other] == value] for value in shown}
    best = min(shown, key=lambda value: rows[value][-1]["epsilon"])
    lines = [
        Line(
            label=f"{other} {tick_text(value)}:",
            x=tuple(float(row[name]) for row in rows[value]),
            y=tuple(row["epsilon"] for row in rows[value]),
            main=value == best,
        )
        for value in shown
    ]
    return Chart(
        title=f"ε of the last iterate against {name} and {other}",
        subtitle=requested(result, name, other),
        x_label=name,
        y_label=f"ε at δ = {written(result.records[0]['delta'])}",
        lines=tuple(lines),
        limit=result.budget.max_epsilon,
    )
