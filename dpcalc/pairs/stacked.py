"""Many pairs at once: groups of similar ones whose masses are computed together, one row for each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dpcalc.pairs.base import Pair

_TOGETHER = 50


@dataclass(frozen=True)
class Stack:
    """Some pairs, and a pair whose masses have one row for each of them."""

    members: tuple[Pair, ...]
    rows: Pair


def stacks(pairs: Sequence[Pair]) -> list[Stack]:
    """Those of some pairs that have kin among them, in groups of similar size."""
    kinds: dict[Hashable, list[tuple[float, Pair]]] = {}
    for pair in pairs:
        kin = pair.kin()
        if kin is not None:
            kinds.setdefault(kin.kind, []).append((kin.size, pair))
    found = []
    for members in kinds.values():
        members.sort(key=lambda member: member[0])
        for start in range(0, len(members), _TOGETHER):
            sizes, chunk = zip(*members[start : start + _TOGETHER], strict=True)
            found.append(Stack(chunk, chunk[0].together(sizes)))
    return found
