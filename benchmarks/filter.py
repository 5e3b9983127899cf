"""Filters against what a bare pass over the same log costs. Each bar is a ratio measured in one run.

python benchmarks/filter.py [dense] [folds] [csv] [individual] [cluster]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.filters.carrying import carry_out
from dpcalc.filters.logs import csv_table
from dpcalc.filters.request import Request

SPOT_CHECKS = 20


def timed(work: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of several runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def bare_pass(path: Path) -> None:
    """Squares of an array, added up by column: what NumPy alone takes."""
    mapped = np.load(path, mmap_mode="r")
    total, rows = np.zeros(mapped.shape[1]), max(1, 4_000_000 // mapped.shape[1])
    for start in range(0, len(mapped), rows):
        total += np.square(mapped[start : start + rows], dtype=np.float64).sum(axis=0)


def verdict(name: str, found: float, bar: float, unit: str = "x") -> None:
    """One line: what was measured and what was promised."""
    print(f"  {name}: {found:.2f}{unit}  (bar {bar:g}{unit})  {'ok' if found <= bar else 'MISSED'}")


def dense(folder: Path) -> None:
    """60,000 individuals × 2,000 steps of float32."""
    steps, people, path = 2000, 60_000, folder / "norms.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(steps, people))
    rng = np.random.default_rng(0)
    for start in range(0, steps, 100):
        array[start : start + 100] = rng.random((100, people), dtype=np.float32)
    del array

    print("GDP individual filter, 60,000 × 2,000 float32 .npy")
    for label, budget in (("nobody is dropped", 1000.0), ("everybody is dropped at some step", 600.0)):
        request = Request(kind="gdp", sigma=1.0, norm_budget=budget)
        ratio = timed(lambda request=request: carry_out(request, str(path))) / timed(lambda: bare_pass(path))
        verdict(f"time against a bare NumPy pass, {label}", ratio, 3)
    program = (
        "import resource, sys; from pathlib import Path; from dpcalc.filters.carrying import *\n"
        "carry_out(Request(kind='gdp', sigma=1.0, norm_budget=600.0), sys.argv[1])\n"
        "print(open('/proc/self/status').read() if sys.platform == 'linux' else '')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    peak = {line.split(":")[0]: line.split() for line in done.stdout.splitlines() if line}
    if "VmHWM" in peak:
        beyond = int(peak["VmHWM"][1]) / 1024 - path.stat().st_size / 2**20
        verdict("largest resident memory beyond the mapped file", beyond, 300, " MB")


def lost_part(request: Callable[..., Request], path: Path, part: float) -> float:
    """An ε under which the first records lose about this part of their steps."""
    some = path.with_name("some.npy")
    np.save(some, np.load(path, mmap_mode="r")[:, :100])
    low, high = 0.01, 100.0
    for _ in range(10):
        middle = (low * high) ** 0.5
        run = carry_out(request(epsilon=middle), str(some))
        low, high = (middle, high) if 1 - np.mean(run.steps.active) / 100 > part else (low, middle)
    return high


FOLDS = ((100, 100_000), (1_000, 10_000), (65_536, 160), (1_000_000, 20))


def folds(folder: Path) -> None:
    """Dense float32 logs of four widths: ns an entry of the whole fold, in processor time."""
    words = "nobody dropped / half / half clipped / RDP, half / sampled / half / DP, half"
    words += " / mixture / two thirds of the steps refused / nearly all"
    print(f"Folds of dense logs, ns an entry (bar 25): a bare pass | {words}")
    rng = np.random.default_rng(0)
    for people, steps in FOLDS:
        path = folder / "norms.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(steps, people))
        for start in range(0, steps, 10):
            array[start : start + 10] = np.minimum(rng.lognormal(-1, 0.6, (len(array[start : start + 10]), people)), 1)
        del array
        half = float(np.median(np.square(np.load(path, mmap_mode="r")[:, :2000], dtype=np.float64).sum(axis=0))) / 2
        summed = float(np.median(np.load(path, mmap_mode="r")[:, :2000].sum(axis=0, dtype=np.float64))) / 2
        sampled = {"kind": "rdp", "noise_multiplier": 1.0, "clip": 1.0, "orders": (8.0,), "sample_rate": 0.01}
        spent = carry_out(Request(**sampled, rhos=(1e9,)), str(path)).filter.spent
        mixture = partial(Request, kind="rdp", sigma=1.0, sample_rate=0.01, delta=1e-6)
        requests = (
            Request(kind="gdp", sigma=1.0, clip=1.0, norm_budget=1e9),
            Request(kind="gdp", sigma=1.0, clip=1.0, norm_budget=half),
            Request(kind="gdp", sigma=1.0, clip=1.0, norm_budget=half, mode="clip"),
            Request(kind="rdp", sigma=1.0, clip=1.0, norm_budget=half),
            Request(**sampled, rhos=(1e9,)),
            Request(**sampled, rhos=(float(np.median(spent)) / 2,)),
            Request(kind="dp", epsilon=summed, delta=1e-6),
            mixture(epsilon=1e4),
            mixture(epsilon=lost_part(mixture, path, 2 / 3)),
            mixture(epsilon=lost_part(mixture, path, 0.95)),
        )
        works = [partial(bare_pass, path), *(partial(carry_out, request, str(path)) for request in requests)]
        plain, *found = (timed(work, clock=time.process_time) / (people * steps) * 1e9 for work in works)
        words = " / ".join(f"{nanoseconds:.1f}" for nanoseconds in found)
        print(f"  {people:,} × {steps:,}: {plain:.1f} | {words}  {'ok' if max(found) <= 25 else 'MISSED'}")


def csv(folder: Path) -> None:
    """A long CSV file, with pyarrow and without."""
    import pandas as pd

    path, steps, people = folder / "norms.csv", 100, 30_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"step": np.repeat(np.arange(steps), people), "id": np.tile(np.arange(people), steps)})
    frame["norm"] = rng.random(len(frame)).round(6)
    frame.to_csv(path, index=False)

    def with_pandas() -> None:
        table = pd.read_csv(path)
        (table["norm"] ** 2).groupby(table["id"]).sum()

    request = Request(kind="gdp", sigma=10.0, mu=0.5)
    print(f"Long CSV, {len(frame):,} rows")
    baseline = timed(with_pandas)
    verdict("time against pandas, with pyarrow", timed(lambda: carry_out(request, str(path))) / baseline, 1)
    fast, csv_table._arrow = csv_table._arrow, csv_table._plain
    verdict("time against pandas, without pyarrow", timed(lambda: carry_out(request, str(path)), 1) / baseline, 6)
    csv_table._arrow = fast


def individual(folder: Path) -> None:
    """Individual ε by PLD: 1,000 individuals × 10,000 steps, σ = 2, q = .005, δ = 1e-5."""
    from dpcalc.accounting.compose import compose
    from dpcalc.filters.individual import epsilons
    from dpcalc.mechanisms.gaussian import Gaussian
    from dpcalc.mechanisms.sampled import PoissonSampled

    people, steps, sigma, rate, delta = 1000, 10_000, 2.0, 0.005, 1e-5
    rng = np.random.default_rng(0)
    typical = rng.uniform(0.05, 1, people)
    norms = np.minimum(np.ceil(typical * rng.lognormal(0, 0.5, (steps, people)) * 50) / 50, 1.0)
    path = folder / "norms.npy"
    np.save(path, norms)
    request = Request(kind="rdp", noise_multiplier=sigma, clip=1.0, orders=(8.0,), rhos=(100.0,), sample_rate=rate)
    start = time.process_time()
    found = epsilons(carry_out(request, str(path)), delta)
    ours = (time.process_time() - start) / people
    start = time.process_time()
    published = bucketed_fft(norms[:, 0], sigma, rate, delta)
    theirs = time.process_time() - start
    print(f"Individual ε, 1,000 × 10,000: {1e3 * ours:.2f} ms each; bucketed 2,000,000-point FFT {theirs:.1f} s each")
    print(f"  first individual: {found[0]:.6f}, FFT method {published:.6f}")
    speed = theirs / ours
    print(f"  times faster per individual: {speed:.0f}  (bar 1000)  {'ok' if speed >= 1000 else 'MISSED'}")
    excess = []
    for record in rng.choice(people, SPOT_CHECKS, replace=False):
        values, counts = np.unique(norms[:, record], return_counts=True)
        parts = [
            (PoissonSampled(base=Gaussian(noise_multiplier=sigma / v, adjacency="add-remove"), sampling_rate=rate), n)
            for v, n in zip(values.tolist(), counts.tolist(), strict=True)
        ]
        excess.append(found[record] / compose(parts, delta=delta).epsilon - 1)
    low, high = 100 * min(excess), 100 * max(excess)
    print(f"  above compose on {len(excess)} individuals: {low:.3f} % to {high:.3f} %  (bar 0 to 1)")


def bucketed_fft(norms: np.ndarray, sigma: float, rate: float, delta: float) -> float:
    """Koskela et al., §D, written plainly: noise ratios in 100 buckets, 2,000,000-point FFTs, bisection on ε."""
    points, half = 2_000_000, 20.0
    grid = np.linspace(-half, half, points, endpoint=False)
    ratios = sigma / norms[norms > 0]
    edges = np.linspace(ratios.min(), ratios.max(), 101)
    counts = np.bincount(np.clip(np.searchsorted(edges, ratios, side="right") - 1, 0, 99), minlength=100)
    product = np.ones(points // 2 + 1, dtype=np.complex128)
    for noise, count in zip(edges[:-1], counts, strict=True):
        if count:
            product *= np.fft.rfft(np.fft.ifftshift(loss_masses(grid, float(noise), rate))) ** count
    masses = np.fft.fftshift(np.fft.irfft(product, points))
    low, high = 0.0, half
    for _ in range(40):
        middle = (low + high) / 2
        above = grid > middle
        if np.sum(-np.expm1(middle - grid[above]) * masses[above]) > delta:
            low = middle
        else:
            high = middle
    return high


def loss_masses(grid: np.ndarray, noise: float, rate: float) -> np.ndarray:
    """The privacy-loss distribution of one subsampled Gaussian step, rounded up to the grid."""
    from scipy.special import ndtr

    with np.errstate(invalid="ignore", divide="ignore"):
        place = noise**2 * np.log((np.exp(grid) - 1 + rate) / rate) + 0.5
    place = np.where(np.exp(grid) > 1 - rate, place, -np.inf)
    below = (1 - rate) * ndtr(place / noise) + rate * ndtr((place - 1) / noise)
    return np.diff(below, prepend=0.0)


def cluster(folder: Path) -> None:
    """1,000,000 individuals × 200 steps (or CLUSTER_STEPS) of Parquet through Dask, a local worker for each core."""
    import pyarrow as pa
    from pyarrow import parquet

    from dpcalc.filters import workers

    people, steps = 1_000_000, int(os.environ.get("CLUSTER_STEPS", "200"))
    rng = np.random.default_rng(0)
    ids = pa.array(np.arange(people))
    for step in range(steps):
        norms = pa.array(rng.random(people, dtype=np.float32))
        table = pa.table({"step": pa.array(np.full(people, step)), "id": ids, "norm": norms})
        parquet.write_table(table, folder / f"{step:03}.parquet")
    request = Request(kind="gdp", sigma=1.0, norm_budget=0.3 * steps)
    wall, processor = time.perf_counter(), time.process_time()
    local = carry_out(request, str(folder))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    peaks: list[float] = []

    @contextmanager
    def watched() -> Iterator[Any]:
        with own_cluster() as running:
            yield running
            peaks.extend(worker_peak(nanny.process.pid) for nanny in running.workers.values())

    own_cluster, workers.own_cluster = workers.own_cluster, watched
    start, here, there = time.perf_counter(), time.process_time(), children()
    run = carry_out(replace(request, engine="dask"), str(folder))
    assert run.filter.lost.sum() == local.filter.lost.sum()
    print(f"Dask with workers of its own, {people * steps:,} entries; the local engine took {processor:.1f} s")
    verdict("wall time against the local engine", (time.perf_counter() - start) / wall, 1.2)
    verdict("processor time against it", (time.process_time() - here + children() - there) / processor, 2)
    verdict("largest resident memory of a worker", max(peaks), 1000, " MB")


def children() -> float:
    """The processor time of processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def worker_peak(process: int) -> float:
    """The largest resident memory of a process, in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000


BENCHMARKS = {"dense": dense, "folds": folds, "csv": csv, "individual": individual, "cluster": cluster}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}; all, without one")
    chosen = parser.parse_args().names or list(BENCHMARKS)
    if unknown := set(chosen) - set(BENCHMARKS):
        parser.error(f"expected names among {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}")
    for name in chosen:
        with tempfile.TemporaryDirectory() as work:
            BENCHMARKS[name](Path(work))
