"""PyTorch in place of NumPy: the same numbers, the same account, and modules of the user's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcalc.errors import CertificationError, InputError
from dpcalc.training.backends.numpy_network import NumpyNetwork
from dpcalc.training.clipping import layer_clips
from dpcalc.training.data import Dataset
from dpcalc.training.loop import Trainer
from dpcalc.training.models import MODELS, build
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.run import Files, run
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

torch = pytest.importorskip("torch")

MODULES = """
import torch
from torch import nn

class Counting(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.scores = nn.Linear(features, classes)
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        self.seen += len(x)
        return self.scores(x)

class Centred(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.scores = nn.Linear(features, classes)
    def forward(self, x):
        return self.scores(x - x.mean(dim=0))

def mlp(features, classes):
    return nn.Sequential(nn.Linear(features, 7), nn.ReLU(), nn.Linear(7, classes))
def normalised(features, classes):
    return nn.Sequential(nn.Linear(features, 7), nn.BatchNorm1d(7), nn.Linear(7, classes))
def batch_of_one(features, classes):
    return nn.Sequential(nn.Unflatten(1, (1, features)), nn.BatchNorm1d(1, track_running_stats=False), nn.Flatten(),
                         nn.Linear(features, classes))
def dropout(features, classes):
    return nn.Sequential(nn.Dropout(), nn.Linear(features, classes))
def narrow(features, classes):
    return nn.Linear(features, 1)
def empty(features, classes):
    return nn.ReLU()
def words(features, classes):
    return "a network"
counting, centred = Counting, Centred
"""
GENERATOR = np.random.default_rng(3)
X, Y = GENERATOR.standard_normal((90, 6)).astype(np.float32), GENERATOR.integers(0, 3, 90)
DATA = Dataset(name="drawn", x_train=X, y_train=Y, x_test=X[:30], y_test=Y[:30], classes=3)


@pytest.fixture
def modules(tmp_path):
    path = tmp_path / "modules.py"
    path.write_text(MODULES)
    return path


def _plan(**changes):
    settings = Settings(algorithm="gd", steps=6, noise_multiplier=2.0, seed=1, lr=0.5, backend="torch")
    return Plan(settings=replace(settings, **changes), records=len(DATA), delta=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_both_backends_compute_the_same_network(name, close):
    generator = np.random.default_rng(1)
    x, y, weights = generator.random((70, 784)), generator.integers(0, 10, 70), generator.standard_normal((2, 70))
    found = []
    for backend in ("numpy", "torch"):
        network = build(name, features=784, classes=10, hidden=(9,), backend=backend)
        start = network.initial(np.random.default_rng(2).random).astype(np.float64)
        sums = SlotSums(network, 70)
        found.append(sums.run(start, x, y, slice(0, 70), lambda _, __, part: weights[:, part], queries=2))
        found[-1] = (*vars(found[-1]).values(), network.outputs(start, x), network.plain_sum(start, x, y))
    for ours, theirs in zip(*found, strict=True):
        assert close(theirs, ours, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("changes", [{}, {"filter": "gdp", "extra_steps": 3}, {"clipping": "online"}])
def test_runs_differ_by_rounding_only_and_cost_the_same(changes):
    trainers = [run(_plan(backend=backend, **changes), DATA) for backend in ("numpy", "torch")]
    assert trainers[1].parameters == pytest.approx(trainers[0].parameters, rel=1e-3, abs=1e-4)
    assert trainers[1].history.clips == pytest.approx(trainers[0].history.clips)
    ours, theirs = (account(trainer.plan).guarantee for trainer in trainers)
    assert theirs == ours


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_a_network_of_dense_layers_is_numpys_whose_products_are_faster(model):
    assert isinstance(build(model, features=256, classes=3, backend="torch"), NumpyNetwork)


@pytest.mark.parametrize("model", ["cnn", "cnn-small", "autoencoder"])
def test_kernels_that_mix_records_are_found_out(model, monkeypatch):
    network = build(model, features=256, classes=3, backend="torch")
    sums, parameters = SlotSums(network, 40), network.initial(np.random.default_rng(0).random)
    sums.test_locality(parameters)
    for layer in network._layers:
        if layer._layer.shapes:
            forward = layer.forward
            monkeypatch.setattr(layer, "forward", _mixing(forward))
            with pytest.raises(CertificationError, match="one record change another's gradient"):
                sums.test_locality(parameters)
            monkeypatch.setattr(layer, "forward", forward)


def _mixing(forward):
    """A product in which one row's last bits depend on another row."""

    def mixed(inputs, parameters):
        outputs = forward(inputs, parameters)
        first = outputs.flatten(1)[:, :1]
        odd = (first.view(torch.int32) & 1).roll(1, 0).to(outputs.dtype).reshape(-1, *[1] * (outputs.ndim - 1))
        return outputs * (1 + 2.0**-20 * odd)

    return mixed


def _as_ours(parameters):
    """The numbers of `mlp` in the order of our own network."""
    sizes = np.split(parameters, np.cumsum([42, 7, 21]))
    return np.concatenate([sizes[0].reshape(7, 6).T.ravel(), sizes[1], sizes[2].reshape(3, 7).T.ravel(), sizes[3]])


def test_a_module_is_trained_like_the_same_network_of_ours(modules):
    """With the module's own start copied over, both runs are the same up to rounding."""
    theirs = Trainer(_plan(model=f"{modules}:mlp"), DATA)
    ours = Trainer(_plan(model="mlp", hidden=(7,), backend="numpy"), DATA)
    ours.parameters = _as_ours(theirs.parameters)
    passes = []
    for trainer in (theirs, ours):
        weigh = lambda norms, _, __: np.ones((1, len(norms)))  # noqa: E731
        passes.append(trainer.sums.run(trainer.parameters, X, Y, slice(0, 90), weigh))
    assert passes[0].norms == pytest.approx(passes[1].norms, rel=1e-5)
    assert passes[0].losses == pytest.approx(passes[1].losses, rel=1e-5)
    plain = theirs.model.plain_sum(theirs.parameters, X, Y)
    assert passes[0].sums[0] == pytest.approx(plain, rel=1e-4, abs=1e-4)
    assert account(theirs.plan).guarantee == account(ours.plan).guarantee


def test_the_layers_of_a_module_are_clipped_like_those_of_the_same_network_of_ours(modules):
    clips = layer_clips(0.5, (1.0, 3.0), 2)
    found = []
    theirs = Trainer(_plan(model=f"{modules}:mlp", clipping="per-layer", clip=0.5, layer_shares=(1.0, 3.0)), DATA)
    ours = Trainer(_plan(model="mlp", hidden=(7,), backend="numpy"), DATA)
    for trainer, parameters in ((theirs, theirs.parameters), (ours, _as_ours(theirs.parameters))):
        weigh = lambda norms, _, __: np.ones((1, len(norms)))  # noqa: E731
        found.append(trainer.sums.run(parameters, X, Y, slice(0, 90), weigh, clips=clips))
    assert found[0].norms == pytest.approx(found[1].norms, rel=1e-5)
    assert _as_ours(found[0].sums[0]) == pytest.approx(found[1].sums[0], rel=1e-4, abs=1e-4)
    assert 0.3 < found[0].norms.max() <= 0.5
    theirs.advance()  # the trainer itself asks for these clips
    assert theirs.step == 1
    with pytest.raises(InputError, match="each of the 2 layers"):
        Trainer(_plan(model=f"{modules}:mlp", clipping="per-layer", layer_shares=(1.0, 1.0, 1.0)), DATA)


def test_a_record_moves_a_module_s_sum_by_no_more_than_its_clip(modules):
    plan = _plan(model=f"{modules}:mlp", clip=1e-3)
    x = X.copy()
    x[4], x[5] = 1e6, 3e38
    trainer = Trainer(plan, replace(DATA, x_train=x))
    clip = trainer.clipping

    def weigh(norms, present, _):
        return clip.weights(norms) * present

    whole = trainer.sums.run(trainer.parameters, x, Y, slice(0, 90), weigh)
    for gone in (0, 4, 5, 89):
        seats = np.where(np.arange(90) == gone, -1, np.arange(90))
        rest = trainer.sums.run(trainer.parameters, x, Y, seats, weigh)
        assert np.linalg.norm(whole.sums - rest.sums) <= clip.spent(whole.norms[[gone]])[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("normalised", "record by record"),
        ("batch_of_one", "mixes records"),
        ("centred", "mixes records"),
        ("dropout", "record by record"),
        ("counting", "record by record|buffers"),
        ("narrow", "scores of shape"),
        ("empty", "no parameters"),
        ("words", "not an nn.Module"),
        ("absent", "cannot be loaded"),
    ],
)
def test_modules_that_mix_records_or_are_none_are_refused(modules, name, why):
    with pytest.raises(InputError, match=why):
        Trainer(_plan(model=f"{modules}:{name}"), DATA)


def test_a_module_is_resumed_bit_for_bit_and_only_as_it_was(modules, tmp_path, monkeypatch):
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0)
    plan = _plan(model=f"{modules}:mlp")
    whole = run(plan, DATA)

    def killed(trainer):
        if trainer.step == 3:
            raise KeyboardInterrupt

    files = Files(checkpoint=str(tmp_path / "run.ckpt"))
    with pytest.raises(KeyboardInterrupt):
        run(plan, DATA, files=files, observe=killed)
    assert np.array_equal(run(plan, DATA, files=replace(files, resume=True)).parameters, whole.parameters)
    modules.write_text(MODULES + "\n# changed\n")
    with pytest.raises(InputError, match="network"):
        run(plan, DATA, files=replace(files, resume=True))


def test_the_command_says_what_it_assumes_of_a_module(modules, dpcalc):
    asked = ("--backend", "torch", "--model", f"{modules}:mlp", "--algorithm", "gd", "--steps", 3)
    assumptions = dpcalc("train", *asked, "--noise-multiplier", 9, "-f", "json").json["assumptions"]
    assert any("modules.py:mlp computes a record's loss from that record" in line for line in assumptions)


def test_a_module_needs_torch_and_a_backend_is_one_of_two():
    with pytest.raises(InputError, match="needs `backend=torch`"):
        Settings(model="file.py:build")
    with pytest.raises(InputError, match="backend"):
        Settings(backend="jax")


def test_a_leaky_network_is_that_of_pytorch():
    """Scores against torch.nn with the same parameters, in both backends."""
    generator = np.random.default_rng(4)
    x = generator.standard_normal((9, 6))
    for backend in ("numpy", "torch"):
        network = build("mlp", features=6, classes=3, hidden=(5,), backend=backend, activation="leaky-relu")
        start = network.initial(generator.random).astype(np.float64)
        first, bias, second, last = np.split(start, [30, 35, 50])
        hidden = torch.nn.functional.leaky_relu(torch.from_numpy(x @ first.reshape(6, 5) + bias)).numpy()
        assert (hidden < 0).any()
        assert network.outputs(start, x) == pytest.approx(hidden @ second.reshape(5, 3) + last, rel=1e-12)


def test_the_module_to_start_from_trains(dpcalc):
    source = Path(__file__).parents[2] / "examples" / "own_module.py"
    asked = ("--backend", "torch", "--model", f"{source}:build", "--epochs", 1, "--seed", 1)
    document = dpcalc("train", *asked, "-f", "json").json
    assert document["details"]["test_accuracy"] > 0.5
    assert document["guarantee"] == "certified"


@pytest.mark.parametrize("changes", [{"optimizer": "adam"}, {"clipping": "online", "momentum": 0.9}])
def test_a_convolutional_run_that_was_killed_ends_bit_for_bit_the_same(tmp_path, monkeypatch, changes):
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0)
    generator = np.random.default_rng(0)
    x, y = generator.random((70, 256)).astype(np.float32), generator.integers(0, 3, 70)
    data = Dataset(name="images", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:], classes=3)
    settings = Settings(model="cnn-small", backend="torch", batch_size=20, steps=6, seed=1, **changes)
    plan = Plan(settings=settings, records=60, delta=1e-5)
    whole, files = run(plan, data), Files(checkpoint=str(tmp_path / "run.ckpt"))

    def killed(trainer):
        if trainer.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan, data, files=files, observe=killed)
    resumed = run(plan, data, files=replace(files, resume=True))
    assert np.array_equal(resumed.parameters, whole.parameters)
    assert resumed.history == whole.history
