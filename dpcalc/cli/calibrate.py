"""`dpcalc calibrate`: the one number of a spec that just keeps it within a budget."""

from __future__ import annotations

from typing import Annotated

from dpcalc.cli.command import command
from dpcalc.cli.compose import AdjacencyOption, Mechanisms, Specs, Tolerance, asked_delta
from dpcalc.cli.options import Delta, number
from dpcalc.errors import InputError
from dpcalc.guarantee import Result
from dpcalc.report import rounded_up


@command(
    example="dpcalc calibrate -m gaussian,noise_multiplier=solve,sampling=poisson,rate=0.01,count=5000 "
    "--epsilon 2 --delta 1e-5"
)
def calibrate(
    *,
    spec: Specs = None,
    mechanism: Mechanisms = None,
    epsilon: Annotated[float | None, number("--epsilon", help="The ε to stay within.")] = None,
    delta: Delta = None,
    adjacency: AdjacencyOption = None,
    tolerance: Tolerance = 1e-3,
) -> Result:
    """Solve a list of mechanisms for the one number that is the word solve, so that ε at δ stays within a budget.

    The value is rounded to the safe side: moved by 0.1 % (or by 1, for whole numbers) the other way, it would exceed ε.
    """
    from dpcalc.spec.calibration import calibrate_documents
    from dpcalc.spec.composition import Question
    from dpcalc.spec.sources import read_documents
    from dpcalc.spec.specification import common_budget

    if epsilon is None:
        raise InputError("which ε? Give --epsilon E")
    documents = read_documents(spec or (), mechanism or ())
    question = Question(delta=asked_delta(documents, delta, None), tolerance=tolerance)
    solved = calibrate_documents(documents, question, epsilon, adjacency.value if adjacency else None)
    return Result(
        command="calibrate",
        guarantee=solved.guarantee,
        details={
            "solution": solved.value,
            "key": solved.key,
            "where": solved.where,
            "target_epsilon": epsilon,
            "too_much": {"value": solved.too_much, "epsilon": solved.too_much_epsilon},
        },
        headline=(
            f"{solved.where} = {solved.value:.10g} keeps ε within {epsilon:g}; "
            f"{solved.too_much:.10g} would make it {rounded_up(solved.too_much_epsilon)}."
        ),
        budget=common_budget(documents),
    )
