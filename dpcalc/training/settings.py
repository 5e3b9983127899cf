"""Everything that decides a run apart from the data, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, get_args

from dpcalc.asked import Algorithm, check, number, option, parsed, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.last_iterate.losses import loss_of
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, PROBABILITY, Range, parse_whole, steps_of_epochs
from dpcalc.training.geometry import Geometry
from dpcalc.training.names import (
    CLIPS,
    FIXED,
    ActivationName,
    BackendName,
    ClippingName,
    FilterMode,
    FilterName,
    ModelName,
    OptimizerName,
    SamplingName,
    StopName,
    is_module,
)

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

_BEYOND_ONE = Range(low=1, high=1e6, low_open=True)

_DATA = "Data and model"
_METHOD = "Method"
_LOOKS = "Private looks that steer the run"
_NUMBERS = "Hyperparameters"
_PRIVACY = "Privacy"


def _model(text: str) -> str:
    if text not in get_args(ModelName) and not is_module(text):
        raise ValueError(f"expected {', '.join(get_args(ModelName))} or FILE.py:FUNCTION, got {text[:40]!r}")
    return text


def _widths(text: str) -> tuple[int, ...]:
    return tuple(parse_whole(part) for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class Settings(Geometry):
    """One run. `noise_multiplier` is relative to the clip and applies to the sum of a batch.

    `steps` (or `epochs`) is where plain private training stops; that fixes the budget: 10 epochs, or 100 steps of the
    full batch, unless told. With a filter, records whose budget is not used up go on for `extra_steps` more
    (Feldman–Zrnic, §5); unless told a third more, and only as long as the public test records gain by it.

    `keep_best` iterates are compared by their training accuracy, `look_every` steps apart: from the planned step on
    with a filter, up to the last step without. A filtered run stops when fewer than the share `stop_below` of the
    records have budget left. Both look at private records with noise of deviation `look_noise`, a share of them.
    """

    model: Annotated[
        str,
        parsed(
            "--model",
            help="logistic, linear, mlp, cnn, cnn-small, autoencoder, or FILE.py:FUNCTION.",
            metavar="NAME",
            parse=_model,
            panel=_DATA,
        ),
    ] = "mlp"
    backend: Annotated[BackendName, option("--backend", help="Which library computes gradients.", panel=_DATA)] = (
        "numpy"
    )
    hidden: Annotated[
        tuple[int, ...],
        parsed(
            "--hidden",
            help="Widths of an mlp's layers; 128.",
            metavar="N,N,…",
            parse=_widths,
            panel=_DATA,
            shows_default=False,
        ),
    ] = (128,)
    activation: Annotated[ActivationName, option("--activation", help="Between an mlp's layers.", panel=_DATA)] = "relu"
    feature_clip: Annotated[
        float | None, number("--feature-clip", help="Largest norm of a record's features.", panel=_DATA)
    ] = None
    sampling: Annotated[
        SamplingName,
        option("--sampling", help="How sgd draws: each step anew, or one step of an epoch.", panel=_METHOD),
    ] = "poisson"
    filter: Annotated[FilterName, option("--filter", help="Individual privacy filter.", panel=_METHOD)] = "none"
    filter_mode: Annotated[
        FilterMode,
        option("--filter-mode", help="Leave a spent record out, or clip it to what is left.", panel=_METHOD),
    ] = "drop"
    extra_steps: Annotated[
        int | None,
        whole("--extra-steps", help="Steps a filter goes on; a third.", allowed=NON_NEGATIVE, panel=_METHOD),
    ] = None
    keep_best: Annotated[
        int,
        whole("--keep-best", help="Keep the best of so many iterates.", allowed=NON_NEGATIVE, panel=_LOOKS),
    ] = 0
    look_every: Annotated[int | None, whole("--look-every", help="Steps between these iterates.", panel=_LOOKS)] = None
    look_noise: Annotated[
        float, number("--look-noise", help="Noise of a look, as a share of the records.", panel=_LOOKS)
    ] = 0.01
    stop_below: Annotated[
        float | None,
        number("--stop-below", help="Stop if so few of the records have budget.", allowed=PROBABILITY, panel=_LOOKS),
    ] = None
    stop_by: Annotated[StopName, option("--stop-by", help="How they are counted.", panel=_LOOKS)] = "continual"
    clipping: Annotated[
        ClippingName,
        option("--clipping", help="One clip, one a layer, a quantile's, or learned online.", panel=_METHOD),
    ] = "fixed"
    quantile: Annotated[
        float, number("--quantile", help="Which one to follow.", allowed=PROBABILITY, panel=_METHOD)
    ] = 0.5
    clip_rate: Annotated[
        float, number("--clip-rate", help="ρ_c of online clipping.", allowed=NON_NEGATIVE, panel=_METHOD)
    ] = 2.5e-3
    lr_rate: Annotated[
        float, number("--lr-rate", help="ρ_r of online clipping.", allowed=NON_NEGATIVE, panel=_METHOD)
    ] = 2.5e-3
    direction_noise: Annotated[
        float,
        number("--direction-noise", help="ν_q of online clipping, over ν.", allowed=_BEYOND_ONE, panel=_METHOD),
    ] = 7.124
    validate_every: Annotated[
        int | None,
        whole("--validate-every", help="Keep the best iterate on the test records.", panel=_METHOD),
    ] = None
    optimizer: Annotated[
        OptimizerName, option("--optimizer", help="Descent, or Adam scaled by the noise.", panel=_METHOD)
    ] = "sgd"
    lr: Annotated[float | None, number("--lr", help="Learning rate; 1, gd 3, adam-wosm 1e-3.", panel=_NUMBERS)] = None
    momentum: Annotated[
        float, number("--momentum", help="Of sgd.", allowed=Range(low=0, high=1, high_open=True), panel=_NUMBERS)
    ] = 0.0
    clip: Annotated[
        float, number("--clip", help="Largest gradient norm, or the first.", allowed=CLIPS, panel=_NUMBERS)
    ] = 1.0
    epochs: Annotated[float | None, number("--epochs", help="Passes over the data; 10, gd 100.", panel=_NUMBERS)] = None
    steps: Annotated[int | None, whole("--steps", help="Steps, instead of epochs.", panel=_NUMBERS)] = None
    batch_size: Annotated[int, whole("--batch-size", help="Records in a batch.", panel=_NUMBERS)] = 512
    regularization: Annotated[
        float, number("--regularization", help="λ of (λ/2)‖θ‖².", allowed=NON_NEGATIVE, panel=_NUMBERS)
    ] = 0.0
    adjacency: Annotated[Adjacency, option("--adjacency", help="Which data sets are neighbours.", panel=_PRIVACY)] = (
        "add-remove"
    )
    seed: Annotated[
        int | None, whole("--seed", help="Reproducible noise: not for release.", allowed=NON_NEGATIVE, panel=_PRIVACY)
    ] = None
    algorithm: Algorithm = "sgd"
    noise_multiplier: float = 1.0

    def __post_init__(self) -> None:
        check(self)
        if self.noise_multiplier not in POSITIVE:
            raise InputError(
                f"expected a number in {POSITIVE}, got {self.noise_multiplier!r}", where="noise_multiplier"
            )
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.sampling == "random-allocation":
            self._check_allocation()
        if is_module(self.model) and self.backend != "torch":
            raise InputError("a module of your own needs --backend torch.")
        if self.momentum and self.optimizer != "sgd":
            raise InputError("momentum goes with --optimizer sgd; adam-wosm has its own.")
        if self.validate_every is not None and (self.keep_best or self.stop_below is not None):
            raise InputError("the iterate is chosen on public records (--validate-every) or on private ones, not both.")
        if self.keep_best and self.model == "autoencoder":
            raise InputError("the best iterate is found by accuracy, which an autoencoder does not have.")
        self._check_losses()
        if self.filter == "none":
            if self.stop_below is not None:
                raise InputError("without a filter no record runs out of budget: --stop-below needs --filter.")
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
        if self.filter_mode == "clip" and (self.clipping not in FIXED or self.algorithm == "sgd"):
            raise InputError("--filter-mode clip needs --clipping fixed and --algorithm gd or cgd; use drop.")

    def _check_allocation(self) -> None:
        if self.algorithm != "sgd":
            raise InputError("--sampling random-allocation goes with --algorithm sgd; the others draw nothing.")
        if self.adjacency != "add-remove":
            raise InputError(
                "--sampling random-allocation needs --adjacency add-remove; replace-one has uniform batches."
            )
        if self.filter != "none":
            raise InputError("what a filter must charge for random allocation is not known; use --sampling poisson.")

    def _check_losses(self) -> None:
        if self.model == "logistic":
            loss_of("logistic", self.loss)
        if self.loss != "cross-entropy" and (self.model == "autoencoder" or is_module(self.model)):
            raise InputError(f"--model {self.model} has a loss of its own, not {self.loss}.", where="loss")
        if self.clipping == "per-layer" and is_module(self.model):
            raise InputError(
                "the layers of a module of your own are not known; use --clipping fixed.", where="clipping"
            )
        if self.layer_shares and self.clipping != "per-layer":
            raise InputError("goes with --clipping per-layer", where="layer_shares")

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
                f"--epochs {whole_epochs}, or --steps {whole_epochs * length}"
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
