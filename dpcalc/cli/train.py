"""`dpcalc train`: private training that says what it cost, and leaves a log that `dpcalc filter` can audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import AdjacencyChoice, ReadLimit, number, parsed, whole
from dpcalc.cli.progress import progress
from dpcalc.errors import InputError
from dpcalc.files import LIMIT
from dpcalc.guarantee import Guarantee, Result
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, Range, parse_whole

if TYPE_CHECKING:
    from dpcalc.training.settings import Settings

_DATA = "Data and model"
_METHOD = "Method"
_NUMBERS = "Hyperparameters"
_PRIVACY = "Privacy"
_FILES = "Search, log and checkpoint"
_LEDGER = "Ledger"


class BackendChoice(str, Enum):
    """Which library computes gradients."""

    numpy = "numpy"
    torch = "torch"


class AlgorithmChoice(str, Enum):
    """Full batch, batches in file order, or random batches."""

    gd = "gd"
    cgd = "cgd"
    sgd = "sgd"


class FilterChoice(str, Enum):
    """Which individual filter decides who takes part."""

    none = "none"
    gdp = "gdp"
    rdp = "rdp"


class ModeChoice(str, Enum):
    """What happens to a record that no longer fits its budget."""

    drop = "drop"
    clip = "clip"


class ClippingChoice(str, Enum):
    """Where gradients are clipped."""

    fixed = "fixed"
    quantile = "quantile"
    online = "online"


class OptimizerChoice(str, Enum):
    """How the noisy gradient moves the parameters."""

    sgd = "sgd"
    adam_wosm = "adam-wosm"


class Widths(NamedTuple):
    """The widths of hidden layers."""

    layers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Widths:
        return cls(tuple(parse_whole(part) for part in text.split(",")))


@command(example="dpcalc train --model logistic --epochs 2 --epsilon 1 --delta 1e-5", plot=True)
def train(
    *,
    data: Annotated[
        str,
        typer.Option(help="Folder of IDX files, .npz, .csv with a label column, or synthetic.", rich_help_panel=_DATA),
    ] = "synthetic",
    test_data: Annotated[
        str | None, typer.Option(help="A .csv to test on, if --data is one.", rich_help_panel=_DATA)
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="logistic, mlp, cnn, cnn-small, autoencoder, or FILE.py:FUNCTION.",
            metavar="NAME",
            rich_help_panel=_DATA,
        ),
    ] = "mlp",
    backend: Annotated[
        BackendChoice, typer.Option(help="Which library computes gradients.", rich_help_panel=_DATA)
    ] = BackendChoice.numpy,
    hidden: Annotated[
        Widths | None,
        parsed("--hidden", help="Widths of an mlp's layers; 128.", metavar="N,N,…", parse=Widths.parse, panel=_DATA),
    ] = None,
    feature_clip: Annotated[
        float | None, number("--feature-clip", help="Largest norm of a record's features.", panel=_DATA)
    ] = None,
    algorithm: Annotated[
        AlgorithmChoice | None,
        typer.Option(help="Full batch, cyclic or stochastic; sgd, or gd with --filter gdp.", rich_help_panel=_METHOD),
    ] = None,
    filter_: Annotated[
        FilterChoice, typer.Option("--filter", help="Individual privacy filter.", rich_help_panel=_METHOD)
    ] = FilterChoice.none,
    filter_mode: Annotated[
        ModeChoice, typer.Option(help="Leave a spent record out, or clip it to what is left.", rich_help_panel=_METHOD)
    ] = ModeChoice.drop,
    extra_steps: Annotated[
        int | None,
        whole("--extra-steps", help="Steps a filter goes on; a third.", allowed=NON_NEGATIVE, panel=_METHOD),
    ] = None,
    clipping: Annotated[
        ClippingChoice, typer.Option(help="Fixed clip, a quantile's, or learned online.", rich_help_panel=_METHOD)
    ] = ClippingChoice.fixed,
    quantile: Annotated[
        float, number("--quantile", help="Which one to follow.", allowed=PROBABILITY, panel=_METHOD)
    ] = 0.5,
    optimizer: Annotated[
        OptimizerChoice, typer.Option(help="Descent, or Adam scaled by the noise.", rich_help_panel=_METHOD)
    ] = OptimizerChoice.sgd,
    lr: Annotated[float | None, number("--lr", help="Learning rate; 1, gd 3, adam-wosm 1e-3.", panel=_NUMBERS)] = None,
    momentum: Annotated[
        float, number("--momentum", help="Of sgd.", allowed=Range(low=0, high=1, high_open=True), panel=_NUMBERS)
    ] = 0.0,
    clip: Annotated[float, number("--clip", help="Largest gradient norm, or the first.", panel=_NUMBERS)] = 1.0,
    epochs: Annotated[
        float | None, number("--epochs", help="Passes over the data; 10, gd 100.", panel=_NUMBERS)
    ] = None,
    steps: Annotated[int | None, whole("--steps", help="Steps, instead of epochs.", panel=_NUMBERS)] = None,
    batch_size: Annotated[int, whole("--batch-size", help="Records in a batch.", panel=_NUMBERS)] = 512,
    regularization: Annotated[
        float, number("--regularization", help="λ of (λ/2)‖θ‖².", allowed=NON_NEGATIVE, panel=_NUMBERS)
    ] = 0.0,
    noise_multiplier: Annotated[
        float | None, number("--noise-multiplier", help="Noise on the sum, over the clip.", panel=_PRIVACY)
    ] = None,
    epsilon: Annotated[
        float | None, number("--epsilon", help="Find the noise for this ε; 3 if no noise is given.", panel=_PRIVACY)
    ] = None,
    delta: Annotated[float, number("--delta", help="δ of the guarantee.", allowed=PROBABILITY, panel=_PRIVACY)] = 1e-5,
    adjacency: Annotated[
        AdjacencyChoice, typer.Option(help="Which data sets are neighbours.", rich_help_panel=_PRIVACY)
    ] = AdjacencyChoice.add_remove,
    seed: Annotated[
        int | None,
        whole("--seed", help="Reproducible noise: not for release.", allowed=NON_NEGATIVE, panel=_PRIVACY),
    ] = None,
    grid_runs: Annotated[int, whole("--grid-runs", help="Share the budget over so many such runs.", panel=_FILES)] = 1,
    grid: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="YAML of values to search, under one budget.", rich_help_panel=_FILES),
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write norms to .npy or .csv.", rich_help_panel=_FILES)
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FILE", help="Save the run as it goes.", rich_help_panel=_FILES)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint.", rich_help_panel=_FILES)
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the model as .npz.", rich_help_panel=_FILES)
    ] = None,
    read_limit: ReadLimit = LIMIT,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Start only if this ledger accepts the cost.", rich_help_panel=_LEDGER),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="NAME", help="The ledger's budget to charge.", rich_help_panel=_LEDGER)
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="K", help="Charged once for this key.", rich_help_panel=_LEDGER)
    ] = None,
) -> Result:
    """Train a model with differential privacy, and say what it cost.

    Without options it trains on a built-in data set. Every step clips each record's gradient and adds Gaussian noise;
    the guarantee covers the parameters of every step. Accuracy and loss on the training records are shown for their
    owner and are not covered.
    """
    from dpcalc.training.run import Files
    from dpcalc.training.session import Wanted, train_and_report

    settings = _settings(
        model=model,
        backend=backend.value,
        hidden=None if hidden is None else hidden.layers,
        feature_clip=feature_clip,
        algorithm=None if algorithm is None else algorithm.value,
        filter=filter_.value,
        filter_mode=filter_mode.value,
        extra_steps=extra_steps,
        clipping=clipping.value,
        quantile=quantile,
        optimizer=optimizer.value,
        lr=lr,
        momentum=momentum,
        clip=clip,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        regularization=regularization,
        noise_multiplier=noise_multiplier,
        adjacency=adjacency.value,
        seed=seed,
    )
    if noise_multiplier is not None and epsilon is not None:
        raise InputError("expected --noise-multiplier or --epsilon (which finds it), got both")
    if epsilon is None and noise_multiplier is None:
        epsilon = 3.0
    wanted = Wanted(
        data=data,
        test_data=test_data,
        epsilon=epsilon,
        delta=delta,
        runs=grid_runs,
        grid=grid,
        save=save,
        read_limit=read_limit,
    )
    files = Files(log=log, checkpoint=checkpoint, resume=resume)
    if ledger is None and budget is None and key is None:
        return train_and_report(settings, wanted, files, progress=progress)
    if ledger is None or budget is None or key is None:
        raise InputError("--ledger, --budget and --key go together: where, what and for which run is charged")
    charged: dict[str, Any] = {"budget": budget, "key": key}
    result = train_and_report(settings, wanted, files, progress=progress, charge=_charging(ledger, charged))
    return replace(result, details={**result.details, "ledger": charged})


def _charging(ledger: str, charged: dict[str, Any]) -> Callable[[Guarantee], None]:
    """Charges what a run will guarantee; raises if it is refused. `charged` is told the entry's number."""

    def charge_run(guarantee: Guarantee) -> None:
        from dpcalc.ledger.advice import charge

        answer = charge(ledger, charged["budget"], guarantee, key=charged["key"], note="dpcalc train")
        charged["entry"] = answer.entry

    return charge_run


def _settings(**given: Any) -> Settings:
    from dpcalc.training.settings import Settings

    if given["epochs"] is not None and given["steps"] is not None:
        raise InputError("expected --epochs or --steps, got both")
    if given["algorithm"] is None and given["filter"] == "gdp":
        given["algorithm"] = "gd"
    return Settings(**{name: value for name, value in given.items() if value is not None})
