"""Koskela et al., Figures 2 and 6 to 10: filtered DP-GD with several labels a record, Adam and the macro-averaged AUC.

    python examples/koskela_labels.py --data mnist/ [--epsilons 2.75 0.5 10] [--factors 0.5 1 2 5] [--seeds 3]
    python examples/koskela_labels.py --mimic phenotyping/ [--folder FOLDER]

The paper's records are MIMIC-III's, which are not public: `mimic.py` reads them for those who hold them, `digits.py`
makes a public task of the same kind from MNIST. An MLP, full batch, Adam; the noise is such that 50 steps cost ε at
δ = 1e-5 (2.75: σ = 10.61), then the individual GDP filter goes on to step 100. With --mimic, clip, rate, weight decay,
hidden layer and multiples of the clip are those of the paper's published code; for the public task they are near the
best of a few that were tried. The paper prints no numbers of these figures, so what it says of them stands beside
ours. Pictures go to FOLDER. Finished runs are kept in --results and not run again.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from digits import overlaid
from mimic import load_mimic
from tables import Results, as_command, header, mean, row

from dpcalc import conversions
from dpcalc.training.data import Dataset, load
from dpcalc.training.labels import unpacked
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import calibrated
from dpcalc.training.settings import Settings

DELTA, PLANNED, TOTAL = 1e-5, 50, 100
BINS = 20
GROUPS = ("no label", "with the first", "without the first", "with the second", "without the second")
IN_TRAINING, IN_TEST = 1000, 400
# Near the best of a few that were tried, and what the paper's published code has.
DIGITS = {"clip": 2.5, "lr": 0.02, "decay": 0.0, "hidden": 100, "factors": [0.5, 1.0, 2.0, 5.0]}
MIMIC = {"clip": 0.7872, "lr": 0.009479, "decay": 0.000939, "hidden": 369, "factors": [0.5, 1.0, 1.5, 3.0, 5.0]}
SAYS = {
    "clips": "filtering gains only where the clip is far too large (5 ×); at the best one most records are near ε "
    "after plain training, at 5 × most are far from it",
    "small": "ε = 0.5: filtering gains slightly",
    "large": "ε = 10: filtering gains slightly",
}


def settings(clip: float, seed: int, arguments: argparse.Namespace) -> Settings:
    return Settings(
        model="mlp", hidden=(arguments.hidden,), backend=arguments.backend, algorithm="gd", optimizer="adam",
        lr=arguments.lr, regularization=arguments.decay, clip=clip, noise_multiplier=1.0, steps=arguments.planned,
        extra_steps=arguments.total - arguments.planned, filter="gdp", seed=seed,
    )  # fmt: skip


def one_run(data: Dataset, groups: list[Any], epsilon: float, chosen: Settings, every: int) -> dict[str, Any]:
    """The area after every few steps, active records, individual ε where the filter begins, and the groups."""
    plan = Plan(settings=chosen, records=len(data), delta=DELTA)
    plan = plan.with_noise(calibrated([plan], epsilon=epsilon))
    trainer, areas, found = Trainer(plan, data), [], {}
    while trainer.step < trainer.total_steps:
        trainer.advance()
        if trainer.step % every == 0 or trainer.step in (plan.planned_steps, trainer.total_steps):
            areas.append((trainer.step, trainer.model.quality(trainer.parameters, data.x_test, data.y_test)))
        if trainer.step in (plan.planned_steps, trainer.total_steps):
            own = np.asarray(conversions.gdp_epsilon(trainer.filter.spent, DELTA))
            found[str(trainer.step)] = _by_group(trainer, data, groups, own)
            if trainer.step == plan.planned_steps:
                histogram = np.histogram(own, bins=BINS, range=(0, epsilon * 1.001))[0].tolist()
                found["near"] = float(np.mean(own > 0.98 * epsilon))
    noise = plan.settings.noise_multiplier
    return {"areas": areas, "active": trainer.history.active, "histogram": histogram, "noise": noise, **found}


def subgroups(data: Dataset, first: int, second: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Groups that do not overlap: no label; with and without the first label; with and without the second."""
    parts = []
    for sets, most in ((data.y_train, IN_TRAINING), (data.y_test, IN_TEST)):
        has, taken, found = unpacked(sets, data.classes), np.zeros(len(sets), dtype=bool), []
        wanted = (~has.any(axis=1), has[:, first], ~has[:, first], has[:, second], ~has[:, second])
        for members in wanted:
            chosen = np.flatnonzero(members & ~taken)[: min(most, len(sets) // 8)]
            taken[chosen] = True
            found.append(chosen)
        parts.append(found)
    return list(zip(*parts, strict=True))


def _by_group(trainer: Trainer, data: Dataset, groups: list[Any], own: np.ndarray) -> list[tuple[float, ...]]:
    return [
        (
            float(own[train].mean()) if len(train) else float("nan"),
            _loss(trainer, data.x_train[train], data.y_train[train]),
            _loss(trainer, data.x_test[test], data.y_test[test]),
        )
        for train, test in groups
    ]


def _loss(trainer: Trainer, x: np.ndarray, y: np.ndarray) -> float:
    """The logistic loss, averaged over labels and records."""
    if not len(x):
        return float("nan")
    scores = trainer.model.outputs(trainer.parameters, x).astype(float)
    there = unpacked(y, scores.shape[1])
    return float(np.mean(np.logaddexp(0, scores) - scores * there))


def table(title: str, says: str, cases: dict[str, list[dict[str, Any]]], planned: int) -> None:
    print(f"\n{title}; the paper: {says}\n")
    columns = ("case", "noise multiplier", "AUC, plain", "best after it", "last", "gain of the last")
    print(header(*columns, "active after one more step", "at the end", "records near their ε"))
    for name, runs in cases.items():
        plain = [dict(run["areas"])[planned] for run in runs]
        later = [[area for step, area in run["areas"] if step > planned] for run in runs]
        last = [areas[-1] for areas in later]
        gains = [after - before for after, before in zip(last, plain, strict=True)]
        best = [max(areas) for areas in later]
        active = [statistics.mean(run["active"][step] for run in runs) for step in (planned, -1)]
        print(
            row(
                name, f"{runs[0]['noise']:.2f}", mean(plain, 4), mean(best, 4), mean(last, 4), mean(gains, 4),
                f"{active[0]:,.0f}", f"{active[1]:,.0f}",
                f"{100 * statistics.mean(run['near'] for run in runs):.1f} %",
            )
        )  # fmt: skip


def group_table(runs: list[dict[str, Any]], planned: int, total: int) -> None:
    print(f"\nFigure 2: groups at step {planned} → {total}; the paper: ε more equal, losses more different\n")
    print(header("group", "mean individual ε", "training loss", "test loss"))
    for index, name in enumerate(GROUPS):
        cells = []
        for place in range(3):
            values = [statistics.mean(run[str(step)][index][place] for run in runs) for step in (planned, total)]
            cells.append(f"{values[0]:.4f} → {values[1]:.4f}")
        print(row(name, *cells))
    for name, place in (("mean ε", 0), ("training loss", 1), ("test loss", 2)):
        spread = [
            np.ptp([[group[place] for group in run[str(step)]] for run in runs], axis=1) for step in (planned, total)
        ]
        print(f"\nspread of {name} between groups: {mean(spread[0], 4)} → {mean(spread[1], 4)}")


def draw(folder: Path, cases: dict[str, dict[str, list[dict[str, Any]]]], planned: int) -> None:
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for name, group in cases.items():
        figure = Figure(figsize=(11, 3.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for case, runs in group.items():
            steps = [step for step, _ in runs[0]["areas"]]
            left.plot(steps, np.mean([[area for _, area in run["areas"]] for run in runs], axis=0), label=case)
            middle.plot(np.arange(1, len(runs[0]["active"]) + 1), np.mean([run["active"] for run in runs], axis=0))
            right.stairs(np.mean([run["histogram"] for run in runs], axis=0), np.linspace(0, 1, BINS + 1), label=case)
        left.set(xlabel="epochs", ylabel="test AUC (macro)")
        middle.set(xlabel="epochs", ylabel="active records")
        right.set(xlabel=f"individual ε over the budget, epoch {planned}", ylabel="records")
        for axes in (left, middle):
            axes.axvline(planned, color="red", linewidth=0.8)
        left.legend(fontsize=7)
        figure.savefig(folder / f"koskela-{name}.png", dpi=80)
        print(folder / f"koskela-{name}.png")


def read_data(arguments: argparse.Namespace) -> tuple[Dataset, int, int]:
    """The records, and the two labels by which groups are told apart."""
    if arguments.mimic is None:
        return overlaid(load(arguments.data), arguments.records), 2, 7  # the digits 3 and 8
    data, names = load_mimic(arguments.mimic)
    places = [next(i for i, name in enumerate(names) if word in name.lower()) for word in ("pneumonia", "infarction")]
    return data, places[0], places[1]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", help="folder with the IDX files of MNIST")
    source.add_argument("--mimic", help="the benchmark's phenotyping folder")
    parser.add_argument("--records", type=int, help="at most so many, for a quick look")
    parser.add_argument(
        "--epsilons", type=float, nargs="+", default=[2.75, 0.5, 10.0], help="the first one has all clips"
    )
    parser.add_argument("--factors", type=float, nargs="+", help="multiples of --clip")
    parser.add_argument("--clip", type=float, help="the best one")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--decay", type=float, help="λ of the regulariser")
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--planned", type=int, default=PLANNED, help="epochs before the filter")
    parser.add_argument("--total", type=int, default=TOTAL, help="epochs in all")
    parser.add_argument("--every", type=int, default=5, help="steps between looks at the test records")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--backend", default="numpy", choices=["numpy", "torch"])
    parser.add_argument("--results", help="a JSON file of finished runs")
    parser.add_argument("--folder", type=Path, help="where the pictures go; none unless told")
    arguments = parser.parse_args()
    for name, value in (DIGITS if arguments.mimic is None else MIMIC).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def main() -> None:
    arguments = parse()
    data, first, second = read_data(arguments)
    groups, results, planned = subgroups(data, first, second), Results(arguments.results), arguments.planned
    model = f"mlp {data.features}-{arguments.hidden}-{data.classes}, Adam at {arguments.lr:g}"
    model += f"{f', λ = {arguments.decay:g}' if arguments.decay else ''}, {arguments.backend}"
    print(f"{data.name}: {len(data):,} records, {len(data.x_test):,} to test; {model}; {arguments.seeds} seeds")

    def runs(epsilon: float, factor: float) -> list[dict[str, Any]]:
        found = []
        for seed in range(arguments.seeds):
            chosen = settings(factor * arguments.clip, seed, arguments)
            name = f"{epsilon} {len(data)} {chosen.as_dict()}"
            found.append(results.of(name, lambda c=chosen: one_run(data, groups, epsilon, c, arguments.every)))
        return found

    main_epsilon, *others = arguments.epsilons
    cases = {"clips": {f"{f:g} × clip": runs(main_epsilon, f) for f in arguments.factors}}
    table(f"Figures 6 to 8: ε = {main_epsilon:g}", SAYS["clips"], cases["clips"], planned)
    for epsilon in others:
        name, figure = ("small", 9) if epsilon < main_epsilon else ("large", 10)
        cases[name] = {f"ε = {epsilon:g}": runs(epsilon, 1.0)}
        table(f"Figure {figure}: ε = {epsilon:g}", SAYS[name], cases[name], planned)
    group_table(runs(main_epsilon, 1.0), planned, arguments.total)
    if arguments.folder is not None:
        draw(arguments.folder, cases, planned)


if __name__ == "__main__":
    as_command(main)
