"""Every command the documentation shows is run here, from a copy of the examples."""

from __future__ import annotations

import json
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
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages expect to find in the folder where their commands are run."""
    folder = tmp_path_factory.mktemp("prepared")
    shutil.copytree(ROOT / "examples", folder / "examples")
    write_small_mnist(folder / "mnist")
    imported(str(folder / "team.db"), (ROOT / "examples" / "team.jsonl").read_text().splitlines(), "team.jsonl")
    return folder


@pytest.fixture
def workplace(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(workplace, page) -> None:
    """The blocks of a page, one after the other."""
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    if page.name == "README.md":
        assert names["result"].epsilon_lower <= 2.38168973 <= names["result"].epsilon  # the exact value


def test_the_readme_shows_what_its_first_command_prints(dpcalc, workplace) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^\$ dpcalc (.*)$", text, re.MULTILINE)[1]
    shown = re.search(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    printed = dpcalc(*shlex.split(command)).out
    for line in filter(None, shown.splitlines()):
        assert line.removesuffix("…").rstrip() in printed


def test_the_spec_of_the_readme_composes_within_its_budget(dpcalc, tmp_path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    spec = re.search(r"^```yaml\n(delta: .*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "release.yaml").write_text(spec, encoding="utf-8")
    outcome = dpcalc("compose", tmp_path / "release.yaml")
    assert outcome.code == 0
    assert "within the limit 3" in outcome.out.splitlines()[0]


def test_the_notebook_is_executed_and_gives_the_same_again(workplace, capsys) -> None:
    """Every cell runs, and prints what the notebook shows."""
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        source = "".join(cell["source"])
        exec(compile(source, "tour.ipynb", "exec"), names)
        shown = "".join(text for output in cell["outputs"] for text in output["text"])
        printed = capsys.readouterr().out
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed, shown)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-2)
        assert cell["execution_count"]


def test_every_page_is_in_the_menu_of_the_site() -> None:
    import yaml

    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(menu)["docs_dir"] == "docs"
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf" {re.escape(page.name)}$", menu, re.MULTILINE), page.name


def test_doctests_of_the_package_hold() -> None:
    import doctest

    import dpcalc

    assert doctest.testmod(dpcalc).failed == 0


def test_tests_that_the_pages_name_exist() -> None:
    """`…` in a name stands for what is left out of it."""
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    known = {name for text in sources.values() for name in re.findall(r"def (test_\w+)", text)}
    files = {str(path) for path in sources} | {path.name for path in sources}
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`(test_[\w…]+)`", text):
            pattern = re.compile(name.replace("…", r"\w*"))
            assert any(pattern.fullmatch(each) for each in known), f"{page.name} names {name}"
        for name in re.findall(r"`((?:tests/)?(?:\w+/)*test_\w+\.py)`", text):
            assert name in files, f"{page.name} names {name}"


def test_every_lemma_of_the_certificate_names_a_test() -> None:
    text = (ROOT / "docs" / "certificate.md").read_text(encoding="utf-8")
    lemmas = re.split(r"\n(?=\*\*)", text[text.index("## Lemmas") : text.index("## Where intervals stay wide")])[1:]
    assert len(lemmas) > 15
    for lemma in lemmas:
        assert re.search(r"`[\w/]*test_[\w…]*(\.py)?`", lemma), lemma[:60]
