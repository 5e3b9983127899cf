"""Errors: two lines for people, and every part of them for programs in the format that was asked for."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., Any]

SPEC = """delta: 1e-5
mechanisms:
  - {type: laplace, scale: 10, sensitivity: 1}
  - {type: gaussian, noise_mutliplier: 2}
"""
PARTS = {"exit", "where", "file", "line", "field", "found", "allowed", "hint", "message"}


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return str(path)


def test_a_key_that_does_not_exist_is_told_in_two_lines(dpcalc: Run, spec: str) -> None:
    outcome = dpcalc("compose", spec)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"dpcalc: {spec}:4: mechanisms[1].noise_mutliplier: no such key for gaussian\n"
        "        did you mean noise_multiplier? (or sigma and sensitivity)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("compose", "-m", "gdp,mu=1", "--delta", "3"),
         {"where": "--delta", "field": "delta", "found": "3", "allowed": "a number in [0, 1)", "hint": None}),
        (("compose", "-m", "gdp,mu=1", "--delta", "1e-5;2"),
         {"where": "--delta", "field": "delta", "found": "1e-5;2",
          "allowed": "a number in [0, 1) such as 0.5, 1e-5 or 256/60000"}),
        (("compose", "-m", "gdp,mu=1", "--detla", "1e-5"),
         {"where": "--detla", "found": "--detla", "hint": "did you mean --delta?"}),
        (("compose", "-m", "gdp,mu=1", "--delta"), {"field": "delta", "message": "needs a value; see dpcalc --help"}),
        (("compos",), {"where": "compos", "found": "compos", "hint": "did you mean compose?"}),
        (("sgd-bound", "--lr", "1"), {"field": "algorithm", "allowed": "gd, cgd, sgd"}),
        (("sgd-bound", "--algorithm", "gda"), {"field": "algorithm", "found": "gda", "allowed": "one of gd, cgd, sgd"}),
        (("diff", "a"), {"where": "B", "hint": "see dpcalc diff --help"}),
        (("compose", "-m", "gdp,mu=1", "--tolerance", "1", "--tolerance", "1"), {"where": "--tolerance"}),
        (("compose", "-m", "gausian,sigma=1", "--delta", "1e-5"),
         {"field": "type", "found": "gausian", "hint": "did you mean gaussian?"}),
        (("compose", "-m", "gdp,mu=-1", "--delta", "1e-5"),
         {"where": "-m gdp,mu=-1: mu", "field": "mu", "found": "-1", "allowed": "a number in (0, inf)"}),
        (("compose", "none.yaml"), {"where": "none.yaml", "file": "none.yaml", "field": None, "line": None}),
        (("convert",), {"where": "--gdp, --rdp, --zcdp, --dp", "found": "none of them"}),
        (("exp-mech", "--lipschitz", "1", "--delta", "1e-5"), {"exit": 2}),
        (("train", "--filter", "gdp", "--algorithm", "sgd"),
         {"where": "dpcalc train", "hint": "use --filter rdp, or: dpcalc train --filter gdp --algorithm gd"}),
        (("filter", "examples/filter-norms.csv", "--filter", "gdp", "--mu", "1"),
         {"hint": "give --sigma, or --noise-multiplier with --clip"}),
        (("sgd-bound", "--algorithm", "gd", "--lr", "9", "--sigma", "1", "--sensitivity", "1", "--n", "9", "--steps",
          "3", "--strong-convexity", "1", "--smoothness", "2", "--delta", "1e-5"), {"exit": 2}),
        (("ledger", "status", "none.db"), {"file": "none.db", "hint": "dpcalc ledger init makes one"}),
        (("report", "none.json"), {"where": "none.json"}),
        (("verify", "none.json"), {"where": "none.json"}),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)  # fmt: skip
def test_every_error_has_all_its_parts_in_json(dpcalc: Run, arguments: tuple[str, ...], expected: Any) -> None:
    words = 2 if arguments[0] == "ledger" else 1
    outcome = dpcalc(*arguments[:words], "-fjson", *arguments[words:])
    error = outcome.json["error"]
    assert error.keys() == PARTS
    assert error["exit"] == outcome.code == 2
    assert {key: error[key] for key in expected} == expected
    assert outcome.err.startswith("dpcalc: ")
    assert len(outcome.err.splitlines()) <= 2


def test_an_error_in_a_file_names_its_line(dpcalc: Run, spec: str) -> None:
    error = dpcalc("compose", spec, "-f", "json").json["error"]
    assert (error["file"], error["line"]) == (spec, 4)
    assert error["field"] == "mechanisms[1].noise_mutliplier"
    assert error["found"] == "noise_mutliplier"
    assert "sensitivity" in error["allowed"].split(", ")


def test_a_limit_that_cannot_be_certified_is_no_error(dpcalc: Run) -> None:
    outcome = dpcalc("compose", "-m", "gdp,mu=1,guarantee=approximate", "--delta", "1e-5", "--max-epsilon", "9", "-f",
                     "json")  # fmt: skip
    assert outcome.code == 3
    assert outcome.json["budget"]["within"] is False


@pytest.mark.parametrize("format", ["github", "junit", "csv", "markdown", "badge"])
def test_every_format_for_programs_tells_the_error(dpcalc: Run, spec: str, format: str) -> None:
    outcome = dpcalc("compose", spec, "--format", format)
    assert outcome.code == 2
    assert f"{spec}:4" in outcome.out
    assert outcome.err.startswith(f"dpcalc: {spec}:4")


def test_formats_of_errors_are_read_by_their_readers(dpcalc: Run, spec: str) -> None:
    annotation = dpcalc("compose", spec, "-f", "github").out
    assert dpcalc("compose", "nope.yaml", "-f", "github").out.startswith("::error file=nope.yaml,title=dpcalc::")
    assert annotation.startswith(f"::error file={spec},line=4,title=dpcalc::")
    document = ElementTree.fromstring(dpcalc("compose", spec, "-f", "junit").out)
    assert document.attrib == {"tests": "1", "failures": "0", "errors": "1"}
    (case,) = document.iter("testcase")
    (error,) = case
    assert "did you mean noise_multiplier?" in error.attrib["message"]
    (row,) = csv.DictReader(io.StringIO(dpcalc("compose", spec, "-f", "csv").out))
    assert row.keys() == PARTS
    assert row["line"] == "4"
    assert json.loads(dpcalc("compose", spec, "-f", "badge").out)["isError"] is True


def test_an_unreadable_file_is_an_error_for_junit(dpcalc: Run) -> None:
    outcome = dpcalc("compose", "missing.yaml", "-f", "junit")
    (error,) = ElementTree.fromstring(outcome.out).iter("error")
    assert error.attrib["message"] == "missing.yaml: cannot be read (no such file or directory)"


def test_an_interruption_is_an_object_too(dpcalc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcalc.accounting import implied

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(implied, "convert", interrupted)
    outcome = dpcalc("convert", "--gdp", "1", "-f", "json")
    assert outcome.code == outcome.json["error"]["exit"] == 130


@pytest.mark.parametrize("format", ["json", "csv", "markdown", "github", "junit", "badge"])
def test_an_error_never_steers_a_terminal(dpcalc: Run, tmp_path: Path, format: str) -> None:
    log, groups = tmp_path / "log.csv", tmp_path / "groups.csv"
    log.write_text("step,id,norm\n0,a,1\n")
    groups.write_text("id,\x1b[31mgr\x7f\x08\x9b\n")
    done = dpcalc("filter", log, "--filter", "gdp", "--sigma", "4", "--mu", "1", "--groups", groups, "-f", format)
    assert done.code == 2
    assert not [
        letter for letter in done.out + done.err if (ord(letter) < 32 and letter != "\n") or 127 <= ord(letter) < 160
    ]


def test_what_is_not_installed_comes_with_the_line_that_installs_it() -> None:
    """The distribution is on no index: only a checkout can be installed from, and every extra is one of its own."""
    from dpcalc.errors import missing

    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "dpcalc").rglob("*.py"))
    asked = set(re.findall(r'missing\("[^"]+", "(\w+)"', sources))
    assert {"dask", "parquet", "plot", "postgres", "report", "torch", "verify"} == asked <= extras
    error = missing("pictures need Matplotlib", "plot", where="plot")
    assert (error.wrong, error.hint) == ("pictures need Matplotlib", "in dpcalc's checkout: pip install '.[plot]'")
    assert "pip install dpcalc" not in sources


def test_shuffled_batches_are_warned_of_without_repeating_anything(dpcalc) -> None:
    run = "dp-sgd,noise_multiplier=1.1,batch_size=256,dataset_size=60000,epochs=60,sampling=shuffled"
    warned = dpcalc("compose", "-m", run, "--delta", "1e-5").err.splitlines()
    assert [line.startswith("warning: ") for line in warned] == [True, True]
    first, second = (set(re.findall(r"\w{5,}", line)) for line in warned)
    assert first & second <= {"warning", "shuffled", "batches", "sampling"}
