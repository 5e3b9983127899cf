"""Workers of a Dask cluster: one that is there, or one on this machine; whatever befalls them is told in a line."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Thread
from typing import Any

from dpcalc.errors import CertificationError, DpcalcError, InputError, missing
from dpcalc.files import reason
from dpcalc.filters.logs.table import TextIds
from dpcalc.filters.shuffle import Twice, Unread

# Seconds to wait for a scheduler and for its first worker.
PATIENCE = 10
_BEYOND = 5  # seconds, for a client that does not keep to it
# Workers of our own spill beyond so many bytes, long before the machine's memory ends.
_KEPT, _RESIDENT = 700e6, 800e6
# What a worker takes before it has anything to do, and of the rest what a task may take; as much is kept for the next.
_BARE, _SHARE, _LEAST = 200e6, 0.3, 20e6


@contextmanager
def connected(scheduler: str | None, where: str) -> Iterator[Any]:
    """A client of the cluster at `scheduler`, or of one on this machine that ends with it."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise missing("`engine=dask` needs Dask", "dask") from None
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):  # each has a level of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)
    if scheduler is None:
        with own_cluster() as local, Client(local) as client:  # type: ignore[no-untyped-call]
            yield client
        return
    if "://" in scheduler and not scheduler.startswith(("tcp://", "tls://", "ws://", "wss://", "inproc://", "ucx://")):
        raise InputError("expected an address such as tcp://host:8786", where=where)
    # One attempt, and no waiting for a connection that was lost.
    with dask.config.set({"distributed.comm.timeouts.connect": PATIENCE, "distributed.comm.retry.count": 0}):
        client = _within(PATIENCE + _BEYOND, lambda: Client(scheduler, timeout=PATIENCE), where)  # type: ignore[no-untyped-call]
        try:
            with told(where):
                client.wait_for_workers(1, timeout=PATIENCE)
            yield client
        finally:
            _within(PATIENCE, client.close, where, complain=False)


def room(client: Any) -> float:
    """Bytes that a task may take on the smallest of the workers, besides what is there already."""
    found = client.scheduler_info(n_workers=-1)["workers"].values()
    return min((_room(each["memory_limit"] or math.inf) / max(1, each["nthreads"]) for each in found), default=math.inf)


def _room(limit: float) -> float:
    return max(_LEAST, _SHARE * (limit - _BARE))


@contextmanager
def own_cluster() -> Iterator[Any]:
    """A cluster on this machine, whose workers spill to disk what they do not need at once."""
    import dask
    from distributed import LocalCluster
    from distributed.system import MEMORY_LIMIT

    cores = max(1, dask.system.CPU_COUNT)
    limit = max(1, MEMORY_LIMIT // cores)
    chosen = {
        "distributed.worker.memory.target": min(_KEPT, _room(limit)) / limit,
        "distributed.worker.memory.spill": min(0.7, _RESIDENT / limit),
        # A worker that has nothing left to spill would wait for ever; without a pause it ends, and that is told.
        "distributed.worker.memory.pause": False,
        "distributed.scheduler.allowed-failures": 1,
        # Nobody looks at how the workers spend their time.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "2s",
        # Memory of large arrays is used again, which halves the time that they take.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 27,
        "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    }
    with (
        dask.config.set(chosen),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=cores,
            processes=True,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as local,
    ):
        yield local


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say in a line that the cluster failed; what was found wrong with the log stays as it is."""
    from asyncio import CancelledError as Cancelled
    from concurrent.futures import CancelledError

    try:
        yield
    except (DpcalcError, Twice, TextIds, Unread):
        raise
    except (Exception, CancelledError, Cancelled) as error:
        words = (
            f"the Dask cluster failed, has no workers or too little memory ({type(error).__name__}: {reason(error)})"
        )
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
