"""How long `dpcalc sgd-bound` and `exp-mech` take as whole processes, best of several; the bar is two seconds each.

python benchmarks/sgd_bound.py [REPEATS]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 2.0
LOGISTIC = (
    "--lr 0.05 --sensitivity 10 --n 60000 --batch-size 1500 --strong-convexity 0.002 --smoothness 32.5 --delta 1e-5"
)
STOCHASTIC = "--sensitivity 50 --n 10000 --batch-size 100 --smoothness 1 --delta 1e-5"
MILLION = f"sgd-bound --algorithm sgd {STOCHASTIC} --lr 0.2 --sigma 3 --steps 1e6"
FULL = "sgd-bound --algorithm gd --lr 0.1 --sigma 1 --sensitivity 1 --n 10 --steps 1e6 --smoothness 1 --delta 1e-5"
CASES = {
    "gd, 10⁶ steps": f"{FULL} --strong-convexity 1e-4 --diameter 3",
    "cgd, 50 epochs": f"sgd-bound --algorithm cgd {LOGISTIC} --sigma 0.01 --epochs 50",
    "cgd, 10⁶ epochs, constrained": f"sgd-bound --algorithm cgd {LOGISTIC} --sigma 0.01 --epochs 1e6 --diameter 1",
    "sgd, 8000 steps": f"sgd-bound --algorithm sgd {LOGISTIC} --sigma 0.01 --epochs 200",
    "sgd, 10⁶ steps, constrained": f"{MILLION} --diameter 1",
    "sgd, 10⁶ steps, strongly convex": f"{MILLION} --strong-convexity 0.01",
    "sgd, 10⁶ steps, both": f"{MILLION} --strong-convexity 0.01 --diameter 1",
    "sgd, schedule of 10⁶ rows": f"sgd-bound --algorithm sgd {STOCHASTIC} --diameter 1 --schedule SCHEDULE",
    "cgd, schedule of 10⁶ rows": f"sgd-bound --algorithm cgd {STOCHASTIC} --diameter 1 --schedule SCHEDULE",
    "cgd, longest run": f"sgd-bound --algorithm cgd {LOGISTIC} --sigma 0.01 --target-epsilon 5",
    "sgd, least noise": f"sgd-bound --algorithm sgd {LOGISTIC} --sigma solve --epochs 100 --target-epsilon 5",
    "cgd, sweep of 20": f"sgd-bound --algorithm cgd {LOGISTIC} --sigma 0.01 --sweep epochs=10:200:10",
    "exp-mech, bounded": "exp-mech --lipschitz 1 --diameter 2 --delta 1e-5",
    "exp-mech, 100 choices": "exp-mech --epsilon-mech 0.1 --count 100 --delta 1e-5",
}


def write_schedule(path: Path, steps: int = 1_000_000) -> None:
    """A slowly decaying step size at a noise that rises in ten stages."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write("step,lr,sigma\n")
        stream.writelines(f"{k},{0.2 / (1 + k / steps):.9f},{3 + 10 * k // steps / 10}\n" for k in range(1, steps + 1))


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Wall and processor time of one fresh process."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "dpcalc", *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repeats", nargs="?", default=3, type=int, help="runs of each case, of which the best counts")
    repeats: int = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        schedule = Path(folder) / "schedule.csv"
        write_schedule(schedule)
        for name, command in CASES.items():
            arguments = command.replace("SCHEDULE", str(schedule)).split()
            wall, used = (min(times) for times in zip(*(seconds(arguments) for _ in range(repeats)), strict=True))
            print(f"{name}: {wall:.2f} s ({used:.2f} s of processor) {'ok' if wall <= BAR else 'OVER'}")


if __name__ == "__main__":
    main()
