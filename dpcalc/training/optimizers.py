"""From a noisy average gradient to the next parameters. Everything here is post-processing and costs no privacy."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.training.names import OptimizerName

_FIRST_MOMENT, _SECOND_MOMENT = 0.9, 0.999
_FLOOR = 1e-8


class Optimizer(Protocol):
    """A rule for the next step; `state` and `restore` carry its memory through a checkpoint."""

    def update(self, gradient: Floats, *, rate: float, noise_level: float) -> Floats:
        """What to take off the parameters, in a new array; `noise_level` is the noise's on the average gradient."""
        ...

    def state(self) -> dict[str, Floats]: ...

    def restore(self, state: dict[str, Floats]) -> None: ...


class Sgd:
    """Plain descent, or with heavy-ball momentum."""

    def __init__(self, momentum: float = 0.0) -> None:
        self._momentum = momentum
        self._velocity: Floats = np.zeros(())

    def update(self, gradient: Floats, *, rate: float, noise_level: float) -> Floats:  # noqa: ARG002
        if self._momentum:
            gradient = self._velocity = self._momentum * self._velocity + gradient
        return rate * gradient

    def state(self) -> dict[str, Floats]:
        return {"velocity": self._velocity}

    def restore(self, state: dict[str, Floats]) -> None:
        self._velocity = state["velocity"]


class Adam:
    """Kingma and Ba (2015): each coordinate's mean gradient over the root of its mean square, noise and all."""

    def __init__(self) -> None:
        self._moment: Floats = np.zeros(())
        self._square: Floats = np.zeros(())
        self._steps = 0

    def update(self, gradient: Floats, *, rate: float, noise_level: float) -> Floats:  # noqa: ARG002
        self._steps += 1
        self._moment = _FIRST_MOMENT * self._moment + (1 - _FIRST_MOMENT) * gradient
        self._square = _SECOND_MOMENT * self._square + (1 - _SECOND_MOMENT) * gradient**2
        mean = self._moment / (1 - _FIRST_MOMENT**self._steps)
        scaled: Floats = rate * mean / (np.sqrt(self._square / (1 - _SECOND_MOMENT**self._steps)) + _FLOOR)
        return scaled

    def state(self) -> dict[str, Floats]:
        return {"moment": self._moment, "square": self._square, "steps": np.array(float(self._steps))}

    def restore(self, state: dict[str, Floats]) -> None:
        self._moment, self._square, self._steps = state["moment"], state["square"], int(state["steps"])


class AdamWosm:
    """Adam with its second moment replaced by the known level of the noise (Mohapatra et al., 2022)."""

    def __init__(self) -> None:
        self._moment: Floats = np.zeros(())
        self._weight = 0.0

    def update(self, gradient: Floats, *, rate: float, noise_level: float) -> Floats:
        self._moment = _FIRST_MOMENT * self._moment + (1 - _FIRST_MOMENT) * gradient
        self._weight = _FIRST_MOMENT * self._weight + (1 - _FIRST_MOMENT)
        scaled: Floats = rate * self._moment / (self._weight * (noise_level + _FLOOR))
        return scaled

    def state(self) -> dict[str, Floats]:
        return {"moment": self._moment, "weight": np.array(self._weight)}

    def restore(self, state: dict[str, Floats]) -> None:
        self._moment, self._weight = state["moment"], float(state["weight"])


def projected(parameters: NDArray[Any], diameter: float | None) -> NDArray[Any]:
    """The nearest point of the ball of this diameter around 0; a hair inside, so that rounding leaves it there."""
    if diameter is None:
        return parameters
    length = math.sqrt(float(np.sum(np.square(parameters, dtype=np.float64))))
    radius = diameter / 2 * (1 - 2.0**-20)
    inside: NDArray[Any] = parameters if length <= radius else parameters * parameters.dtype.type(radius / length)
    return inside


def build(name: OptimizerName, *, momentum: float = 0.0) -> Optimizer:
    """The optimizer called `name`."""
    if name == "sgd":
        return Sgd(momentum)
    return Adam() if name == "adam" else AdamWosm()
