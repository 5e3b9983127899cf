"""The Dask engine: a log shared out by individual and folded on the workers of a cluster."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from dpcalc.errors import InputError
from dpcalc.files import locked, reason
from dpcalc.filters import workers
from dpcalc.filters.local import Log, duplicate_error, finish_run, started
from dpcalc.filters.logs import parquet_table
from dpcalc.filters.logs.long import FORMATS
from dpcalc.filters.logs.table import ByRows, LongLog, TextIds
from dpcalc.filters.run import Run
from dpcalc.filters.settings import Settings
from dpcalc.filters.shuffle import RowGroup, Twice, Unread, fold, shares, split
from dpcalc.filters.state import save_state

Advance = Callable[..., None]

_TASKS_PER_WORKER = 2
# Entries that a task reads, that are folded together (they may have to be sorted in memory), and that are shuffled
# before they are folded, where the order of the log allows that.
_READ_TOGETHER, _FOLDED_TOGETHER, _SHUFFLED_TOGETHER = 8_000_000, 8_000_000, 40_000_000
# Bytes that an entry takes while it is folded, and while it is read.
_FOLDING, _READING = 100, 50
_ROUNDS_AT_ONCE = 2
# Seconds between two looks at whether there are still workers.
_LOOK = 5


def run_on_cluster(
    log: Log,
    settings: Settings,
    *,
    scheduler: str | None,
    state: Path | None = None,
    advance: Advance = lambda *_, **__: None,
) -> Run:
    """The same run as the local engine's, on a Dask cluster: the one at `scheduler`, or one on this machine.

    The state is held from loading to saving, and written at the end only.
    """
    if not isinstance(log, LongLog):
        raise InputError("`engine=dask` reads tables, not arrays; use `engine=local`", where=log.source.name)
    if scheduler is not None and log.source.name == "standard input":
        raise InputError("workers of a cluster cannot read it: give a file that they can see", where=log.source.name)
    where = "`engine=dask`" if scheduler is None else f"`scheduler={scheduler}`"
    with ExitStack() as stack:
        stack.enter_context(nullcontext() if state is None else locked(str(state)))
        whole = started(settings, state)
        client = stack.enter_context(workers.connected(scheduler, where))
        shared = None if scheduler is None else log.source.path.parent
        by_rows = log.source.format != "parquet"
        text = any(isinstance(name, str) for name in whole.names or ())
        while True:
            try:
                readable = stack.enter_context(_as_parquet(log, shared)) if by_rows else log
                whole.join(_parts(client, readable, whole, text=text, where=where, advance=advance))
                break
            except Twice as twice:
                raise duplicate_error(log, *twice.args) from None
            except TextIds:
                text = True
            except Unread:
                try:
                    log.find_fault()
                except ByRows:
                    by_rows = True
        finish_run(whole, log)
        if state is not None:
            save_state(whole, state)
    return whole


# -- the log ---------------------------------------------------------------------------------------------------------


@contextmanager
def _as_parquet(log: LongLog, shared: Path | None) -> Iterator[LongLog]:
    """A copy of the log in Parquet while it is read: in a `shared` folder, where workers of other machines see it."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=".dpcalc-", dir=shared)
    except OSError as error:
        words = f"a copy in Parquet for the workers, beside the log, cannot be made: {reason(error)}"
        raise InputError(words, where=log.source.name) from None
    with folder as name:
        path, text_ids, by_rows = Path(name) / "log.parquet", False, False
        while True:
            try:
                _convert(log, path, text_ids, by_rows)
                break
            except TextIds:
                text_ids = True
            except ByRows:
                by_rows = True
        source = replace(log.source, path=path, format="parquet", compressed=False)
        yield replace(log, source=source, format=FORMATS["parquet"], header=tuple(log.columns.names))


def _convert(log: LongLog, path: Path, text_ids: bool, by_rows: bool) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = (pa.int64(), pa.large_string() if text_ids else pa.int64(), pa.float64())
    schema = pa.schema(list(zip(log.columns.names, kinds, strict=True)))
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in log.batches(text_ids=text_ids, by_rows=by_rows):
            ids = parquet_table.texts(batch.ids) if text_ids else batch.ids
            writer.write_table(pa.table([batch.steps, ids, batch.values], schema=schema))


def _row_groups(log: LongLog) -> tuple[list[RowGroup], bool]:
    """The row groups of all files, and whether ids are text or may be too large for integers."""
    import pyarrow as pa

    groups, text = [], False
    for path, (_, file) in zip(log.source.files(), parquet_table.opened_files(log), strict=True):
        kind = file.schema_arrow.field("id").type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        text = text or not pa.types.is_integer(kind) or pa.types.is_uint64(kind)
        for number in range(file.metadata.num_row_groups):
            found = file.metadata.row_group(number)
            groups.append(RowGroup(path.absolute(), number, found.num_rows, *_steps(found)))
    return groups, text


def _steps(row_group: Any) -> tuple[float, float]:
    """Between which steps the entries of a row group are, as far as the file says; nested columns are several."""
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        if column.path_in_schema == "step" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.min, column.statistics.max
    return -math.inf, math.inf


def _rounds(groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    """Row groups in the order of their steps, cut into rounds where no later one goes back."""
    rounds: list[list[RowGroup]] = []
    rows, reached = 0, -math.inf
    for group in sorted(groups, key=lambda group: (group.first, group.last)):
        if not rounds or (rows >= _SHUFFLED_TOGETHER and group.first > reached):
            rounds.append([])
            rows = 0
        rounds[-1].append(group)
        rows, reached = rows + group.rows, max(reached, group.last)
    return rounds


def _gathered(groups: Sequence[RowGroup], most: int) -> Iterator[list[RowGroup]]:
    """Row groups in tasks of about the same size."""
    some: list[RowGroup] = []
    for group in groups:
        some.append(group)
        if sum(group.rows for group in some) >= most:
            yield some
            some = []
    if some:
        yield some


# -- the work --------------------------------------------------------------------------------------------------------


def _parts(client: Any, log: LongLog, whole: Run, *, text: bool, where: str, advance: Advance) -> list[Run]:
    """The runs of all partitions."""
    from dask.delayed import delayed

    groups, textual = _row_groups(log)
    text = text or textual
    rounds = _rounds(groups)
    largest = max((sum(group.rows for group in some) for some in rounds), default=0)
    with workers.told(where):
        tasks = _TASKS_PER_WORKER * max(1, len(client.nthreads()))
        room = workers.room(client)
        partitions = max(tasks, math.ceil(largest / min(_FOLDED_TOGETHER, room / _FOLDING)))
        most = int(min(_READ_TOGETHER, largest // tasks + 1, room / _READING))
        # Part of the graph, not of some worker's memory: whatever worker is lost, they can be had again.
        settings = delayed(whole.settings, traverse=False)
        runs: list[Any] = [delayed(start, traverse=False) for start in _starts(whole, partitions, text)]
        reading, folding = delayed(split, nout=partitions, pure=False), delayed(fold, pure=False)
        flying: list[list[Any]] = [[]] * (_ROUNDS_AT_ONCE - 1)
        for some in rounds:
            pieces = [reading(task, log.columns, partitions, text) for task in _gathered(some, most)]
            folds = [folding(settings, run, [piece[index] for piece in pieces]) for index, run in enumerate(runs)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a state makes the graph large
                runs = client.compute(folds)
            # Left to itself, Dask reads everything first, and writes to disk what there is no room for.
            flying = [*flying[1:], runs]
            _finished(client, flying[0], advance)
        _finished(client, runs, advance)
        return cast("list[Run]", client.gather(runs))


def _starts(whole: Run, partitions: int, text: bool) -> list[Run | None]:
    """Where the run of each partition begins: what the state says about its records."""
    if not whole.individuals:
        return [None] * partitions
    names = [whole.name(record) for record in range(whole.individuals)]
    if text:
        whole.names = names = list(map(str, names))
    share = shares(parquet_table.texts(names) if text else np.array(names, dtype=np.int64), partitions)
    return [whole.part(np.flatnonzero(share == index)) for index in range(partitions)]


def _finished(client: Any, futures: list[Any], advance: Advance) -> None:
    """Wait for these, while there are workers; what went wrong is raised."""
    from distributed import wait

    pending = set(futures)
    while pending:
        try:
            done, pending = wait(list(pending), timeout=_LOOK, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
        except TimeoutError:
            client.wait_for_workers(1, timeout=workers.PATIENCE)
            continue
        for future in done:
            if future.status != "finished":
                future.result()
            advance(1)
