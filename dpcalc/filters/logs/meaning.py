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
from dpcalc.filters.logs.ordering import Entries
from dpcalc.filters.logs.table import LongLog, Row
from dpcalc.filters.rule import UNKNOWN


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
    """One entry for each step, with a row for each order of the filter, from rows that state ρ at one order each."""
    if log.columns.step is None:
        raise InputError("ρ at several orders needs a column step: which rows are one step?", where=log.where(1))
    parts = list(entries)
    steps = np.concatenate([part.steps for part in parts])
    values = np.concatenate([part.values for part in parts], axis=-1)
    place = log.columns.numbers.index("order")
    order = np.lexsort((values[place], steps))
    steps, values = steps[order], values[:, order]
    rows = np.delete(values, [0, place], axis=0)
    labels, starts = np.unique(steps, return_index=True)
    ends = [*starts[1:].tolist(), steps.size]
    found = np.empty((len(orders), labels.size))
    for number, (low, high) in enumerate(zip(starts.tolist(), ends, strict=True)):
        here = values[:, low:high]
        if np.any(here[place, 1:] == here[place, :-1]):
            _refuse_repeated(log, int(labels[number]))
        if np.any(rows[:, low:high] != rows[:, low : low + 1]):
            _refuse_two(log, "delta", {int(labels[number]): float(rows[0, low])})
        curve, _ = rdp_between(here[place], here[0])
        found[:, number] = curve(np.array(orders))
    found = np.where(np.isfinite(found), found, UNKNOWN)
    codes = np.zeros(labels.size, dtype=np.int64)
    yield Entries(labels, codes, _rows(*found, rows[:, starts]))


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
    seen: set[float] = set()
    place = log.columns.numbers.index("order")

    def again(row: Row) -> bool:
        if row.step != step:
            return False
        known = row.numbers[place] in seen
        seen.add(row.numbers[place])
        return known

    raise InputError(f"step {step} has an order twice", where=log.where(log.locate(again)))
