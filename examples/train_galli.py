"""Galli et al., Tables 8 to 13: clipping under a privacy budget per grid search, the paper's figures beside ours.

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
make it smaller, and the first line says what was run; `--best` runs only what won in the paper on MNIST, with the noise
of the whole grid.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import numpy as np
from galli_published import BEST, EPSILONS, METHODS, RESULTS
from news import load_news

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


def merits(plan: Plan, data: Dataset, arguments: argparse.Namespace) -> list[float]:
    """The test result of one configuration with each seed; none if a run diverges. Errors count as negative merit."""
    found = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        try:
            trainer = run(replace(plan, settings=replace(plan.settings, seed=seed)), data)
        except DivergedError:
            return []
        found.append(max(merit for _, merit in trainer.looking.answers))
    return found


def one_row(method: str, epsilon: int, data: Dataset, arguments: argparse.Namespace) -> str:
    start = time.monotonic()
    plan = Plan(settings=settings(method, arguments), records=len(data), delta=DELTA)
    every = configurations(plan, grid(method, arguments))
    noise = calibrated([each for _, each in every], epsilon=epsilon)
    every = [(changes, each.with_noise(noise)) for changes, each in every]
    spent = account_search([each for _, each in every]).guarantee.epsilon
    assert spent is not None
    assert spent <= epsilon
    runs = len(every)
    if arguments.best:
        changes = BEST[method][EPSILONS["mnist"].index(epsilon)]
        every = [(changes, replace(every[0][1], settings=every[0][1].settings.with_changes(changes)))]
    tried = [(changes, merits(each, data, arguments)) for changes, each in every]
    finished = [(changes, found) for changes, found in tried if found]
    minutes = (time.monotonic() - start) / 60
    opening, paper = f"| {epsilon} | {method} | {runs} | {noise:.3f}", _paper(method, epsilon, arguments)
    if not finished:
        return f"{opening} | all diverged | {paper} | – | – | {minutes:.1f} |"
    changes, found = max(finished, key=lambda each: statistics.mean(each[1]))
    chosen = ", ".join(f"{name} = {value:.4g}" for name, value in changes.items())
    ours, known = [100 * abs(merit) for merit in found], _published(method, epsilon, arguments)
    difference = "–" if known is None else f"{statistics.mean(ours) - known[0]:+.2f}"
    return f"{opening} | {chosen} | {paper} | {_mean(ours)} | {difference} | {minutes:.1f} |"


def baseline(data: Dataset, arguments: argparse.Namespace) -> str:
    """Plain descent on the same batches for every learning rate: no clip, no noise, no privacy."""
    results = []
    for rate in grid("online", arguments)["lr"]:
        found = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            chosen = replace(settings("fixed", arguments), seed=seed, noise_multiplier=1.0)
            found.append(_plain_run(Plan(settings=chosen, records=len(data), delta=DELTA), data, rate))
        results.append((statistics.mean(found), rate, [100 * abs(merit) for merit in found]))
    _, rate, ours = max(results)
    return f"| – | no privacy | {len(results)} | 0 | lr = {rate:.4g} | – | {_mean(ours)} | – | – |"


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


def _paper(method: str, epsilon: int, arguments: argparse.Namespace) -> str:
    known = _published(method, epsilon, arguments)
    return "–" if known is None else f"{known[0]} ± {known[1]}"


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="mnist", choices=list(MODELS))
    parser.add_argument("--data", required=True, help="folder with the task's files")
    parser.add_argument("--glove", help="GloVe's text file, for news")
    parser.add_argument("--records", type=int, help="only so many records, for a quick look")
    parser.add_argument("--epsilons", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--granularity", type=int, default=9)
    parser.add_argument("--rates", type=float, nargs=2, default=(-2.5, 1.5), help="powers of ten")
    parser.add_argument("--model", help="another model than the paper's")
    parser.add_argument("--backend", default="torch", choices=["numpy", "torch"])
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-privacy", action="store_true", help="the baseline too")
    parser.add_argument("--best", action="store_true", help="only what won in the paper, with the whole grid's noise")
    arguments = parser.parse_args()
    data = load_news(arguments.data, arguments.glove) if arguments.task == "news" else load(arguments.data)
    if arguments.records:
        some = slice(0, arguments.records)
        data = replace(data, x_train=data.x_train[some], y_train=data.y_train[some])
        data = replace(data, x_test=data.x_test[some], y_test=data.y_test[some])
    model = arguments.model or MODELS[arguments.task]["model"]
    asked = f"{model}, {len(data):,} records, {arguments.epochs:g} epochs, k = {arguments.granularity}"
    measure = "mean squared error × 100" if model == "autoencoder" else "accuracy in percent"
    print(f"{arguments.task}: {asked}, {arguments.seeds} seeds, {arguments.backend}; {measure}\n")
    print("| ε | method | runs | noise multiplier | winner | test, paper | test, ours | difference | minutes |")
    print(f"|{'---|' * 9}")
    if arguments.no_privacy:
        print(baseline(data, arguments), flush=True)
    for epsilon in arguments.epsilons or EPSILONS[arguments.task]:
        for method in arguments.methods:
            print(one_row(method, epsilon, data, arguments), flush=True)


if __name__ == "__main__":
    main()
