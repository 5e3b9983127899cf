"""`dpcalc diff`: what changed between two releases, by entry and in ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcalc.asked import Asked, argument, number
from dpcalc.commands.common import ADJACENCY, DELTAS, asked_at
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Outcome, Result, Section, exceeds
from dpcalc.numbers import NON_NEGATIVE
from dpcalc.report import SYMBOLS, rounded_down, rounded_up, written

if TYPE_CHECKING:
    from dpcalc.guarantee import Guarantee
    from dpcalc.spec.composition import Composition, Cost, Question
    from dpcalc.spec.specification import Document


@dataclass(frozen=True, kw_only=True)
class Diff(Asked):
    """Compare two releases at the same δ (or ε): entries added, removed and changed, and what that does to ε.

    The guarantee, and limits on it, are those of B.
    """

    example: ClassVar[str] = "dpcalc diff examples/dp-sgd.yaml examples/mixed-release.yaml --delta 1e-5"

    before: Annotated[Any, argument(metavar="A", help="The spec or result of before; - is standard input.")]
    after: Annotated[Any, argument(metavar="B", help="The one of after.")]
    delta: Annotated[tuple[float, ...], DELTAS] = ()
    epsilon: Annotated[float | None, number("--epsilon", help="Compare δ at this ε.", allowed=NON_NEGATIVE)] = None
    adjacency: Annotated[Adjacency | None, ADJACENCY] = None
    max_increase: Annotated[
        float | None,
        number("--max-increase", help="Exit 1 if ε (or δ) grew by more.", allowed=NON_NEGATIVE, panel="Budget limits"),
    ] = None

    def answer(self) -> Result:
        """Both composed at one δ, and how they differ."""
        from dpcalc.spec.composition import compose_documents
        from dpcalc.spec.sources import read_documents
        from dpcalc.spec.specification import common_budget

        given = ([side] if isinstance(side, str) else side for side in (self.before, self.after))
        sides = [read_documents(side, ()) for side in given]
        question = self._question(sides)
        under = self.adjacency
        if any(each.adjacency == "replace-one" for side in sides for each in side):
            under = under or "replace-one"  # both sides under one adjacency, and only add-remove converts
        old, new = (compose_documents(side, question, under) for side in sides)
        changes = _changes(old, new)
        quantity = new.guarantee.asks
        grown = _grown(old.guarantee, new.guarantee, quantity)
        return Result(
            command="diff",
            guarantee=new.guarantee,
            headline=_headline(old.guarantee, new.guarantee, grown, self.max_increase),
            details={
                "before": {**_numbers(old.guarantee), "mechanisms": list(old.guarantee.mechanisms)},
                "after": _numbers(new.guarantee),
                "increase": grown,
                "max_increase": self.max_increase,
                "changes": changes,
                "mechanisms": [
                    {"name": cost.entry.name, "count": cost.entry.count, "epsilon": cost.epsilon} for cost in new.costs
                ],
            },
            facts=(("before", _interval(old.guarantee)),),
            sections=_sections(changes),
            records=(
                _total(old.guarantee, new.guarantee, grown),
                *(change | {"fields": _words(change["fields"])} for change in changes),
            ),
            budget=common_budget(sides[1], self.limits),
            goal=_goal(old.guarantee, new.guarantee, grown, self.max_increase),
        )

    def _question(self, sides: Sequence[list[Document]]) -> Question:
        """One question for both sides: where only one of them states a δ, it holds for the other."""
        from dpcalc.spec.composition import Question
        from dpcalc.spec.specification import common_delta

        if len(self.delta) > 1:
            raise InputError("compares at one δ", where="delta")
        deltas = self.delta
        if not deltas and self.epsilon is None and None in (common_delta(side) for side in sides):
            deltas = tuple(value for value in map(common_delta, sides) if value is not None)
        points, at = asked_at([each for side in sides for each in side], deltas, self.epsilon)
        return Question(delta=points[0] if points else None, epsilon=at)


def _numbers(guarantee: Guarantee) -> dict[str, Any]:
    keys = ("epsilon", "delta", "epsilon_lower", "delta_lower", "mu", "rho")
    return {**{key: getattr(guarantee, key) for key in keys}, "guarantee": guarantee.status}


def _grown(old: Guarantee, new: Guarantee, quantity: str) -> float | None:
    """By how much the bound grew; None where one of them is not known or both are infinite."""
    before, after = old.upper(quantity), new.upper(quantity)
    if before is None or after is None or before == after == float("inf"):
        return None
    return after - before


def _total(old: Guarantee, new: Guarantee, grown: float | None) -> dict[str, Any]:
    """All entries together, as a row above theirs."""
    sides = {"before": old, "after": new}
    told = {f"{key}_{when}": getattr(side, key) for key in ("epsilon", "delta") for when, side in sides.items()}
    return {"name": "total", "change": "same" if grown == 0 else "changed", "fields": "", **told, "increase": grown}


def _headline(old: Guarantee, new: Guarantee, grown: float | None, limit: float | None) -> str:
    quantity = new.asks
    symbol = SYMBOLS[quantity]
    at = f" at δ = {written(new.delta)}" if quantity == "epsilon" else f" at ε = {written(new.epsilon)}"
    change = f"{symbol} goes from {rounded_up(old.upper(quantity))} to {rounded_up(new.upper(quantity))}{at}"
    if grown is not None:
        same = not exceeds(abs(grown), 1e-12 * (old.upper(quantity) or 0.0))
        words = "unchanged" if same else f"{'+' if grown > 0 else '−'}{rounded_up(abs(grown), 3)}"
        change = f"{change} ({words})"
    if limit is None:
        return change
    outcome = _goal(old, new, grown, limit)
    judged = {"within": "within", "over": "OVER", "unproved": "NOT SHOWN to be within"}
    return f"{change}, {judged[outcome or 'unproved']} the allowed increase {written(limit)}"


def _goal(old: Guarantee, new: Guarantee, grown: float | None, limit: float | None) -> Outcome | None:
    """Whether the bound grew by no more than is allowed; only what is certified shows it."""
    if limit is None:
        return None
    if grown is None or {old.status, new.status} != {"certified"}:
        return "unproved"
    return "over" if exceeds(grown, limit) else "within"


def _interval(guarantee: Guarantee) -> str:
    symbol = SYMBOLS[guarantee.asks]
    lower = guarantee.lower(guarantee.asks)
    least = "" if lower is None else f"{rounded_down(lower)} ≤ "
    return f"{least}{symbol} ≤ {rounded_up(guarantee.upper(guarantee.asks))}; {guarantee.status}; {guarantee.adjacency}"


def _changes(old: Composition, new: Composition) -> list[dict[str, Any]]:
    """Entry by entry, paired by name and, within a name, by order."""
    before, after = _by_name(old.costs), _by_name(new.costs)
    found = []
    for key in dict.fromkeys((*before, *after)):
        one, other = before.get(key), after.get(key)
        was, now = ({} if cost is None else _spec(cost) for cost in (one, other))
        fields = {name: [was.get(name), now.get(name)] for name in (was | now) if was.get(name) != now.get(name)}
        kind = "added" if one is None else "removed" if other is None else "changed" if fields else "same"
        found.append(
            {
                "name": key[0],
                "change": kind,
                "fields": fields if kind == "changed" else {},
                "epsilon_before": None if one is None else one.epsilon,
                "epsilon_after": None if other is None else other.epsilon,
            }
        )
    return found


def _by_name(costs: Sequence[Cost]) -> dict[tuple[str, int], Cost]:
    seen: dict[str, int] = {}
    found = {}
    for cost in costs:
        seen[cost.entry.name] = seen.get(cost.entry.name, 0) + 1
        found[cost.entry.name, seen[cost.entry.name]] = cost
    return found


def _spec(cost: Cost) -> dict[str, Any]:
    return {key: value for key, value in cost.entry.spec().items() if key != "name"}


def _sections(changes: Sequence[Mapping[str, Any]]) -> tuple[Section, ...]:
    shown = [change for change in changes if change["change"] != "same"]
    rows = tuple(
        (change["name"], change["change"], change["epsilon_before"], change["epsilon_after"], _words(change["fields"]))
        for change in shown
    )
    same = len(changes) - len(shown)
    note = "" if not same else "1 entry is the same" if same == 1 else f"{same:,} entries are the same"
    columns = ("mechanism", "change", "its ε before", "after", "what")
    return (Section(title="What changed", columns=columns, rows=rows, note=note),) if rows else ()


def _words(fields: Mapping[str, Sequence[Any]]) -> str:
    return "; ".join(f"{name} {_flat(was)} → {_flat(now)}" for name, (was, now) in fields.items())


def _flat(value: Any) -> Any:
    """A value in one cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(str(_flat(inner)) for inner in value)
    return f"{value:.6g}" if isinstance(value, float) else value
