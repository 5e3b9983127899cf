"""What the tests of training share."""

import importlib.util
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["numpy", "torch"])
def backend(request):
    """Every library that computes gradients, as far as it is there."""
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param


@pytest.fixture
def close():
    """`found == pytest.approx(expected)` for arrays of many numbers, which that would take one by one."""

    def is_close(found, expected, rel, abs=1e-12):
        found, expected = np.asarray(found), np.asarray(expected)
        return found.shape == expected.shape and bool(
            np.all(np.abs(found - expected) <= np.maximum(rel * np.abs(expected), abs))
        )

    return is_close


@pytest.fixture
def example(monkeypatch):
    """A module of examples/ by name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def main(example, monkeypatch, capsys, tmp_path):
    """Run an example's main in an empty folder; what it printed, line by line."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        module = example(name)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        capsys.readouterr()
        module.main()
        return capsys.readouterr().out.strip().splitlines()

    return run


@pytest.fixture
def images(tmp_path):
    """A folder of IDX files, small and of MNIST's shape: each digit is a bright row of its own."""
    generator = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    for name, count in (("train", 300), ("t10k", 100)):
        y = generator.integers(0, 10, count).astype(np.uint8)
        x = generator.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        x[np.arange(count), 2 + 2 * y.astype(int)] = 200
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + x.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + y.tobytes())
    return folder
