"""What privacy costs in time: a private step against the same step without clipping and noise, in one run.

    python benchmarks/train.py [--data mnist/] [--steps 20]

Both steps use the same batches and the same layers; the private one adds per-record norms, weights, and secure noise.
Both are timed in turn, the same five steps at a time, and the fastest five of each count: those least disturbed. The
last rows time 200 epochs of cyclic logistic regression and give the peak memory of the CNN's steps.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from dpcalc.training.data import Dataset, load
from dpcalc.training.loop import Trainer
from dpcalc.training.settings import Settings

TOGETHER = 5
CASES = (
    ("logistic", {"model": "logistic", "batch_size": 1500}, 2.0),
    ("mlp 128", {"model": "mlp", "batch_size": 512}, 2.0),
    ("mlp 512-512", {"model": "mlp", "hidden": (512, 512), "batch_size": 512}, 2.0),
    ("cnn-small", {"model": "cnn-small", "batch_size": 512}, 3.0),
    ("cnn", {"model": "cnn", "batch_size": 512}, 3.0),
    ("cnn, online clip", {"model": "cnn", "batch_size": 512, "clipping": "online", "clip": 0.1}, 3.0),
)


def images(records: int = 60_000) -> Dataset:
    """Random records of MNIST's shape: the time of a step does not depend on what they show."""
    generator = np.random.default_rng(0)
    x = generator.random((records, 784), dtype=np.float32)
    y = generator.integers(0, 10, records)
    return Dataset(name="random", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100], classes=10)


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain_step(trainer: Trainer, data: Dataset, step: int) -> None:
    """The same step for data that is nobody's: average gradient, learning rate, done."""
    records = trainer.batches.draw(step, trainer.noise)
    found = trainer.model.plain_pass(trainer.parameters, data.x_train[records], data.y_train[records])
    moved = found.sums[0]
    moved *= 1e-3 / trainer.batches.batch_size
    np.subtract(trainer.parameters, moved, out=moved)
    trainer.parameters = moved.astype(np.float32)


def compare(data: Dataset, changes: dict, steps: int) -> tuple[float, float, float]:
    settings = Settings(algorithm="cgd", noise_multiplier=1.0, lr=1e-3, steps=10**6, **changes)
    private, plain = (Trainer(settings, data, delta=1e-5) for _ in range(2))
    ours = theirs = float("inf")
    for _ in range(steps):
        private.step = 0
        ours = min(ours, seconds(lambda: [private.advance() for _ in range(TOGETHER)]) / TOGETHER)
        theirs = min(theirs, seconds(lambda: [plain_step(plain, data, step) for step in range(TOGETHER)]) / TOGETHER)
    return ours, theirs, ours / theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of MNIST; random records of its shape if left out")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    data = load(arguments.data) if arguments.data else images()
    print(f"{'step':<18}{'private ms':>12}{'plain ms':>12}{'ratio':>8}{'limit':>8}")
    for name, changes, limit in CASES:
        count = 1 + arguments.steps // 10 if "cnn" in name else arguments.steps
        ours, theirs, ratio = compare(data, changes, count)
        print(f"{name:<18}{1e3 * ours:>12.2f}{1e3 * theirs:>12.2f}{ratio:>8.2f}{limit:>8g}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    held = data.x_train.nbytes / 2**20
    print(f"peak memory of everything above: {peak:,.0f} MB (limit 2,000 MB; {held:,.0f} MB are data)")
    settings = Settings(
        model="logistic", algorithm="cgd", batch_size=1500, epochs=200, lr=0.05, clip=5.0, noise_multiplier=3.0,
        regularization=0.002, feature_clip=8.0, adjacency="replace-one",
    )  # fmt: skip
    trainer = Trainer(settings, data, delta=1e-5)
    start = time.perf_counter()
    while trainer.step < trainer.total_steps:
        trainer.advance()
    print(f"cyclic logistic regression, 8,000 steps of 1,500: {time.perf_counter() - start:.1f} s (limit 60 s)")


if __name__ == "__main__":
    main()
