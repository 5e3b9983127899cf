"""Bok et al., Tables 1, 2, 5 and 6: private logistic regression on MNIST, the paper's figures beside ours.

    python examples/train_bok.py --data mnist/ [--seeds 3] [--algorithms cgd sgd] [--regularizations 0.002 0.004]

Pixels in [0, 1], features clipped to norm 8, a constant 1 appended, gradients clipped at 5 (so L = 10), λθ added after
clipping, batches of 1,500 in file order (cgd) or drawn without replacement (sgd), noise 0.01 on the average, which is a
noise multiplier of 3. One run gives all numbers of epochs: it is the same run, looked at earlier. About a minute each.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

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


def settings(algorithm: str, regularization: float, epochs: int, seed: int) -> Settings:
    return Settings(
        model="logistic",
        algorithm=algorithm,
        adjacency="replace-one",
        batch_size=1500,
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


def accuracies(data, algorithm: str, regularization: float, epochs: list[int], seed: int) -> dict[int, tuple]:
    trainer = Trainer(plan(settings(algorithm, regularization, max(epochs), seed), data), data)
    found = {}
    while trainer.step < trainer.total_steps:
        trainer.advance()
        epoch = trainer.step / 40
        if epoch in epochs:
            found[int(epoch)] = tuple(100 * value for value in trainer.quality())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, nargs="+", default=list(EPOCHS))
    parser.add_argument("--algorithms", nargs="+", default=["cgd", "sgd"])
    parser.add_argument("--regularizations", type=float, nargs="+", default=[0.002, 0.004])
    arguments = parser.parse_args()
    data = load(arguments.data)
    print("| algorithm | λ | epochs | train, paper | ours | test, paper | ours | ε, paper | ours | bound |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for algorithm in arguments.algorithms:
        for regularization in arguments.regularizations:
            runs = [
                accuracies(data, algorithm, regularization, arguments.epochs, seed) for seed in range(arguments.seeds)
            ]
            for epochs in arguments.epochs:
                key = (algorithm, regularization)
                place = EPOCHS.index(epochs)
                paper_train, paper_test = (column[place] for column in PAPER[key])
                train, test = (_mean([run[epochs][which] for run in runs]) for which in (0, 1))
                run_settings = settings(algorithm, regularization, epochs, 0)
                bounds = account(plan(replace(run_settings, seed=None), data)).bounds
                bound = min(bounds, key=lambda each: each["epsilon"])
                print(
                    f"| {algorithm} | {regularization} | {epochs} | {paper_train} | {train} | {paper_test} | {test} "
                    f"| {PAPER_EPSILON[key][place]} | {bound['epsilon']:.3f} | {bound['theorem'].split('; ')[-1]}, "
                    f"{bound['guarantee']} |",
                    flush=True,
                )


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


if __name__ == "__main__":
    main()
