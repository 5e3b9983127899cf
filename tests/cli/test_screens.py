"""What people read: the answer first, fitting from 60 columns on, and the other forms of the same result."""

from __future__ import annotations

import csv
import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dpcalc.commands import COMMANDS

Run = Callable[..., Any]

WIDTHS = (60, 80, 200)

ROOT = Path(__file__).resolve().parents[2]
MIXED = ("compose", str(ROOT / "examples" / "mixed-release.yaml"))
SCREENS = (
    ("-h",),
    ("compose", "-h"),
    ("train", "-h"),
    ("report", MIXED[1]),
    ("exp-mech", "--lipschitz", "1", "--diameter", "2", "--delta", "1e-5"),
    ("sgd-bound", "--algorithm", "cgd", "--lr", "0.05", "--clip", "5", "--noise-multiplier", "3", "--n", "60000",
     "--batch-size", "1500", "--epochs", "100", "--strong-convexity", "0.002", "--smoothness", "2", "--delta", "1e-5"),
    ("sgd-bound", "--algorithm", "cgd", "--clip", "5", "--noise-multiplier", "3", "--n", "60000", "--batch-size",
     "1500", "--strong-convexity", "0.002", "--smoothness", "2", "--delta", "1e-5", "--sweep", "epochs=10:40:10",
     "--sweep", "lr=0.01,0.1"),
    ("train", "--filter", "gdp", "--model", "logistic", "--steps", "8", "--seed", "1"),
    MIXED,
    ("queries", str(ROOT / "examples" / "queries.csv"), "--norm-budget", "3", "--epsilon", "1", "--delta", "1e-6"),
    (*MIXED, "-v"),
    ("convert", "--gdp", "1.2", "--delta", "1e-5", "--delta", "1e-7"),
    ("exp-mech", "--lipschitz", "1", "--strong-convexity", "4", "--delta", "1e-5"),
    ("sgd-bound", "--algorithm", "gd", "--lr", "0.05", "--sigma", "0.01", "--sensitivity", "10", "--n", "60000",
     "--steps", "50", "--strong-convexity", "0.002", "--smoothness", "2", "--delta", "1e-5"),
    ("filter", str(ROOT / "examples" / "filter-steps.csv"), "--filter", "gdp", "--scope", "global", "--mu", "0.5",
     "--odometer", "0.25"),
    (*MIXED, "--curve"),
    ("calibrate", str(ROOT / "examples" / "calibrate.yaml"), "--epsilon", "2", "--delta", "1e-5"),
    ("sgd-bound", "--algorithm", "cgd", "--lr", "0.05", "--clip", "5", "--noise-multiplier", "3", "--n", "60000",
     "--batch-size", "1500", "--strong-convexity", "0.002", "--smoothness", "2", "--delta", "1e-5", "--sweep",
     "epochs=10:40:10"),
    ("train", "--model", "logistic", "--epochs", "1", "--seed", "1"),
    ("diff", str(ROOT / "examples" / "dp-sgd.yaml"), MIXED[1], "--delta", "1e-6"),
    ("report", MIXED[1], "--statement", "registry"),
    ("filter", str(ROOT / "examples" / "filter-norms.csv"), "--filter", "gdp", "--sigma", "4", "--mu", "1", "--delta",
     "1e-5"),
)  # fmt: skip


def on_terminals(arguments: tuple[str, ...], widths: Sequence[int], *, errors: bool = False) -> list[tuple[int, str]]:
    """Exit code and screen of a command on terminals of such widths, with what it tells beside if asked for.

    One forked process sits at one terminal after the other, so that nothing is imported anew.
    """
    terminals = [pty.openpty() for _ in widths]
    for (_, other), columns in zip(terminals, widths, strict=True):
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    codes, told = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of pytest's workers hold nothing of ours
        child = os.fork()
    if child == 0:
        try:
            _sit_at(arguments, [other for _, other in terminals], told, errors=errors)
        finally:
            os._exit(70)
    os.close(told)
    for _, other in terminals:
        os.close(other)
    screens = [_read(main).decode().replace("\r\n", "\n") for main, _ in terminals]
    found = _read(codes)
    os.waitpid(child, 0)
    assert len(found) == len(widths), screens
    return list(zip(found, screens, strict=True))


def _sit_at(arguments: tuple[str, ...], terminals: list[int], told: int, *, errors: bool) -> None:
    from dpcalc.cli.main import main

    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        os.environ.pop(name, None)
    os.environ["TERM"] = "xterm-256color"
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for terminal in terminals:
        for place, stream in enumerate((terminal, terminal, terminal if errors else nowhere)):
            os.dup2(stream, place)
        os.close(terminal)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        try:
            main(list(arguments))
        except SystemExit as ending:
            code = int(ending.code or 0)
        sys.stdout.flush()
        os.write(told, bytes([code]))
    os._exit(0)


def _read(file: int) -> bytes:
    """Everything that is written there, until nobody is left to write."""
    chunks = []
    while True:
        try:
            chunk = os.read(file, 65536)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(file)
    return b"".join(chunks)


def on_a_terminal(arguments: tuple[str, ...], columns: int, *, errors: bool = False) -> tuple[int, str]:
    """The same on one terminal."""
    (found,) = on_terminals(arguments, (columns,), errors=errors)
    return found


def fits(arguments: tuple[str, ...], widths: Sequence[int] = WIDTHS) -> None:
    """Assert that a command succeeds, that its screen is no wider than the terminal, and that no number is broken."""
    for columns, (code, screen) in zip(widths, on_terminals(arguments, widths), strict=True):
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
        assert code == 0, plain
        assert max(map(len, plain.splitlines())) <= columns
        assert plain.splitlines()[0]
        assert "╭" not in plain
        # A number that was wrapped would begin its line with a lone digit, point or exponent.
        assert not re.search(r"\n\s*(\.\d|e-?\d)", plain)


@pytest.mark.parametrize("arguments", SCREENS, ids=lambda arguments: arguments[0])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_broken(arguments: tuple[str, ...]) -> None:
    fits(arguments)


def test_the_screens_of_a_ledger_fit(dpcalc: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "team.db")
    fits(("ledger", "init", file, "--budget", "census", "--epsilon", "3", "--delta", "1e-6"), (60,))
    fits(("ledger", "spend", file, "census", "-m", "gdp,mu=0.3", "--key", "one"))
    copy = str(tmp_path / "copy.jsonl")
    assert dpcalc("ledger", "export", file, "-o", copy).code == 0
    for words in (("status", file, "census"), ("log", file, "census"), ("verify", file)):
        fits(("ledger", *words))
    fits(("ledger", "import", str(tmp_path / "other.db"), copy), (60,))
    fits(("ledger", "void", file, "one", "--reason", "never ran"), (60,))


def test_a_verdict_of_the_referee_fits(dpcalc: Run, tmp_path: Path) -> None:
    pytest.importorskip("flint")
    result = tmp_path / "result.json"
    result.write_text(dpcalc("convert", "--gdp", "1", "--delta", "1e-5", "-f", "json").out, encoding="utf-8")
    fits(("verify", str(result)))


def test_every_command_is_tried_on_a_terminal() -> None:
    """What prints nothing but a file has no screen."""
    here = Path(__file__).read_text(encoding="utf-8")
    for name in (name for name, line in COMMANDS.items() if line.home and name != "ledger export"):
        *_, verb = name.split()
        assert re.search(rf'\(("ledger", )?"{verb}", ', here), name


def test_of_the_running_line_whole_notes_are_shown() -> None:
    from dpcalc.terminal.progress import fitting

    notes = ("step 134/134", "ε ≤ 2.999", "active 7,572", "loss 0.0864")
    for room in range(60):
        shown = fitting(notes, room)
        assert len(shown) <= room
        assert notes[: len(shown.split("  "))] == tuple(shown.split("  ")) or not shown


def test_a_word_that_is_nearly_right_is_guessed(dpcalc: Run) -> None:
    outcome = dpcalc("convert", "--gdp", "1", "-f", "jsn")
    assert outcome.code == 2
    assert "did you mean json?" in outcome.err


def test_what_a_result_remarks_is_no_warning_when_it_is_read_back(dpcalc: Run) -> None:
    again = dpcalc("compose", "-", stdin=dpcalc(*MIXED, "-f", "json").out)
    assert again.code == 0
    assert "warning" not in again.err


def test_the_verdict_has_a_colour_of_its_own() -> None:
    for limit, colour in (("9", "32"), ("1", "31")):
        _, screen = on_a_terminal(("convert", "--gdp", "1", "--delta", "1e-5", "--max-epsilon", limit), 80)
        assert re.match(rf"\x1b\[1;{colour}mε = 4\.378 at δ = 1e-5, ", screen)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (MIXED, r"ε = 1\.49\d at δ = 1e-6, within the limit 3"),
        ((*MIXED, "--max-epsilon", "1"), r"ε = 1\.49\d at δ = 1e-6, OVER the limit 1 by 0\.49\d"),
        (("compose", "-m", "gdp,mu=1", "--epsilon", "1"), r"δ = 0\.1270 at ε = 1"),
        (("convert", "--gdp", "1.2", "--delta", "1e-5"), r"ε = 5\.414 at δ = 1e-5, exactly \(1\.2-GDP\)"),
        (("convert", "--gdp", "1", "--delta", "1e-5", "--max-mu", "0.9"),
         r"ε = 4\.378 at δ = 1e-5, exactly \(1-GDP\); μ = 1, OVER the limit 0\.9 by 0\.1"),
        (("calibrate", str(ROOT / "examples" / "calibrate.yaml"), "--epsilon", "2", "--delta", "1e-5"),
         r"noise_multiplier = 0\.81[89]\d? for model: ε = (2\.000|1\.99\d) at δ = 1e-5, within 2"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_answer_and_quiet_prints_it_alone(dpcalc: Run, arguments: Any, line: str) -> None:
    assert re.fullmatch(line, dpcalc(*arguments).out.splitlines()[0])
    assert re.fullmatch(line + "\n", dpcalc(*arguments, "-q").out)


def test_the_printed_solution_typed_back_keeps_the_target(dpcalc: Run) -> None:
    spec = "gaussian,noise_multiplier={},sampling=poisson,rate=0.02,count=700"
    line = dpcalc("calibrate", "-m", spec.format("solve"), "--epsilon", "1.7", "--delta", "1e-6", "-q").out
    shown = re.match(r"noise_multiplier = (\S+) for gaussian", line)
    assert shown is not None
    assert dpcalc("compose", "-m", spec.format(shown[1]), "--delta", "1e-6", "--max-epsilon", "1.7").code == 0


def test_verbose_tells_every_notion_and_source(dpcalc: Run) -> None:
    short, long = dpcalc(*MIXED).out, dpcalc(*MIXED, "--verbose").out
    assert "accountant" not in short
    assert re.search(r"accountant +pld", long)
    assert re.search(r"RDP .*at order 32", long)
    assert len(long.splitlines()) > len(short.splitlines())


@pytest.mark.parametrize("flag", ["-q", "-v"])
def test_quiet_and_verbose_have_no_effect_on_programs_and_say_so(dpcalc: Run, flag: str) -> None:
    outcome = dpcalc("convert", "--gdp", "1", flag, "-f", "csv")
    assert outcome.code == 2
    assert "has no effect" in outcome.err
    assert dpcalc("convert", "--gdp", "1", "-q", "-v").code == 2


def test_short_flags_for_help_and_version(dpcalc: Run) -> None:
    from dpcalc import __version__

    assert dpcalc("-V").out == f"dpcalc {__version__}\n"
    assert "dpcalc COMMAND -h" in dpcalc("-h").out
    assert "--max-advantage" in dpcalc("compose", "-h").out
    assert dpcalc("help", "compose").out == dpcalc("compose", "--help").out


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.json", "{"), ("a.csv", "command,"), ("a.md", "**ε"), ("a.xml", "<?xml"), ("a.txt", "ε ="), ("a", "ε =")],
)
def test_a_file_is_written_in_the_format_of_its_name(dpcalc: Run, tmp_path: Path, name: str, start: str) -> None:
    target = tmp_path / name
    assert dpcalc("convert", "--gdp", "1", "--delta", "1e-5", "-o", target).code == 0
    assert target.read_text(encoding="utf-8").startswith(start)
    assert dpcalc("convert", "--gdp", "1", "--delta", "1e-5", "-f", "csv", "-o", target).code == 0
    assert target.read_text(encoding="utf-8").startswith("command,")


def test_csv_has_the_total_and_every_entry(dpcalc: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(dpcalc(*MIXED, "-f", "csv").out)))
    names = {"total", "model", "yearly counts", "most common diagnosis", "histogram"}
    assert rows[0]["name"] == "total"
    assert {row["name"] for row in rows} == names
    assert not any(" " in column for column in rows[0])
    assert float(rows[0]["epsilon"]) > max(float(row["epsilon"]) for row in rows[1:])


def test_a_cell_that_a_spreadsheet_would_run_is_text(dpcalc: Run) -> None:
    spec = "delta: 1e-6\nmechanisms: [{type: gdp, mu: 1, name: =1+1}, {type: gdp, mu: 1}]\n"
    rows = list(csv.DictReader(io.StringIO(dpcalc("compose", "-", "-f", "csv", stdin=spec).out)))
    assert rows[1]["name"] == "'=1+1"


def test_markdown_has_verdict_warnings_date_and_version(dpcalc: Run) -> None:
    from dpcalc import __version__

    text = dpcalc(*MIXED, "-f", "markdown").out
    assert "within the limit 3**" in text
    assert re.search(r"\| remark \| no finite GDP parameter", text)
    shuffled = "gaussian,noise_multiplier=2,sampling=shuffled,rate=0.1,count=10"
    assert (
        "> **Warning:** shuffled batches" in dpcalc("compose", "-m", shuffled, "--delta", "1e-6", "-f", "markdown").out
    )
    assert re.search(rf"dpcalc {re.escape(__version__)} compose, \d{{4}}-\d\d-\d\d", text)


@pytest.mark.parametrize(("limit", "tag"), [("9", None), ("1", "failure")])
def test_junit_has_a_case_for_every_limit(dpcalc: Run, limit: str, tag: str | None) -> None:
    flags = ("--max-epsilon", limit, "--max-mu", "5")
    text = dpcalc("convert", "--gdp", "1", "--delta", "1e-5", *flags, "-f", "junit").out
    suite = ElementTree.fromstring(text.encode())[0]
    assert suite.get("tests") == "2"
    assert suite.get("failures") == ("1" if tag else "0")
    assert len(suite.findall("testcase/failure")) == (1 if tag else 0)


def test_junit_calls_what_is_not_certified_an_error(dpcalc: Run) -> None:
    mechanism = "gaussian,noise_multiplier=1,sampling=poisson,rate=0.01,count=500"
    arguments = ("compose", "-m", mechanism, "--delta", "1e-5", "--accountant", "clt", "--max-epsilon", "50")
    outcome = dpcalc(*arguments, "-f", "junit")
    assert outcome.code == 3
    assert ElementTree.fromstring(outcome.out.encode())[0].get("errors") == "1"
    assert dpcalc(*arguments, "-f", "github").out.startswith("::error title=dpcalc compose::ε = ")


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("convert", "--gdp", "1", "--gdp", "2"), "--gdp"),
        (("convert", "--gdp", "1", "--epsilon", "1", "--epsilon=1"), "--epsilon"),
        (("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "-f", "json", "-f", "csv"), "--format"),
        (("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "--max-mu", "1", "--max-mu", "9"), "--max-mu"),
    ],
)
def test_a_single_valued_option_is_given_once(dpcalc: Run, arguments: Any, flag: str) -> None:
    outcome = dpcalc(*arguments)
    assert outcome.code == 2
    assert f"{flag}: is given twice" in outcome.err


def test_an_option_without_effect_is_an_error(dpcalc: Run) -> None:
    flags = ("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "--tolerance", "1e-4")
    assert dpcalc(*flags).code == 0
    outcome = dpcalc(*flags, "--accountant", "rdp")
    assert outcome.code == 2
    assert "--tolerance: has no effect" in outcome.err


@pytest.mark.parametrize("text", ["1_000", "１", "1:30", "0x10", "010", " 1", "1\u00a0", "1e", "1//2", "infinity", "٣"])
def test_one_dialect_of_numbers_in_options_and_specs(dpcalc: Run, text: str) -> None:
    assert dpcalc("convert", "--gdp", text).code == 2
    if text != " 1":  # spaces around a value belong to the spec's own writing
        assert dpcalc("compose", "-m", f"gdp,mu={text}", "--delta", "1e-5").code == 2
        assert dpcalc("compose", "-", stdin=f"delta: 1e-5\nmechanisms: [{{type: gdp, mu: {text}}}]\n").code == 2


def test_an_output_that_is_an_input_is_refused_before_anything_is_written(dpcalc: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("delta: 1e-5\nmechanisms: [{type: gdp, mu: 1}]\n")
    before = spec.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(spec)
    for target in (spec, link, tmp_path / "." / "spec.yaml"):
        outcome = dpcalc("compose", spec, "-o", target)
        assert outcome.code == 2
        assert "same file" in outcome.err
        assert spec.read_bytes() == before


def test_what_tells_about_individuals_is_written_for_its_owner_alone(dpcalc: Run, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        public = ("convert", "--gdp", "1.2", "--delta", "1e-5")
        for arguments, mode in ((SCREENS[-1], 0o600), (public, 0o644)):
            target = tmp_path / f"{arguments[0]}.json"
            assert dpcalc(*arguments, "-o", target).code == 0
            assert target.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_the_public_names_are_those_that_are_listed() -> None:
    import dpcalc

    assert dir(dpcalc) == sorted(dpcalc.__all__)


TOLD_BESIDE = (
    (2, ("compose", "-m", "gaussian,noise_mutliplier=1.1,count=20", "--delta", "1e-5")),
    (2, ("compose", "-m", "dp-sgd,noise_multiplier=1,batch_size=10,dataset_size=100,epochs=3", "--delta", "1e-5")),
    (2, ("convert", "--gdp", "1", "-f", "jsn")),
    (2, ("sgd-bound", "--lr", "1")),
    (2, ("ledger", "status", "a-ledger/that-is-nowhere/to-be-found.db")),
    (2, ("train", "--filter", "gdp", "--algorithm", "sgd")),
    (2, ("filter", "examples/filter-norms.csv", "--filter", "gdp", "--noise-multiplier", "1", "--mu", "1")),
    (0, ("sgd-bound", "--algorithm", "sgd", "--lr", "0.05", "--sigma", "1", "--sensitivity", "1", "--n", "10",
         "--batch-size", "5", "--steps", "50", "--delta", "1e-5")),
    (0, ("filter", "examples/filter-norms.csv", "--filter", "gdp", "--noise-multiplier", "4", "--clip", "0.5", "--mu",
         "9", "--delta", "1e-5")),
    (3, ("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "--accountant", "clt", "--max-epsilon", "9")),
    (1, (*MIXED, "--max-epsilon", "1", "--max-advantage", "0.1")),
)  # fmt: skip


@pytest.mark.parametrize(("expected", "arguments"), TOLD_BESIDE, ids=lambda value: str(value)[2:40])
def test_errors_and_warnings_fit_the_terminal_too(expected: int, arguments: tuple[str, ...]) -> None:
    for columns, (code, screen) in zip(WIDTHS, on_terminals(arguments, WIDTHS, errors=True), strict=True):
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "\n")
        assert code == expected, plain
        lines = plain.splitlines()
        assert max(map(len, lines)) <= columns
        assert len({line for line in lines if line.startswith(("dpcalc:", "warning:"))}) <= 2, "said once"
        if expected == 2:
            assert plain.startswith("dpcalc: ")
            assert all(line.startswith(" " * 8) for line in plain.splitlines()[1:] if line.strip())


@pytest.mark.parametrize("width", [60, 80])
def test_no_path_makes_a_line_of_a_message_too_wide(width: int) -> None:
    """On a terminal it is broken after its slashes, or anywhere if there are none; nothing of it is lost."""
    for path in ("/".join(["some", "folder"] * 12) + "/spec.yaml", "x" * 150 + ".yaml"):
        code, shown = on_a_terminal(("compose", path), width, errors=True)
        lines = shown.splitlines()
        assert code == 2
        assert max(map(len, lines)) <= width
        assert path in "".join(line.strip() for line in lines)
