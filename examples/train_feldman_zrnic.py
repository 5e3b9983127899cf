"""Feldman and Zrnic, §5.1 and Appendix C: full-batch training of the small CNN with and without a filter.

    python examples/train_feldman_zrnic.py --data mnist/ [--epsilons 0.3] [--settings tuned clip noise] [--seeds 3]

Plain private gradient descent stops after k steps; with the filter (Algorithm 7, clip to the remaining budget) it goes
on for 35 more at the same privacy. Both come from one run, which is the same up to step k. As in the paper the training
accuracy is asked for 8 times, 5 steps apart from step k on, and the best iterate kept: once in the clear, as the paper
did, and once with Gaussian noise of 1 % (ε = 1: 0.1 %), as it says one should; the last columns say what that costs
(`dpcalc train --keep-best 8` does it). `clip` has a clip 1.5 (ε = 1: 2) times too large at the same noise, `noise` has
that much less noise at the same clip; both then stop earlier at the same ε. At ε = 1 tuned the paper adds no steps.

Pixels are normalised as in the Opacus example whose network this is; the paper does not say. A step over 60,000 records
takes about 5 seconds of an idle core with --backend torch, 6 without. Finished runs are kept in --results and not run
again; `--folder` gets a picture of their course.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import Results, as_command, difference, header, mean, row

from dpcalc import conversions
from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.settings import Settings

DELTA = 1e-5
LOOKS, BETWEEN = 8, 5
# Mean and standard deviation of MNIST's pixels, from Opacus's MNIST example.
PIXEL_MEAN, PIXEL_DEVIATION = 0.1307, 0.3081
# ε: noise multiplier, clip, learning rate, steps, factor of the suboptimal settings, noise of an accuracy (Appendix C).
HYPERPARAMETERS = {
    0.3: (170.0, 10.0, 0.2, 112, 1.5, 0.01),
    0.5: (130.0, 15.0, 0.15, 180, 1.5, 0.01),
    1.0: (100.0, 10.0, 0.2, 420, 2.0, 0.001),
}
# Test accuracy without and with the filter: mean and standard deviation of 10 runs.
PAPER = {
    (0.3, "tuned"): ((93.29, 0.49), (93.64, 0.46)),
    (0.5, "tuned"): ((94.62, 0.43), (94.90, 0.26)),
    (1.0, "tuned"): ((96.25, 0.23), (96.25, 0.23)),
    (0.3, "clip"): ((84.47, 3.95), (92.25, 0.91)),
    (0.5, "clip"): ((92.07, 2.07), (94.30, 0.58)),
    (1.0, "clip"): ((94.45, 0.45), (95.33, 0.34)),
    (0.3, "noise"): ((86.88, 2.28), (91.20, 0.73)),
    (0.5, "noise"): ((92.37, 1.32), (93.86, 0.39)),
    (1.0, "noise"): ((94.35, 0.23), (94.50, 0.14)),
}
COLUMNS = (
    "ε (RDP)", "setting", "steps", "seeds", "plain, paper", "ours", "difference", "filter, paper", "best of 8",
    "difference", "best of 8, private", "last", "ε (GDP)", "with looks", "active",
)  # fmt: skip


def settings(epsilon: float, setting: str, seed: int, backend: str) -> Settings:
    multiplier, clip, rate, steps, factor, _ = HYPERPARAMETERS[epsilon]
    if setting != "tuned":
        multiplier, steps = multiplier / factor, int(steps / factor**2)
    return Settings(
        model="cnn-small",
        backend=backend,
        algorithm="gd",
        clip=clip * factor if setting == "clip" else clip,
        noise_multiplier=multiplier,
        lr=rate,
        steps=steps,
        filter="gdp",
        filter_mode="clip",
        extra_steps=0 if (epsilon, setting) == (1.0, "tuned") else (LOOKS - 1) * BETWEEN,
        seed=seed,
    )


def one_run(data: Dataset, chosen: Settings) -> dict:
    """The looks from step k on: step, accuracy on training and test records, records that had budget left.

    And the course of it: every tenth step and its accuracy on test records.
    """
    trainer = Trainer(Plan(settings=chosen, records=len(data), delta=DELTA), data)
    start, looks, course = time.monotonic(), [], []
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step >= chosen.steps and (trainer.step - chosen.steps) % BETWEEN == 0:
            train, test = trainer.quality()
            looks.append((trainer.step, train, test, trainer.history.active[-1]))
        if trainer.step % 10 == 0:
            test = trainer.model.quality(trainer.parameters, data.x_test, data.y_test)
            course.append((trainer.step, test))
            spent = time.monotonic() - start
            print(f"<!-- seed {chosen.seed} step {trainer.step}: {100 * test:.2f} %, {spent:.0f} s -->", flush=True)
    return {"looks": looks, "course": course, "settings": chosen.as_dict()}


def summary(epsilon: float, setting: str, runs: list[dict], chosen: Settings, records: int) -> str:
    plain = [100 * run["looks"][0][2] for run in runs]
    clear = [100 * max(run["looks"], key=lambda look: look[1])[2] for run in runs]
    resolution = HYPERPARAMETERS[epsilon][5]
    private = []
    for run in runs:
        noise = np.random.default_rng(run["settings"]["seed"]).standard_normal(len(run["looks"]))
        best = np.argmax([look[1] for look in run["looks"]] + resolution * noise)
        private.append(100 * run["looks"][best][2])
    last, active = [100 * run["looks"][-1][2] for run in runs], [run["looks"][-1][3] for run in runs]
    spent = account(Plan(settings=chosen, records=records, delta=DELTA)).guarantee
    # A count of ±½ for each record moves by ½, so that a look is a Gaussian of μ = 1/(2 · resolution · n).
    looked = np.sqrt(spent.mu**2 + len(runs[0]["looks"]) / (2 * resolution * records) ** 2)
    (paper, deviation), (filtered, spread) = PAPER[epsilon, setting]
    cells = (
        epsilon, setting, f"{chosen.steps} + {chosen.extra_steps}", len(runs), f"{paper} ± {deviation}", mean(plain),
        difference(plain, paper), f"{filtered} ± {spread}", mean(clear), difference(clear, filtered),
        mean(private), mean(last), f"{spent.epsilon:.4f}",
        f"{float(conversions.gdp_epsilon(looked, DELTA)):.4f}", f"{statistics.mean(active):,.0f}",
    )  # fmt: skip
    return row(*cells)


def draw(found: dict[tuple[float, str], list[dict]], folder: Path, records: int) -> None:
    """A picture of each setting: test accuracy by step."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(4 * len(found), 3.2), layout="constrained")
    for axes, (key, runs) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        draw_course(axes, runs, *PAPER[key])
        axes.set(title=f"ε = {key[0]:g}, {key[1]}, {records:,} records", xlabel="step", ylabel="test accuracy, %")
    path = folder / "feldman-zrnic.png"
    figure.savefig(path, dpi=80)
    print(path)


def draw_course(axes: Any, runs: list[dict], plain: tuple[float, float], filtered: tuple[float, float]) -> None:
    """A line for each seed, from step k on with the filter, and the paper's two means, dashed."""
    planned, last = runs[0]["looks"][0][0], runs[0]["looks"][-1][0]
    for run in runs:
        points = sorted({*map(tuple, run["course"]), *((step, test) for step, _, test, _ in run["looks"])})
        axes.plot([p[0] for p in points], [100 * p[1] for p in points], label=f"seed {run['settings']['seed']}")
    for (paper, spread), reach in ((plain, (0, planned)), (filtered, (planned, last))):
        axes.hlines(paper, *reach, "black", "dashed")
        axes.fill_between(reach, paper - spread, paper + spread, color="black", alpha=0.1)
    axes.axvline(planned, color="grey", linewidth=0.8)
    axes.set_ylim(70, 98)
    axes.legend(fontsize=7, title="dashed: paper, ± deviation", title_fontsize=7)


def normalised(data: Dataset) -> Dataset:
    train, test = ((x - np.float32(PIXEL_MEAN)) / np.float32(PIXEL_DEVIATION) for x in (data.x_train, data.x_test))
    return replace(data, x_train=train, x_test=test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the IDX files of MNIST")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 0.5, 1.0], choices=list(HYPERPARAMETERS))
    parser.add_argument("--settings", nargs="+", default=["tuned", "clip", "noise"], choices=["tuned", "clip", "noise"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--backend", default="torch", choices=["numpy", "torch"])
    parser.add_argument("--records", type=int, help="only so many, with the noise scaled to them, for a quick look")
    parser.add_argument("--results", help="a JSON file of finished runs")
    parser.add_argument("--folder", type=Path, help="where a picture goes; none unless told")
    arguments = parser.parse_args()
    data = normalised(load(arguments.data))
    whole = len(data)
    if arguments.records is not None:
        data = replace(data, x_train=data.x_train[: arguments.records], y_train=data.y_train[: arguments.records])
    share, results = len(data) / whole, Results(arguments.results)
    scaled = "" if share == 1 else f", noise multipliers × {share:.3g}, so that ε is not the paper's"
    print(f"MNIST, {len(data):,} records{scaled}; the small CNN, full batch, {arguments.backend}\n")
    print(header(*COLUMNS))
    found: dict[tuple[float, str], list[dict]] = {}
    for epsilon in arguments.epsilons:
        for setting in arguments.settings:
            runs = []
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                chosen = settings(epsilon, setting, seed, arguments.backend)
                chosen = replace(chosen, noise_multiplier=share * chosen.noise_multiplier)
                name = f"{epsilon} {setting} {seed} {arguments.backend}{'' if share == 1 else f' {len(data)}'}"
                runs.append(results.of(name, lambda each=chosen: one_run(data, each)))
            found[epsilon, setting] = runs
            print(summary(epsilon, setting, runs, chosen, len(data)), flush=True)
    if arguments.folder is not None:
        draw(found, arguments.folder, len(data))


if __name__ == "__main__":
    as_command(main)
