"""Answers to linear queries as a result: the table they come from, what they cost together, and how they are told."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpcalc.accounting.implied import implied
from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.files.reader import LIMIT, STANDARD_STREAM, check_size, opened, reading, text_lines
from dpcalc.filters.rule import theorem_of
from dpcalc.guarantee import Guarantee, Result, Section
from dpcalc.numbers import BLANKS, parse_number
from dpcalc.training.noise import SYSTEM
from dpcalc.training.queries import Answer, LinearQueries, Terms

_VALUE = 12  # bytes of memory that a value takes while it is read
_ASSUMPTIONS = (
    "one id is one person; a query's value for a person depends on that person's record and on earlier answers alone",
    "all queries about these people go through one state, and nothing but answers is released, no refusal either",
)
_SENSITIVE = "SENSITIVE: counted without noise"


def read_table(path: str, *, limit: int = LIMIT) -> tuple[list[str], list[str], Floats]:
    """Ids, names of queries, and a row of values for each person, of a .csv with a column `id` (`-`: a stream)."""
    name = "standard input" if path == STANDARD_STREAM else path
    size = Path(path).stat().st_size if path != STANDARD_STREAM and Path(path).is_file() else 0
    ids, values = list[str](), array("d")
    with reading(name), opened(path) as stream:
        rows = csv.reader(text_lines(stream, name))
        header = next(rows, [])
        if header.count("id") != 1 or len(header) < 2 or len(set(header)) != len(header) or "" in header:
            found = ",".join(header)[:80] or "nothing"
            words = f"expected a header with id and a name of its own for every query, found {found}"
            raise InputError(words, where=f"{name}:1")
        column = header.index("id")
        for row in filter(None, rows):
            where = f"{name}:{rows.line_num}"
            if len(row) != len(header):
                raise InputError(f"expected {len(header)} values, found {len(row)}", where=where)
            ids.append(row.pop(column))
            try:
                values.extend([parse_number(text.strip(BLANKS)) for text in row])
            except ValueError as error:
                raise InputError(str(error), where=where) from None
            check_size(_VALUE * len(values), max(limit, _VALUE * size), what="the table", where=name)
    if not ids:
        raise InputError("expected a line for each person, found none", where=name)
    header.pop(column)
    return ids, header, np.array(values).reshape(len(ids), len(header))


def guarantee(terms: Terms, delta: float) -> Guarantee:
    """What all answers together guarantee, however many there are: the budget of everybody.

    Nobody is known to spend all of it: there is more noise than σ, for its grid.
    """
    notion = terms.rule.notion
    assert notion is not None
    found = implied(notion, delta=delta).unattained()
    return replace(
        found,
        accountant="individual gdp filter",
        theorem=(theorem_of("gdp", scope="individual", mode="drop"), "Feldman, Zrnic 2021, Corollary 4.7"),
        assumptions=(*_ASSUMPTIONS, SYSTEM),
        epsilon_estimate=found.epsilon,
    )


def guarantee_of(details: Mapping[str, Any]) -> Guarantee:
    """The guarantee of the queries that `details.request` describes."""
    asked = dict(details["request"])
    delta = asked.pop("delta")
    if not all(math.isfinite(value) and value > 0 for value in asked.values()):
        raise InputError("expected numbers above 0 in details.request")
    return guarantee(Terms(**asked), delta)


def result_of(queries: LinearQueries, answers: Sequence[Answer], delta: float) -> Result:
    """The answers with their errors, and what they cost."""
    terms, beta = queries.terms, answers[0].beta
    sure = f"{100 * (1 - beta):.6g} %"
    rows = tuple((each.name, each.values[0], f"± {each.error:.4g}") for each in answers)
    people, out = len(queries.spent), queries.left_out
    facts = (
        ("noise", f"σ = {terms.sigma:.4g} on every answer; a person takes part while Σq² ≤ {terms.norm_budget:g}"),
        ("people", f"{people:,}, of whom {out:,} were left out of a query ({_SENSITIVE})"),
    )
    details = {
        "answers": [
            {"query": each.name, "answer": each.values[0], "error": each.error, "beta": each.beta} for each in answers
        ],
        "all_answers": {name: values[0] for name, values in queries.answers.items()},
        "sigma": terms.sigma,
        "norm_budget": terms.norm_budget,
        "individuals": people,
        "dropped_records": out,
        "request": {"norm_budget": terms.norm_budget, "sigma": terms.sigma, "delta": delta},
    }
    return Result(
        command="queries",
        guarantee=guarantee(terms, delta),
        details=details,
        preface=f"{len(answers)} {'query' if len(answers) == 1 else 'queries'} answered, ",
        qualifier=" for all queries together, however many",
        sections=(
            Section(
                title="",
                columns=("query", "answer", f"error, {sure} sure"),
                rows=rows,
                note="Errors are from the sum over those who took part; whoever has no budget left counts as 0.",
                leads=True,
            ),
            Section(title="", columns=("", ""), rows=facts),
        ),
        private=True,
    )
