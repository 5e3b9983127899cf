"""The one writer: whole or not at all, modes and links kept, streams written to, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcalc.errors import BusyError, InputError, WriteError
from dpcalc.files import PRIVATE, check_paths, growing, locked, read_bytes, reserve, write_text, writing
from dpcalc.files import writer as files


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_text("old")
    return path


class TestWriting:
    def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(self, old: Path) -> None:
        with contextlib.suppress(RuntimeError), writing(str(old)) as stream:
            stream.write(b"half of the new")
            raise RuntimeError
        assert old.read_text() == "old"
        assert list(old.parent.iterdir()) == [old]

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_failing_system_call_is_a_write_error_that_names_the_file(
        self, old: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.os if step == "fsync" else files.Path, step, fail)
        with pytest.raises(WriteError, match=r"result\.json: cannot be written: no space left"):
            write_text(str(old), "new")
        assert old.read_text() == "old"
        assert list(old.parent.iterdir()) == [old]

    def test_the_content_is_flushed_before_it_is_moved(self, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[str] = []
        fsync, replace = os.fsync, Path.replace
        monkeypatch.setattr(files.os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle))[1])
        monkeypatch.setattr(files.Path, "replace", lambda a, b: (calls.append("replace"), replace(a, b))[1])
        write_text(str(old), "new")
        assert calls == ["fsync", "replace", "fsync"]  # the content, the name, and the folder that has the name
        assert old.read_text() == "new"

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
    def test_an_existing_mode_is_kept(self, old: Path, mode: int) -> None:
        old.chmod(mode)
        write_text(str(old), "new")
        assert (old.read_text(), mode_of(old)) == ("new", mode)

    def test_new_files_obey_the_umask_and_private_ones_are_the_owners_alone(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_text(str(tmp_path / "shared"), "")
            write_text(str(tmp_path / "private"), "", mode=PRIVATE)
        finally:
            os.umask(before)
        assert mode_of(tmp_path / "shared") == 0o640
        assert mode_of(tmp_path / "private") == 0o600

    def test_a_symbolic_link_is_followed(self, old: Path) -> None:
        link = old.with_name("link")
        link.symlink_to(old.name)
        write_text(str(link), "new")
        assert link.is_symlink()
        assert old.read_text() == "new"

    def test_a_fifo_is_written_to(self, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        seen: list[bytes] = []
        reader = threading.Thread(target=lambda: seen.append(fifo.read_bytes()))
        reader.start()
        write_text(str(fifo), "new")
        reader.join(10)
        assert seen == [b"new"]
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_a_device_is_written_to_and_stays_one(self) -> None:
        write_text("/dev/null", "new")
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
        with pytest.raises(WriteError, match="/dev/full: cannot be written"):
            write_text("/dev/full", "new")

    def test_an_open_pipe_is_written_to_by_its_number(self) -> None:
        reading, pipe = os.pipe()
        check_paths({"output": f"/dev/fd/{pipe}"}, {})
        write_text(f"/dev/fd/{pipe}", "new")
        os.close(pipe)
        with os.fdopen(reading, "rb") as stream:
            assert stream.read() == b"new"

    def test_an_open_file_is_written_on_and_not_replaced(self, old: Path) -> None:
        with old.open("ab") as stream:
            write_text(f"/dev/fd/{stream.fileno()}", " and new")
            write_text(f"/proc/self/fd/{stream.fileno()}", ", twice")
        assert old.read_text() == "old and new, twice"

    def test_what_a_killed_process_left_goes_with_the_next_write(self, old: Path) -> None:
        code = (
            "import sys, time; from dpcalc.files import writing\n"
            "with writing(sys.argv[1]) as stream:\n"
            "    stream.write(b'x'); stream.flush(); print(1, flush=True); time.sleep(60)"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(old)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        assert len(list(old.parent.iterdir())) == 2
        write_text(str(old), "while it runs")
        assert len(list(old.parent.iterdir())) == 2
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        write_text(str(old), "new")
        assert list(old.parent.iterdir()) == [old]

    def test_a_name_as_long_as_the_system_allows(self, tmp_path: Path) -> None:
        path = tmp_path / ("n" * 255)
        write_text(str(path), "new")
        assert path.read_text() == "new"


class TestPathsBeforeAnyWork:
    def test_a_descriptor_that_is_not_open_and_links_in_a_circle_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is not open"):
            check_paths({"output": "/dev/fd/987654"}, {})
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(InputError, match="lead in a circle"):
            check_paths({"output": str(tmp_path / "a")}, {})

    def test_the_file_that_standard_output_goes_to_is_no_other_output(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        for output, code in ((str(out), 2), ("/dev/stdout", 0)):
            command = [sys.executable, "-m", "dpcalc", "convert", "--gdp", "1", "--delta", "1e-5", "-o", output]
            with out.open("wb") as stream:
                done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, check=False)
            assert done.returncode == code
            assert (b"standard output are the same file" in done.stderr) == bool(code)
        assert "ε = 4.378" in out.read_text()  # 4.37718, rounded up

    def test_the_file_that_standard_input_comes_from_is_an_input(self, tmp_path: Path) -> None:
        log = tmp_path / "log.csv"
        log.write_text("step,id,norm\n0,a,1\n")
        command = [sys.executable, "-m", "dpcalc", "filter", "-", "--filter", "gdp", "--sigma", "4", "--mu", "1"]
        for option in ("--output", "--per-individual", "--state"):
            with log.open("rb") as stream:
                done = subprocess.run([*command, option, str(log)], stdin=stream, capture_output=True, check=False)
            assert done.returncode == 2
            assert b"standard input are the same file" in done.stderr
            assert log.read_text() == "step,id,norm\n0,a,1\n"

    @pytest.mark.parametrize("tail", ["-wal", "-shm", "-journal"])
    def test_what_a_database_keeps_beside_itself_is_no_output(self, old: Path, tail: str) -> None:
        with pytest.raises(InputError, match="a database's own file; nothing was written"):
            check_paths({"output": f"{old}{tail}"}, {"ledger": old})
        check_paths({"output": f"{old}{tail}"}, {"ledger": old.with_name("another")})

    def test_two_outputs_on_one_file_are_refused_by_any_of_its_names(self, old: Path) -> None:
        link = old.with_name("link")
        link.symlink_to(old.name)
        with pytest.raises(InputError, match="output and table are the same file"):
            check_paths({"table": str(old), "output": str(link)}, {})
        with pytest.raises(InputError, match="are the same file"):
            check_paths({"a": str(old.with_name("new")), "b": f"{old.parent}/./new"}, {})

    def test_an_output_that_is_an_input_is_refused(self, old: Path) -> None:
        hard = old.with_name("hard")
        hard.hardlink_to(old)
        with pytest.raises(InputError, match="log and data are the same file"):
            check_paths({"log": str(hard)}, {"data": str(old)})

    def test_a_file_of_a_folder_that_is_read_is_an_input(self, old: Path) -> None:
        with pytest.raises(InputError, match="`table` is a file of the folder of `log`; nothing was written"):
            check_paths({"`table`": old}, {"`log`": old.parent})
        check_paths({"`table`": old.parent / "new"}, {"`log`": old.parent})

    def test_a_file_that_is_included_is_an_input(self, tmp_path: Path, dpcalc: Callable[..., Any]) -> None:
        part, whole = tmp_path / "part.yaml", tmp_path / "whole.yaml"
        part.write_text("mechanisms: [{type: gdp, mu: 0.7}]\n")
        whole.write_text("include: [part.yaml]\n")
        (tmp_path / "link").symlink_to(part)
        for output in (part, tmp_path / "link"):
            done = dpcalc("compose", whole, "--delta", "1e-5", "-o", output)
            assert (done.code, "nothing was written" in done.err) == (2, True)
        assert part.read_text() == "mechanisms: [{type: gdp, mu: 0.7}]\n"
        assert dpcalc("compose", whole, "--delta", "1e-5", "-o", tmp_path / "new").code == 0

    def test_what_may_be_shared_is_let_be(self, old: Path) -> None:
        check_paths({"a": "/dev/null", "b": "/dev/null", "c": "-", "d": None}, {"e": str(old), "f": str(old)})

    @pytest.mark.parametrize(
        ("name", "words"), [("no/x", "no folder"), (".", "is a folder"), ("a\0b", "not a file name")]
    )
    def test_what_cannot_be_written_is_found(self, tmp_path: Path, name: str, words: str) -> None:
        with pytest.raises(InputError, match=words):
            check_paths({"output": f"{tmp_path}/{name}"}, {})
        assert not list(tmp_path.iterdir())


class TestLocks:
    def test_the_second_is_told_and_nothing_is_left(self, old: Path) -> None:
        code = (
            "import sys, time; from dpcalc.files import locked\n"
            "with locked(sys.argv[1]):\n    print(1, flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(old)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        with pytest.raises(BusyError, match="another dpcalc process"), locked(str(old), patience=0.1):
            pass
        child.stdin.close()
        child.stdout.close()
        child.wait()
        with locked(str(old), patience=0.1):
            pass
        assert list(old.parent.iterdir()) == [old]

    def test_no_update_is_lost_between_many(self, tmp_path: Path) -> None:
        path = tmp_path / "count"
        path.write_text("0")
        code = (
            "import sys; from pathlib import Path; from dpcalc.files import locked, write_text\n"
            "for _ in range(20):\n"
            "    with locked(sys.argv[1], patience=60):\n"
            "        write_text(sys.argv[1], str(int(Path(sys.argv[1]).read_text()) + 1))"
        )
        children = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
        assert [child.wait() for child in children] == [0] * 4
        assert path.read_text() == "80"

    def test_a_killed_holder_does_not_keep_the_lock(self, old: Path) -> None:
        code = (
            "import sys, time; from dpcalc.files import locked\n"
            "with locked(sys.argv[1]):\n    print(1, flush=True); time.sleep(60)"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(old)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.kill()
        child.wait()
        child.stdout.close()
        start = time.monotonic()
        with locked(str(old), patience=30):
            pass
        assert time.monotonic() - start < 20


class TestReading:
    def test_no_more_is_read_than_is_allowed(self) -> None:
        with pytest.raises(InputError, match="larger than the 3 MB that a grid may have"):
            read_bytes("/dev/zero", limit=3_000_000, what="a grid")

    def test_the_limit_itself_is_allowed(self, old: Path) -> None:
        assert read_bytes(str(old), limit=3, what="a grid") == b"old"
        with pytest.raises(InputError, match="2 bytes"):
            read_bytes(str(old), limit=2, what="a grid")

    @pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
    def test_what_cannot_be_read_is_said_with_its_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError, match="cannot be read"):
            read_bytes(f"{tmp_path}/{name}", limit=10, what="a grid")


def test_space_is_allocated_before_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "log.npy"
    with growing(str(path), new=True) as stream:
        reserve(stream.fileno(), 100_000)
    found = path.stat()
    assert (found.st_size, mode_of(path)) == (100_000, 0o600)
    assert found.st_blocks * 512 >= 100_000
    with pytest.raises(WriteError, match="cannot be written"), growing(str(path), new=False):
        raise OSError(28, "No space left on device")
    with pytest.raises(InputError, match="regular file"), growing(str(tmp_path), new=True):
        pass


def test_a_sealed_archive_is_its_owners_alone(tmp_path: Path) -> None:
    from dpcalc.files.archive import save_sealed

    save_sealed(str(tmp_path / "state"), {}, {})
    assert mode_of(tmp_path / "state") == 0o600


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_sealed_archive_with_a_number_that_is_not_finite_is_refused(tmp_path: Path, number: float) -> None:
    """Its digest may fit: somebody who computed it anew is told all the same."""
    import numpy as np

    from dpcalc.files.archive import load_sealed, save_sealed

    path = str(tmp_path / "state")
    save_sealed(path, {}, {"sums": np.array([1.0, number])})
    with pytest.raises(InputError, match="sums holds a number that is not finite"):
        load_sealed(path, what="a state")


@pytest.mark.parametrize("command", ["filter", "train"])
def test_a_device_without_an_end_is_no_state(tmp_path: Path, dpcalc: Callable[..., Any], command: str) -> None:
    log, data = tmp_path / "log.csv", tmp_path / "data.csv"
    log.write_text("step,id,norm\n0,a,1\n")
    data.write_text("a,label\n" + "".join(f"{n},{n % 2}\n" for n in range(8)))
    words = {
        "filter": ["filter", log, "--filter", "gdp", "--sigma", "4", "--mu", "1", "--state", "/dev/zero"],
        "train": [
            "train",
            "--data",
            data,
            "--algorithm",
            "gd",
            "--steps",
            "1",
            "--checkpoint",
            "/dev/zero",
            "--resume",
        ],
    }
    done = dpcalc(*words[command])
    assert done.code == 2
    assert "/dev/zero: not a" in done.err
    assert "it is not a regular file" in done.err
