"""Galli et al., Figures 1 and 2: what a clip does to a gradient, and how the noise of two sums is divided.

    python examples/galli_figures.py --data mnist/ [--model cnn] [--steps 100 250 500 750 950] [--folder FOLDER]

Figure 1: as a network trains, the clipped and noised average gradient of a batch is compared with its true average, for
many clips: too small a clip bends it, too large a one drowns it in noise. The cosine is an average over 20 draws of the
noise. It looks at true gradients, so it is a picture and no part of any private run. Figure 2: noise multipliers ν_g
and ν_q that are together worth ν, and the paper's choice ν_q = 7.124 ν. Figures 3 to 11 are those of train_galli.py.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import as_command, header, mean, row

from dpcalc.training.clipping import Online
from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import calibrated
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

BATCH, DRAWS, DELTA = 512, 20, 1e-5
CLIPS = np.logspace(-3, 2, 16)
STEPS = (100, 250, 500, 750, 950)


def cosines(trainer: Trainer, data: Dataset, multiplier: float, generator: np.random.Generator) -> np.ndarray:
    """For each clip, the mean cosine between the private average of a batch and its true average."""
    chosen = generator.choice(len(data), min(BATCH, len(data)), replace=False)
    x, y = np.ascontiguousarray(data.x_train[chosen]), data.y_train[chosen]

    def weigh(norms: np.ndarray, present: np.ndarray, _: slice) -> np.ndarray:
        # The last sum is the true one; norms of empty slots are 0.
        clipped = np.minimum(1, CLIPS[:, None] / np.maximum(norms, 1e-30))
        return np.vstack([clipped, np.ones_like(norms)]) * present

    sums = SlotSums(trainer.model, len(x))
    found = sums.run(trainer.parameters, x, y, slice(0, len(x)), weigh, queries=len(CLIPS) + 1).sums
    true, means = found[-1], np.zeros(len(CLIPS))
    for _ in range(DRAWS):
        noise = generator.standard_normal(len(true))
        for place, (clip, total) in enumerate(zip(CLIPS, found[:-1], strict=True)):
            noisy = total + multiplier * clip * noise
            means[place] += noisy @ true / (np.linalg.norm(noisy) * np.linalg.norm(true)) / DRAWS
    return means


def figure_1(data: Dataset, arguments: argparse.Namespace) -> dict[int, np.ndarray]:
    settings = Settings(
        model=arguments.model, backend=arguments.backend, batch_size=min(BATCH, len(data)), steps=max(arguments.steps),
        lr=arguments.lr, clipping="online", clip=0.1,
    )  # fmt: skip
    plan = Plan(settings=settings, records=len(data), delta=DELTA)
    plan = plan.with_noise(calibrated([plan], epsilon=arguments.epsilon))
    found: dict[int, list[np.ndarray]] = {step: [] for step in sorted(arguments.steps)}
    for seed in range(arguments.seeds):
        trainer = Trainer(replace(plan, settings=replace(plan.settings, seed=seed)), data)
        generator = np.random.default_rng(seed + 1)
        while trainer.step < trainer.total_steps:
            trainer.advance()
            if trainer.step in found:
                found[trainer.step].append(cosines(trainer, data, plan.settings.noise_multiplier, generator))
    asked = f"{arguments.model}, ε = {arguments.epsilon:g}, noise multiplier {plan.settings.noise_multiplier:.3f}"
    print(f"Figure 1: {asked}, {arguments.seeds} seeds; the paper: at every step one clip is clearly best\n")
    print(header("step", "best clip", "its cosine", f"at clip {CLIPS[0]:g}", f"at clip {CLIPS[-1]:g}"))
    means = {step: np.mean(values, axis=0) for step, values in found.items()}
    for step, values in found.items():
        best = int(means[step].argmax())
        print(row(step, f"{CLIPS[best]:.3g}", *(mean([v[place] for v in values], 3) for place in (best, 0, -1))))
    return means


def figure_2(records: int, arguments: argparse.Namespace) -> dict[float, float]:
    """ν at each ε of a grid of k runs, and the two multipliers of the paper's heuristic."""
    print(f"\nFigure 2: {records:,} records, k = {arguments.granularity}, 10 epochs of batches of {BATCH}\n")
    print(header("ε", "ν", "ν_q", "ν_g", "ν_g / ν, paper", "ours", "difference"))
    found = {}
    for epsilon in (3.0, 5.0, 7.0, 9.0):
        settings = Settings(clipping="online", clip=0.1, epochs=10.0, batch_size=min(BATCH, records))
        plan = Plan(settings=settings, records=records, delta=DELTA, runs=arguments.granularity)
        nu = found[epsilon] = calibrated([plan], epsilon=epsilon)
        factor = Online().split
        share = gradient_multiplier(nu, factor * nu) / nu
        cells = (f"{nu:.3f}", f"{factor * nu:.3f}", f"{share * nu:.3f}", 1.01, f"{share:.5f}", f"{share - 1.01:+.1e}")
        print(row(f"{epsilon:g}", *cells))
    return found


def gradient_multiplier(nu: float, nu_q: float) -> float:
    """ν_g of Proposition 1."""
    return 1 / math.sqrt(nu**-2 - nu_q**-2)


def draw(folder: Path, first: dict[int, np.ndarray], second: dict[float, float]) -> None:
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for step, values in first.items():
        left.plot(CLIPS, values, label=f"t = {step}")
    left.set(xlabel="clip C", ylabel="cosine with the true gradient", xscale="log", title="Figure 1")
    for epsilon, nu in second.items():
        reach = np.linspace(1.02 * nu, 12 * nu, 200)
        line: Any = right.plot(reach, [gradient_multiplier(nu, q) for q in reach], label=f"ε = {epsilon:g}")[0]
        right.plot(7.124 * nu, 1.01 * nu, "o", color=line.get_color())
    right.set(xlabel="ν_q", ylabel="ν_g", ylim=(0, 3), title="Figure 2")
    for axes in (left, right):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(folder / "galli-1-2.png", dpi=80)
    print(folder / "galli-1-2.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--backend", default="torch", choices=["numpy", "torch"])
    parser.add_argument("--lr", type=float, default=3.162)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--granularity", type=int, default=5, help="k of Figure 2")
    parser.add_argument("--seeds", type=int, default=1, help="of Figure 1, whose curves are their means")
    parser.add_argument("--folder", type=Path, help="where the picture goes; none unless told")
    arguments = parser.parse_args()
    data = load(arguments.data)
    first = figure_1(data, arguments)
    second = figure_2(len(data), arguments)
    if arguments.folder is not None:
        draw(arguments.folder, first, second)


if __name__ == "__main__":
    as_command(main)
