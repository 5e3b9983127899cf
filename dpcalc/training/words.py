"""How good a model is, in the words that stand before what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def preface(test: float | None, measure: str) -> str:
    """How good the model is, before what it costs."""
    if test is None:
        return "trained (there are no test records) with "
    if measure != "accuracy":
        words = {"mse": "mean squared error", "auc": "area under the ROC curve, averaged over labels:"}[measure]
        return f"{words} {test:.5f} on the test records, with "
    return f"{100 * test:.1f} % of the test records right, with "


def preface_of(details: Mapping[str, Any]) -> str:
    """The same of a run that is read back, as its details tell it; empty where they do not."""
    for measure in ("accuracy", "mse", "auc"):
        test = details.get(f"test_{measure}")
        if isinstance(test, float):
            return preface(test, measure)
    return ""
