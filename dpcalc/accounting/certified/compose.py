"""*Compose*: the product of independent laws (L4), which is the law of both mechanisms together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpcalc.accounting.certified.coarsen import coarsening, to_next_grid
from dpcalc.accounting.certified.convolve import SHORT, convolved
from dpcalc.accounting.certified.law import UPPER, Component, Direction, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.rounding import SMALLEST_NORMAL, accumulated

_PER_PRODUCT = 16
_SMALL_POWER = 8  # rows whose total is within 2^±8 are left as they are


def product(x: Law, y: Law, *, short: int = SHORT, worse: Direction = "remove") -> Law:
    """The law of two independent ratios multiplied; two batches are multiplied law by law. Both have one step.

    Every pair of grids meets on the coarser one: component k of one law with components 0 … k of the other.
    """
    if (x.step, x.tilt) != (y.step, y.tilt):
        raise ValueError("laws on different grids or scales have no product")
    components: dict[int, Component] = {}
    if not x.components or not y.components:  # everything was cut off, and is in the ledger
        return Law(x.step, components, x.ledger.then(y.ledger), x.count + y.count, x.lower & y.lower, x.tilt)
    terms = float(_PER_PRODUCT)
    fine_x: Component | None = None
    fine_y: Component | None = None
    lower = x.lower & y.lower
    for k in range(min((*x.components, *y.components)), max((*x.components, *y.components)) + 1):
        here_x, here_y = x.components.get(k), y.components.get(k)
        up_x = fine_x if here_x is None else here_x.plus(fine_x)
        up_y = up_x if x is y else fine_y if here_y is None else here_y.plus(fine_y)
        pairs = [(here_x, up_y), (fine_x, here_y)]
        if x is y and here_x is not None:
            pairs = [(here_x, here_x if fine_x is None else here_x.plus(Component(fine_x.start, 2 * fine_x.rows)))]
        for a, b in pairs:
            if a is not None and b is not None:
                out, direct = convolved(a, b, x.step_of(k) * (1 + abs(x.tilt)), short=short, worse=worse)
                lower = lower if direct else lower & {worse}
                components[k] = out.plus(components.get(k))
                terms += min(a.size, b.size)
        terms += 2 * coarsening(x.step_of(k), x.tilt)  # both laws may be coarsened on the way to the next grid
        last = k == max((*x.components, *y.components))
        fine_x = None if up_x is None or last else to_next_grid(up_x, x.step_of(k), x.tilt)
        fine_y = fine_x if x is y else None if up_y is None or last else to_next_grid(up_y, x.step_of(k), x.tilt)
    total = _total(x)
    entry = terms * SMALLEST_NORMAL
    for part in components.values():
        part.rows[..., UPPER, :] += entry  # what numbers below the normal range may have lost, where it was
    ledger = x.ledger.then(y.ledger, (total, total if x is y else _total(y)))
    ledger = ledger.plus(relative=x.batch * accumulated(terms), lost=entry)
    return _rescaled(Law(x.step, components, ledger, x.count + y.count, lower, x.tilt, x.scale + y.scale))


def _rescaled(law: Law) -> Law:
    """The law with rows whose largest total is about 1: powers of two are exact."""
    power = math.frexp(_total(law))[1]
    if abs(power) < _SMALL_POWER or law.batch > 1:
        return law
    components = {k: Component(part.start, np.ldexp(part.rows, -power)) for k, part in law.components.items()}
    for part in components.values():
        part.rows[..., UPPER, :] += SMALLEST_NORMAL  # what scaling down takes from the smallest
    ledger = replace(law.ledger, lost=law.ledger.lost * 2.0**-power + SMALLEST_NORMAL)
    return replace(law, components=components, ledger=ledger, scale=law.scale + power)


def _total(law: Law) -> float:
    """The largest sum of a row."""
    return float(sum(np.max(part.rows.sum(axis=-1), initial=0.0) for part in law.components.values())) * 1.001


def halved(law: Law, *, short: int = SHORT, worse: Direction = "remove") -> Law:
    """A batch with its laws multiplied two by two; one that is left over stays as it is."""
    half = law.batch // 2
    first, second = _part(law, slice(0, half)), _part(law, slice(half, 2 * half))
    first = replace(first, ledger=Ledger(lost=law.ledger.lost), count=0)
    done = product(first, second, short=short, worse=worse)
    if law.batch % 2 == 0:
        return done
    rest = law.batch - 1
    return _appended(done, {k: part.take(slice(rest, None)) for k, part in law.components.items()})


def split(law: Law, size: int) -> list[Law]:
    """A batch as batches of at most so many laws; the first has what is in the ledger of all."""
    if law.batch <= size:
        return [law]
    parts = [_part(law, slice(start, min(start + size, law.batch))) for start in range(0, law.batch, size)]
    each, bare = law.count // law.batch, Ledger(lost=law.ledger.lost)
    counted = [replace(part, ledger=bare, count=each * part.batch) for part in parts]
    return [replace(counted[0], ledger=law.ledger, count=law.count - each * (law.batch - parts[0].batch)), *counted[1:]]


def _part(law: Law, laws: slice) -> Law:
    return replace(law, components={k: part.take(laws) for k, part in law.components.items()})


def _appended(law: Law, one: dict[int, Component]) -> Law:
    """A batch with one law more (its part of the ledger is in already)."""
    components: dict[int, Component] = {}
    for k in {*law.components, *one}:
        parts = [(at, part) for at, part in ((0, law.components.get(k)), (law.batch, one.get(k))) if part is not None]
        start = min(part.start for _, part in parts)
        end = max(part.start + part.size for _, part in parts)
        rows = np.zeros((law.batch + 1, 3, end - start))
        for at, part in parts:
            rows[at : at + len(part.rows), :, part.start - start : part.start - start + part.size] = part.rows
        components[k] = Component(start, rows)
    return replace(law, components=dict(sorted(components.items())))


def single(law: Law) -> Law:
    """A batch of one as a law."""
    return replace(law, components={k: Component(part.start, part.rows[0]) for k, part in law.components.items()})
