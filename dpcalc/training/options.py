"""The options of a run, each with how it is given and what it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_args

from dpcalc.asked import Algorithm, number, option, parsed, whole
from dpcalc.guarantee import Adjacency
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, Range, parse_whole
from dpcalc.training.geometry import Geometry
from dpcalc.training.names import (
    CLIPS,
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

_BEYOND_ONE = Range(low=1, high=1e6, low_open=True)

DATA = "Data and model"
_METHOD = "Method"
_LOOKS = "Private looks that steer the run"
_NUMBERS = "Hyperparameters"
PRIVACY = "Privacy"


def _model(text: str) -> str:
    if text not in get_args(ModelName) and not is_module(text):
        raise ValueError(f"expected {', '.join(get_args(ModelName))} or FILE.py:FUNCTION, got {text[:40]!r}")
    return text


def _widths(text: str) -> tuple[int, ...]:
    return tuple(parse_whole(part) for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class Options(Geometry):
    """What one chooses for a run. `noise_multiplier` is relative to the clip and applies to the sum of a batch.

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
            panel=DATA,
        ),
    ] = "mlp"
    backend: Annotated[BackendName, option("--backend", help="Which library computes gradients.", panel=DATA)] = "numpy"
    hidden: Annotated[
        tuple[int, ...],
        parsed(
            "--hidden",
            help="Widths of an mlp's layers; 128.",
            metavar="N,N,…",
            parse=_widths,
            panel=DATA,
            shows_default=False,
        ),
    ] = (128,)
    activation: Annotated[ActivationName, option("--activation", help="Between an mlp's layers.", panel=DATA)] = "relu"
    feature_clip: Annotated[
        float | None, number("--feature-clip", help="Largest norm of a record's features.", panel=DATA)
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
        OptimizerName, option("--optimizer", help="Descent, Adam, or Adam scaled by the noise.", panel=_METHOD)
    ] = "sgd"
    lr: Annotated[float | None, number("--lr", help="Learning rate; 1, gd 3, Adam 1e-3.", panel=_NUMBERS)] = None
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
    adjacency: Annotated[Adjacency, option("--adjacency", help="Which data sets are neighbours.", panel=PRIVACY)] = (
        "add-remove"
    )
    seed: Annotated[
        int | None,
        whole("--seed", help="Reproducible noise: not for release.", allowed=NON_NEGATIVE, panel=PRIVACY),
    ] = None
    algorithm: Algorithm = "sgd"
    noise_multiplier: float = 1.0
