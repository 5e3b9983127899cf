"""The local engine: one pass over a log, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats, Indices
from dpcalc.errors import InputError
from dpcalc.files import locked
from dpcalc.filters.course import Course
from dpcalc.filters.logs.dense import DenseLog
from dpcalc.filters.logs.identifiers import Identifiers
from dpcalc.filters.logs.meaning import at_the_orders_of, in_units_of_noise
from dpcalc.filters.logs.ordering import Entries, Unsorted, checked_order, sorted_on_disk
from dpcalc.filters.logs.table import ByRows, LongLog, Row, TextIds
from dpcalc.filters.run import Duplicate, MissingStep, Run
from dpcalc.filters.settings import Settings
from dpcalc.filters.state import load_state, save_state

Log = DenseLog | LongLog
Advance = Callable[..., None]

_CHECKPOINT_SECONDS = 20.0


def run_log(
    log: Log,
    settings: Settings,
    *,
    state: Path | None = None,
    first_step: int = 0,
    advance: Advance = lambda *_, **__: None,
) -> Run:
    """The filter's run over the whole log, continued from `state` and saved there if it is given.

    The state is replaced in one move, and only ever holds whole steps: killed at any moment and started again on the
    same log, a run ends as if it had never been killed. It is held from loading to saving: a second process waits.
    """
    with nullcontext() if state is None else locked(str(state)):
        if isinstance(log, DenseLog):
            run = started(settings, state)
            _dense(log, run, state, first_step, advance)
        else:
            run = _long(log, settings, state, advance)
        finish_run(run, log)
        if state is not None:
            save_state(run, state)
        return run


def started(settings: Settings, state: Path | None) -> Run:
    """A run that has not begun, or the one that the state holds."""
    run = Run(settings)
    if state is not None and state.exists():
        load_state(run, state)
        run.resume()
    return run


def _dense(log: DenseLog, run: Run, state: Path | None, first_step: int, advance: Advance) -> None:
    known = run.individuals
    if known and (known != log.shape[1] or run.names is not None):
        raise InputError(f"the state holds {known} individuals, this array {log.shape[1]}", where=log.source.name)
    run.grow(log.shape[1])
    saver = _Saver(run, state)
    saver.course.expect(*log.shape)
    for row, block in log.blocks():
        saver.block(first_step + row, block)
        saver.whole_step()
        advance(len(block))
    saver.end()


def _long(log: LongLog, settings: Settings, state: Path | None, advance: Advance) -> Run:
    """As a stream; from the start again if ids turn out to be strings, steps out of order, or numbers odd."""
    text_ids, in_order, by_rows = False, True, False
    while True:
        run = started(settings, state)
        ids = Identifiers()
        known = run.names or list(range(run.individuals))
        text_ids = text_ids or any(isinstance(name, str) for name in known)
        for name in known:
            ids.code(str(name) if text_ids else name)
        run.names = ids.names
        entries = _coded(log, ids, text_ids, by_rows)
        try:
            ordered = checked_order(entries) if in_order else sorted_on_disk(entries)
            _fold(log, ids, _meant(log, run, ordered), _Saver(run, state), advance)
            return run
        except TextIds:
            text_ids = True
        except ByRows:
            by_rows = True
        except Unsorted:
            in_order = False


def _coded(log: LongLog, ids: Identifiers, text_ids: bool, by_rows: bool) -> Iterator[Entries]:
    for batch in log.batches(text_ids=text_ids, by_rows=by_rows):
        yield Entries(batch.steps, ids.codes(batch.ids), batch.values)


def _meant(log: LongLog, run: Run, entries: Iterator[Entries]) -> Iterator[Entries]:
    """The entries as the filter takes them: what stands beside a value is brought into it."""
    if "sigma" in log.columns.beside:
        return in_units_of_noise(log, entries, clip=run.settings.clip_before_noise, clipped=run.count_clipped)
    if "order" in log.columns.beside:
        return at_the_orders_of(log, entries, run.settings.rule.orders)
    return entries


def _fold(log: LongLog, ids: Identifiers, batches: Iterator[Entries], saver: _Saver, advance: Advance) -> None:
    run = saver.run
    for steps, codes, values in batches:
        if not steps.size:
            continue
        log.source.check_memory(people=len(ids), steps=len(run.steps.labels))
        run.grow(len(ids), ids.names)
        for low, high, dense in _stretches(steps, codes, run.individuals if values.ndim == 1 else 0):
            step = int(steps[low])
            if run.steps.labels and step > run.steps.labels[-1]:
                saver.whole_step()
            if dense:
                saver.block(step, values[low:high].reshape(-1, run.individuals))
                continue
            try:
                saver.entries(step, codes[low:high], values[..., low:high])
            except Duplicate as twice:
                raise duplicate_error(log, twice.step, ids.names[twice.code]) from None
        advance(steps.size)
    saver.end()


def _stretches(steps: Indices, codes: Indices, people: int) -> Iterator[tuple[int, int, bool]]:
    """Where the steps of a batch begin and end; those in a row that hold everybody in order come as one, as an array.

    The first step may have begun before, so it is never part of one.
    """
    starts = np.concatenate([[0], np.flatnonzero(steps[1:] != steps[:-1]) + 1])
    lengths = np.diff(starts, append=steps.size)
    dense = lengths == people
    dense[0] = False
    dense &= np.logical_and.reduceat(codes == np.arange(steps.size) - np.repeat(starts, lengths), starts)
    labels = steps[starts]
    alone = np.ones(starts.size, dtype=bool)
    alone[1:] = ~(dense[1:] & dense[:-1] & (labels[1:] == labels[:-1] + 1))
    lows = starts[alone].tolist()
    return zip(lows, [*lows[1:], steps.size], dense[alone].tolist(), strict=True)


def duplicate_error(log: LongLog, step: int, name: object) -> InputError:
    """A record that appears twice in one step, with the lines of both."""
    before: list[int] = []

    def second(row: Row) -> bool:
        if row.step == step and (log.columns.id is None or str(row.id) == str(name)):
            before.append(row.line)
        return len(before) == 2

    whom = "" if log.columns.id is None else f" of individual {str(name)[:60]}"
    line = log.locate(second)
    return InputError(f"step {step}{whom} appears twice, first on line {before[0]}", where=log.where(line))


def finish_run(run: Run, log: Log) -> None:
    """The checks that need the whole log, with the line of what they find."""
    if not run.steps.labels:
        raise InputError("the log holds no steps", where=log.source.name)
    try:
        run.finish()
    except MissingStep as gap:
        missing, following = gap.missing, gap.following
        where = log.source.name
        if isinstance(log, LongLog):
            where = log.where(log.locate(lambda row: row.step == following))
        words = f"step {missing} is missing before step {following}; steps must be numbered without gaps"
        raise InputError(words, where=where) from None


class _Saver:
    """Writes the state now and then, at the end of a step, and reads off what was spent on the way."""

    def __init__(self, run: Run, state: Path | None) -> None:
        self.run, self._state, self._last = run, state, monotonic()
        self.course, self._seen = Course(run), True

    def block(self, first: int, block: NDArray[np.floating]) -> None:
        """Steps of everybody, in as many pieces as points of the course are due."""
        for piece in self.course.pieces(len(block)):
            self.run.block(first + piece.start, block[piece])
            self.course.see(piece.stop - piece.start)
        self._seen = True

    def entries(self, step: int, codes: Indices, values: Floats) -> None:
        """Some entries of a step."""
        self.run.entries(step, codes, values)
        self._seen = False

    def whole_step(self) -> None:
        """All of the step before is there."""
        if not self._seen:
            self.course.see()
        if self._state is not None and monotonic() - self._last > _CHECKPOINT_SECONDS:
            save_state(self.run, self._state)
            self._last = monotonic()

    def end(self) -> None:
        """The log is over."""
        if not self._seen:
            self.course.see()
        self.course.end()
