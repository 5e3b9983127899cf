"""Every record's gradient as a network yields it: its norm in double precision, and weighted sums by tiles.

Whoever computes the gradients, these numbers and sums are formed here, so that the theorem of `sums` is about one
piece of code. A dense layer needs no per-record gradient: it is the outer product of the record's input and signal, so
its norm is the product of theirs (Goodfellow, 2015). Other gradients are formed record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.training.tiles import Array, Buffers, Part, Tiles


class Gradients(Protocol):
    """The gradients of some rows of records with respect to `size` parameters that lie together."""

    size: int

    def parts(self) -> tuple[Array, ...]:
        """All that sums are made of, a row for each record."""
        ...

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:
        """Each record's squared gradient norm, and that of its inputs (`known` if they are), in double precision."""
        ...

    def clear(self, rows: NDArray[np.bool_]) -> None:
        """Empty these rows: their gradients become 0."""
        ...

    def add_sums(self, weights: Array, tiles: Tiles, totals: Sequence[Floats]) -> None:
        """Add Σ w_i ∂ℓ_i/∂θ to each weighting's total: products of a tile's rows, tiles in double precision."""
        ...


class OuterProducts:
    """Gradients (a ⊗ s, s) of a dense layer: inputs a, signals s. `borrowed` inputs are the data's own."""

    def __init__(self, inputs: int, outputs: int, *, borrowed: bool) -> None:
        self._shape, self._borrowed = (inputs, outputs), borrowed
        self.size = (inputs + 1) * outputs
        self._buffers = Buffers()

    def hold(self, inputs: Array, signal: Array) -> OuterProducts:
        """The same place with other rows in it."""
        self._inputs, self._signal = inputs, signal
        return self

    def parts(self) -> tuple[Array, ...]:
        return self._inputs, self._signal

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:
        inputs = self._buffers.row_squares("exact inputs", self._inputs) if known is None else known
        return (inputs + 1) * self._buffers.row_squares("exact signal", self._signal), inputs

    def clear(self, rows: NDArray[np.bool_]) -> None:
        self._signal[rows] = 0
        if not self._borrowed:
            self._inputs[rows] = 0

    def add_sums(self, weights: Array, tiles: Tiles, totals: Sequence[Floats]) -> None:
        weighted = self._buffers.take("weighted", self._signal.shape, self._signal.dtype)
        products = self._buffers.take("products", self._shape, self._signal.dtype)
        for row, total in zip(weights, totals, strict=True):
            kernel, bias = total[: -self._shape[1]].reshape(self._shape), total[-self._shape[1] :]
            np.multiply(self._signal, row[:, None], out=weighted)
            for part in tiles.parts(row):
                inputs, signals = self._picked(part, weighted, tiles.rows)
                np.matmul(inputs.T, signals, out=products)
                kernel += products
            by_tile = weighted.reshape(-1, tiles.rows, weighted.shape[1]).sum(axis=1)
            bias += by_tile.sum(axis=0, dtype=np.float64)

    def _picked(self, part: Part, weighted: Array, most: int) -> tuple[Array, Array]:
        """The inputs and weighted signals of some rows; gathered ones are put where no other tile has a say."""
        if isinstance(part, slice):
            return self._inputs[part], weighted[part]
        inputs = self._buffers.take("some inputs", (most, self._inputs.shape[1]), weighted.dtype)[: len(part)]
        signals = self._buffers.take("some signals", (most, weighted.shape[1]), weighted.dtype)[: len(part)]
        np.take(self._inputs, part, axis=0, out=inputs, mode="clip")
        np.take(weighted, part, axis=0, out=signals, mode="clip")
        return inputs, signals


class OwnGradients:
    """Gradients formed record by record, in one or more arrays of a row each.

    `axes` is the order in which the axes of a row of the first array lie in the parameters, where it is another one.
    """

    def __init__(self, size: int, *, axes: tuple[int, ...] | None = None) -> None:
        self.size, self._axes = size, axes
        self._buffers = Buffers()

    def hold(self, *gradients: Array) -> OwnGradients:
        """The same place with other rows in it."""
        self._gradients = gradients
        return self

    def parts(self) -> tuple[Array, ...]:
        return self._gradients

    def squares(self, known: Floats | None) -> tuple[Floats, Floats]:  # noqa: ARG002
        each = (self._buffers.row_squares(f"exact {i}", _flat(rows)) for i, rows in enumerate(self._gradients))
        found: Floats = np.sum([*each], axis=0)
        return found, np.zeros_like(found)

    def clear(self, rows: NDArray[np.bool_]) -> None:
        for gradients in self._gradients:
            gradients[rows] = 0

    def add_sums(self, weights: Array, tiles: Tiles, totals: Sequence[Floats]) -> None:
        for start in range(0, weights.shape[1], tiles.rows):
            part, at = slice(start, start + tiles.rows), 0
            for index, gradients in enumerate(self._gradients):
                products = weights[:, part] @ _flat(gradients[part])
                for total, product in zip(totals, products, strict=True):
                    total[at : at + product.size] += product if index else self._arranged(product, gradients.shape[1:])
                at += products.shape[1]

    def _arranged(self, row: Array, shape: tuple[int, ...]) -> Array:
        return row if self._axes is None else row.reshape(shape).transpose(self._axes).reshape(-1)


def _flat(rows: Array) -> Array:
    return rows.reshape(len(rows), -1)
