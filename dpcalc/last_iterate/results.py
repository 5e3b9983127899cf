"""What `sgd-bound` answers with: the tables, details and records of one analysis or of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcalc.guarantee import Result, Section
from dpcalc.last_iterate.analysis import Analysis
from dpcalc.last_iterate.bound import COMPOSITION, OPTIMAL_SHIFTS, RDP, SHIFTED
from dpcalc.last_iterate.evaluate import Evaluated
from dpcalc.last_iterate.sweep import Point, Sweep, records
from dpcalc.report import rounded_up, written

COMMAND = "sgd-bound"

NAMES = {
    COMPOSITION: "every iterate",
    SHIFTED: "last iterate",
    OPTIMAL_SHIFTS: "last iterate, best shifts",
    RDP: "last iterate, Rényi",
}
_NEIGHBOURS = {"replace-one": "one record replaced", "add-remove": "one record added or removed"}


def single_result(analysis: Analysis, *, solution: Mapping[str, Any] | None = None, headline: str = "") -> Result:
    """One run: every bound with its theorem, the best first, and the units in words."""
    ranked = sorted(analysis.evaluated, key=lambda each: (each is not analysis.best, each.guarantee.epsilon))
    rows = tuple((NAMES[each.bound.name], each.guarantee.epsilon, _mu(each), _source(each)) for each in ranked)
    return Result(
        command=COMMAND,
        guarantee=analysis.guarantee,
        details=analysis.details() | dict(solution or {}),
        headline=headline,
        qualifier="" if analysis.best.bound.name == COMPOSITION else " if only the last iterate is released",
        sections=(Section(title="", columns=("bound", "ε", "μ", "by"), rows=rows, leads=True), _units(analysis)),
    )


def _mu(each: Evaluated) -> float | None:
    return None if each.bound.subsampled or each.bound.rho is not None else each.guarantee.mu


def _source(each: Evaluated) -> str:
    return "composition, any loss" if each.bound.name == COMPOSITION else each.bound.theorem.partition(": ")[0]


def _units(analysis: Analysis) -> Section:
    """The noise and the sensitivity in the units in which they may be known, and what the run is."""
    setting, clip = analysis.setting, analysis.request.clip
    apart = analysis.request.clips_apart
    multiplier = rounded_up(setting.noise_over_sensitivity * (1 if clip is None else apart))
    relative = f"{multiplier} × {'L' if clip is None else 'clip'} on the sum"
    clips = "" if clip is None else "2 × clip = " if apart == 2 else "clip = "
    length = f"L = {clips}{setting.sensitivity:g}"
    contraction = f", contraction {setting.contraction.factor:.6g}" if setting.is_convex else ""
    rows = (
        ("units", f"noise {relative}, {setting.sigma:.4g} on the average; {length}"),
        ("neighbours", f"{_NEIGHBOURS[setting.adjacency]}; {setting.steps:,} steps{contraction}"),
    )
    return Section(title="", columns=("", ""), rows=rows)


def sweep_result(sweeps: Sequence[Sweep], points: Sequence[Point]) -> Result:
    """A sweep: one row per value; the guarantee is the largest ε, so that a limit on it holds for every row."""
    rows = records(sweeps, points)
    best, worst = (end(points, key=lambda point: point.analysis.epsilon) for end in (min, max))
    ends = " to ".join(f"{rounded_up(point.analysis.epsilon)} ({_at(sweeps, point)})" for point in (best, worst))
    table = _matrix(sweeps, rows) if len(sweeps) > 1 else _columns(sweeps[0], rows)
    details = worst.analysis.details() | {
        "sweep": [
            row | {"bounds": point.analysis.details()["bounds"]} for row, point in zip(rows, points, strict=True)
        ],
        "swept": [sweep.name for sweep in sweeps],
    }
    return Result(
        command=COMMAND,
        guarantee=worst.analysis.guarantee,
        details=details,
        headline=f"ε from {ends} at δ = {written(worst.analysis.request.delta)}",
        sections=(table, _units(worst.analysis)),
        records=tuple(rows),
    )


def _at(sweeps: Sequence[Sweep], point: Point) -> str:
    """Where in a sweep a point is."""
    return ", ".join(f"{sweep.name} = {_value(value)}" for sweep, value in zip(sweeps, point.values, strict=True))


def _columns(sweep: Sweep, rows: Sequence[Mapping[str, Any]]) -> Section:
    """The best ε of every value, and that of every bound."""
    bounds = [column for column in rows[0] if column.startswith("epsilon ")]
    names = (sweep.name, "ε", *bounds_in_words([column.removeprefix("epsilon ") for column in bounds]))
    table = tuple((_value(row[sweep.name]), *(row[column] for column in ("epsilon", *bounds))) for row in rows)
    return Section(title="", columns=names, rows=table, leads=True)


def _matrix(sweeps: Sequence[Sweep], rows: Sequence[Mapping[str, Any]]) -> Section:
    """The best ε, the first parameter down and the second across."""
    down, across = sweeps
    found = {(row[down.name], row[across.name]): row["epsilon"] for row in rows}
    columns = (f"ε: {down.name} \\ {across.name}", *map(written, across.values))
    table = tuple((_value(value), *(found[value, other] for other in across.values)) for value in down.values)
    return Section(title="", columns=columns, rows=table, leads=True)


def bounds_in_words(labels: Sequence[str]) -> list[str]:
    """What bounds are about: every iterate, or the last, and by which theorem where several of a kind are."""
    kinds = [label.partition(" ")[0] for label in labels]
    return [
        f"last, Theorem {label.partition(' ')[2]}" if kinds.count(kind) > 1 else NAMES.get(kind, label)
        for label, kind in zip(labels, kinds, strict=True)
    ]


def _value(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else written(value)
