"""What holds for every command: formats, files, limits, exit codes, terminals and pipes."""

from __future__ import annotations

import csv
import io
import os
import pty
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.commands import COMMANDS
from dpcalc.numbers import parse_number
from dpcalc.report import beside_a_budget, percents, upper_against

GDP = ("convert", "--gdp", "1.2", "--delta", "1e-5")


@pytest.mark.parametrize("name", [name for name in COMMANDS if " " not in name])
def test_every_help_ends_with_an_example_that_runs(dpcalc, name, monkeypatch, tmp_path) -> None:
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    monkeypatch.chdir(tmp_path)
    result = dpcalc(name, "--help")
    assert result.code == 0
    shown = result.out[result.out.rindex("Example:") :].replace("\\\n", " ")
    example = " ".join(shown.split()).removeprefix("Example: ")
    assert example.startswith(f"dpcalc {name}")
    run = dpcalc(*example.split()[1:])
    assert run.code == 0, run.err
    assert run.out or list(tmp_path.glob("report.html"))


def test_formats_tell_the_same_numbers(dpcalc) -> None:
    document = dpcalc(*GDP, "-f", "json").json
    (row,) = csv.DictReader(io.StringIO(dpcalc(*GDP, "-f", "csv").out))
    assert float(row["epsilon"]) == document["epsilon"]
    first = "ε = 5.414 at δ = 1e-5"
    for format in ("table", "markdown", "github", "junit"):
        assert first in dpcalc(*GDP, "--format", format).out, format


def test_what_sums_were_allowed_for_their_rounding_is_told_apart_from_a_budget() -> None:
    told = [
        beside_a_budget(value) for value in (1.00000000000025, 2.000000000004, 1.0000001, 2.0, 0.1 + 0.2, 0.0, None)
    ]
    assert told == ["1 + 3e-13", "2 + 4e-12", "1.001", "2", "0.3", "0", "–"]
    assert upper_against(1.00000000000025, 1.0) == "1 + 3e-13"
    assert upper_against(1.00000000000025, 1.2) == "1 + 3e-13"


def test_shares_add_up_to_a_hundred_unless_equal_ones_would_differ() -> None:
    assert percents([1 / 3, 1 / 3, 1 / 3]) == ["33 %", "33 %", "33 %"]
    assert percents([0.912, 0.046, 0.023, 0.019]) == ["91 %", "5 %", "2 %", "2 %"]
    assert percents([0.996, 0.004]) == ["99 %", "< 1 %"]


def test_displayed_upper_bounds_are_rounded_up(dpcalc) -> None:
    # ε = 5.413485984… is printed as 5.414, never as 5.413.
    assert dpcalc(*GDP).out.splitlines()[0] == "ε = 5.414 at δ = 1e-5, exactly (1.2-GDP)"


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0000001, "1.001", "1.000"),
        (1.9993, "2.000", "1.999"),
        (2.0, "2", "2"),
        (2.000000000004, "2.001", "2.000"),
        (0.1 + 0.2, "0.3", "0.3"),
        (9.99961, "10.00", "9.999"),
        (0.99996, "1.000", "0.9999"),
        (123456789.0, "1.235e8", "1.234e8"),
        (1.23e-7, "1.23e-7", "1.23e-7"),
        (1e-6, "1e-6", "1e-6"),
        (0.0, "0", "0"),
        (float("inf"), "∞", "∞"),
        (None, "–", "–"),
    ],
)
def test_numbers_are_rounded_to_the_side_that_they_bound(value, up, down) -> None:
    from dpcalc.report import rounded_down, rounded_up

    assert (rounded_up(value), rounded_down(value)) == (up, down)


@given(st.floats(1e-12, 1e12), st.integers(1, 12))
def test_rounding_never_passes_the_value(value: float, digits: int) -> None:
    from dpcalc.report import rounded_down, rounded_up

    above, below = Decimal(rounded_up(value, digits)), Decimal(rounded_down(value, digits))
    assert below * (1 - Decimal("1e-14")) <= Decimal(value) <= above * (1 + Decimal("1e-14"))
    assert above - below <= 2 * Decimal(value).scaleb(1 - digits)


@given(st.floats(1e-3, 1e3), st.floats(-1e-9, 1e-9))
def test_what_is_shown_is_on_the_side_of_the_limit_that_it_was_judged_to_be(limit: float, apart: float) -> None:
    from dpcalc.guarantee import exceeds
    from dpcalc.report import upper_against

    value = limit * (1 + apart)
    shown = sum(map(Decimal, upper_against(value, limit).split(" + ")), Decimal(0))
    if exceeds(value, limit):
        assert shown > Decimal(repr(limit))
    else:
        assert shown <= Decimal(repr(limit)) or shown <= Decimal(value) * (1 + Decimal("1e-15"))


def test_output_file_is_written_and_the_screen_stays_empty(dpcalc, tmp_path) -> None:
    target = tmp_path / "result.json"
    result = dpcalc(*GDP, "-f", "json", "-o", target)
    assert (result.code, result.out) == (0, "")
    assert '"schema": "dpcalc/1"' in target.read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_output_to_a_missing_folder_is_exit_2(dpcalc, tmp_path) -> None:
    result = dpcalc(*GDP, "-o", tmp_path / "nowhere" / "result.json")
    assert result.code == 2
    assert "nowhere" in result.err


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        (("--max-epsilon", "5.4135"), 0),
        (("--max-epsilon", "5.4134"), 1),
        (("--max-mu", "1.2"), 0),
        (("--max-mu", "1.19"), 1),
        (("--max-rho", "0.72"), 0),
        (("--max-rho", "0.7"), 1),
        (("--max-delta", "1e-5"), 0),
        (("--max-delta", "1e-6"), 1),
    ],
)
def test_over_budget_is_exit_1_and_the_result_is_still_printed(dpcalc, limit, code) -> None:
    result = dpcalc(*GDP, *limit, "-f", "json")
    assert result.code == code
    assert result.json["budget"]["within"] is (code == 0)
    assert ("over budget" in result.err) is (code == 1)


def test_a_quantity_that_is_not_known_is_not_within_budget(dpcalc) -> None:
    result = dpcalc("convert", "--zcdp", "0.1", "--delta", "1e-5", "--max-mu", "10")
    assert result.code == 3
    assert "OVER" not in result.out
    assert "mu is not known for this result, so its limit 10 is not shown to hold" in result.err


def test_a_limit_on_epsilon_needs_a_delta(dpcalc) -> None:
    result = dpcalc("convert", "--gdp", "1", "--max-epsilon", "4")
    assert (result.code, result.out) == (2, "")
    assert "--max-epsilon" in result.err


def test_without_limits_the_budget_is_null(dpcalc) -> None:
    assert dpcalc(*GDP, "-f", "json").json["budget"] is None


def test_infinity_is_a_string() -> None:
    from dpcalc.report import plain

    assert plain({"epsilon": float("inf")}) == {"epsilon": "inf"}
    with pytest.raises(ValueError, match="NaN"):
        plain([float("nan")])


@pytest.mark.parametrize(("text", "value"), [("1e-5", 1e-5), ("256/60000", 256 / 60000), ("3", 3.0), ("1e1/4", 2.5)])
def test_numbers_as_people_write_them(text, value) -> None:
    assert parse_number(text) == value


def test_unknown_commands_suggest_the_nearest(dpcalc) -> None:
    result = dpcalc("conver")
    assert result.code == 2
    assert "did you mean convert?" in result.err


def test_no_command_shows_the_help_and_is_exit_2(dpcalc) -> None:
    result = dpcalc()
    assert result.code == 2
    assert "compose" in result.err
    assert "a command is needed" in result.err


def test_version(dpcalc) -> None:
    from dpcalc import __version__

    assert dpcalc("--version").out == f"dpcalc {__version__}\n"


def test_a_pipe_gets_no_colour_and_nothing_cut(dpcalc_process) -> None:
    result = dpcalc_process(*GDP, env={**os.environ, "COLUMNS": "20"})
    assert "\x1b" not in result.out
    assert "0.72-zCDP; RDP 1.44 at order 2, 5.76 at 8, 46.08 at 64\n" in result.out


@pytest.mark.parametrize("no_colour", [False, True])
def test_a_terminal_gets_its_width_and_no_color_is_obeyed(no_colour) -> None:
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm-256color"}
    if no_colour:
        environment["NO_COLOR"] = "1"
    main, other = pty.openpty()
    command = [sys.executable, "-m", "dpcalc", *GDP]
    with subprocess.Popen(command, stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        chunks = []
        while True:
            try:
                chunk = os.read(main, 4096)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        process.wait(timeout=600)
    os.close(main)
    text = b"".join(chunks).decode()
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in text.splitlines()) <= 60
    if no_colour:
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text)


@pytest.mark.parametrize(
    ("command", "typed", "answer"),
    [
        (("compose", "-", "--delta", "1e-5"), "mechanisms: [{type: gdp, mu: 1}]\n", "ε = 4.378 at δ = 1e-5"),
        (("filter", "-", "--filter", "gdp", "--scope", "global", "--mu", "1"), "mu\n0.6\n", "the only step fits μ = 1"),
    ],
)
def test_who_types_is_told_so_and_ends_it_once(command, typed: str, answer: str) -> None:
    main, other = pty.openpty()
    os.write(main, typed.encode() + b"\x04")
    asked = [sys.executable, "-m", "dpcalc", *command]
    done = subprocess.run(asked, stdin=other, capture_output=True, text=True, timeout=600, check=True)
    os.close(other)
    os.close(main)
    assert "reading standard input from the terminal; Ctrl-D ends it" in done.stderr
    assert done.stdout.startswith(answer)


def test_ctrl_c_is_exit_130_without_a_traceback() -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job starts with it ignored
        "import dpcalc.accounting.implied as implied\n"
        "def wait(*_, **__):\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
        "implied.convert = wait\n"
        "from dpcalc.cli.main import main\n"
        "main(['convert', '--gdp', '1'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_leaves_early_is_no_error() -> None:
    line = f"{sys.executable} -m dpcalc {' '.join(GDP)} -f json | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout == "{\n"


def test_an_unexpected_error_is_two_lines_and_exit_3(dpcalc, monkeypatch) -> None:
    from dpcalc.accounting import implied

    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.delenv("DPCALC_DEBUG", raising=False)
    monkeypatch.setattr(implied, "convert", broken)
    result = dpcalc("convert", "--gdp", "1")
    assert result.code == 3
    assert "internal error" in result.err
    assert len(result.err.splitlines()) == 2


def test_shell_completion_knows_commands_and_options() -> None:
    def complete(words: str) -> str:
        environment = {**os.environ, "_DPCALC_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - (0 if words.endswith(" ") else 1))
        command = [sys.executable, "-m", "dpcalc"]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout

    assert set(complete("dpcalc ").split()) == {name for name in COMMANDS if " " not in name}
    assert "convert" in complete("dpcalc conv")
    assert "--gdp" in complete("dpcalc convert --g")
    assert "markdown" in complete("dpcalc convert --format ")


def test_import_dpcalc_loads_no_numerical_library() -> None:
    code = "import sys, dpcalc; print(sorted({'numpy', 'scipy', 'typer', 'rich', 'yaml'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_can_be_had() -> None:
    import dpcalc

    for name in dpcalc.__all__:
        assert getattr(dpcalc, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dpcalc.nonsense


def test_csv_has_the_breakdown_of_every_command(dpcalc) -> None:
    def rows(*arguments: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(dpcalc(*arguments, "-f", "csv").out)))

    answer, *bounds = rows("exp-mech", "--lipschitz", "1", "--strong-convexity", "4", "--delta", "1e-5")
    assert answer["name"] == "answer"
    assert answer["epsilon"] == min(bounds, key=lambda row: float(row["epsilon"]))["epsilon"]
    answer, *entries = rows("report", "examples/mixed-release.yaml")
    assert [row["name"] for row in entries] == ["yearly counts", "histogram", "most common diagnosis", "model"]
    assert sum(float(row["share"]) for row in entries) == pytest.approx(1)
    norms = ("filter", "examples/filter-norms.csv", "--filter", "gdp", "--sigma", "4", "--mu", "1", "--delta", "1e-5")
    (answer,) = rows(*norms)
    assert answer["dropped_records"] == "8"


def test_a_person_is_told_the_answer_and_which_file_has_the_rest(dpcalc, tmp_path, monkeypatch) -> None:
    """A script is not: nothing is said on a pipe."""
    asked = ("convert", "--gdp", "1", "--delta", "1e-5", "-o", str(tmp_path / "x.json"))
    assert dpcalc(*asked).err == ""
    monkeypatch.setattr("dpcalc.cli.output._is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert dpcalc(*asked).err == f"{tmp_path / 'x.json'}: ε = 4.378 at δ = 1e-5, exactly (1-GDP)\n"
    over = dpcalc(*asked, "--max-epsilon", "4")
    assert (over.code, over.err.count("4.378"), over.err.count("OVER")) == (1, 1, 1)
