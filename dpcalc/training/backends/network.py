"""What a run asks of a network, whichever library computes it: losses, every record's gradient, and results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.last_iterate.losses import LossName
from dpcalc.training.backends.gradients import Gradients
from dpcalc.training.labels import macro_auc
from dpcalc.training.tiles import Array


class Network(ABC):
    """A network whose parameters are one flat vector of `size` numbers, laid out alike in every backend.

    It ends in class scores under a `loss`, the cross-entropy unless told; in a score for each label under the mean over
    labels of the logistic loss, if it is `multilabel`; or in an image under the mean squared error, if it
    `reconstructs`. At most `chunk` records are looked at together. Each of the `blocks` of parameters, one for every
    layer with any, yields gradients.
    """

    size: int
    blocks: int = 1
    classes: int
    chunk: int
    input_shape: tuple[int, ...]
    reconstructs: bool = False
    multilabel: bool = False
    loss: LossName = "cross-entropy"
    # What else a checkpoint must agree on: the digest of code that is not ours.
    identity: str = ""

    @abstractmethod
    def initial(self, uniforms: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float32]:
        """A random start that no data has touched."""

    @abstractmethod
    def propagate(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Sequence[Gradients]]:
        """Each record's loss, and its gradient in the order of the parameters; both are used before the next call."""

    @abstractmethod
    def plain_sum(self, parameters: Array, x: Array, y: Array) -> Floats:
        """Σ_i ∇ℓ_i, the way it is computed where nobody's privacy is at stake."""

    @abstractmethod
    def outputs_of_chunk(self, parameters: Array, x: Array) -> Array:
        """Class scores, or reconstructed images, of at most a chunk of records."""

    def outputs(self, parameters: Array, x: Array) -> Array:
        """Class scores, or reconstructed images."""
        return np.concatenate([self.outputs_of_chunk(parameters, x[part]).copy() for part in self._chunks(len(x))])

    @property
    def measure(self) -> str:
        """What its quality is."""
        return "mse" if self.reconstructs else "auc" if self.multilabel else "accuracy"

    def quality(self, parameters: Array, x: Array, y: Array) -> float:
        """The fraction of records classified rightly, the area under the ROC curve averaged over labels, or the mean
        squared error of the reconstruction.
        """
        # A record may overflow: it then counts as wrong, or as infinitely far off.
        with np.errstate(all="ignore"):
            outputs = self.outputs(parameters, x)
            if self.reconstructs:
                gaps = outputs.reshape(len(x), -1) - x.reshape(len(x), -1)
                found = float(np.mean(gaps * gaps, dtype=np.float64))
                return math.inf if math.isnan(found) else found
            if self.multilabel:
                return macro_auc(outputs, y)
        return float(np.mean(outputs.argmax(axis=1) == y))

    def _chunks(self, records: int) -> list[slice]:
        return [slice(start, min(start + self.chunk, records)) for start in range(0, records, self.chunk)]
