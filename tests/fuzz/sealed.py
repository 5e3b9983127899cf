"""Cases for the fuzzer of what dpcalc seals: states and checkpoints, damaged, or changed and sealed again."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np

from tests.fuzz.commands import csv_data, run
from tests.fuzz.spoil import spoilt, spoilt_text

_FILTER = ["--filter", "gdp", "--sigma", "4", "--mu", "1"]
_TRAIN = ["train", "--model", "logistic", "--algorithm", "gd", "--steps", "2", "--noise-multiplier", "5"]


def state(dice: random.Random, folder: Path) -> list[str]:
    log, path = folder / "log.csv", folder / "state"
    log.write_text("step,id,norm\n0,a,1\n0,b,0.5\n1,a,1\n")
    command = ["filter", str(log), *_FILTER, "--state", str(path)]
    if dice.random() < 0.3:
        command += ["--odometer", "0.5"]
    run(command)
    path.write_bytes(tampered(dice, path.read_bytes()))
    return command


def checkpoint(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "run.npz"
    command = [*_TRAIN, "--data", csv_data(folder), "--checkpoint", str(path)]
    if dice.random() < 0.5:
        command += ["--log", str(folder / dice.choice(["log.csv", "log.npy"]))]
    run(command)
    path.write_bytes(tampered(dice, path.read_bytes()))
    return [*command, "--resume"]


def tampered(dice: random.Random, data: bytes) -> bytes:
    """Bytes changed, or an array of the archive changed and all of it sealed again, as somebody who knows how would."""
    if dice.random() < 0.5:
        return spoilt(dice, data)
    from dpcalc.files import archive as sealed

    with np.load(io.BytesIO(data)) as stored:
        arrays = dict(stored.items())
    name = dice.choice([key for key in arrays if key != "digest"])
    change = dice.randrange(5)
    if name == "facts":
        arrays[name] = np.frombuffer(spoilt_text(dice, arrays[name].tobytes().decode()), dtype=np.uint8)
    elif change == 0:
        del arrays[name]
    elif change == 1:
        arrays[name] = np.resize(arrays[name], dice.choice([(0,), (7,), (2, 3), ()]))
    elif change == 2:
        arrays[name] = arrays[name].astype(dice.choice([np.float32, np.int8, np.float64, "U5"]))
    elif arrays[name].size:
        arrays[name] = arrays[name].copy()
        with np.errstate(all="ignore"):
            arrays[name].flat[0] = (
                dice.choice([0, 1]) if arrays[name].dtype.kind != "f" else dice.choice([-1e9, np.nan])
            )
    digest = arrays.pop("digest")
    if dice.random() < 0.7:
        digest = sealed._digest(arrays)
    stream = io.BytesIO()
    np.savez(stream, digest=digest, **arrays)
    return stream.getvalue()
