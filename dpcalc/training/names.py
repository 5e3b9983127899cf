"""The words of training: which model, clipping, optimizer and filter; and between which clips sums are proved."""

from typing import Literal

from dpcalc.numbers import Range

ModelName = Literal["logistic", "linear", "mlp", "cnn", "cnn-small", "autoencoder"]
BackendName = Literal["numpy", "torch"]
ClippingName = Literal["fixed", "per-layer", "quantile", "online"]
OptimizerName = Literal["sgd", "adam", "adam-wosm"]
ActivationName = Literal["relu", "leaky-relu"]
FilterName = Literal["none", "gdp", "rdp"]
FilterMode = Literal["drop", "clip"]
SamplingName = Literal["poisson", "random-allocation"]
ReleaseName = Literal["iterates", "last"]
StopName = Literal["gaussian", "continual", "above-threshold"]

# Clippings whose clip is the same at every step.
FIXED: tuple[ClippingName, ...] = ("fixed", "per-layer")

# Models whose scores are linear in the parameters.
LINEAR: tuple[ModelName, ...] = ("logistic", "linear")

# Clips for which rounding of weighted gradients is covered by the slack in clipping.py, also as a clip moves.
CLIPS = Range(low=1e-12, high=1e12)


def is_module(model: str) -> bool:
    """Whether this is no model of ours but FILE.py:FUNCTION."""
    return ":" in model
