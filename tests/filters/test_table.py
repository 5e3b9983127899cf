"""The table of individual losses: ids as they were written, and no harm to who looks at it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

IDS = ["\x1b]0;owned\x07", "\x9b31m", "a\\u001b", "=cmd|x", "'=y", "\u202eabc", "plain", "-2", "two\nlines"]
FILTER = ["--filter", "gdp", "--sigma", "4", "--mu", "1"]


def told(dpcalc: Callable[..., Any], folder: Path, ids: list[str], name: str) -> Path:
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps({"step": 0, "id": name, "norm": 0.5}) + "\n" for name in ids))
    assert dpcalc("filter", str(log), *FILTER, "--per-individual", str(folder / name)).code == 0
    return folder / name


def read_back(path: Path) -> tuple[str, set[str]]:
    """As the first line says."""
    first, *lines = path.read_text().splitlines(keepends=True)
    ids = [row["id"] for row in csv.DictReader(lines)]
    if "behind an apostrophe" in first:
        ids = [name[1:] if name.startswith(("'=", "''=")) else name for name in ids]
    if "backslashes twice" in first:
        ids = [json.loads(f'"{name}"'.replace("\n", "\\n")) for name in ids]
    return first, set(ids)


def test_ids_do_not_steer_a_terminal_and_have_their_text_back(dpcalc: Callable[..., Any], tmp_path: Path) -> None:
    path = told(dpcalc, tmp_path, IDS, "losses.csv")
    assert not {c for c in path.read_text() if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"}
    first, ids = read_back(path)
    assert "backslashes twice" in first
    assert ids == set(IDS)


def test_ids_without_control_characters_stay_as_they_are(dpcalc: Callable[..., Any], tmp_path: Path) -> None:
    ids = ["a\\u001b", "C:\\x", "ä", "01", "1"]
    path = told(dpcalc, tmp_path, ids, "losses.csv")
    first, *lines = path.read_text().splitlines()
    assert "backslashes" not in first
    assert {row["id"] for row in csv.DictReader(lines)} == set(ids)


def test_parquet_holds_ids_as_they_are(dpcalc: Callable[..., Any], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = told(dpcalc, tmp_path, IDS, "losses.parquet")
    assert set(parquet.read_table(path)["id"].to_pylist()) == set(IDS)
