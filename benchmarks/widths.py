"""How wide certified intervals are over all families: random specs of one to four entries, drawn from a seed.

    python benchmarks/widths.py --specs 400 --seed 1 [--seconds 600] [--only exponential]

Every type of entry, every sampler and both adjacencies, counts to 10⁵, δ from 1e-3 to 1e-12; noise so that an entry
alone has about .02 to 3 in terms of μ. The bars: gaps above 1e-3 in at most 5 % of the specs whose pairs are known to
be attained, a lower bound of 0 in none of these, no call above 10 s. Specs with an entry for which no attained pair
comes near its upper bound are counted by themselves, under the reason.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hunt import asked, log_uniform, number

WIDE, SLOW, SHARE = 1e-3, 10.0, 0.05
TYPES = (
    "gaussian",
    "laplace",
    "discrete-gaussian",
    "histogram",
    "discrete-laplace",
    "exponential",
    "randomized-response",
    "k-ary",
    "staircase",
    "dp",
    "gdp",
    "zcdp",
    "rdp",
)
SAMPLERS = ("none", "none", "none", "poisson", "poisson", "fixed-size", "cyclic", "shuffled", "allocation", "truncated")


@dataclass(frozen=True)
class Entry:
    """An entry as it stands after `-m`, and why its interval is open, if it is."""

    text: str
    open: str | None


@dataclass
class Tally:
    """What came of the specs of one kind."""

    asked: int = 0
    wide: int = 0
    nothing: int = 0
    slow: int = 0
    gaps: list[float] = field(default_factory=list)

    def add(self, gap: float, nothing: bool, slow: bool) -> None:
        self.asked, self.gaps = self.asked + 1, sorted([*self.gaps, gap])
        self.wide, self.nothing, self.slow = self.wide + (gap > WIDE), self.nothing + nothing, self.slow + slow

    def __str__(self) -> str:
        middle = self.gaps[len(self.gaps) // 2]
        return (
            f"{self.asked:5} asked, {self.wide} above {WIDE:g} ({self.wide / self.asked:.1%}), {self.nothing} without "
            f"lower bound, {self.slow} above {SLOW:g} s, median gap {middle:.1e}"
        )


def entry_of(draw: random.Random, kind: str, sampler: str, adjacency: str, delta: float) -> Entry:
    size, count = log_uniform(draw, 0.02, 3), round(log_uniform(draw, 1, 1e5))
    text, amplification = sampling_of(draw, sampler)
    if sampler in ("allocation", "cyclic", "shuffled"):
        count = min(count, round(log_uniform(draw, 1, 300)))
    mu = min(size / math.sqrt(count) * amplification, 3.0)
    return Entry(f"{law_of(draw, kind, mu, delta / count)}{text},count={count}", open_because(kind, sampler, adjacency))


def sampling_of(draw: random.Random, sampler: str) -> tuple[str, float]:
    """The sampler's words, and by about how much more noise a step without it would need."""
    rate = short(log_uniform(draw, 1e-4, 0.5))
    if sampler == "none":
        return "", 1.0
    if sampler in ("cyclic", "shuffled"):
        return f",sampling={sampler}", 1.0
    if sampler == "allocation":
        steps = round(log_uniform(draw, 2, 1e4))
        return f",sampling=random-allocation,steps={steps}", math.sqrt(steps)
    if sampler == "truncated":
        records = round(log_uniform(draw, 1e3, 1e6))
        batch = math.ceil(rate * records + draw.uniform(3, 8) * math.sqrt(rate * records) + 1)
        return f",sampling=truncated-poisson,rate={rate},dataset_size={records},largest_batch={batch}", 1 / rate
    return f",sampling={sampler},rate={rate}", 1 / rate


def law_of(draw: random.Random, kind: str, mu: float, share: float) -> str:
    """An entry that is about as bad as a Gaussian of this μ, and fails with less than `share`."""
    shift, k = draw.choice([1, 1, 1, 2, 3]), draw.choice([2, 3, 10])
    mu, rho = short(mu), short(mu * mu / 2)
    noise, odds = min(short(shift / mu), 3e5), math.exp(2 * mu)
    failure = short(share * draw.uniform(0, 0.5))
    orders = [1.5, 2, 4, 8, 16, 32, 64]
    return {
        "gaussian": f"gaussian,noise_multiplier={short(1 / mu)}",
        "laplace": f"laplace,scale={noise},sensitivity={shift}",
        "discrete-laplace": f"discrete-laplace,scale={noise},sensitivity={shift}",
        "discrete-gaussian": f"discrete-gaussian,sigma={noise},sensitivity={shift}",
        "histogram": f"histogram,sigma={noise}",
        "k-ary": f"randomized-response,p={odds / (odds + k - 1)!r},k={k}",
        "exponential": f"exponential,epsilon={short(2 * mu)}",
        "randomized-response": f"randomized-response,epsilon={short(2 * mu)}",
        "staircase": f"staircase,epsilon={short(2 * mu)}",
        "dp": f"dp,epsilon={mu},delta={failure}",
        "gdp": f"gdp,mu={mu}",
        "zcdp": f"zcdp,rho={rho}",
        "rdp": f"rdp,orders={orders},epsilons={[order * rho for order in orders]}",
    }[kind]


def short(value: float) -> float:
    """The value in four digits."""
    return float(f"{value:.4g}")


def open_because(kind: str, sampler: str, adjacency: str) -> str | None:
    """Why no attained pair is known to come near the upper bound."""
    replaces = adjacency == "replace-one"
    on_a_line = kind in ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "gdp")
    reasons = {
        "declared Rényi curve: of several runs, none attains it at every ε": kind in ("zcdp", "rdp"),
        "shuffled: accounted for without amplification": sampler == "shuffled",
        "truncated Poisson: the mixture tells how many others were sampled": sampler == "truncated",
        "replace-one as a group of two": replaces
        and (sampler == "allocation" or (sampler == "poisson" and not on_a_line)),
        "exponential under a sampler: the best choices are not worked out": kind == "exponential"
        and sampler not in ("none", "cyclic"),
        "fixed size: C_p takes the worse side of every outcome": sampler == "fixed-size" and replaces,
        "fixed size: only each of two links is known": sampler == "fixed-size"
        and not replaces
        and kind in ("staircase", "dp", "histogram"),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def spec_of(draw: random.Random, only: str | None) -> tuple[list[str], list[str]]:
    """The arguments of a question, and the reasons why its interval may be wide."""
    adjacency = draw.choice(["add-remove", "add-remove", "replace-one"])
    delta = short(log_uniform(draw, 1e-12, 1e-3))
    arguments, reasons = ["compose", "--adjacency", adjacency, "--delta", repr(delta)], []
    for place in range(draw.choice([1, 1, 2, 3, 4])):
        kind = only if only is not None and place == 0 else draw.choice(TYPES)
        entry = entry_of(draw, kind, draw.choice(SAMPLERS), adjacency, delta)
        arguments += ["-m", entry.text]
        reasons += [entry.open] if entry.open else []
    return arguments, sorted(set(reasons))


def measured(result: dict[str, Any]) -> tuple[float, bool]:
    """The gap relative to the upper end, and whether nothing is known from below."""
    upper, lower = number(result["epsilon"]), result["epsilon_lower"]
    if upper == 0:
        return 0.0, False
    known = 0.0 if lower is None else float(lower)
    return (upper - known) / upper if upper < math.inf else math.inf, known == 0


def drawn(seed: str, only: str | None) -> tuple[list[str], list[str], int, dict[str, Any], float]:
    """A spec that is not refused, why its interval may be open, and what came of it in how many seconds."""
    draw = random.Random(seed)
    while True:
        arguments, reasons = spec_of(draw, only)
        started = time.process_time()
        code, result = asked(arguments)
        if code != 2:
            return arguments, reasons, code, result, time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of processor time")
    parser.add_argument("--only", choices=TYPES, help="a type that every spec has")
    wanted = parser.parse_args()
    tallies: dict[str, Tally] = defaultdict(Tally)
    begun = time.process_time()
    for turn in range(wanted.specs):
        if time.process_time() - begun > wanted.seconds:
            break
        arguments, reasons, code, result, seconds = drawn(f"{wanted.seed} {turn}", wanted.only)
        gap, nothing = measured(result) if code in (0, 1) else (math.inf, True)
        slow = seconds > SLOW
        tallies[reasons[0] if reasons else "attained"].add(gap, nothing, slow)
        if slow or code == 3 or (not reasons and (gap > WIDE or nothing)):
            told = f"gap {gap:.2g}, {seconds:.1f} s, [{result.get('epsilon_lower')}, {result.get('epsilon')}]"
            print(f"{turn}: {told}\n  dpcalc {' '.join(arguments)}", flush=True)
    for reason, tally in sorted(tallies.items(), key=lambda item: -item[1].asked):
        print(f"{tally}: {reason}")
    known = tallies["attained"]
    slow_calls = sum(tally.slow for tally in tallies.values())
    return int(known.wide > SHARE * max(known.asked, 1) or known.nothing > 0 or slow_calls > 0)


if __name__ == "__main__":
    sys.exit(main())
