"""What happened at each step of a log, in flat arrays of machine numbers."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _integers() -> array[int]:
    return array("q")


def _numbers() -> array[float]:
    return array("d")


@dataclass
class Steps:
    """What happened at each step, in order: how many records had a value, their weighed sum, and how many took part.

    Flat arrays of machine numbers, 32 bytes a step and 8 for each group; `active_by_group` has them step by step.
    """

    labels: array[int] = field(default_factory=_integers)
    present: array[int] = field(default_factory=_integers)
    value_sums: array[float] = field(default_factory=_numbers)
    active: array[int] = field(default_factory=_integers)
    active_by_group: array[int] = field(default_factory=_integers)

    def begin(self, labels: Sequence[int], groups: int) -> None:
        """Steps of which nothing is known yet."""
        self.labels.extend(labels)
        nothing = bytes(8 * len(labels))
        for empty in (self.present, self.value_sums, self.active):
            empty.frombytes(nothing)
        self.active_by_group.frombytes(bytes(8 * len(labels) * groups))

    def view(self, name: str, start: int = 0) -> NDArray[Any]:
        """The numbers of a field from step `start` on, to be changed in place (and let go before the next step)."""
        stored: array[Any] = getattr(self, name)
        found = np.frombuffer(stored, dtype=np.float64 if stored.typecode == "d" else np.int64)
        if name == "active_by_group":
            found = found.reshape(len(self.labels), len(stored) // max(1, len(self.labels)))
        return found[start:]

    @classmethod
    def joined(cls, parts: Sequence[Steps], groups: int) -> Steps:
        """The steps of several parts of the records, added up."""
        whole = cls()
        labels = sorted({label for part in parts for label in part.labels})
        whole.begin(labels, groups)
        for part in parts:
            at = np.searchsorted(labels, part.view("labels"))
            for name in ("present", "value_sums", "active", "active_by_group"):
                whole.view(name)[at] += part.view(name)
        return whole

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, for a state file."""
        return {stored: np.array(self.view(name)) for name, stored in _STORED.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Steps:
        """What `to_arrays` gave."""
        steps = cls()
        for name, stored in _STORED.items():
            kept: array[Any] = getattr(steps, name)
            kept.frombytes(arrays[stored].astype(np.float64 if kept.typecode == "d" else np.int64).tobytes())
        return steps


_STORED = {
    "labels": "step_labels",
    "present": "step_present",
    "value_sums": "step_sums",
    "active": "step_active",
    "active_by_group": "step_groups",
}
