"""The same networks computed by PyTorch: forward, backward and convolutions' own gradients in its kernels.

Norms and sums are formed by `gradients` as in NumPy, on the same memory, so what is proved there holds here: PyTorch
only has to be local, which every run tests on its own shapes; how exactly it computes does not matter for privacy. A
convolution's per-record gradients are products of unfolded inputs where these are small, and otherwise one call with a
group for each record, several times faster on a CPU. Dense layers and losses are NumPy's: its matrix products are the
faster ones there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.training.backends import layers
from dpcalc.training.backends.gradients import Gradients, OwnGradients
from dpcalc.training.backends.network import Network
from dpcalc.training.backends.numpy_network import NumpyNetwork
from dpcalc.training.tiles import Array, Buffers

Tensor: TypeAlias = torch.Tensor

# Numbers in the widest layer of one chunk: what its kernels like best.
_CHUNK_NUMBERS = 1_200_000
# Numbers in a record's unfolded input up to which products of it beat a convolution by groups.
_UNFOLDED = 60_000


class TorchNetwork(Network):
    """A network defined by its NumPy layers and run by PyTorch."""

    def __init__(self, network: NumpyNetwork) -> None:
        self._network = network
        self.size, self.classes = network.size, network.classes
        self.input_shape, self.reconstructs = network.input_shape, network.reconstructs
        self.multilabel, self.loss, self.blocks = network.multilabel, network.loss, network.blocks
        self._layers = [_KINDS[type(layer)](layer) for layer in network.layers]
        shape, widest = network.input_shape, math.prod(network.input_shape)
        for layer in network.layers:
            shape = layer.output_shape(shape)
            widest = max(widest, math.prod(shape))
        self.chunk = max(1, _CHUNK_NUMBERS // widest)

    def initial(self, uniforms: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float32]:
        return self._network.initial(uniforms)

    def plain_sum(self, parameters: Array, x: Array, y: Array) -> Floats:
        total = np.zeros(self.size)
        for part in self._chunks(len(x)):
            self._run(parameters, x[part], y[part])
            total += np.concatenate([np.asarray(s).ravel() for layer in self._layers for s in layer.plain_sum()])
        return total

    def propagate(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Sequence[Gradients]]:
        losses = self._run(parameters, x, y)
        return losses, [found for layer in self._layers if (found := layer.gradients()) is not None]

    def _run(self, parameters: Array, x: Array, y: Array) -> Array:
        with torch.inference_mode():
            outputs, first = self._forward(parameters, x), self._network.first
            losses, signal = self._squared_error(outputs, x) if self.reconstructs else self._scored(outputs, y)
            for index in range(len(self._layers) - 1, first - 1, -1):
                signal = self._layers[index].backward(signal, to_input=index > first)
            return np.asarray(losses)

    def _forward(self, parameters: Array, x: Array) -> Tensor:
        signal = torch.from_numpy(x).reshape(len(x), *self.input_shape)
        if signal.ndim == 4:
            signal = signal.permute(0, 3, 1, 2)
        for layer, views in zip(self._layers, self._network.views(parameters), strict=True):
            signal = layer.forward(signal, [torch.from_numpy(view) for view in views])
        return signal

    def outputs_of_chunk(self, parameters: Array, x: Array) -> Array:
        with torch.inference_mode():
            outputs = self._forward(parameters, x)
            return np.asarray(outputs if outputs.ndim == 2 else outputs.permute(0, 2, 3, 1))

    def _scored(self, scores: Tensor, y: Array) -> tuple[Array, Tensor]:
        losses, signal = self._network.scored(scores.numpy(), y)
        return losses, torch.from_numpy(signal)

    def _squared_error(self, outputs: Tensor, x: Array) -> tuple[Tensor, Tensor]:
        gap = outputs - torch.from_numpy(x).reshape(len(x), *self.input_shape).permute(0, 3, 1, 2)
        losses = (gap * gap).reshape(len(gap), -1).mean(dim=1)
        return losses, gap.mul_(2 / max(1, math.prod(self.input_shape)))


def _placed(images: Tensor) -> Tensor:
    """The same images, channels last in memory, as in the NumPy layers: pooling is ten times as fast so."""
    return images.contiguous(memory_format=torch.channels_last)


class _Layer:
    """One layer in PyTorch; images are (records, channels, height, width)."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:
        raise NotImplementedError

    def gradients(self) -> Gradients | None:
        """Every record's gradient; None for a layer without parameters."""
        return None

    def plain_sum(self) -> Sequence[Tensor | Array]:
        return []


class _Dense(_Layer):
    """A dense layer of NumPy: the same product takes PyTorch (MKL) 1.1 to 3 times as long on a CPU."""

    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:
        self._shape = inputs.shape
        # The layout of the parameters has channels last.
        flat = inputs.permute(0, 2, 3, 1).reshape(len(inputs), -1) if inputs.ndim == 4 else inputs
        self._weights = [parameter.numpy() for parameter in parameters]
        return torch.from_numpy(self._layer.forward(flat.numpy(), self._weights))

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:
        back = torch.from_numpy(self._layer.backward(signal.numpy(), self._weights, to_input=to_input))
        if not to_input or len(self._shape) == 2:
            return back
        records, channels, height, width = self._shape
        return back.reshape(records, height, width, channels).permute(0, 3, 1, 2)

    def gradients(self) -> Gradients:
        found: Gradients = self._layer.gradients()
        return found

    def plain_sum(self) -> Sequence[Tensor | Array]:
        found: list[Array] = self._layer.plain_sum()
        return found


class _Convolution(_Layer):
    def __init__(self, layer: layers.Convolution) -> None:
        super().__init__(layer)
        self._buffers = Buffers()
        self._unfolded = OwnGradients(layer.size)
        # A gradient by groups is (filter, channel, row, column); parameters are (row, column, channel, filter).
        self._grouped = OwnGradients(layer.size, axes=(2, 3, 1, 0))

    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:
        layer = self._layer
        kernel = parameters[0].reshape(layer.kernel, layer.kernel, layer.channels, -1).permute(3, 2, 0, 1)
        self._inputs, self._kernel = _placed(inputs), _placed(kernel)
        return torch.conv2d(self._inputs, self._kernel, parameters[1], layer.stride, layer.padding)

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:
        self._signal = _placed(signal)
        return self._back(self._signal, self._inputs, self._kernel, 1, 0) if to_input else signal

    def _back(self, signal: Tensor, inputs: Tensor, kernel: Tensor, groups: int, wanted: int) -> Tensor:
        """The gradient with respect to the inputs (`wanted` = 0) or the kernel (1)."""
        stride, padding = [self._layer.stride] * 2, [self._layer.padding] * 2
        mask = [wanted == 0, wanted == 1, False]
        found: Tensor = torch.ops.aten.convolution_backward(
            signal, inputs, kernel, None, stride, padding, [1, 1], False, [0, 0], groups, mask
        )[wanted]
        return found

    def gradients(self) -> Gradients:
        with torch.inference_mode():
            biases = self._signal.sum(dim=(2, 3)).numpy()
            positions = math.prod(self._signal.shape[2:])
            if positions * self._layer.shapes[0][0] <= _UNFOLDED:
                return self._unfolded.hold(self._by_columns(), biases)
            return self._grouped.hold(self._by_groups(), biases)

    def _by_columns(self) -> Array:
        """Every record's gradient as a product of its unfolded input and its signal."""
        layer, records = self._layer, len(self._signal)
        padded = torch.nn.functional.pad(self._inputs, [layer.padding] * 4).permute(0, 2, 3, 1).contiguous()
        record, row, column, channel = padded.stride()
        height, width = self._signal.shape[2:]
        windows = padded.as_strided(
            (records, height, width, layer.kernel, layer.kernel, layer.channels),
            (record, row * layer.stride, column * layer.stride, row, column, channel),
        )
        columns = windows.reshape(records, height * width, -1).numpy()
        signal = self._signal.permute(0, 2, 3, 1).reshape(records, height * width, -1).numpy()
        found = self._buffers.take("gradients", (records, *layer.shapes[0]), signal.dtype)
        return np.matmul(columns.transpose(0, 2, 1), signal, out=found)

    def _by_groups(self) -> Array:
        """Every record's gradient by one convolution that has a group for each record."""
        records, filters, height, width = self._signal.shape
        signal = self._signal.contiguous().reshape(1, records * filters, height, width)
        inputs = self._inputs.contiguous().reshape(1, -1, *self._inputs.shape[2:])
        kernel = self._kernel.new_empty(()).expand(records * filters, *self._kernel.shape[1:])
        return np.asarray(self._back(signal, inputs, kernel, records, 1).reshape(records, *self._kernel.shape))

    def plain_sum(self) -> Sequence[Tensor | Array]:
        with torch.inference_mode():
            kernel = self._back(self._signal, self._inputs, self._kernel.contiguous(), 1, 1)
            return [kernel.permute(2, 3, 1, 0), self._signal.sum(dim=(0, 2, 3))]


class _MaxPool(_Layer):
    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:  # noqa: ARG002
        self._inputs = inputs
        outputs, self._chosen = torch.nn.functional.max_pool2d(inputs, 2, 1, return_indices=True)
        return outputs

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:  # noqa: ARG002
        found: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            signal, self._inputs, [2, 2], [1, 1], [0, 0], [1, 1], False, self._chosen
        )
        return found


class _Rectifier(_Layer):
    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:  # noqa: ARG002
        self._inputs = inputs
        leak = self._layer.leak
        return torch.nn.functional.leaky_relu(inputs, leak) if leak else torch.relu(inputs)

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:  # noqa: ARG002
        found: Tensor = torch.ops.aten.leaky_relu_backward(signal, self._inputs, self._layer.leak, False)
        return found


class _Sigmoid(_Layer):
    def forward(self, inputs: Tensor, parameters: list[Tensor]) -> Tensor:  # noqa: ARG002
        self._outputs = torch.sigmoid(inputs)
        return self._outputs

    def backward(self, signal: Tensor, *, to_input: bool) -> Tensor:  # noqa: ARG002
        found: Tensor = torch.ops.aten.sigmoid_backward(signal, self._outputs)
        return found


_KINDS: dict[type, Callable[[Any], _Layer]] = {
    layers.Dense: _Dense,
    layers.Convolution: _Convolution,
    layers.MaxPool: _MaxPool,
    layers.Rectifier: _Rectifier,
    layers.Sigmoid: _Sigmoid,
}
