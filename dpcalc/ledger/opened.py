"""A ledger for commands: whatever is found damaged in it is told as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files import reason
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.postgres import without_password

# What comes of a row that holds something else than dpcalc writes there.
_DAMAGED = (TypeError, ValueError, LookupError, AttributeError)


@contextmanager
def opened(url: str, **how: Any) -> Iterator[Ledger]:
    """The ledger at a place, opened as `Ledger.open` does it."""
    try:
        with Ledger.open(url, **how) as ledger:
            yield ledger
    except _DAMAGED as error:
        shown = without_password(url)[0] if "://" in url else url
        raise InputError(f"is damaged ({reason(error)})", where=shown) from None
