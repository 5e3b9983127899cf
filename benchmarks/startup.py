"""How fast dpcalc starts: processor time of whole processes against the bare imports they cannot do without.

    python benchmarks/startup.py [--repeats COUNT]

User and system time, the best of several in turns, so that a busy machine troubles all alike. The bars: `convert` at
most 0.7 × importing typer, rich.table and scipy.special; `compose` at most 1.2 × importing what it needs and no more
(no Rich, no pydantic, of Gaussians no scipy); `--help` at most 1.2 × importing typer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

CASES = (
    (("convert", "--gdp", "1.2", "--delta", "1e-5"), "import typer, rich.table, scipy.special", 0.7),
    (("convert", "--dp", "1.5,1e-6", "--epsilon", "0.9", "-f", "json"), "import typer, rich.table, scipy.special", 0.7),
    (("compose", "-m", "gaussian,noise_multiplier=3", "--delta", "1e-6"), "import typer, yaml, numpy", 1.2),
    (
        ("compose", "-m", "gaussian,noise_multiplier=3,sampling=poisson,rate=0.01,count=500", "--delta", "1e-6"),
        "import typer, yaml, scipy.special",
        1.2,
    ),
    (("--help",), "import typer", 1.2),
)


def seconds(*arguments: str) -> float:
    """The processor time of one fresh process of Python, which finds all that it imports compiled, as ours will be."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Time each command and its baseline in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, metavar="COUNT", help="processes of each kind (15)")
    repeats = max(1, parser.parse_args().repeats)
    for command, baseline, bar in CASES:
        pairs = [(seconds("-m", "dpcalc", *command), seconds("-c", baseline)) for _ in range(repeats)]
        ours, bare = (min(column) for column in zip(*pairs, strict=True))
        verdict = "ok" if ours / bare <= bar else "OVER"
        times = f"{1000 * ours:.0f} ms, {baseline}: {1000 * bare:.0f} ms"
        print(f"dpcalc {' '.join(command)}: {times}, ratio {ours / bare:.2f} (bar {bar}) {verdict}", flush=True)


if __name__ == "__main__":
    main()
