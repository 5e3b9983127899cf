"""Which steps of a composition go together."""

from __future__ import annotations

from collections.abc import Sequence

from dpcalc.accounting.steering.pilot import Sketch
from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Pair, int]]

_FEW = 4  # different pairs that are put on grids of their own
_TOGETHER = 256  # laws of a batch
_ALIKE = 1.5  # the ratio of scales within a batch


def groups_of(parts: Parts, drawn: Sketch) -> list[list[int]]:
    """Pairs that run equally often and are alike, so that the same grids serve them; a few stay by themselves."""
    if len(parts) <= _FEW:
        return [[k] for k in range(len(parts))]
    order = sorted(range(len(parts)), key=lambda k: (parts[k][1], drawn.scales[k]))
    groups: list[list[int]] = []
    for k in order:
        first = groups[-1][0] if groups else None
        if (
            first is not None
            and parts[first][1] == parts[k][1]
            and drawn.scales[k] <= _ALIKE * drawn.scales[first]
            and len(groups[-1]) < _TOGETHER
        ):
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


def spacing_of(parts: Parts) -> float | None:
    """The spacing of the atoms of the most frequent pair that has some: atoms on grid points are kept exactly."""
    spacings = [(count, pair.spacing()) for pair, count in parts[:64]]
    return max(((count, s) for count, s in spacings if s is not None), default=(0, None))[1]
