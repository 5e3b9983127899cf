"""How much a database has to do: deciding takes as long in a long ledger as in a short one, a status looks once."""

from __future__ import annotations

import pytest

from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.standing import standing
from dpcalc.mechanisms.declared import DeclaredGDP

SPEND = DeclaredGDP(mu=1e-4)


def lengthened(ledger: Ledger, entries: int) -> None:
    """Put so many entries behind the last one, as they would look."""
    number, body = ledger.store.execute("SELECT number, body FROM dpcalc_entries ORDER BY number DESC LIMIT 1")[0]
    ledger.store.run(
        f"WITH RECURSIVE n(i) AS (SELECT {number + 1} UNION ALL SELECT i + 1 FROM n WHERE i < {number + entries}) "
        "INSERT INTO dpcalc_entries (number, kind, budget, key, digest, at, who, body, previous, hash) "
        "SELECT i, 'spend', 'census', 'k' || i, 'd', '2026-01-01T00:00:00Z', 'ann', ?, 'h' || i, 'g' || i "
        "FROM n",
        (body,),
    )
    ledger.store.run(
        f"INSERT INTO dpcalc_charges SELECT 'census', number, 1e-6 FROM dpcalc_entries WHERE number > {number}"
    )


@pytest.fixture
def file(tmp_path) -> str:
    place = str(tmp_path / "team.db")
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("census", epsilon=3, delta=1e-5, filter="gdp"))
        ledger.spend("census", SPEND, key="first")
    return place


def instructions(place: str, work) -> int:
    """How many instructions SQLite executes for some work with a ledger that was just opened."""
    with Ledger.open(place) as ledger:
        done = 0

        def count() -> int:
            nonlocal done
            done += 1
            return 0

        ledger.store._connection.set_progress_handler(count, 10)
        work(ledger)
        ledger.store._connection.set_progress_handler(None, 0)
    return 10 * done


def test_a_spend_costs_no_more_in_a_long_ledger(file) -> None:
    short = instructions(file, lambda ledger: ledger.spend("census", SPEND, key="second"))
    with Ledger.open(file) as ledger:
        lengthened(ledger, 20_000)
    long = instructions(file, lambda ledger: ledger.spend("census", SPEND, key="third"))
    assert long < 2 * short


def test_a_status_reads_every_entry_a_few_times_at_most(file) -> None:
    """Some 30 instructions of SQLite read a row and add it up; 10⁵ entries take a quarter of a second so."""
    with Ledger.open(file) as ledger:
        lengthened(ledger, 20_000)
    assert instructions(file, lambda ledger: standing(ledger, "census")) < 100 * 20_000


def test_postgres_finds_rows_by_their_indexes_though_it_planned_on_an_empty_table(postgres_place) -> None:
    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        for i in range(20):  # plans are made, and kept
            ledger.spend("census", SPEND, key=f"key {i}")
        lengthened(ledger, 2000)
        with ledger.store.writing():
            before = scans(ledger)
            ledger.store.situation("key 3", ["census"])
            ledger.store.budgets()
            after = scans(ledger)
        assert after[0] == before[0]
        assert after[1] > before[1]


def scans(ledger: Ledger) -> tuple[int, int]:
    """How often PostgreSQL has read the entries from end to end so far, and by an index."""
    query = "SELECT SUM(seq_scan), SUM(idx_scan) FROM pg_stat_xact_user_tables WHERE relname = 'dpcalc_entries'"
    ((sequential, indexed),) = ledger.store.execute(query)
    return int(sequential), int(indexed)
