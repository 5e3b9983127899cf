"""Galli et al., Tables 8 to 13, Figures 3 to 11: clipping under a budget per grid search, the paper's beside ours.

    python examples/train_galli.py --task mnist --data mnist/ [--epsilons 3 5 7 9] [--granularity 9] [--seeds 5]
    python examples/train_galli.py --task fashion --data fashion-mnist/
    python examples/train_galli.py --task news --data ag-news/ --glove glove.6B.50d.txt

The tasks are the paper's: its CNN on MNIST, its autoencoder on Fashion-MNIST (mean squared error × 100), its bag of
words on AG News. Each method searches its own grid, and all runs of the grid share one (ε, 1e-5): online clipping
searches the learning rate only (k runs), a fixed threshold the rate and the clip (k² runs), a quantile the rate and the
quantile (5k runs), AdamWOSM the clip only (k runs). As in the paper, a run is validated on the test set every 50 steps
and its best iterate counts; a configuration counts by its mean over seeds, which are not part of the budget; and
`--no-privacy` adds the baseline without clipping and noise. `--rates LOW HIGH` are powers of ten of another range of
learning rates, for winners at the edge of the paper's.

The full experiment (k = 9, four ε, five seeds) is days of work for a laptop. `--model`, `--epochs` and `--granularity`
make it smaller, and the first line says what was run. `--best` runs only what won in the paper, `--only lr=1
lr=1,clip=0.1` only these configurations, both with the noise of the whole grid, so that their winner is one of it.
Finished runs are kept in --results and not run again; `--folder` gets the picture of the paper's figure (k = 7: 3 to 5,
k = 9: 6 to 8, k = 5: 9 to 11).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from galli_published import BEST, EPSILONS, METHODS, RESULTS, WITHOUT_PRIVACY
from news import load_news
from tables import Results, as_command, difference, header, mean, row

from dpcalc.training.data import Dataset, load
from dpcalc.training.history import DivergedError
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account_search, calibrated
from dpcalc.training.run import configurations, run
from dpcalc.training.settings import Settings

DELTA = 1e-5
MODELS = {
    "mnist": {"model": "cnn"},
    "fashion": {"model": "autoencoder"},
    "news": {"model": "mlp", "hidden": (128, 128), "activation": "leaky-relu"},
}


def grid(method: str, arguments: argparse.Namespace) -> dict[str, list]:
    rates = [float(rate) for rate in np.logspace(*arguments.rates, arguments.granularity)]
    clips = [float(clip) for clip in np.logspace(-2, 2, arguments.granularity)]
    return {
        "online": {"lr": rates},
        "fixed": {"lr": rates, "clip": clips},
        "quantile": {"lr": rates, "quantile": [0.1, 0.3, 0.5, 0.7, 0.9]},
        "adam-wosm": {"clip": clips},
    }[method]


def settings(method: str, arguments: argparse.Namespace) -> Settings:
    chosen = {**MODELS[arguments.task], **({"model": arguments.model} if arguments.model else {})}
    shared = Settings(
        **chosen,
        backend=arguments.backend,
        algorithm="sgd",
        batch_size=512,
        epochs=arguments.epochs,
        seed=arguments.first_seed,
        clip=0.1,
        validate_every=50,
    )
    return replace(shared, **({"optimizer": method} if method == "adam-wosm" else {"clipping": method}))


def merits(plan: Plan, data: Dataset, arguments: argparse.Namespace, results: Results) -> list[float]:
    """The test result of one configuration with each seed; none if a run diverges. Errors count as negative merit."""
    found = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        chosen = replace(plan, settings=replace(plan.settings, seed=seed))
        name = f"{arguments.task} {len(data)} {chosen.settings.as_dict()}"
        merit = results.of(name, lambda each=chosen: _merit(each, data))
        if merit is None:
            return []
        found.append(merit)
    return found


def _merit(plan: Plan, data: Dataset) -> float | None:
    try:
        trainer = run(plan, data)
    except DivergedError:
        return None
    return max(merit for _, merit in trainer.looking.answers)


def chosen_ones(every: list[tuple[dict, Plan]], method: str, epsilon: int, arguments: argparse.Namespace) -> list:
    """The configurations that are run: all of the grid, what won in the paper, or what is told."""
    wanted: list[dict[str, float]] | None = None
    if arguments.best:
        winner = BEST[arguments.task, arguments.granularity][method][EPSILONS[arguments.task].index(epsilon)]
        wanted = [] if winner is None else [winner]
    elif arguments.only:
        pairs = [dict(part.split("=") for part in each.split(",")) for each in arguments.only]
        told = [{name: float(value) for name, value in each.items()} for each in pairs]
        wanted = [each for each in told if set(each) == set(every[0][0])]
    if wanted is None:
        return every
    first = every[0][1]
    # Printed values are rounded; the grid's own that is meant is within a percent.
    near = [
        next((c for c, _ in every if all(math.isclose(c[k], v, rel_tol=0.01) for k, v in w.items())), w) for w in wanted
    ]
    return [(changes, replace(first, settings=first.settings.with_changes(changes))) for changes in near]


def one_row(
    method: str, epsilon: int, data: Dataset, arguments: argparse.Namespace, results: Results
) -> dict[str, Any]:
    """The winner of a grid, and all its numbers."""
    start = time.monotonic()
    plan = Plan(settings=settings(method, arguments), records=len(data), delta=DELTA)
    every = configurations(plan, grid(method, arguments))
    noise = calibrated([each for _, each in every], epsilon=epsilon)
    every = [(changes, each.with_noise(noise)) for changes, each in every]
    spent = account_search([each for _, each in every]).guarantee.epsilon
    assert spent is not None
    assert spent <= epsilon
    tried = [
        (changes, merits(each, data, arguments, results))
        for changes, each in chosen_ones(every, method, epsilon, arguments)
    ]
    finished = [(changes, found) for changes, found in tried if found]
    best = max(finished, key=lambda each: statistics.mean(each[1]), default=({}, []))
    return {
        "epsilon": epsilon, "method": method, "grid": len(every), "ran": len(tried), "noise": noise, "winner": best[0],
        "ours": [100 * abs(merit) for merit in best[1]], "minutes": (time.monotonic() - start) / 60,
    }  # fmt: skip


def told(found: dict[str, Any], arguments: argparse.Namespace) -> str:
    known, ours = _published(found["method"], found["epsilon"], arguments), found["ours"]
    nothing = "all diverged" if found["ran"] else "none won in the paper" if arguments.best else "none asked for"
    winner = ", ".join(f"{name} = {value:.4g}" for name, value in found["winner"].items()) or nothing
    paper = "–" if known is None else f"{known[0]} ± {known[1]}"
    runs = found["grid"] if found["ran"] == found["grid"] else f"{found['ran']} of {found['grid']}"
    gap = "–" if known is None or not ours else difference(ours, known[0])
    cells = (found["epsilon"], found["method"], runs, f"{found['noise']:.3f}", winner, paper)
    return row(*cells, mean(ours) if ours else "–", gap, f"{found['minutes']:.1f}")


def draw(rows: list[dict[str, Any]], arguments: argparse.Namespace, measure: str) -> None:
    """The paper's figure: results by ε, a line for each method, dashed where the paper printed its own."""
    from matplotlib.figure import Figure

    arguments.folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, method in enumerate(arguments.methods):
        own = [(each["epsilon"], each["ours"]) for each in rows if each["method"] == method and each["ours"]]
        spread = [statistics.stdev(ours) if len(ours) > 1 else 0.0 for _, ours in own]
        means = [statistics.mean(ours) for _, ours in own]
        axes.errorbar([e for e, _ in own], means, spread, marker="o", capsize=3, color=f"C{place}", label=method)
        table = RESULTS.get((arguments.task, arguments.granularity), {}).get(method, ())
        printed = [(e, value[0]) for e, value in zip(EPSILONS[arguments.task], table, strict=False) if value]
        axes.plot([e for e, _ in printed], [v for _, v in printed], "--", color=f"C{place}", alpha=0.5)
    axes.set(xlabel="ε of the whole search", ylabel=measure, title=f"{arguments.task}, k = {arguments.granularity}")
    axes.legend(fontsize=7, title="dashed: paper", title_fontsize=7)
    path = arguments.folder / f"galli-{arguments.task}-{arguments.granularity}.png"
    figure.savefig(path, dpi=80)
    print(path)


def baseline(data: Dataset, arguments: argparse.Namespace, results: Results) -> str:
    """Plain descent on the same batches for every learning rate: no clip, no noise, no privacy."""
    tried = []
    for rate in grid("online", arguments)["lr"]:
        found = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            chosen = replace(settings("fixed", arguments), seed=seed, noise_multiplier=1.0)
            plan = Plan(settings=chosen, records=len(data), delta=DELTA)
            name = f"no privacy {arguments.task} {len(data)} {rate:.4g} {chosen.as_dict()}"
            found.append(results.of(name, lambda plan=plan, rate=rate: _plain_run(plan, data, rate)))
        tried.append((statistics.mean(found), rate, [100 * abs(merit) for merit in found]))
    best, rate, ours = max(tried)
    known = WITHOUT_PRIVACY.get((arguments.task, arguments.granularity))
    winner = f"lr = {rate:.4g}{'' if known is None else f' (paper: {known:.4g})'}"
    if not math.isfinite(best):
        winner, ours = "all diverged", []
    return row("–", "no privacy", len(tried), 0, winner, "–", mean(ours) if ours else "–", "–", "–")


def _plain_run(plan: Plan, data: Dataset, rate: float) -> float:
    trainer, best = Trainer(plan, data), -float("inf")
    for step in range(plan.total_steps):
        drawn = plan.batches.draw(step, trainer.noise)
        total = trainer.model.plain_sum(trainer.parameters, data.x_train[drawn], data.y_train[drawn])
        trainer.parameters = (trainer.parameters - rate / max(1, len(drawn)) * total).astype(np.float32)
        if not np.isfinite(trainer.parameters).all():
            break
        if (step + 1) % 50 == 0 or step + 1 == plan.total_steps:
            found = trainer.model.quality(trainer.parameters, data.x_test, data.y_test)
            best = max(best, -found if trainer.model.reconstructs else found)
    return best


def _published(method: str, epsilon: int, arguments: argparse.Namespace) -> tuple[float, float] | None:
    table = RESULTS.get((arguments.task, arguments.granularity), {}).get(method)
    epsilons = EPSILONS[arguments.task]
    return table[epsilons.index(epsilon)] if table and epsilon in epsilons else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="mnist", choices=list(MODELS))
    parser.add_argument("--data", required=True, help="folder with the task's files")
    parser.add_argument("--glove", help="GloVe's text file, for news")
    parser.add_argument("--records", type=int, help="only so many records, for a quick look")
    parser.add_argument("--epsilons", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--granularity", type=int, default=9, help="k; 5, 7 and 9 in the paper")
    parser.add_argument("--rates", type=float, nargs=2, default=(-2.5, 1.5), help="powers of ten")
    parser.add_argument("--model", help="another model than the paper's")
    parser.add_argument("--backend", default="torch", choices=["numpy", "torch"])
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-privacy", action="store_true", help="the baseline too")
    parser.add_argument("--best", action="store_true", help="only what won in the paper, with the whole grid's noise")
    parser.add_argument("--only", nargs="+", help="only these, as lr=1 or lr=1,clip=0.1, with the whole grid's noise")
    parser.add_argument("--results", help="a JSON file of finished runs")
    parser.add_argument("--folder", type=Path, help="where the picture goes; none unless told")
    arguments = parser.parse_args()
    if arguments.task == "news" and arguments.glove is None:
        parser.error("--task news needs --glove FILE, GloVe's text file of 50 numbers a word")
    return arguments


def main() -> None:
    arguments = parse()
    data = load_news(arguments.data, arguments.glove) if arguments.task == "news" else load(arguments.data)
    if arguments.records:
        some = slice(0, arguments.records)
        data = replace(data, x_train=data.x_train[some], y_train=data.y_train[some])
        data = replace(data, x_test=data.x_test[some], y_test=data.y_test[some])
    model = arguments.model or MODELS[arguments.task]["model"]
    asked = f"{model}, {len(data):,} records, {arguments.epochs:g} epochs, k = {arguments.granularity}"
    measure = "mean squared error × 100" if model == "autoencoder" else "accuracy in percent"
    print(f"{arguments.task}: {asked}, {arguments.seeds} seeds, {arguments.backend}; {measure}\n")
    columns = (
        "ε",
        "method",
        "runs",
        "noise multiplier",
        "winner",
        "test, paper",
        "test, ours",
        "difference",
        "minutes",
    )
    print(header(*columns))
    results, rows = Results(arguments.results), []
    if arguments.no_privacy:
        print(baseline(data, arguments, results), flush=True)
    for epsilon in arguments.epsilons or EPSILONS[arguments.task]:
        for method in arguments.methods:
            rows.append(one_row(method, epsilon, data, arguments, results))
            print(told(rows[-1], arguments), flush=True)
    if arguments.folder is not None:
        draw(rows, arguments, measure)


if __name__ == "__main__":
    as_command(main)
