"""How budgets stand, as `ledger status` and reports tell it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpcalc.guarantee import Result, Section
from dpcalc.ledger import amounts
from dpcalc.ledger.advice import Room
from dpcalc.ledger.chain import SHOWN_DIGITS
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opened import opened
from dpcalc.ledger.requests import Request
from dpcalc.ledger.results import answered, logged, percent, percent_left
from dpcalc.ledger.status import Status, planned_epsilon, status_of, still_fits
from dpcalc.ledger.units import float_up
from dpcalc.report import rounded_down, rounded_up

_BAR = 20
_QUANTITIES = {"gdp": "μ²", "zcdp": "ρ"}


def standing(ledger: Ledger, name: str | None, what_if: Request | None = None) -> Result:
    """How a budget stands, or all of them."""
    if name is None and len(ledger.budgets) > 1:
        return _overview(ledger)
    name = name or next(iter(ledger.budgets))
    status = status_of(ledger, name)
    planned = planned_epsilon(ledger, name)
    fits = still_fits(ledger, name, status.latest)
    outlook, goal = _outlook(status, planned, fits), None
    details = _status_details(status, planned, fits)
    if what_if is not None:
        answer = ledger.ask(name, what_if)
        advice = None if answer.accepted else Room(ledger, name).advice(what_if)
        told = answered(answer, advice, dry=True)
        details["what_if"] = told.details
        outlook.append(("what if", told.headline))
        goal = told.goal
    return Result(
        command="ledger status",
        guarantee=status.terms.guarantee(),
        headline=_standing(status),
        facts=tuple(_status_facts(status)),
        sections=(*_status_tables(status), Section(title="", columns=(), rows=tuple(outlook))),
        details=details,
        goal=goal,
    )


def pages(url: str) -> list[Result]:
    """What a report on a whole ledger shows: each budget as it stands, then the log."""
    with opened(url, write=False) as ledger:
        return [*(standing(ledger, name) for name in ledger.budgets), logged(ledger, None)]


def _standing(status: Status) -> str:
    return (
        f"{status.terms.name}: {percent(status.level)} of {status.terms.stated()} is spent; "
        f"{percent_left(status.level)} is left"
    )


def _status_facts(status: Status) -> list[tuple[str, str]]:
    terms = status.terms
    full = min(_BAR, math.ceil(status.level * _BAR))
    quantity = _QUANTITIES.get(terms.measure.kind)
    inside = "of its Rényi filter"
    if quantity is not None:
        inside = (
            f"in {quantity}: {rounded_up(float_up(status.total[0]), 4)} of {rounded_down(float_up(terms.limit), 4)}"
        )
    return [("spent", f"{'█' * full}{'░' * (_BAR - full)}  {inside}")]


def _outlook(status: Status, planned: float | None, fits: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What still fits, until when it lasts, and what it would have cost as a plan."""
    facts = []
    if fits is not None:
        facts.append(("fits still", _fits(fits)))
    forecast = status.forecast()
    if forecast is not None:
        facts.append(("at this pace", f"nothing is left on {forecast}"))
    if planned is not None:
        facts.append(("planned", f"had all been fixed beforehand, ε = {rounded_up(planned, 4)}"))
    return [*facts, ("last hash", status.head[:SHOWN_DIGITS])]


def _fits(fits: Mapping[str, Any]) -> str:
    line = f"{fits['largest_count']:,} more like {fits['entry']}"
    noise = fits.get("least_noise")
    for key, value in (noise or {}).items():
        if value is not None:
            line += f"; {fits['count']:,} would need {key} {value:g}"
    return line


def _status_tables(status: Status) -> tuple[Section, ...]:
    rows = tuple((s.names, s.at[:10], _share(s.share), s.key, s.by) for s in status.latest)
    tables = [Section(title="Latest", columns=("spend", "when", "share", "key", "by"), rows=rows)] if rows else []
    for title, column, groups in (("By month", "month", status.months), ("By whom", "by", status.people)):
        if len(groups) > 1:
            lines = tuple((word or "–", f"{count:,}", _share(share)) for word, share, count in groups)
            tables.append(Section(title=title, columns=(column, "entries", "share"), rows=lines))
    return tuple(tables)


def _status_details(status: Status, planned: float | None, fits: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "budget": status.terms.name,
        "terms": status.terms.to_json(),
        "level": status.level,
        "spent": amounts.spent(status.terms, status.total),
        "remaining": amounts.remaining(status.terms, status.total),
        "entries": status.entries,
        "by_month": [{"month": w, "share": share, "entries": n} for w, share, n in status.months],
        "by": [{"by": w, "share": share, "entries": n} for w, share, n in status.people],
        "forecast": status.forecast(),
        "planned": None if planned is None else {"epsilon": planned, "delta": status.terms.delta, "enforced": False},
        "fits": fits,
        "head": status.head,
    }


def _overview(ledger: Ledger) -> Result:
    rows, listed, fullest = [], [], (-1.0, next(iter(ledger.budgets.values())))
    for terms in ledger.budgets.values():
        total = ledger.total(terms.name)
        level = amounts.level(terms, total)
        fullest = max(fullest, (level, terms), key=lambda pair: pair[0])
        rows.append((terms.name, terms.stated(), percent(level), percent_left(level), terms.parent or "–"))
        told = {"spent": amounts.spent(terms, total), "remaining": amounts.remaining(terms, total)}
        listed.append({"budget": terms.name, "level": level, **told})
    level, terms = fullest
    columns = ("budget", "limit", "spent", "left", "charged to")
    return Result(
        command="ledger status",
        guarantee=terms.guarantee(),
        headline=f"{len(rows)} budgets; the fullest is {terms.name}: {percent(level)} of {terms.stated()} is spent",
        sections=(Section(title="Budgets", columns=columns, rows=tuple(rows)),),
        details={"budgets": listed, "head": ledger.store.head()[1]},
    )


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"
