"""Per-record gradient norms and weighted sums, against finite differences and plain per-record backpropagation."""

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.training.models import MODELS, build
from dpcalc.training.sums import SlotSums

SIDE = 16


def _problem(name, records=3, seed=0, backend="numpy"):
    model = build(name, features=SIDE * SIDE, classes=4, hidden=(7, 5), backend=backend)
    generator = np.random.default_rng(seed)
    x = generator.random((records, SIDE * SIDE))
    y = generator.integers(0, 4, records)
    return model, model.initial(generator.random).astype(np.float64) * 2, x, y


def _gradients(model, parameters, x, y):
    """Each record's gradient on its own, by the backward pass that knows no weights."""
    return np.stack([model.plain_sum(parameters, x[i : i + 1], y[i : i + 1]) for i in range(len(x))])


def _pass(model, parameters, x, y, weights=None):
    """Sums over the records in slots of their own, with given weights or 1."""
    weights = np.ones((1, len(x))) if weights is None else weights
    sums = SlotSums(model, len(x))
    seats = slice(0, len(x))
    return sums.run(parameters, x, y, seats, lambda _, __, slots: weights[:, slots], queries=len(weights))


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_is_the_derivative_of_the_loss(name, backend):
    model, parameters, x, y = _problem(name, backend=backend)
    gradients = _gradients(model, parameters, x, y)
    generator = np.random.default_rng(1)
    step = 1e-6
    for _ in range(12):
        direction = generator.standard_normal(model.size)
        direction /= np.linalg.norm(direction)
        up = _pass(model, parameters + step * direction, x, y).losses
        down = _pass(model, parameters - step * direction, x, y).losses
        assert (up - down) / (2 * step) == pytest.approx(gradients @ direction, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_each_single_parameter_of_each_layer_has_the_right_derivative(name):
    model, parameters, x, y = _problem(name, records=2)
    gradients = _gradients(model, parameters, x, y)
    for index in np.linspace(0, model.size - 1, 25).astype(int):
        shift = np.zeros(model.size)
        shift[index] = 1e-6
        up = _pass(model, parameters + shift, x, y).losses
        down = _pass(model, parameters - shift, x, y).losses
        assert (up - down) / 2e-6 == pytest.approx(gradients[:, index], rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_norms_and_weighted_sums_are_those_of_per_record_backpropagation(name, backend, close):
    model, parameters, x, y = _problem(name, records=5, backend=backend)
    gradients = _gradients(model, parameters, x, y)
    weights = np.random.default_rng(2).standard_normal((2, 5))
    found = _pass(model, parameters, x, y, weights)
    assert found.norms == pytest.approx(np.linalg.norm(gradients, axis=1), rel=1e-12)
    assert close(found.sums, weights @ gradients, rel=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_keeps_the_norms_to_a_part_in_ten_thousand(name):
    model, parameters, x, y = _problem(name, records=4)
    single = _pass(model, parameters.astype(np.float32), x.astype(np.float32), y)
    assert single.norms == pytest.approx(_pass(model, parameters, x, y).norms, rel=1e-4)


@pytest.mark.parametrize(("name", "size"), [("cnn", 551_322), ("cnn-small", 26_010), ("autoencoder", 48_705)])
def test_models_have_the_published_number_of_parameters(name, size):
    assert build(name, features=784, classes=10).size == size


def test_the_bag_of_words_widths_have_the_published_number_of_parameters():
    assert build("mlp", features=750, classes=4, hidden=(128, 128)).size == 113_156


@pytest.mark.parametrize("name", MODELS)
def test_chunks_and_tiles_change_nothing_but_rounding(name, monkeypatch, backend, close):
    model, parameters, x, y = _problem(name, records=7, backend=backend)
    whole = _pass(model, parameters, x, y)
    monkeypatch.setattr(model, "chunk", 4)
    monkeypatch.setattr("dpcalc.training.sums.TILE", 2)
    parts = _pass(model, parameters, x, y)
    assert close(parts.sums, whole.sums, rel=1e-12)
    assert parts.norms == pytest.approx(whole.norms, rel=1e-12)


def test_an_empty_batch_sums_to_zero():
    model, parameters, x, y = _problem("mlp")
    nobody = np.full(3, -1)
    found = SlotSums(model, 3).run(parameters, x, y, nobody, lambda norms, _, __: np.ones((1, len(norms))))
    assert found.sums.shape == (1, model.size)
    assert not found.sums.any()


def test_images_must_be_square_and_large_enough():
    with pytest.raises(InputError, match="square"):
        build("cnn", features=50, classes=10)
    with pytest.raises(InputError, match="at least"):
        build("cnn-small", features=25, classes=10)
