"""`dpcalc queries`: sums over people, asked one after the other, under a budget of its own for each person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from dpcalc.asked import Asked, argument, number, option
from dpcalc.commands.common import READ_LIMIT
from dpcalc.errors import InputError
from dpcalc.files import check_paths
from dpcalc.files.reader import LIMIT
from dpcalc.guarantee import Result
from dpcalc.numbers import PROBABILITY

_FORGOTTEN = "without a state nothing is remembered: another call about these people spends the budget once more"
_BUDGET = "Budget, fixed with the first query"


@dataclass(frozen=True, kw_only=True)
class Queries(Asked):
    """Answer linear queries with noise: sums over people, each chosen by earlier answers.

    TABLE has a line for each person: id, and a value for every query. A person takes part while the sum of its squared
    values, this query included, is within the norm budget: for queries of 0 and 1, that many ones. All answers
    together cost the budget, however many there are (Feldman and Zrnic 2021, Theorem 1.2). With --state the next call
    goes on; an answer that was given is given again for nothing.
    """

    example: ClassVar[str] = "dpcalc queries examples/queries.csv --norm-budget 3 --epsilon 1 --delta 1e-6"

    table: Annotated[str, argument(help=".csv with a column id, and one for each query; - is stdin.", metavar="TABLE")]
    norm_budget: Annotated[
        float, number("--norm-budget", help="B: Σ of a person's squared values, at most.", panel=_BUDGET)
    ]
    epsilon: Annotated[float | None, number("--epsilon", help="ε of all answers, at --delta.", panel=_BUDGET)] = None
    mu: Annotated[float | None, number("--mu", help="μ of all answers (GDP).", panel=_BUDGET)] = None
    rho: Annotated[float | None, number("--rho", help="ρ of all answers (zCDP): κ of the paper.", panel=_BUDGET)] = None
    sigma: Annotated[float | None, number("--sigma", help="The noise itself, on every answer.", panel=_BUDGET)] = None
    delta: Annotated[float, number("--delta", help="δ at which ε is told.", allowed=PROBABILITY)] = 1e-5
    beta: Annotated[float, number("--beta", help="Chance that an error is larger than told.", allowed=PROBABILITY)] = (
        0.05
    )
    state: Annotated[
        str | None, option("--state", metavar="FILE", help="Go on from here, and write what was spent. Sensitive.")
    ] = None

    read_limit: Annotated[int, READ_LIMIT] = LIMIT

    def answer(self) -> Result:
        """Every query of the table, in the order of its columns."""
        check_paths({"`state`": self.state}, {"`table`": self.table})
        from dpcalc.training.queries import LinearQueries, Terms
        from dpcalc.training.query_report import read_table, result_of

        terms = Terms.of(
            norm_budget=self.norm_budget,
            rho=self.rho,
            mu=self.mu,
            epsilon=self.epsilon,
            delta=self.delta,
            sigma=self.sigma,
        )
        ids, names, values = read_table(self.table, limit=self.read_limit)
        if len(set(ids)) < len(ids):
            raise InputError("expected one line for each id", where=self.table)
        queries = LinearQueries(terms, state=self.state)
        columns = zip(names, values.T, strict=True)
        answers = [queries.answer(name, column, ids=ids, beta=self.beta) for name, column in columns]
        result = result_of(queries, answers, self.delta)
        if self.state is not None or result.guarantee is None:
            return result
        return replace(result, guarantee=result.guarantee.with_warnings(_FORGOTTEN))
