"""Where a budget stands: what is spent and left, by whom and when, until when it lasts, and what still fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from dpcalc.errors import CertificationError, InputError
from dpcalc.ledger import amounts
from dpcalc.ledger.advice import Room, noise_key
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.requests import stored_request
from dpcalc.ledger.store import Row
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import Vector

# Of so many different specs the composition is computed as if it had been planned; of more it would take too long.
_DIFFERENT = 24
_SHOWN = 10


@dataclass(frozen=True)
class Spend:
    """One entry as people read it; its share is of the whole budget."""

    number: int
    kind: str
    names: str
    at: str
    share: float
    key: str
    by: str


@dataclass(frozen=True)
class Status:
    """A budget at one moment. `level` is the part that is spent, rounded up."""

    terms: Terms
    total: Vector
    level: float
    latest: tuple[Spend, ...]
    months: tuple[tuple[str, float, int], ...]
    people: tuple[tuple[str, float, int], ...]
    first: str | None
    head: str

    @property
    def entries(self) -> int:
        """How many entries moved its totals."""
        return sum(count for _, _, count in self.months)

    def forecast(self, now: datetime | None = None) -> str | None:
        """The day on which nothing is left if spending goes on as it has; None before a day has passed."""
        if self.first is None or self.level <= 0:
            return None
        start = datetime.strptime(self.first, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        now = now or datetime.now(timezone.utc)
        days = (now - start).total_seconds() / 86400
        left = days * (1 - self.level) / self.level
        if days < 1 or left > 36500:
            return None
        return (now + timedelta(days=left)).strftime("%Y-%m-%d")


def status_of(ledger: Ledger, name: str) -> Status:
    """How a budget stands now."""
    terms = ledger.budget(name)
    total = ledger.total(name)
    level = amounts.level(terms, total)
    months, people = ledger.store.spending(name, "month"), ledger.store.spending(name, "who")
    whole = math.fsum(share for _, share, _ in months)
    scale = level / whole if whole > 0 else 0.0
    rows = ledger.store.last(name, _SHOWN)
    shares = ledger.store.shares(name, [row.entry.number for row in rows])
    return Status(
        terms=terms,
        total=total,
        level=level,
        latest=tuple(as_spend(row, scale * shares.get(row.entry.number, 0.0)) for row in rows),
        months=tuple((word, scale * share, count) for word, share, count in months),
        people=tuple((word, scale * share, count) for word, share, count in people),
        first=ledger.store.first_time(name),
        head=ledger.store.head()[1],
    )


def as_spend(row: Row, share: float) -> Spend:
    """A row of the log."""
    content = row.entry.content
    names = ", ".join(content.get("names", ())) or content.get("reason", "") or row.budget
    return Spend(row.entry.number, row.kind, names, row.at, share, str(content.get("key") or ""), row.who)


def planned_epsilon(ledger: Ledger, name: str) -> float | None:
    """ε at the budget's δ if all that was spent had been fixed beforehand; None where that is not known quickly.

    It enforces nothing: the order and the choice of what was spent may have depended on what was released.
    """
    from dpcalc.accounting.compose import compose

    terms = ledger.budget(name)
    in_parts = any(t.is_part and terms in ledger.path(t.name)[1:] for t in ledger.budgets.values())
    if terms.delta is None or in_parts:
        return None
    found = ledger.store.different(name, _DIFFERENT)
    if not found or len(found) > _DIFFERENT:
        return None
    parts = []
    for number, count in found:
        request = stored_request(ledger.store.entry(number).content["specs"], terms.adjacency)
        parts += [(mechanism, count * times) for mechanism, times in request.parts(terms.adjacency)]
    try:
        return compose(parts, delta=terms.delta, tolerance=1e-2).epsilon
    except (CertificationError, InputError):
        return None


def still_fits(ledger: Ledger, name: str, latest: Sequence[Spend]) -> dict[str, Any] | None:
    """How many more releases like the largest recent one fit, and the noise for one more such spend, or for two."""
    spends = [spend for spend in latest if spend.kind == "spend"]
    if not spends:
        return None
    largest = max(spends, key=lambda spend: spend.share)
    content = ledger.store.entry(largest.number).content
    request = stored_request(content["specs"], ledger.budget(name).adjacency)
    room = Room(ledger, content["budget"])
    if not room.fits(request):
        return room.advice(request).to_json()
    position = room.costliest(request)
    entry = request.entries[position]
    count, key = room.largest_count(request, position), noise_key(request, position)
    fits: dict[str, Any] = {"entry": entry.name, "count": entry.count, "largest_count": count, "least_noise": None}
    if key is not None and count < 2 * entry.count:
        noise = room.least_noise(request, position, key, 2 * entry.count)
        fits |= {"count": 2 * entry.count, "least_noise": {key: noise}}
    return fits
