"""Logs: the same answer from every format and order, and errors that say where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.errors import InputError
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.logs import csv_table, ordering, table
from dpcalc.filters.logs.decimals import parse_decimals
from dpcalc.filters.request import Request
from dpcalc.filters.run import Run

REQUEST = Request(kind="gdp", sigma=2.0, mu=1.0)
NORMS = np.random.default_rng(0).random((20, 30))
ROWS = [(t, i, float(NORMS[t, i])) for t in range(20) for i in range(30)]


def csv_text(rows: list[tuple[int, object, float]]) -> str:
    return "step,id,norm\n" + "".join(f"{t},{i},{v!r}\n" for t, i, v in rows)


def outcome(run: Run) -> tuple[list[int], dict[str, float]]:
    names = range(run.individuals) if run.names is None else run.names
    return run.steps.active.tolist(), {
        str(name): float(spent) for name, spent in zip(names, run.filter.spent, strict=True)
    }


@pytest.fixture
def expected(tmp_path: Path) -> tuple[list[int], dict[str, float]]:
    np.save(tmp_path / "log.npy", NORMS)
    return outcome(carry_out(REQUEST, str(tmp_path / "log.npy")))


@pytest.fixture(params=[True, False], ids=["pyarrow", "plain"])
def arrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(csv_table, "_arrow", csv_table._plain)
    return bool(request.param)


@pytest.mark.parametrize("order", ["steps", "individuals", "shuffled"])
@pytest.mark.parametrize("names", ["integers", "strings"])
def test_csv_in_any_order_with_any_names(
    tmp_path: Path, expected: tuple[list[int], dict[str, float]], arrow: bool, order: str, names: str
) -> None:
    rows = list(ROWS)
    if order == "individuals":
        rows.sort(key=lambda row: (row[1], row[0]))
    elif order == "shuffled":
        rows = [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]
    prefix = "p" if names == "strings" else ""
    path = tmp_path / "log.csv"
    path.write_text(csv_text([(t, f"{prefix}{i}", v) for t, i, v in rows]))
    active, spent = outcome(carry_out(REQUEST, str(path)))
    assert active == expected[0]
    assert {name.removeprefix("p"): value for name, value in spent.items()} == expected[1]


def test_sorting_on_disk_does_not_depend_on_the_size_of_runs(
    tmp_path: Path, expected: tuple[list[int], dict[str, float]], monkeypatch: pytest.MonkeyPatch, arrow: bool
) -> None:
    monkeypatch.setattr(ordering, "_ENTRIES", 37)
    monkeypatch.setattr(csv_table, "_CHUNK", 1000)
    path = tmp_path / "log.csv"
    path.write_text(csv_text(ROWS[::-1]))
    assert outcome(carry_out(REQUEST, str(path))) == expected


@pytest.mark.parametrize("kind", ["npz", "npz-compressed", "npy.gz", "fortran", "csv.gz", "jsonl", "parquet", "folder"])
def test_every_format_gives_the_same(tmp_path: Path, expected: tuple[list[int], dict[str, float]], kind: str) -> None:
    path = tmp_path / "log"
    if kind.startswith("npz"):
        path = tmp_path / "log.npz"
        (np.savez if kind == "npz" else np.savez_compressed)(path, norms=NORMS, other=np.zeros(3))
    elif kind == "npy.gz":
        path.write_bytes(gzip.compress((tmp_path / "log.npy").read_bytes()))
    elif kind == "fortran":
        path = tmp_path / "fortran.npy"
        np.save(path, np.asfortranarray(NORMS))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(csv_text(ROWS).encode()))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"step": t, "id": i, "norm": v}) + "\n" for t, i, v in ROWS))
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pa.table(dict(zip(("step", "id", "norm"), map(list, zip(*ROWS, strict=True)), strict=True)))
        if kind == "folder":
            path.mkdir()
            for part in range(3):
                parquet.write_table(table.slice(part * 200, 200), path / f"{part}.parquet")
        else:
            parquet.write_table(table, path, row_group_size=100)
    assert outcome(carry_out(REQUEST, str(path))) == expected


@given(st.lists(st.decimals(0, 10**6, places=7).map("{:f}".format) | st.integers(0, 10**15 - 1).map(str), min_size=1))
def test_decimals_are_rounded_as_python_rounds_them(numbers: list[str]) -> None:
    (found,) = parse_decimals("\n".join(numbers).encode(), 1) or ([],)
    assert list(found) == [float(number) for number in numbers]


@pytest.mark.parametrize("text", ["1,2\n3\n", "1\n2,3\n", "1,1.2.3\n", "1,.\n", "1,\n", "1,a\n", "1,1e5\n" * 99])
def test_anything_but_plain_decimals_is_left_to_others(text: str) -> None:
    assert parse_decimals(text.encode(), 2) is None


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_name_is_the_same_before_and_after_the_first_one_with_letters(
    tmp_path: Path, arrow: bool, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Integers in an early part of the log and strings in a later one must not become two people."""
    monkeypatch.setattr(csv_table, "_CHUNK", 16)
    monkeypatch.setattr(table, "_FEWER_ROWS", 2)
    path = tmp_path / "log"
    rows = [(step, name, 1.0) for step in range(4) for name in ([7, 8] if step < 2 else [7, "x"])]
    if kind == "csv":
        path.write_text(csv_text(rows))
    else:
        path.write_text("".join(json.dumps({"step": t, "id": i, "norm": v}) + "\n" for t, i, v in rows))
    run = carry_out(Request(kind="gdp", sigma=1.0, norm_budget=100.0), str(path))
    assert dict(zip(run.names or (), run.filter.totals[0].tolist(), strict=True)) == {"7": 4.0, "8": 2.0, "x": 2.0}


def test_an_absent_record_does_not_take_part(tmp_path: Path, arrow: bool) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,id,norm\n0,a,1\n0,b,1\n1,b,1\n2,a,1\n")
    run = carry_out(REQUEST, str(path))
    assert run.steps.active.tolist() == [2, 1, 1]
    assert run.filter.spent == pytest.approx([np.sqrt(2) / 2] * 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step,id,norm\n0,a,1\n0,b,nan\n", r"log:3: expected a number in column norm, got 'nan'"),
        ("step,id,norm\n0,a,1\n0,b,-1\n", r"log:3: expected norm in \[0, inf\), got -1"),
        ("step,id,norm\n0,a,1\n0,b,inf\n", r"log:3: expected a number in column norm, got 'inf'"),
        ("step,id,norm\n0,1,1\n0,2,abc\n", r"log:3: expected a number in column norm, got 'abc'"),
        ("step,id,norm\n0,1,1\nx,2,1\n", r"log:3: expected a whole number in column step, got 'x'"),
        ("step,id,norm\n0,1,1\n0.5,2,1\n", r"log:3: expected a whole number in column step, got '0.5'"),
        (f"step,id,norm\n{10**30},1,1\n", r"log:2: expected a whole number in column step"),
        ("step,id,norm,norm\n0,1,1,2\n", r"log:1: expected each column once, got norm twice"),
        ("step,id,norm\n0,1,1\n0,2,\n", r"log:3: expected a number in column norm, got ''"),
        ("step,id,norm\n0,1,1\n0,,1\n", r"log:3: expected an id, got none"),
        ("step,id,norm\n0,1,1\n0,2\n", r"log:3: expected 3 fields, got 2"),
        ("step,id,norm\n0,a,1\n0,b,1\n0,a,1\n", r"log:4: step 0 of individual a appears twice, first on line 2"),
        ("step,id,norm\n0,7,1\n1,7,1\n0,7,1\n", r"log:4: step 0 of individual 7 appears twice, first on line 2"),
        ("step,id,norm\n0,a,1\n1,a,1\n3,a,1\n", r"log:4: step 2 is missing before step 3"),
        ("step,id,value\n0,a,1\n", r"log:1: expected columns step,id,norm or mu, got step,id,value"),
        ("step,id,norm\n0,a,1\n0,b,1_0\n", r"log:3: expected a number in column norm, got '1_0'"),
        ("step,id,norm\n0,a,1\n0,b,٣\n", r"log:3: expected a number in column norm, got '٣'"),
        ("step,id,norm\n0,a,1\n1_0,a,1\n", r"log:3: expected a whole number in column step, got '1_0'"),
        ("step,id,norm\n", "no steps"),
        ('{"step": 0, "id": 1, "norm": 1}\n{"step": 0, "id"', "log:2: expected a JSON object"),
        ('{"step": 0, "id": 1, "norm": 1}\n{"step": 1, "id": 1, "norm": null}\n', "log:2: expected a number"),
        ("", "empty"),
    ],
)
def test_bad_logs_are_refused_with_their_line(tmp_path: Path, arrow: bool, text: str, words: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        carry_out(REQUEST, str(path))


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_numbers_in_arrays_are_found(tmp_path: Path, bad: float, dtype: type) -> None:
    norms = NORMS.astype(dtype)
    norms[3, 4] = bad
    np.save(tmp_path / "log.npy", norms)
    with pytest.raises(InputError, match=r"log.npy: step 3, individual 4: expected a number in \[0, inf\)"):
        carry_out(REQUEST, str(tmp_path / "log.npy"))


@pytest.mark.parametrize("name", ["log.npy", "log.csv.gz", "log.npz", "log.parquet"])
def test_files_that_are_cut_short_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "log.npy":
        np.save(path, NORMS)
    elif name == "log.npz":
        np.savez_compressed(path, norms=NORMS)
    elif name == "log.parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"step": [0] * 30, "id": list(range(30)), "norm": [1.0] * 30}), path)
    else:
        path.write_bytes(gzip.compress(csv_text(ROWS).encode()))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * 0.8)])
    with pytest.raises(InputError, match=name):
        carry_out(REQUEST, str(path))


def test_archives_without_the_array_are_refused(tmp_path: Path) -> None:
    for arrays in ({}, {"a": NORMS, "b": NORMS}):
        np.savez(tmp_path / "log.npz", **arrays)
        with pytest.raises(InputError, match="expected one array"):
            carry_out(REQUEST, str(tmp_path / "log.npz"))


def test_sampling_needs_every_record_at_every_step(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,id,norm\n0,a,1\n0,b,1\n1,b,1\n")
    request = Request(kind="rdp", sigma=2.0, orders=(8.0,), rhos=(0.1,), sample_rate=0.1)
    with pytest.raises(InputError, match="individual a has 1 of 2"):
        carry_out(request, str(path))


def test_arrays_of_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "log.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"log\.npy"):
        carry_out(REQUEST, str(tmp_path / "log.npy"))


def test_the_run_does_not_depend_on_the_size_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcalc.filters.logs import dense

    np.save(tmp_path / "log.npy", NORMS)
    whole = outcome(carry_out(REQUEST, str(tmp_path / "log.npy")))
    monkeypatch.setattr(dense, "_ENTRIES", 90)
    assert outcome(carry_out(REQUEST, str(tmp_path / "log.npy"))) == whole


def test_a_few_numbers_may_be_written_otherwise() -> None:
    (found,) = parse_decimals(b"0.5\n1e-05\n" + b"2\n" * 98 + b"7E3\n", 1) or ([],)
    assert found[[0, 1, 2, -1]].tolist() == [0.5, 1e-05, 2, 7000]
    assert parse_decimals(b"2\n" * 98 + b"nan\n", 1) is None
    assert parse_decimals(b"2\n" * 98 + b"1_0\n", 1) is None


def test_names_are_compared_as_they_are_written(tmp_path: Path, arrow: bool) -> None:
    """01 is not 1, and both are there beside 10."""
    path = tmp_path / "log.csv"
    path.write_text("step,id,norm\n" + "".join(f"{t},{name},{t + 1}\n" for t in range(2) for name in ("1", "01", "10")))
    run = carry_out(Request(kind="gdp", sigma=1.0, mu=100.0), str(path))
    assert sorted(map(str, run.names or [])) == ["01", "1", "10"]
    assert run.filter.totals[0].tolist() == [5.0, 5.0, 5.0]


def test_many_steps_of_few_people_are_folded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that hold everybody in order are an array; one that lacks somebody is taken as it is."""
    monkeypatch.setattr(csv_table, "_CHUNK", 20_000)
    norms = np.random.default_rng(5).random((5000, 3)).round(4) / 15
    rows = [(t, i, float(norms[t, i])) for t in range(5000) for i in range(3) if (t, i) not in ((700, 1), (3100, 2))]
    (tmp_path / "log.csv").write_text(csv_text(rows))
    charged: list[int] = []
    charge = IndividualFilter.charge

    def counted(self: IndividualFilter, *given: Any, **more: Any) -> Any:
        charged.append(1)
        return charge(self, *given, **more)

    monkeypatch.setattr(IndividualFilter, "charge", counted)
    found = carry_out(REQUEST, str(tmp_path / "log.csv"))
    assert len(charged) < 100
    norms[700, 1] = norms[3100, 2] = 0
    np.save(tmp_path / "log.npy", norms)
    expected = carry_out(REQUEST, str(tmp_path / "log.npy"))
    assert found.filter.lost.any()
    assert np.array_equal(found.filter.totals, expected.filter.totals)
    assert found.steps.present.tolist() == [2 if t in (700, 3100) else 3 for t in range(5000)]
    (tmp_path / "twice.csv").write_text(csv_text([*rows, (4999, 0, 0.1)]))
    with pytest.raises(InputError, match="appears twice, first on line"):
        carry_out(REQUEST, str(tmp_path / "twice.csv"))
