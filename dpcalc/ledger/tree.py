"""How a charge goes up a tree of budgets: children add up, parts of a partition count by the largest.

Every ancestor is charged in its own measure, so a node keeps totals in its own measure and in those above it. Under
add-remove a record is in one part only, so the parent is charged the largest of its parts' sums, each component alone.
Under replace-one a record may move from one part to another, or be replaced within its own: the larger of the two
largest add-remove sums added, and the largest replace-one sum. So nodes below a partition keep both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpcalc.guarantee import Adjacency
from dpcalc.ledger.measure import Measure
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import Vector, add, largest, subtract, two_largest


class Account(NamedTuple):
    """A running total: in which measure, under which adjacency."""

    measure: Measure
    adjacency: Adjacency

    @property
    def name(self) -> str:
        return f"{self.measure.name} {self.adjacency}"


State = Mapping[str, Vector]


def main_account(terms: Terms) -> Account:
    """The total that a budget's own filter looks at."""
    return Account(terms.measure, terms.adjacency)


def accounts(path: Sequence[Terms]) -> list[Account]:
    """The totals that the first budget of a path to the root keeps."""
    measures = dict.fromkeys(terms.measure for terms in path)
    under = [path[0].adjacency]
    if path[0].adjacency == "replace-one" and any(terms.is_part for terms in path):
        under.append("add-remove")
    return [Account(measure, adjacency) for measure in measures for adjacency in under]


def charged(
    path: Sequence[Terms],
    states: Mapping[str, State],
    cost: Mapping[str, Vector],
    combine: Callable[[Vector, Vector], Vector] = add,
) -> dict[str, dict[str, Vector]]:
    """The totals of every budget on the path after a cost, by budget and account; `subtract` takes it back.

    `states` holds the totals before it, of the path and of all parts beside it.
    """
    after: dict[str, dict[str, Vector]] = {}
    change = dict(cost)
    taken_back = combine is subtract
    for i, terms in enumerate(path):
        kept = accounts(path[i:])
        before = states[terms.name]
        after[terms.name] = {a.name: combine(before[a.name], change[a.name]) for a in kept}
        if terms.is_part and i + 1 < len(path):
            parts = [f"{terms.parent}/{part}" for part in path[i + 1].parts]
            old = [states[part] for part in parts]
            new = [after[terms.name] if part == terms.name else states[part] for part in parts]
            pair = (old, new) if taken_back else (new, old)
            change = {a.name: subtract(_of_parts(pair[0], a), _of_parts(pair[1], a)) for a in accounts(path[i + 1 :])}
    return after


def _of_parts(parts: Sequence[State], account: Account) -> Vector:
    """What the parts of a partition cost their parent."""
    if account.adjacency == "add-remove":
        return largest(part[account.name] for part in parts)
    moved = Account(account.measure, "add-remove").name
    return largest([two_largest([part[moved] for part in parts]), *(part[account.name] for part in parts)])
