"""Bok et al., Tables 1, 2, 5 and 6: private logistic regression on MNIST, the paper's figures beside ours.

    python examples/train_bok.py --data mnist/ [--seeds 10] [--algorithms cgd sgd] [--regularizations 0.002 0.004]

Pixels in [0, 1], features clipped to norm 8, a constant 1 appended, gradients clipped at 5 (so L = 10), λθ added after
clipping, batches of 1,500 in file order (cgd) or drawn without replacement (sgd), noise 0.01 on the average, which is a
noise multiplier of 3. One run gives all numbers of epochs: it is the same run, looked at earlier. About half a minute
each. Finished runs are kept in --results and not run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from tables import Results, as_command, difference, header, mean, row

from dpcalc.training.data import load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.settings import Settings

EPOCHS = (50, 100, 200)
# (algorithm, λ): training and test accuracy after 50, 100, 200 epochs (Tables 5 and 6).
PAPER = {
    ("cgd", 0.002): ((89.36, 90.24, 90.85), (90.12, 90.94, 91.37)),
    ("cgd", 0.004): ((89.23, 90.00, 90.39), (90.03, 90.70, 91.02)),
    ("sgd", 0.002): ((89.36, 90.25, 90.84), (90.12, 90.97, 91.40)),
    ("sgd", 0.004): ((89.22, 89.99, 90.37), (90.00, 90.75, 91.01)),
}
# ε at δ = 1e-5: last-iterate bounds for cgd, composition for sgd (Table 4).
PAPER_EPSILON = {
    ("cgd", 0.002): (4.34, 5.60, 7.58),
    ("cgd", 0.004): (4.32, 5.51, 7.09),
    ("sgd", 0.002): (4.44, 6.65, 10.11),
    ("sgd", 0.004): (4.44, 6.65, 10.11),
}


def settings(algorithm: str, regularization: float, epochs: int, seed: int, batch_size: int) -> Settings:
    return Settings(
        model="logistic",
        algorithm=algorithm,
        adjacency="replace-one",
        batch_size=batch_size,
        lr=0.05,
        clip=5.0,
        feature_clip=8.0,
        noise_multiplier=3.0,
        regularization=regularization,
        epochs=epochs,
        seed=seed,
    )


def plan(chosen: Settings, data) -> Plan:
    return Plan(settings=chosen, records=len(data), delta=1e-5)


def accuracies(data, chosen: Settings, epochs: list[int]) -> dict[str, tuple]:
    """Training and test accuracy after so many epochs, in percent."""
    trainer, found = Trainer(plan(chosen, data), data), {}
    steps = {plan(replace(chosen, epochs=each), data).planned_steps: each for each in epochs}
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step in steps:
            found[str(steps[trainer.step])] = tuple(100 * value for value in trainer.quality())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, nargs="+", default=list(EPOCHS))
    parser.add_argument("--algorithms", nargs="+", default=["cgd", "sgd"], choices=["cgd", "sgd"])
    parser.add_argument("--regularizations", type=float, nargs="+", default=[0.002, 0.004], choices=[0.002, 0.004])
    parser.add_argument("--batch-size", type=int, default=1500)
    parser.add_argument("--results", help="a JSON file of finished runs")
    arguments = parser.parse_args()
    data, results = load(arguments.data), Results(arguments.results)
    print(f"{len(data):,} records in batches of {arguments.batch_size:,}; {arguments.seeds} seeds (the paper: 10)\n")
    columns = ("algorithm", "λ", "epochs", "train, paper", "ours", "difference", "test, paper", "ours", "difference")
    print(header(*columns, "ε, paper", "ours", "bound"))
    for algorithm in arguments.algorithms:
        for regularization in arguments.regularizations:
            runs = []
            for seed in range(arguments.seeds):
                chosen = settings(algorithm, regularization, max(arguments.epochs), seed, arguments.batch_size)
                name = f"{algorithm} {regularization} {seed} {len(data)} {arguments.batch_size} {arguments.epochs}"
                runs.append(results.of(name, lambda each=chosen: accuracies(data, each, arguments.epochs)))
            for epochs in arguments.epochs:
                print(told(data, replace(chosen, epochs=epochs, seed=None), runs), flush=True)


def told(data, chosen: Settings, runs: list[dict]) -> str:
    """A row: accuracies and ε of the paper beside ours."""
    key, epochs = (chosen.algorithm, chosen.regularization), int(chosen.epochs or 0)
    cells: list[object] = []
    for which in (0, 1):
        ours = [run[str(epochs)][which] for run in runs]
        paper = PAPER[key][which][EPOCHS.index(epochs)] if epochs in EPOCHS else None
        cells += ["–", mean(ours), "–"] if paper is None else [paper, mean(ours), difference(ours, paper)]
    bound = min(account(plan(chosen, data)).bounds, key=lambda each: each["epsilon"])
    cells += [PAPER_EPSILON[key][EPOCHS.index(epochs)] if epochs in EPOCHS else "–", f"{bound['epsilon']:.3f}"]
    return row(*key, epochs, *cells, f"{bound['theorem'].split('; ')[-1]}, {bound['guarantee']}")


if __name__ == "__main__":
    as_command(main)
