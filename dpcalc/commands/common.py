"""Options that several commands have, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcalc.asked import argument, number, option, whole
from dpcalc.errors import InputError
from dpcalc.numbers import PROBABILITY, PROBABILITY_OR_ZERO, Range

if TYPE_CHECKING:
    from dpcalc.spec.specification import Document

DEFAULT_TOLERANCE = 1e-3

DELTA = number("--delta", help="δ at which to give ε, strictly between 0 and 1.", allowed=PROBABILITY)
DELTAS = number(
    "--delta",
    help="δ at which to give ε; 0 asks for pure ε. Repeat for a curve.",
    allowed=PROBABILITY_OR_ZERO,
    repeated=True,
)
SPECS = argument(
    metavar="SPEC...", help="YAML specs or JSON results of dpcalc commands; - is standard input.", repeated=True
)
MECHANISMS = option(
    "--mechanism", "-m", metavar="MECH", help="One more entry: laplace,epsilon=0.1,count=3; repeatable.", repeated=True
)
ADJACENCY = option("--adjacency", help="Account under this one; specs that state another must convert.")
TOLERANCE = number(
    "--tolerance",
    help="Largest relative gap to aim for between upper and lower bound; default 1e-3.",
    allowed=Range(low=1e-6, high=1),
)
SLACK = number("--slack", help="Give the least μ with δ(ε) ≤ δ_μ(ε) + this at every ε too.", allowed=PROBABILITY)
READ_LIMIT = whole(
    "--read-limit", help="Bytes that reading a file may take, if it has fewer.", panel="Running and files"
)


def asked_at(
    documents: list[Document], deltas: Sequence[float], epsilon: float | None
) -> tuple[list[float], float | None]:
    """The δ to give ε at, several for a curve, or the ε to give δ at: the options, or what the documents agree on."""
    from dpcalc.spec.specification import common_delta, common_epsilon

    if epsilon is not None and deltas:
        raise InputError("`delta` asks for ε and `epsilon` asks for δ; give one of them")
    if epsilon is not None or deltas:
        return list(deltas), epsilon
    delta, epsilon = common_delta(documents), common_epsilon(documents)
    if delta is None and epsilon is None:
        raise InputError("at which δ? Give `delta=D` (or `epsilon=E` for the δ at it), or delta: in the spec")
    if delta is not None and epsilon is not None:
        raise InputError("one file asks for ε at a δ, another for δ at an ε; give `delta` or `epsilon`")
    return ([] if delta is None else [delta]), epsilon
