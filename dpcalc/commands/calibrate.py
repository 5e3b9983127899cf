"""`dpcalc calibrate`: the one number of a spec that just keeps it within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from dpcalc.asked import Asked, number, parsed
from dpcalc.commands.common import (
    ADJACENCY,
    DEFAULT_TOLERANCE,
    DELTA,
    MECHANISMS,
    SPECS,
    TOLERANCE,
)
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Budget, Result
from dpcalc.numbers import PROBABILITY, parse_number
from dpcalc.report import DIGITS, SYMBOLS, rounded_down, rounded_up, upper_against, written

if TYPE_CHECKING:
    from dpcalc.spec.calibration import Calibrated
    from dpcalc.spec.targets import Target

_TARGETS = "What to stay within"


class RateAtRate(NamedTuple):
    """A true positive rate at a false positive rate."""

    true: float
    false: float

    @classmethod
    def parse(cls, text: str) -> RateAtRate:
        """`0.05@0.01`."""
        true, at, false = text.partition("@")
        if not at:
            raise ValueError(f"expected T@F such as 0.05@0.01, got {text!r}")
        found = cls(parse_number(true, PROBABILITY), parse_number(false, PROBABILITY))
        if found.true <= found.false:
            raise ValueError(f"expected T above F, since guessing reaches F, got {text}")
        return found


@dataclass(frozen=True, kw_only=True)
class Calibrate(Asked):
    """Solve a list of mechanisms for the one number that is the word solve, so that it stays within a budget.

    The budget is ε at δ, an attacker's success, μ or ρ, or budget: in the spec. The value is rounded to the safe side:
    moved by 0.1 % (or by 1, for whole numbers) the other way, it would exceed the budget.
    """

    example: ClassVar[str] = "dpcalc calibrate -m gaussian,noise_multiplier=solve,count=10 --epsilon 2 --delta 1e-5"

    spec: Annotated[tuple[Any, ...], SPECS] = ()
    mechanism: Annotated[tuple[str, ...], MECHANISMS] = ()
    epsilon: Annotated[float | None, number("--epsilon", help="ε, at --delta.", panel=_TARGETS)] = None
    delta: Annotated[float | None, DELTA] = None
    advantage: Annotated[
        float | None,
        number("--advantage", help="An attacker's TPR - FPR at best.", allowed=PROBABILITY, panel=_TARGETS),
    ] = None
    tpr: Annotated[
        RateAtRate | None,
        parsed(
            "--tpr",
            help="An attacker's TPR at an FPR.",
            metavar="T@F",
            parse=RateAtRate.parse,
            panel=_TARGETS,
            between="@",
        ),
    ] = None
    mu: Annotated[float | None, number("--mu", help="μ of μ-GDP.", panel=_TARGETS)] = None
    rho: Annotated[float | None, number("--rho", help="ρ of ρ-zCDP.", panel=_TARGETS)] = None
    adjacency: Annotated[Adjacency | None, ADJACENCY] = None
    tolerance: Annotated[float | None, TOLERANCE] = None

    def answer(self) -> Result:
        """The solution, and what it costs."""
        from dpcalc.spec.sources import read_documents
        from dpcalc.spec.specification import common_budget, common_delta

        documents = read_documents(self.spec, self.mechanism)
        budget = common_budget(documents, self.limits)
        delta = common_delta(documents) if self.delta is None else self.delta
        given = {"epsilon": self.epsilon, "advantage": self.advantage, "mu": self.mu, "rho": self.rho}
        targets = _targets(given, self.tpr, delta, common_budget(documents))
        from dpcalc.spec.calibration import calibrate_documents
        from dpcalc.spec.composition import Question

        tolerance = self.tolerance or DEFAULT_TOLERANCE
        question = Question(delta=delta, epsilon=0.0 if delta is None else None, tolerance=tolerance)
        solved = calibrate_documents(documents, question, targets, self.adjacency)
        certified = solved.guarantee.status == "certified"
        return Result(
            command="calibrate",
            guarantee=solved.guarantee,
            details={
                "solution": solved.value,
                "key": solved.key,
                "where": solved.where,
                "name": solved.entry,
                "targets": {target.quantity: target.limit for target in targets},
                "target_epsilon": self.epsilon,
                "too_much": {"value": solved.too_much, "epsilon": solved.too_much_epsilon},
                "tolerance": tolerance,
            },
            headline=_headline(solved, targets, certified),
            facts=_facts(solved, targets),
            budget=budget,
            goal="within" if certified else "unproved",
        )


def _targets(
    given: Mapping[str, float | None], tpr: RateAtRate | None, delta: float | None, stated: Budget
) -> list[Target]:
    """What the options ask for, and what the specs' budgets do; two limits on one quantity must agree."""
    from dpcalc.spec.targets import Target

    limits: dict[str, float] = {key: value for key, value in given.items() if value is not None}
    for quantity, limit in stated.limits().items():
        if quantity != "delta" and limits.setdefault(quantity, limit) != limit:
            raise InputError(
                f"asks for {written(limits[quantity])}, and the budget of the spec is {written(limit)}", where=quantity
            )
    if not limits and tpr is None:
        raise InputError(
            "which ε? Give `epsilon=E` with `delta=D`, `advantage=A`, `tpr=T@F`, `mu` or `rho`, or budget: in the spec"
        )
    if "epsilon" in limits and delta is None:
        raise InputError("at which δ? Give `delta=D`, or delta: in the spec")
    targets = [Target(key, limit, delta if key == "epsilon" else None) for key, limit in limits.items()]  # type: ignore[arg-type]
    return targets if tpr is None else [*targets, Target("tpr", tpr.true, tpr.false)]


def _headline(solved: Calibrated, targets: list[Target], certified: bool) -> str:
    shown = rounded_down(solved.value) if solved.rises else rounded_up(solved.value)
    if isinstance(solved.value, int):
        shown = f"{solved.value:,}"
    reached = ", ".join(_reached(solved, target, certified) for target in targets)
    return f"{solved.key} = {shown} for {solved.entry}: {reached}"


def _reached(solved: Calibrated, target: Target, certified: bool) -> str:
    kept = f"within {written(target.limit)}"
    kept = kept if certified else f"NOT SHOWN to be {kept} ({solved.guarantee.status}, not certified)"
    if target.quantity == "tpr":
        return f"TPR at FPR {written(target.at)} {kept}"
    if target.quantity == "advantage":
        return f"advantage {kept}"
    value = solved.guarantee.upper(target.quantity)
    at = f" at δ = {written(target.at)}" if target.quantity == "epsilon" else ""
    return f"{SYMBOLS[target.quantity]} = {upper_against(value, target.limit)}{at}, {kept}"


def _facts(solved: Calibrated, targets: list[Target]) -> tuple[tuple[str, str], ...]:
    """The next value and its ε, with as many digits as it takes to see that it is too much."""
    epsilon = solved.too_much_epsilon
    if epsilon is None:
        return ()
    value = f"{solved.too_much:,.0f}" if isinstance(solved.value, int) else f"{solved.too_much:.4g}"
    limit = next((target.limit for target in targets if target.quantity == "epsilon"), None)
    if limit is None:
        return (("tight", f"{value} would give ε = {rounded_up(epsilon)}"),)
    told = (rounded_down(epsilon, digits) for digits in range(DIGITS, 18))
    shown = next((text for text in told if epsilon <= limit or text == "∞" or float(text) > limit), rounded_up(epsilon))
    return (("tight", f"{value} would give {shown}"),)
