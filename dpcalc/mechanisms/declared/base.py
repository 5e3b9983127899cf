"""What a declared guarantee answers besides what every mechanism does: what does it imply?

An answer is an upper bound, or None where nothing finite is implied; `reasons` then says why. Scalars are answered
without arrays, so that `convert` need not wait for them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dpcalc.errors import InputError
from dpcalc.guarantee import MuKind
from dpcalc.mechanisms.base import Mechanism
from dpcalc.rounding import times_up


class Declared(Mechanism):
    """A statement of privacy, and what follows from it.

    `name` is what people call the notion, `conversion` what its answers rest on. `attained` says that some mechanism
    of the statement is as bad as its bounds say.
    """

    name: ClassVar[str]
    conversion: ClassVar[str]
    accountant: ClassVar[str] = "conversion"
    mu_kind: ClassVar[MuKind | None] = None
    attained: ClassVar[bool] = False

    @abstractmethod
    def rdp_at(self, orders: Sequence[float]) -> list[float]:
        """RDP at each order; infinity where nothing is implied."""

    @abstractmethod
    def epsilon_at(self, delta: float) -> float | None:
        """ε at δ."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """δ at ε."""

    @abstractmethod
    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The largest true positive rate of any attack at a false positive rate."""

    @abstractmethod
    def group(self, size: int) -> Declared:
        """What holds for a group of so many records."""

    @abstractmethod
    def repeated(self, times: int) -> Declared:
        """What holds for so many adaptive runs of it, in the same notion."""

    def reasons(self) -> tuple[str, ...]:
        """Why some answers are missing."""
        return ()

    def advantage(self) -> float:
        """The largest true positive rate minus false positive rate of any attack: δ at ε = 0."""
        return self.delta_at(0.0)

    def assumptions(self) -> tuple[str, ...]:
        return ("the declared guarantee holds for adaptively chosen inputs",)


def times(value: float, factor: int, size: int) -> float:
    """value × factor × size for a group of so many records."""
    if size > 1e150 or not value * factor * size < 1e150:
        raise InputError(f"groups of {size:.3g} records are too large: nothing finite holds for them", where="group")
    return times_up(value, factor * size)
