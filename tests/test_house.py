"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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


def _told(tree: ast.Module) -> Iterator[str]:
    """The texts of a module but for docstrings, declared options and examples, which are the command line's own."""
    own = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        declared = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DECLARED
        example = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "example"
        if declared or example:
            own |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in own:
            yield node.value


_DECLARED = ("option", "number", "whole", "parsed", "argument", "_noise")
# Commands to paste are commands wherever they are told.
_COMMANDS = ("cli/", "training/report.py")


def test_only_the_command_line_speaks_of_flags() -> None:
    flags = {
        f"{path.relative_to(PACKAGE).as_posix()}: {text}"
        for path in PACKAGE.rglob("*.py")
        if not path.relative_to(PACKAGE).as_posix().startswith(_COMMANDS)
        for text in _told(ast.parse(path.read_text()))
        if re.search(r"(?<![\w-])--[a-z]", text)
    }
    assert not flags
