"""Which records take part in a step: all of them, the next ones in file order, or a random few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpcalc.training.noise import Noise

Algorithm = Literal["gd", "cgd", "sgd"]
Records: TypeAlias = slice | NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Batches:
    """How batches come about; nothing here depends on what the records say."""

    algorithm: Algorithm
    records: int
    batch_size: int
    fixed_size: bool

    @property
    def sampling_rate(self) -> float:
        """The chance of a record to be in a step's batch."""
        return self.batch_size / self.records

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every record has taken part once, or would have on average."""
        return 1 if self.algorithm == "gd" else -(-self.records // self.batch_size)

    def draw(self, step: int, noise: Noise) -> Records:
        """The records of this step. The random choices are as secret as the noise."""
        if self.algorithm == "gd":
            return slice(0, self.records)
        if self.algorithm == "cgd":
            start = step % self.steps_per_epoch * self.batch_size
            return slice(start, min(start + self.batch_size, self.records))
        keys = noise.uniforms(self.records)
        if self.fixed_size:
            # The records with the smallest of independent keys: every subset of this size is equally likely.
            return np.sort(np.argpartition(keys, self.batch_size - 1)[: self.batch_size])
        return np.flatnonzero(keys < self.sampling_rate)
