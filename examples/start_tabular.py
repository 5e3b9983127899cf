"""Private learning on a table to start from: numbers and categories, three ways to train, and what each one costs.

    python examples/start_tabular.py
    python examples/start_tabular.py --epsilon 0.5 --records 20000

The people are made up here, like those of a census; put your own reader in the place of `people`. Numbers are scaled
by ranges that are known beforehand (nobody is older than 100), never by the smallest and largest of the data: those are
single people's. Categories that are not in the public list count as the last one.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import dpcalc

RANGES = {"age": (16, 100), "schooling": (0, 20), "hours": (0, 80), "children": (0, 6)}
SECTORS = ("farming", "industry", "trade", "public", "services", "other")
REGIONS = ("north", "south", "east", "west")


def people(count: int, generator: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Made-up people, and whether each earns more than most."""
    table = {
        "age": generator.normal(44, 15, count).clip(16, 95).round(),
        "schooling": generator.normal(11, 3, count).clip(0, 20).round(),
        "hours": generator.normal(38, 10, count).clip(0, 80).round(),
        "children": generator.poisson(1.1, count).clip(0, 6),
        "sector": generator.choice(SECTORS, count, p=[0.05, 0.2, 0.2, 0.2, 0.3, 0.05]),
        "region": generator.choice(REGIONS, count),
    }
    wage = 0.35 * (table["schooling"] - 11) + 0.06 * (table["hours"] - 38) - 0.0015 * (table["age"] - 50) ** 2
    wage += np.where(table["sector"] == "public", 0.4, 0) + np.where(table["region"] == "west", 0.5, 0)
    return table, (wage + generator.logistic(0, 0.5, count) > 0).astype(np.int64)


def features(table: dict[str, np.ndarray]) -> np.ndarray:
    """Numbers within ±1 by their public ranges, with their squares, and an indicator for every public category."""
    columns = []
    for name, (low, high) in RANGES.items():
        scaled = (2 * (np.clip(table[name], low, high) - low) / (high - low) - 1).astype(np.float64)
        columns += [scaled, scaled**2]
    for name, known in (("sector", SECTORS), ("region", REGIONS)):
        place = [known.index(value) if value in known else len(known) - 1 for value in table[name]]
        columns += list(np.eye(len(known))[place].T)
    return np.column_stack(columns).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="reproducible noise: for experiments, not for release")
    asked = parser.parse_args()
    table, labels = people(asked.records + 2_000, np.random.default_rng(1))
    x = features(table)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "people.npz"
        split = asked.records
        np.savez(data, x_train=x[:split], y_train=labels[:split], x_test=x[split:], y_test=labels[split:])
        common = {"data": str(data), "epsilon": asked.epsilon, "delta": 1e-5, "seed": asked.seed, "model": "logistic"}
        runs = {
            "random batches": {"epochs": 20, "batch_size": 500, "lr": 2, "clip": 1},
            "full batches, individual filter": {"filter": "gdp", "steps": 60, "lr": 2, "clip": 1},
            "batches in order, regularised": {
                **{"algorithm": "cgd", "adjacency": "replace-one", "epochs": 20, "batch_size": 500, "lr": 0.7},
                **{"clip": 2, "regularization": 0.05, "feature_clip": 2.0},
            },
        }
        print(f"{asked.records:,} people, {x.shape[1]} features")
        for name, settings in runs.items():
            found = dpcalc.train(**common, **settings)
            right = found.details["test_accuracy"]
            print(f"{name:32} {100 * right:5.1f} % right, ε = {found.epsilon:.3f} at δ = 1e-5 ({found.guarantee})")
            for bound in found.details["bounds"][1:]:
                told = f"ε = {bound['epsilon']:.3f} if only the last iterate is released ({bound['guarantee']})"
                print(f"{'':32} {told}")


if __name__ == "__main__":
    main()
