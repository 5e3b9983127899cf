"""Every option of every command, taken from the table, changes something in a call that works, or is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpcalc.asked import Asked, Field
from dpcalc.cli.command import _PLOT, _SHOWN
from dpcalc.commands import COMMANDS, question
from dpcalc.commands.verify import Verify
from dpcalc.errors import InputError
from dpcalc.render import FORMATS

Run = Callable[..., Any]

_CALLS = {
    "compose": "-m gaussian,noise_multiplier=3,count=4 --delta 1e-5",
    "calibrate": "-m gaussian,noise_multiplier=solve --epsilon 1 --delta 1e-5",
    "convert": "--gdp 1 --delta 1e-5",
    "filter": "log.csv --filter gdp --sigma 2 --mu 1",
    "queries": "queries.csv --norm-budget 3 --rho 0.1 --state days.state",
    "sgd-bound": "--algorithm gd --lr 0.1 --sigma 1 --sensitivity 1 --n 100 --steps 20 --delta 1e-5",
    "exp-mech": "--lipschitz 1 --strong-convexity 0.5 --delta 1e-5",
    "train": "--data data.csv --model logistic --algorithm gd --steps 2 --noise-multiplier 5 --seed 1",
    "verify": "result.json",
    "report": "result.json",
    "diff": "spec.yaml other.yaml --delta 1e-5",
    "ledger status": "ledger.db b",
    "ledger log": "ledger.db b",
    "ledger verify": "ledger.db",
    "ledger spend": "ledger.db b -m gdp,mu=0.1 --dry-run",
}
# These change a ledger, so that no two calls are alike: their options are in the entries that they write.
_WRITE = {"ledger init", "ledger void", "ledger import", "ledger export"}
_VALUES = {
    "--prior": "0.3",
    "--plot": "picture.svg",
    "--output": "out.txt",
    "--sweep": "steps=2:20:6",
    "--rdp": "4,0.2",
    "--dp": "0.5",
    "--mechanism": "gdp,mu=0.2",
    "--tpr": "0.1@0.01",
    "--hidden": "4,4",
    "--layer-shares": "1,1",
    "--groups": "groups.csv",
    "--grid": "grid.yaml",
    "--schedule": "schedule.csv",
    "--what-if": "spec.yaml",
    "--data": "data.csv",
    "--test-data": "data.csv",
    "--model": "linear",
    "--head": "a" * 64,
    "--log": "norms.csv",
    "--save": "model.npz",
    "--accountant": "rdp",
}
# What may well change nothing: limits on time and memory that are not reached, what is known by itself, and words that
# go into an entry of a ledger.
_QUIET = {
    ("filter", "--read-limit"), ("train", "--read-limit"), ("queries", "--read-limit"), ("verify", "--seconds"),
    ("verify", "--nightly"), ("diff", "--adjacency"), ("ledger spend", "--by"), ("ledger spend", "--note"),
    ("ledger spend", "--key"), ("report", "--adjacency"), ("convert", "--adjacency"), ("compose", "--adjacency"),
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpcalc: Run) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "log.csv": "step,id,norm\n0,a,1\n0,b,0.5\n1,a,1\n1,b,0.25\n",
        "groups.csv": "id,group\na,one\nb,two\n",
        "queries.csv": "id,monday,tuesday\na,1,0\nb,1,1\n",
        "data.csv": "a,b,label\n" + "".join(f"{n % 3},{n % 5},{n % 2}\n" for n in range(12)),
        "spec.yaml": "mechanisms:\n  - {type: gaussian, noise_multiplier: 3}\n",
        "other.yaml": "mechanisms:\n  - {type: laplace, scale: 10, sensitivity: 1}\n",
        "grid.yaml": "lr: [0.1, 1]\n",
        "schedule.csv": "step,lr,sigma\n1,0.1,1\n5,0.05,2\n",
    }.items():
        (tmp_path / name).write_text(text)
    dpcalc("convert", "--gdp", "0.7", "--delta", "1e-5", "-f", "json", "-o", "result.json")
    dpcalc("ledger", "init", "ledger.db", "--budget", "b", "--epsilon", "3", "--delta", "1e-6")
    dpcalc("queries", *_CALLS["queries"].split())
    return tmp_path


def told(dpcalc: Run, folder: Path, words: list[str]) -> object:
    """All that a call tells, but for what is never the same: the code, both streams, and new files by name."""
    before = {path.name for path in folder.iterdir()}
    outcome = dpcalc(*words)
    made = sorted({path.name for path in folder.iterdir()} - before)
    for name in made:
        (folder / name).unlink()
    if outcome.code == 2:
        return None
    changing = r"[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[0-9:.+Z]+"
    return outcome.code, re.sub(changing, "", outcome.out), outcome.err, made


def added(field: Field) -> list[str]:
    """The option with a value that is not its own."""
    flag = max(field.option.flags, key=len)
    if field.kind is bool:
        return [flag]
    by_kind = "1e-9" if flag.startswith("--max-") else {"COUNT": "3", "NUMBER": "0.37"}.get(field.option.metavar or "")
    other = next((choice for choice in field.choices[::-1] if choice not in (field.default, "dask", "torch")), None)
    return [flag, _VALUES.get(flag) or other or by_kind or "word"]


def options(name: str) -> Iterator[Field]:
    asked = question(name)
    yield from (field for field in asked.fields() if field.option.flags and not set(field.option.flags) & _given(name))
    yield from (_PLOT, *_SHOWN[1:]) if asked.draws else _SHOWN[1:]


def _given(name: str) -> set[str]:
    return {word for word in _CALLS[name].split() if word.startswith("-")}


def test_every_command_is_here() -> None:
    assert {name for name, line in COMMANDS.items() if line.home} == {*_CALLS, *_WRITE}


@pytest.mark.parametrize("name", _CALLS)
def test_an_option_changes_something_or_is_refused(name: str, files: Path, dpcalc: Run) -> None:
    call = [*name.split(), *_CALLS[name].split(), "-f", "json"]
    plain = told(dpcalc, files, call)
    assert plain == told(dpcalc, files, call) is not None
    idle = [
        words
        for words in map(added, options(name))
        if (name, words[0]) not in _QUIET and told(dpcalc, files, [*call, *words]) == plain
    ]
    assert idle == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["convert", "verify"])
def test_so_it_does_in_every_format(name: str, format: str, files: Path, dpcalc: Run) -> None:
    call = [*name.split(), *_CALLS[name].split(), "-f", format]
    plain = told(dpcalc, files, call)
    common = [field for field in (*Asked.fields(), *_SHOWN[2:]) if field.name != "verbose" or question(name).draws]
    assert [words for words in map(added, common) if told(dpcalc, files, [*call, *words]) == plain] == []


def test_a_limit_is_not_passed_where_there_is_nothing_to_hold_against_it(files: Path, dpcalc: Run) -> None:
    assert dpcalc("verify", "result.json", "--max-epsilon", "9").code == 2
    with pytest.raises(InputError, match="no effect"):
        Verify(results=("result.json",), max_mu=9).result()
