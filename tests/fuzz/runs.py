"""Cases for the fuzzer of queries, models, last iterates, included specs, and logs that unpack to much more."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import numpy as np

from tests.fuzz.commands import csv_data, run
from tests.fuzz.sealed import tampered
from tests.fuzz.spoil import spoilt_text, with_nasty_words

_TABLE = "id,monday,tuesday\n01,1,0\n1,0.5,1\na,0,0.25\n"
_BUDGETS = ("--epsilon 2 --delta 1e-6", "--mu 1", "--rho 0.2 --beta 0.1", "--sigma 3")


def read_limit(dice: random.Random) -> list[str]:
    """Now and then another limit for what is read."""
    return ["--read-limit", dice.choice(["1", "100", "5000", "1000000000000"])] if dice.random() < 0.3 else []


def queries(dice: random.Random, folder: Path) -> list[str]:
    path, words = folder / "table.csv", f"--norm-budget 3 {dice.choice(_BUDGETS)}".split()
    if dice.random() < 0.5:
        path.write_text(_TABLE)
        words = with_nasty_words(dice, words, first=0)
    else:
        path.write_bytes(spoilt_text(dice, _TABLE))
    return ["queries", str(path), *words]


def query_state(dice: random.Random, folder: Path) -> list[str]:
    """A state from an earlier call, changed."""
    table, state = folder / "table.csv", folder / "state"
    table.write_text(_TABLE)
    command = ["queries", str(table), "--norm-budget", "3", *dice.choice(_BUDGETS).split(), "--state", str(state)]
    run(command)
    if state.exists():
        state.write_bytes(tampered(dice, state.read_bytes()))
    table.write_text(_TABLE.replace("tuesday", dice.choice(["tuesday", "friday"])))
    return command


def model(dice: random.Random, folder: Path) -> list[str]:
    """Constants of the losses, from options or from data."""
    data = folder / "data.csv"
    data.write_bytes(spoilt_text(dice, Path(csv_data(folder)).read_text()))
    command = dice.choice(
        [
            "--model logistic --data DATA --feature-clip 1 --regularization 0.1 --algorithm gd --steps 5 --lr 0.1",
            "--model linear --loss squared --diameter 2 --data DATA --feature-clip 1 --algorithm cgd --batch-size 4 "
            "--epochs 2 --lr 0.01",
            "--model linear --loss smoothed-hinge --classes 3 --n 90 --feature-clip 2 --algorithm sgd --batch-size 9 "
            "--epochs 2 --lr 0.01 --adjacency add-remove --clip 0.5",
            "--model logistic --classes 2 --n 50 --feature-clip 1 --algorithm gd --lr 0.1 --target-epsilon 2",
            "--model logistic --classes 2 --n 50 --feature-clip 1 --algorithm gd --lr 0.1 --sweep steps=2:20:6",
        ]
    )
    words = with_nasty_words(dice, f"{command} --sigma 0.5 --delta 1e-5".split(), first=0)
    return ["sgd-bound", *(str(data) if word == "DATA" else word for word in words)]


def last_iterate(dice: random.Random, folder: Path) -> list[str]:
    """`train --release last`, which has an answer for few models."""
    command = dice.choice(
        [
            "--model logistic --algorithm gd --steps 3 --lr 0.1 --regularization 0.1 --feature-clip 1 "
            "--noise-multiplier 5",
            "--model linear --loss huber --algorithm cgd --batch-size 4 --epochs 1 --lr 0.01 --diameter 2 "
            "--feature-clip 1 --noise-multiplier 5",
            "--model logistic --algorithm sgd --batch-size 4 --steps 3 --lr 0.1 --regularization 0.1 --feature-clip 1 "
            "--epsilon 5 --delta 1e-3",
            "--model mlp --hidden 3 --algorithm gd --steps 2 --noise-multiplier 5",
        ]
    )
    adjacency = dice.choice(["add-remove", "replace-one"])
    words = with_nasty_words(dice, f"--adjacency {adjacency} {command}".split(), first=0)
    # Millions of steps are a wish that is granted, slowly.
    words = ["3" if word.isdecimal() and len(word) > 4 else word for word in words]
    return ["train", "--release", "last", "--data", csv_data(folder), *words]


def included(dice: random.Random, folder: Path) -> list[str]:
    """Specs that include others, folders, themselves, or what is not there."""
    names = [".", "..", "part.yaml", "whole.yaml", "none.yaml", "", "./part.yaml", "/dev/null", "\0", "part.yaml/", "-"]
    chosen = ", ".join(f'"{dice.choice(names)}"' for _ in range(dice.choice([1, 2])))
    (folder / "part.yaml").write_text("delta: 1e-5\nmechanisms:\n  - {type: gdp, mu: 0.3}\n")
    (folder / "whole.yaml").write_bytes(spoilt_text(dice, f"include: [{chosen}]\ndelta: 1e-5\n"))
    path = str(dice.choice([folder / "whole.yaml", folder / "whole.yaml", folder]))
    command = dice.choice(["compose", "calibrate", "diff", "report", "verify"])
    return [command, path, str(folder / "part.yaml")] if command == "diff" else [command, path]


def packed_log(dice: random.Random, folder: Path) -> list[str]:
    """Few bytes that say much: a line of a megabyte, an array of zeros, many equal rows."""
    path, kind = folder / "log", dice.randrange(3)
    if kind == 0:
        data = gzip.compress(b"step,id,norm\n0,a," + b" " * dice.choice([10**5, 10**6, 2 * 10**6]) + b"1\n", mtime=0)
    elif kind == 1:
        stream = io.BytesIO()
        shape = dice.choice([(1, 10**6), (10**6, 1), (1000, 1000), (3, 5)])
        np.savez_compressed(stream, norms=np.zeros(shape, dtype=dice.choice([np.uint8, np.float32])))
        data = stream.getvalue()
    else:
        rows = "".join(f"{step},1,0.5\n" for step in range(dice.choice([3, 20_000])))
        data = gzip.compress(f"step,id,norm\n{rows}".encode(), mtime=0)
    path.write_bytes(data)
    return ["filter", str(path), "--filter", "gdp", "--sigma", "4", "--mu", "1", *read_limit(dice)]
