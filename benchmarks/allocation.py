"""Random allocation: dpcalc against the public PLD_accounting package, at a tenth of that package's gap.

    python benchmarks/peers/install.py                # once: the peers, in .venv-peers
    python benchmarks/allocation.py [--peers PYTHON] [--only N]
    python benchmarks/allocation.py --random 60 [--seed 1]      # without the peer

The peer answers first, at its defaults; its gap is (upper - lower) / upper. dpcalc is asked for a tenth of it.
Times are processor times on one thread; ours is the best of several, with nothing carried over. Random cases have σ
from .3 to 100, up to 10⁵ steps and 1,000 epochs and δ from 1e-3 to 1e-15; the bars are 3 s and a gap of 1e-3.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BAR = 50.0
REPEATS = 3
GAP, SECONDS = 1e-3, 3.0  # of random cases

# σ, steps of an epoch, epochs, δ
CASES = [(1.0, 100, 1, 1e-5), (5.0, 1000, 1, 1e-5), (1.0, 1000, 1, 1e-5), (2.0, 50, 1, 3e-3), (1.0, 1000, 10, 1e-6)]

PEER = """
import json, sys, time
from PLD_accounting import gaussian_allocation_epsilon_range
sigma, steps, epochs, delta = json.loads(sys.argv[1])
begun = time.process_time()
found = gaussian_allocation_epsilon_range(delta=delta, sigma=sigma, num_steps=steps, num_epochs=epochs)
print(json.dumps([min(found), max(found), time.process_time() - begun]))
"""


Case = tuple[float, int, int, float]


def ours(case: Case, tolerance: float, repeats: int = REPEATS) -> tuple[float, float, float]:
    """Our interval, and the processor time of the best of several."""
    from dpcalc.accounting.compose import compose
    from dpcalc.mechanisms.allocated import RandomlyAllocated
    from dpcalc.mechanisms.gaussian import Gaussian
    from dpcalc.pairs.sums import allocated, pilot

    sigma, steps, epochs, delta = case
    times = []
    for _ in range(repeats):
        allocated.bounds.cache_clear()
        pilot.of_mean.cache_clear()
        mechanism = RandomlyAllocated(base=Gaussian(noise_multiplier=sigma), steps=steps)
        begun = time.process_time()
        found = compose([(mechanism, epochs)], delta=delta, tolerance=tolerance)
        times.append(time.process_time() - begun)
    assert found.epsilon is not None
    return found.epsilon_lower or 0.0, found.epsilon, min(times)


def random_cases(count: int, seed: int) -> int:
    """How many of so many random cases are too slow or too wide."""
    missed = 0
    for turn in range(count):
        draw = random.Random(f"{seed} {turn}")
        sigma, steps, epochs, delta = (
            math.exp(draw.uniform(math.log(low), math.log(high)))
            for low, high in ((0.3, 100), (2, 1e5), (1, 1000), (1e-15, 1e-3))
        )
        case = float(f"{sigma:.4g}"), round(steps), round(epochs), float(f"{delta:.4g}")
        low, high, seconds = ours(case, GAP, repeats=1)
        gap = (high - low) / high if 0 < high < math.inf else float(high > 0)
        if gap > GAP or seconds > SECONDS:
            missed += 1
            told = f"σ={case[0]:g} 1 of {case[1]} × {case[2]}, δ={case[3]:g}: [{low:.6g}, {high:.6g}]"
            print(f"{turn}: {told}, gap {gap:.1e}, {seconds:.2f} s", flush=True)
    print(f"{missed} of {count} above {SECONDS:g} s or a gap of {GAP:g}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=str(HERE.parent / ".venv-peers" / "bin" / "python"))
    parser.add_argument("--only", type=int, help="the number of one case, from 1")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that the peer may take for a case")
    parser.add_argument("--random", type=int, help="so many random cases instead, without the peer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.random is not None:
        return int(random_cases(options.random, options.seed) > 0)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    missed = 0
    for case in CASES if options.only is None else CASES[options.only - 1 : options.only]:
        sigma, steps, epochs, delta = case
        command = [options.peers, "-c", PEER, json.dumps(case)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment, timeout=options.limit
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as failure:
            print(f"{case}: the peer gave no answer ({type(failure).__name__})", flush=True)
            continue
        low, high, seconds = json.loads(done.stdout.splitlines()[-1])
        gap = (high - low) / high
        our_low, our_high, our_seconds = ours(case, gap / 10)
        ratio = seconds / our_seconds
        our_gap = (our_high - our_low) / our_high
        missed += ratio < BAR or our_gap > gap / 10
        print(
            f"σ={sigma:g} 1 of {steps} × {epochs}, δ={delta:g}: "
            f"peer [{low:.6g}, {high:.6g}] gap {gap:.1e} {seconds:.2f} s;"
            f" dpcalc [{our_low:.6g}, {our_high:.6g}] gap {our_gap:.1e} {1000 * our_seconds:.0f} ms: {ratio:.0f} ×",
            flush=True,
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
