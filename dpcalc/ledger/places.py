"""Which storage an address means."""

from __future__ import annotations

from dpcalc.errors import InputError
from dpcalc.ledger.sqlite import Sqlite
from dpcalc.ledger.store import Store


def open_store(url: str, *, write: bool, create: str | None = None) -> Store:
    """The storage at a file name or postgresql:// address; `create` is the identifier of a new one if none is there."""
    if url.startswith(("postgresql://", "postgres://")):
        from dpcalc.ledger.postgres import Postgres  # the driver is an extra

        return Postgres(url, write=write, create=create)
    if "password=" in url:
        raise InputError("a PostgreSQL ledger is written postgresql://user@host/database, not as words with =")
    if "://" in url:
        scheme = url.partition("://")[0]
        raise InputError(f"a ledger is a file or postgresql://…, not {scheme}://…")
    return Sqlite(url, write=write, create=create)
