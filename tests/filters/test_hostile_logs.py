"""Logs that claim more than they hold, that would steer terminals and spreadsheets, and ids as they are written."""

from __future__ import annotations

import csv
import gzip
import io
import json
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.errors import BusyError, InputError
from dpcalc.files import archive as sealed
from dpcalc.files import locked
from dpcalc.filters import subsampled
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.request import Request
from dpcalc.filters.summary import members
from dpcalc.pairs import subsampled_renyi

FILTER = ("--filter", "gdp", "--sigma", "2", "--mu", "3")
REQUEST = Request(kind="gdp", sigma=2.0, mu=3.0)


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def archive(path: Path, content: bytes) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("norms.npy", content)
    return str(path)


def refusal(path: str, **options: object) -> str:
    with pytest.raises(InputError) as error:
        carry_out(Request(kind="gdp", sigma=2.0, mu=3.0, **options), path)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    return str(error.value)


class TestSizes:
    def test_an_array_that_is_only_announced_takes_no_memory(self, tmp_path: Path) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "200,000,000 individuals" in refusal(archive(tmp_path / "a.npz", header((2, 200_000_000))))
        assert "announced" in refusal(archive(tmp_path / "b.npz", header((2, 1_000_000))))
        assert "70,000,000 steps" in refusal(archive(tmp_path / "c.npz", header((70_000_000, 1), "|u1")))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000

    def test_the_limit_is_told_and_can_be_raised(self, tmp_path: Path, dpcalc: Callable[..., object]) -> None:
        path = archive(tmp_path / "a.npz", header((1, 30_000), "|u1") + bytes(30_000))
        refused = dpcalc("filter", path, *FILTER, "--read-limit", "2e6")
        assert refused.code == 2  # type: ignore[attr-defined]
        assert "2 MB" in refused.err  # type: ignore[attr-defined]
        assert "--read-limit raises" in refused.err  # type: ignore[attr-defined]
        assert dpcalc("filter", path, *FILTER, "--read-limit", "4e6").code == 0  # type: ignore[attr-defined]

    @pytest.mark.parametrize("kind", ["csv.gz", "npz", "parquet"])
    def test_what_a_log_unpacks_to_is_held_to_the_limit(self, tmp_path: Path, kind: str) -> None:
        """Three megabytes in a few kilobytes, of few people and steps: nothing but the limit says how much is read."""
        path = tmp_path / f"log.{kind}"
        if kind == "npz":
            np.savez_compressed(path, norms=np.zeros((1000, 3000), dtype=np.uint8))
        elif kind == "csv.gz":
            norms = np.random.default_rng(1).random(3000)
            rows = "".join(f"{step},1,{' ' * 900}{norm}\n" for step, norm in enumerate(norms))
            path.write_bytes(gzip.compress(f"step,id,norm\n{rows}".encode()))
        else:
            pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            columns = {"step": np.repeat(np.arange(200), 1000), "id": np.tile(np.arange(1000), 200)}
            parquet.write_table(pa.table({**columns, "norm": np.zeros(200_000)}), path, compression="gzip")
        assert path.stat().st_size < 100_000
        message = refusal(str(path), read_limit=1_000_000)
        assert "1 MB" in message
        assert message.endswith("`read_limit` raises that")
        run = carry_out(Request(kind="gdp", sigma=2.0, mu=3.0, read_limit=4_000_000), str(path))
        assert len(run.steps.labels) in (200, 1000, 3000)

    @pytest.mark.parametrize("start", [b"step,id,norm\n0,", b'{"step": 0, "id": "'])
    def test_a_line_without_end_is_not_read_to_its_end(self, tmp_path: Path, start: bytes) -> None:
        path = tmp_path / "log.gz"
        with gzip.open(path, "wb", 1) as stream:
            stream.write(start)
            for _ in range(200):
                stream.write(b"7" * 1_000_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "that a line may have" in refusal(str(path))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000

    def test_nothing_for_ever_is_no_log(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text('{"step": 0, "id": 1, "norm": 1}\n' + "\n" * 5000)
        assert "empty lines" in refusal(str(path))

    @pytest.mark.parametrize("option", ["log", "groups"])
    def test_an_endless_device_ends(self, tmp_path: Path, option: str) -> None:
        log = tmp_path / "log.csv"
        log.write_text("step,id,norm\n0,1,1\n")
        if option == "log":
            assert "1 MB" in refusal("/dev/zero", read_limit=1_000_000)
        else:
            assert "/dev/zero:1" in refusal(str(log), groups=Path("/dev/zero"))


class TestDamage:
    @pytest.mark.parametrize(
        "content",
        [
            gzip.compress(b"step,id,norm\n0,a,1\n", mtime=0)[:-9],
            gzip.compress(b"step,id,norm\n0,a,1\n" * 9, mtime=0)[:12] + b"\xff" * 30,
            b"BZh9" + b"\xff" * 40,
            b"\xfd7zXZ" + b"\0" * 40,
            b"PK\x03\x04" + b"\0" * 60,
            b"\x93NUMPY\x09\x09\x10\0{}",
            b"\x93NUMPY\x01\0\x12\0{'descr': '<f8', [[",
            header((3,)).replace(b"(3,)", b"(3L,)") + bytes(24),
            header((4,)).replace(b"(4,)", b"(-4,)"),
            b"PAR1 is all there is PAR1",
            b'{"step": 0, "id": 1, "norm": ' + b"[" * 90_000,
            b'{"step": 0, "id": 1, "norm": ' + b"8" * 3000 + b"}",
            b'{"step": 0, "id": 1, "norm": 1, "norm": 2}',
            b'{"step": 0, "id": "\\ud800", "norm": 1}',
            b'{"step": 0, "id": 1.5, "norm": 1}',
            b'{"step": 0, "id": 1, "norm": true}',
            b"step,id,norm\n0,caf\xe9,1\n",
            b"step,id,norm\n0,a,0x1p3\n",
        ],
    )
    def test_what_libraries_say_of_it_is_one_short_error(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "log"
        path.write_bytes(content)
        assert refusal(str(path)).startswith(str(path))

    @pytest.mark.parametrize("kind", ["encrypted", "unknown method"])
    def test_archives_that_cannot_be_unpacked(self, tmp_path: Path, kind: str) -> None:
        path = Path(archive(tmp_path / "log.npz", header((3,)) + bytes(24)))
        data = bytearray(path.read_bytes())
        for place in (data.index(b"PK\x03\x04") + 6, data.index(b"PK\x01\x02") + 8):
            data[place + (0 if kind == "encrypted" else 2)] = 1 if kind == "encrypted" else 77
        path.write_bytes(data)
        assert refusal(str(path)).startswith(str(path))


class TestIds:
    @pytest.mark.parametrize("first", ["1", "x"])
    def test_a_state_keeps_them_as_they_are_written(self, tmp_path: Path, first: str) -> None:
        state = tmp_path / "state"
        for step, name in enumerate([first, "007", "7", "-7", "+7", "7.0", " 7"]):
            log = tmp_path / "log.csv"
            log.write_text(f"step,id,norm\n{step},{name},1\n")
            run = carry_out(Request(kind="gdp", sigma=2.0, mu=3.0, state=state), str(log))
        assert run.names is not None
        assert list(map(str, run.names)) == [first, "007", "7", "-7", "+7", "7.0", " 7"]
        assert run.filter.steps_active.tolist() == [1] * 7

    def test_large_unsigned_ids_do_not_wrap(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        names = [2**64 - 3, 2**63 + 5, 11]
        table = pa.table({"step": [0, 0, 0], "id": pa.array(names, pa.uint64()), "norm": [1.0, 0.5, 0.25]})
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "log.parquet")
        run = carry_out(REQUEST, str(tmp_path / "log.parquet"))
        assert sorted(map(str, run.names or [])) == sorted(map(str, names))

    @pytest.mark.parametrize("column", ["id", "norm"])
    def test_booleans_are_neither_ids_nor_norms(self, tmp_path: Path, column: str) -> None:
        pa = pytest.importorskip("pyarrow")
        columns = {"step": [0, 1], "id": [4, 4], "norm": [1.0, 0.5], column: [True, False]}
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), tmp_path / "log.parquet")
        assert "log.parquet:1: expected" in refusal(str(tmp_path / "log.parquet"))

    def test_a_fraction_is_a_number_here_too(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("step,id,norm\n0,a,3/4\n")
        run = carry_out(REQUEST, str(tmp_path / "log.csv"))
        assert run.filter.totals[0].tolist() == [0.5625]

    def test_a_spreadsheet_runs_none_of_them(self, tmp_path: Path, dpcalc: Callable[..., object]) -> None:
        names = ["=2+3", "@sum", "+x", "-y", "'=2+3", "plain", "-12"]
        log, table = tmp_path / "log.csv", tmp_path / "table.csv"
        log.write_text("step,id,norm\n" + "".join(f"0,{name},1\n" for name in names))
        assert dpcalc("filter", log, *FILTER, "--per-individual", table).code == 0  # type: ignore[attr-defined]
        with table.open(newline="") as stream:
            found = [row[0] for row in csv.reader(stream)][2:]
        assert sorted(found) == sorted(["'=2+3", "'@sum", "'+x", "'-y", "''=2+3", "plain", "-12"])

    def test_terminals_are_not_steered(self, tmp_path: Path, dpcalc: Callable[..., object]) -> None:
        log, groups = tmp_path / "log.csv", tmp_path / "groups.csv"
        log.write_text("step,id,norm\n0,\x1b[2Ja,1\n0,\x1b[2Ja,1\n")
        twice = dpcalc("filter", log, *FILTER)
        log.write_text("step,id,norm\n0,a,1\n")
        groups.write_text("id,group\na,\x9b31mred\u202e\n")
        for format in ("table", "json", "csv", "markdown", "github", "junit"):
            told = dpcalc("filter", log, *FILTER, "--groups", groups, "-f", format)
            assert not {"\x1b", "\x9b", "\u202e"} & {*twice.err, *told.out, *told.err}  # type: ignore[attr-defined]


class TestStates:
    @pytest.fixture
    def state(self, tmp_path: Path) -> Path:
        (tmp_path / "log.csv").write_text("step,id,norm\n0,a,1\n1,b,2\n")
        carry_out(Request(kind="gdp", sigma=2.0, mu=3.0, state=tmp_path / "state"), str(tmp_path / "log.csv"))
        return tmp_path / "state"

    def resume(self, state: Path) -> None:
        carry_out(Request(kind="gdp", sigma=2.0, mu=3.0, state=state), str(state.parent / "log.csv"))

    @pytest.mark.parametrize(
        "name", ["totals", "compensation", "steps_active", "lost", "clipped", "present", "step_active"]
    )
    def test_an_edited_one_is_refused(self, state: Path, name: str) -> None:
        with np.load(state) as stored:
            arrays = dict(stored.items())
        arrays[name] = arrays[name] + np.ones_like(arrays[name]) if arrays[name].dtype != bool else ~arrays[name]
        with state.open("wb") as stream:
            np.savez(stream, **arrays)
        with pytest.raises(InputError, match="was changed after dpcalc wrote it"):
            self.resume(state)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("totals", np.array([[-1.0, 0.0]])),
            ("totals", np.array([1.0, 0.0])),
            ("compensation", np.array([[np.nan, 0.0]])),
            ("lost", np.zeros(5, dtype=bool)),
            ("step_active", np.array([1])),
            ("step_labels", np.array([1, 0])),
            ("surplus", np.zeros(1)),
            ("names", "x"),
        ],
    )
    def test_one_that_is_sealed_again_must_still_make_sense(self, state: Path, name: str, value: object) -> None:
        facts, arrays = sealed.load_sealed(str(state), what="a state")
        if isinstance(value, str):
            facts[name] = value
        else:
            arrays[name] = np.asarray(value)
        sealed.save_sealed(str(state), facts, arrays)
        with pytest.raises(InputError, match="state"):
            self.resume(state)

    def test_two_processes_take_turns(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dpcalc.filters.local.locked", lambda path: locked(path, patience=0.1))
        with locked(str(state)), pytest.raises(BusyError, match="another dpcalc process"):
            self.resume(state)
        self.resume(state)

    def test_a_step_of_other_people_is_not_the_step_that_was_counted(self, state: Path) -> None:
        (state.parent / "log.csv").write_text("step,id,norm\n0,b,1\n1,b,2\n")
        with pytest.raises(InputError, match="step 0 is not the one"):
            self.resume(state)

    def test_no_step_of_several_processes_is_lost(self, tmp_path: Path) -> None:
        state = tmp_path / "state"
        command = [sys.executable, "-m", "dpcalc", "filter", "-", *FILTER, "--state", str(state)]
        started = []
        for person in range(3):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            started.append(process)
            assert process.stdin is not None
            process.stdin.write(b"step,id,norm\n" + f"0,p{person},1\n".encode())
            process.stdin.close()
        codes = [process.wait(timeout=600) for process in started]
        facts, arrays = sealed.load_sealed(str(state), what="a state")
        # The first may count its step; the others find that step 0 is another one, and are told.
        assert sorted(codes) == [0, 2, 2]
        assert len(facts["names"]) == 1
        assert arrays["steps_active"].tolist() == [1]


def test_json_rows_may_begin_after_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n\n" + json.dumps({"step": 0, "id": "a", "norm": 2}) + "\n")
    assert carry_out(REQUEST, str(tmp_path / "log")).filter.totals[0].tolist() == [4.0]


def test_hardly_any_noise_under_sampling_takes_no_longer_than_enough_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a rule would be too long nothing is computed at all: tables of 10⁹ times the noise took a minute."""
    path, evaluated, true = tmp_path / "log.csv", [0], subsampled_renyi._log_ratio

    def counted(nodes: Any, *more: Any) -> Any:
        evaluated[-1] += nodes.size
        return true(nodes, *more)

    monkeypatch.setattr(subsampled_renyi, "_log_ratio", counted)
    subsampled._lines.cache_clear()
    subsampled._table.cache_clear()
    path.write_text("step,id,norm\n0,a,1\n0,b,0.5\n")
    for sigma in (1e-5, 0.3):
        evaluated.append(0)
        carry_out(Request(kind="rdp", sigma=sigma, orders=(8.0,), rhos=(0.1,), sample_rate=0.01), str(path))
    assert evaluated[1] == 0
    assert 0 < evaluated[2] < 2e7  # a fraction of a second


def test_a_group_for_everybody_is_not_compared_with_everybody(tmp_path: Path) -> None:
    """Ten times the groups take ten times as long, not a hundred."""
    log, groups = tmp_path / "log.csv", tmp_path / "groups.csv"
    seconds = []
    for people in (2_000, 40_000):
        log.write_text("step,id,norm\n" + "".join(f"0,p{n},0.5\n" for n in range(people)))
        groups.write_text("id,group\n" + "".join(f"p{n},g{n}\n" for n in range(people)))
        start = time.process_time()
        run = carry_out(Request(kind="gdp", sigma=4.0, mu=1.0, groups=groups), str(log))
        assert [who.tolist() for who in members(run)] == [[int(name[1:])] for name in run.group_names]
        seconds.append(time.process_time() - start)
    assert seconds[1] < 100 * seconds[0]
