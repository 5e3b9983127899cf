"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dpcalc
from dpcalc.evidence import Evidence

PACKAGE = Path(dpcalc.__file__).parent


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its path."""
    paths = PACKAGE.rglob("*.py")
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_a_file_has_one_subject_and_a_function_fits_on_a_screen() -> None:
    assert not [path for path in modules() if len((PACKAGE / path).read_text(encoding="utf-8").splitlines()) > 300]
    long = [
        f"{path}: {node.name}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.end_lineno or 0) - node.lineno >= 50
    ]
    assert not long


def test_a_guarantee_is_made_in_one_place_and_read_back_in_another() -> None:
    made = set()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Guarantee":
                made.add(path)
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
        f"{path}: {text}"
        for path, tree in modules().items()
        if not path.startswith(_COMMANDS)
        for text in _told(tree)
        if re.search(r"(?<![\w-])--[a-z]", text)
    }
    assert not flags
