"""The models of the papers: what they compute, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.layers import LEAK, Convolution, Dense, Layer, MaxPool, Rectifier, Sigmoid
from dpcalc.training.names import ModelName
from dpcalc.training.tiles import Array, Buffers

MODELS: tuple[str, ...] = get_args(ModelName)

# Numbers in the widest layer of one chunk of records: few enough for the caches, enough for the matrix products.
_CHUNK_NUMBERS = 2_000_000


class Model:
    """A feed-forward network whose parameters are one flat vector.

    It ends in class scores under the cross-entropy loss, or, as an autoencoder, in an image under the mean squared
    error.
    """

    def __init__(self, layers: Sequence[Layer], input_shape: tuple[int, ...], *, reconstructs: bool = False) -> None:
        self.layers = list(layers)
        self.input_shape = input_shape
        self.reconstructs = reconstructs
        self.first = next(i for i, layer in enumerate(self.layers) if layer.shapes)
        shape, widest = input_shape, int(np.prod(input_shape))
        for layer in self.layers:
            shape = layer.output_shape(shape)
            copies = layer.shapes[0][0] if isinstance(layer, Convolution) else shape[-1]
            widest = max(widest, int(np.prod(shape[:-1])) * copies)
        self.classes = 0 if reconstructs else shape[-1]
        self.chunk = max(1, _CHUNK_NUMBERS // widest)
        self.size = sum(int(np.prod(s)) for layer in self.layers for s in layer.shapes)
        self._buffers = Buffers()

    def initial(self, uniforms: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float32]:
        """A random start that no data has touched: uniform on ±1/√(inputs of the layer)."""
        parts = [
            (2 * uniforms(int(np.prod(shape))) - 1) / np.sqrt(layer.shapes[0][0])
            for layer in self.layers
            for shape in layer.shapes
        ]
        return np.concatenate(parts).astype(np.float32)

    def plain_sum(self, parameters: Array, x: Array, y: Array) -> Floats:
        """Σ_i ∇ℓ_i, the way it is computed where nobody's privacy is at stake."""
        views = self.views(parameters)
        total = np.zeros(self.size)
        for part in self._chunks(len(x)):
            self.propagate(views, x[part], y[part])
            total += np.concatenate([s.ravel() for layer in self.layers for s in layer.plain_sum()])
        return total

    def outputs(self, parameters: Array, x: Array) -> Array:
        """Class scores, or reconstructed images."""
        views = self.views(parameters)
        return np.concatenate([self._forward(views, x[part]).copy() for part in self._chunks(len(x))])

    def quality(self, parameters: Array, x: Array, y: Array) -> float:
        """The fraction of records classified rightly, or the mean squared error of the reconstruction."""
        # A record may overflow: it then counts as wrong, or as infinitely far off.
        with np.errstate(all="ignore"):
            outputs = self.outputs(parameters, x)
            if self.reconstructs:
                gaps = outputs.reshape(len(x), -1) - x.reshape(len(x), -1)
                found = float(np.mean(gaps * gaps, dtype=np.float64))
                return math.inf if math.isnan(found) else found
        return float(np.mean(outputs.argmax(axis=1) == y))

    def views(self, parameters: NDArray[Any]) -> list[list[Any]]:
        """A flat vector as each layer's arrays; parameters, gradients and sums are all laid out so."""
        views: list[list[Any]] = []
        start = 0
        for layer in self.layers:
            views.append([])
            for shape in layer.shapes:
                stop = start + int(np.prod(shape))
                views[-1].append(parameters[start:stop].reshape(shape))
                start = stop
        return views

    def propagate(self, views: list[list[Array]], x: Array, y: Array) -> Array:
        """Forward and backward through every layer, which keep what they saw; returns each record's loss."""
        outputs = self._forward(views, x)
        losses, signal = self._squared_error(outputs, x) if self.reconstructs else self._cross_entropy(outputs, y)
        for index in range(len(self.layers) - 1, self.first - 1, -1):
            signal = self.layers[index].backward(signal, views[index], to_input=index > self.first)
        return losses

    def _chunks(self, records: int) -> list[slice]:
        return [slice(start, min(start + self.chunk, records)) for start in range(0, records, self.chunk)]

    def _forward(self, views: list[list[Array]], x: Array) -> Array:
        signal = x.reshape(len(x), *self.input_shape)
        for layer, view in zip(self.layers, views, strict=True):
            signal = layer.forward(signal, view)
        return signal

    def _cross_entropy(self, scores: Array, y: Array) -> tuple[Array, Array]:
        rows = np.arange(len(y))
        signal = self._buffers.take("signal", scores.shape, scores.dtype)
        np.subtract(scores, scores.max(axis=1, keepdims=True), out=signal)
        own = signal[rows, y]
        np.exp(signal, out=signal)
        totals = signal.sum(axis=1)
        signal /= totals[:, None]
        signal[rows, y] -= 1
        return np.log(totals) - own, signal

    def _squared_error(self, outputs: Array, x: Array) -> tuple[Array, Array]:
        gap = self._buffers.take("signal", outputs.shape, outputs.dtype)
        np.subtract(outputs, x.reshape(outputs.shape), out=gap)
        losses = (gap * gap).reshape(len(gap), -1).mean(axis=1)
        gap *= gap.dtype.type(2 / max(1, int(np.prod(self.input_shape))))
        return losses, gap


def build(name: str, *, features: int, classes: int, hidden: Sequence[int] = (128,)) -> Model:
    """The model called `name` for records of `features` numbers; images are square with one channel."""
    if name not in MODELS:
        raise InputError(f"Expected model in {', '.join(MODELS)}, got {name!r}.")
    if name == "logistic":
        return Model([Dense(features, classes)], (features,))
    if name == "mlp":
        return _mlp(features, classes, hidden)
    side = round(features**0.5)
    if side * side != features:
        raise InputError(f"model {name} needs square images of one channel, got records of {features} features.")
    smallest = {"cnn": 8, "cnn-small": 16, "autoencoder": 9}[name]
    if side < smallest:
        raise InputError(f"model {name} needs images of at least {smallest} × {smallest} pixels, got {side} × {side}.")
    builder: dict[str, Any] = {"cnn": _galli_cnn, "cnn-small": _feldman_zrnic_cnn, "autoencoder": _autoencoder}
    model: Model = builder[name](side, classes)
    return model


def _mlp(features: int, classes: int, hidden: Sequence[int]) -> Model:
    if not hidden or any(width < 1 for width in hidden):
        raise InputError(f"Expected hidden widths of at least 1, got {list(hidden)}.")
    layers: list[Layer] = []
    width = features
    for following in hidden:
        layers += [Dense(width, following), Rectifier()]
        width = following
    return Model([*layers, Dense(width, classes)], (features,))


def _galli_cnn(side: int, classes: int) -> Model:
    """Galli et al., Table 5: 551,322 parameters on MNIST. Pooling before the rectifier is the same and cheaper."""
    convolutions: list[Layer] = [
        Convolution(1, 16, 8, padding=3),
        MaxPool(),
        Rectifier(),
        Convolution(16, 32, 4),
        Rectifier(),
    ]
    return _with_dense_head(convolutions, side, classes)


def _feldman_zrnic_cnn(side: int, classes: int) -> Model:
    """The Opacus MNIST example that Feldman and Zrnic train: 26,010 parameters on MNIST."""
    first: list[Layer] = [Convolution(1, 16, 8, stride=2, padding=3), MaxPool(), Rectifier()]
    return _with_dense_head([*first, Convolution(16, 32, 4, stride=2), MaxPool(), Rectifier()], side, classes)


def _with_dense_head(convolutions: list[Layer], side: int, classes: int) -> Model:
    shape: tuple[int, ...] = (side, side, 1)
    for layer in convolutions:
        shape = layer.output_shape(shape)
    return Model([*convolutions, Dense(int(np.prod(shape)), 32), Rectifier(), Dense(32, classes)], (side, side, 1))


def _autoencoder(side: int, classes: int) -> Model:  # noqa: ARG001
    """Galli et al., Table 6: 48,705 parameters. A transposed 3 × 3 convolution is a convolution with padding 2."""
    widths = (1, 8, 16, 32, 64, 32, 16, 8, 1)
    layers: list[Layer] = []
    for index, (channels, filters) in enumerate(pairwise(widths)):
        layers += [Convolution(channels, filters, 3, padding=0 if index < 4 else 2), Rectifier(LEAK)]
    return Model([*layers[:-1], Sigmoid()], (side, side, 1), reconstructs=True)
