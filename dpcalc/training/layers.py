"""Layers that know the norm of every record's gradient and can sum those gradients with weights.

A layer runs forward, then backward, and keeps what it saw. From that it gives, without a second backward pass,

- `squared_norms`: ‖∂ℓ_i/∂θ‖² of each record i, and
- `weighted_sums`: Σ_i w_i ∂ℓ_i/∂θ for one or more weightings, because a record's gradient is linear in its own signal.

A dense layer needs no per-record gradient for either: the gradient is the outer product of the record's input and
signal, so its norm is the product of theirs (Goodfellow, 2015). A convolution's positions interfere; its per-record
gradient is small here (at most 64 × 288 numbers), cheaper than the Gram matrices over positions, and is formed for
one chunk of records at a time.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

# float32 in training; the tests also run the layers in float64.
Array: TypeAlias = NDArray[Any]

LEAK = 0.01


class Layer(Protocol):
    """One step of a network; `shapes` are its parameters, none for an activation."""

    shapes: tuple[tuple[int, ...], ...]

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]: ...

    def forward(self, inputs: Array, parameters: list[Array]) -> Array: ...

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array: ...

    def squared_norms(self) -> Array: ...

    def weighted_sums(self, weights: Array) -> list[Array]: ...

    def plain_sum(self) -> list[Array]: ...


class Dense:
    """x ↦ xW + b on flattened records."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((inputs, outputs), (outputs,))

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG002
        return (self.shapes[0][1],)

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:
        self._shape = inputs.shape
        self._inputs = inputs.reshape(len(inputs), -1)
        return self._inputs @ parameters[0] + parameters[1]

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:
        self._signal = signal
        return (signal @ parameters[0].T).reshape(self._shape) if to_input else signal

    def squared_norms(self) -> Array:
        return (_row_squares(self._inputs) + 1) * _row_squares(self._signal)

    def weighted_sums(self, weights: Array) -> list[Array]:
        signals = weights[:, :, None] * self._signal
        return [np.matmul(self._inputs.T, signals), signals.sum(axis=1)]

    def plain_sum(self) -> list[Array]:
        return [self._inputs.T @ self._signal, self._signal.sum(axis=0)]


class Convolution:
    """A two-dimensional convolution of records laid out as (height, width, channels)."""

    def __init__(self, channels: int, filters: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((kernel * kernel * channels, filters), (filters,))
        self._channels, self._kernel, self._stride, self._padding = channels, kernel, stride, padding

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        height, width = ((side + 2 * self._padding - self._kernel) // self._stride + 1 for side in shape[:2])
        return (height, width, self.shapes[0][1])

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:
        pad, kernel, stride = self._padding, self._kernel, self._stride
        if pad:
            inputs = np.pad(inputs, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        self._padded = inputs.shape
        windows = sliding_window_view(inputs, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
        records, self._height, self._width = windows.shape[:3]
        # Columns run over (row, column, channel), so that each copied stretch is kernel · channels long.
        self._columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(records, self._height * self._width, -1)
        outputs = self._columns.reshape(-1, self._columns.shape[2]) @ parameters[0] + parameters[1]
        return outputs.reshape(records, self._height, self._width, -1)

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:
        records = len(signal)
        self._signal = signal.reshape(records, self._height * self._width, -1)
        if not to_input:
            return signal
        kernel, stride, pad = self._kernel, self._stride, self._padding
        columns = self._signal.reshape(-1, self._signal.shape[2]) @ parameters[0].T
        columns = columns.reshape(records, self._height, self._width, kernel, kernel, self._channels)
        back = np.zeros(self._padded, dtype=signal.dtype)
        for row in range(kernel):
            for column in range(kernel):
                rows = slice(row, row + stride * self._height, stride)
                back[:, rows, column : column + stride * self._width : stride] += columns[:, :, :, row, column]
        return back[:, pad:-pad, pad:-pad] if pad else back

    def squared_norms(self) -> Array:
        self._gradients = np.matmul(self._columns.transpose(0, 2, 1), self._signal)
        self._biases = self._signal.sum(axis=1)
        return _row_squares(self._gradients.reshape(len(self._gradients), -1)) + _row_squares(self._biases)

    def weighted_sums(self, weights: Array) -> list[Array]:
        kernels = weights @ self._gradients.reshape(len(self._gradients), -1)
        return [kernels.reshape(len(weights), *self.shapes[0]), weights @ self._biases]

    def plain_sum(self) -> list[Array]:
        columns, signal = (array.reshape(-1, array.shape[2]) for array in (self._columns, self._signal))
        return [columns.T @ signal, signal.sum(axis=0)]


class _WithoutParameters:
    shapes: tuple[tuple[int, ...], ...] = ()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def squared_norms(self) -> Array:
        return np.zeros(())

    def weighted_sums(self, weights: Array) -> list[Array]:  # noqa: ARG002
        return []

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
        self._outputs = np.maximum(inputs[self._windows[0]], inputs[self._windows[1]])
        for window in self._windows[2:]:
            np.maximum(self._outputs, inputs[window], out=self._outputs)
        return self._outputs

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        back = np.zeros_like(self._inputs)
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
        self._leak = leak

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        self._positive = inputs > 0
        rectified: Array = np.maximum(inputs, inputs * inputs.dtype.type(self._leak))
        return rectified

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        slopes: Array = self._positive
        if self._leak:
            slopes = np.where(self._positive, signal.dtype.type(1), signal.dtype.type(self._leak))
        back: Array = signal * slopes
        return back


class Sigmoid(_WithoutParameters):
    """1 / (1 + exp(-x)), written so that neither tail overflows."""

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        half = inputs.dtype.type(0.5)
        outputs: Array = half * (1 + np.tanh(half * inputs))
        self._outputs = outputs
        return outputs

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        back: Array = signal * self._outputs * (1 - self._outputs)
        return back


def _row_squares(rows: Array) -> Array:
    squares: Array = np.einsum("ij,ij->i", rows, rows)
    return squares
