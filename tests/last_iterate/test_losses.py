"""Constants of linear losses: against gradients and Hessians taken numerically, and never looser than attained."""

from __future__ import annotations

import json
import math
from typing import get_args

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.last_iterate.losses import LinearLoss, LossName, loss_of

LOSSES = get_args(LossName)
REACH = 1.7


def value(loss: str, scores: np.ndarray, label: int) -> float:
    """The loss of one record by its definition in docs/sgd-bound.md."""
    if loss == "cross-entropy":
        top = scores.max()
        return float(np.log(np.exp(scores - top).sum()) + top - scores[label])
    if len(scores) == 2:
        u, y = np.array([(scores[1] - scores[0]) / math.sqrt(2)]), np.array([1.0 if label else -1.0])
    else:
        u, y = scores, np.where(np.arange(len(scores)) == label, 1.0, -1.0)
    pieces = {
        "logistic": lambda: np.logaddexp(0, -y * u),
        "squared": lambda: (u - y) ** 2 / 2,
        "huber": lambda: np.where(abs(u - y) <= 1, (u - y) ** 2 / 2, abs(u - y) - 0.5),
        "smoothed-hinge": lambda: np.select([y * u >= 1, y * u >= 0], [0 * u, (1 - y * u) ** 2 / 2], 0.5 - y * u),
    }
    return float(pieces[loss]().sum())


STEP = 1e-4


def gradient(loss: str, theta: np.ndarray, record: np.ndarray, label: int) -> np.ndarray:
    """In θ, by central differences."""

    def at(change: np.ndarray) -> float:
        return value(loss, record @ (theta + change.reshape(theta.shape)), label)

    return np.array([(at(e) - at(-e)) / (2 * STEP) for e in np.eye(theta.size) * STEP])


def hessian(loss: str, theta: np.ndarray, record: np.ndarray, label: int) -> np.ndarray:
    """In θ, by central differences of gradients."""
    units = (np.eye(theta.size) * STEP).reshape(-1, *theta.shape)
    rows = [gradient(loss, theta + e, record, label) - gradient(loss, theta - e, record, label) for e in units]
    return np.array(rows) / (2 * STEP)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_gradient_and_no_hessian_is_larger_and_some_come_close(loss: LossName, classes: int) -> None:
    generator = np.random.default_rng(classes)
    radius = 4.0
    stated = LinearLoss(loss=loss, classes=classes, reach=REACH, radius=radius)
    steepest = bendiest = 0.0
    for scale in np.tile([0.0, 0.05, 1, radius], 10):
        features = generator.standard_normal(2)
        record = np.append(features / np.linalg.norm(features) * REACH, 1)
        theta = generator.standard_normal((3, classes))
        theta *= scale / np.linalg.norm(theta)
        if scale == radius:  # along the record, where scores are as large as they get
            signs = np.where(generator.random(classes) < 0.5, 1.0, -1.0)
            signs = signs if classes > 2 else np.array([1.0, -1.0])
            theta = np.outer(record, signs) * radius / np.linalg.norm(np.outer(record, signs))
        for label in range(classes):
            steepest = max(steepest, float(np.linalg.norm(gradient(loss, theta, record, label))))
        bend = hessian(loss, theta, record, int(generator.integers(classes)))
        bendiest = max(bendiest, float(np.linalg.eigvalsh((bend + bend.T) / 2)[-1]))
    assert steepest <= stated.gradient * (1 + 1e-6)
    assert bendiest <= stated.smoothness * (1 + 1e-4)
    # Attained but for: a curvature of 1/2 of the softmax, which three equal scores do not have (they have 1/3).
    assert bendiest >= stated.smoothness * (0.6 if loss == "cross-entropy" and classes > 2 else 0.99)
    assert steepest >= stated.gradient * 0.9


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_regulariser_gives_the_strong_convexity_and_adds_to_the_smoothness(loss: LossName, classes: int) -> None:
    plain = LinearLoss(loss=loss, classes=classes, reach=REACH)
    regularized = LinearLoss(loss=loss, classes=classes, reach=REACH, regularization=0.3)
    assert regularized.smoothness == pytest.approx(plain.smoothness + 0.3, rel=1e-12)
    assert regularized.as_dict()["strong_convexity"] == 0.3
    assert regularized.gradient == plain.gradient


def test_closed_forms() -> None:
    """R = 3: ‖x̃‖ = √10, worked out by hand."""
    of = {loss: LinearLoss(loss=loss, classes=2, reach=3, radius=2) for loss in LOSSES}
    assert of["cross-entropy"].gradient == pytest.approx(math.sqrt(20), rel=1e-14)
    assert of["cross-entropy"].smoothness == pytest.approx(5, rel=1e-14)
    assert of["logistic"].gradient == pytest.approx(math.sqrt(10), rel=1e-14)
    assert of["logistic"].smoothness == pytest.approx(2.5, rel=1e-14)
    assert of["squared"].gradient == pytest.approx(2 * 10 + math.sqrt(10), rel=1e-14)
    assert LinearLoss(loss="huber", classes=7, reach=3).gradient == pytest.approx(math.sqrt(70), rel=1e-14)
    assert LinearLoss(loss="squared", classes=2, reach=3).gradient == math.inf
    assert all(each.gradient**2 >= 10 for each in of.values())  # rounded up, never down


def test_a_logistic_model_has_one_loss() -> None:
    assert loss_of("logistic", None) == loss_of("linear", None) == "cross-entropy"
    with pytest.raises(InputError, match="`model=linear`"):
        loss_of("logistic", "huber")


RUN = ("sgd-bound", "--algorithm", "cgd", "--lr", "0.02", "--batch-size", "50", "--epochs", "30", "--delta", "1e-6")
NOISE = ("--noise-multiplier", "8")


def test_a_model_is_the_same_as_its_constants(dpcalc) -> None:
    """Binary logistic regression, R = 2, λ = 0.1: L = 2√5 for a clip of √5, M = 5/4 + 0.1."""
    clip = ("--clip", repr(math.sqrt(5)))
    model = (
        "--model",
        "linear",
        "--loss",
        "logistic",
        "--classes",
        "2",
        "--feature-clip",
        "2",
        "--regularization",
        "0.1",
    )
    found = dpcalc(*RUN, *NOISE, *clip, *model, "--n", "1000", "-f", "json").json
    stated = ("--strong-convexity", "0.1", "--smoothness", "1.35", "--n", "1000")
    expected = dpcalc(*RUN, *NOISE, *clip, *stated, "-f", "json").json
    assert found["epsilon"] == pytest.approx(expected["epsilon"], rel=1e-12)
    assert found["details"]["losses"]["smoothness"] == pytest.approx(1.35, rel=1e-12)
    assert found["details"]["best"] != "composition"
    assert any("features are brought to norm 2" in line for line in found["assumptions"])


def test_without_a_clip_the_gradients_bound_themselves(dpcalc) -> None:
    model = ("--model", "linear", "--loss", "huber", "--classes", "3", "--feature-clip", "2", "--regularization", "0.1")
    found = dpcalc(*RUN, "--sigma", "2", *model, "--n", "1000", "-f", "json").json
    assert found["details"]["sensitivity"] == pytest.approx(2 * math.sqrt(3 * 5), rel=1e-12)


def test_a_clip_that_acts_on_several_classes_leaves_composition(dpcalc) -> None:
    model = ("--model", "logistic", "--classes", "3", "--feature-clip", "2", "--regularization", "0.1", "--n", "1000")
    acting = dpcalc(*RUN, *NOISE, "--clip", "3.16", *model, "-f", "json").json
    idle = dpcalc(*RUN, *NOISE, "--clip", "3.17", *model, "-f", "json").json  # √10 = 3.1623
    assert acting["details"]["best"] == "composition"
    assert "never acts" in " ".join(acting["warnings"])
    assert "no convexity information" not in " ".join(acting["warnings"])  # it was given; the clip takes it away
    assert idle["details"]["best"] != "composition"
    assert idle["epsilon"] < acting["epsilon"]
    # With two classes the clipped gradient is that of a convex loss again.
    two = ("--model", "logistic", "--classes", "2", "--feature-clip", "2", "--regularization", "0.1", "--n", "1000")
    assert dpcalc(*RUN, *NOISE, "--clip", "1", *two, "-f", "json").json["details"]["best"] != "composition"


def test_data_gives_sizes_and_never_a_norm(dpcalc, tmp_path) -> None:
    path = tmp_path / "people.csv"
    rows = [f"{i % 3},{0.001 * i},{1 - 0.001 * i}" for i in range(100)]
    path.write_text("label,a,b\n" + "\n".join(rows) + "\n")
    model = ("--model", "logistic", "--data", str(path), "--regularization", "0.1", "--clip", "4")
    refused = dpcalc(*RUN, *NOISE, *model)
    assert (refused.code, "secret" in refused.err) == (2, True)
    found = dpcalc(*RUN, *NOISE, *model, "--feature-clip", "2", "-f", "json").json
    assert found["details"]["losses"]["classes"] == 3
    assert found["details"]["request"]["n"] == 100
    # Another file of the same size and classes, with features a thousand times as large: the same answer.
    path.write_text("label,a,b\n" + "\n".join(f"{i % 3},{i},{-i}" for i in range(100)) + "\n")
    assert dpcalc(*RUN, *NOISE, *model, "--feature-clip", "2", "-f", "json").json["epsilon"] == found["epsilon"]


def test_bytes_are_within_the_unit_cube(dpcalc) -> None:
    found = dpcalc(
        *("sgd-bound", "--algorithm", "gd", "--lr", "0.01", "--steps", "9", "--delta", "1e-6", "--sigma", "1"),
        *("--model", "logistic", "--data", "synthetic", "-f", "json"),
    ).json
    assert found["details"]["losses"]["feature_norm"] == 16  # 16 × 16 pixels


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (("--classes", "3"), "no effect without --model"),
        (("--regularization", "0"), "no effect without --model"),
        (("--model", "logistic", "--classes", "3", "--feature-clip", "1", "--smoothness", "2"), "follows from --model"),
        (("--model", "logistic", "--feature-clip", "1"), "classes"),
        (("--model", "linear", "--loss", "squared", "--classes", "2", "--feature-clip", "1"), "nothing else bounds"),
        (("--model", "logistic", "--loss", "huber", "--classes", "2", "--feature-clip", "1"), "--model linear"),
        (("--model", "logistic", "--classes", "1", "--feature-clip", "1"), "two classes"),
    ],
)
def test_refusals(dpcalc, extra, words) -> None:
    found = dpcalc(*RUN, "--sigma", "1", "--n", "1000", *extra)
    assert found.code == 2
    assert words in found.err


def test_a_swept_constant_is_refused_with_a_model(dpcalc) -> None:
    model = ("--model", "logistic", "--classes", "2", "--feature-clip", "2", "--regularization", "0.1", "--n", "1000")
    assert dpcalc(*RUN, *NOISE, "--clip", "1", *model, "--sweep", "clip=1,2").code == 2
    swept = dpcalc(*RUN, *NOISE, "--clip", "1", *model, "--sweep", "lr=0.01,0.02", "-f", "json").json
    assert len(swept["details"]["sweep"]) == 2


def test_the_result_is_read_back(dpcalc, tmp_path) -> None:
    path = tmp_path / "bound.json"
    model = ("--model", "logistic", "--classes", "2", "--feature-clip", "2", "--regularization", "0.1", "--n", "1000")
    assert dpcalc(*RUN, *NOISE, "--clip", "1", *model, "-f", "json", "-o", str(path)).code == 0
    again = dpcalc("compose", str(path), "--delta", "1e-6", "-f", "json").json
    assert again["epsilon"] == pytest.approx(json.loads(path.read_text())["epsilon"], rel=1e-9)
