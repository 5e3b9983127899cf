"""Factors that are a shade off, beside the edits of `mutations.py`: formulas instead of what pays for their rounding.

A bound that is returned becomes a ten-thousandth too good, if the docstring of its function says on which side it is. A
constant that a formula multiplies or divides by is a ten-thousandth smaller, and larger: one of the two makes a bound
too good, the other one too wide, so that some survivors only cost accuracy. A factor a little above a whole number,
which pays for what was left out of a first-order term, becomes that number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

SHADE = 1e-4
NUMBERS = {"float", "Floats"}
ABOVE = re.compile(r"\b(upper bound|at least|rounded up|from above|not below|no less|raised)\b", re.IGNORECASE)
BELOW = re.compile(r"\b(lower bound|at most|rounded down|from below|not above|no more|lowered)\b", re.IGNORECASE)
CONSTANT = re.compile(r"-?(math\.inf|[0-9.]+)$")
MIDDLE = re.compile(r"\(\w*(low|high|left|right|lower)\w* \+ \w*(low|high|left|right|upper)\w*\) / 2$")
COUNTING = {"range", "arange", "zeros", "ones", "empty", "full", "reshape", "linspace", "geomspace", "comb", "ldexp"}
LEAST, MOST = 0.1, 100.0


def factors(node: ast.expr, parents: list[ast.AST], *, pays: bool) -> Iterator[str]:
    """What may stand in the place of an expression; of one that pays for errors, only what is a little above whole."""
    parent, text = parents[-1], ast.unparse(node)
    if isinstance(parent, ast.Return) and not CONSTANT.match(text) and (side := _side(parents)):
        yield f"({1 - side * SHADE} * ({text}))"
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div))) or _counts(parents):
        return
    if MIDDLE.match(text):
        return
    for one in (node.left, node.right):
        if isinstance(one, ast.Constant) and isinstance(one.value, (int, float)) and LEAST <= one.value <= MOST:
            whole = round(one.value)
            if 0 < one.value - whole <= 0.1:
                yield f"({text.replace(repr(one.value), str(whole), 1)})"
            elif one.value != 1 and not pays:
                yield from (f"({1 + shade} * ({text}))" for shade in (-SHADE, SHADE))


def _side(parents: list[ast.AST]) -> int:
    """1 in a function that gives a number from above, -1 from below, 0 where its first line does not say."""
    function = next((each for each in reversed(parents) if isinstance(each, ast.FunctionDef)), None)
    if function is None or function.returns is None or ast.unparse(function.returns) not in NUMBERS:
        return 0
    words = (ast.get_docstring(function) or "").partition("\n\n")[0]
    return bool(ABOVE.search(words)) - bool(BELOW.search(words))


def _counts(parents: list[ast.AST]) -> bool:
    """Whether this is a place or a number of things, or decides which way to take."""
    for parent in reversed(parents):
        if isinstance(parent, (ast.Subscript, ast.Compare)):
            return True
        if isinstance(parent, ast.Call) and getattr(parent.func, "attr", getattr(parent.func, "id", "")) in COUNTING:
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False
