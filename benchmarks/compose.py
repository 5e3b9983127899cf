"""dpcalc against dp-accounting, prv-accountant and opacus on one machine in one run.

    python benchmarks/peers/install.py                # once: the peers, in .venv-peers
    python benchmarks/compose.py                      # all cases
    python benchmarks/compose.py --only "mixed release" --small-deltas
    python benchmarks/compose.py --tolerances         # also intervals of 1e-6, for 10² to 10⁸ steps and δ to 1e-50

Each library answers each case in a process of its own, on one thread, warm, best of several; one that takes longer than
the limit is stopped. Times are processor times. `gap` is the certified one, relative: (upper - lower) / upper. At equal
error dp-accounting's grid is coarsened until its ε is as far above the exact value as ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cases import CASES, SMALL_DELTAS, TOLERANCES, Case

HERE = Path(__file__).resolve().parent
PEERS = ("dp-accounting PLD", "dp-accounting RDP", "prv-accountant", "opacus RDP", "opacus PRV")
MEMORY_LIMIT = 400
FIRST_CASE = ("-m", "gaussian,noise_multiplier=1.1,sampling=poisson,rate=256/60000,count=14063", "--delta", "1e-5")

Answer = dict[str, Any]


def ask(python: str, library: str, case: Case, limit: float, **more: float) -> Answer:
    """One library's answer to one case, in a process of its own on one core."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [python, str(HERE / "worker.py"), library],
            input=json.dumps({**case.plain(), **more}),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"stopped after {limit:g} s"}
    if done.returncode:
        return {"failed": f"ended with {done.returncode}"}
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def row(library: str, answer: Answer, ours: Answer) -> str:
    """One line of the table."""
    if "seconds" not in answer:
        return f"  {library:<18} {answer.get('refused') or answer.get('failed')}"
    ratio = answer["seconds"] / ours["seconds"] if "seconds" in ours else float("nan")
    solution = f" solution {answer['solution']:.6f}" if "solution" in answer else ""
    return (
        f"  {library:<18} {1000 * answer['seconds']:>10.1f} ms {ratio:>9.1f} ×  ε {answer['epsilon']:<12.8g}"
        f" gap {_gap(answer):<9} {answer['megabytes']:>5.0f} MB{solution}"
    )


def _gap(answer: Answer) -> str:
    lower, upper = answer.get("lower"), answer["epsilon"]
    return "–" if lower is None else f"{(upper - lower) / upper:.1e}" if upper else "0"


def at_equal_error(python: str, case: Case, ours: Answer, limit: float) -> Answer:
    """dp-accounting's PLD on the grid on which its ε is as far above the exact one as ours: error ∝ grid²."""
    assert case.exact is not None
    grid, wanted = 1e-4, ours["epsilon"] - case.exact[0]
    theirs: Answer = {}
    for _ in range(5):
        theirs = {**ask(python, "dp-accounting PLD", case, limit, grid=grid), "grid": grid}
        if "seconds" not in theirs:
            break
        error = max(theirs["epsilon"] - case.exact[0], 1e-12)
        if 0.9 <= error / wanted <= 1.1:
            break
        grid *= min(max((wanted / error) ** 0.5, 0.2), 5.0)
    return theirs


def verdicts(case: Case, ours: Answer, peers: dict[str, Answer]) -> list[str]:
    """What the bars of a case say about the answers."""
    if "seconds" not in ours:
        return [f"FAILED dpcalc: {ours}"]
    found = []
    for peer, bar in case.bars.items():
        theirs = peers.get(peer, {})
        if "seconds" in theirs:
            ratio = theirs["seconds"] / ours["seconds"]
            found.append(f"{'ok' if ratio >= bar else 'MISSED'} {ratio:.1f} × faster than {peer} (bar {bar:g})")
    if case.equal is not None and "seconds" in peers.get("equal error", {}):
        theirs = peers["equal error"]
        ratio = theirs["seconds"] / ours["seconds"]
        grid = f"grid {theirs['grid']:.2e}, ε {theirs['epsilon']:.8g}"
        found.append(
            f"{'ok' if ratio >= case.equal else 'MISSED'} {ratio:.1f} × at equal error ({grid}; {case.equal:g})"
        )
    each = 1000 * ours["seconds"] / len(case.mechanisms)
    if case.each is not None:
        found.append(f"{'ok' if each <= case.each else 'MISSED'} {each:.2f} ms a mechanism (bar {case.each:g})")
    if case.seconds is not None:
        met = "ok" if ours["seconds"] <= case.seconds else "MISSED"
        found.append(f"{met} {ours['seconds']:.1f} s (bar {case.seconds:g})")
    lower, upper = ours.get("lower"), ours["epsilon"]
    if case.calibrate_epsilon is None:
        gap = (upper - lower) / upper if lower is not None and upper else float("inf")
        met = "ok" if gap <= case.gap else "told" if ours.get("said") else "MISSED"
        found.append(f"{met} certified gap {gap:.1e} (bar {case.gap:g}) {ours.get('said') or ''}".rstrip())
    if case.exact is not None:
        inside = lower <= case.exact[1] and upper >= case.exact[0]
        found.append(f"{'ok' if inside else 'WRONG'} the known value {case.exact[0]:g} is inside the certificate")
    memory = ours["megabytes"]
    found.append(f"{'ok' if memory < MEMORY_LIMIT else 'MISSED'} peak memory {memory:.0f} MB (bar {MEMORY_LIMIT})")
    return found


def whole_process(peers: str | None) -> None:
    """`dpcalc compose` as a process against a bare `import dp_accounting`, in turns."""
    ours = [sys.executable, "-m", "dpcalc", "compose", *FIRST_CASE]
    theirs = [peers, "-c", "import dp_accounting"] if peers else None
    times: dict[str, float] = {}
    for _ in range(5):
        for name, command in (("dpcalc compose", ours), ("import dp_accounting", theirs)):
            if command is not None:
                start = time.perf_counter()
                subprocess.run(command, capture_output=True, check=True)
                times[name] = min(times.get(name, 1e9), time.perf_counter() - start)
    print("\nas a whole process")
    for name, seconds in times.items():
        print(f"  {name:<22} {seconds:.2f} s")
    if len(times) == 2:
        print(f"  {'ok' if times['dpcalc compose'] < times['import dp_accounting'] else 'MISSED'} dpcalc is faster")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parent / ".venv-peers" / "bin" / "python"
    parser.add_argument("--peers", default=os.environ.get("DPCALC_PEERS", str(default)), help="the peers' Python")
    parser.add_argument("--without", action="append", default=[], help="leave out a peer; repeatable")
    parser.add_argument("--only", action="append", help="a case by name; repeatable")
    parser.add_argument("--all", action="store_true", help="ask the peers also where there is no bar")
    parser.add_argument("--small-deltas", action="store_true", help="also δ = 1e-15, 1e-30, 1e-50 (dpcalc alone)")
    parser.add_argument("--tolerances", action="store_true", help="also intervals of 1e-6 (dpcalc alone)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a library is stopped")
    options = parser.parse_args()
    peers = options.peers if Path(options.peers).exists() else None
    if peers is None:
        print("no peers: run `python benchmarks/peers/install.py` first; dpcalc alone", file=sys.stderr)
    names = [peer for peer in PEERS if peers and peer not in options.without]
    alone = [*(SMALL_DELTAS if options.small_deltas else []), *(TOLERANCES if options.tolerances else [])]
    times: dict[str, float] = {}
    for case in [*CASES, *alone]:
        if options.only and case.name not in options.only:
            continue
        print(f"\n{case.name}, δ = {case.delta:g}", flush=True)
        ours = ask(sys.executable, "dpcalc", case, options.limit)
        print(row("dpcalc", ours, ours), flush=True)
        theirs: dict[str, Answer] = {}
        times[case.name] = ours.get("seconds", float("nan"))
        for peer in [name for name in names if name in case.bars or (options.all and case in CASES)]:
            theirs[peer] = ask(str(peers), peer, case, options.limit, near=ours.get("solution", 0.0))
            print(row(peer, theirs[peer], ours), flush=True)
        if names and case.equal is not None and "seconds" in ours:
            theirs["equal error"] = at_equal_error(str(peers), case, ours, options.limit)
        for line in verdicts(case, ours, theirs):
            print(f"    {line}", flush=True)
    if {"2 different", "3 different"} <= times.keys():
        dearer = times["2 different"] > times["3 different"]
        print(f"\n{'MISSED' if dearer else 'ok'} two mechanisms are no dearer than three")
    if not options.only:
        whole_process(peers)


if __name__ == "__main__":
    main()
