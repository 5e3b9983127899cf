"""Which options of a run go together."""

from __future__ import annotations

from dpcalc.errors import InputError
from dpcalc.last_iterate.losses import loss_of
from dpcalc.training.names import FIXED, is_module
from dpcalc.training.options import Options

# Options that play a part only with some values of another one.
_NEEDED = {
    "hidden": ("model", ("mlp",)),
    "activation": ("model", ("mlp",)),
    "filter_mode": ("filter", ("gdp", "rdp")),
    "quantile": ("clipping", ("quantile",)),
    "clip_rate": ("clipping", ("online",)),
    "lr_rate": ("clipping", ("online",)),
    "direction_noise": ("clipping", ("online",)),
    "batch_size": ("algorithm", ("cgd", "sgd")),
}


def idle(options: Options) -> dict[str, str]:
    """Which options play no part beside the values of the others, and why."""
    chosen = {name: (other, getattr(options, other)) for name, (other, _) in _NEEDED.items()}
    found = {
        name: f"has no effect with --{other} {str(value)[:40]}"
        for name, (other, value) in chosen.items()
        if value not in _NEEDED[name][1]
    }
    if options.stop_below is None:
        found["stop_by"] = "has no effect without `stop_below`"
        if not options.keep_best:
            found["look_noise"] = "has no effect without `keep_best` or `stop_below`"
    return found


def check_combinations(options: Options) -> None:
    """Raise unless these options can be run together, and what they would spend is known."""
    if options.sampling == "random-allocation":
        _check_allocation(options)
    if is_module(options.model) and options.backend != "torch":
        raise InputError("a module of your own needs `backend=torch`.")
    if options.momentum and options.optimizer != "sgd":
        raise InputError("momentum goes with `optimizer=sgd`; Adam has its own.")
    if options.validate_every is not None and (options.keep_best or options.stop_below is not None):
        raise InputError("the iterate is chosen on public records (`validate_every`) or on private ones, not both.")
    if options.keep_best and options.model == "autoencoder":
        raise InputError("the best iterate is found by accuracy, which an autoencoder does not have.")
    _check_losses(options)
    if options.filter == "none":
        if options.stop_below is not None:
            raise InputError("without a filter no record runs out of budget: `stop_below` needs `filter`.")
        if options.extra_steps:
            raise InputError("extra steps beyond the plan need a filter: without one they would spend more.")
        if options.filter_mode == "clip":
            raise InputError("without a filter nothing is left to be clipped to: `filter_mode=clip` needs `filter`.")
        return
    if options.adjacency != "add-remove":
        raise InputError(
            "individual filters are proved for add-remove only: a record's budget says nothing about the one that "
            "replaces it. Use `adjacency=add-remove`."
        )
    if options.algorithm == "sgd" and options.filter == "gdp":
        raise InputError(
            "the individual GDP filter covers Gaussian steps, and a subsampled step is not one; "
            "use `filter=rdp`, or: `train(filter=gdp, algorithm=gd)`"
        )
    if options.filter_mode == "clip" and (options.clipping not in FIXED or options.algorithm == "sgd"):
        raise InputError("`filter_mode=clip` needs `clipping=fixed` and `algorithm=gd` or cgd; use drop.")


def _check_allocation(options: Options) -> None:
    if options.algorithm != "sgd":
        raise InputError("`sampling=random-allocation` goes with `algorithm=sgd`; the others draw nothing.")
    if options.adjacency != "add-remove":
        raise InputError("`sampling=random-allocation` needs `adjacency=add-remove`; replace-one has uniform batches.")
    if options.filter != "none":
        raise InputError("what a filter must charge for random allocation is not known; use `sampling=poisson`.")


def _check_losses(options: Options) -> None:
    if options.model == "logistic":
        loss_of("logistic", options.loss)
    if options.loss != "cross-entropy" and (options.model == "autoencoder" or is_module(options.model)):
        raise InputError(f"`model={options.model}` has a loss of its own, not {options.loss}.", where="loss")
    if options.layer_shares and options.clipping != "per-layer":
        raise InputError("goes with `clipping=per-layer`", where="layer_shares")
