"""The Dask engine on real worker processes: the same bits as the local one, also when a worker dies."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.cluster import _hashes
from dpcalc.filters.request import Request
from dpcalc.filters.run import Run

distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore")
NORMS = np.random.default_rng(0).random((40, 60))
GDP = Request(kind="gdp", sigma=2.0, mu=1.0)
SAMPLED = Request(kind="rdp", sigma=2.0, orders=(8.0,), rhos=(2e-3,), sample_rate=0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as running:
            yield running


def write(path: Path, order: np.ndarray, names: Any = int, group: int = 300) -> None:
    steps, people = np.divmod(order, NORMS.shape[1])
    ids = [names(person) for person in people.tolist()]
    table = pa.table({"step": steps, "id": ids, "norm": NORMS.ravel()[order]})
    parquet.write_table(table, path, row_group_size=group)


def outcome(run: Run) -> object:
    spent = sorted(zip(map(str, run.names or ()), run.filter.totals[0].tolist(), strict=True))
    counts = 0 if run.norm_counts is None else int(run.norm_counts.packed.sum())
    return run.steps.labels, run.steps.active, spent, run.filter.lost.sum(), counts


@pytest.mark.parametrize("request_", [GDP, SAMPLED], ids=["gdp", "sampled"])
@pytest.mark.parametrize("order", ["steps", "shuffled"])
@pytest.mark.parametrize("names", [int, lambda person: f"p{person}"], ids=["integers", "strings"])
def test_the_cluster_gives_the_same_as_the_local_engine(
    tmp_path: Path, cluster: Any, request_: Request, order: str, names: Any
) -> None:
    path = tmp_path / "log.parquet"
    places = np.arange(NORMS.size)
    write(path, places if order == "steps" else np.random.default_rng(2).permutation(places), names)
    local = carry_out(request_, str(path))
    there = carry_out(replace(request_, engine="dask", scheduler=cluster.scheduler_address), str(path))
    assert outcome(there) == outcome(local)


def test_a_duplicate_is_found_on_the_cluster_with_its_row(tmp_path: Path, cluster: Any) -> None:
    path = tmp_path / "log.parquet"
    write(path, np.append(np.arange(600), 7))
    with pytest.raises(InputError, match=r"log.parquet:601: step 0 of individual 7 appears twice, first on line 8"):
        carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))


def test_a_bad_number_is_found_on_the_cluster_with_its_row(tmp_path: Path, cluster: Any) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"step": [0] * 5, "id": list(range(5)), "norm": [1.0, 1.0, 1.0, -2.0, 1.0]}), path)
    with pytest.raises(InputError, match=r"log.parquet:4: expected norm in \[0, inf\), got -2.0"):
        carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))


def test_the_loss_of_a_worker_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write(path, np.arange(NORMS.size), group=20)
    local = carry_out(GDP, str(path))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as running,
        distributed.Client(running) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))

        def kill() -> None:
            time.sleep(0.6)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        there = carry_out(replace(GDP, engine="dask", scheduler=running.scheduler_address), str(path))
        killer.join()
    assert outcome(there) == outcome(local)


def test_names_are_shared_out_the_same_whatever_their_padding() -> None:
    assert _hashes(np.array(["a", "bc"])).tolist() == _hashes(np.array(["a", "bc", "longer"])).tolist()[:2]


def test_other_formats_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "log.npy", NORMS)
    with pytest.raises(InputError, match="--engine local"):
        carry_out(replace(GDP, engine="dask"), str(tmp_path / "log.npy"))
