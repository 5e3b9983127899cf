"""Plants single errors in the package and counts how many of them the tests find, by folder.

    python benchmarks/mutants.py --kind soundness --folder conversions --list     # show them
    python benchmarks/mutants.py --kind soundness --folder conversions            # all of a folder
    python benchmarks/mutants.py --only conversions/pure.py:44 --seconds 300      # those of a line
    python benchmarks/mutants.py --kind logic --folder pairs --count 40 --seed 1  # a seeded sample

`mutations.py`, `claims.py` and `factors.py` say what is planted. The tests of a folder are collected once. Each test
file is run once as it is, to learn which functions of the package its tests call and how long they take; that is kept
(--reach) until the file changes. A mutant is then planted in a fork, by giving its function the code of the edited
source, and meets the tests that call the function: the strict ones first, then the quick ones, as many as take
--seconds of processor time. It is found if one of them fails, or if they take more than ten times as long. What
harmless.toml names is counted apart, and so are factors that only break the code, where a number has to be whole. Tests
that start another process do not see the mutant there. Modules whose libraries are missing are left out. Not part of
CI: a folder takes minutes.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, cast

import pytest
from _pytest.runner import runtestprotocol
from mutations import ROOT, Mutant, module_of, mutants_of, wrong_programs

RESTS_ON = {  # beside its own: tests that hold the numbers of a folder to exact values
    "pairs": ["mechanisms"],
    "rounding": ["mechanisms/test_strict.py", "pairs/test_planted.py"],
    "spec": ["cli/test_compose.py", "cli/test_calibrate.py", "cli/test_gates.py"],
}
STRICT = {"test_strict", "test_planted", "test_sums_strict", "test_claims"}  # made for this: they are met first
_BROKEN = 3
MODULES = [
    "conversions",
    "spec",
    "cli/test_gates.py",
    "cli/test_convert.py",
    *[f"test_{n}.py" for n in ("rounding", "numbers", "solve", "elementary", "evidence", "report", "files")],
]


def folder_of(path: Path) -> str:
    return path.relative_to(ROOT / "dpcalc").parts[0].removesuffix(".py")


def tests_of(folder: str, mutants: list[Mutant]) -> list[str]:
    """The tests that should find an error in a folder or in a module outside all folders, and those named beside it."""
    own = [folder] if (ROOT / "tests" / folder).is_dir() else MODULES
    named = [name for mutant in mutants for name in mutant.tests]
    places = dict.fromkeys(ROOT / "tests" / name for name in (*own, *RESTS_ON.get(folder, []), *named))
    return [str(place) for place in places if place.exists() and not {*place.parents} & {*places}]


class Planter:
    """A plug-in of pytest that meets collected tests with mutants instead of running them once."""

    def __init__(self, mutants: list[Mutant], wanted: argparse.Namespace) -> None:
        self._mutants, self._wanted = mutants, wanted
        self._reach: dict[str, tuple[float, set[str]]] = {}
        self.verdicts: list[tuple[Mutant, str]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._learn(session.items)
        items = {item.nodeid: item for item in session.items if item.nodeid in self._reach}
        for mutant in self._mutants:
            verdict = "harmless" if mutant.harmless else self._meet(mutant, items)
            self.verdicts.append((mutant, verdict))
            os.write(self._wanted.out, f"{verdict:8}  {mutant.kind:9}  {mutant}\n".encode())
        return True

    def _learn(self, items: list[pytest.Item]) -> None:
        by_file: dict[Path, list[pytest.Item]] = {}
        for item in items:
            by_file.setdefault(item.path, []).append(item)
        self._wanted.reach.mkdir(parents=True, exist_ok=True)
        for path, tests in by_file.items():
            digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:24]
            stored = self._wanted.reach / f"{digest}.json"
            if not stored.exists():
                _in_fork(functools.partial(_reached, tests, stored), 3600)
            known = json.loads(stored.read_text(encoding="utf-8"))
            self._reach |= {name: (seconds, set(functions)) for name, (seconds, functions) in known.items()}

    def _meet(self, mutant: Mutant, items: dict[str, pytest.Item]) -> str:
        inside = str(mutant.path.relative_to(ROOT))
        names = {mutant.function, mutant.function.partition(".")[0]} if mutant.function else set()
        called = {f"{inside}::{n}" for n in names}
        reach = [name for name in items if called & self._reach[name][1]]
        if not names or _in_class(mutant):  # runs on import: whoever calls a function of a file that has this name
            users = _users(mutant)
            reach = [name for name in items if any(f.partition("::")[0] in users for f in self._reach[name][1])]
        chosen, total = [], 0.0
        for name in sorted(reach, key=lambda name: (items[name].path.stem not in STRICT, self._reach[name][0])):
            if chosen and total + self._reach[name][0] > self._wanted.seconds:
                break
            chosen.append(items[name])
            total += self._reach[name][0]
        if not chosen:
            return "unmet"
        code = _in_fork(functools.partial(_planted, mutant, chosen), int(10 * total + 30))
        if code == _BROKEN and mutant.kind == "factors":
            return "broken"
        if code not in (0, 1, _BROKEN, -signal.SIGXCPU, -signal.SIGKILL):
            return f"ended {code}"
        return "found" if code else "SURVIVES"


def _in_class(mutant: Mutant) -> bool:
    """Whether the mutant stands in the body of a class, outside of all methods."""
    holder: Any = importlib.import_module(module_of(mutant.path))
    for name in mutant.function.split("."):
        holder = vars(holder).get(name, holder)
    return isinstance(holder, type)


def _users(mutant: Mutant) -> set[str]:
    """The files that speak of what is defined where the mutant stands."""
    line = mutant.path.read_text(encoding="utf-8").splitlines()[mutant.line - 1]
    name = line.split()[0].rstrip(":").encode()
    return {str(path.relative_to(ROOT)) for path in (ROOT / "dpcalc").rglob("*.py") if name in path.read_bytes()}


def _in_fork(work: Callable[[], int], seconds: int) -> int:
    """How work in a fork ended: its exit code, or minus the signal."""
    child = os.fork()
    if not child:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 30))
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _reached(items: list[pytest.Item], stored: Path) -> int:
    """Runs tests as they are, and writes down for each its processor time and the functions that it calls."""
    found: dict[str, tuple[float, list[str]]] = {}
    for item in items:
        called: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: object, called: set[CodeType] = called) -> None:
            if event == "call":
                called.add(frame.f_code)

        start = time.process_time()
        sys.setprofile(note)
        reports = runtestprotocol(item, log=False, nextitem=None)
        sys.setprofile(None)
        if any(report.failed for report in reports):
            continue  # it would fail for every mutant
        package = f"{ROOT}/dpcalc/"
        names = {
            f"{code.co_filename.removeprefix(f'{ROOT}/')}::{code.co_qualname.replace('.<locals>', '')}"
            for code in called
            if code.co_filename.startswith(package)
        }
        found[item.nodeid] = (time.process_time() - start, sorted(names))
    stored.write_text(json.dumps(found), encoding="utf-8")
    return 0


def _planted(mutant: Mutant, items: list[pytest.Item]) -> int:
    """Whether a test fails with the mutant in place, or is broken by a number that had to be whole."""
    _plant(mutant)
    for item in items:
        failed = [report for report in runtestprotocol(item, log=False, nextitem=None) if report.failed]
        if failed:
            return _BROKEN if any("TypeError" in report.longreprtext for report in failed) else 1
    return 0


def _plant(mutant: Mutant) -> None:
    module = importlib.import_module(module_of(mutant.path))
    whole = compile(mutant.applied(mutant.path.read_bytes()), str(mutant.path), "exec", dont_inherit=True)
    code, holder = whole, cast("Any", module)
    for name in mutant.function.split(".") if mutant.function else []:
        code = next(part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name)
        holder = vars(holder)[name]
        for function in _functions_in(holder):
            function.__code__ = code
            return
    before = dict(vars(module))
    exec(whole, vars(module))
    changed = {n: value for n, value in vars(module).items() if isinstance(before.get(n), float) and before[n] != value}
    if isinstance(holder, type):
        for name, value in vars(vars(module)[holder.__name__]).items():
            if isinstance(value, (str, bool)) and vars(holder).get(name) != value:
                setattr(holder, name, value)
    vars(module).update({name: value for name, value in before.items() if name not in changed})
    for other in [
        known for known in sys.modules.values() if (getattr(known, "__file__", "") or "").startswith(str(ROOT))
    ]:
        for name, value in changed.items():
            if vars(other).get(name) == before[name]:
                setattr(other, name, value)


def _functions_in(holder: Any) -> Iterator[FunctionType]:
    """The function behind a function, method, property or cached one."""
    for part in (*(getattr(holder, name, None) for name in ("__wrapped__", "fget", "func", "__func__")), holder):
        if isinstance(part, FunctionType):
            yield part


def wanted_mutants(wanted: argparse.Namespace) -> dict[str, list[Mutant]]:
    """What was asked for, by folder: all, or a seeded sample."""
    every: dict[str, list[Mutant]] = {}
    for path in sorted((ROOT / "dpcalc").rglob("*.py")):
        folder, inside = folder_of(path), str(path.relative_to(ROOT / "dpcalc"))
        files = [name.partition(":")[0] for name in wanted.only or [inside]]
        if inside not in files or (wanted.folder and folder not in wanted.folder):
            continue
        try:
            found = mutants_of(path) if wanted.kind != "wrong" else wrong_programs(path)
        except ModuleNotFoundError as error:
            print(f"{inside} is left out: {error}", file=sys.stderr)
            continue
        for mutant in found:
            here = not wanted.only or {inside, f"{inside}:{mutant.line}"} & set(wanted.only)
            if here and wanted.kind in (None, mutant.kind):
                every.setdefault(folder, []).append(mutant)
    if wanted.count is not None:
        chosen = random.Random(wanted.seed)
        every = {name: chosen.sample(them, min(wanted.count, len(them))) for name, them in every.items()}
    return every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", nargs="*", help="folders or modules of the package (default: all)")
    parser.add_argument("--only", nargs="*", metavar="FILE[:LINE]", help="the mutants of a file or line of the package")
    parser.add_argument("--kind", choices=("soundness", "claims", "factors", "logic", "wrong"))
    parser.add_argument("--count", type=int, help="a sample of so many of each folder (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--seconds", type=float, default=60, help="of tests that a mutant meets")
    parser.add_argument("--tests", nargs="*", help="test files or folders (default: those of the folder)")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    kept = Path(tempfile.gettempdir()) / f"dpcalc-reach-{os.getuid()}"
    parser.add_argument("--reach", type=Path, default=kept, help="where to keep which tests call which functions")
    wanted = parser.parse_args()
    wanted.out = os.dup(1)
    os.environ.setdefault("CI", "true")  # the same examples of hypothesis in every fork
    os.chdir(ROOT)
    count: Counter[tuple[str, str, str]] = Counter()
    for folder, mutants in wanted_mutants(wanted).items():
        planter = Planter(mutants, wanted)
        if wanted.list:
            planter.verdicts = [(mutant, "harmless" if mutant.harmless else "listed") for mutant in mutants]
            print(*[f"{verdict:8}  {mutant.kind:9}  {mutant}" for mutant, verdict in planter.verdicts], sep="\n")
        else:
            options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-o", "addopts=--import-mode=importlib"]
            pytest.main([*options, *(wanted.tests or tests_of(folder, mutants))], plugins=[planter])
        count.update((folder, mutant.kind, verdict) for mutant, verdict in planter.verdicts)
    for folder, kind in sorted({key[:2] for key in count}):
        numbers = {verdict: count[folder, kind, verdict] for verdict in ("found", "SURVIVES", "unmet", "listed")}
        numbers["ended"] = sum(n for key, n in count.items() if key[:2] == (folder, kind) and "ended" in key[2])
        apart = ", ".join(f"{count[folder, kind, verdict]} {verdict}" for verdict in ("harmless", "broken"))
        print(f"{folder:12} {kind:9} {numbers['found']} of {sum(numbers.values())} found, {apart}")


if __name__ == "__main__":
    main()
