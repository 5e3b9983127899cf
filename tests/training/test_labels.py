"""Records with several labels: their sets, their loss in every backend, and the area under the ROC curve."""

import itertools

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.training import models
from dpcalc.training.data import load
from dpcalc.training.labels import macro_auc, packed, unpacked
from dpcalc.training.optimizers import build
from dpcalc.training.plan import Plan
from dpcalc.training.run import run
from dpcalc.training.settings import Settings

GENERATOR = np.random.default_rng(3)
LABELS = GENERATOR.integers(0, 2, (60, 5))
X = GENERATOR.standard_normal((60, 7)).astype(np.float32)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "labels.npz"
    scores = X @ GENERATOR.standard_normal((7, 5))
    y = (scores > 0.3).astype(np.int64)
    np.savez(path, x_train=X[:40], y_train=y[:40], x_test=X[40:], y_test=y[40:])
    return str(path)


def test_label_sets_and_back():
    assert packed(np.array([[1, 0, 1], [0, 0, 0]])).tolist() == [5, 0]
    assert (unpacked(packed(LABELS), 5) == LABELS.astype(bool)).all()
    wide = np.ones((1, 62), dtype=np.int64)
    assert packed(wide)[0] == 2**62 - 1
    for wrong, words in ((np.full((2, 3), 2), "label 0 of record 0 is 2"), (np.zeros((1, 63)), "1 to 62 labels")):
        with pytest.raises(InputError, match=words):
            packed(wrong)


def test_the_area_under_the_curve_is_the_share_of_pairs_in_the_right_order():
    scores = np.round(GENERATOR.standard_normal((60, 5)), 1)  # with ties
    found = []
    for column, has in zip(scores.T, LABELS.T, strict=True):
        pairs = list(itertools.product(column[has == 1], column[has == 0]))
        found.append(np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs]))
    assert macro_auc(scores, packed(LABELS)) == pytest.approx(np.mean(found), rel=1e-12)
    everyone = np.column_stack([np.ones(60, dtype=int), LABELS[:, 0]])
    assert macro_auc(scores[:, :2], packed(everyone)) == pytest.approx(
        macro_auc(scores[:, 1:2], packed(LABELS[:, :1])), rel=1e-12
    )
    assert macro_auc(scores[:, :1], packed(np.ones((60, 1), dtype=int))) == 0.5


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_loss_and_gradients_are_those_of_pytorch(backend):
    torch = pytest.importorskip("torch")
    network = models.build("mlp", features=7, classes=5, hidden=(6,), backend=backend, multilabel=True)
    parameters = network.initial(np.random.default_rng(1).random)
    losses, _ = network.propagate(parameters, X, packed(LABELS))
    first, bias, second, last = np.split(parameters, np.cumsum([42, 6, 30]))
    tensors = [torch.from_numpy(part.copy()).requires_grad_() for part in (first, bias, second, last)]
    inner = torch.relu(torch.from_numpy(X) @ tensors[0].reshape(7, 6) + tensors[1])
    scores = inner @ tensors[2].reshape(6, 5) + tensors[3]
    loss = torch.nn.BCEWithLogitsLoss(reduction="none")(scores, torch.from_numpy(LABELS).float()).mean(dim=1)
    assert losses == pytest.approx(loss.detach().numpy(), rel=1e-5)
    wanted = np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss.sum(), tensors)])
    assert network.plain_sum(parameters, X, packed(LABELS)) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_a_module_of_ones_own_has_the_same_loss(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "own.py"
    path.write_text("from torch import nn\ndef build(features, classes): return nn.Linear(features, classes)\n")
    own = models.build(f"{path}:build", features=7, classes=5, backend="torch", multilabel=True)
    ours = models.build("logistic", features=7, classes=5, multilabel=True)
    parameters = own.initial(np.random.default_rng(1).random)
    weights = parameters[:35].reshape(5, 7).T.ravel()
    losses = ours.propagate(np.concatenate([weights, parameters[35:]]), X, packed(LABELS))[0].copy()
    assert own.propagate(parameters, X, packed(LABELS))[0] == pytest.approx(losses, rel=1e-5)


def test_scores_far_out_have_finite_losses():
    network = models.build("logistic", features=1, classes=2, multilabel=True)
    far = np.array([[200.0], [-200.0]], dtype=np.float32)
    losses, _ = network.propagate(np.array([1, 1, 0, 0], dtype=np.float32), far, packed(np.array([[1, 0], [1, 0]])))
    assert losses == pytest.approx([100, 100])


def test_training_from_the_command_line_is_judged_by_the_area(archive, dpcalc):
    asked = ["train", "--data", archive, "--model", "logistic", "--algorithm", "gd", "--filter", "gdp", "--steps", "5"]
    asked += ["--optimizer", "adam", "--noise-multiplier", "2", "--seed", "1"]
    details = dpcalc(*asked, "-f", "json").json["details"]
    assert 0 <= details["test_auc"] <= 1
    assert "test_accuracy" not in details
    text = dpcalc(*asked).out
    assert "area under the ROC curve" in text
    assert "5 labels" in text


def test_what_needs_accuracy_is_refused(archive):
    data = load(archive)
    assert (data.multilabel, data.classes, data.exclusive_classes) == (True, 5, 0)
    settings = Settings(model="logistic", algorithm="gd", steps=4, keep_best=2)
    with pytest.raises(InputError, match="several labels"):
        run(Plan(settings=settings, records=len(data), delta=1e-5), data)


def test_constants_of_class_losses_are_not_given_for_labels(archive, dpcalc):
    asked = ["--algorithm", "cgd", "--model", "logistic", "--data", archive, "--feature-clip", "3", "--lr", "0.05"]
    asked += ["--clip", "1", "--noise-multiplier", "3", "--batch-size", "10", "--epochs", "2", "--delta", "1e-5"]
    found = dpcalc("sgd-bound", *asked, "--regularization", "0.1")
    assert found.code == 2
    assert "labels that go together" in found.err


def test_labels_of_another_width_or_kind_are_refused(tmp_path):
    path = tmp_path / "wrong.npz"
    np.savez(path, x_train=X, y_train=LABELS, x_test=X, y_test=LABELS[:, :3])
    with pytest.raises(InputError, match="5 labels"):
        load(str(path))
    np.savez(path, x_train=X, y_train=LABELS * 2, x_test=X, y_test=LABELS)
    with pytest.raises(InputError, match="expected 0 or 1"):
        load(str(path))


def test_adam_moves_as_pytorchs_does():
    torch = pytest.importorskip("torch")
    start = GENERATOR.standard_normal(9)
    theirs = torch.from_numpy(start.copy()).requires_grad_()
    judge, ours, at = torch.optim.Adam([theirs], lr=0.03), build("adam"), start.copy()
    for step in range(12):
        gradient = np.sin(at) + 0.1 * step
        theirs.grad = torch.from_numpy(gradient.copy())
        judge.step()
        at = at - ours.update(gradient, rate=0.03, noise_level=1.0)
        if step == 5:
            again = build("adam")
            again.restore(ours.state())
            ours = again
    assert at == pytest.approx(theirs.detach().numpy(), rel=1e-10)
