"""Where entries are kept: the same few tables and queries for SQLite and PostgreSQL, and what each does its own way."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dpcalc.errors import CertificationError, InputError
from dpcalc.ledger.chain import Entry

# The layout that this dpcalc writes. A ledger with a larger number was written by a newer one and is left alone.
LAYOUT = 1

TABLES = (
    "CREATE TABLE dpcalc_ledger (id TEXT PRIMARY KEY, layout INTEGER NOT NULL)",
    """CREATE TABLE dpcalc_entries (
        number BIGINT PRIMARY KEY, kind TEXT NOT NULL, budget TEXT NOT NULL, key TEXT UNIQUE, voids BIGINT UNIQUE,
        digest TEXT, at TEXT NOT NULL, who TEXT NOT NULL, body TEXT NOT NULL,
        previous TEXT NOT NULL UNIQUE, hash TEXT NOT NULL UNIQUE)""",
    """CREATE TABLE dpcalc_charges (
        budget TEXT NOT NULL, entry BIGINT NOT NULL REFERENCES dpcalc_entries (number), share DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (budget, entry))""",
)
NAMES = ("dpcalc_ledger", "dpcalc_entries", "dpcalc_charges")


class StorageError(CertificationError):
    """The ledger cannot be read or written now; nothing was half-written (exit code 3)."""


class Charge(NamedTuple):
    """That an entry moved a budget's totals, and by how much of its limit."""

    budget: str
    share: float


class Row(NamedTuple):
    """An entry with what it is looked up by."""

    entry: Entry
    kind: str
    budget: str
    at: str
    who: str = ""
    key: str | None = None
    digest: str | None = None
    voids: int | None = None
    charges: tuple[Charge, ...] = ()


class Situation(NamedTuple):
    """The last entry, the spend that has the key in question, and the totals of some budgets as they were stored."""

    last: Row | None
    keyed: Row | None
    totals: dict[str, dict[str, list[str]]]


class Store(ABC):
    """One ledger's storage. `shown` is its name without any password."""

    shown: str

    # -- what each backend does its own way ---------------------------------------------------------------------------

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; `?` stands for a value. Errors of the driver become StorageError."""

    @abstractmethod
    def run(self, query: str, values: Sequence[Any] = ()) -> None:
        """A statement that gives no rows; its errors may come with a later one of the same transaction."""

    @abstractmethod
    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows one by one."""

    @abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[None]:
        """A transaction that no other writer is in: on the disk when the block has ended, undone if it raises.

        It waits a bounded time for its turn.
        """

    @abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A view of one moment."""

    @abstractmethod
    def faults(self) -> list[str]:
        """What the database's own checks find, and the guards against changes that are missing."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    # -- what they share ----------------------------------------------------------------------------------------------

    def check_layout(self) -> str:
        """The ledger's identifier; raises if a newer dpcalc wrote it."""
        rows = self.execute("SELECT id, layout FROM dpcalc_ledger")
        if len(rows) != 1 or type(rows[0][1]) is not int:
            raise InputError("is not a dpcalc ledger", where=self.shown)
        identifier, layout = rows[0]
        if layout > LAYOUT:
            raise StorageError(
                f"was written by a newer dpcalc (layout {layout}, this one knows {LAYOUT}); update dpcalc",
                where=self.shown,
            )
        return str(identifier)

    def situation(self, key: str | None, budgets: Sequence[str]) -> Situation:
        """What a decision depends on, in one query: the last entry, the one with a key, the last of each budget."""
        numbers = " UNION ALL ".join((_LAST, _KEYED, *([_LAST_OF_BUDGET] * len(budgets))))
        found = self.execute(f"SELECT {_ROW} FROM dpcalc_entries WHERE number IN ({numbers})", (key, *budgets))
        rows = sorted(map(_row, found), key=lambda row: row.entry.number)
        totals: dict[str, Any] = {}
        for row in rows:
            totals.update(row.entry.content.get("totals", {}))
        keyed = next((row for row in rows if key is not None and row.key == key), None)
        return Situation(rows[-1] if rows else None, keyed, {name: totals[name] for name in budgets if name in totals})

    def head(self) -> tuple[int, str]:
        """Number and hash of the last entry."""
        rows = self.execute("SELECT number, hash FROM dpcalc_entries ORDER BY number DESC LIMIT 1")
        return rows[0] if rows else (0, self.check_layout())

    def append(self, row: Row) -> None:
        """Add an entry at the end."""
        entry = row.entry
        self.run(
            "INSERT INTO dpcalc_entries (number, kind, budget, key, voids, digest, at, who, body, previous, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(entry.number, row.kind, row.budget, row.key, row.voids, row.digest, row.at, row.who),
                *(entry.body, entry.previous, entry.hash),
            ),
        )
        if row.charges:
            marks = ", ".join(["(?, ?, ?)"] * len(row.charges))
            values = [value for charge in row.charges for value in (charge.budget, entry.number, charge.share)]
            self.run(f"INSERT INTO dpcalc_charges (budget, entry, share) VALUES {marks}", values)

    def find(self, key: str) -> Row | None:
        """The spend with a key."""
        rows = self.execute(f"SELECT {_ROW} FROM dpcalc_entries WHERE key = ?", (key,))
        return _row(rows[0]) if rows else None

    def void_of(self, number: int) -> Row | None:
        """The entry that voids a spend."""
        rows = self.execute(f"SELECT {_ROW} FROM dpcalc_entries WHERE voids = ?", (number,))
        return _row(rows[0]) if rows else None

    def budgets(self) -> list[Row]:
        """The entries that made budgets."""
        query = f"SELECT {_ROW} FROM dpcalc_entries WHERE key IS NULL AND kind = 'budget' ORDER BY number"
        return [_row(found) for found in self.execute(query)]

    def rows(self, budget: str | None = None) -> Iterator[Row]:
        """All entries in order, or those of a budget and of what is charged to it."""
        some = "" if budget is None else f"WHERE budget = ? OR number IN ({_OF_BUDGET})"
        query = f"SELECT {_ROW} FROM dpcalc_entries {some} ORDER BY number"
        for found in self.stream(query, () if budget is None else (budget, budget)):
            yield _row(found)

    def last(self, budget: str, count: int) -> list[Row]:
        """The last so many entries that moved a budget's totals, the newest first."""
        query = f"SELECT {_ROW} FROM dpcalc_entries WHERE number IN ({_OF_BUDGET} ORDER BY entry DESC LIMIT ?)"
        return [_row(found) for found in self.execute(f"{query} ORDER BY number DESC", (budget, count))]

    def moved(self) -> dict[int, set[str]]:
        """Which budgets each entry is looked up for."""
        found: dict[int, set[str]] = {}
        for entry, budget in self.stream("SELECT entry, budget FROM dpcalc_charges"):
            found.setdefault(entry, set()).add(budget)
        return found

    def shares(self, budget: str, entries: Sequence[int]) -> dict[int, float]:
        """How much of a budget's limit each of some entries took."""
        marks = ", ".join("?" * len(entries))
        query = f"SELECT entry, share FROM dpcalc_charges WHERE budget = ? AND entry IN ({marks})"
        return dict(self.execute(query, (budget, *entries))) if entries else {}

    def spending(self, budget: str, by: str) -> list[tuple[str, float, int]]:
        """Σ share and number of entries of a budget by `month` or by `who`."""
        column = {"month": "substr(at, 1, 7)", "who": "who"}[by]
        return self.execute(
            f"SELECT {column} AS word, SUM(share), COUNT(*) FROM dpcalc_charges "
            "JOIN dpcalc_entries ON number = entry WHERE dpcalc_charges.budget = ? GROUP BY word ORDER BY word",
            (budget,),
        )

    def first_time(self, budget: str) -> str | None:
        """When a budget was first charged."""
        rows = self.execute(
            "SELECT at FROM dpcalc_entries WHERE number = (SELECT MIN(entry) FROM dpcalc_charges WHERE budget = ?)",
            (budget,),
        )
        return rows[0][0] if rows else None

    def different(self, budget: str, most: int) -> list[tuple[int, int]]:
        """One entry of each different spec that is charged to a budget and not void, and how many have it."""
        return self.execute(
            "SELECT MIN(number), COUNT(*) FROM dpcalc_charges JOIN dpcalc_entries e ON e.number = entry "
            "WHERE dpcalc_charges.budget = ? AND kind = 'spend' "
            "AND NOT EXISTS (SELECT 1 FROM dpcalc_entries v WHERE v.voids = e.number) GROUP BY digest LIMIT ?",
            (budget, most + 1),
        )

    def entry(self, number: int) -> Entry:
        """The entry with a number."""
        ((*found,),) = self.execute(
            "SELECT number, body, previous, hash FROM dpcalc_entries WHERE number = ?", (number,)
        )
        return Entry(*found)


@contextlib.contextmanager
def closed_if_it_fails(store: Store) -> Iterator[None]:
    """A block that sets up an open storage; nobody else could close it if that fails."""
    try:
        yield
    except BaseException:
        store.close()
        raise


_LAST = "SELECT MAX(number) FROM dpcalc_entries"
_KEYED = "SELECT number FROM dpcalc_entries WHERE key = ?"
_LAST_OF_BUDGET = "SELECT MAX(entry) FROM dpcalc_charges WHERE budget = ?"
_OF_BUDGET = "SELECT entry FROM dpcalc_charges WHERE budget = ?"
_ROW = "number, body, previous, hash, kind, budget, at, who, key, digest, voids"


def _row(found: tuple[Any, ...]) -> Row:
    return Row(Entry(*found[:4]), *found[4:])
