"""The Dask engine on real worker processes: the same bits as the local one, also when a worker dies."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.errors import CertificationError, InputError
from dpcalc.filters import cluster as engine
from dpcalc.filters import workers
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.logs.parquet_table import texts
from dpcalc.filters.request import Request
from dpcalc.filters.run import Run
from dpcalc.filters.shuffle import shares

dask = pytest.importorskip("dask")
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


def test_a_step_that_is_there_twice_as_a_whole_is_found(tmp_path: Path, cluster: Any) -> None:
    """Steps of everybody are folded together, and remember who was there all the same."""
    path, width = tmp_path / "log.parquet", NORMS.shape[1]
    write(path, np.append(np.arange(10 * width), np.arange(9 * width, 10 * width)), group=width)
    with pytest.raises(InputError, match=r"log.parquet:6\d\d: step 9 of individual \d+ appears twice, first on line 5"):
        carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))


def test_rounds_follow_each_other(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins where the one before it ended, with its people and others; at most two are under way."""
    path, width = tmp_path / "log.parquet", NORMS.shape[1]
    order = np.arange(NORMS.size)
    write(path, order[(order % width < 40) | (order >= 25 * width)], names=lambda person: 3 * person + 7, group=40)
    monkeypatch.setattr(engine, "_SHUFFLED_TOGETHER", 100)
    assert len(engine._rounds(engine._row_groups(_log(path))[0])) > 5
    there = carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))
    assert outcome(there) == outcome(carry_out(GDP, str(path)))


def test_a_bad_number_is_found_on_the_cluster_with_its_row(tmp_path: Path, cluster: Any) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"step": [0] * 5, "id": list(range(5)), "norm": [1.0, 1.0, 1.0, -2.0, 1.0]}), path)
    with pytest.raises(InputError, match=r"log.parquet:4: expected norm in \[0, inf\), got -2.0"):
        carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))


def test_the_loss_of_a_worker_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is killed in the middle of a fold that waits for it."""
    path, begun = tmp_path / "log.parquet", tmp_path / "begun"
    write(path, np.arange(NORMS.size), group=20)
    local = carry_out(GDP, str(path))

    def fold(*arguments: Any) -> Any:
        from dpcalc.filters.shuffle import fold as real

        with suppress(FileExistsError), begun.open("x") as file:
            file.write(str(os.getpid()))
            file.close()
            time.sleep(600)
        return real(*arguments)

    def kill() -> None:
        while not begun.exists() or not begun.read_text():
            time.sleep(0.01)
        os.kill(int(begun.read_text()), signal.SIGKILL)

    monkeypatch.setattr(engine, "fold", fold)
    monkeypatch.setattr(workers, "PATIENCE", 300)  # on a busy machine another one takes its time to come
    killer = threading.Thread(target=kill)
    killer.start()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as running:
        there = carry_out(replace(GDP, engine="dask", scheduler=running.scheduler_address), str(path))
    killer.join()
    assert outcome(there) == outcome(local)


def test_a_worker_that_runs_out_of_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nanny ends it for taking more than it may; the scheduler does not try another one here."""
    path = tmp_path / "log.parquet"
    write(path, np.arange(NORMS.size))

    def split(*_: Any) -> None:
        taken = []
        while True:
            taken.append(np.ones(1_000_000))
            time.sleep(0.01)

    monkeypatch.setattr(engine, "split", split)
    little = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "memory_limit": "300MB"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**little, dashboard_address=None, silence_logs=logging.CRITICAL) as running,
        pytest.raises(CertificationError, match="has no workers or too little memory") as error,
    ):
        carry_out(replace(GDP, engine="dask", scheduler=running.scheduler_address), str(path))
    assert "\n" not in str(error.value)


_HELD: list[Any] = []


def _hold(share: float, limit: int) -> float:
    """Memory that cannot be spilled, up to a share of the limit; and the time for a worker to notice."""
    import psutil

    process = psutil.Process()
    while process.memory_info().rss < share * limit:
        _HELD.append(np.ones(500_000))
    time.sleep(1)
    return process.memory_info().rss / limit


def test_a_worker_with_little_memory_left_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask pauses it at 80 %, for ever where there is nothing to spill, and nobody would hear of it."""
    limit = 600_000_000
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", limit)
    monkeypatch.setattr("dask.system.CPU_COUNT", 1)
    with workers.own_cluster() as local, distributed.Client(local) as client:
        assert 0.8 < client.submit(_hold, 0.85, limit).result(timeout=30) < 0.95
        assert client.submit(sum, [1, 2]).result(timeout=15) == 3


def test_workers_with_less_memory_than_the_log_takes_spill_and_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's steps are in no order, so that nothing can be folded before all has been shuffled."""
    path, disk = tmp_path / "log.parquet", tmp_path / "disk"
    order = np.random.default_rng(4).permutation(6_000_000)
    steps, people = np.divmod(order, 60_000)
    norms = np.random.default_rng(5).random(order.size)
    parquet.write_table(pa.table({"step": steps, "id": people, "norm": norms}), path, row_group_size=100_000)
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 320_000_000)
    monkeypatch.setattr("dask.system.CPU_COUNT", 1)
    spilled, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            with suppress(OSError):  # they come and go
                spilled.append(sum(file.stat().st_size for file in disk.glob("**/storage/*")))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with dask.config.set({"temporary-directory": str(disk)}):
            there = carry_out(replace(GDP, engine="dask"), str(path))
    finally:
        done.set()
        looking.join()
    assert max(spilled) > 20_000_000
    assert outcome(there) == outcome(carry_out(GDP, str(path)))


def test_names_are_shared_out_the_same_wherever_they_stand() -> None:
    names = np.array(["a", "bc", "longer", "a", "ä"])
    together = shares(texts(names), 7).tolist()
    assert together == [int(shares(texts(names[i : i + 1]), 7)[0]) for i in range(names.size)]
    many = texts(np.array([f"p{n}" for n in range(7000)]))
    assert np.bincount(shares(many, 7)).min() > 800
    assert np.bincount(shares(7 * np.arange(7000), 7)).min() > 800


def test_a_nested_column_before_the_steps_changes_nothing(tmp_path: Path, cluster: Any) -> None:
    """Its numbers fall while the steps rise: whoever takes them for the steps goes backwards."""
    order = np.arange(NORMS.size)
    steps, people = np.divmod(order, NORMS.shape[1])
    columns = {"step": steps, "id": people, "norm": NORMS.ravel()}
    parquet.write_table(pa.table(columns), tmp_path / "plain.parquet", row_group_size=100)
    groups, _ = engine._row_groups(_log(tmp_path / "plain.parquet"))
    nested = {"more": pa.array([{"x": float(-n)} for n in order.tolist()]), **columns}
    parquet.write_table(pa.table(nested), tmp_path / "nested.parquet", row_group_size=100)
    metadata = parquet.ParquetFile(tmp_path / "nested.parquet").metadata
    found = [engine._steps(metadata.row_group(number)) for number in range(metadata.num_row_groups)]
    assert found == [(group.first, group.last) for group in groups]


def _log(path: Path) -> Any:
    from dpcalc.filters.logs.long import open_long
    from dpcalc.filters.logs.source import open_source

    with open_source(str(path)) as source:
        return open_long(source, quantities=["norm"], individual=True)


def test_rounds_are_cut_only_where_no_later_step_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_SHUFFLED_TOGETHER", 10)
    ranges = [(0, 1), (2, 3), (3, 3), (4, 6), (5, 5), (6, 8), (9, 9)]
    groups = [engine.RowGroup(Path(str(n)), 0, 10, *steps) for n, steps in enumerate(ranges)]
    found = [[(group.first, group.last) for group in some] for some in engine._rounds(groups[::-1])]
    assert found == [[(0, 1)], [(2, 3), (3, 3)], [(4, 6), (5, 5), (6, 8)], [(9, 9)]]
    unknown = engine.RowGroup(Path("x"), 0, 10, -np.inf, np.inf)
    assert len(engine._rounds([*groups, unknown])) == 1


@pytest.mark.parametrize("names", [int, lambda person: f"0{person}"], ids=["integers", "text"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "csv.gz"])
def test_other_tables_are_converted_once(tmp_path: Path, cluster: Any, suffix: str, names: Any) -> None:
    import gzip
    import json

    path = tmp_path / f"log.{suffix}"
    rows = [(step, names(person), float(NORMS[step, person])) for step in range(12) for person in range(60)]
    if suffix == "jsonl":
        text = "".join(json.dumps(dict(zip(("step", "id", "norm"), row, strict=True))) + "\n" for row in rows)
    else:
        text = "step,id,norm\n" + "".join(f"{step},{name},{norm!r}\n" for step, name, norm in rows)
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    there = carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))
    assert outcome(there) == outcome(carry_out(GDP, str(path)))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_state_goes_on_from_engine_to_engine(tmp_path: Path, cluster: Any) -> None:
    """Any of the two may take up what the other has left; what was counted is recognised, by its people too."""
    order, width = np.arange(NORMS.size), NORMS.shape[1]
    write(tmp_path / "all.parquet", order)
    write(tmp_path / "half.parquet", order[: 17 * width])
    write(tmp_path / "other.parquet", order[: 17 * width], names=lambda person: (person + 1) % width)
    once = carry_out(GDP, str(tmp_path / "all.parquet"))
    there = {"engine": "dask", "scheduler": cluster.scheduler_address}
    for number, (first, second) in enumerate([(there, there), (there, {}), ({}, there)]):
        kept = {"state": tmp_path / f"state{number}"}
        carry_out(replace(GDP, **first, **kept), str(tmp_path / "half.parquet"))
        run = carry_out(replace(GDP, **second, **kept), str(tmp_path / "all.parquet"))
        assert run.skipped == 17
        assert outcome(run) == outcome(once)
        with pytest.raises(InputError, match="is not the one that the state has counted"):
            carry_out(replace(GDP, **second, **kept), str(tmp_path / "other.parquet"))


def test_new_people_join_a_state_on_the_cluster(tmp_path: Path, cluster: Any) -> None:
    table = {"step": [0, 0, 1, 1, 1], "id": ["a", "b", "a", "b", "c"], "norm": [0.5, 1.5, 0.5, 1.5, 1.0]}
    parquet.write_table(pa.table({name: column[:2] for name, column in table.items()}), tmp_path / "first.parquet")
    parquet.write_table(pa.table({name: column[2:] for name, column in table.items()}), tmp_path / "then.parquet")
    parquet.write_table(pa.table(table), tmp_path / "whole.parquet")
    there = replace(GDP, engine="dask", scheduler=cluster.scheduler_address, state=tmp_path / "state")
    carry_out(there, str(tmp_path / "first.parquet"))
    assert outcome(carry_out(there, str(tmp_path / "then.parquet"))) == outcome(
        carry_out(GDP, str(tmp_path / "whole.parquet"))
    )


def test_numbers_that_are_text_in_parquet_are_read_as_they_are_here(tmp_path: Path, cluster: Any) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"step": [0, 0, 1], "id": [1, 2, 1], "norm": ["1/2", "0.25", "1"]}), path)
    there = carry_out(replace(GDP, engine="dask", scheduler=cluster.scheduler_address), str(path))
    assert outcome(there) == outcome(carry_out(GDP, str(path)))


def test_a_scheduler_without_workers_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1)
    write(tmp_path / "log.parquet", np.arange(60))
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, processes=False) as empty,
        pytest.raises(CertificationError, match="has no workers"),
    ):
        carry_out(replace(GDP, engine="dask", scheduler=empty.scheduler_address), str(tmp_path / "log.parquet"))


@pytest.mark.parametrize("listening", [True, False])
def test_a_port_that_is_silent_or_dead_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: bool
) -> None:
    import socket

    monkeypatch.setattr(workers, "PATIENCE", 1)
    monkeypatch.setattr(workers, "_BEYOND", 0.5)
    write(tmp_path / "log.parquet", np.arange(60))
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if listening:
            port.listen()
        address = f"tcp://127.0.0.1:{port.getsockname()[1]}"
        with pytest.raises(CertificationError, match="no Dask scheduler answers"):
            carry_out(replace(GDP, engine="dask", scheduler=address), str(tmp_path / "log.parquet"))


def test_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "log.npy", NORMS)
    with pytest.raises(InputError, match="`engine=local`"):
        carry_out(replace(GDP, engine="dask"), str(tmp_path / "log.npy"))
