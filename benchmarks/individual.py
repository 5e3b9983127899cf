"""Individual ε under sampling against certified brackets of `compose`, on random records.

    python benchmarks/individual.py [records] [seed] [--whole | --wide | --rare | --near | --alike]
    python benchmarks/individual.py --people

Prints how many were below the certified lower bound (none may be), and how far above the upper one the others are; also
when it is interrupted. Without an option: q 1e-4…0.2, z 0.5…10, T 10…10⁵, δ 1e-12…1e-3; --whole: q 1e-7…1, z 0.2…20,
T 1…10⁶, δ 1e-12…1e-3; --wide: the same, δ 1e-60…0.9; --rare: q 1e-7…1e-4, z 0.2…1.5, T 10³…10⁶, δ 1e-12…1e-2; --near:
usual records, δ between half and 1.01 of δ(0), mostly close to it; --alike: as --whole with δ to 0.9, but 45 records,
five of each of the nine shapes, share q, z and δ and are answered together, as those of a log are: thousands in
minutes. --people: processor time a person, for 10⁵ people.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dpcalc.accounting.compose import compose
from dpcalc.filters.buckets import Buckets
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.individual import sampled_epsilons
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled

Steps = dict[float, int]

# Next to δ(0) an ε is a small difference of δ's over a slope, and what counts is how small a change of δ explains it.
_NEARBY = 5e-4


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


KINDS = ("whole", "wide", "rare", "near")


def random_record(
    rng: np.random.Generator, *, whole: bool = False, wide: bool = False, rare: bool = False, near: bool = False
) -> Record:
    """A record whose parameters are drawn from the ranges above."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    shape = SHAPES[list(SHAPES)[rng.integers(len(SHAPES))]]
    if rare:
        noise, steps = between(0.2, 1.5), round(between(1e3, 1e6))
        return Record(between(1e-7, 1e-4), noise, between(1e-12, 1e-2), shape(steps, rng))
    if whole or wide:
        delta = between(1e-60, 1e-12) if wide and rng.random() < 0.3 else between(1e-12, 0.9 if wide else 1e-3)
        return Record(between(1e-7, 1), between(0.2, 20), delta, shape(round(between(1, 1e6)), rng))
    usual = Record(between(1e-4, 0.2), between(0.5, 10), between(1e-12, 1e-3), shape(round(between(10, 1e5)), rng))
    if not near:
        return usual
    largest = compose(parts_of(usual), epsilon=0.0).delta
    assert largest is not None
    return usual._replace(delta=min(0.9, largest * (1.01 if rng.random() < 0.1 else 1 - between(1e-3, 0.5))))


def alike_records(rng: np.random.Generator) -> list[Record]:
    """Five of each shape under one noise, rate and δ; of δ up to 0.9, but not so large that everybody's ε is 0."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    rate, noise, steps = between(1e-7, 1), between(0.2, 20), between(1, 1e6)
    largest = min(0.9, steps * rate / noise)
    delta = between(1e-12, max(largest, 2e-12))
    return [
        Record(rate, noise, delta, shape(round(steps if rng.random() < 0.5 else between(1, steps)), rng))
        for shape in SHAPES.values()
        for _ in range(5)
    ]


def counts_of(record: Record) -> NormCounts:
    """The record's counts, as a log would give them."""
    buckets = Buckets(sigma=record.noise, clip=1.0)
    counts = NormCounts(buckets, record.rate, 1)
    for norm, times in record.steps.items():
        counts.repeat(np.array([norm]), times)
    return counts


def parts_of(record: Record) -> list[tuple[Mechanism, int]]:
    """The record's steps as mechanisms."""
    return [
        (
            PoissonSampled(
                base=Gaussian(noise_multiplier=record.noise / norm, adjacency="add-remove"), sampling_rate=record.rate
            ),
            times,
        )
        for norm, times in record.steps.items()
        if norm
    ]


def certified(record: Record) -> tuple[float, float]:
    """Lower and upper bound on its ε."""
    parts = parts_of(record)
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


@dataclass
class Tally:
    """What was found: ε over the certified upper bound with its δ, how many were below the lower one, time taken."""

    ratios: list[tuple[float, float]] = field(default_factory=list)
    below: int = 0
    nothing: int = 0
    far: int = 0
    ours: float = 0.0
    theirs: float = 0.0

    def compare(self, number: int, records: list[Record]) -> None:
        """Both answers for records that share noise, rate and δ; prints those that are too low or too high."""
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = sampled_epsilons(NormCounts.joined(map(counts_of, records)), records[0].delta)
        self.ours += time.process_time() - begun
        for record, epsilon in zip(records, found.tolist(), strict=True):
            self._judge(number, record, epsilon)

    def _judge(self, number: int, record: Record, found: float) -> None:
        begun = time.process_time()
        try:
            low, high = certified(record)
        except ValueError as error:
            print(f"{number}: {record}: compose fails ({error})", flush=True)
            return
        self.theirs += time.process_time() - begun
        ratio = found / high if high else (1.0 if found == 0 else np.inf)
        self.below += found < low
        self.nothing += found == 0
        self.ratios.append((ratio, record.delta))
        if found < low or ratio > 1.03:
            nearby = found <= 1.03 * certified(record._replace(delta=record.delta * (1 - _NEARBY)))[1]
            self.far += not nearby
            word = " BELOW" * (found < low) + " FAR" * (not nearby)
            print(f"{number}: {record} [{low:.6g}, {high:.6g}] here {found:.6g} ({ratio:.4f}){word}", flush=True)

    def summary(self) -> str:
        """Counts, quantiles and times."""
        if not self.ratios:
            return "no records"
        all_of_them = np.array([ratio for ratio, _ in self.ratios])
        usual = np.array([ratio for ratio, delta in self.ratios if delta >= 1e-12])
        above = f"above 1.03 {(all_of_them > 1.03).sum()}, with δ ≥ 1e-12 {(usual > 1.03).sum()} of {usual.size}"
        above += f", even of the upper bound at {1 - _NEARBY} δ {self.far}"
        quantiles = np.quantile(all_of_them, [0.5, 0.95, 0.99, 1.0], method="higher")
        each = [1e3 * spent / len(self.ratios) for spent in (self.ours, self.theirs)]
        return (
            f"{len(self.ratios)} records ({self.nothing} with ε = 0): {self.below} below the certified lower bound; "
            f"over the upper one: median, 95 %, 99 %, largest {', '.join(f'{value:.4f}' for value in quantiles)}; "
            f"{above}; {each[0]:.0f} ms each here, {each[1]:.0f} ms by compose (processor time)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    which = parser.add_mutually_exclusive_group()
    for kind in (*KINDS, "alike", "people"):
        which.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    options = parser.parse_args()
    if options.kind == "people":
        people()
        return
    rng, tally = np.random.default_rng(options.seed), Tally()
    known = {} if options.kind in (None, "alike") else {options.kind: True}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job in the background does not hear Ctrl-C
    with contextlib.suppress(KeyboardInterrupt):
        number = 0
        while len(tally.ratios) < options.records:
            tally.compare(number, alike_records(rng) if options.kind == "alike" else [random_record(rng, **known)])
            number += 1
    print(f"seed {options.seed} {options.kind or 'usual'}: {tally.summary()}")


if __name__ == "__main__":
    main()
