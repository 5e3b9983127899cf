"""Edits that make a program claim more than it may, beside those that take an allowance away (see `mutations.py`).

A status that says certified or exact; a refusal that never comes; the cheaper of two adjacencies, or of two directions;
a count that is not multiplied; an upper bound that is printed rounded down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

STRONGER = {"numerical": "certified", "approximate": "certified"}
REFUSALS = {"CertificationError", "IncompatibleError", "RefusedError"}
REPLACED = re.compile(r"replace-one|add-remove|\breplace[sd]\b")
DIRECTIONS = re.compile(r"\b(remove|add|reversed|pairs|sides?|directions?|both)\b")
COUNTS = {"count", "copies", "times", "runs", "overflow"}
LARGEST = {"max": "min", "maximum": "minimum"}


def claims(node: ast.expr, parents: list[ast.AST]) -> Iterator[str]:
    """What may stand in the place of an expression."""
    parent = parents[-1]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _label(node.value, parent)
    elif isinstance(parent, ast.If) and node is parent.test and _raises(parent.body):
        yield "False"
    elif isinstance(node, ast.IfExp) and REPLACED.search(ast.unparse(node.test)):
        if not (_words(node.body) or _words(node.orelse)):
            yield f"({_cheaper(node)})"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _uncounted(node)
    elif isinstance(node, ast.Call) and _name(node.func) in LARGEST and DIRECTIONS.search(ast.unparse(node)):
        yield from _one_direction(node)
    elif isinstance(node, ast.Call) and _name(node.func) == "rounded_up":
        yield ast.unparse(node).replace("rounded_up", "rounded_down", 1)


def _label(value: str, parent: ast.AST) -> Iterator[str]:
    if isinstance(parent, (ast.Compare, ast.Tuple, ast.Subscript, ast.JoinedStr, ast.Expr)):
        return
    if isinstance(parent, ast.keyword) and parent.arg == "mu_kind" and value in ("upper", "approximate"):
        yield '"exact"'
    elif value in STRONGER:
        yield f'"{STRONGER[value]}"'


def _raises(body: list[ast.stmt]) -> bool:
    first = body[0]
    return isinstance(first, ast.Raise) and isinstance(first.exc, ast.Call) and _name(first.exc.func) in REFUSALS


def _words(node: ast.expr) -> bool:
    """Whether this is a text or what texts are made of: nothing is claimed by which of two words is shown."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, type(None)))
    )


def _cheaper(node: ast.IfExp) -> str:
    """The branch without what is done for replace-one."""
    one, other = ast.unparse(node.body), ast.unparse(node.orelse)
    if one in other or other in one:
        return min(one, other, key=len)
    return one if "add-remove" in ast.unparse(node.test) else other


def _uncounted(node: ast.BinOp) -> Iterator[str]:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if _name(one) in COUNTS and not isinstance(other, ast.Constant) and _name(other) not in ("steps", "size"):
            yield f"({ast.unparse(other)})"


def _one_direction(node: ast.Call) -> Iterator[str]:
    if len(node.args) == 2 and not any(isinstance(arg, (ast.Constant, ast.Starred)) for arg in node.args):
        yield from (f"({ast.unparse(arg)})" for arg in node.args)
    elif len(node.args) == 1 and not isinstance(node.args[0], ast.Constant):
        prefix = f"{ast.unparse(node.func.value)}." if isinstance(node.func, ast.Attribute) else ""
        arguments = ", ".join(map(ast.unparse, [*node.args, *node.keywords]))
        yield f"{prefix}{LARGEST[_name(node.func)]}({arguments})"


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
