"""What the tests share: the command line in this process, and as a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import resources
from typing import Any

# One thread for linear algebra: the workers of pytest share the processors already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import jsonschema
import pytest

# The same examples every time where a verdict depends on it; fresh ones on a developer's machine.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

SCHEMA = json.loads((resources.files("dpcalc") / "schema" / "dpcalc-1.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With `-n`, tests of a file run in one process, which shares what they keep; whoever is done helps the others."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object that was printed, after checking it against the schema."""
        document = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        VALIDATOR.validate(document)
        return document


@pytest.fixture
def dpcalc(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run `dpcalc ARGUMENTS…` in this process; `stdin` is what a pipe would hand it."""
    from dpcalc.cli.main import main

    def run(*arguments: object, stdin: str | None = None) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        if stdin is not None:
            binary = io.BytesIO(stdin.encode())
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(binary, encoding="utf-8"))
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ending:
            main([str(argument) for argument in arguments])
        assert "Traceback" not in err.getvalue()
        return Outcome(int(ending.value.code or 0), out.getvalue(), err.getvalue())

    return run


class Erring:
    """A library some of whose functions err by so much of their results."""

    def __init__(self, library: Any, errors: dict[str, float]) -> None:
        self._library, self._errors = library, errors

    def __getattr__(self, name: str) -> Any:
        function, error = getattr(self._library, name), self._errors.get(name)
        return function if error is None else lambda *given, **more: function(*given, **more) * (1 + error)


@pytest.fixture
def erring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let functions that a module imports (`library="math"`), or that it holds itself, err by so much of their results.

    Whatever is within the error that the code allows such a function must not make a bound false.
    """

    def plant(module: Any, library: str | None = None, **errors: float) -> None:
        if library is not None:
            monkeypatch.setattr(module, library, Erring(getattr(module, library), errors))
        else:
            for name, error in errors.items():
                monkeypatch.setattr(module, name, getattr(Erring(module, {name: error}), name))

    return plant


@pytest.fixture
def dpcalc_process() -> Callable[..., Outcome]:
    """Run `python -m dpcalc ARGUMENTS…` as a process of its own."""

    def run(*arguments: object, **settings: Any) -> Outcome:
        command = [sys.executable, "-m", "dpcalc", *(str(argument) for argument in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **settings)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
