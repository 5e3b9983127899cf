"""Individual ε under sampling against certified brackets of `compose`, on random records.

    python benchmarks/individual.py [records] [seed] [--wide | --rare]
    python benchmarks/individual.py --people

Prints how many were below the certified lower bound (none may be), and how far above the upper one the others are.
Without an option: q 1e-4…0.2, z 0.5…10, T 10…10⁵, δ 1e-12…1e-3; --wide: q 1e-7…1, z 0.2…20, T 1…10⁶, δ 1e-60…0.9;
--rare: q 1e-7…1e-4, z 0.2…1.5, T 10³…10⁶, δ 1e-12…1e-2. --people: processor time a person, for 10⁵ people.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpcalc.accounting.compose import compose
from dpcalc.filters.buckets import Buckets, NormCounts
from dpcalc.filters.individual import sampled_epsilons
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled

Steps = dict[float, int]


class Record(NamedTuple):
    """Norms (relative to the clip) with how often each occurs, under noise z, rate q, at δ."""

    rate: float
    noise: float
    delta: float
    steps: Steps


def _shared(norms: list[float], total: int, rng: np.random.Generator) -> Steps:
    counts = rng.multinomial(total, rng.dirichlet(np.ones(len(norms))))
    return {norm: int(count) for norm, count in zip(norms, counts, strict=True) if count}


SHAPES: dict[str, Callable[[int, np.random.Generator], Steps]] = {
    "at the clip": lambda total, _: {1.0: total},
    "one norm": lambda total, rng: {float(rng.uniform(0.01, 1)): total},
    "a tiny norm": lambda total, rng: {float(10 ** rng.uniform(-4, -1)): total},
    "one large": lambda total, rng: {float(rng.uniform(0.5, 1)): 1, float(rng.uniform(0.01, 0.2)): max(1, total - 1)},
    "a few large": lambda total, rng: {1.0: max(1, total // 50), float(rng.uniform(0.01, 0.3)): total},
    "two levels": lambda total, rng: _shared([1.0, float(rng.uniform(0.02, 0.9))], total, rng),
    "uniform": lambda total, rng: _shared(rng.uniform(0.05, 1, 4).tolist(), total, rng),
    "lognormal": lambda total, rng: _shared(np.minimum(rng.lognormal(-1.5, 1, 5), 1).tolist(), total, rng),
    "with zeros": lambda total, rng: {0.0: total, **_shared(rng.uniform(0.1, 1, 2).tolist(), total, rng)},
}


def random_record(rng: np.random.Generator, *, wide: bool = False, rare: bool = False) -> Record:
    """A record whose parameters are drawn from the ranges above."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    shape = SHAPES[list(SHAPES)[rng.integers(len(SHAPES))]]
    if rare:
        noise, steps = between(0.2, 1.5), round(between(1e3, 1e6))
        return Record(between(1e-7, 1e-4), noise, between(1e-12, 1e-2), shape(steps, rng))
    if wide:
        delta = between(1e-60, 1e-12) if rng.random() < 0.3 else between(1e-12, 0.9)
        return Record(between(1e-7, 1), between(0.2, 20), delta, shape(round(between(1, 1e6)), rng))
    return Record(between(1e-4, 0.2), between(0.5, 10), between(1e-12, 1e-3), shape(round(between(10, 1e5)), rng))


def counts_of(record: Record) -> NormCounts:
    """The record's counts, as a log would give them."""
    buckets = Buckets(sigma=record.noise, clip=1.0)
    counts = NormCounts(buckets, record.rate, 1)
    for norm, times in record.steps.items():
        counts.repeat(np.array([norm]), times)
    return counts


def certified(record: Record) -> tuple[float, float]:
    """Lower and upper bound on its ε."""
    parts = [
        (
            PoissonSampled(
                base=Gaussian(noise_multiplier=record.noise / norm, adjacency="add-remove"), sampling_rate=record.rate
            ),
            times,
        )
        for norm, times in record.steps.items()
        if norm
    ]
    if not parts:
        return 0.0, 0.0
    found = compose(parts, delta=record.delta)
    assert found.epsilon is not None
    return found.epsilon_lower or 0.0, found.epsilon


def people(number: int = 100_000, steps: int = 200) -> None:
    """How long everybody's ε takes: z = 1, q = 0.01, norms that differ from person to person and from step to step."""
    rng = np.random.default_rng(1)
    counts = NormCounts(Buckets(sigma=1.0, clip=1.0), 0.01, number)
    usual = rng.lognormal(-1, 1, number)
    for _ in range(steps // 50):
        counts.add(np.minimum(usual * rng.lognormal(0, 0.5, (50, number)), 1).astype(np.float32))
    begun = time.process_time()
    found = sampled_epsilons(counts, 1e-5)
    spent = time.process_time() - begun
    print(f"{1e6 * spent / number:.0f} µs a person (bar 150), {number:,} people; median ε {np.median(found):.4f}")


def main() -> None:
    wide, rare = "--wide" in sys.argv, "--rare" in sys.argv
    numbers = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
    records, seed = (numbers + [200, 0][len(numbers) :])[:2]
    rng, ratios, below, ours, theirs = np.random.default_rng(seed), [], 0, 0.0, 0.0
    for number in range(records):
        record = random_record(rng, wide=wide, rare=rare)
        clock = [time.process_time()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = float(sampled_epsilons(counts_of(record), record.delta)[0])
        clock.append(time.process_time())
        try:
            low, high = certified(record)
        except ValueError as error:
            print(f"{number}: {record}: compose fails ({error})")
            continue
        clock.append(time.process_time())
        ours, theirs = ours + clock[1] - clock[0], theirs + clock[2] - clock[1]
        ratio = found / high if high else (1.0 if found == 0 else np.inf)
        if found < low:
            below += 1
        if found < low or ratio > 1.03:
            print(
                f"{number}: {record} [{low:.6g}, {high:.6g}] here {found:.6g} ({ratio:.4f}){' BELOW' * (found < low)}"
            )
        ratios.append((ratio, record.delta))
    found = np.array([ratio for ratio, _ in ratios])
    usual = np.array([ratio for ratio, delta in ratios if delta >= 1e-12])
    print(
        f"{len(ratios)} records, seed {seed}{', wide' * wide}{', rare' * rare}: {below} below the certified lower bound"
    )
    print(
        f"  over the certified upper bound: median {np.median(found):.4f}, 95 % {np.quantile(found, 0.95):.4f}, ",
        end="",
    )
    print(
        f"99 % {np.quantile(found, 0.99):.4f}, largest {found.max():.4f}; above 1.03 {int((found > 1.03).sum())}, ",
        end="",
    )
    print(f"with δ ≥ 1e-12 {int((usual > 1.03).sum())} of {usual.size}")
    print(f"  {1e3 * ours / records:.0f} ms each here, {1e3 * theirs / records:.0f} ms by compose (processor time)")


if __name__ == "__main__":
    people() if "--people" in sys.argv else main()
