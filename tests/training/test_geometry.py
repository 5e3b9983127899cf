"""Losses beside the cross-entropy, clips for each layer, and projections: what they compute, and what they promise."""

from typing import get_args

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.last_iterate.losses import LinearLoss, LossName
from dpcalc.training.clipping import layer_clips
from dpcalc.training.data import synthetic
from dpcalc.training.loop import Trainer
from dpcalc.training.models import build
from dpcalc.training.optimizers import projected
from dpcalc.training.plan import Plan
from dpcalc.training.run import run
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

LOSSES = [loss for loss in get_args(LossName) if loss != "cross-entropy"]


def _one_by_one(sums, parameters, x, y):
    """Each record's loss and gradient, by weights that leave out all others."""
    found = [
        sums.run(parameters, x, y, slice(0, len(x)), lambda _, __, slots, k=k: np.eye(len(x))[k : k + 1, slots])
        for k in range(len(x))
    ]
    return found[0].losses, np.concatenate([each.sums for each in found])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_derivatives_of_the_loss(loss, model, classes, backend):
    network = build(model, features=5, classes=classes, hidden=(6,), backend=backend, loss=loss)
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal((8, 5)), generator.integers(0, classes, 8)
    parameters = generator.standard_normal(network.size)
    sums = SlotSums(network, len(x))
    _, gradients = _one_by_one(sums, parameters, x, y)
    for _ in range(6):
        direction = generator.standard_normal(network.size)
        up, down = (_one_by_one(sums, parameters + s * 1e-6 * direction, x, y)[0].copy() for s in (1, -1))
        assert (up - down) / 2e-6 == pytest.approx(gradients @ direction, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_those_whose_constants_are_proved(loss):
    """The trainer's losses, as it computes them, against the definition that tests/last_iterate/test_losses.py has."""
    from tests.last_iterate.test_losses import value

    for classes in (2, 3):
        network = build("linear", features=3, classes=classes, loss=loss)
        generator = np.random.default_rng(classes)
        x, y = generator.standard_normal((40, 3)), generator.integers(0, classes, 40)
        parameters = 2 * generator.standard_normal(network.size)
        theta = parameters.reshape(4, classes)  # three features and the constant 1
        found = SlotSums(network, 40).run(parameters, x, y, slice(0, 40), lambda n, _, __: np.ones((1, len(n))))
        expected = [value(loss, np.append(row, 1) @ theta, label) for row, label in zip(x, y, strict=True)]
        assert found.losses == pytest.approx(expected, rel=1e-12, abs=1e-12)
        reach = float(np.linalg.norm(x, axis=1).max())
        stated = LinearLoss(loss=loss, classes=classes, reach=reach, radius=float(np.linalg.norm(parameters)))
        assert found.norms.max() <= stated.gradient


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_the_built_in_task(loss):
    settings = Settings(
        model="linear", loss=loss, algorithm="gd", steps=30, lr=0.5, clip=6.0, noise_multiplier=10, seed=1
    )
    trainer = run(Plan(settings=settings, records=10_000, delta=1e-5), synthetic())
    assert trainer.quality()[1] > 0.8


def test_layer_clips_add_up_to_the_clip_in_squares():
    assert layer_clips(3.0, (), 4) == pytest.approx([1.5] * 4)
    assert layer_clips(5.0, (3.0, 4.0), 2) == pytest.approx([3, 4])
    assert np.linalg.norm(layer_clips(0.7, (1.0, 2.0, 9.0), 3)) <= 0.7
    with pytest.raises(InputError, match="each of the 2 layers"):
        layer_clips(1.0, (1.0,), 2)
    with pytest.raises(InputError, match="layer a clip of"):
        layer_clips(1e-11, (1.0, 1e-3), 2)


@pytest.mark.parametrize("shares", [(), (1.0, 5.0, 2.0)])
def test_each_layer_is_clipped_at_its_own_norm(shares, backend):
    """Against per-record gradients, cut layer by layer and clipped by hand."""
    network = build("mlp", features=7, classes=3, hidden=(6, 5), backend=backend)
    generator = np.random.default_rng(5)
    x, y = generator.standard_normal((30, 7)), generator.integers(0, 3, 30)
    parameters = 2 * generator.standard_normal(network.size)
    clips = layer_clips(0.9, shares, network.blocks)
    sums = SlotSums(network, 30)
    found = sums.run(parameters, x, y, slice(0, 30), lambda n, _, __: np.ones((1, len(n))), clips=clips)
    ends = np.cumsum([8 * 6, 7 * 5, 6 * 3])
    expected, lengths = np.zeros(network.size), []
    for k in range(30):
        gradient = network.plain_sum(parameters, x[k : k + 1], y[k : k + 1])
        parts = np.split(gradient, ends[:-1])
        limits = clips / (1 + sums.margin)
        clipped = [
            part * min(1, limit / max(np.linalg.norm(part), 1e-9)) for part, limit in zip(parts, limits, strict=True)
        ]
        lengths.append(np.linalg.norm(np.concatenate(clipped)))
        expected += np.concatenate(clipped)
    assert found.sums[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert found.norms == pytest.approx(lengths, rel=1e-5)
    assert found.norms.max() <= 0.9 / (1 + sums.margin)


def test_layer_clipping_costs_what_one_clip_costs():
    from dpcalc.training.privacy import account

    common = {"model": "mlp", "hidden": (8,), "algorithm": "gd", "steps": 9, "noise_multiplier": 4.0}
    costs = [
        account(Plan(settings=Settings(clipping=clipping, **common), records=500, delta=1e-6)).guarantee.epsilon
        for clipping in ("fixed", "per-layer")
    ]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "autoencoder", "loss": "huber"}, "loss of its own"),
        ({"model": "logistic", "loss": "huber"}, "`model=linear`"),
        ({"model": "mlp", "layer_shares": (1.0,)}, "per-layer"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(InputError, match=words):
        Settings(**changes)


def test_projection_is_the_nearest_point_of_the_ball():
    far = np.array([3.0, 4.0])
    assert projected(far, 2.0) == pytest.approx([0.6, 0.8], rel=2e-6)
    assert projected(far, 10.1) is far
    assert projected(far, None) is far
    single = projected(np.float32([3, 4]) * np.float32(1e20), 2.0)
    assert single.dtype == np.float32
    assert np.linalg.norm(single.astype(float)) <= 1.0


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_no_iterate_leaves_the_ball(model):
    settings = Settings(model=model, hidden=(4,), algorithm="gd", steps=6, lr=20, noise_multiplier=50, diameter=0.5)
    trainer = Trainer(Plan(settings=settings, records=10_000, delta=1e-5), synthetic())
    lengths = [np.linalg.norm(trainer.parameters.astype(float))]
    for _ in range(6):
        trainer.advance()
        lengths.append(np.linalg.norm(trainer.parameters.astype(float)))
    assert max(lengths) <= 0.25
    assert lengths[-1] == pytest.approx(0.25, rel=1e-5)  # and the rate is such that it would
