"""What changed between two releases: closed forms of the Gaussian, μ² adds."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    # 0.6² + 0.8² = 1 before; 1.2² + 0.8² + 0.9² = 2.89 = 1.7² after.
    old.write_text("delta: 1e-5\nmechanisms: [{name: a, type: gdp, mu: 0.6}, {name: b, type: gdp, mu: 0.8}]\n")
    new.write_text(
        "delta: 1e-5\nmechanisms:\n  - {name: a, type: gdp, mu: 1.2}\n  - {name: b, type: gdp, mu: 0.8}\n"
        "  - {name: c, type: gdp, mu: 0.9}\n"
    )
    return old, new


def exact(dpcalc: Run, mu: float) -> float:
    epsilon: float = dpcalc("convert", "--gdp", mu, "--delta", "1e-5", "-f", "json").json["epsilon"]
    return epsilon


def test_entries_and_epsilon_are_compared(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    document = dpcalc("diff", *sides, "-f", "json").json
    details = document["details"]
    assert details["before"]["epsilon"] == pytest.approx(exact(dpcalc, 1.0), rel=2e-3)
    assert document["epsilon"] == pytest.approx(exact(dpcalc, 1.7), rel=2e-3)
    assert details["increase"] == pytest.approx(document["epsilon"] - details["before"]["epsilon"])
    assert {each["name"]: each["change"] for each in details["changes"]} == {"a": "changed", "b": "same", "c": "added"}
    assert details["changes"][0]["fields"] == {"mu": [0.6, 1.2]}


def test_the_allowed_increase_decides_the_exit_code(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    grown = exact(dpcalc, 1.7) - exact(dpcalc, 1.0)
    assert dpcalc("diff", *sides, "--max-increase", f"{grown + 0.1}").code == 0
    over = dpcalc("diff", *sides, "--max-increase", f"{grown - 0.1}")
    assert over.code == 1
    assert "OVER the allowed increase" in over.out.splitlines()[0]
    assert dpcalc("diff", *reversed(sides), "--max-increase", "0").code == 0
    assert dpcalc("diff", sides[1], sides[1], "--max-increase", "0").code == 0


def test_limits_are_those_of_the_release_after(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    assert dpcalc("diff", *sides, "--max-epsilon", "5").code == 1
    assert dpcalc("diff", *reversed(sides), "--max-epsilon", "5").code == 0


def test_what_is_not_certified_shows_no_increase_to_be_allowed(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    sides[1].write_text("delta: 1e-5\nmechanisms: [{type: gdp, mu: 0.1, guarantee: approximate}]\n")
    outcome = dpcalc("diff", *sides, "--max-increase", "9")
    assert outcome.code == 3
    assert "NOT SHOWN" in outcome.out


def test_a_result_can_be_compared_with_a_spec_and_rows_are_csv(
    dpcalc: Run, sides: tuple[Path, Path], tmp_path: Path
) -> None:
    result = tmp_path / "old.json"
    assert dpcalc("compose", sides[0], "-o", result).code == 0
    rows = list(csv.DictReader(io.StringIO(dpcalc("diff", result, sides[1], "-f", "csv").out)))
    total, *rows = rows
    assert total["name"] == "total"
    assert float(total["epsilon_before"]) == pytest.approx(exact(dpcalc, 1.0), rel=2e-3)
    assert float(total["epsilon_after"]) == pytest.approx(exact(dpcalc, 1.7), rel=2e-3)
    assert float(total["increase"]) == pytest.approx(float(total["epsilon_after"]) - float(total["epsilon_before"]))
    assert [row["change"] for row in rows] == ["changed", "same", "added"]
    assert float(rows[1]["epsilon_before"]) >= exact(dpcalc, 0.8) * (1 - 1e-9), "upper bounds are not rounded down"


def test_different_deltas_need_a_decision(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    sides[1].write_text("delta: 1e-7\nmechanisms: [{type: gdp, mu: 1}]\n")
    assert dpcalc("diff", *sides).code == 2
    assert dpcalc("diff", *sides, "--delta", "1e-6").code == 0


def test_both_sides_are_told_under_one_adjacency(dpcalc: Run, sides: tuple[Path, Path]) -> None:
    text = "delta: 1e-5\nadjacency: {}\nmechanisms: [{{type: gaussian, noise_multiplier: 4}}]\n"
    sides[0].write_text(text.format("add-remove"))
    sides[1].write_text(text.format("replace-one"))
    details = dpcalc("diff", *sides, "-f", "json").json["details"]
    # Noise 4 for adding or removing is noise 2 for replacing: μ = 1/2 before, 1/4 after.
    assert details["before"]["mu"] == pytest.approx(0.5, rel=1e-9)
    assert details["after"]["mu"] == pytest.approx(0.25, rel=1e-9)
