"""Feed-forward networks in NumPy: what they compute, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.training.backends.gradients import Gradients
from dpcalc.training.backends.layers import Convolution, Layer
from dpcalc.training.backends.losses import losses_and_signals
from dpcalc.training.backends.network import Network
from dpcalc.training.labels import unpacked
from dpcalc.training.tiles import Array, Buffers

# Numbers in the widest layer of one chunk of records: few enough for the caches, enough for the matrix products.
_CHUNK_NUMBERS = 2_000_000


class NumpyNetwork(Network):
    """One layer after another."""

    def __init__(self, layers: Sequence[Layer], input_shape: tuple[int, ...], *, reconstructs: bool = False) -> None:
        self.layers = list(layers)
        self.input_shape = input_shape
        self.reconstructs = reconstructs
        self.first = next(i for i, layer in enumerate(self.layers) if layer.shapes)
        shape, widest = input_shape, math.prod(input_shape)
        for layer in self.layers:
            shape = layer.output_shape(shape)
            copies = layer.shapes[0][0] if isinstance(layer, Convolution) else shape[-1]
            widest = max(widest, math.prod(shape[:-1]) * copies)
        self.classes = 0 if reconstructs else shape[-1]
        self.chunk = max(1, _CHUNK_NUMBERS // widest)
        self.size = sum(math.prod(s) for layer in self.layers for s in layer.shapes)
        self.blocks = sum(bool(layer.shapes) for layer in self.layers)
        self._buffers = Buffers()

    def initial(self, uniforms: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float32]:
        """Uniform on ±1/√(inputs of the layer)."""
        parts = [
            (2 * uniforms(math.prod(shape)) - 1) / np.sqrt(layer.shapes[0][0])
            for layer in self.layers
            for shape in layer.shapes
        ]
        return np.concatenate(parts).astype(np.float32)

    def plain_sum(self, parameters: Array, x: Array, y: Array) -> Floats:
        total = np.zeros(self.size)
        for part in self._chunks(len(x)):
            self._run(parameters, x[part], y[part])
            total += np.concatenate([s.ravel() for layer in self.layers for s in layer.plain_sum()])
        return total

    def propagate(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Sequence[Gradients]]:
        losses = self._run(parameters, x, y)
        return losses, [layer.gradients() for layer in self.layers if layer.shapes]

    def views(self, parameters: NDArray[Any]) -> list[list[Any]]:
        """A flat vector as each layer's arrays."""
        views: list[list[Any]] = []
        start = 0
        for layer in self.layers:
            views.append([])
            for shape in layer.shapes:
                stop = start + math.prod(shape)
                views[-1].append(parameters[start:stop].reshape(shape))
                start = stop
        return views

    def _run(self, parameters: Array, x: Array, y: Array) -> Array:
        """Forward and backward through every layer, which keep what they saw; returns each record's loss."""
        outputs, views = self.outputs_of_chunk(parameters, x), self.views(parameters)
        losses, signal = self._squared_error(outputs, x) if self.reconstructs else self.scored(outputs, y)
        for index in range(len(self.layers) - 1, self.first - 1, -1):
            signal = self.layers[index].backward(signal, views[index], to_input=index > self.first)
        return losses

    def outputs_of_chunk(self, parameters: Array, x: Array) -> Array:
        signal = x.reshape(len(x), *self.input_shape)
        for layer, view in zip(self.layers, self.views(parameters), strict=True):
            signal = layer.forward(signal, view)
        return signal

    def scored(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """Each record's loss and its derivative in the scores, of classes or of labels."""
        if self.multilabel:
            return self._of_labels(scores, y)
        if self.loss == "cross-entropy":
            return self._cross_entropy(scores, y)
        signal = self._buffers.take("signal", scores.shape, scores.dtype)
        return losses_and_signals(self.loss, scores, y, signal), signal

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

    def _of_labels(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """The logistic loss log(1 + e^s) − s·[label], averaged over labels."""
        there, signal = unpacked(y, scores.shape[1]), self._buffers.take("signal", scores.shape, scores.dtype)
        small = np.exp(-np.abs(scores))
        np.divide(np.where(scores > 0, 1, small), 1 + small, out=signal)
        signal -= there
        signal /= signal.dtype.type(scores.shape[1])
        losses = np.maximum(scores, 0) - scores * there + np.log1p(small)
        return losses.mean(axis=1), signal

    def _squared_error(self, outputs: Array, x: Array) -> tuple[Array, Array]:
        gap = self._buffers.take("signal", outputs.shape, outputs.dtype)
        np.subtract(outputs, x.reshape(outputs.shape), out=gap)
        losses = (gap * gap).reshape(len(gap), -1).mean(axis=1)
        gap *= gap.dtype.type(2 / max(1, math.prod(self.input_shape)))
        return losses, gap
