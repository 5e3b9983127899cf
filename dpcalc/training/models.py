"""The models of the papers: their layers, in the library that computes them."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, get_args

from dpcalc.errors import InputError, missing
from dpcalc.last_iterate.losses import LossName
from dpcalc.training.backends.layers import LEAK, Convolution, Dense, Layer, MaxPool, Rectifier, Sigmoid
from dpcalc.training.backends.network import Network
from dpcalc.training.backends.numpy_network import NumpyNetwork
from dpcalc.training.names import LINEAR, ActivationName, BackendName, ModelName, is_module

MODULE = (
    "the module {source} computes a record's loss from that record and the parameters alone, and keeps nothing from "
    "one call to the next; its kernels were tested for it"
)

MODELS: tuple[str, ...] = get_args(ModelName)


def build(
    name: str,
    *,
    features: int,
    classes: int,
    hidden: Sequence[int] = (128,),
    backend: BackendName = "numpy",
    activation: ActivationName = "relu",
    multilabel: bool = False,
    loss: LossName = "cross-entropy",
) -> Network:
    """The model called `name` for records of `features` numbers; images are square with one channel.

    With `multilabel` its scores are of labels that go together rather than of classes that exclude each other.

    `FILE.py:FUNCTION` is a module of the user's own, for the torch backend.
    """
    if backend == "torch" and importlib.util.find_spec("torch") is None:
        raise missing("`backend=torch` needs PyTorch", "torch")
    if is_module(name):
        from dpcalc.training.backends.torch_module import ModuleNetwork

        return ModuleNetwork(name, features=features, classes=classes, multilabel=multilabel)
    network = _network(name, features=features, classes=classes, hidden=hidden, activation=activation)
    network.multilabel = multilabel and not network.reconstructs
    if network.multilabel and loss != "cross-entropy":
        raise InputError("records with several labels have the logistic loss of each label.", where="loss")
    network.loss = loss
    # Dense layers are NumPy's in both backends (see torch_network), so a network of nothing else needs no PyTorch.
    if backend == "numpy" or not any(isinstance(layer, Convolution) for layer in network.layers):
        return network
    from dpcalc.training.backends.torch_network import TorchNetwork

    return TorchNetwork(network)


def _network(
    name: str, *, features: int, classes: int, hidden: Sequence[int], activation: ActivationName
) -> NumpyNetwork:
    if name not in MODELS:
        raise InputError(f"Expected model in {', '.join(MODELS)}, got {name!r}.")
    if name in LINEAR:
        return NumpyNetwork([Dense(features, classes, borrowed=True)], (features,))
    if name == "mlp":
        return _mlp(features, classes, hidden, leak=LEAK if activation == "leaky-relu" else 0.0)
    side = round(features**0.5)
    if side * side != features:
        raise InputError(f"model {name} needs square images of one channel, got records of {features} features.")
    smallest = {"cnn": 8, "cnn-small": 16, "autoencoder": 9}[name]
    if side < smallest:
        raise InputError(f"model {name} needs images of at least {smallest} × {smallest} pixels, got {side} × {side}.")
    builder: dict[str, Any] = {"cnn": _galli_cnn, "cnn-small": _feldman_zrnic_cnn, "autoencoder": _autoencoder}
    model: NumpyNetwork = builder[name](side, classes)
    return model


def _mlp(features: int, classes: int, hidden: Sequence[int], *, leak: float) -> NumpyNetwork:
    if not hidden or any(width < 1 for width in hidden):
        raise InputError(f"Expected hidden widths of at least 1, got {list(hidden)}.")
    layers: list[Layer] = []
    width = features
    for following in hidden:
        layers += [Dense(width, following, borrowed=not layers), Rectifier(leak)]
        width = following
    return NumpyNetwork([*layers, Dense(width, classes)], (features,))


def _galli_cnn(side: int, classes: int) -> NumpyNetwork:
    """Galli et al., Table 5: 551,322 parameters on MNIST. Pooling before the rectifier is the same and cheaper."""
    convolutions: list[Layer] = [
        Convolution(1, 16, 8, padding=3),
        MaxPool(),
        Rectifier(),
        Convolution(16, 32, 4),
        Rectifier(),
    ]
    return _with_dense_head(convolutions, side, classes)


def _feldman_zrnic_cnn(side: int, classes: int) -> NumpyNetwork:
    """The Opacus MNIST example that Feldman and Zrnic train: 26,010 parameters on MNIST."""
    first: list[Layer] = [Convolution(1, 16, 8, stride=2, padding=3), MaxPool(), Rectifier()]
    return _with_dense_head([*first, Convolution(16, 32, 4, stride=2), MaxPool(), Rectifier()], side, classes)


def _with_dense_head(convolutions: list[Layer], side: int, classes: int) -> NumpyNetwork:
    shape: tuple[int, ...] = (side, side, 1)
    for layer in convolutions:
        shape = layer.output_shape(shape)
    return NumpyNetwork([*convolutions, Dense(math.prod(shape), 32), Rectifier(), Dense(32, classes)], (side, side, 1))


def _autoencoder(side: int, classes: int) -> NumpyNetwork:  # noqa: ARG001
    """Galli et al., Table 6: 48,705 parameters. A transposed 3 × 3 convolution is a convolution with padding 2."""
    widths = (1, 8, 16, 32, 64, 32, 16, 8, 1)
    layers: list[Layer] = []
    for index, (channels, filters) in enumerate(pairwise(widths)):
        layers += [Convolution(channels, filters, 3, padding=0 if index < 4 else 2), Rectifier(LEAK)]
    return NumpyNetwork([*layers[:-1], Sigmoid()], (side, side, 1), reconstructs=True)
