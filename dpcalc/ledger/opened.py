"""A ledger for commands: whatever is found damaged in it is told as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpcalc.errors import InputError
from dpcalc.files import reason
from dpcalc.ledger.ledger import Ledger

# What comes of a row that holds something else than dpcalc writes there.
_DAMAGED = (TypeError, ValueError, LookupError, AttributeError)


@contextmanager
def opened(url: str, **how: Any) -> Iterator[Ledger]:
    """The ledger at a place, opened as `Ledger.open` does it."""
    with Ledger.open(url, **how) as ledger:
        try:
            yield ledger
        except _DAMAGED as error:
            raise InputError(f"is damaged ({reason(error)})", where=ledger.store.shown) from None
