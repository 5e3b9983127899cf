"""Streams do not change verdicts: readers that leave, closed and full streams, and encodings without Greek."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpcalc.cli import failing
from dpcalc.errors import CertificationError

ANSWER = ("convert", "--gdp", "1.2", "--delta", "1e-5")  # ε = 5.41348598
OVER = (*ANSWER, "--max-epsilon", "1")


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which `$D` is this interpreter's dpcalc."""
    variables = {**os.environ, "D": f"{sys.executable} -m dpcalc", **environment}
    command = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(command, capture_output=True, env=variables, check=False, timeout=600)


@pytest.mark.parametrize("reader", ["head -n 1", "true", "head -c 3"])
@pytest.mark.parametrize(("arguments", "code"), [(ANSWER, 0), (OVER, 1)])
def test_a_reader_that_leaves_keeps_the_verdict(reader: str, arguments: tuple[str, ...], code: int) -> None:
    done = shell(f"$D {' '.join(arguments)} -f json | {reader}")
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr


def test_help_that_is_read_no_further_is_no_error() -> None:
    done = shell("$D compose --help | true")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("format", ["table", "json", "csv"])
@pytest.mark.parametrize("target", ["> /dev/full", ">&-"])
def test_output_that_cannot_be_written_is_exit_3_and_one_line(format: str, target: str) -> None:
    done = shell(f"$D {' '.join(ANSWER)} -f {format} {target}")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert b"could not be written" in done.stderr


@pytest.mark.parametrize("asked", ["--help", "-V", "compose -h", "ledger --help", "ledger spend --help"])
def test_help_that_cannot_be_written_is_exit_3_and_one_line(asked: str) -> None:
    for target in ("> /dev/full", ">&-"):
        done = shell(f"$D {asked} {target}")
        assert done.returncode == 3
        assert done.stderr.startswith(b"dpcalc: standard output")
        assert len(done.stderr.splitlines()) == 1


def test_an_error_needs_no_room_on_standard_output() -> None:
    for target in ("> /dev/full", ">&-"):
        done = shell(f"$D convert --gdp nan --delta 1e-5 {target}")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_a_closed_output_is_no_matter_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = shell(f"$D {' '.join(OVER)} -o {target} >&-")
    assert done.returncode == 1
    assert json.loads(target.read_text())["command"] == "convert"


@pytest.mark.parametrize("closed", ["2>&-", "2> /dev/full", "<&-"])
@pytest.mark.parametrize(("arguments", "code"), [(ANSWER, 0), (OVER, 1)])
def test_the_other_streams_change_nothing(closed: str, arguments: tuple[str, ...], code: int) -> None:
    done = shell(f"$D {' '.join(arguments)} -q {closed}")
    assert done.returncode == code
    assert done.stdout.decode().startswith("ε = 5.414")


def test_a_closed_input_is_an_empty_spec() -> None:
    done = shell("$D compose - --delta 1e-6 <&-")
    assert done.returncode == 2
    assert b"empty" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("format", ["table", "markdown", "github"])
def test_letters_that_an_encoding_lacks_are_spelt_out(encoding: str, format: str) -> None:
    done = shell(f"$D {' '.join(OVER)} -f {format}", PYTHONIOENCODING=encoding)
    assert done.returncode == 1
    text = done.stdout.decode(encoding)
    assert "eps = 5.414" in text
    assert "at delta = 1e-5" in text
    assert "?" not in text
    assert b"over budget: epsilon" in done.stderr or format == "github"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_keeps_its_letters_as_escapes(encoding: str) -> None:
    done = shell("$D compose -m gdp,mu=1,name=größe数 --delta 1e-6 -f json", PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout.decode(encoding))["mechanisms"][0]["name"] == "größe数"


def test_help_is_spelt_out_too() -> None:
    assert b"eps of a list of mechanisms" in shell("$D -h", PYTHONIOENCODING="ascii").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        (("convert", "--gdp", "x"), 2, "--gdp"),
        (("convert", "--gdp", "1", "--gdp", "2"), 2, "--gdp"),
        (("compose", "nowhere.yaml", "--delta", "1e-6"), 2, "nowhere.yaml"),
        (("convert", "--gdp", "1", "--max-epsilon", "2"), 2, "--max-epsilon"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_an_error_is_an_object_where_json_was_asked_for(dpcalc, arguments, code, where) -> None:
    outcome = dpcalc(*arguments, "-f", "json")
    assert outcome.code == code
    error = outcome.json["error"]
    assert (error["exit"], error["where"]) == (code, where)
    assert error["message"].partition("; ")[0] in outcome.err


def test_an_error_is_an_annotation_where_those_were_asked_for(dpcalc) -> None:
    outcome = dpcalc("convert", "--gdp", "x", "--format=github")
    assert outcome.code == 2
    assert outcome.out.startswith("::error title=dpcalc::")


def test_an_annotation_cannot_steer_a_terminal(dpcalc, tmp_path) -> None:
    (tmp_path / "groups.csv").write_text("id,gr\x1b[31moup\x08\n")
    (tmp_path / "log.csv").write_text("step,id,norm\n0,a,1\n")
    words = ["--filter", "gdp", "--sigma", "4", "--mu", "1", "-f", "github"]
    outcome = dpcalc("filter", str(tmp_path / "log.csv"), *words, "--groups", str(tmp_path / "groups.csv"))
    assert outcome.code == 2
    assert r"id,gr\x1b[31moup\x08" in outcome.out


def test_a_name_cannot_steer_a_terminal(dpcalc) -> None:
    spec = 'delta: 1e-6\nmechanisms: [{type: gdp, mu: 1, name: "a\\e[31mb"}, {type: gdp, mu: 1}]\n'
    outcome = dpcalc("compose", "-", stdin=spec)
    assert "\x1b" not in outcome.out
    assert r"a\x1b[31mb" in outcome.out


def test_the_port_of_an_address_is_no_line() -> None:
    error = CertificationError("the cluster failed", where="--scheduler tcp://127.0.0.1:18790")
    told = failing._parts(error, 3, ["filter", "log.parquet", "--scheduler", "tcp://127.0.0.1:18790"])
    assert told["where"] == error.where
    assert (told["file"], told["line"]) == (None, None)
