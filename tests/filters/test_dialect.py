"""One dialect of numbers in every kind of log, whoever parses it; only ids are text."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.errors import InputError
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.logs import csv_table
from dpcalc.filters.request import Request

REQUEST = Request(kind="gdp", sigma=10.0, mu=5.0)
KINDS = ("csv", "csv without pyarrow", "jsonl", "parquet")


def spent(folder: Path, kind: str, step: str, norm: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What two records have spent after a step, the first with this text as its norm, in a log of this kind."""
    rows = [{"step": step, "id": "01", "norm": norm}, {"step": step, "id": "1", "norm": "1"}]
    path = folder / f"log.{kind.partition(' ')[0]}"
    if kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("step,id,norm\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    if kind == "csv without pyarrow":
        monkeypatch.setattr(csv_table, "_arrow", csv_table._plain)
    run = carry_out(REQUEST, str(path))
    assert run.names == ["01", "1"]
    found: list[float] = run.filter.spent.tolist()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["007", "01.5", "00", "00.5", "+07", "-00", " 07", "07 ", "0x10", "0_1", "1_0"])
def test_what_is_no_number_is_none_in_any_log(
    kind: str, norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="expected a number in column norm"):
        spent(tmp_path, kind, "0", norm, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["00", "+00", " 00", "0x0", "0.0", "0e0"])
def test_what_is_no_whole_number_is_none_in_any_log(
    kind: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="expected a whole number in column step"):
        spent(tmp_path, kind, step, "1", monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["0", " 0", "0 ", "+0"])
@pytest.mark.parametrize("norm", ["0", "-0", "0.5", " 0.5 ", ".5", "5e-01", "1/4"])
def test_numbers_are_the_same_in_any_log(
    kind: str, step: str, norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = float(Fraction(norm.strip()))
    assert spent(tmp_path, kind, step, norm, monkeypatch) == pytest.approx([value / 10, 0.1], rel=1e-12)


@pytest.mark.parametrize("place", [0, 1234, 4999])
def test_a_leading_zero_is_found_among_many_numbers(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where numbers are parsed a column at a time."""
    norms = ["0.25"] * 5000
    norms[place] = "00.25"
    path = tmp_path / "log.csv"
    path.write_text("step,id,norm\n" + "".join(f"0,{name},{norm}\n" for name, norm in enumerate(norms)))
    for _ in range(2):
        with pytest.raises(InputError, match=rf"log.csv:{place + 2}: expected a number in column norm, got '00.25'"):
            carry_out(REQUEST, str(path))
        monkeypatch.setattr(csv_table, "_arrow", csv_table._plain)
