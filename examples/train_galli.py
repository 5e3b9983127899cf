"""Galli et al., Tables 8 and 11: clipping under a privacy budget per grid search, the paper's figures beside ours.

    python examples/train_galli.py --data mnist/ [--epsilons 3 5 7 9] [--granularity 9] [--methods online fixed …]

Each method searches its own grid, and all runs of the grid share one (ε, 1e-5): online clipping searches the learning
rate only (k runs), a fixed threshold the rate and the clip (k² runs), a quantile the rate and the quantile (5k runs),
AdamWOSM the clip only (k runs). The winner is picked on the test set, as in the paper.

The full experiment (the large CNN, 10 epochs, k = 9, four ε) is days of work for a laptop. `--model cnn-small`,
`--epochs` and `--granularity` make it smaller; `--best` runs only the configuration that won in the paper, with the
noise of the whole grid.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from dpcalc.training.data import load
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account_search, calibrated
from dpcalc.training.run import configurations, search, winner
from dpcalc.training.settings import Settings

METHODS = ("online", "fixed", "quantile", "adam-wosm")
# granularity → method → test accuracy at ε = 3, 5, 7, 9.
PAPER = {
    9: {
        "online": (90.69, 91.62, 92.94, 93.62),
        "fixed": (86.83, 88.69, 90.04, 90.72),
        "quantile": (85.48, 88.13, 90.73, 91.09),
        "adam-wosm": (90.62, 91.60, 92.19, 92.53),
    },
    5: {
        "online": (91.19, 91.66, 92.96, 94.11),
        "fixed": (89.2, 90.9, 91.4, 91.7),
        "quantile": (87.91, 90.71, 91.16, 91.21),
        "adam-wosm": (91.27, 92.16, 92.76, 93.22),
    },
}
# What won in the paper at k = 9 and ε = 3, 5, 7, 9; learning rates outside [10^-2.5, 10^1.5] are read as scaled by 10³.
BEST = {
    "online": [{"lr": 0.316}, {"lr": 1.0}, {"lr": 1.0}, {"lr": 1.0}],
    "fixed": [
        {"lr": 0.1, "clip": 0.1},
        {"lr": 3.162e-3, "clip": 3.162},
        {"lr": 3.162, "clip": 0.01},
        {"lr": 3.162e-3, "clip": 10.0},
    ],
    "quantile": [{"lr": 3.162e-3, "quantile": q} for q in (0.5, 0.5, 0.7, 0.7)],
    "adam-wosm": [{"clip": c} for c in (10.0, 10.0, 31.62, 31.62)],
}
EPSILONS = (3, 5, 7, 9)


def grid(method: str, granularity: int) -> dict[str, list]:
    rates = [float(rate) for rate in np.logspace(-2.5, 1.5, granularity)]
    clips = [float(clip) for clip in np.logspace(-2, 2, granularity)]
    return {
        "online": {"lr": rates},
        "fixed": {"lr": rates, "clip": clips},
        "quantile": {"lr": rates, "quantile": [0.1, 0.3, 0.5, 0.7, 0.9]},
        "adam-wosm": {"clip": clips},
    }[method]


def settings(method: str, arguments: argparse.Namespace) -> Settings:
    shared = Settings(
        model=arguments.model, algorithm="sgd", batch_size=512, epochs=arguments.epochs, seed=arguments.seed, clip=0.1
    )
    if method == "adam-wosm":
        return replace(shared, optimizer="adam-wosm")
    return replace(shared, clipping=method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--epsilons", type=int, nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--granularity", type=int, default=9)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--best", action="store_true", help="only what won in the paper, with the whole grid's noise")
    arguments = parser.parse_args()
    data = load(arguments.data)
    print("| ε | method | runs | noise multiplier | winner | test, paper | test, ours | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    for epsilon in arguments.epsilons:
        for method in arguments.methods:
            start = time.monotonic()
            plan = Plan(settings=settings(method, arguments), records=len(data), delta=1e-5)
            every = configurations(plan, grid(method, arguments.granularity))
            noise = calibrated([each for _, each in every], epsilon=epsilon)
            every = [(changes, each.with_noise(noise)) for changes, each in every]
            spent = account_search([each for _, each in every]).guarantee.epsilon
            assert spent is not None
            assert spent <= epsilon
            runs = len(every)
            if arguments.best:
                changes = BEST[method][EPSILONS.index(epsilon)]
                first = every[0][1]
                every = [(changes, replace(first, settings=first.settings.with_changes(changes)))]
            best = winner(search(every, data, observe=lambda _: None))
            chosen = ", ".join(f"{name} = {value:.4g}" for name, value in best.changes.items())
            known = PAPER.get(arguments.granularity, {}).get(method)
            paper = known[EPSILONS.index(epsilon)] if known and epsilon in EPSILONS else "–"
            minutes = (time.monotonic() - start) / 60
            print(
                f"| {epsilon} | {method} | {runs} | {noise:.3f} | {chosen} | {paper} | {100 * best.test_quality:.2f} "
                f"| {minutes:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
