"""Reading data: what is accepted, and that what is wrong is named."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.training.data import load, synthetic
from dpcalc.training.readers import read_idx_folder


def _idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def _write_folder(folder, *, zipped, records=5, labels=None):
    generator = np.random.default_rng(0)
    for name in ("train", "t10k"):
        images = generator.integers(0, 256, (records, 4, 4), dtype=np.uint8)
        marks = np.arange(records, dtype=np.uint8) % 3 if labels is None else labels
        for kind, array in (("images-idx3", images), ("labels-idx1", marks)):
            path = folder / f"{name}-{kind}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(_idx(array)) if zipped else _idx(array))


@pytest.mark.parametrize("zipped", [False, True])
def test_an_idx_folder_is_read_plain_or_gzipped(tmp_path, zipped):
    _write_folder(tmp_path, zipped=zipped)
    data = load(str(tmp_path))
    assert (len(data), data.features, data.classes) == (5, 16, 3)
    assert data.x_train.max() <= 1
    assert data.y_test.tolist() == [0, 1, 2, 0, 1]


def test_bytes_become_numbers_between_zero_and_one(tmp_path):
    _write_folder(tmp_path, zipped=False)
    raw = np.frombuffer((tmp_path / "train-images-idx3-ubyte").read_bytes()[16:], dtype=np.uint8)
    assert load(str(tmp_path)).x_train.ravel() == pytest.approx(raw / 255, rel=1e-6)


def test_a_missing_file_is_named(tmp_path):
    _write_folder(tmp_path, zipped=False)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="t10k-labels-idx1-ubyte"):
        load(str(tmp_path))


def test_a_truncated_file_is_named_with_both_sizes(tmp_path):
    _write_folder(tmp_path, zipped=False)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"train-images.*expected 80 bytes.*found 77"):
        load(str(tmp_path))


def test_a_truncated_gzip_is_an_input_error(tmp_path):
    _write_folder(tmp_path, zipped=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="train-images"):
        load(str(tmp_path))


def test_a_file_that_is_not_idx_is_an_input_error(tmp_path):
    _write_folder(tmp_path, zipped=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"PNG...")
    with pytest.raises(InputError, match="not an IDX file"):
        load(str(tmp_path))


def test_records_and_labels_must_be_equally_many(tmp_path):
    _write_folder(tmp_path, zipped=False, labels=np.zeros(4, dtype=np.uint8))
    with pytest.raises(InputError, match="5 training records but 4"):
        load(str(tmp_path))


def _npz(path, **changes):
    arrays = {"x_train": np.ones((4, 3)), "y_train": np.array([0, 1, 1, 0]), "x_test": np.ones((2, 3))}
    np.savez(path, **{**arrays, "y_test": np.array([0, 1]), **changes})
    return str(path)


def test_an_npz_archive_is_read(tmp_path):
    data = load(_npz(tmp_path / "d.npz"))
    assert (len(data), data.features, data.classes, len(data.x_test)) == (4, 3, 2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.array([0, 1, -1, 0])}, "label -1 of record 2"),
        ({"y_train": np.array([0, 1, 0.5, 0])}, "label 0.5 of record 2"),
        ({"y_train": np.array([0, 1, np.nan, 0])}, "label nan"),
        ({"y_train": np.zeros(4)}, "two classes"),
        ({"y_train": np.array([0, 1, 9, 0])}, "label 9 is out of range"),
        ({"y_test": np.array([0, 2])}, "test label 2 is out of range"),
        ({"x_train": np.full((4, 3), np.nan)}, "record 0 has a feature that is not a finite number"),
        ({"x_train": np.ones((0, 3)), "y_train": np.ones(0)}, "no training records"),
        ({"x_train": np.ones((4, 2))}, "2 features, test records 3"),
        ({"x_train": np.array(["a", "b", "c", "d"])}, "rows of numbers"),
        ({"y_test": np.array([1])}, "2 test records but 1 test labels"),
    ],
)
def test_wrong_arrays_are_named(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load(_npz(tmp_path / "d.npz", **changes))


class _Touching:
    """Leaves a file behind as soon as it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("array", ["x_train", "y_train", "x_test", "y_test"])
def test_a_pickled_array_is_refused_before_it_has_run(tmp_path, array):
    trace = tmp_path / "trace"
    with pytest.raises(InputError, match="object arrays cannot be loaded"):
        load(_npz(tmp_path / "d.npz", **{array: np.array([_Touching(trace)], dtype=object)}))
    assert not trace.exists()


def test_an_archive_without_the_arrays_says_which_are_missing(tmp_path):
    np.savez(tmp_path / "d.npz", x_train=np.ones((2, 2)))
    with pytest.raises(InputError, match="missing y_train, x_test, y_test"):
        load(str(tmp_path / "d.npz"))


def test_a_table_is_read_with_its_label_column_anywhere(tmp_path):
    (tmp_path / "d.csv").write_text("a,label,b\n1,0,2\n3,1,4\n")
    data = load(str(tmp_path / "d.csv"))
    assert data.x_train.tolist() == [[1, 2], [3, 4]]
    assert data.y_train.tolist() == [0, 1]
    assert len(data.x_test) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"d\.csv:1: expected a header with a column named label"),
        ("a,label\n1,0\nx,1\n", r"d\.csv:3: expected numbers"),
        ("a,label\n1,0\n2\n", r"d\.csv:3: expected 2 values, found 1"),
        ("a,label\n1,cat\n", "labels 0, 1, 2, …: expected a number such as .*, got 'cat'"),
        ("a,label\n", "no training records"),
        ("", "expected a header"),
    ],
)
def test_a_wrong_table_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / "d.csv"))


def test_a_path_that_is_not_there_is_an_input_error():
    with pytest.raises(InputError, match="no such file"):
        load("/nowhere/data.npz")


def test_no_record_exceeds_the_feature_clip():
    data = synthetic(500, 50).with_features_clipped(0.9)
    lengths = np.linalg.norm(data.x_train.astype(np.float64), axis=1)
    assert lengths.max() <= 0.9
    assert lengths.max() == pytest.approx(0.9, rel=1e-5)


def test_short_records_keep_their_features():
    data = synthetic(50, 5)
    assert np.array_equal(data.with_features_clipped(100).x_train, data.x_train)


def test_the_synthetic_data_set_is_always_the_same():
    assert np.array_equal(synthetic(100, 10).x_train, synthetic(100, 10).x_train)


def test_what_a_packed_file_unpacks_to_is_held_to_the_limit(tmp_path):
    """However large the file is, what it takes is known only when it is unpacked; a plain one takes what it has."""
    pixels = np.tile(np.random.default_rng(1).integers(0, 256, 5000, dtype=np.uint8), 16)
    images = struct.pack(">BBBBIII", 0, 0, 8, 3, 200, 20, 20) + pixels.tobytes()
    for zipped in (False, True):
        folder = tmp_path / str(zipped)
        folder.mkdir()
        _write_folder(folder, zipped=zipped)
        path = folder / f"train-images-idx3-ubyte{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(images) if zipped else images)
    assert len(read_idx_folder(tmp_path / "False", limit=100_000)[0]) == 200
    with pytest.raises(InputError, match="would take 640 kB, more than the 100 kB that it may; `read_limit`"):
        read_idx_folder(tmp_path / "True", limit=100_000)
