"""What a command does not need it does not load, and how many threads it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LOADED = """
import json, os, sys
from dpcalc.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as done:
    assert not done.code, done.code
heavy = [name for name in ("numpy", "scipy", "rich", "yaml") if name in sys.modules]
mechanisms = sorted(name.split(".")[2] for name in sys.modules if name.startswith("dpcalc.mechanisms."))
threads = os.environ.get("OPENBLAS_NUM_THREADS")
print(json.dumps({"heavy": heavy, "mechanisms": mechanisms, "threads": threads}), file=sys.stderr)
"""


def run(*arguments: str, **settings: str) -> tuple[str, dict[str, object]]:
    environment = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, **settings},
    )
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "--gdp", "0.8", "--delta", "1e-7"),
        ("convert", "--gdp", "0.8", "--epsilon", "2.5", "-f", "json"),
        ("convert", "--dp", "1.3", "--delta", "1e-4"),
        ("convert", "--dp", "0.4,1e-9", "--epsilon", "0.2", "--group", "3", "--prior", "0.1"),
        ("--help",),
    ],
)
def test_single_numbers_are_converted_without_arrays(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[1]["heavy"] == []


def test_conversions_of_renyi_curves_need_no_scipy() -> None:
    assert run("convert", "--zcdp", "0.3", "--delta", "1e-6")[1]["heavy"] == ["numpy"]


def test_only_mechanisms_that_an_entry_names_are_loaded() -> None:
    plain = run("compose", "-m", "gaussian,noise_multiplier=5", "--delta", "1e-7")[1]
    assert plain["mechanisms"] == ["base", "gaussian", "validation"]
    sampled = run("compose", "-m", "laplace,scale=9,sensitivity=1,sampling=poisson,rate=0.03", "--delta", "1e-7")[1]
    assert sampled["mechanisms"] == ["base", "laplace", "sampled", "validation"]


def taken(*arguments: str) -> int:
    """How many pages a process asks the system for."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_minflt


def test_scipy_is_imported_where_frames_do_not_take_and_give_back_blocks() -> None:
    """Pages that are cleared took a fifth of the whole call: 1.9 times as many as the imports alone, now 1.2."""
    command = ("-m", "gaussian,noise_multiplier=3,sampling=poisson,rate=0.01,count=500", "--delta", "1e-6")
    ours = min(taken("-m", "dpcalc", "compose", *command) for _ in range(2))
    assert ours < 1.5 * taken("-c", "import typer, yaml, scipy.special")


def test_accounting_takes_one_thread_unless_somebody_says_otherwise() -> None:
    command = ("compose", "-m", "gaussian,noise_multiplier=4", "--delta", "1e-6")
    assert run(*command)[1]["threads"] == "1"
    assert run(*command, OPENBLAS_NUM_THREADS="2")[1]["threads"] == "2"
    assert run(*command, OMP_NUM_THREADS="2")[1]["threads"] is None
    # On a busy machine two threads wait for each other: 100 s of processor time for 5 s of training.
    assert run("train", "--help")[1]["threads"] == "1"
    assert run("train", "--data", "large.npz", "--help")[1]["threads"] is None


@pytest.mark.parametrize("question", [("--delta", "3e-8"), ("--epsilon", "1.75")])
def test_one_statement_has_one_answer_in_convert_and_compose(question: tuple[str, str]) -> None:
    converted, composed = (
        json.loads(run(*command, *question, "-f", "json")[0])
        for command in (("convert", "--gdp", "0.55"), ("compose", "-m", "gdp,mu=0.55"))
    )
    for field in ("epsilon", "delta", "epsilon_lower", "delta_lower", "mu", "mu_kind", "accountant", "theorem", "risk"):
        assert converted[field] == composed[field], field
