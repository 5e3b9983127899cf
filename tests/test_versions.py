"""The oldest versions that are promised are the ones that are tested."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = dict(re.findall(r"^([a-z0-9-]+)==([0-9.]+)$", (ROOT / ".ci" / "oldest.txt").read_text(), re.MULTILINE))


def promised() -> list[tuple[str, str]]:
    """Each library that dpcalc may need, with the lowest version that pyproject.toml allows."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"]]
    for extra, listed in project["optional-dependencies"].items():
        if extra not in ("all", "docs", "test", "dev", "torch"):  # which `all` has not
            needed += listed
    return [re.fullmatch(r"([a-z0-9-]+)(?:\[.*\])?>=([0-9.]+)", word).groups() for word in needed]  # type: ignore[union-attr, misc]


def test_every_lowest_version_is_pinned_for_its_job() -> None:
    for name, lowest in promised():
        assert f"{PINNED[name]}.".startswith(f"{lowest}."), f"{name}: {lowest} is promised, {PINNED[name]} tested"


def test_the_job_of_the_oldest_runs_with_them() -> None:
    """Where typer is the oldest one, so is everything: no pin was overruled by a dependency."""
    if metadata.version("typer") != PINNED["typer"]:
        pytest.skip("an environment of newer versions")
    assert {name: metadata.version(name) for name in PINNED} == PINNED
