"""Koskela et al., Figures 1 and 2: individual ε on MNIST, and what filtering does to subgroups.

    python examples/train_koskela.py --data mnist/ [--epochs 50] [--parts histogram subgroups]

`histogram`: DP-SGD of a small network (batch 300, σ = 2, C = 5, 50 epochs, δ = 1e-6); each of 1,000 random records gets
its own ε from its own norms at every step, by RDP and by the privacy-loss distributions of its norms taken as given.
`subgroups`: the paper's MIMIC-III data is not public, so the groups are MNIST's digits. Full batch, σ = 10.61 and 50
steps as in the paper's §E (ε = 2.7524 at δ = 1e-5), then 25 more steps under the individual GDP filter.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

from dpcalc import conversions
from dpcalc.filters.buckets import Buckets, NormCounts
from dpcalc.filters.individual import sampled_epsilons
from dpcalc.filters.subsampled import SubsampledRenyi
from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

ORDERS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 40.0, 48.0)
SAMPLE = 1000


def histogram(data: Dataset, epochs: float) -> None:
    settings = Settings(
        model="mlp", hidden=(100,), batch_size=300, noise_multiplier=2.0, clip=5.0, lr=0.1, epochs=epochs, seed=0
    )
    plan = Plan(settings=settings, records=len(data), delta=1e-6)
    trainer = Trainer(plan, data)
    chosen = np.sort(np.random.default_rng(1).choice(len(data), SAMPLE, replace=False))
    x, y = data.x_train[chosen], data.y_train[chosen]
    rate = trainer.batches.sampling_rate
    counts = NormCounts(Buckets(sigma=10.0, clip=5.0), rate, SAMPLE)
    renyi = SubsampledRenyi(orders=ORDERS, sampling_rate=rate)
    rdp = np.zeros((len(ORDERS), SAMPLE))
    sums = SlotSums(trainer.model, SAMPLE)
    while trainer.step < trainer.total_steps:
        everyone = slice(0, SAMPLE)
        norms = sums.run(trainer.parameters, x, y, everyone, lambda norms, _, __: np.zeros((1, len(norms)))).norms
        counts.add(norms)
        rdp += renyi.rdp((np.minimum(norms, 5.0) / 10.0) ** 2)
        trainer.advance()
    worst = account(plan).guarantee.epsilon
    by_loss = sampled_epsilons(counts, 1e-6)
    by_rdp = np.array([conversions.rdp_epsilon(ORDERS, column, 1e-6) for column in rdp.T])
    print(f"Individual ε of {SAMPLE} records after {epochs:g} epochs, δ = 1e-6; worst case {worst:.3f}, ", end="")
    print(f"test accuracy {100 * (trainer.quality()[1] or 0):.2f} %\n")
    edges = np.linspace(0, float(max(by_rdp.max(), by_loss.max())), 13)
    print(f"| ε up to | records, RDP | records, loss distributions |\n|{'---|' * 3}")
    for low, high in pairwise(edges):
        counts = [int(((v > low) & (v <= high)).sum()) if low else int((v <= high).sum()) for v in (by_rdp, by_loss)]
        print(f"| {high:.3f} | {counts[0]} | {counts[1]} |")
    print(f"\nmedian: RDP {np.median(by_rdp):.3f}, loss distributions {np.median(by_loss):.3f}\n")


def subgroups(data: Dataset) -> None:
    settings = Settings(
        model="mlp", hidden=(100,), algorithm="gd", noise_multiplier=10.61, clip=1.0, steps=50, optimizer="adam-wosm",
        lr=2e-3, filter="gdp", extra_steps=25, seed=0,
    )  # fmt: skip
    plan = Plan(settings=settings, records=len(data), delta=1e-5)
    trainer = Trainer(plan, data)
    looks = []
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step in (settings.steps, trainer.total_steps):
            looks.append(_by_digit(trainer, data))
    epsilon = account(plan).guarantee.epsilon
    print(f"By digit, plain (50 steps) → filtered (75 steps), both ε = {epsilon:.4f} at δ = 1e-5 (paper: 2.7524)\n")
    print(f"| digit | mean individual ε | training loss | test loss | test accuracy |\n|{'---|' * 5}")
    for digit, (before, after) in enumerate(zip(*looks, strict=True)):
        cells = " | ".join(f"{b:.3f} → {a:.3f}" for b, a in zip(before, after, strict=True))
        print(f"| {digit} | {cells} |")
    for name, place in (("mean ε", 0), ("test loss", 2)):
        spread = [np.ptp([row[place] for row in look]) for look in looks]
        print(f"\nspread of {name} between digits: {spread[0]:.3f} → {spread[1]:.3f}")


def _losses(trainer: Trainer, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The cross-entropy of each record."""
    scores = trainer.model.outputs(trainer.parameters, x).astype(float)
    scores -= scores.max(axis=1, keepdims=True)
    return np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]


def _by_digit(trainer: Trainer, data: Dataset) -> list[tuple[float, ...]]:
    own = np.asarray(conversions.gdp_epsilon(trainer.filter.spent, 1e-5))
    rows = []
    for digit in range(10):
        members, tests = data.y_train == digit, data.y_test == digit
        train = _losses(trainer, data.x_train[members], data.y_train[members])
        test = _losses(trainer, data.x_test[tests], data.y_test[tests])
        right = trainer.model.quality(trainer.parameters, data.x_test[tests], data.y_test[tests])
        rows.append((float(own[members].mean()), float(train.mean()), float(test.mean()), right))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--epochs", type=float, default=50)
    parser.add_argument("--parts", nargs="+", default=["subgroups", "histogram"])
    arguments = parser.parse_args()
    data = load(arguments.data)
    if "subgroups" in arguments.parts:
        subgroups(data)
    if "histogram" in arguments.parts:
        histogram(data, arguments.epochs)


if __name__ == "__main__":
    main()
