"""The table of commands: every line of it is a frozen record, draws what it guarantees, and others may add lines."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest

from dpcalc import commands
from dpcalc.asked import Asked, argument, number, whole
from dpcalc.cli import main
from dpcalc.commands import COMMANDS, question
from dpcalc.guarantee import Result
from dpcalc.numbers import RATE

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]
RECORDS = [name for name, line in COMMANDS.items() if line.home]


@pytest.mark.parametrize("name", RECORDS)
def test_a_command_is_a_frozen_record_whose_fields_say_what_they_are(name: str) -> None:
    record = question(name)
    assert issubclass(record, Asked)
    assert record.__dataclass_params__.frozen
    assert record.example.startswith(f"dpcalc {name} ")
    assert record.words()
    arguments = [field.argument for field in record.fields()]
    assert len(set(arguments)) == len(arguments)
    for field in record.fields():
        assert field.option.help
        assert field.argument.isidentifier()
        if not field.needed and field.default not in (None, ()):
            assert field.read(field.default) == field.default


@pytest.mark.parametrize("name", [name for name in RECORDS if question(name).draws and name != "train"])
def test_every_guarantee_can_be_drawn(dpcalc: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    outcome = dpcalc(*question(name).example.split()[1:], "--plot", "drawn.svg")
    assert outcome.code == 0, outcome.err
    assert "<svg" in (tmp_path / "drawn.svg").read_text()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Greet(Asked):
    """Greet somebody several times."""

    example: ClassVar[str] = "dpcalc parrot greet you --times 2"

    whom: Annotated[str, argument(metavar="WHOM", help="Who is greeted.")]
    times: Annotated[int, whole("--times", help="How often.")] = 1
    chance: Annotated[float | None, number("--chance", help="That it happens at all.", allowed=RATE)] = None

    def answer(self) -> Result:
        return Result(command="parrot greet", headline=f"hello {self.whom} " * self.times)


def test_another_package_adds_a_command_with_sub_commands(dpcalc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in = ModuleType("parrot.commands")
    plug_in.Greet = Greet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "parrot", ModuleType("parrot"))
    monkeypatch.setitem(sys.modules, "parrot.commands", plug_in)
    added = metadata.EntryPoint("parrot greet", "parrot.commands:Greet", commands.ENTRY_POINTS)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [added] if group == commands.ENTRY_POINTS else [])
    monkeypatch.setattr(main, "COMMANDS", table := dict(COMMANDS))
    monkeypatch.setattr(commands, "COMMANDS", table)
    assert dpcalc("parrot", "greet", "you", "--times", "2", "-q").out.strip() == "hello you hello you"
    assert "Who is greeted." in dpcalc("parrot", "greet", "-h").out
    assert "  greet  by another package" in dpcalc("parrot", "-h").out
    wrong = dpcalc("parrot", "greet", "you", "--chance", "2")
    assert wrong.code == 2
    assert "--chance" in wrong.err
    assert "(0, 1]" in wrong.err
    assert dpcalc("parrot", "sing").code == 2
    assert dpcalc("magpie").code == 2
