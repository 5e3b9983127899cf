"""Help that fits the terminal, cuts nothing, and ends with an example that can be pasted."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcalc.cli.help import pasteable
from dpcalc.commands import COMMANDS

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [tuple(name.split()) for name, line in COMMANDS.items() if line.home]


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_help_fits_and_cuts_nothing(
    dpcalc: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = dpcalc(*command, "-h").out
    assert max(map(len, text.splitlines())) <= columns
    assert text.startswith(f"dpcalc {' '.join(command)} ")
    assert not re.search(r"<bool>|<list|…\s|\w…$|╭", text.replace(", …", "").replace(",…", ""))
    assert "Example:\n  dpcalc " in text


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command", [page for page in PAGES if page[0] not in ("verify", "ledger", "train")], ids=" ".join
)
def test_the_example_runs_as_it_is_pasted(
    dpcalc: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    example = dpcalc(*command, "-h").out.partition("Example:\n")[2]
    words = shlex.split(example.replace("\\\n", " "))
    outcome = dpcalc(*words[1:])
    assert outcome.code == 0, outcome.err


def test_long_lines_are_continued_as_a_shell_reads_them() -> None:
    line = "dpcalc compose --delta 1e-5 -m gaussian,noise_multiplier=4 --max-epsilon 3"
    broken = pasteable(line, 40)
    assert all(part.endswith("\\") for part in broken.splitlines()[:-1])
    assert max(map(len, broken.splitlines())) <= 40
    assert shlex.split(broken.replace("\\\n", " ")) == shlex.split(line)


def test_an_example_is_broken_before_options_and_reads_as_one_line() -> None:
    line = "dpcalc compose -m gaussian,noise_multiplier=4,count=10 -m laplace,epsilon=0.1 --delta 1e-5 --curve"
    for width in (60, 80, 200):
        shown = pasteable(line, width)
        assert shlex.split(shown.replace("\\\n", " ")) == line.split()
        assert not any(row.split()[-2].startswith("-") for row in shown.splitlines() if row.endswith("\\"))
        assert all(len(row) <= width for row in shown.splitlines())


def test_what_a_newcomer_looks_for_leads_its_group(dpcalc: Run) -> None:
    text = dpcalc("train", "-h").out
    groups = [group.split("\n") for group in text.split("\n\n") if group.split("\n")[0].endswith(":")]
    first = {group[0]: group[1].split()[0] for group in groups}
    assert first["Data and model:"] == "--data"
    assert first["Method:"] == "--algorithm"
    assert first["Privacy:"] == "--epsilon"
    assert "--test-data FILE" in text


def test_the_nearest_option_is_the_one_that_is_suggested(dpcalc: Run) -> None:
    assert "did you mean --max-epsilon?" in dpcalc("compose", "x.yaml", "--max-epsilom", "3").err
