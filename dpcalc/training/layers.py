"""Layers that know the norm of every record's gradient and can sum those gradients with weights.

A layer runs forward, then backward, and keeps what it saw. From that it gives, without a second backward pass,

- `squares`: ‖∂ℓ_i/∂θ‖² of each record i, in double precision, and
- `add_sums`: Σ_i w_i ∂ℓ_i/∂θ for one or more weightings, because a record's gradient is linear in its own signal.

A dense layer needs no per-record gradient for either: the gradient is the outer product of the record's input and
signal, so its norm is the product of theirs (Goodfellow, 2015). A convolution's positions interfere; its per-record
gradient is small here (at most 64 × 288 numbers), cheaper than the Gram matrices over positions, and is formed for
one chunk of records at a time.

What a row yields must depend on nothing but that row, its place and the parameters (see `sums`). So every product is
called on shapes and addresses that no record has a say in: results go to aligned arrays that are taken once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.training.tiles import Array, Buffers, Part, Tiles

LEAK = 0.01


class Layer(Protocol):
    """One step of a network; `shapes` are its parameters, none for an activation."""

    shapes: tuple[tuple[int, ...], ...]

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]: ...

    def forward(self, inputs: Array, parameters: list[Array]) -> Array: ...

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array: ...

    def yields(self) -> tuple[Array, ...]:
        """All that sums of gradients are made of, a row for each record: known once `squares` has been asked."""
        ...

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:
        """Each record's squared gradient norm, and that of its inputs (`known` if they are), in double precision."""
        ...

    def clear(self, rows: NDArray[np.bool_], *, inputs: bool) -> None:
        """Empty these rows: their gradients become 0. `inputs`: also what the layer below handed in."""
        ...

    def add_sums(self, weights: Array, tiles: Tiles, totals: list[list[Floats]]) -> None:
        """Add Σ w_i ∂ℓ_i/∂θ to each weighting's totals: products of a tile's rows, tiles in double precision."""
        ...

    def plain_sum(self) -> list[Array]: ...


class Dense:
    """x ↦ xW + b on flattened records."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((inputs, outputs), (outputs,))
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

    def yields(self) -> tuple[Array, ...]:
        return self._inputs, self._signal

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:
        inputs = self._buffers.row_squares("exact inputs", self._inputs) if known is None else known
        return (inputs + 1) * self._buffers.row_squares("exact signal", self._signal), inputs

    def clear(self, rows: NDArray[np.bool_], *, inputs: bool) -> None:
        self._signal[rows] = 0
        if inputs:
            self._inputs[rows] = 0

    def add_sums(self, weights: Array, tiles: Tiles, totals: list[list[Floats]]) -> None:
        weighted = self._buffers.take("weighted", self._signal.shape, self._signal.dtype)
        products = self._buffers.take("products", self.shapes[0], self._signal.dtype)
        for row, total in zip(weights, totals, strict=True):
            np.multiply(self._signal, row[:, None], out=weighted)
            for part in tiles.parts(row):
                inputs, signals = self._picked(part, weighted, tiles.rows)
                np.matmul(inputs.T, signals, out=products)
                total[0] += products
            by_tile = weighted.reshape(-1, tiles.rows, weighted.shape[1]).sum(axis=1)
            total[1] += by_tile.sum(axis=0, dtype=np.float64)

    def _picked(self, part: Part, weighted: Array, most: int) -> tuple[Array, Array]:
        """The inputs and weighted signals of some rows; gathered ones are put where no other tile has a say."""
        if isinstance(part, slice):
            return self._inputs[part], weighted[part]
        inputs = self._buffers.take("some inputs", (most, self._inputs.shape[1]), weighted.dtype)[: len(part)]
        signals = self._buffers.take("some signals", (most, weighted.shape[1]), weighted.dtype)[: len(part)]
        np.take(self._inputs, part, axis=0, out=inputs, mode="clip")
        np.take(weighted, part, axis=0, out=signals, mode="clip")
        return inputs, signals

    def plain_sum(self) -> list[Array]:
        return [self._inputs.T @ self._signal, self._signal.sum(axis=0)]


class Convolution:
    """A two-dimensional convolution of records laid out as (height, width, channels)."""

    def __init__(self, channels: int, filters: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        self.shapes: tuple[tuple[int, ...], ...] = ((kernel * kernel * channels, filters), (filters,))
        self._channels, self._kernel, self._stride, self._padding = channels, kernel, stride, padding
        self._buffers = Buffers()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        height, width = ((side + 2 * self._padding - self._kernel) // self._stride + 1 for side in shape[:2])
        return (height, width, self.shapes[0][1])

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:
        pad, kernel, stride = self._padding, self._kernel, self._stride
        records, (height, width, filters) = len(inputs), self.output_shape(inputs.shape[1:])
        if pad:
            sides = (inputs.shape[1] + 2 * pad, inputs.shape[2] + 2 * pad)
            padded = self._buffers.take("padded", (records, *sides, self._channels), inputs.dtype)
            padded[:, pad:-pad, pad:-pad] = inputs
            inputs = padded
        self._padded, self._height, self._width = inputs.shape, height, width
        windows = sliding_window_view(inputs, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
        # Columns run over (row, column, channel), so that each copied stretch is kernel · channels long.
        shape = (records, height, width, kernel, kernel, self._channels)
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
        kernel, stride, pad = self._kernel, self._stride, self._padding
        flat = self._signal.reshape(-1, self._signal.shape[2])
        columns = self._buffers.take("back columns", (len(flat), self.shapes[0][0]), signal.dtype)
        np.matmul(flat, parameters[0].T, out=columns)
        columns = columns.reshape(records, self._height, self._width, kernel, kernel, self._channels)
        back = self._buffers.take("back", self._padded, signal.dtype)
        back[...] = 0
        for row in range(kernel):
            for column in range(kernel):
                rows = slice(row, row + stride * self._height, stride)
                back[:, rows, column : column + stride * self._width : stride] += columns[:, :, :, row, column]
        return back[:, pad:-pad, pad:-pad] if pad else back

    def _form_gradients(self) -> None:
        """Every record's own gradient, from products of that record alone."""
        records, kind = len(self._signal), self._signal.dtype
        self._gradients = self._buffers.take("gradients", (records, *self.shapes[0]), kind)
        self._biases = self._buffers.take("biases", (records, *self.shapes[1]), kind)
        np.matmul(self._columns.transpose(0, 2, 1), self._signal, out=self._gradients)
        np.sum(self._signal, axis=1, out=self._biases)

    def yields(self) -> tuple[Array, ...]:
        return self._gradients, self._biases

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:  # noqa: ARG002
        self._form_gradients()
        found = self._buffers.row_squares("exact gradients", self._gradients.reshape(len(self._gradients), -1))
        found += self._buffers.row_squares("exact biases", self._biases)
        return found, np.zeros_like(found)

    def clear(self, rows: NDArray[np.bool_], *, inputs: bool) -> None:  # noqa: ARG002
        self._gradients[rows] = 0
        self._biases[rows] = 0

    def add_sums(self, weights: Array, tiles: Tiles, totals: list[list[Floats]]) -> None:
        gradients = self._gradients.reshape(len(self._gradients), -1)
        for start in range(0, len(gradients), tiles.rows):
            part = slice(start, start + tiles.rows)
            kernels, biases = weights[:, part] @ gradients[part], weights[:, part] @ self._biases[part]
            for total, kernel, bias in zip(totals, kernels, biases, strict=True):
                total[0] += kernel.reshape(self.shapes[0])
                total[1] += bias

    def plain_sum(self) -> list[Array]:
        columns, signal = (array.reshape(-1, array.shape[2]) for array in (self._columns, self._signal))
        return [columns.T @ signal, signal.sum(axis=0)]


class _WithoutParameters:
    shapes: tuple[tuple[int, ...], ...] = ()

    def __init__(self) -> None:
        self._buffers = Buffers()

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def yields(self) -> tuple[Array, ...]:
        return ()

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:  # noqa: ARG002
        return np.zeros(()), np.zeros(())

    def clear(self, rows: NDArray[np.bool_], *, inputs: bool) -> None:
        """Nothing to empty."""

    def add_sums(self, weights: Array, tiles: Tiles, totals: list[list[Floats]]) -> None:
        """Nothing to add."""

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
        self._leak = leak

    def forward(self, inputs: Array, parameters: list[Array]) -> Array:  # noqa: ARG002
        self._positive = inputs > 0
        outputs = self._buffers.take("outputs", inputs.shape, inputs.dtype)
        np.multiply(inputs, inputs.dtype.type(self._leak), out=outputs)
        return np.maximum(inputs, outputs, out=outputs)

    def backward(self, signal: Array, parameters: list[Array], *, to_input: bool) -> Array:  # noqa: ARG002
        slopes: Array = self._positive
        if self._leak:
            slopes = np.where(self._positive, signal.dtype.type(1), signal.dtype.type(self._leak))
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
