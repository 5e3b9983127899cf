"""Koskela et al., Figures 1 and 2: individual ε on MNIST, and what filtering does to subgroups.

    python examples/train_koskela.py --data mnist/ [--epochs 50] [--seeds 3] [--parts histogram subgroups]

`histogram`: DP-SGD of a small network (batch 300, σ = 2, C = 5, 50 epochs, δ = 1e-6); each of 1,000 random records gets
its own ε from its own norms at every step, by RDP and by the privacy-loss distributions of its norms taken as given.
RDP is there twice: with the orders of the paper's code, and with larger ones, which small ε need.
One of them also gets its whole curve of ε and δ, beside the μ-GDP bound that holds it from above.
`subgroups`: the paper's MIMIC-III data is not public, so the groups are MNIST's digits. Full batch, σ = 10.61 and 50
steps as in the paper's §E (ε = 2.7524 at δ = 1e-5), then 25 more steps under the individual GDP filter.

The paper prints no numbers of these figures, so what it says of them stands beside ours. Finished runs are kept in
--results and not run again; `--folder` gets the picture of Figure 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from tables import Results, as_command, header, mean, row

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

# The paper's published code takes whole orders up to 32, which tell no ε below 0.30 at δ = 1e-6 (Canonne et al.).
PAPER_ORDERS = tuple(float(order) for order in range(2, 33))
ORDERS = (1.25, 1.5, 1.75, *PAPER_ORDERS, 40.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0)
KINDS = {"few": "RDP, orders to 32 (paper)", "many": "RDP, orders to 1,024", "loss": "loss distributions"}
DELTA, DELTAS = 1e-6, (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
SIGMA, CLIP, BATCH = 2.0, 5.0, 300


def histogram(data: Dataset, arguments: argparse.Namespace, results: Results) -> None:
    name = f"histogram {len(data)} {arguments.epochs:g} {arguments.sample}"
    runs = [results.of(f"{name} {seed}", lambda s=seed: one_histogram(data, s, arguments)) for seed in arguments.seeds]
    asked = f"{arguments.sample} records after {arguments.epochs:g} epochs, δ = {DELTA:g}, {len(runs)} seeds"
    right = mean([100 * run["right"] for run in runs])
    print(f"Figure 1, right: individual ε of {asked}; worst case {runs[0]['worst']:.3f}, test accuracy {right} %")
    print("The paper: loss distributions see small individual ε that RDP misses\n")
    edges = np.linspace(0, max(max(run[key]) for run in runs for key in KINDS), 13)
    print(header("ε up to", *KINDS.values()))
    counts = {key: np.mean([np.histogram(run[key], edges)[0] for run in runs], axis=0) for key in KINDS}
    for place, high in enumerate(edges[1:]):
        print(row(f"{high:.3f}", *(f"{counts[key][place]:.4g}" for key in KINDS)))
    for words, part in (("least", np.min), ("median", np.median)):
        print(row(words, *(mean([float(part(run[key])) for run in runs], 3) for key in KINDS)))
    mu, curve = runs[0]["mu"], runs[0]["curve"]
    print(f"\nFigure 1, left: one record; its curve is below that of {mu:.4f}-GDP at these δ\n")
    print(header("δ", "ε, loss distributions", "ε, GDP"))
    for delta, epsilon in zip(DELTAS, curve, strict=True):
        print(row(f"{delta:g}", f"{epsilon:.4f}", f"{float(conversions.gdp_epsilon(mu, delta)):.4f}"))
    if arguments.folder is not None:
        draw(arguments.folder, mu, curve, edges, counts)


def one_histogram(data: Dataset, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The ε of a sample of records by both accounts, and one record's whole curve beside its GDP bound."""
    size, sample = min(BATCH, len(data) // 2), arguments.sample
    settings = Settings(
        model="mlp", hidden=(100,), batch_size=size, noise_multiplier=SIGMA, clip=CLIP, lr=0.1,
        epochs=arguments.epochs, seed=seed,
    )  # fmt: skip
    plan = Plan(settings=settings, records=len(data), delta=DELTA)
    trainer = Trainer(plan, data)
    chosen = np.sort(np.random.default_rng(seed + 1).choice(len(data), sample, replace=False))
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
    mu, curve = one_curve(one)
    few = [ORDERS.index(order) for order in PAPER_ORDERS]
    return {
        "few": as_in_the_paper(rdp[few]).tolist(),
        "many": [float(conversions.rdp_epsilon(ORDERS, column, DELTA)) for column in rdp.T],
        "loss": [float(epsilon) for epsilon in sampled_epsilons(counts, DELTA)],
        "worst": account(plan).guarantee.epsilon, "right": trainer.quality()[1] or 0.0, "mu": mu, "curve": curve,
    }  # fmt: skip


def as_in_the_paper(rdps: np.ndarray) -> np.ndarray:
    """ε by the best of the paper's orders (rows), a record a column, as Canonne et al. convert one order."""
    orders = np.array(PAPER_ORDERS)[:, None]
    found = rdps + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
    return np.maximum(0, found.min(axis=0))


def one_curve(counts: NormCounts) -> tuple[float, list[float]]:
    """A record's ε at every δ, and the least μ whose curve is above it there."""
    curve = [float(sampled_epsilons(counts, delta)[0]) for delta in DELTAS]
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        holds = all(conversions.gdp_epsilon(middle, d) >= e for d, e in zip(DELTAS, curve, strict=True))
        low, high = (low, middle) if holds else (middle, high)
    return high, curve


def draw(folder: Path, mu: float, curve: list[float], edges: np.ndarray, counts: dict[str, np.ndarray]) -> None:
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(curve, DELTAS, "o-", label="loss distributions")
    left.plot([float(conversions.gdp_epsilon(mu, delta)) for delta in DELTAS], DELTAS, "--", label=f"{mu:.3f}-GDP")
    left.set(xlabel="ε of one record", ylabel="δ", yscale="log")
    for key, label in KINDS.items():
        right.stairs(counts[key], edges, label=label)
    right.set(xlabel=f"individual ε, δ = {DELTA:g}", ylabel="records")
    for axes in (left, right):
        axes.legend(fontsize=8)
    figure.savefig(folder / "koskela-1.png", dpi=80)
    print(folder / "koskela-1.png")


def subgroups(data: Dataset, arguments: argparse.Namespace, results: Results) -> None:
    name = f"subgroups {len(data)} {arguments.steps}"
    runs = [results.of(f"{name} {seed}", lambda s=seed: one_run(data, s, arguments.steps)) for seed in arguments.seeds]
    first, last = arguments.steps, arguments.steps + arguments.steps // 2
    print(f"Figure 2, by digit: plain ({first} steps) → filtered ({last} steps), means of {len(runs)} seeds; ", end="")
    print(f"both ε = {runs[0]['epsilon']:.4f} at δ = 1e-5 (the paper, 50 steps: 2.7524)\n")
    print(header("digit", "mean individual ε", "training loss", "test loss", "test accuracy"))
    looks = np.array([run["looks"] for run in runs])  # seeds × before and after × digits × columns
    for digit, (before, after) in enumerate(looks.mean(axis=0).swapaxes(0, 1)):
        print(row(digit, *(f"{b:.3f} → {a:.3f}" for b, a in zip(before, after, strict=True))))
    print("\n" + header("over the digits", "the paper", "plain", "filtered"))
    for words, says, place in (("mean ε", "smaller", 0), ("training loss", "larger", 1), ("test loss", "larger", 2)):
        spread = (mean(list(np.ptp(looks[:, i, :, place], axis=1)), 3) for i in (0, 1))
        print(row(f"spread of {words}", f"{says} by filtering", *spread))
    for words, place in (("training", 1), ("test", 2)):
        alike = [[np.corrcoef(look[:, 0], look[:, place])[0, 1] for look in looks[:, i]] for i in (0, 1)]
        print(row(f"correlation of mean ε and {words} loss", "positive", *(mean(each, 3) for each in alike)))


def one_run(data: Dataset, seed: int, steps: int) -> dict[str, Any]:
    """Each digit's ε, losses and accuracy, at the end of plain training and of the filter."""
    settings = Settings(
        model="mlp", hidden=(100,), algorithm="gd", noise_multiplier=10.61, clip=1.0, steps=steps,
        optimizer="adam-wosm", lr=2e-3, filter="gdp", extra_steps=steps // 2, seed=seed,
    )  # fmt: skip
    plan = Plan(settings=settings, records=len(data), delta=1e-5)
    trainer, looks = Trainer(plan, data), []
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step in (settings.steps, trainer.total_steps):
            looks.append(_by_digit(trainer, data))
    return {"looks": looks, "epsilon": account(plan).guarantee.epsilon}


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
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", help="a JSON file of finished runs")
    parser.add_argument("--folder", type=Path, help="where the picture goes; none unless told")
    arguments = parser.parse_args()
    arguments.seeds = range(arguments.seeds)
    data, results = load(arguments.data), Results(arguments.results)
    print(f"{data.name}: {len(data):,} records; mlp {data.features}-100-{data.classes}, numpy\n")
    if "subgroups" in arguments.parts:
        subgroups(data, arguments, results)
        print()
    if "histogram" in arguments.parts:
        histogram(data, arguments, results)


if __name__ == "__main__":
    as_command(main)
