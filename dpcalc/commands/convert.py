"""`dpcalc convert`: one notion of privacy told in all the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from dpcalc.asked import Asked, number, option, parsed, whole
from dpcalc.commands.common import DELTAS
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Result
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY_OR_ZERO, RENYI_ORDER, parse_number
from dpcalc.risk import Risk

if TYPE_CHECKING:
    from dpcalc.mechanisms.declared import Declared

_SOURCE = "What is known (give one)"
_QUESTION = "What to compute"


class RenyiPoint(NamedTuple):
    """RDP at one order."""

    order: float
    epsilon: float

    @classmethod
    def parse(cls, text: str) -> RenyiPoint:
        order, comma, epsilon = text.partition(",")
        if not comma:
            raise ValueError(f"expected ALPHA,EPS such as 8,0.5, got {text!r}")
        return cls(parse_number(order, RENYI_ORDER), parse_number(epsilon, NON_NEGATIVE))


class EpsilonDelta(NamedTuple):
    """ε-DP, or (ε,δ)-DP."""

    epsilon: float
    delta: float = 0.0

    @classmethod
    def parse(cls, text: str) -> EpsilonDelta:
        epsilon, comma, delta = text.partition(",")
        at = parse_number(epsilon, NON_NEGATIVE)
        return cls(at, parse_number(delta, PROBABILITY_OR_ZERO)) if comma else cls(at)


@dataclass(frozen=True, kw_only=True)
class Convert(Asked):
    """Convert between (ε,δ), μ-GDP, RDP, zCDP and trade-off curves.

    Every notion is told in all the others that follow from it: exactly where that is known, by the best published
    bound otherwise. What does not follow is left out, with the reason.
    """

    example: ClassVar[str] = "dpcalc convert --gdp 1.2 --delta 1e-5"

    gdp: Annotated[float | None, number("--gdp", help="μ of μ-GDP.", panel=_SOURCE)] = None
    rdp: Annotated[
        tuple[RenyiPoint, ...],
        parsed(
            "--rdp",
            help="RDP at order α; repeat.",
            metavar="ALPHA,EPS",
            parse=RenyiPoint.parse,
            panel=_SOURCE,
            repeated=True,
        ),
    ] = ()
    zcdp: Annotated[float | None, number("--zcdp", help="ρ of ρ-zCDP.", panel=_SOURCE)] = None
    dp: Annotated[
        EpsilonDelta | None,
        parsed("--dp", help="ε-DP or (ε,δ)-DP.", metavar="EPS[,DELTA]", parse=EpsilonDelta.parse, panel=_SOURCE),
    ] = None
    delta: Annotated[tuple[float, ...], DELTAS] = ()
    epsilon: Annotated[
        float | None, number("--epsilon", help="ε at which to give δ.", allowed=NON_NEGATIVE, panel=_QUESTION)
    ] = None
    order: Annotated[
        tuple[float, ...],
        number(
            "--order",
            help="One more Rényi order to report; repeatable.",
            allowed=RENYI_ORDER,
            panel=_QUESTION,
            repeated=True,
        ),
    ] = ()
    group: Annotated[int, whole("--group", help="Protect groups of K records, not single ones.", panel=_QUESTION)] = 1
    adjacency: Annotated[
        Adjacency, option("--adjacency", help="Under which the statement was made; conversions keep it.")
    ] = "add-remove"

    def answer(self) -> Result:
        """The guarantee in every notion, with the risk that it leaves."""
        from dpcalc.accounting.implied import convert
        from dpcalc.conversions.attack import bayes_accuracy

        notion = self._notion()
        guarantee, tradeoff = convert(
            notion,
            delta=self.delta[0] if self.delta else self._own_delta(),
            epsilon=self.epsilon,
            orders=self.order,
            group=self.group,
        )
        grouped = notion.group(self.group) if self.group > 1 else notion
        risk = Risk(
            advantage=tradeoff["advantage"],
            tpr_at_fpr=tradeoff["tpr_at_fpr"],
            prior=self.prior,
            bayes_accuracy=bayes_accuracy(grouped.delta_at, self.prior),
        )
        deltas = sorted(set(self.delta), reverse=True)
        return Result(
            command="convert",
            guarantee=replace(guarantee, risk=risk),
            details=tradeoff,
            curve=tuple(_curve(grouped, deltas)) if len(self.delta) > 1 else (),
        )

    def _own_delta(self) -> float | None:
        """The δ of what is known, where nothing else is asked; that of a group is another."""
        return None if self.dp is None or self.epsilon is not None or self.group > 1 else self.dp.delta

    def _notion(self) -> Declared:
        from dpcalc.mechanisms import declared

        given = {"`gdp`": self.gdp, "`rdp`": self.rdp or None, "`zcdp`": self.zcdp, "`dp`": self.dp}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            found = " and ".join(names) or "none of them"
            raise InputError(f"expected exactly one of `gdp`, `rdp`, `zcdp` and `dp`, got {found}")
        if self.delta and self.epsilon is not None:
            raise InputError("expected `delta` (to get ε) or `epsilon` (to get δ), got both")
        if self.gdp is not None:
            return declared.DeclaredGDP(mu=self.gdp, adjacency=self.adjacency)
        if self.zcdp is not None:
            return declared.DeclaredZCDP(rho=self.zcdp, adjacency=self.adjacency)
        if self.dp is not None:
            return declared.DeclaredDP(epsilon=self.dp.epsilon, delta=self.dp.delta, adjacency=self.adjacency)
        points = sorted(self.rdp)
        orders = [point.order for point in points]
        if len(set(orders)) < len(orders):
            raise InputError(f"expected each order once, got {', '.join(f'{a:g}' for a in orders)}", where="rdp")
        epsilons = tuple(point.epsilon for point in points)
        return declared.DeclaredRDP(orders=tuple(orders), epsilons=epsilons, adjacency=self.adjacency)


def _curve(notion: Declared, deltas: list[float]) -> Iterator[tuple[float, float]]:
    from dpcalc.accounting.implied import convert

    for delta in deltas:
        epsilon = convert(notion, delta=delta)[0].epsilon
        if epsilon is not None:
            yield epsilon, delta
