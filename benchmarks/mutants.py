"""Plants single errors in the package and counts how many of them the tests find, by folder.

    python benchmarks/mutants.py --seed 1 --count 40 --folder accounting pairs conversions

Each mutant is one edit of one expression, drawn at random from two kinds. *Soundness*: an allowance is taken away (a
factor 1 ± tiny, a tiny constant, an `up` that becomes a `down`, a factor of two between adjacencies). *Logic*: a
comparison, a minimum, a rounding direction, a sign or an argument is turned round. A mutant is found if a test fails or
does not end in time. The tests of a folder are run once as they are, to learn which of them reach which line and how
long they take (so the package `coverage` is needed); a mutant then meets those that reach its line, the quick ones
first. Not part of CI: it takes minutes to hours.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TINY = 1e-9
TURNED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "ceil": "floor",
    "floor": "ceil",
    "up": "down",
    "down": "up",
}
_FOUND = (1, 2, -signal.SIGALRM)  # a test failed, could not be imported, or did not end
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True)
class Mutant:
    """One edit: the text between two places of a file replaced by another."""

    path: Path
    kind: str
    lines: range
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every edit that the kinds above allow in a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    tree = ast.parse(source)
    typed = {id(child) for node in ast.walk(tree) for child in _annotations(node)}
    stated = _lines_of_statements(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in typed:
            continue
        start, end = place(node)
        for kind, text in _edits(node):
            yield Mutant(path, kind, stated[id(node)], start, end, text)


def _lines_of_statements(tree: ast.AST) -> dict[int, range]:
    """The lines of the innermost statement that each expression belongs to."""
    lines = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt):
            for node in ast.walk(statement):
                if isinstance(node, ast.expr):
                    lines[id(node)] = range(statement.lineno, (node.end_lineno or node.lineno) + 1)
    return lines


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        part = getattr(node, name, None)
        if part is not None:
            yield from ast.walk(part)


def _edits(node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < TINY:
        yield "soundness", "0.0"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "logic", f"({left} {COMPARED[type(node.ops[0])]} {right})"
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in TURNED:
            prefix = f"{ast.unparse(node.func.value)}." if isinstance(node.func, ast.Attribute) else ""
            arguments = ", ".join(ast.unparse(argument) for argument in [*node.args, *node.keywords])
            yield ("soundness" if name in ("up", "down") else "logic"), f"{prefix}{TURNED[name]}({arguments})"
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        word = "or" if isinstance(node.op, ast.And) else "and"
        yield "logic", f"({ast.unparse(node.values[0])} {word} {ast.unparse(node.values[1])})"


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, str]]:
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    if isinstance(node.op, ast.Mult) and _is_allowance(node.right):
        yield "soundness", f"({left})"
    elif isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant) and node.left.value in (2, 4):
        yield "soundness", f"({right})"
    elif isinstance(node.op, (ast.Add, ast.Sub)) and any(_is_tiny(part) for part in ast.walk(node.right)):
        yield "soundness", f"({left})"
    elif isinstance(node.op, ast.Add):
        yield "logic", f"({left} - ({right}))"
    elif isinstance(node.op, ast.Sub):
        yield "logic", f"({left} + ({right}))"


def _is_tiny(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id.strip("_").isupper() and any(w in node.id for w in ("ROUND", "UNIT", "NOISE", "SLACK", "MARGIN"))
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < TINY


def _is_allowance(node: ast.expr) -> bool:
    """1 ± something tiny."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return False
    return isinstance(node.left, ast.Constant) and node.left.value == 1 and any(map(_is_tiny, ast.walk(node.right)))


def tests_of(folder: str) -> list[str]:
    """The tests that should find an error in a folder: its own, or those of the commands that rest on it."""
    return [f"tests/{folder}"] if (ROOT / "tests" / folder).is_dir() else ["tests/cli", "tests/spec"]


class Reach:
    """Which tests reach which line, quick ones first: one run of a folder's tests under `coverage`."""

    def __init__(self, checkout: Path, folder: str) -> None:
        import coverage

        settings, data, report = (checkout / name for name in ("reach.ini", "reach.data", "reach.xml"))
        settings.write_text("[run]\ndynamic_context = test_function\nsource = dpcalc\n", encoding="utf-8")
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={data}"]
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests_of(folder)]
        environment = {**os.environ, "PYTHONPATH": str(checkout), "CI": "true"}
        subprocess.run(command, cwd=checkout, env=environment, capture_output=True, check=False)
        self._seconds: dict[str, float] = defaultdict(float)
        pattern = r'<testcase classname="([^"]*)" name="([^"[]*)[^"]*" time="([^"]*)"'
        for module, name, seconds in re.findall(pattern, report.read_text(encoding="utf-8")):
            self._seconds[f"{module}.{name}"] += float(seconds)
        self._data = coverage.CoverageData(str(data))
        self._data.read()
        self._checkout = checkout

    def tests(self, mutant: Mutant) -> list[str]:
        """Names of the tests that reach a mutant's line; of its file, where the line runs on import."""
        found = self._data.contexts_by_lineno(str(self._checkout / mutant.path.relative_to(ROOT)))
        reached = {name for line in mutant.lines for name in found.get(line, ()) if name}
        reached = reached or {name for names in found.values() for name in names if name}
        names = [name for name in reached if name in self._seconds]
        parts = [name.rsplit(".", 1) for name in sorted(names, key=self._seconds.__getitem__)]
        return [f"{module.replace('.', '/')}.py::{name}" for module, name in parts]


def is_found(mutant: Mutant, checkout: Path, tests: list[str], seconds: int) -> bool:
    """Whether a test fails, or does not end, with the mutant in place. Runs in a fork, with the libraries loaded."""
    target = checkout / mutant.path.relative_to(ROOT)
    source = target.read_bytes()
    target.write_bytes(mutant.applied(source))
    Path(cache_from_source(str(target))).unlink(missing_ok=True)
    try:
        child = os.fork()
        if not child:
            _run_tests(checkout, tests, seconds)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, *_FOUND), f"pytest ended with {code}"
        return code != 0
    finally:
        target.write_bytes(source)


def _run_tests(checkout: Path, tests: list[str], seconds: int) -> None:
    import pytest

    signal.alarm(seconds)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    os.chdir(checkout)
    os.environ |= {"CI": "true", "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, str(checkout))
    sys.dont_write_bytecode = True
    code = 70
    with contextlib.suppress(BaseException):
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="mutants of each folder")
    parser.add_argument("--folder", nargs="*", help="folders of the package (default: all)")
    parser.add_argument("--kind", choices=("soundness", "logic"))
    parser.add_argument("--seconds", type=int, default=600, help="for the tests of one mutant")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    wanted = parser.parse_args()
    chosen = random.Random(wanted.seed)
    folders = wanted.folder or sorted(p.name for p in (ROOT / "dpcalc").iterdir() if (p / "__init__.py").is_file())
    found: Counter[tuple[str, str]] = Counter()
    drawn: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache"))
        compileall.compile_dir(checkout / "dpcalc", quiet=2)
        for name in folders:
            every = [m for path in sorted((ROOT / "dpcalc" / name).rglob("*.py")) for m in mutants_of(path)]
            every = [m for m in every if wanted.kind in (None, m.kind)]
            reach = None if wanted.list else Reach(checkout, name)
            for mutant in chosen.sample(every, min(wanted.count, len(every))):
                verdict = "listed"
                if reach is not None:
                    tests = reach.tests(mutant)
                    is_dead = bool(tests) and is_found(mutant, checkout, tests, wanted.seconds)
                    verdict = "found" if is_dead else "NOT FOUND"
                drawn[name, mutant.kind] += 1
                found[name, mutant.kind] += verdict == "found"
                where = f"{mutant.path.relative_to(ROOT)}:{mutant.lines[-1]}"
                print(f"{verdict:9}  {mutant.kind:9}  {where}  →  {mutant.text[:90]}", flush=True)
    for key, count in sorted(drawn.items()):
        print(f"{key[0]:12} {key[1]:9} {found[key]} of {count}")


if __name__ == "__main__":
    _preloaded = [__import__(name) for name in ("numpy", "scipy.special", "mpmath", "pytest", "typer")]
    main()
