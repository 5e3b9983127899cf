"""Every command the documentation shows is run here, from a copy of the examples."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from dpcalc.ledger.transfer import imported

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_commands() -> list[tuple[str, str]]:
    """(page, command) for each line of a shell block that calls dpcalc; `\\` continues a line."""
    found = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ").strip()
                if command.startswith("dpcalc "):
                    found.append((page.name, command))
    return found


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    write_small_mnist(tmp_path / "mnist")
    imported(str(tmp_path / "team.db"), (ROOT / "examples" / "team.jsonl").read_text().splitlines(), "team.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_small_mnist(folder: Path) -> None:
    """IDX files of MNIST's shape with a few random pictures, where the pages say `mnist/`."""
    folder.mkdir()
    generator = np.random.default_rng(1)
    for name, count in (("train", 1500), ("t10k", 100)):
        pictures = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = generator.integers(0, 10, count, dtype=np.uint8)
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + pictures.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels.tobytes())


@pytest.mark.parametrize(("page", "command"), shown_commands())
def test_the_command_runs(dpcalc, workplace, page, command) -> None:
    """Exit code 0, or the one a trailing comment announces: `dpcalc … # exit code 1`."""
    expected = re.search(r"# exit code (\d)", command)
    words = shlex.split(command, comments=True)[1:]
    result = dpcalc(*words)
    assert result.code == (int(expected.group(1)) if expected else 0), f"{page}: {result.err}"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (command,) = re.findall(r"^python3 -m venv .*pytest.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_python_examples_in_the_readme_run() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["guarantee"].epsilon_lower <= 2.38168973 <= names["guarantee"].epsilon  # the exact value


def test_doctests_of_the_package_hold() -> None:
    import doctest

    import dpcalc

    assert doctest.testmod(dpcalc).failed == 0
