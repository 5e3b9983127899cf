"""How fast dpcalc starts: whole processes, best of several, against the bare imports they cannot do without.

    python benchmarks/startup.py

The bars: `convert` at most 1.6 × importing typer, rich.table and scipy.special; `--help` at most 2.5 × importing typer.
"""

from __future__ import annotations

import subprocess
import sys
import time

CONVERT = "from dpcalc.cli.main import main; main(['convert', '--gdp', '1.2', '--delta', '1e-5'])"
HELP = "from dpcalc.cli.main import main; main(['--help'])"
CASES = (
    ("dpcalc convert --gdp 1.2 --delta 1e-5", CONVERT, "import typer, rich.table, scipy.special", 1.6),
    ("dpcalc --help", HELP, "import typer", 2.5),
)


def seconds(code: str) -> float:
    """The wall time of one fresh process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Time each case and its baseline in turn, so that a noisy machine troubles both alike."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name, code, baseline, bar in CASES:
        pairs = [(seconds(code), seconds(baseline)) for _ in range(repeats)]
        ours, bare = (min(column) for column in zip(*pairs, strict=True))
        verdict = "ok" if ours / bare <= bar else "OVER"
        times = f"{1000 * ours:.0f} ms, {baseline}: {1000 * bare:.0f} ms"
        print(f"{name}: {times}, ratio {ours / bare:.2f} (bar {bar}) {verdict}")


if __name__ == "__main__":
    main()
