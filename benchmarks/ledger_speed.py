"""How fast a ledger is beside what its disk and its database allow in the same run.

    python benchmarks/ledger_speed.py                # SQLite and a PostgreSQL of its own, one session and sixteen
    python benchmarks/ledger_speed.py --commands     # `ledger spend` beside a cold `compose`, `status` of 10⁵ entries

The bare insert is one row of the size of an entry, flushed before it counts. Both take turns every half second, in the
same processes on the same disk, so that whatever else the machine does hits them alike.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ledger import temporary_postgres

from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.mechanisms.gaussian import Gaussian

_FORK = multiprocessing.get_context("fork")
_TURN = 0.5
_BODY = "x" * 700
_ENTRIES = 100_000


def bare_insert(place: str) -> Callable[[], None]:
    """A durable insert of one row into the same database, with nothing decided."""
    if place.startswith("postgresql"):
        import psycopg

        session = psycopg.connect(place, autocommit=True)
        return lambda: session.execute("INSERT INTO bare (body) VALUES (%s)", (_BODY,)) and None
    connection = sqlite3.connect(place, timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return lambda: connection.execute("INSERT INTO bare (body) VALUES (?)", (_BODY,)) and None


def prepared(place: str) -> None:
    """A ledger with room for everything, and a bare table beside it."""
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("speed", mu=1e6))
        kind = "BIGSERIAL PRIMARY KEY" if place.startswith("postgresql") else "INTEGER PRIMARY KEY"
        ledger.store.run(f"CREATE TABLE bare (number {kind}, body TEXT NOT NULL)")


def take_turns(place: str, start: float, turns: int, done: multiprocessing.Queue[tuple[int, int]]) -> None:
    """Count bare inserts in even turns and spends in odd ones."""
    counts = [0, 0]
    mechanisms = [Gaussian(noise_multiplier=10.0 + i) for i in range(20)]
    with Ledger.open(place) as ledger:
        bare = bare_insert(place)
        time.sleep(max(0.0, start - time.time()))
        while (turn := int((time.time() - start) / _TURN)) < turns:
            if turn % 2:
                ledger.spend("speed", mechanisms[counts[1] % 20])
            else:
                bare()
            counts[turn % 2] += 1
    done.put((counts[0], counts[1]))


def measure(place: str, sessions: int, seconds: float) -> tuple[float, float]:
    """Bare inserts and spends a second of several sessions together."""
    turns = 2 * round(seconds / _TURN)
    done: multiprocessing.Queue[tuple[int, int]] = _FORK.Queue()
    start = time.time() + 1.0 + 0.1 * sessions
    workers = [_FORK.Process(target=take_turns, args=(place, start, turns, done)) for _ in range(sessions)]
    for worker in workers:
        worker.start()
    counts = [done.get() for _ in workers]
    for worker in workers:
        worker.join()
    bare, spends = (sum(column) / (turns / 2 * _TURN) for column in zip(*counts, strict=True))
    return bare, spends


def report(name: str, place: str, sessions: int, seconds: float) -> None:
    for each in (1, sessions):
        bare, spends = measure(place, each, seconds)
        print(
            f"{name}, {each:2} sessions: {spends:5.0f} spends/s beside {bare:5.0f} bare inserts/s: {spends / bare:.2f}"
        )


def processor_time(*command: str) -> float:
    """Of the fastest of five processes."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "dpcalc", *command], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found)


def commands(folder: Path) -> None:
    """Whole processes: `spend` beside `compose` of the same spec, and `status` of a long ledger."""
    examples = Path(__file__).parents[1] / "examples"
    for spec in ("dp-sgd.yaml", "mixed-release.yaml", "risk-model.yaml"):
        file = str(examples / spec)
        alone = processor_time("compose", file, "--delta", "1e-6")
        for limit in ("rdp", "gdp"):
            place = str(folder / f"{spec}-{limit}.db")
            with Ledger.open(place, create=True) as ledger:
                ledger.add_budget(open_terms("speed", epsilon=1e3, delta=1e-5, filter=limit))
            try:
                charged = processor_time("ledger", "spend", place, "speed", file)
            except subprocess.CalledProcessError:
                continue  # something in it has no μ
            print(f"spend {spec} ({limit}): {charged:.2f} s beside compose {alone:.2f} s: {charged / alone:.2f}")
    place = str(folder / "long.db")
    long_ledger(place)
    print(f"status of {_ENTRIES:,} entries: {processor_time('ledger', 'status', place, 'census'):.2f} s, whole process")


def long_ledger(place: str, entries: int = _ENTRIES) -> None:
    """A ledger with as many spends, all flushed at once."""
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        ledger.store.execute("PRAGMA synchronous = OFF")
        for i in range(entries):
            ledger.spend("census", Gaussian(noise_multiplier=1e4 + i % 20), key=f"key-{i}", by=f"person {i % 7}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each kind")
    parser.add_argument("--commands", action="store_true", help="whole processes instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.commands:
            commands(Path(folder))
            return 0
        place = str(Path(folder) / "team.db")
        prepared(place)
        report("SQLite", place, given.sessions, given.seconds)
    with temporary_postgres() as place:
        prepared(place)
        report("PostgreSQL", place, given.sessions, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
