"""A ledger in one file: SQLite in WAL mode, one writer at a time, every commit on the disk before it counts."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpcalc.errors import InputError
from dpcalc.files import PRIVATE
from dpcalc.ledger.store import LAYOUT, NAMES, TABLES, StorageError, Store, closed_if_it_fails

_APPLICATION = 0x64706C67  # "dplg"
_PATIENCE = 30.0
_GUARDS = {
    f"{name}_no_{action.lower()}": f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name} "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    for name in NAMES
    for action in ("UPDATE", "DELETE")
}


class Sqlite(Store):
    """A ledger file. It is created readable by its owner alone."""

    def __init__(self, path: str, *, write: bool, create: str | None = None, patience: float = _PATIENCE) -> None:
        self.shown = path
        self._patience = patience
        exists = Path(path).exists()
        if not exists and create is None:
            raise InputError("there is no such ledger; dpcalc ledger init makes one", where=path)
        if exists and not Path(path).is_file():
            raise InputError("is not a file", where=path)
        if write and exists and not Path(path).stat().st_mode & 0o222:
            raise StorageError("is read-only", where=path)
        with self._told():
            if not exists:
                self._create(path)
            self._connection = self._connect(path, write)
        with closed_if_it_fails(self):
            self._set_up(write, create)

    def _set_up(self, write: bool, create: str | None) -> None:
        ((application,),) = self.execute("PRAGMA application_id")
        ((layout,),) = self.execute("PRAGMA user_version")
        if application != _APPLICATION:
            if create is None or application != 0 or not self._is_empty():
                raise InputError("is not a dpcalc ledger", where=self.shown)
            self._lay_out(create)
        elif layout > LAYOUT:
            self.check_layout()
        if write:
            self.execute("PRAGMA synchronous = FULL")

    @staticmethod
    def _create(path: str) -> None:
        with contextlib.suppress(FileExistsError):  # somebody else makes it just now
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))

    def _connect(self, path: str, write: bool) -> sqlite3.Connection:
        """Without permission to write, and with nothing beside the file to be replayed, it is read as it stands."""
        address = f"file:{quote(str(Path(path).absolute()))}"
        settings: dict[str, Any] = {"uri": True, "timeout": self._patience, "isolation_level": None}
        if write:
            return sqlite3.Connection(f"{address}?mode=rw", **settings)
        connection = sqlite3.Connection(f"{address}?mode=ro", **settings)
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            if Path(f"{path}-wal").exists():
                raise
            connection.close()
            connection = sqlite3.Connection(f"{address}?mode=ro&immutable=1", **settings)
        return connection

    def _is_empty(self) -> bool:
        return not self.execute("SELECT 1 FROM sqlite_master LIMIT 1")

    def _lay_out(self, identifier: str) -> None:
        """The tables and their guards, all at once; whoever comes second finds them there."""
        self.execute("PRAGMA journal_mode = WAL")
        with self.writing():
            if not self._is_empty():
                return
            for table in TABLES:
                self.execute(table)
            for guard in _GUARDS.values():
                self.execute(guard)
            self.execute("INSERT INTO dpcalc_ledger (id, layout) VALUES (?, ?)", (identifier, LAYOUT))
            self.execute(f"PRAGMA application_id = {_APPLICATION}")
            self.execute(f"PRAGMA user_version = {LAYOUT}")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """The driver's errors in one line of ours."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise StorageError(f"refused the entry: {error}", where=self.shown) from None
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                text = f"others were writing for {self._patience:g} s; nothing was written, try again"
            raise StorageError(text, where=self.shown) from None
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                raise InputError("is not a dpcalc ledger", where=self.shown) from None
            raise StorageError(str(error), where=self.shown) from None

    def execute(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._told():
            return self._connection.execute(query, values).fetchall()

    def run(self, query: str, values: Sequence[Any] = ()) -> None:
        self.execute(query, values)

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with self._told():
            yield from self._connection.execute(query, values)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        self.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def faults(self) -> list[str]:
        found = [str(line) for (line,) in self.execute("PRAGMA integrity_check") if line != "ok"]
        found += [f"foreign key: {row}" for row in self.execute("PRAGMA foreign_key_check")]
        triggers = dict(self.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        found += [
            f"the guard {name} against changes is missing or was changed"
            for name, guard in _GUARDS.items()
            if triggers.get(name) != guard
        ]
        return found + [f"the trigger {name} is none of ours" for name in triggers if name not in _GUARDS]

    def close(self) -> None:
        self._connection.close()
