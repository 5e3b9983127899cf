"""Data, grids, logs and checkpoints that are damaged, forged, endless or in use."""

from __future__ import annotations

import gzip
import io
import os
import struct
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.files import archive as sealed
from dpcalc.files import locked
from dpcalc.training.data import load
from dpcalc.training.grid import read_grid

RUN = ("train", "--model", "logistic", "--algorithm", "gd", "--steps", "3", "--noise-multiplier", "4")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    path.write_text("a,b,label\n" + "".join(f"{n % 3},{n % 5},{n % 2}\n" for n in range(20)))
    return str(path)


def folder(tmp_path: Path, header: bytes, *, zipped: bool = False) -> str:
    """A folder of images whose training images begin with this header."""
    for name, content in (
        ("train-images-idx3-ubyte", header),
        ("train-labels-idx1-ubyte", bytes([0, 0, 8, 1, 0, 0, 0, 2, 0, 1])),
        ("t10k-images-idx3-ubyte", bytes([0, 0, 8, 3]) + struct.pack(">3I", 1, 1, 1) + b"\0"),
        ("t10k-labels-idx1-ubyte", bytes([0, 0, 8, 1, 0, 0, 0, 1, 0])),
    ):
        packed = zipped and name.startswith("train-images")
        (tmp_path / (name + (".gz" if packed else ""))).write_bytes(gzip.compress(content) if packed else content)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (bytes([0, 0, 8, 0]), "expected 3 dimensions, found 0"),
        (bytes([0, 0, 8, 70]) + bytes(280), "expected 3 dimensions, found 70"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1), "would take"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1), "images"),
        (bytes([0, 0, 8, 3, 0, 0]), "damaged or cut short"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_images_that_announce_the_impossible(tmp_path: Path, header: bytes, words: str, zipped: bool) -> None:
    with pytest.raises(InputError) as error:
        load(folder(tmp_path, header, zipped=zipped))
    assert words in str(error.value) or "records" in str(error.value)


@pytest.mark.parametrize("name", ["x_train", "y_train", "x_test", "y_test"])
def test_an_array_without_dimensions_is_no_data(tmp_path: Path, name: str) -> None:
    x, y = np.ones((4, 3)), np.array([0, 1, 0, 1])
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y, name: np.array(3.0)}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError, match=r"d\.npz: expected"):
        load(str(tmp_path / "d.npz"))


def test_an_archive_that_unpacks_to_much_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            stream = io.BytesIO()
            np.save(stream, np.zeros((40, 5000), dtype=np.uint8))
            archive.writestr(f"{name}.npy", stream.getvalue())
    with pytest.raises(InputError, match="`read_limit` raises that"):
        load(str(tmp_path / "d.npz"), limit=1_000_000)


@pytest.mark.parametrize("cell", ["1_0", "１", "0x10", "one", "", "1e400", "nan"])
def test_a_table_has_the_numbers_of_everywhere_else(tmp_path: Path, cell: str) -> None:
    (tmp_path / "d.csv").write_text(f"a,label\n1,0\n{cell},1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"d\.csv"):
        load(str(tmp_path / "d.csv"))
    (tmp_path / "d.csv").write_text("a,label\n1/4,0\n3e-1,1\n")
    assert load(str(tmp_path / "d.csv")).x_train.ravel().tolist() == pytest.approx([0.25, 0.3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr: [1:45]\n", "expected a number"),
        ("lr: [020]\n", "expected a number"),
        ("lr: [0x20]\n", "expected a number"),
        ("batch-size: [2]\nbatch_size: [4]\n", "given twice"),
        ("lr: [1]\nlr: [2]\n", "given twice"),
        ("model: [&a [x, x], &b [*a, *a], &c [*b, *b]]\n", "anchors are not read"),
        (
            "\n".join(f"{name}: [{', '.join(map(str, range(1, 90)))}]" for name in ("lr", "clip", "steps")),
            "combinations",
        ),
        ("lr: [true]\n", "expected a number"),
        ("{}\n", "combinations"),
        ("", "mapping"),
    ],
)
def test_a_grid_is_read_as_a_spec_is(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "grid.yaml").write_text(text)
    start = time.process_time()
    with pytest.raises(InputError, match=words):
        read_grid(str(tmp_path / "grid.yaml"))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("option", ["--data", "--grid"])
def test_an_endless_device_ends(dpcalc: Callable[..., object], table: str, option: str) -> None:
    data = () if option == "--data" else ("--data", table, "--test-data", table)
    assert dpcalc(*RUN, *data, option, "/dev/zero").code == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["--log", "--checkpoint", "--save"])
def test_nothing_that_is_read_is_written_over(dpcalc: Callable[..., object], table: str, option: str) -> None:
    before = Path(table).read_text()
    assert dpcalc(*RUN, "--data", table, option, table).code == 2  # type: ignore[attr-defined]
    assert Path(table).read_text() == before


class TestCheckpoints:
    @pytest.fixture
    def command(self, tmp_path: Path, table: str, dpcalc: Callable[..., object]) -> tuple[str, ...]:
        command = (*RUN, "--data", table, "--checkpoint", str(tmp_path / "run.npz"), "--log", str(tmp_path / "log.npy"))
        assert dpcalc(*command).code == 0  # type: ignore[attr-defined]
        return (*command, "--resume")

    def test_an_edited_one_is_refused(self, command: tuple[str, ...], dpcalc: Callable[..., object]) -> None:
        path = Path(command[-4])
        with np.load(path) as stored:
            arrays = dict(stored.items())
        arrays["parameters"] = arrays["parameters"] + 1
        with path.open("wb") as stream:
            np.savez(stream, **arrays)
        told = dpcalc(*command)
        assert told.code == 2  # type: ignore[attr-defined]
        assert "was changed after dpcalc wrote it" in told.err  # type: ignore[attr-defined]

    @pytest.mark.parametrize("change", ["shape", "missing", "facts", "type"])
    def test_a_forged_one_is_refused(
        self, command: tuple[str, ...], dpcalc: Callable[..., object], change: str
    ) -> None:
        path = command[-4]
        facts, arrays = sealed.load_sealed(path, what="a checkpoint")
        if change == "shape":
            arrays["parameters"] = arrays["parameters"][:-1]
        elif change == "missing":
            del arrays["plain_parameters"]
        elif change == "type":
            arrays["parameters"] = arrays["parameters"].astype(np.int64)
        else:
            facts["history"] = 3
        sealed.save_sealed(path, facts, arrays)
        assert dpcalc(*command).code == 2  # type: ignore[attr-defined]

    def test_one_in_use_is_busy(
        self, command: tuple[str, ...], dpcalc: Callable[..., object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dpcalc.training.session.files.locked", lambda path: locked(path, patience=0.1))
        with locked(command[-4]):
            told = dpcalc(*command)
        assert told.code == 3  # type: ignore[attr-defined]
        assert "another dpcalc process" in told.err  # type: ignore[attr-defined]

    def test_a_log_that_is_another_one_is_refused(
        self, command: tuple[str, ...], dpcalc: Callable[..., object]
    ) -> None:
        np.save(command[-2], np.zeros((2, 2)))
        told = dpcalc(*command)
        assert told.code == 2  # type: ignore[attr-defined]
        assert "log.npy: cannot go on with this log" in told.err  # type: ignore[attr-defined]


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_a_log_may_go_into_a_pipe(tmp_path: Path, table: str, dpcalc: Callable[..., object], suffix: str) -> None:
    pipe, plain = tmp_path / f"pipe{suffix}", tmp_path / f"plain{suffix}"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert dpcalc(*RUN, "--data", table, "--seed", "5", "--log", pipe).code == 0  # type: ignore[attr-defined]
    reader.join(timeout=600)
    assert dpcalc(*RUN, "--data", table, "--seed", "5", "--log", plain).code == 0  # type: ignore[attr-defined]
    assert got == [plain.read_bytes()]


def test_a_run_that_fails_leaves_an_old_log_as_it_was(
    tmp_path: Path, table: str, dpcalc: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.npy"
    log.write_bytes(b"old")
    monkeypatch.setattr("dpcalc.training.iterates.compare", lambda _: os.truncate(tmp_path / "nowhere", 1))
    assert dpcalc(*RUN, "--data", table, "--log", log).code != 0  # type: ignore[attr-defined]
    assert log.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
