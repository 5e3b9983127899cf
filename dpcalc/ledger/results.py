"""What the ledger's commands answer: the first line in words, then numbers and tables as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpcalc.guarantee import Guarantee, Result, Section
from dpcalc.ledger import amounts
from dpcalc.ledger.advice import Advice
from dpcalc.ledger.answers import Answer
from dpcalc.ledger.chain import SHOWN_DIGITS
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import subtract
from dpcalc.ledger.verify import Audit
from dpcalc.report import SYMBOLS, rounded_down, rounded_up, written


def made(terms: Terms, ledger: Ledger, new: bool) -> Result:
    """What `init` fixed."""
    facts = [
        ("protects", f"one {terms.unit}; {terms.adjacency}"),
        ("filter", f"{_filter(terms)}{': ' + terms.reason if terms.reason else ''}"),
    ]
    if terms.measure.kind == "rdp":
        kept = f"δ = {written(terms.step_delta)} is kept for releases with a δ of their own"
        facts.append(("orders", f"{', '.join(f'{order:g}' for order in terms.orders)}; {kept}"))
    if terms.parent:
        facts.append(("charged with", ", ".join(each.name for each in ledger.path(terms.name)[1:])))
    if terms.parts:
        facts.append(("parts", f"{', '.join(terms.parts)}: the largest of them is charged, since they share no record"))
    return Result(
        command="ledger init",
        guarantee=terms.guarantee(),
        headline=f"{terms.name}: {terms.stated()} is fixed{'' if new else ' already, with these terms'}",
        facts=tuple(facts),
        details={"budget": terms.to_json(), "created": new, "head": ledger.store.head()[1]},
    )


def _filter(terms: Terms) -> str:
    names = {"gdp": "GDP", "zcdp": "zCDP", "rdp": "Rényi, a mixture of orders"}
    return names[terms.measure.kind]


def answered(answer: Answer, advice: Advice | None, *, dry: bool) -> Result:
    """What `spend` said."""
    terms, names = answer.budget, ", ".join(answer.request.names)
    level = amounts.level(terms, answer.after if answer.accepted else answer.before)
    spent, remaining = answer.spent, answer.remaining
    details: dict[str, Any] = {
        "accepted": answer.accepted,
        "budget": terms.name,
        "key": answer.key,
        "entry": answer.entry,
        "dry_run": dry,
        "spent": spent,
        "remaining": remaining,
        "refusal": None,
        "assumptions": answer.request.assumptions,
    }
    facts = [("spent", f"{_amounts(spent, up=True)}"), ("left", _amounts(remaining, up=False))]
    if answer.accepted:
        done = "would be accepted" if answer.entry is None else f"accepted as entry {answer.entry}, key {answer.key}"
        if answer.entry is not None and not answer.recorded:
            done = f"was accepted before as entry {answer.entry}, and is charged once"
        then = "would then be" if answer.entry is None else "is"
        headline = f"{terms.name}: {names} {done}; {percent(level)} of {terms.stated()} {then} spent"
    else:
        asked = amounts.spent(terms, subtract(answer.after, answer.before))
        fitting = {} if advice is None else advice.to_json()
        details["refusal"] = {"by": terms.name, "asked": asked, "left": remaining, **fitting}
        headline = (
            f"REFUSED by {terms.name}: {names} asks {_amounts(asked, up=True)}, left is {_amounts(remaining, up=False)}"
        )
        if advice is not None:
            facts.append(("would fit", advice.sentence()))
    facts += [("holds if" if i == 0 else "", line) for i, line in enumerate(answer.request.assumptions)]
    return Result(
        command="ledger spend",
        guarantee=_with(terms.guarantee(), answer),
        headline=headline,
        facts=tuple(facts),
        details=details,
        goal="within" if answer.accepted else "over",
    )


def _with(guarantee: Guarantee, answer: Answer) -> Guarantee:
    return guarantee.with_warnings(*answer.warnings) if answer.warnings else guarantee


def logged(ledger: Ledger, name: str | None) -> Result:
    """All entries, oldest first."""
    terms = ledger.budget(name) if name is not None else next(iter(ledger.budgets.values()))
    records = []
    with ledger.store.reading():
        for row in ledger.store.rows(name):
            content = row.entry.content
            records.append(
                {
                    "entry": row.entry.number,
                    "at": row.at,
                    "kind": row.kind,
                    "budget": row.budget,
                    "what": ", ".join(content.get("names", ())) or content.get("reason", ""),
                    "key": content.get("key"),
                    "by": row.who,
                    "note": content.get("note", ""),
                    "version": content["version"],
                    "hash": row.entry.hash,
                }
            )
    columns = ["entry", "when", "kind", "budget", "what", "key", "by", "note"]
    shown = [{**record, "when": record["at"][:16].replace("T", " ")} for record in records]
    told = [column for column in columns if any(record[column] for record in shown)]
    if name is not None and all(record["budget"] == name for record in shown):
        told.remove("budget")
    rows = tuple(tuple(record[column] or "" for column in told) for record in shown)
    return Result(
        command="ledger log",
        guarantee=terms.guarantee(),
        headline=f"{len(records):,} entries{'' if name is None else f' of {name}'}",
        sections=(Section(title="Log", columns=tuple(told), rows=rows),),
        records=tuple(records),
        details={"entries": records},
    )


def audited(audit: Audit, ledger: Ledger) -> Result:
    """What `verify` found."""
    terms = next(iter(ledger.budgets.values()))
    lines = [("contradicted", line) for line in audit.contradicted]
    lines += [("not checked", line) for line in audit.not_checked]
    lines += [("costs less today", line) for line in audit.changed]
    verdicts = {0: "all confirmed", 1: f"{len(audit.contradicted)} CONTRADICTED", 3: "not all could be checked"}
    tables = (Section(title="Findings", columns=("verdict", "what"), rows=tuple(lines)),) if lines else ()
    return Result(
        command="ledger verify",
        guarantee=terms.guarantee(),
        headline=f"{audit.entries:,} entries: {verdicts[audit.exit_code]}",
        facts=(
            ("checked", "the chain, all totals and decisions, every cost by today's engine, the database itself"),
            ("last hash", audit.head[:SHOWN_DIGITS]),
        ),
        sections=tables,
        details={
            "entries": audit.entries,
            "head": audit.head,
            "contradicted": audit.contradicted,
            "not_checked": audit.not_checked,
            "changed": audit.changed,
        },
        goal={0: "within", 1: "over", 3: "unproved"}[audit.exit_code],  # type: ignore[arg-type]
    )


def voided(ledger: Ledger, key: str, entry: int, new: bool) -> Result:
    """What `void` did."""
    row = ledger.store.find(key)
    assert row is not None
    terms = ledger.budget(row.budget)
    return Result(
        command="ledger void",
        guarantee=terms.guarantee(),
        headline=f"{terms.name}: {key} (entry {row.entry.number}) is void{'' if new else ' already'} (entry {entry})",
        details={
            "key": key,
            "entry": entry,
            "voids": row.entry.number,
            "spent": amounts.spent(terms, ledger.total(terms.name)),
            "remaining": amounts.remaining(terms, ledger.total(terms.name)),
        },
    )


def taken_in(ledger: Ledger, added: int) -> Result:
    """What `import` did."""
    terms = next(iter(ledger.budgets.values()))
    number, head = ledger.store.head()
    return Result(
        command="ledger import",
        guarantee=terms.guarantee(),
        headline=f"{added:,} entries added, {number:,} in all; chain, totals, limits and costs hold",
        details={"added": added, "entries": number, "head": head},
    )


def _amounts(values: Mapping[str, float], *, up: bool) -> str:
    rounded = rounded_up if up else rounded_down
    shown = {key: value for key, value in values.items() if key != "mu" or "epsilon" not in values}
    return ", ".join(f"{SYMBOLS[key]} = {rounded(value, 4)}" for key, value in shown.items())


def percent(level: float) -> str:
    """A part that is spent, rounded up to tenths."""
    return f"{math.ceil(round(1000 * level, 6)) / 10:g} %"


def percent_left(level: float) -> str:
    """What is left beside it, rounded down."""
    return f"{(1000 - math.ceil(round(1000 * level, 6))) / 10:g} %"
