"""Cases for the fuzzer: commands that are right, and one thing after another made wrong, always the same for a seed."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.fuzz.commands import (
    columns_log,
    csv_data,
    filter_options,
    ledger_export,
    ledger_file,
    ledger_options,
    opacus_history,
    run,
    sampled_spec,
    schedule,
    train_options,
    two_releases,
)
from tests.fuzz.runs import included, last_iterate, model, packed_log, queries, query_state, read_limit
from tests.fuzz.sealed import checkpoint, state
from tests.fuzz.spoil import packed, spoilt, spoilt_text, with_nasty_words

_SPEC = """adjacency: add-remove
delta: 1e-5
budget: {epsilon: 3.0}
mechanisms:
  - {name: counts, type: gaussian, sigma: 4.0, sensitivity: 2.0, count: 10}
  - {type: laplace, scale: 10, sensitivity: 1}
  - {type: exponential, epsilon: 0.1}
  - {type: randomized-response, epsilon: 0.5}
  - {type: discrete-laplace, scale: 3, sensitivity: 1}
  - {type: dp, epsilon: 0.1, delta: 1e-7}
  - {type: gdp, mu: 0.3}
  - {type: zcdp, rho: 0.01}
  - {type: rdp, orders: [2, 4, 8], epsilons: [0.1, 0.2, 0.4]}
"""
_GRID = "lr: [0.1, 1]\nclip: [0.5, 1]\nbatch-size: [4]\n"
_FILTER = ["--filter", "gdp", "--sigma", "4", "--mu", "1"]
_TRAIN = ["train", "--model", "logistic", "--algorithm", "gd", "--steps", "2", "--noise-multiplier", "5"]

_COMMANDS = (
    "convert --gdp 1.2 --delta 1e-5",
    "convert --gdp 0.4 --epsilon 0.7 --group 3",
    "convert --zcdp 0.1 --delta 1e-6 --order 4",
    "convert --rdp 4,0.2 --rdp 8,0.5 --delta 1e-5",
    "convert --dp 0.5,1e-6 --epsilon 0.9",
    "compose -m gaussian,noise_multiplier=2,count=5 -m laplace,scale=7,sensitivity=1 --delta 1e-5",
    "compose -m randomized-response,epsilon=0.5 -m zcdp,rho=0.01 --delta 1e-6",
    "compose -m gaussian,noise_multiplier=3,count=4 -m laplace,scale=9,sensitivity=1 --slack 0.01 --delta 1e-5",
    "calibrate -m gaussian,noise_multiplier=solve,count=3 --epsilon 1 --delta 1e-5",
    "sgd-bound --algorithm gd --lr 0.1 --sigma 1 --sensitivity 1 --n 100 --steps 20 --strong-convexity 0.1 "
    "--smoothness 1 --delta 1e-5",
    "sgd-bound --model linear --loss huber --classes 3 --feature-clip 2 --regularization 0.1 --algorithm cgd --lr 0.1 "
    "--sigma 1 --n 100 --batch-size 20 --epochs 4 --delta 1e-5",
    "sgd-bound --algorithm sgd --adjacency add-remove --lr 0.1 --sigma 1 --clip 1 --n 100 --batch-size 20 --steps 20 "
    "--strong-convexity 0.1 --smoothness 1 --largest-batch 60 --delta 1e-5",
    "exp-mech --lipschitz 1 --strong-convexity 0.5 --delta 1e-5",
    "exp-mech --epsilon-mech 0.3 --count 4 --delta 1e-6",
)


class Case(NamedTuple):
    """What kind it is, and the arguments of the command; files have been written."""

    kind: str
    arguments: list[str]


def make(seed: int, number: int, folder: Path) -> Case:
    """The case of this number, with its files in an empty folder."""
    dice = random.Random(f"{seed}:{number}")
    kind = tuple(KINDS)[number % len(KINDS)]
    arguments = KINDS[kind](dice, folder)
    if dice.random() < 0.5:
        arguments += ["-f", dice.choice(["json", "csv", "markdown", "github", "junit"])]
    return Case(kind, arguments)


# -- kinds -----------------------------------------------------------------------------------------------------------


def _options(dice: random.Random, _: Path) -> list[str]:
    return with_nasty_words(dice, dice.choice(_COMMANDS).split(), first=1)


def _spec(dice: random.Random, folder: Path) -> list[str]:
    head, entries = _SPEC.split("mechanisms:\n")
    chosen = dice.sample(entries.splitlines(), dice.choice([1, 1, 2, 3]))
    path = folder / "spec.yaml"
    path.write_bytes(spoilt_text(dice, f"{head}mechanisms:\n" + "\n".join(chosen) + "\n"))
    return ["compose", str(path)]


def _result(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "result.json"
    run(["convert", "--gdp", "0.7", "--delta", "1e-5", "-f", "json", "-o", str(path)])
    path.write_bytes(spoilt_text(dice, path.read_text()))
    return ["compose", str(path), "--delta", "1e-5"]


def _rows(dice: random.Random) -> list[tuple[int, str, float]]:
    names = dice.choice([("1", "2", "3"), ("01", "1", "a"), ("=x", "'b", "\x1b[1m")])
    return [(step, name, round(dice.random(), 3)) for step in range(dice.choice([1, 3])) for name in names]


def _table_log(dice: random.Random, folder: Path) -> list[str]:
    path, rows = folder / "log", _rows(dice)
    if dice.random() < 0.5:
        text = "step,id,norm\n" + "".join(f"{step},{name},{norm}\n" for step, name, norm in rows)
    else:
        text = "".join(json.dumps({"step": step, "id": name, "norm": norm}) + "\n" for step, name, norm in rows)
    path.write_bytes(packed(dice, spoilt_text(dice, text)))
    return ["filter", str(path), *_FILTER]


def _array(dice: random.Random) -> np.ndarray:
    kinds = [np.float64, np.float32, np.int8, np.uint64, bool, np.complex64, "U3"]
    shape = dice.choice([(3, 4), (5,), (), (0, 3), (2, 2, 2)])
    return np.ones(shape, dtype=dice.choice([np.float64, np.float64, *kinds]))


def _forged_header(dice: random.Random) -> bytes:
    size = dice.choice(
        ["(300000000,)", "(1, 300000000)", "(-1, 3)", "(3, 99999999999999999999)", "()", "(2.5,)", "(1,)*9"]
    )
    kind = dice.choice(["'<f8'", "'|u1'", "'|O'", "[('a', '<f8')]", "'<U9'", "'<m8'", "('<f8', (99999,))", "'<f999'"])
    header = (
        f"{{'descr': {kind}, 'fortran_order': {dice.choice(['True', 'False', '0'])}, 'shape': {size}, }}\n".encode()
    )
    version = dice.choice([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\x09\x09"])
    length = struct.pack("<H" if version[:1] == b"\1" else "<I", len(header))
    return b"\x93NUMPY" + version + length + header + b"\0" * dice.choice([0, 8, 800])


def _npy(dice: random.Random) -> bytes:
    if dice.random() < 0.4:
        return _forged_header(dice)
    stream = io.BytesIO()
    np.save(stream, _array(dice))
    return stream.getvalue()


def _archive(dice: random.Random, names: tuple[str, ...]) -> bytes:
    stream = io.BytesIO()
    method = dice.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in names:
            archive.writestr(f"{name}.npy", _npy(dice))
    return stream.getvalue()


def _array_log(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "log"
    data = _npy(dice) if dice.random() < 0.5 else _archive(dice, dice.choice([("norms",), ("a", "b"), ()]))
    path.write_bytes(packed(dice, spoilt(dice, data) if dice.random() < 0.5 else data))
    return ["filter", str(path), *_FILTER, *read_limit(dice)]


def _parquet_log(dice: random.Random, folder: Path) -> list[str]:
    import pyarrow as pa
    from pyarrow import parquet

    rows = _rows(dice)
    ids = dice.choice([[name for _, name, _ in rows], [2**64 - 1 - n % 3 for n in range(len(rows))], [1.5] * len(rows)])
    odd = dice.choice([[norm for *_, norm in rows], [True] * len(rows), [{"a": 1.0}] * len(rows), [None] * len(rows)])
    columns = {"step": [step for step, *_ in rows], "id": ids, "norm": odd}
    if dice.random() < 0.3:
        columns = {"nested": [{"x": -n} for n in range(len(rows))], **columns}
    kind = pa.uint64() if isinstance(ids[0], int) else None
    arrays = {name: pa.array(values, type=kind if name == "id" else None) for name, values in columns.items()}
    path = folder / "log.parquet"
    parquet.write_table(pa.table(arrays), path, compression=dice.choice(["none", "snappy", "gzip"]))
    if dice.random() < 0.6:
        path.write_bytes(spoilt(dice, path.read_bytes()))
    return ["filter", str(path), *_FILTER]


def _groups(dice: random.Random, folder: Path) -> list[str]:
    (folder / "log.csv").write_text("step,id,norm\n0,a,1\n0,b,0.5\n")
    (folder / "groups.csv").write_bytes(spoilt_text(dice, "id,group\na,one\nb,two\n"))
    return ["filter", str(folder / "log.csv"), *_FILTER, "--groups", str(folder / "groups.csv")]


def _data(dice: random.Random, folder: Path) -> list[str]:
    kind = dice.choice(["csv", "npz", "idx"])
    if kind == "csv":
        path = folder / "data.csv"
        path.write_bytes(spoilt_text(dice, "a,label,b\n" + "".join(f"{n}.5,{n % 2},{n}\n" for n in range(6))))
        return [*_TRAIN, "--data", str(path)]
    if kind == "npz":
        path = folder / "data.npz"
        names = ("x_train", "y_train", "x_test", "y_test")
        if dice.random() < 0.5:
            x, y = np.ones((4, 3)), np.array([0, 1, 0, 1])
            np.savez(path, **{**dict(zip(names, (x, y, x, y), strict=True)), dice.choice(names): _array(dice)})
        else:
            path.write_bytes(_archive(dice, names))
        if dice.random() < 0.4:
            path.write_bytes(spoilt(dice, path.read_bytes()))
        return [*_TRAIN, "--data", str(path), *read_limit(dice)]
    for name, shape in (("train-images-idx3", (4, 2, 2)), ("train-labels-idx1", (4,))):
        for file in (name, name.replace("train", "t10k")):
            sizes = [dice.choice([size, size, size, size, 0, 2**32 - 1, 1000]) for size in shape]
            dimensions = dice.choice([len(shape)] * 9 + [0, 65, 255])
            head = bytes([0, 0, 8, dimensions]) + struct.pack(f">{len(shape)}I", *sizes)
            data = spoilt(dice, head + bytes(n % 2 for n in range(int(np.prod(shape)))))
            zipped = dice.random() < 0.5
            (folder / f"{file}-ubyte{'.gz' if zipped else ''}").write_bytes(gzip.compress(data) if zipped else data)
    return [*_TRAIN, "--data", str(folder), *read_limit(dice)]


def _grid(dice: random.Random, folder: Path) -> list[str]:
    path, data = folder / "grid.yaml", csv_data(folder)
    path.write_bytes(spoilt_text(dice, _GRID))
    return ["train", "--model", "logistic", "--steps", "1", "--data", data, "--test-data", data, "--grid", str(path)]


KINDS: dict[str, Callable[[random.Random, Path], list[str]]] = {
    "options": _options,
    "spec": _spec,
    "result": _result,
    "table log": _table_log,
    "array log": _array_log,
    "parquet log": _parquet_log,
    "groups": _groups,
    "data": _data,
    "grid": _grid,
    "state": state,
    "checkpoint": checkpoint,
    "schedule": schedule,
    "ledger file": ledger_file,
    "ledger export": ledger_export,
    "ledger options": ledger_options,
    "report, diff, verify": two_releases,
    "filter options": filter_options,
    "train options": train_options,
    "sampled spec": sampled_spec,
    "columns log": columns_log,
    "opacus history": opacus_history,
    "queries": queries,
    "query state": query_state,
    "model": model,
    "last iterate": last_iterate,
    "included": included,
    "packed log": packed_log,
}
