"""Everything that decides a run apart from the data, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.numbers import steps_of_epochs
from dpcalc.training.backends.network import BACKENDS, BackendName
from dpcalc.training.batches import Algorithm, Batches
from dpcalc.training.clipping import CLIPS, ClippingName
from dpcalc.training.models import MODELS, is_module
from dpcalc.training.optimizers import OptimizerName

FilterName = Literal["none", "gdp", "rdp"]
FilterMode = Literal["drop", "clip"]

# Hyperparameters that a grid search may vary.
SEARCHABLE = (
    "lr", "clip", "clipping", "quantile", "optimizer", "momentum", "epochs", "steps", "batch_size", "regularization",
    "model", "hidden",
)  # fmt: skip

_ADAM_RATE = 1e-3
_PLAIN_RATE, _FULL_BATCH_RATE = 1.0, 3.0
_EPOCHS, _FULL_BATCH_STEPS = 10.0, 100
_CHOICES = {
    "backend": BACKENDS,
    "algorithm": ("gd", "cgd", "sgd"),
    "filter": ("none", "gdp", "rdp"),
    "filter_mode": ("drop", "clip"),
    "clipping": ("fixed", "quantile", "online"),
    "optimizer": ("sgd", "adam-wosm"),
    "adjacency": ("add-remove", "replace-one"),
}
_POSITIVE = ("lr", "clip", "noise_multiplier", "epochs", "feature_clip")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run. `noise_multiplier` is relative to the clip and applies to the sum of a batch.

    `steps` (or `epochs`) is where plain private training stops; that fixes the budget: 10 epochs, or 100 steps of the
    full batch, unless told. With a filter, records whose budget is not used up go on for `extra_steps` more
    (Feldman–Zrnic, §5); unless told a third more, and only as long as the public test records gain by it.
    """

    model: str = "mlp"
    backend: BackendName = "numpy"
    hidden: tuple[int, ...] = (128,)
    algorithm: Algorithm = "sgd"
    adjacency: Adjacency = "add-remove"
    clipping: ClippingName = "fixed"
    clip: float = 1.0
    quantile: float = 0.5
    noise_multiplier: float = 1.0
    optimizer: OptimizerName = "sgd"
    lr: float | None = None
    momentum: float = 0.0
    epochs: float | None = None
    steps: int | None = None
    batch_size: int = 512
    regularization: float = 0.0
    feature_clip: float | None = None
    filter: FilterName = "none"
    filter_mode: FilterMode = "drop"
    extra_steps: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"Expected {name} in {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.model not in MODELS and not is_module(self.model):
            raise InputError(f"Expected model in {', '.join(MODELS)} or FILE.py:FUNCTION, got {self.model!r}.")
        if is_module(self.model) and self.backend != "torch":
            raise InputError("a module of your own needs --backend torch.")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value < math.inf):
                raise InputError(f"Expected {name}={value!r} in (0, inf).")
        if self.clip not in CLIPS:
            raise InputError(f"Expected clip={self.clip!r} in {CLIPS}, where sums of gradients are proved.")
        for name, low in (("batch_size", 1), ("steps", 1), ("extra_steps", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= low):
                raise InputError(f"Expected {name}={value!r} to be a whole number, at least {low}.")
        if not (_is_number(self.regularization) and 0 <= self.regularization < math.inf):
            raise InputError(f"Expected regularization={self.regularization!r} in [0, inf).")
        if not (_is_number(self.momentum) and 0 <= self.momentum < 1):
            raise InputError(f"Expected momentum={self.momentum!r} in [0, 1).")
        if not (_is_number(self.quantile) and 0 < self.quantile < 1):
            raise InputError(f"Expected quantile={self.quantile!r} in (0, 1).")
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.momentum and self.optimizer != "sgd":
            raise InputError("momentum goes with --optimizer sgd; adam-wosm has its own.")
        if self.filter == "none":
            if self.extra_steps:
                raise InputError("extra steps beyond the plan need a filter: without one they would spend more.")
            return
        if self.adjacency != "add-remove":
            raise InputError(
                "individual filters are proved for add-remove only: a record's budget says nothing about the one that "
                "replaces it. Use --adjacency add-remove."
            )
        if self.algorithm == "sgd" and self.filter == "gdp":
            raise InputError(
                "the individual GDP filter covers Gaussian steps without sampling; a subsampled step is not Gaussian. "
                "Use --filter rdp here, or: dpcalc train --filter gdp --algorithm gd"
            )
        if self.filter_mode == "clip" and (self.clipping != "fixed" or self.algorithm == "sgd"):
            raise InputError("--filter-mode clip needs --clipping fixed and --algorithm gd or cgd; use drop.")

    @property
    def rate(self) -> float:
        """The learning rate: as given, or the optimizer's usual one."""
        if self.lr is not None:
            return self.lr
        if self.optimizer == "adam-wosm":
            return _ADAM_RATE
        return _FULL_BATCH_RATE if self.algorithm == "gd" else _PLAIN_RATE

    def batches(self, records: int) -> Batches:
        """The batches of a run over so many records."""
        if self.algorithm != "gd" and self.batch_size > records:
            raise InputError(f"Expected batch_size={self.batch_size} of at most the {records} training records.")
        size = records if self.algorithm == "gd" else self.batch_size
        fixed = self.adjacency == "replace-one"
        return Batches(algorithm=self.algorithm, records=records, batch_size=size, fixed_size=fixed)

    def planned_steps(self, records: int) -> int:
        """Where plain private training stops: `steps`, or the steps of `epochs` rounded up."""
        if self.steps is not None:
            return self.steps
        if self.epochs is None and self.algorithm == "gd":
            return _FULL_BATCH_STEPS
        epochs = _EPOCHS if self.epochs is None else self.epochs
        size = self.batches(records).batch_size
        if self.algorithm == "cgd":
            return steps_of_epochs(epochs, self.batches(records).steps_per_epoch, 1)
        return steps_of_epochs(epochs, records, size)

    def all_steps(self, records: int) -> int:
        """The steps that are run, with those a filter adds: a third more unless told."""
        planned = self.planned_steps(records)
        if self.filter == "none":
            return planned
        return planned + (-(-planned // 3) if self.extra_steps is None else self.extra_steps)

    def with_changes(self, changes: dict[str, Any]) -> Settings:
        """The same run with some hyperparameters changed, as a grid search does."""
        unknown = sorted(set(changes) - set(SEARCHABLE))
        if unknown:
            raise InputError(f"cannot search over {unknown[0]!r}; a grid may list {', '.join(SEARCHABLE)}.")
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint and for details."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "hidden": list(self.hidden)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
