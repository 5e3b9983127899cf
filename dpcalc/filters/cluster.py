"""The Dask engine: a Parquet log partitioned by individual and folded on the workers of a cluster.

A fold needs each record's steps in order, and records do not depend on each other. So every row group is read once and
split by individual, and each partition carries its own run from row group to row group. Tasks never change their
inputs: a lost worker's part is computed again from the log, with the same result to the last bit.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import CertificationError, InputError
from dpcalc.files import reading, reason
from dpcalc.filters.buckets import NormCounts
from dpcalc.filters.local import Log, duplicate_error, finish_run
from dpcalc.filters.logs.identifiers import Identifiers
from dpcalc.filters.logs.parquet_table import arrow_batch
from dpcalc.filters.logs.table import Columns, LongLog
from dpcalc.filters.run import Duplicate, Run, Settings
from dpcalc.filters.totals import Totals

_PARTITIONS_PER_WORKER = 2
# Seconds to wait for a scheduler and for its first worker.
_PATIENCE = 10
# When steps are not in order across row groups, a partition is sorted in memory: keep it at most this many entries.
_ENTRIES_PER_PARTITION = 8_000_000


class RowGroup(NamedTuple):
    """A piece of a Parquet file, the steps it holds, and how many rows of its file come before it."""

    path: Path
    number: int
    rows: int
    before: int
    first_step: int
    last_step: int


class Piece(NamedTuple):
    """The entries of one partition in one row group."""

    steps: NDArray[np.int64]
    ids: Any
    values: NDArray[np.float64]


class Partition(NamedTuple):
    """The run of one share of the individuals."""

    run: Run
    ids: Identifiers


class Twice(Exception):  # noqa: N818 - turned into an error with its line by the client
    """A record that appears twice in one step."""


def run_on_cluster(
    log: Log, settings: Settings, *, scheduler: str | None, advance: Callable[..., None] = lambda *_, **__: None
) -> Run:
    """The same run as the local engine's, on a Dask cluster: the one at `scheduler`, or one on this machine."""
    if not isinstance(log, LongLog) or log.source.format != "parquet" or log.source.name == "standard input":
        raise InputError("--engine dask reads Parquet files and folders; use --engine local", where=log.source.name)
    with reading(log.source.name, "not a complete log"):
        slabs = _slabs(_row_groups(log))
    where = "--engine dask" if scheduler is None else f"--scheduler {scheduler}"
    with _client(scheduler, where) as client:
        workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        partitions = max(_PARTITIONS_PER_WORKER * workers, _needed(slabs))
        try:
            with _told(where):
                results = client.compute(_graph(log, settings, slabs, partitions))
                for _ in _completed(results):
                    advance(1)
                parts = client.gather(results)
        except Twice as twice:
            raise duplicate_error(log, *twice.args) from None
    run = merged([partition.run for partition in parts], settings)
    finish_run(run, log)
    return run


def _completed(results: list[Any]) -> Iterator[Any]:
    from distributed import as_completed

    yield from as_completed(results)  # type: ignore[no-untyped-call]


@contextmanager
def _client(scheduler: str | None, where: str) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError('--engine dask needs Dask: pip install "dpcalc-budget[dask]"') from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is None:
        local = LocalCluster(processes=True, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call]
        with local, Client(local) as client:  # type: ignore[no-untyped-call]
            yield client
        return
    if "://" in scheduler and not scheduler.startswith(("tcp://", "tls://", "ws://", "wss://", "inproc://", "ucx://")):
        raise InputError("expected an address such as tcp://host:8786", where=where)
    # One attempt, and no waiting for a connection that was lost.
    with dask.config.set({"distributed.comm.timeouts.connect": _PATIENCE, "distributed.comm.retry.count": 0}):
        client = _within(_PATIENCE + 5, lambda: Client(scheduler, timeout=_PATIENCE), where)  # type: ignore[no-untyped-call]
        try:
            with _told(where):
                client.wait_for_workers(1, timeout=_PATIENCE)
            yield client
        finally:
            _within(_PATIENCE, client.close, where, complain=False)


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Say in a line that the cluster failed; what was found wrong with the log stays as it is."""
    from asyncio import CancelledError as Cancelled
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except (OSError, TimeoutError, KilledWorker, CancelledError, Cancelled, MemoryError) as error:
        words = f"the Dask cluster failed or has no workers ({type(error).__name__}: {reason(error)})"
        raise CertificationError(words, where=where) from None


def _within(seconds: float, call: Callable[[], Any], where: str, *, complain: bool = True) -> Any:
    """What a call gives, in a thread of its own, since a silent listener may keep it for ever."""
    done: Queue[tuple[Any, Exception | None]] = Queue()

    def work() -> None:
        try:
            done.put((call(), None))
        except Exception as error:
            done.put((None, error))

    Thread(target=work, daemon=True).start()
    try:
        found, error = done.get(timeout=seconds)
    except Empty:
        found, error = None, TimeoutError(f"nothing in {seconds:g} s")
    if error is not None and complain:
        raise CertificationError(f"no Dask scheduler answers ({reason(error)})", where=where) from None
    return found


def _row_groups(log: LongLog) -> list[RowGroup]:
    from pyarrow import parquet

    found = []
    kind = None
    for path in log.source.files():
        with parquet.ParquetFile(path) as file:
            here = file.schema_arrow.field("id").type
            if here != (kind or here):
                raise InputError(f"expected ids of one type in all files, got {kind} and {here}", where=str(path))
            kind = here
            place = _leaf(file.metadata.schema, "step", path)
            before = 0
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                statistics = group.column(place).statistics
                if statistics is not None and statistics.has_min_max:
                    low, high = statistics.min, statistics.max
                else:
                    steps = file.read_row_group(number, columns=["step"]).column("step").to_numpy()
                    low, high = (steps.min(), steps.max()) if steps.size else (0, 0)
                if group.num_rows:
                    found.append(RowGroup(path, number, group.num_rows, before, int(low), int(high)))
                before += group.num_rows
    return found


def _leaf(schema: Any, name: str, path: Path) -> int:
    """The number of a column among the leaves of a Parquet file, where nested ones count several times."""
    for number in range(len(schema)):
        if schema.column(number).path == name:
            return number
    raise InputError(f"expected a plain column {name}", where=str(path))


def _slabs(groups: list[RowGroup]) -> list[list[RowGroup]]:
    """Row groups in the order of their steps; those whose steps interleave stay together, to be sorted as one."""
    slabs: list[list[RowGroup]] = []
    reached = -1
    for group in sorted(groups, key=lambda group: (group.first_step, group.last_step)):
        if group.first_step >= reached or not slabs:
            slabs.append([])
        slabs[-1].append(group)
        reached = max(reached, group.last_step)
    return slabs


def _needed(slabs: list[list[RowGroup]]) -> int:
    return max((sum(group.rows for group in slab) // _ENTRIES_PER_PARTITION + 1 for slab in slabs), default=1)


def _graph(log: LongLog, settings: Settings, slabs: list[list[RowGroup]], partitions: int) -> list[Any]:
    from dask.delayed import delayed

    start = delayed(_start, pure=False)
    split, fold, pick = delayed(_split), delayed(_fold), delayed(_pick)
    states = [start(settings) for _ in range(partitions)]
    for slab in slabs:
        parts = [split(group, log.columns, partitions) for group in slab]
        for index in range(partitions):
            states[index] = fold(states[index], [pick(part, index) for part in parts])
    return states


def _start(settings: Settings) -> Partition:
    return Partition(Run(settings), Identifiers())


def _split(group: RowGroup, columns: Columns, partitions: int) -> list[Piece]:
    import pyarrow as pa
    from pyarrow import parquet

    names = [name for name in (columns.step, columns.id, columns.value) if name is not None]
    with parquet.ParquetFile(group.path) as file:
        table = file.read_row_group(group.number, columns=names).combine_chunks()
    # Another row group may hold an id that is too large for 64 bits, and then all are text.
    if pa.types.is_uint64(table.schema.field("id").type):
        table = table.set_column(table.schema.get_field_index("id"), "id", table.column("id").cast(pa.string()))
    batch = arrow_batch(table, columns)
    if batch is None or not np.all((batch.values >= 0) & (batch.values < np.inf)):
        raise InputError(_first_bad(table, columns, group))
    text = not isinstance(batch.ids, np.ndarray)
    names_of = np.array(batch.ids.to_pylist()) if text else batch.ids
    share = (_hashes(names_of) if text else names_of) % partitions
    pieces = []
    for index in range(partitions):
        chosen = np.flatnonzero(share == index)
        pieces.append(Piece(batch.steps[chosen], names_of[chosen], batch.values[chosen]))
    return pieces


def _first_bad(table: Any, columns: Columns, group: RowGroup) -> str:
    for row, found in enumerate(table.to_pylist()):
        value = found[columns.value]
        where = f"{group.path}:{group.before + row + 1}"
        if any(field is None for field in found.values()) or type(value) not in (int, float):
            return f"{where}: expected step, id and {columns.value}, got {str(found)[:80]}"
        if not 0 <= value < float("inf"):
            return f"{where}: expected {columns.value} in [0, inf), got {value}"
    return f"{group.path}: could not be read"


def _hashes(names: NDArray[np.str_]) -> NDArray[np.int64]:
    """The same number for the same name on every worker."""
    letters = np.ascontiguousarray(names).view(np.uint32).reshape(names.size, -1).astype(np.uint64)
    mixed = np.zeros(names.size, dtype=np.uint64)
    for column in letters.T:
        # Trailing padding must not matter: names in another row group may be padded to another width.
        mixed = np.where(column > 0, mixed * np.uint64(1_000_003) + column, mixed)
    return (mixed >> np.uint64(1)).astype(np.int64)


def _pick(pieces: list[Piece], index: int) -> Piece:
    return pieces[index]


def _copied(before: Partition) -> Partition:
    """A partition that may be changed; settings and names, which never change, are shared or copied at once."""
    settings, ids = before.run.settings, before.ids.copy()
    nameless = copy.copy(before.run)
    nameless.names = None
    run = copy.deepcopy(nameless, {id(settings): settings, id(settings.rule): settings.rule})
    run.names = ids.names
    return Partition(run, ids)


def _fold(before: Partition, pieces: list[Piece]) -> Partition:
    run, ids = _copied(before)
    steps, names, values = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    order = np.argsort(steps, kind="stable")
    codes = ids.codes(names.tolist() if names.dtype.kind == "U" else names)[order]
    steps, values = steps[order], values[order]
    run.grow(len(ids), ids.names)
    edges = (np.flatnonzero(steps[1:] != steps[:-1]) + 1).tolist()
    for low, high in zip([0, *edges], [*edges, steps.size], strict=True):
        if high > low:
            try:
                run.entries(int(steps[low]), codes[low:high], values[low:high])
            except Duplicate as twice:
                raise Twice(twice.step, ids.names[twice.code]) from None
    return Partition(run, ids)


def merged(runs: list[Run], settings: Settings) -> Run:
    """One run from those of its partitions."""
    whole = Run(settings)
    names = [name for run in runs for name in run.names or ()]
    whole.grow(len(names), names)
    whole.filter.state = Totals.joined(run.filter.state for run in runs)
    whole.present = np.concatenate([run.present for run in runs])
    whole.clipped_values = sum(run.clipped_values for run in runs)
    if whole.norm_counts is not None:
        whole.norm_counts = NormCounts.joined(run.norm_counts for run in runs if run.norm_counts is not None)
    _merge_steps(whole, runs)
    return whole


def _merge_steps(whole: Run, runs: list[Run]) -> None:
    labels = sorted({label for run in runs for label in run.steps.labels})
    whole.steps.begin(labels, len(whole.group_names))
    for run in runs:
        at = np.searchsorted(labels, run.steps.view("labels"))
        for name in ("present", "value_sums", "active", "active_by_group"):
            whole.steps.view(name)[at] += run.steps.view(name)
