"""Plants single errors in the package and counts how many of them the tests find, by folder.

    python benchmarks/mutants.py --seed 1 --count 40 --folder accounting pairs conversions

Each mutant is one edit of one expression, drawn at random from two kinds. *Soundness*: an allowance is taken away (a
factor 1 ± tiny, a tiny constant, an `up` that becomes a `down`, a factor of two between adjacencies). *Logic*: a
comparison, a minimum, a rounding direction, a sign or an argument is turned round. A mutant is found if a test of its
folder fails or does not end in time. Not part of CI: a mutant takes as long as the tests that it runs.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True)
class Mutant:
    """One edit: the text between two places of a file replaced by another."""

    path: Path
    kind: str
    line: int
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
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in typed:
            continue
        start, end = place(node)
        for kind, text in _edits(node):
            yield Mutant(path, kind, node.lineno, start, end, text)


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


def tests_of(path: Path) -> list[str]:
    """The tests that should find an error in a file: those of its folder, and of the commands that rest on it."""
    folder = path.relative_to(ROOT / "dpcalc").parts[0]
    own = ROOT / "tests" / folder
    if own.is_dir():
        return [f"tests/{folder}"]
    return ["tests/cli", "tests/spec"]


def is_found(mutant: Mutant, checkout: Path, seconds: float, jobs: int) -> bool:
    """Whether a test fails, or does not end, with the mutant in place."""
    target = checkout / mutant.path.relative_to(ROOT)
    source = target.read_bytes()
    target.write_bytes(mutant.applied(source))
    workers = ["-n", str(jobs)] if jobs > 1 else []
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *workers, *tests_of(mutant.path)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "CI": "true"}
    try:
        done = subprocess.run(command, cwd=checkout, env=environment, timeout=seconds, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_bytes(source)
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="mutants of each folder")
    parser.add_argument("--folder", nargs="*", help="folders of the package (default: all)")
    parser.add_argument("--kind", choices=("soundness", "logic"))
    parser.add_argument("--seconds", type=float, default=600, help="for the tests of one mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    wanted = parser.parse_args()
    chosen = random.Random(wanted.seed)
    folders = wanted.folder or sorted(p.name for p in (ROOT / "dpcalc").iterdir() if (p / "__init__.py").is_file())
    found: Counter[tuple[str, str]] = Counter()
    drawn: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        for name in folders:
            every = [m for path in sorted((ROOT / "dpcalc" / name).rglob("*.py")) for m in mutants_of(path)]
            every = [m for m in every if wanted.kind in (None, m.kind)]
            for mutant in chosen.sample(every, min(wanted.count, len(every))):
                verdict = "listed" if wanted.list else "found"
                if not wanted.list and not is_found(mutant, checkout, wanted.seconds, wanted.jobs):
                    verdict = "NOT FOUND"
                drawn[name, mutant.kind] += 1
                found[name, mutant.kind] += verdict == "found"
                where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                print(f"{verdict:9}  {mutant.kind:9}  {where}  →  {mutant.text[:90]}", flush=True)
    for key, count in sorted(drawn.items()):
        print(f"{key[0]:12} {key[1]:9} {found[key]} of {count}")


if __name__ == "__main__":
    main()
