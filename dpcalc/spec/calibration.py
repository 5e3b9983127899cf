"""Solves the one number of a spec that is marked `solve`, for a target ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpcalc.accounting.calibrate import Search, calibrate
from dpcalc.errors import CertificationError, InputError
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.spec.composition import Question, compose_entries
from dpcalc.spec.specification import Document
from dpcalc.spec.unknown import Unknown, find_unknown

# Beyond these, a real number is as good as zero or infinity.
_LEAST, _MOST = 1e-12, 1e12
_GUESSES = {"rate": 0.01, "batch_size": 64.0, "steps": 256.0, "count": 16.0}


@dataclass(frozen=True)
class Calibrated:
    """The value, where it goes in the spec, and the guarantee it gives."""

    value: float
    key: str
    where: str
    guarantee: Guarantee


def calibrate_documents(
    documents: Sequence[Document], question: Question, epsilon: float, adjacency: Adjacency | None = None
) -> Calibrated:
    """The value that keeps the composition within ε at the δ of the question, rounded to the safe side."""
    unknown = find_unknown(documents, adjacency)
    found: dict[float, Guarantee] = {}

    def epsilon_of(value: float) -> float:
        try:
            found[value] = compose_entries(unknown.entries(value), question)
        except CertificationError:
            return math.inf  # nothing is known there, so it is not a solution
        return _epsilon(found[value])

    try:
        solution = calibrate(epsilon_of, target=epsilon, search=_search(unknown))
    except InputError as error:
        raise InputError(f"{error}{_because_of_others(unknown, question, epsilon)}", where=unknown.node.where) from None
    guarantee = found[solution.value]
    if solution.at_bound:
        guarantee = guarantee.with_warnings(
            f"{unknown.key} = {solution.value:g} is as far as it can go; ε stays within {epsilon:g} even there"
        )
    value = int(solution.value) if unknown.field.whole else solution.value
    return Calibrated(value, unknown.key, unknown.node.path, guarantee)


def _epsilon(guarantee: Guarantee) -> float:
    return math.inf if guarantee.epsilon is None else guarantee.epsilon


def _search(unknown: Unknown) -> Search:
    allowed = unknown.allowed
    return Search(
        low=max(allowed.low, _LEAST),
        high=min(allowed.high, 1e15 if unknown.field.whole else _MOST),
        guess=_GUESSES.get(unknown.key, 1.0),
        safe=1 if unknown.field.more_means == "less loss" else -1,
        whole=unknown.field.whole,
    )


def _because_of_others(unknown: Unknown, question: Question, epsilon: float) -> str:
    if not unknown.others:
        return ""
    alone = _epsilon(compose_entries(unknown.others, question))
    return f"; the other mechanisms alone have ε = {alone:.6g}" if alone > epsilon else ""
