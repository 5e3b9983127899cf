"""What privacy costs in processor time: a private step against the same step without clipping and noise, in one run.

    OMP_NUM_THREADS=1 python benchmarks/train.py [--data mnist/] [--steps 20] [--backends]

Both steps use the same batches and the same layers; the private one adds fixed slots, per-record norms in double
precision, weights, sums by tiles, and secure noise. Both are timed in turns, the same few steps at a time, and the
least processor time of each counts: that least disturbed by whatever else the machine does. The last rows time 200
epochs of cyclic logistic regression and give the peak memory of all the steps. `--backends` times private steps in
NumPy and in PyTorch in turns instead.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.settings import Settings

CYCLIC = {"algorithm": "cgd"}
CASES = (
    ("logistic", {**CYCLIC, "model": "logistic", "batch_size": 1500}, 2.0),
    ("logistic, all 60,000", {"algorithm": "gd", "model": "logistic"}, 2.0),
    ("mlp 128", {**CYCLIC, "model": "mlp", "batch_size": 512}, 2.0),
    ("mlp 128, Poisson", {"algorithm": "sgd", "model": "mlp", "batch_size": 512}, 2.0),
    ("mlp 512-512", {**CYCLIC, "model": "mlp", "hidden": (512, 512), "batch_size": 512}, 2.0),
    ("cnn-small", {**CYCLIC, "model": "cnn-small", "batch_size": 512}, 3.0),
    ("cnn", {**CYCLIC, "model": "cnn", "batch_size": 512}, 3.0),
    ("cnn, online clip", {**CYCLIC, "model": "cnn", "batch_size": 512, "clipping": "online", "clip": 0.1}, 3.0),
    ("cnn, Poisson", {"algorithm": "sgd", "model": "cnn", "batch_size": 512}, 3.0),
)


def images(records: int = 60_000) -> Dataset:
    """Random records of MNIST's shape: the time of a step does not depend on what they show."""
    generator = np.random.default_rng(0)
    x = generator.random((records, 784), dtype=np.float32)
    y = generator.integers(0, 10, records)
    return Dataset(name="random", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100], classes=10)


def seconds(work) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def plain_step(trainer: Trainer, data: Dataset, step: int) -> None:
    """The same step for data that is nobody's: average gradient, learning rate, done."""
    records = trainer.batches.draw(step, trainer.noise)
    moved = trainer.model.plain_sum(trainer.parameters, data.x_train[records], data.y_train[records])
    moved *= 1e-3 / trainer.batches.batch_size
    np.subtract(trainer.parameters, moved, out=moved)
    trainer.parameters = moved.astype(np.float32)


def compare(data: Dataset, changes: dict, rounds: int, together: int) -> tuple[float, float, float]:
    settings = Settings(noise_multiplier=1.0, lr=1e-3, steps=1000, **changes)
    private, plain = (Trainer(Plan(settings=settings, records=len(data), delta=1e-5), data) for _ in range(2))
    ours = theirs = float("inf")
    for _ in range(rounds):
        private.step = 0
        ours = min(ours, seconds(lambda: [private.advance() for _ in range(together)]) / together)
        theirs = min(theirs, seconds(lambda: [plain_step(plain, data, step) for step in range(together)]) / together)
    return ours, theirs, ours / theirs


def compare_backends(data: Dataset, rounds: int) -> None:
    """Private steps of both backends, in turns."""
    print(f"{'private step':<22}{'numpy ms':>12}{'torch ms':>12}{'ratio':>8}")
    for name, changes, _ in CASES:
        trainers = {}
        for backend in ("numpy", "torch"):
            settings = Settings(noise_multiplier=1.0, lr=1e-3, steps=1000, backend=backend, **changes)
            trainers[backend] = Trainer(Plan(settings=settings, records=len(data), delta=1e-5), data)
        least = dict.fromkeys(trainers, float("inf"))
        for _ in range(rounds):
            for backend, trainer in trainers.items():
                trainer.step = 0
                least[backend] = min(least[backend], seconds(trainer.advance))
        ours, theirs = least.values()
        print(f"{name:<22}{1e3 * ours:>12.2f}{1e3 * theirs:>12.2f}{ours / theirs:>8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of MNIST; random records of its shape if left out")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backends", action="store_true", help="NumPy against PyTorch")
    arguments = parser.parse_args()
    data = load(arguments.data) if arguments.data else images()
    if arguments.backends:
        compare_backends(data, arguments.steps // 2)
        return
    print(f"{'step':<22}{'private ms':>12}{'plain ms':>12}{'ratio':>8}{'limit':>8}")
    for name, changes, limit in CASES:
        long = "cnn" in name or "all" in name
        ours, theirs, ratio = compare(
            data, changes, arguments.steps // 3 if long else arguments.steps, 1 if long else 5
        )
        print(f"{name:<22}{1e3 * ours:>12.2f}{1e3 * theirs:>12.2f}{ratio:>8.2f}{limit:>8g}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    held = data.x_train.nbytes / 2**20
    print(f"peak memory of everything above: {peak:,.0f} MB (limit 2,000 MB; {held:,.0f} MB are data)")
    settings = Settings(
        model="logistic", algorithm="cgd", batch_size=1500, epochs=200, lr=0.05, clip=5.0, noise_multiplier=3.0,
        regularization=0.002, feature_clip=8.0, adjacency="replace-one",
    )  # fmt: skip
    trainer = Trainer(Plan(settings=settings, records=len(data), delta=1e-5), data)
    spent = seconds(lambda: [trainer.advance() for _ in range(trainer.total_steps)])
    print(f"cyclic logistic regression, 8,000 steps of 1,500: {spent:.1f} s (limit 60 s)")


if __name__ == "__main__":
    main()
