"""A ledger in PostgreSQL, for several machines: writers take turns by a row lock and wait together for the disk.

A commit gives up the lock before it is flushed (asynchronous commit); the spend is answered only after a second, empty
transaction has been flushed behind it. The log is flushed in order, so whatever was answered, and all that it was
decided upon, is on the disk; and many writers share one flush.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from dpcalc.errors import InputError, missing
from dpcalc.ledger.store import LAYOUT, NAMES, TABLES, StorageError, Store, closed_if_it_fails

_PATIENCE = 30
_CONNECT = 10
_REFUSAL = " BEGIN RAISE EXCEPTION 'a ledger is append-only'; END "
_GUARDED = "BEFORE DELETE OR UPDATE OR TRUNCATE"  # as PostgreSQL writes it
_TRIGGERS = (
    "SELECT tgname::text, tgenabled::text, prosrc, pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger "
    "JOIN pg_proc ON pg_proc.oid = tgfoid WHERE tgrelid = to_regclass(?) AND NOT tgisinternal"
)


class Postgres(Store):
    """A ledger in the schema that the connection finds first."""

    def __init__(self, url: str, *, write: bool, create: str | None = None) -> None:
        self.shown, self._secrets = without_password(url)
        try:
            import psycopg
        except ImportError:
            raise missing("a PostgreSQL ledger needs psycopg", "postgres") from None
        self._driver = psycopg
        settings: dict[str, Any] = {"autocommit": True, "connect_timeout": _CONNECT, "application_name": "dpcalc"}
        with self._told():
            self._connection = psycopg.connect(url, **settings, tcp_user_timeout=1000 * _PATIENCE)
        with closed_if_it_fails(self):
            self._set_up(write)
            if not self._is_there():
                if create is None:
                    raise InputError("there is no such ledger; dpcalc ledger init makes one", where=self.shown)
                self._lay_out(create)
            self.check_layout()

    def _set_up(self, write: bool) -> None:
        self.run(f"SET lock_timeout = '{_PATIENCE}s'")
        self.run(f"SET default_transaction_read_only = {'off' if write else 'on'}")
        if not write:
            return
        # Whatever the server's defaults are, what is answered is on its disk.
        if self.execute("SELECT current_setting('fsync')") == [("off",)]:
            raise StorageError("its server runs with fsync off: what it records may be lost", where=self.shown)
        if self.execute("SELECT current_setting('synchronous_commit')") == [("off",)]:
            self.run("SET synchronous_commit = on")
        # Plans are kept: one made while the tables were small would read them from end to end ever after.
        self.run("SET enable_seqscan = off")

    def _is_there(self) -> bool:
        return self.execute("SELECT to_regclass('dpcalc_ledger')") != [(None,)]

    def _lay_out(self, identifier: str) -> None:
        with self._told(), self._connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(hashtext('dpcalc ledger'))")
            if self._is_there():
                return
            for table in TABLES:
                self.run(table)
            self.run(f"CREATE FUNCTION dpcalc_append_only() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSAL}$$")
            for name in NAMES:
                self.run(
                    f"CREATE TRIGGER {name}_guard {_GUARDED} ON {name} "
                    "FOR EACH STATEMENT EXECUTE FUNCTION dpcalc_append_only()"
                )
            self.run("INSERT INTO dpcalc_ledger (id, layout) VALUES (?, ?)", (identifier, LAYOUT))

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """The driver's errors in one line of ours, without passwords."""
        try:
            yield
        except self._driver.Error as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            text = lines[0]
            for secret in self._secrets:
                text = text.replace(secret, "***")
            if isinstance(error, self._driver.errors.LockNotAvailable):
                text = f"others were writing for {_PATIENCE} s; nothing was written, try again"
            raise StorageError(text, where=self.shown) from None

    def execute(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._told():
            return self._connection.execute(_placed(query), values or None).fetchall()

    def run(self, query: str, values: Sequence[Any] = ()) -> None:
        with self._told():
            self._connection.execute(_placed(query), values or None)

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with self._told(), self._connection.transaction(), self._connection.cursor("dpcalc_rows") as cursor:
            cursor.itersize = 2000
            cursor.execute(_placed(query), values or None)
            yield from cursor

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        with self._told():
            try:
                with self._pipeline():
                    self.run("BEGIN")
                    # What is read after the lock was granted is what the last holder committed.
                    self.run("SELECT set_config('synchronous_commit', 'off', true) FROM dpcalc_ledger FOR UPDATE")
                    yield
                    self.run("COMMIT")
                    self.run("SELECT pg_logical_emit_message(true, 'dpcalc', '')")
            except BaseException:
                with contextlib.suppress(self._driver.Error):
                    self._connection.rollback()
                raise

    def _pipeline(self) -> contextlib.AbstractContextManager[Any]:
        """Statements are sent without waiting for one another's answers, where the client library can."""
        return self._connection.pipeline() if self._driver.Pipeline.is_supported() else contextlib.nullcontext()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with self._told(), self._connection.transaction():
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def faults(self) -> list[str]:
        found = []
        for name in NAMES:
            triggers = self.execute(_TRIGGERS, (name,))
            guard = [each for each in triggers if each[0] == f"{name}_guard"]
            if [(state, source) for _, state, source, _ in guard] != [("O", _REFUSAL)] or _GUARDED not in guard[0][3]:
                found.append(f"the guard {name}_guard against changes is missing, switched off or was changed")
            found += [f"the trigger {each[0]} is none of ours" for each in triggers if each not in guard]
        orphans = self.execute(
            "SELECT COUNT(*) FROM dpcalc_charges LEFT JOIN dpcalc_entries ON number = entry WHERE number IS NULL"
        )
        return found + (["charges without an entry"] if orphans != [(0,)] else [])

    def close(self) -> None:
        self._connection.close()


def _placed(query: str) -> Any:
    """The query with the driver's placeholders; `?` stands in no query as anything else."""
    return query.replace("?", "%s")


def without_password(url: str) -> tuple[str, tuple[str, ...]]:
    """An address as it may be shown, and the secrets that stood in it; of one that is not well formed, nothing."""
    scheme, _, rest = url.partition("://")
    place, question, query = rest.partition("?")
    account, at, host = place.rpartition("@")
    if "@" in query and not at:
        return f"{scheme}://…", (url, rest)
    user, _, password = account.partition(":")
    pairs = parse_qsl(query, keep_blank_values=True)
    hidden = [(key, value) for key, value in pairs if "pass" in key.lower()]
    shown = urlencode([pair for pair in pairs if pair not in hidden], safe="/")
    found = {password, *(value for _, value in hidden)} - {""}
    secrets = {form for secret in found for form in (secret, unquote(secret))}
    return f"{scheme}://{user}{at}{host}{question if shown else ''}{shown}", tuple(
        sorted(secrets, key=len, reverse=True)
    )
