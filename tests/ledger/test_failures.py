"""Disk full, read-only, cut off, clocks and versions: nothing half-written, one line, exit code 3."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dpcalc.errors import InputError
from dpcalc.ledger import records as module
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.postgres import without_password
from dpcalc.ledger.sqlite import Sqlite
from dpcalc.ledger.store import LAYOUT, StorageError
from dpcalc.ledger.verify import verify
from dpcalc.mechanisms.declared import DeclaredGDP


@pytest.fixture
def file(tmp_path) -> str:
    place = str(tmp_path / "team.db")
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        ledger.spend("census", DeclaredGDP(mu=0.1), key="first")
    return place


def run(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpcalc", "ledger", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **settings)


def still_sound(place: str, entries: int = 2) -> None:
    with Ledger.open(place, write=False) as ledger:
        audit = verify(ledger)
    assert (audit.exit_code, audit.entries) == (0, entries)


def test_the_file_and_what_stands_beside_it_are_private(tmp_path) -> None:
    before = os.umask(0)
    try:
        with Ledger.open(str(tmp_path / "team.db"), create=True) as ledger:
            ledger.add_budget(open_terms("census", mu=1.0))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"team.db": 0o600, "team.db-wal": 0o600, "team.db-shm": 0o600}


def test_a_file_marked_read_only_is_read_but_not_written(file) -> None:
    Path(file).chmod(0o444)
    done = run("spend", file, "census", "-m", "gdp,mu=0.1", "--key", "second")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "read-only" in done.stderr
    assert run("status", file, "census").returncode == 0
    still_sound(file)


def test_a_copy_that_nobody_can_write_beside_is_still_read(file, tmp_path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "team.db").write_bytes(Path(file).read_bytes())
    folder.chmod(0o555)
    try:
        still_sound(str(folder / "team.db"))
    finally:
        folder.chmod(0o755)


def test_a_full_disk_writes_nothing_and_is_exit_3(file) -> None:
    """A process that may not make any file grow, as on a full disk."""

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    wordy = ("--note", "x" * 60_000)
    done = run("spend", file, "census", "-m", "gdp,mu=0.1", "--key", "second", *wordy, preexec_fn=no_room)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 2
    still_sound(file)
    with Ledger.open(file) as ledger:
        assert ledger.spend("census", DeclaredGDP(mu=0.1), key="second").recorded
    still_sound(file, 3)


def test_a_database_that_may_not_grow_refuses_the_entry_whole(file) -> None:
    with Ledger.open(file) as ledger:
        (pages,) = ledger.store.execute("PRAGMA page_count")[0]
        ledger.store.execute(f"PRAGMA max_page_count = {pages}")
        note = "x" * 20_000
        with pytest.raises(StorageError, match="full"):
            ledger.spend("census", DeclaredGDP(mu=0.1), key="second", note=note)
        assert ledger.store.head()[0] == 2
    still_sound(file)


def test_waiting_for_others_is_bounded(file) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger = Ledger(Sqlite(file, write=True, patience=0.2))
    with pytest.raises(StorageError, match="others were writing"):
        ledger.spend("census", DeclaredGDP(mu=0.1), key="second")
    other.execute("ROLLBACK")
    assert ledger.spend("census", DeclaredGDP(mu=0.1), key="second").recorded
    ledger.close()
    other.close()


def test_a_newer_ledger_is_left_alone(file) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DROP TRIGGER dpcalc_ledger_no_update")
    connection.execute("UPDATE dpcalc_ledger SET layout = ?", (LAYOUT + 1,))
    connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    connection.commit()
    connection.close()
    for command in (("spend", file, "census", "-m", "gdp,mu=0.1"), ("status", file), ("verify", file)):
        done = run(*command)
        assert (done.returncode, done.stdout) == (3, "")
        assert "newer dpcalc" in done.stderr
        assert done.stderr.count("\n") == 2


def test_a_newer_ledger_on_postgres_is_left_alone(postgres_place) -> None:
    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        ledger.store.run("ALTER TABLE dpcalc_ledger DISABLE TRIGGER dpcalc_ledger_guard")
        ledger.store.run("UPDATE dpcalc_ledger SET layout = ?", (LAYOUT + 1,))
    for settings in ({}, {"write": False}, {"create": True}):
        with pytest.raises(StorageError, match="newer dpcalc"):
            Ledger.open(postgres_place, **settings)


def test_other_files_are_not_taken_for_ledgers(tmp_path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to have a header of a hundred bytes\n" * 9)
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE people (name TEXT)")
    database.commit()
    database.close()
    for name in ("text", "other.db"):
        before = (tmp_path / name).read_bytes()
        for settings in ({}, {"create": True}, {"write": False}):
            with pytest.raises(InputError, match="not a dpcalc ledger"):
                Ledger.open(str(tmp_path / name), **settings)
        assert (tmp_path / name).read_bytes() == before
    for settings in ({}, {"write": False}):
        with pytest.raises(InputError, match="no such ledger"):
            Ledger.open(str(tmp_path / "absent"), **settings)
    assert not (tmp_path / "absent").exists()


def test_time_never_runs_backwards_and_says_so(new_ledger, monkeypatch) -> None:
    ledger = new_ledger(mu=1.0)
    monkeypatch.setattr(module.time, "time", lambda: 2_000_000_000.0)
    ledger.spend("census", DeclaredGDP(mu=0.1), key="in 2033")
    monkeypatch.setattr(module.time, "time", lambda: 1_900_000_000.0)
    answer = ledger.spend("census", DeclaredGDP(mu=0.1), key="in 2030, by its clock")
    assert "behind the last entry" in answer.warnings[0]
    times = [row.at for row in ledger.store.rows()]
    assert times == sorted(times)
    assert verify(ledger).exit_code == 0


def test_a_connection_cut_in_the_middle_of_a_transaction_leaves_nothing(postgres_place, postgres_server) -> None:
    import psycopg

    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        append = ledger.store.append

        def cut(row) -> None:
            append(row)
            process = ledger.store._connection.info.backend_pid
            with psycopg.connect(postgres_server, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (process,))

        ledger.store.append = cut  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="whether it was recorded is not known: ask again with the key k"):
            ledger.spend("census", DeclaredGDP(mu=0.1), key="k")
    with Ledger.open(postgres_place) as ledger:
        assert ledger.store.head()[0] == 1
        assert ledger.spend("census", DeclaredGDP(mu=0.1), key="k").recorded
        assert verify(ledger).exit_code == 0


def test_writers_wait_for_each_other_on_postgres(postgres_place) -> None:
    """While one holds the lock the other does not read totals that are about to change."""
    with Ledger.open(postgres_place, create=True) as first, Ledger.open(postgres_place) as second:
        first.add_budget(open_terms("census", mu=1.0))
        outcome: list[bool] = []
        asked = threading.Event()

        def other() -> None:
            outcome.append(second.ask("census", DeclaredGDP(mu=0.1)).accepted)
            asked.set()
            second.spend("census", DeclaredGDP(mu=0.6), key="second")
            outcome.append(True)

        with first.store.writing():
            first.store.head()  # statements are sent without waiting: the lock is held once a read has been answered
            thread = threading.Thread(target=other)
            thread.start()
            assert asked.wait(30)
            thread.join(0.2)
            assert (thread.is_alive(), outcome) == (True, [True])
        thread.join(10)
        assert outcome == [True, True]


def test_a_server_that_answers_before_it_flushes_is_told_to_flush(postgres_place) -> None:
    with Ledger.open(f"{postgres_place}%20-csynchronous_commit%3Doff", create=True) as ledger:
        assert ledger.store.execute("SHOW synchronous_commit") == [("on",)]
    with Ledger.open(f"{postgres_place}%20-csynchronous_commit%3Dremote_apply") as ledger:
        assert ledger.store.execute("SHOW synchronous_commit") == [("remote_apply",)]


def test_a_server_that_never_flushes_is_read_but_not_written(postgres_place, postgres_server) -> None:
    import psycopg

    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
    with psycopg.connect(postgres_server, autocommit=True) as server:

        def flushing(state: str) -> None:
            server.execute(f"ALTER SYSTEM SET fsync = {state}")
            server.execute("SELECT pg_reload_conf()")
            while server.execute("SHOW fsync").fetchone() != (state,):
                time.sleep(0.01)

        flushing("off")
        try:
            with pytest.raises(StorageError, match="fsync off"):
                Ledger.open(postgres_place)
            Ledger.open(postgres_place, write=False).close()
        finally:
            flushing("on")


def test_without_permission_to_write_nobody_spends(postgres_place) -> None:
    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        (schema,) = ledger.store.execute("SELECT current_schema()")[0]
        role = f"reader_{schema}"
        ledger.store.run(f"CREATE ROLE {role} LOGIN PASSWORD 'hush-hush'")
        ledger.store.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        ledger.store.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    place = postgres_place.replace("postgres:@", f"{role}:hush-hush@", 1)
    assert place != postgres_place
    with Ledger.open(place, write=False) as ledger:
        assert not any(ledger.total("census"))
    with Ledger.open(place) as ledger, pytest.raises(StorageError, match="permission denied") as error:
        ledger.spend("census", DeclaredGDP(mu=0.1), key="k")
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:s3cret@db.example:5432/team", "postgresql://ann@db.example:5432/team"),
        ("postgresql://ann:p%40ss@db/team?sslmode=require", "postgresql://ann@db/team?sslmode=require"),
        ("postgresql://db/team?user=ann&password=s3cret", "postgresql://db/team?user=ann"),
        ("postgresql://db/team?sslpassword=s3cret", "postgresql://db/team"),
        ("postgresql://ann:s3/cr@et@db/team", "postgresql://ann@db/team"),
        ("postgresql://ann:s3?cret@db/team", "postgresql://…"),
        ("postgresql:///team?host=/tmp/x", "postgresql:///team?host=/tmp/x"),
    ],
)
def test_passwords_are_never_shown(address, shown) -> None:
    assert without_password(address)[0] == shown


def test_an_address_in_words_is_not_repeated(tmp_path) -> None:
    done = run("status", "host=db user=ann password=s3cret", cwd=tmp_path)
    assert done.returncode == 2
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("password", "command"),
    [
        ("s3cret", ("ledger", "status", "{}")),
        ("p%40ss%3Aword", ("ledger", "status", "{}")),
        ("s3cret", ("ledger", "spend", "{}", "census", "-m", "gdp,mu=0.1")),
        ("s3cret", ("report", "{}", "-o", "r.html")),
    ],
)
def test_errors_do_not_show_passwords(password, command, tmp_path) -> None:
    address = f"postgresql://ann:{password}@127.0.0.1:1/team"
    words = [sys.executable, "-m", "dpcalc", *(word.format(address) for word in command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert password not in done.stdout + done.stderr
    assert "p@ss" not in done.stdout + done.stderr
    assert "postgresql://ann@127.0.0.1:1/team" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "change",
    [
        "dpcalc_ledger SET layout = 'x'",
        "dpcalc_ledger SET id = CAST(x'93' AS TEXT)",
        "dpcalc_entries SET body = 'x'",
        "dpcalc_entries SET at = 7",
    ],
)
@pytest.mark.parametrize("words", ["status L", "log L", "export L", "spend L census -m gdp,mu=0.1"])
def test_a_cell_that_holds_something_else_is_told_in_a_line(file: str, change: str, words: str) -> None:
    with sqlite3.connect(file) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"UPDATE {change}")
    done = run(*words.replace("L", file).split())
    assert done.returncode in (0, 2, 3)
    assert "internal" not in done.stderr


def test_an_export_whose_first_line_names_no_ledger_is_told(file: str, tmp_path: Path) -> None:
    done = run("export", file)
    (tmp_path / "export").write_text(done.stdout.replace('"ledger":', '"other":', 1))
    done = run("import", str(tmp_path / "new.db"), str(tmp_path / "export"))
    assert (done.returncode, "internal" in done.stderr) == (2, False)
