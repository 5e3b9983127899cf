"""What `sgd-bound` answers with: the tables, details and records of one analysis or of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcalc.guarantee import Result, Section
from dpcalc.last_iterate.analysis import Analysis
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.sweep import Sweep, records
from dpcalc.report import rounded_up

COMMAND = "sgd-bound"


def single_result(analysis: Analysis, *, solution: Mapping[str, Any] | None = None, headline: str = "") -> Result:
    """One run: every bound with its theorem and conditions, and the units in words."""
    setting = analysis.setting
    rows = tuple(
        (
            each.bound.name + (" (best)" if each is analysis.best else ""),
            each.bound.theorem,
            rounded_up(each.guarantee.mu if not each.bound.subsampled and each.bound.rho is None else None),
            rounded_up(each.guarantee.epsilon),
            "–" if each.bound.tau is None else f"{each.bound.tau} {each.bound.tau_unit}",
            ", ".join(each.bound.conditions),
        )
        for each in analysis.evaluated
    )
    columns = ("bound", "theorem", "μ", f"ε at δ = {analysis.request.delta:g}", "τ", "holds for")
    bounds = Section(title="Bounds that apply", columns=columns, rows=rows)
    units = Section(
        title="Units",
        columns=("quantity", "value", "meaning"),
        rows=(
            ("σ", f"{setting.sigma:.6g}", "noise on the average gradient of a batch"),
            (
                "bσ/L",
                f"{setting.noise_over_sensitivity:.6g}",
                "noise relative to the replace-one sensitivity of the sum",
            ),
            ("L", f"{setting.sensitivity:.6g}", "sensitivity to replacing one record (clip C gives 2C)"),
            *_clip_rows(analysis),
            *_contraction_rows(setting),
            ("t", f"{setting.steps}", "steps"),
        ),
    )
    return Result(
        command=COMMAND,
        guarantee=analysis.guarantee,
        details=analysis.details() | dict(solution or {}),
        headline=headline,
        sections=(bounds, units),
    )


def _clip_rows(analysis: Analysis) -> tuple[tuple[str, str, str], ...]:
    clip = analysis.request.clip
    if clip is None:
        return ()
    multiplier = 2 * analysis.setting.noise_over_sensitivity
    return (
        ("C", f"{clip:.6g}", "clip of every gradient"),
        ("z = bσ/C", f"{multiplier:.6g}", "noise multiplier: noise on the sum, relative to the clip"),
    )


def _contraction_rows(setting: Setting) -> tuple[tuple[str, str, str], ...]:
    if not setting.is_convex:
        return ()
    return (("c", f"{setting.contraction.factor:.9g}", "contraction of one step, max(|1-ηm|, |1-ηM|)"),)


def sweep_result(sweep: Sweep, results: Sequence[tuple[float, Analysis]]) -> Result:
    """A sweep: one row per value; the guarantee is the largest ε, so that a limit on it holds for every row."""
    rows = records(sweep, results)
    _, worst = max(results, key=lambda result: result[1].epsilon)
    shown = [column for column in rows[0] if column not in ("delta", "theorem")]
    table = tuple(tuple(_cell(row[column]) for column in shown) for row in rows)
    details = worst.details() | {
        "sweep": [row | {"bounds": result.details()["bounds"]} for row, (_, result) in zip(rows, results, strict=True)]
    }
    return Result(
        command=COMMAND,
        guarantee=worst.guarantee,
        details=details,
        facts=(("sweep", f"the guarantee shown is the largest ε; each value of {sweep.name} has its own row"),),
        sections=(Section(title=f"ε against {sweep.name}", columns=tuple(shown), rows=table),),
        records=tuple(rows),
    )


def _cell(value: Any) -> str:
    return rounded_up(value) if isinstance(value, float) or value is None else str(value)
