"""Single edits of the package's source that a good test finds: what `benchmarks/mutants.py` plants.

*Soundness*: one allowance is taken away whole. A sum or product loses an error term: a constant below 1e-9, a named one
of such a value, `accumulated(…)`, or what is called an error, lost, gone, slack, a margin, doubt and the like; a factor
next to 1 goes. `up`, `down`, `times_up` and `nextafter` return what they are given; a factor of two or four between
adjacencies becomes one. Error terms for rounding that stand in one sum are one allowance. What only steers (pilots,
hints, pictures) is left out; harmless.toml names what else was found by inspection to bear no bound, with the reason.
*Claims* and *factors*: see `claims.py` and `factors.py`. *Logic*: a comparison, a minimum, a rounding direction, a sign
or a conjunction is turned round. *Wrong*: the programs of wrong.toml, which tests once let pass.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import tomllib
from claims import claims
from factors import factors

ROOT = Path(__file__).resolve().parent.parent
TINY = 1e-9
STEERING = ("accounting/steering/", "pairs/sums/hints.py", "pairs/sums/pilot.py", "render/", "terminal/", "charts.py")
NEAR_ONE = 1e-5
ERROR_NAMES = re.compile(
    r"(^|_)(errors?|slack|lost|slips?|wrong|gone|margin|beyond|doubt|missing|overflow|hidden|wobble)(_[pq])?$"
)
SUMMED = {"float", "abs", "sum", "fsum", "asarray", "max", "maximum", "cumsum", "sqrt"}
GUARDS = {"max", "min", "maximum", "minimum", "clip", "where", "fmax", "fmin"}
DIRECTED = {"up", "down", "nextafter"}
TURNED = {"min": "max", "minimum": "maximum", "ceil": "floor"}
TURNED |= {new: old for old, new in TURNED.items()}
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True)
class Mutant:
    """One edit: the text between two places of a file replaced by another."""

    path: Path
    kind: str
    function: str
    line: int
    start: int
    end: int
    text: str
    harmless: str = ""
    tests: tuple[str, ...] = ()

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        before = " ".join(self.path.read_bytes()[self.start : self.end].decode().split())
        return f"{self.path.relative_to(ROOT)}:{self.line}  {before[:100]}  →  {' '.join(self.text.split())[:80]}"


def mutants_of(path: Path) -> list[Mutant]:
    """Every edit that the kinds above allow in a file, in the order of its lines."""
    source = path.read_bytes()
    visitor = _Edits(path, source, vars(importlib.import_module(module_of(path))))
    visitor.visit(ast.parse(source))
    found = {(m.kind, m.start, m.end, m.text): m for m in visitor.found}
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.start))


def wrong_programs(path: Path) -> list[Mutant]:
    """The edits of wrong.toml in a file."""
    source = path.read_bytes()
    found = []
    for entry in _entries("wrong"):
        if ROOT / "dpcalc" / entry["file"] == path:
            code, start = entry["code"].encode(), source.find(entry["code"].encode())
            if source.count(code) != 1:  # the code has moved on, and the entry should
                print(f"wrong.toml: {entry['file']} has {source.count(code)} times {entry['code']!r}", file=sys.stderr)
                continue
            line, end = 1 + source.count(b"\n", 0, start), start + len(code)
            function, tests = _function_at(ast.parse(source), line), tuple(entry.get("tests", ()))
            found.append(Mutant(path, "wrong", function, line, start, end, entry["becomes"], tests=tests))
    return found


def _function_at(tree: ast.AST, line: int) -> str:
    """The function or class around a line, by its name within the module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (node.end_lineno or 0):
            return f"{node.name}.{_function_at(node, line)}".rstrip(".")
    return ""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _entries(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "benchmarks" / f"{name}.toml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = tomllib.loads(text)[name]
    return entries


@dataclass
class _Edits(ast.NodeVisitor):
    path: Path
    source: bytes
    values: dict[str, Any]
    found: list[Mutant] = field(default_factory=list)
    parents: list[ast.AST] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        inside = str(self.path.relative_to(ROOT / "dpcalc"))
        self.steers = inside.startswith(STEERING)
        self.harmless = [entry for entry in _entries("harmless") if entry["file"] == inside]

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            self._edit(node)
        self.parents.append(node)
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "format_spec"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)
        self.parents.pop()

    def _edit(self, node: ast.expr) -> None:
        if not self.steers:
            self._soundness(node)
            parent = self.parents[-1]
            added = isinstance(parent, ast.AugAssign) and node is parent.value
            if added and self.is_error(node) and not self.is_rounding(node):
                self._add("soundness", node, f"(0.0 * ({self._text(node)}))")
            for text in claims(node, self.parents):
                self._add("claims", node, text)
            for text in factors(node, self.parents, pays=self._pays(node)):
                self._add("factors", node, text)
        for text in _logic(node):
            self._add("logic", node, text)

    def _pays(self, node: ast.expr) -> bool:
        """Whether a term is an error or part of one."""
        return any(self.is_error(each) for each in (node, *self.parents) if isinstance(each, ast.expr))

    def _soundness(self, node: ast.expr) -> None:
        parent = self.parents[-1]
        if _is_sum(node) and not _is_sum(parent) and not self.is_rounding(node):
            self._sum(node)
        elif isinstance(node, ast.Call) and _name(node.func) in DIRECTED and node.args:
            self._add("soundness", node, f"({self._text(node.args[0])})")
        elif isinstance(node, ast.Call) and _name(node.func) == "times_up":
            self._add("soundness", node, f"({self._text(node.args[0])} * ({self._text(node.args[1])}))")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and "replace_one" in self._function():
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, ast.Constant) and one.value in (2, 4):
                    self._add("soundness", node, f"({self._text(other)})")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)) and self._raises(node.right):
            self._add("soundness", node, f"({self._text(node.left)})")
        elif isinstance(getattr(node, "ctx", None), ast.Store):
            return
        elif self.is_rounding(node) and not self._within_error(parent) and not self._stands_for_itself(node):
            self._add("soundness", node, f"(0.0 * ({self._text(node)}))")

    def _sum(self, node: ast.expr) -> None:
        """A sum of terms of which some are errors: those of rounding go together, the others one by one."""
        if self._defines_a_constant():
            return
        terms = list(_terms(node))
        errors = [(sign, term) for sign, term in terms if self.is_error(term)]
        rounding = [pair for pair in errors if self.is_rounding(pair[1])]
        for gone in [rounding, *[[pair] for pair in errors if pair not in rounding]]:
            if gone:
                kept = [pair for pair in terms if pair not in gone] or [("+", ast.Constant(0.0))]
                text = "".join(f" {sign} {self._text(term)}" for sign, term in kept)
                self._add("soundness", node, f"({text.removeprefix(' + ').strip()})", gone[0][1])

    def is_error(self, node: ast.AST) -> bool:
        """Whether a term says how wrong the others may be."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = _name(node)
            return self.is_rounding(node) or (ERROR_NAMES.search(name) is not None and not name.isupper())
        return self._combined(node, self.is_error) or self.is_rounding(node)

    def is_rounding(self, node: ast.AST) -> bool:
        """Whether a term is tiny by a constant."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float) and 0 < abs(node.value) < TINY
        if isinstance(node, ast.Name):
            value = self.values.get(node.id)
            return isinstance(value, float) and 0 < abs(value) < TINY and node.id.isupper()
        if isinstance(node, ast.Call) and _name(node.func) == "accumulated":
            return True
        return self._combined(node, self.is_rounding)

    def _raises(self, node: ast.expr) -> bool:
        """Whether a factor is a constant a shade off 1, or a power of it."""
        base = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else node
        value = self.values.get(_name(base))
        return isinstance(value, (float, Fraction)) and 0 < abs(value - 1) < NEAR_ONE

    def _combined(self, node: ast.AST, holds: Any) -> bool:
        if isinstance(node, ast.BinOp):
            left, right = holds(node.left), holds(node.right)
            either, both = (ast.Mult, ast.MatMult), (ast.Add, ast.Sub)
            return bool(
                left or right if isinstance(node.op, either) else left and (right or not isinstance(node.op, both))
            )
        if isinstance(node, (ast.Subscript, ast.UnaryOp)):
            return bool(holds(node.value if isinstance(node, ast.Subscript) else node.operand))
        if isinstance(node, ast.Call) and _name(node.func) in SUMMED:
            inside = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            inside = [part for part in inside if _name(part) not in ("np", "math")]
            return bool(inside) and all(map(holds, inside))
        return False

    def _within_error(self, parent: ast.AST) -> bool:
        return self.is_error(parent) or _is_sum(parent)

    def _stands_for_itself(self, node: ast.expr) -> bool:
        """A threshold, a guard against zero, a setting, or the definition of a constant whose uses are edited."""
        parent = self.parents[-1]
        if isinstance(parent, (ast.Compare, ast.keyword, ast.arguments, ast.Tuple, ast.List)):
            return True
        if isinstance(parent, ast.Call) and _name(parent.func) in GUARDS | {"geomspace", "linspace"}:
            return isinstance(node, ast.Constant) or _name(node) == "LEAST_DIVISOR"
        return self._defines_a_constant()

    def _defines_a_constant(self) -> bool:
        return len(self.parents) == 2 and self.path.name != "rounding.py"

    def _function(self) -> str:
        names = [p.name for p in self.parents if isinstance(p, (ast.FunctionDef, ast.ClassDef))]
        return ".".join(names)

    def _text(self, node: ast.AST) -> str:
        return ast.unparse(node) if not _is_sum(node) else f"({ast.unparse(node)})"

    def _add(self, kind: str, node: ast.expr, text: str, seen: ast.expr | None = None) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        function, code = self._function(), self.source[start:end].decode()
        why = [
            entry["why"]
            for entry in self.harmless
            if entry.get("function", function) == function and entry.get("code", code) in code
        ]
        line = (seen or node).lineno
        mutant = Mutant(self.path, kind, function, line, start, end, text, why[0] if why else "")
        if kind != "soundness" or not _in_assertion(self.parents):
            self.found.append(mutant)


def _in_assertion(parents: list[ast.AST]) -> bool:
    return any(isinstance(parent, ast.Assert) for parent in parents)


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))


def _terms(node: ast.expr, sign: str = "+") -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, sign)
        minus = isinstance(node.op, ast.Sub)
        if _is_sum(node.right):
            yield ("-" if minus else "+"), node.right
        else:
            yield from _terms(node.right, "-" if minus else "+")
    else:
        yield sign, node


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _logic(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        yield f"({ast.unparse(node.left)} {COMPARED[type(node.ops[0])]} {ast.unparse(node.comparators[0])})"
    elif isinstance(node, ast.Call) and _name(node.func) in TURNED:
        prefix = f"{ast.unparse(node.func.value)}." if isinstance(node.func, ast.Attribute) else ""
        arguments = ", ".join(map(ast.unparse, [*node.args, *node.keywords]))
        yield f"{prefix}{TURNED[_name(node.func)]}({arguments})"
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        word = "or" if isinstance(node.op, ast.And) else "and"
        yield f"({ast.unparse(node.values[0])} {word} {ast.unparse(node.values[1])})"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        yield f"({ast.unparse(node.left)} {sign} ({ast.unparse(node.right)}))"
