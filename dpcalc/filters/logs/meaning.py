"""What stands beside a value, brought into it: the noise of a step, and the order of its ρ.

A norm is divided by the noise of its own step, which may depend on earlier outputs (Feldman–Zrnic, Algorithm 3). ρ at
several orders becomes ρ at the orders of the filter: (α−1)ρ(α) is convex, so that between two orders its chord is a
bound; below the smallest the smallest's ρ is one, since ρ grows with α; above the largest nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.conversions.renyi import rdp_between
from dpcalc.errors import InputError
from dpcalc.filters.charges import UNKNOWN
from dpcalc.filters.logs.ordering import Entries
from dpcalc.filters.logs.table import LongLog, Row


def in_units_of_noise(
    log: LongLog, entries: Iterator[Entries], *, clip: float | None, clipped: Callable[[Indices], None]
) -> Iterator[Entries]:
    """Norms (clipped, and counted where they were) divided by the noise of their step, the same in all its rows."""
    place = log.columns.numbers.index("sigma")
    noise: dict[int, float] = {}
    for steps, codes, values in entries:
        sigma = values[place]
        labels, starts, inverse = np.unique(steps, return_index=True, return_inverse=True)
        stated = [noise.setdefault(step, float(sigma[at])) for step, at in zip(labels.tolist(), starts, strict=True)]
        if np.any(np.array(stated)[inverse] != sigma):
            _refuse_two(log, "sigma", noise)
        norms = values[0]
        if clip is not None:
            clipped(steps[norms > clip])
            norms = np.minimum(norms, clip)
        yield Entries(steps, codes, _rows(norms / sigma, np.delete(values, [0, place], axis=0)))


def at_the_orders_of(log: LongLog, entries: Iterator[Entries], orders: tuple[float, ...]) -> Iterator[Entries]:
    """One entry for each step of each record, with a row for each order of the filter, from ordered steps whose rows
    state ρ at one order each."""
    if log.columns.step is None:
        raise InputError("ρ at several orders needs a column step: which rows are one step?", where=log.where(1))
    for whole in _whole_steps(entries):
        yield _charged(log, whole, np.array(orders))


def _whole_steps(entries: Iterator[Entries]) -> Iterator[Entries]:
    """The same entries, none of whose steps is cut in two: the last one waits for what may follow."""
    held: Entries | None = None
    for batch in entries:
        if not batch.steps.size:
            continue
        both = [batch] if held is None else [held, batch]
        steps, codes, values = (np.concatenate(parts, axis=-1) for parts in zip(*both, strict=True))
        last = int(np.searchsorted(steps, steps[-1]))
        if last:
            yield Entries(steps[:last], codes[:last], values[:, :last])
        held = Entries(steps[last:], codes[last:], values[:, last:])
    if held is not None:
        yield held


def _charged(log: LongLog, whole: Entries, orders: Floats) -> Entries:
    place = log.columns.numbers.index("order")
    sorting = np.lexsort((whole.values[place], whole.codes, whole.steps))
    steps, codes, values = whole.steps[sorting], whole.codes[sorting], whole.values[:, sorting]
    rows = np.delete(values, [0, place], axis=0)
    starts = np.flatnonzero(np.append(True, (np.diff(steps) != 0) | (np.diff(codes) != 0)))
    found = np.empty((orders.size, starts.size))
    for number, (low, high) in enumerate(zip(starts.tolist(), [*starts[1:].tolist(), steps.size], strict=True)):
        here = values[:, low:high]
        if np.any(here[place, 1:] == here[place, :-1]):
            _refuse_repeated(log, int(steps[low]))
        if np.any(rows[:, low:high] != rows[:, low : low + 1]):
            _refuse_two(log, "delta", {int(steps[low]): float(rows[0, low])})
        curve, _ = rdp_between(here[place], here[0])
        found[:, number] = curve(orders)
    found = np.where(np.isfinite(found), found, UNKNOWN)
    return Entries(steps[starts], codes[starts], _rows(*found, rows[:, starts]))


def _rows(*parts: Floats) -> Floats:
    stacked = np.vstack([part for part in parts if part.size])
    return stacked[0] if len(stacked) == 1 else stacked


def _refuse_two(log: LongLog, column: str, stated: dict[int, float]) -> None:
    place = log.columns.numbers.index(column)

    def differs(row: Row) -> bool:
        return row.numbers[place] != stated.get(row.step, row.numbers[place])

    where = log.where(log.locate(differs))
    raise InputError(f"expected one {column} for all rows of a step, got another one", where=where)


def _refuse_repeated(log: LongLog, step: int) -> None:
    seen: set[tuple[str, float]] = set()
    place = log.columns.numbers.index("order")

    def again(row: Row) -> bool:
        if row.step != step:
            return False
        key = str(row.id), row.numbers[place]
        known = key in seen
        seen.add(key)
        return known

    raise InputError(f"step {step} has an order twice", where=log.where(log.locate(again)))
