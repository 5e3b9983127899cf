"""The layers of a network in NumPy, forward and backward; they keep what they saw, and yield every record's gradient.

What a row yields must depend on nothing but that row, its place and the parameters (see `sums`). So every product is
called on shapes and addresses that no record has a say in: results go to aligned arrays that are taken once. A
convolution's positions interfere; its per-record gradient is small here (at most 64 × 288 numbers), cheaper than the
Gram matrices over positions, and is formed for one chunk of records at a time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpcalc.training.backends.gradients import Gradients, OuterProducts, OwnGradients
from dpcalc.training.tiles import Array, Buffers

LEAK = 0.01


class Layer(Protocol):
    """One step of a network; `shapes` are its parameters, none for an activation."""

    shapes: tuple[tuple[int, ...], ...]

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]: ...

    def forward(self, inputs: Array, parameters: list[Array]) -> Array: ...

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array: ...

    def gradients(self) -> Gradients:
        """Every record's gradient, once the layer has run backward; only of layers with parameters."""
        ...

    def plain_sum(self) -> list[Array]: ...


class Dense:
    """x ↦ xW + b on flattened records."""

    def __init__(self, inputs: int, outputs: int, *, borrowed: bool = False) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((inputs, outputs), (outputs,))
        self.borrowed = borrowed
        self._gradients = OuterProducts(inputs, outputs, borrowed=borrowed)
        self._buffers = Buffers()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG002
        return (self.shapes[0][1],)

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:
        self._shape = inputs.shape
        self._inputs = inputs.reshape(len(inputs), -1)
        outputs = self._buffers.take("outputs", (len(inputs), self.shapes[0][1]), inputs.dtype)
        np.matmul(self._inputs, parameters[0], out=outputs)
        outputs += parameters[1]
        return outputs

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:
        self._signal = signal
        if not to_input:
            return signal
        back = self._buffers.take("back", self._inputs.shape, signal.dtype)
        return np.matmul(signal, parameters[0].T, out=back).reshape(self._shape)

    def gradients(self) -> Gradients:
        return self._gradients.hold(self._inputs, self._signal)

    def plain_sum(self) -> list[Array]:
        return [self._inputs.T @ self._signal, self._signal.sum(axis=0)]


class Convolution:
    """A two-dimensional convolution of records laid out as (height, width, channels)."""

    def __init__(self, channels: int, filters: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((kernel * kernel * channels, filters), (filters,))
        self.channels, self.kernel, self.stride, self.padding = channels, kernel, stride, padding
        self.size = (kernel * kernel * channels + 1) * filters
        self._gradients = OwnGradients(self.size)
        self._buffers = Buffers()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        height, width = ((side + 2 * self.padding - self.kernel) // self.stride + 1 for side in shape[:2])
        return (height, width, self.shapes[0][1])

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:
        pad, kernel, stride = self.padding, self.kernel, self.stride
        records, (height, width, filters) = len(inputs), self.output_shape(inputs.shape[1:])
        if pad:
            sides = (inputs.shape[1] + 2 * pad, inputs.shape[2] + 2 * pad)
            padded = self._buffers.take("padded", (records, *sides, self.channels), inputs.dtype)
            padded[:, pad:-pad, pad:-pad] = inputs
            inputs = padded
        self._padded, self._height, self._width = inputs.shape, height, width
        windows = sliding_window_view(inputs, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
        # Columns run over (row, column, channel), so that each copied stretch is kernel · channels long.
        shape = (records, height, width, kernel, kernel, self.channels)
        columns = self._buffers.take("columns", shape, inputs.dtype)
        np.copyto(columns, windows.transpose(0, 1, 2, 4, 5, 3))
        self._columns = columns.reshape(records, height * width, -1)
        outputs = self._buffers.take("outputs", (records * height * width, filters), inputs.dtype)
        np.matmul(columns.reshape(len(outputs), -1), parameters[0], out=outputs)
        outputs += parameters[1]
        return outputs.reshape(records, height, width, filters)

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:
        records = len(signal)
        self._signal = signal.reshape(records, self._height * self._width, -1)
        if not to_input:
            return signal
        kernel, stride, pad = self.kernel, self.stride, self.padding
        flat = self._signal.reshape(-1, self._signal.shape[2])
        columns = self._buffers.take("back columns", (len(flat), self.shapes[0][0]), signal.dtype)
        np.matmul(flat, parameters[0].T, out=columns)
        columns = columns.reshape(records, self._height, self._width, kernel, kernel, self.channels)
        back = self._buffers.take("back", self._padded, signal.dtype)
        back[...] = 0
        for row in range(kernel):
            for column in range(kernel):
                rows = slice(row, row + stride * self._height, stride)
                back[:, rows, column : column + stride * self._width : stride] += columns[:, :, :, row, column]
        return back[:, pad:-pad, pad:-pad] if pad else back

    def gradients(self) -> Gradients:
        """Every record's own gradient, from products of that record alone."""
        records, kind = len(self._signal), self._signal.dtype
        kernels = self._buffers.take("gradients", (records, *self.shapes[0]), kind)
        biases = self._buffers.take("biases", (records, *self.shapes[1]), kind)
        np.matmul(self._columns.transpose(0, 2, 1), self._signal, out=kernels)
        np.sum(self._signal, axis=1, out=biases)
        return self._gradients.hold(kernels, biases)

    def plain_sum(self) -> list[Array]:
        columns, signal = (array.reshape(-1, array.shape[2]) for array in (self._columns, self._signal))
        return [columns.T @ signal, signal.sum(axis=0)]


class _WithoutParameters:
    shapes: tuple[tuple[int, ...], ...] = ()

    def __init__(self) -> None:
        self._buffers = Buffers()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def gradients(self) -> Gradients:
        raise NotImplementedError("a layer without parameters has no gradients")

    def plain_sum(self) -> list[Array]:
        return []


class MaxPool(_WithoutParameters):
    """The largest of each 2 × 2 window, windows one apart; of equal values the first one gets the signal."""

    _OFFSETS = ((0, 0), (0, 1), (1, 0), (1, 1))

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] - 1, shape[1] - 1, *shape[2:])

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        self._inputs = inputs
        height, width = inputs.shape[1] - 1, inputs.shape[2] - 1
        self._windows = [(slice(None), slice(r, r + height), slice(c, c + width)) for r, c in self._OFFSETS]
        shape = (len(inputs), height, width, inputs.shape[3])
        self._outputs = self._buffers.take("outputs", shape, inputs.dtype)
        np.maximum(inputs[self._windows[0]], inputs[self._windows[1]], out=self._outputs)
        for window in self._windows[2:]:
            np.maximum(self._outputs, inputs[window], out=self._outputs)
        return self._outputs

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        back = self._buffers.take("back", self._inputs.shape, signal.dtype)
        back[...] = 0
        open_ = np.ones(signal.shape, dtype=bool)
        for window in self._windows:
            chosen = self._inputs[window] == self._outputs
            chosen &= open_
            back[window] += signal * chosen
            open_ ^= chosen
        return back


class Rectifier(_WithoutParameters):
    """max(x, leak · x): ReLU, or LeakyReLU with a leak above 0."""

    def __init__(self, leak: float = 0.0) -> None:
        super().__init__()
        self.leak = leak

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        self._positive = inputs > 0
        outputs = self._buffers.take("outputs", inputs.shape, inputs.dtype)
        np.multiply(inputs, inputs.dtype.type(self.leak), out=outputs)
        return np.maximum(inputs, outputs, out=outputs)

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        slopes: Array = self._positive
        if self.leak:
            slopes = np.where(self._positive, signal.dtype.type(1), signal.dtype.type(self.leak))
        return np.multiply(signal, slopes, out=self._buffers.take("back", signal.shape, signal.dtype))


class Sigmoid(_WithoutParameters):
    """1 / (1 + exp(-x)), written so that neither tail overflows."""

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        half = inputs.dtype.type(0.5)
        self._outputs = self._buffers.take("outputs", inputs.shape, inputs.dtype)
        np.multiply(inputs, half, out=self._outputs)
        np.tanh(self._outputs, out=self._outputs)
        self._outputs += 1
        self._outputs *= half
        return self._outputs

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        back = self._buffers.take("back", signal.shape, signal.dtype)
        np.multiply(signal, self._outputs, out=back)
        back *= 1 - self._outputs
        return back
