"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
from pathlib import Path

import dpcalc
from dpcalc.evidence import Evidence

PACKAGE = Path(dpcalc.__file__).parent


def test_a_guarantee_is_made_in_one_place_and_read_back_in_another() -> None:
    made = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Guarantee":
                made.add(path.relative_to(PACKAGE).as_posix())
    assert made <= {"report.py"}


def test_evidence_adds_up_to_the_weakest_claim_and_says_everything_once() -> None:
    one = Evidence(citations=("a", "b"), assumptions=("x",))
    other = Evidence(citations=("b", "c"), warnings=("w",), status="numerical")
    assert one + other == Evidence(citations=("a", "b", "c"), assumptions=("x",), warnings=("w",), status="numerical")
    assert (other + one).status == "numerical"
    assert one + Evidence() == one
