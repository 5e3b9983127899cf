"""Writers that are killed at every call to the system: the old file or the new one, and nothing else for long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# A process that forks one child for each call: the child kills itself there, the parent looks at what it left.
SCRIPT = """
import io, os, signal, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
import numpy as np
from dpcalc.cli.main import main
from dpcalc.files.archive import load_sealed

what, folder = sys.argv[1], Path(sys.argv[2])
np.save(folder / "log.npy", np.ones((2, 3)))
(folder / "data.csv").write_text("a,label\\n" + "".join(f"{n},{n % 2}\\n" for n in range(8)))
(folder / "people.csv").write_text("id,monday\\n01,1\\n1,0.5\\n")
(folder / "spec.yaml").write_text("mechanisms: [{type: gdp, mu: 0.4}]\\n")
outputs = {
    "filter": {"state": "--state", "table.csv": "--per-individual", "result.json": "-o"},
    "train": {"run.npz": "--checkpoint", "model.npz": "--save", "result.json": "-o"},
    "log": {"norms.npy": "--log"},
    "table": {"norms.csv": "--log"},
    "plot": {"curve.png": "--plot", "result.json": "-o"},
    "report": {"page.html": "-o"},
    "export": {"copy.jsonl": "-o"},
    "queries": {"state": "--state"},
    "parquet": {"losses.parquet": "--per-individual"},
}[what]
first = {
    "filter": ["filter", str(folder / "log.npy"), "--filter", "gdp", "--sigma", "2", "--mu", "3"],
    "train": ["train", "--data", str(folder / "data.csv"), "--model", "logistic", "--algorithm", "gd", "--steps", "2",
              "--noise-multiplier", "3", "--seed", "4"],
    "plot": ["convert", "--gdp", "0.8", "--delta", "1e-6"],
    "report": ["report", str(folder / "spec.yaml"), "--delta", "1e-6"],
    "export": ["ledger", "export", str(folder / "ledger.db")],
    "queries": ["queries", str(folder / "people.csv"), "--norm-budget", "3", "--mu", "1"],
}
first = first[{"log": "train", "table": "train", "parquet": "filter"}.get(what, what)]
if what == "plot":  # an empty picture is drawn in no time, and written the same way
    from matplotlib.figure import Figure
    import dpcalc.render.plot
    dpcalc.render.plot._figure = lambda _: Figure(figsize=(1, 1))
command = [*first, *(word for name, flag in outputs.items() for word in (flag, str(folder / name)))]

def run(kill_at=None):
    calls = 0
    def count():
        nonlocal calls
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
    def audit(event, arguments):
        here = event in ("open", "os.rename", "os.remove", "os.truncate") and str(folder) in str(arguments)
        if here or event == "fcntl.flock":
            count()
    sys.addaudithook(audit)
    fsync = os.fsync
    os.fsync = lambda handle: (count(), fsync(handle))
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            main(command)
    except SystemExit as ending:
        os._exit(ending.code or 0)
    os._exit(9)

def child(kill_at=None):
    process = os.fork()
    if not process:
        run(kill_at)
    return os.waitpid(process, 0)[1]

def contents():
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in outputs}

def clear():
    for path in folder.iterdir():
        if path.name in outputs or path.name.startswith("."):
            path.unlink()

if what == "export":
    with redirect_stdout(io.StringIO()):
        for words in ("init L --budget b --mu 1", "spend L b -m gdp,mu=0.1 --key k"):
            try:
                main(["ledger", *words.replace("L", str(folder / "ledger.db")).split()])
            except SystemExit as ending:
                assert not ending.code
try:  # once here, so that every child has its modules
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(command)
except SystemExit as ending:
    assert not ending.code
wanted = contents()
assert all(wanted.values())
killed = 0
while True:
    clear()
    status = child(killed)
    if not os.WIFSIGNALED(status):
        break
    killed += 1
    for name, found in contents().items():
        assert found is None or what == "queries" or len(found) == len(wanted[name]), (killed, name)
    if (folder / "state").exists():
        load_sealed(str(folder / "state"), what="a state")
    if (folder / "run.npz").exists():
        load_sealed(str(folder / "run.npz"), what="a checkpoint")
        command.append("--resume")
    assert child() == 0, killed
    if "--resume" in command:
        command.remove("--resume")
    if what == "queries":  # fresh noise has other digits
        load_sealed(str(folder / "state"), what="a state")
    else:
        assert list(map(len, contents().values())) == list(map(len, wanted.values()))
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert not left, (killed, left)
print(killed)
"""


@pytest.mark.skipif(not hasattr(sys, "addaudithook") or sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize(
    ("what", "least"),
    [
        ("filter", 9),
        ("train", 9),
        ("log", 3),
        ("table", 3),
        ("plot", 6),
        ("report", 3),
        ("export", 3),
        ("queries", 5),
        ("parquet", 3),
    ],
)
def test_killed_at_every_call_a_writer_leaves_the_old_or_the_new(tmp_path: Path, what: str, least: int) -> None:
    command = [sys.executable, "-c", SCRIPT, what, str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= least
