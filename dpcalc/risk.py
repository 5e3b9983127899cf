"""What is left of a guarantee for somebody who attacks: numbers that people who know no ε understand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Risk:
    """What an attacker can reach, from above: advantage, true positive rates, and the accuracy of the best guess.

    `tpr_at_fpr` maps a false positive rate to the largest true positive rate; `bayes_accuracy` is how often the best
    guess is right whether a record is in, if that has probability `prior` beforehand.
    """

    advantage: float
    tpr_at_fpr: Mapping[str, float]
    prior: float
    bayes_accuracy: float
