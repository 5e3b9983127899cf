"""Everything that decides a run apart from the data, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcalc.asked import check
from dpcalc.errors import InputError
from dpcalc.numbers import POSITIVE, steps_of_epochs
from dpcalc.training.combinations import check_combinations
from dpcalc.training.options import Options

if TYPE_CHECKING:
    from dpcalc.training.batches import Batches

# Hyperparameters that a grid search may vary.
SEARCHABLE = (
    "lr", "clip", "clipping", "quantile", "optimizer", "momentum", "epochs", "steps", "batch_size", "regularization",
    "model", "hidden", "loss",
)  # fmt: skip

_ADAM_RATE = 1e-3
_PLAIN_RATE, _FULL_BATCH_RATE = 1.0, 3.0
_EPOCHS, _FULL_BATCH_STEPS = 10.0, 100
_MOST_STEPS = 10**10  # more would take years


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """One run: options that go together, and what follows from them."""

    def __post_init__(self) -> None:
        check(self)
        if self.noise_multiplier not in POSITIVE:
            raise InputError(
                f"expected a number in {POSITIVE}, got {self.noise_multiplier!r}", where="noise_multiplier"
            )
        check_combinations(self)

    @property
    def rate(self) -> float:
        """The learning rate: as given, or the optimizer's usual one."""
        if self.lr is not None:
            return self.lr
        if self.optimizer != "sgd":
            return _ADAM_RATE
        return _FULL_BATCH_RATE if self.algorithm == "gd" else _PLAIN_RATE

    def batches(self, records: int) -> Batches:
        """The batches of a run over so many records."""
        from dpcalc.training.batches import Batches

        if self.algorithm != "gd" and self.batch_size > records:
            raise InputError(f"Expected batch_size={self.batch_size} of at most the {records} training records.")
        size = records if self.algorithm == "gd" else self.batch_size
        fixed = self.adjacency == "replace-one"
        return Batches(
            algorithm=self.algorithm,
            records=records,
            batch_size=size,
            fixed_size=fixed,
            allocated=self.sampling == "random-allocation",
        )

    def planned_steps(self, records: int) -> int:
        """Where plain private training stops: `steps`, or the steps of `epochs` rounded up."""
        if self.sampling == "random-allocation":
            return self._allocated_steps(records)
        if self.steps is not None:
            return self.steps
        if self.epochs is None and self.algorithm == "gd":
            return _FULL_BATCH_STEPS
        epochs = _EPOCHS if self.epochs is None else self.epochs
        size = self.batches(records).batch_size
        if self.algorithm == "cgd":
            return steps_of_epochs(epochs, self.batches(records).steps_per_epoch, 1)
        return steps_of_epochs(epochs, records, size)

    def _allocated_steps(self, records: int) -> int:
        """Whole epochs: in a part of one, a record would take part with a probability of its own."""
        length = self.batches(records).steps_per_epoch
        epochs = Fraction(self.steps, length) if self.steps is not None else Fraction(self.epochs or _EPOCHS)
        if epochs.denominator > 1:
            whole_epochs = math.ceil(epochs)
            raise InputError(
                f"random allocation draws one of the {length} steps of an epoch, so epochs are whole: "
                f"`epochs={whole_epochs}`, or `steps={whole_epochs * length}`"
            )
        return int(epochs) * length

    def all_steps(self, records: int) -> int:
        """The steps that are run, with those a filter adds: a third more unless told."""
        planned = self.planned_steps(records)
        further = -(-planned // 3) if self.extra_steps is None else self.extra_steps
        steps = planned if self.filter == "none" else planned + further
        if steps > _MOST_STEPS:
            raise InputError(f"expected at most {_MOST_STEPS:,} steps, got {steps}"[:80], where="steps")
        return steps

    def with_changes(self, changes: dict[str, Any]) -> Settings:
        """The same run with some hyperparameters changed, as a grid search does."""
        unknown = sorted(set(changes) - set(SEARCHABLE))
        if unknown:
            raise InputError(f"cannot search over {unknown[0]!r}; a grid may list {', '.join(SEARCHABLE)}.")
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint and for details."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
