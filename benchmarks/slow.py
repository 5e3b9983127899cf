"""No call above 10 s: the slowest specs that were found, and a search for slower ones, drawn from a seed.

    python benchmarks/slow.py                         # the slowest known
    python benchmarks/slow.py --random 60 --seed 1 [--seconds 300]

Random calls: compose at ε and along a curve, calibrate for a count, sgd-bound, over all types of entries, samplers and
adjacencies (as in widths.py, which asks at δ). Times are processor times of the whole command, without its start-up.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time

from hunt import asked, log_uniform
from widths import SAMPLERS, SLOW, TYPES, entry_of, short

# As they stand after `dpcalc`; the times are those before the work of a call was counted.
WORST = (
    "compose --delta 1e-9 -m exponential,epsilon=20,count=1000",  # 88 s
    "compose --delta 3.001e-09 -m zcdp,rho=2.299e-05,count=12 -m staircase,epsilon=2.772,sampling=fixed-size,"
    "rate=0.1265,count=17 -m histogram,sigma=0.3333,sampling=random-allocation,steps=192,count=3",  # 17 s
    "compose --adjacency replace-one --delta 6.38e-05 -m discrete-gaussian,sigma=0.3333,sensitivity=1,"
    "sampling=random-allocation,steps=83,count=1",  # 15 s
    "compose --delta 0.0001414 -m discrete-laplace,scale=2965.0,sensitivity=1,sampling=fixed-size,rate=0.3622,"
    "count=69019 -m randomized-response,epsilon=0.6468,sampling=random-allocation,steps=7422,count=30 "
    "-m dp,epsilon=3.0,delta=1.234e-05,sampling=poisson,rate=0.0002444,count=2",  # 9 s
    "compose --delta 1.745e-09 -m zcdp,rho=0.001167,count=49 -m gaussian,noise_multiplier=0.3333,"
    "sampling=random-allocation,steps=2065,count=2 -m gdp,mu=1.629,sampling=poisson,rate=0.0004428,count=13667",  # 7 s
    "compose --delta 1e-3 -m exponential,epsilon=0.05,count=399",  # 7 s
    "compose --delta 3.08e-05 -m discrete-laplace,scale=199.3,sensitivity=3,sampling=shuffled,count=7 "
    "-m discrete-laplace,scale=0.3333,sensitivity=1,sampling=random-allocation,steps=8273,count=1",  # 6 s
    "compose --delta 1e-5 -m dp,epsilon=0.01,delta=1e-9,count=500 -m dp,epsilon=0.013,delta=2e-9,count=400 "
    "-m dp,epsilon=0.31,delta=1e-9,sampling=poisson,rate=0.01,count=3000 -m dp,epsilon=0.9,delta=1e-8",
)


def random_call(draw: random.Random) -> list[str]:
    """The arguments of a call."""
    adjacency = draw.choice(["add-remove", "add-remove", "replace-one"])
    delta, kind = (
        short(log_uniform(draw, 1e-12, 1e-3)),
        draw.choice(["calibrate", "calibrate", "curve", "delta", "sgd"]),
    )
    if kind == "sgd":
        numbers = {"lr": log_uniform(draw, 1e-3, 0.5), "noise-multiplier": log_uniform(draw, 0.5, 20), "delta": delta}
        sizes = {"n": (1e3, 1e6), "batch-size": (10, 900), "epochs": (1, 100)}
        numbers |= {name: round(log_uniform(draw, *ends)) for name, ends in sizes.items()}
        convex = draw.choice([["--strong-convexity", "0.01"], ["--diameter", "1"], []])
        given = [word for name, value in numbers.items() for word in (f"--{name}", f"{value:.4g}")]
        return ["sgd-bound", "--algorithm", "sgd", "--clip", "1", "--smoothness", "1", *given, *convex]
    entries = [
        entry_of(draw, draw.choice(TYPES), draw.choice(SAMPLERS), adjacency, delta).text
        for _ in range(draw.choice([1, 2, 3]))
    ]
    epsilon = repr(short(log_uniform(draw, 0.3, 20)))
    asks = {"calibrate": ["--epsilon", epsilon, "--delta"], "curve": ["--curve", "--delta"], "delta": ["--epsilon"]}[
        kind
    ]
    if kind == "calibrate":
        entries[0] = f"{entries[0].rsplit(',count=', 1)[0]},count=solve"
    command = "calibrate" if kind == "calibrate" else "compose"
    last = epsilon if kind == "delta" else repr(delta)
    return [command, "--adjacency", adjacency, *asks, last, *(word for text in entries for word in ("-m", text))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0, help="so many random calls instead of the slowest known")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of processor time")
    wanted = parser.parse_args()
    calls = [random_call(random.Random(f"{wanted.seed} {turn}")) for turn in range(wanted.random)]
    calls = calls or [line.split() for line in WORST]
    begun, times = time.process_time(), []
    for arguments in calls:
        started = time.process_time()
        if started - begun > wanted.seconds:
            break
        code, result = asked(arguments)
        times.append(time.process_time() - started)
        if not wanted.random or times[-1] > SLOW / 2:
            found = f"[{result.get('epsilon_lower')}, {result.get('epsilon')}]"
            print(f"{times[-1]:.1f} s, exit {code}, {found}\n  dpcalc {' '.join(arguments)}", flush=True)
    print(f"{len(times)} calls, the slowest {max(times):.1f} s, {sum(each > SLOW for each in times)} above {SLOW:g} s")
    return int(max(times) > SLOW)


if __name__ == "__main__":
    sys.exit(main())
