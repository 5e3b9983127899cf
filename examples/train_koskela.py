"""Koskela et al., Figures 1 and 2: individual ε on MNIST, and what filtering does to subgroups.

    python examples/train_koskela.py --data mnist/ [--epochs 50] [--parts histogram subgroups] [--folder FOLDER]

`histogram`: DP-SGD of a small network (batch 300, σ = 2, C = 5, 50 epochs, δ = 1e-6); each of 1,000 random records gets
its own ε from its own norms at every step, by RDP and by the privacy-loss distributions of its norms taken as given.
One of them also gets its whole curve of ε and δ, beside the μ-GDP bound that holds it from above.
`subgroups`: the paper's MIMIC-III data is not public, so the groups are MNIST's digits. Full batch, σ = 10.61 and 50
steps as in the paper's §E (ε = 2.7524 at δ = 1e-5), then 25 more steps under the individual GDP filter.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from tables import header, row

from dpcalc import conversions
from dpcalc.filters.buckets import Buckets
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.individual import sampled_epsilons
from dpcalc.filters.subsampled import SubsampledRenyi
from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

ORDERS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 40.0, 48.0)
DELTA, DELTAS = 1e-6, (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
SIGMA, CLIP, BATCH = 2.0, 5.0, 300


def histogram(data: Dataset, epochs: float, sample: int, folder: Path | None) -> None:
    size = min(BATCH, len(data) // 2)
    settings = Settings(
        model="mlp", hidden=(100,), batch_size=size, noise_multiplier=SIGMA, clip=CLIP, lr=0.1, epochs=epochs, seed=0
    )
    plan = Plan(settings=settings, records=len(data), delta=DELTA)
    trainer = Trainer(plan, data)
    chosen = np.sort(np.random.default_rng(1).choice(len(data), sample, replace=False))
    x, y = data.x_train[chosen], data.y_train[chosen]
    rate, buckets = trainer.batches.sampling_rate, Buckets(sigma=SIGMA * CLIP, clip=CLIP)
    counts, one = NormCounts(buckets, rate, sample), NormCounts(buckets, rate, 1)
    renyi = SubsampledRenyi(orders=ORDERS, sampling_rate=rate)
    rdp = np.zeros((len(ORDERS), sample))
    sums = SlotSums(trainer.model, sample)
    while trainer.step < trainer.total_steps:
        everyone = slice(0, sample)
        norms = sums.run(trainer.parameters, x, y, everyone, lambda norms, _, __: np.zeros((1, len(norms)))).norms
        counts.add(norms)
        one.add(norms[:1])
        rdp += renyi.rdp((np.minimum(norms, CLIP) / (SIGMA * CLIP)) ** 2)
        trainer.advance()
    worst = account(plan).guarantee.epsilon
    by_loss = sampled_epsilons(counts, DELTA)
    by_rdp = np.array([conversions.rdp_epsilon(ORDERS, column, DELTA) for column in rdp.T])
    print(f"Individual ε of {sample} records after {epochs:g} epochs, δ = {DELTA:g}; worst case {worst:.3f}, ", end="")
    print(f"test accuracy {100 * (trainer.quality()[1] or 0):.2f} %\n")
    edges = np.linspace(0, float(max(by_rdp.max(), by_loss.max())), 13)
    print(header("ε up to", "records, RDP", "records, loss distributions"))
    for low, high in pairwise(edges):
        found = [int(((v > low) & (v <= high)).sum()) if low else int((v <= high).sum()) for v in (by_rdp, by_loss)]
        print(row(f"{high:.3f}", *found))
    print(f"\nmedian: RDP {np.median(by_rdp):.3f}, loss distributions {np.median(by_loss):.3f}\n")
    mu, curve = one_curve(one)
    if folder is not None:
        draw(folder, mu, curve, edges, (by_rdp, by_loss))


def one_curve(counts: NormCounts) -> tuple[float, list[float]]:
    """A record's ε at every δ, and the least μ whose curve is above it there."""
    curve = [float(sampled_epsilons(counts, delta)[0]) for delta in DELTAS]
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        holds = all(conversions.gdp_epsilon(middle, d) >= e for d, e in zip(DELTAS, curve, strict=True))
        low, high = (low, middle) if holds else (middle, high)
    print(f"One record; its curve is below that of {high:.4f}-GDP at these δ\n")
    print(header("δ", "ε, loss distributions", "ε, GDP"))
    for delta, epsilon in zip(DELTAS, curve, strict=True):
        print(row(f"{delta:g}", f"{epsilon:.4f}", f"{float(conversions.gdp_epsilon(high, delta)):.4f}"))
    return high, curve


def draw(folder: Path, mu: float, curve: list[float], edges: np.ndarray, found: tuple[np.ndarray, np.ndarray]) -> None:
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(curve, DELTAS, "o-", label="loss distributions")
    left.plot([float(conversions.gdp_epsilon(mu, delta)) for delta in DELTAS], DELTAS, "--", label=f"{mu:.3f}-GDP")
    left.set(xlabel="ε of one record", ylabel="δ", yscale="log")
    right.hist(found, edges, label=("RDP", "loss distributions"))
    right.set(xlabel=f"individual ε, δ = {DELTA:g}", ylabel="records")
    for axes in (left, right):
        axes.legend(fontsize=8)
    figure.savefig(folder / "koskela-1.png", dpi=80)
    print(folder / "koskela-1.png")


def subgroups(data: Dataset, steps: int) -> None:
    settings = Settings(
        model="mlp", hidden=(100,), algorithm="gd", noise_multiplier=10.61, clip=1.0, steps=steps,
        optimizer="adam-wosm", lr=2e-3, filter="gdp", extra_steps=steps // 2, seed=0,
    )  # fmt: skip
    plan = Plan(settings=settings, records=len(data), delta=1e-5)
    trainer = Trainer(plan, data)
    looks = []
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step in (settings.steps, trainer.total_steps):
            looks.append(_by_digit(trainer, data))
    epsilon = account(plan).guarantee.epsilon
    asked = f"plain ({steps} steps) → filtered ({trainer.total_steps} steps)"
    print(f"By digit, {asked}, both ε = {epsilon:.4f} at δ = 1e-5 (the paper, 50 steps: 2.7524)\n")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--epochs", type=float, default=50)
    parser.add_argument("--steps", type=int, default=50, help="of subgroups, before the filter")
    parser.add_argument("--sample", type=int, default=1000, help="records that get an ε of their own")
    parser.add_argument("--parts", nargs="+", default=["subgroups", "histogram"], choices=["subgroups", "histogram"])
    parser.add_argument("--folder", type=Path, help="where the picture goes; none unless told")
    arguments = parser.parse_args()
    data = load(arguments.data)
    if "subgroups" in arguments.parts:
        subgroups(data, arguments.steps)
    if "histogram" in arguments.parts:
        histogram(data, arguments.epochs, arguments.sample, arguments.folder)


if __name__ == "__main__":
    main()
