"""One dialect of numbers in everything that is read: blanks may stand around a number in a table, no other space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

READERS = {
    "log": ("step,id,norm\n0,a,{}\n", "filter FILE --filter gdp --sigma 4 --mu 1"),
    "data": (
        "a,label\n{},0\n1,1\n2,0\n0,1\n",
        "train --model logistic --algorithm gd --steps 1 --noise-multiplier 5 --data FILE",
    ),
    "schedule": (
        "step,lr,sigma\n1,{},1\n",
        "sgd-bound --algorithm gd --sensitivity 1 --n 100 --steps 9 --smoothness 1 --delta 1e-5 --schedule FILE",
    ),
    "table of queries": ("id,monday\na,{}\n", "queries FILE --norm-budget 3 --mu 1"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("number", "code"),
    [("1", 0), (" 1 ", 0), ("\t1", 0), ("\u00a01", 2), ("1\u2003", 2), ("\x0b1", 2), ("\uff11", 2), ("1_0", 2)],
)
def test_only_blanks_may_stand_around_a_number(
    dpcalc: Callable[..., Any], tmp_path: Path, name: str, number: str, code: int
) -> None:
    text, command = READERS[name]
    path = tmp_path / "file.csv"
    path.write_text(text.format(number))
    done = dpcalc(*(str(path) if word == "FILE" else word for word in command.split()))
    assert done.code == code, done.err


def test_an_export_without_an_end_is_not_held_in_memory(dpcalc: Callable[..., Any], tmp_path: Path) -> None:
    done = dpcalc("ledger", "import", str(tmp_path / "copy.db"), "/dev/zero")
    assert done.code == 2
    assert "/dev/zero:1: a line is longer than an entry may be" in done.err
