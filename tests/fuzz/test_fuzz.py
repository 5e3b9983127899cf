"""A fuzzer with the contract as its invariant: whatever comes in, an exit code of 0 to 3 and a line or two go out.

A few hundred cases run with the other tests. DPCALC_FUZZ=100000 runs more of them, DPCALC_FUZZ_SEED=7 others; a
failure names its number, and DPCALC_FUZZ_ONLY=NUMBER runs that one alone.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from dpcalc.cli.main import main
from tests.fuzz.cases import KINDS, Case, make

CASES = int(os.environ.get("DPCALC_FUZZ", "300"))
SEED = int(os.environ.get("DPCALC_FUZZ_SEED", "1"))
ONLY = os.environ.get("DPCALC_FUZZ_ONLY")
BLOCKS = 4

SECONDS = 20
MEGABYTES = 2000


class TooLong(BaseException):
    """A command that does not end."""


@contextmanager
def bounded() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def faults(case: Case) -> list[str]:
    """What the command did that the contract does not allow."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    start = time.process_time()
    try:
        with bounded(), redirect_stdout(out), redirect_stderr(err):
            main(case.arguments)
    except SystemExit as ending:
        code = ending.code or 0
    except TooLong:
        return [f"no end in {SECONDS} s of processor time"]
    told, printed = err.getvalue(), out.getvalue()
    found = [f"{time.process_time() - start:.0f} s"] if time.process_time() - start > SECONDS else []
    if code not in (0, 1, 2, 3):
        found.append(f"exit {code}")
    found += re.findall(r"Traceback|internal error|Warning:|\.py:\d", told)
    lines = [line for line in told.splitlines() if not line.startswith(("warning:", "over budget", "not certified"))]
    answered = code == 3 and printed  # a result that is not certified, or not checked, is printed all the same
    if code in (2, 3) and not 1 <= len(lines) <= 3 and "warning" not in told and not answered:
        found.append(f"{len(lines)} lines of error")
    found += [f"a line of {len(line)} characters" for line in lines if len(line) > 1000]
    found += [
        f"control character {c!r}" for c in {*told, *printed} - {"\n", "\t"} if ord(c) < 32 or 127 <= ord(c) < 160
    ]
    if "json" in case.arguments and printed:
        json.loads(printed, parse_constant=lambda word: found.append(f"{word} in JSON"))
    return [*found, told[:300]] if found else []


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_comes_in_the_contract_holds(block: int, tmp_path: Path) -> None:
    numbers = [int(ONLY)] if ONLY else range(block, CASES, BLOCKS)
    broken = []
    for number in numbers:
        folder = tmp_path / str(number)
        folder.mkdir()
        case = make(SEED, number, folder)
        found = faults(case)
        if found:
            broken.append(f"{number} {case.kind}: {found}\n   {case.arguments}")
        else:
            _remove(folder)
    assert not broken, "\n".join(broken)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MEGABYTES * 1024


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_every_kind_of_input_has_its_turn() -> None:
    assert len(KINDS) <= CASES or ONLY
