"""What `exp-mech` is asked, in the words of its command line, checked and answered."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from dpcalc.asked import check, number, option, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.numbers import PROBABILITY

if TYPE_CHECKING:
    from dpcalc.last_iterate.exponential_mechanism import Langevin
    from dpcalc.last_iterate.sampling import Comparison

_TARGET = "Sampling from exp(-F)"
_CHAIN = "By Langevin Monte Carlo (otherwise: exactly)"
_FINITE = "Choosing from a finite set"


@dataclass(frozen=True, kw_only=True)
class SamplingRequest:
    """A choice from a finite set (`epsilon_mech`), or a sample from e^{-F}, exactly or by a chain of step size `lr`."""

    lipschitz: Annotated[
        float | None,
        number(
            "--lipschitz",
            help="L. With --strong-convexity: of F - F′ for neighbours. With --diameter: of each F. With both: of all.",
            panel=_TARGET,
        ),
    ] = None
    strong_convexity: Annotated[
        float | None, number("--strong-convexity", help="m: every F is m-strongly convex.", panel=_TARGET)
    ] = None
    diameter: Annotated[
        float | None, number("--diameter", help="D: diameter of the convex domain; every F is convex.", panel=_TARGET)
    ] = None
    lr: Annotated[float | None, number("--lr", help="Step size η of the chain.", panel=_CHAIN)] = None
    smoothness: Annotated[float | None, number("--smoothness", help="M: every F is M-smooth.", panel=_CHAIN)] = None
    steps: Annotated[
        int | None, whole("--steps", help="Steps t of the chain; without it, its stationary law.", panel=_CHAIN)
    ] = None
    epsilon_mech: Annotated[
        float | None, number("--epsilon-mech", help="ε of the classical exponential mechanism.", panel=_FINITE)
    ] = None
    count: Annotated[int, whole("--count", help="How many choices are made.", panel=_FINITE)] = 1
    delta: Annotated[
        float, number("--delta", help="δ at which to give ε, strictly between 0 and 1.", allowed=PROBABILITY)
    ]
    adjacency: Annotated[Adjacency, option("--adjacency", help="The neighbours that L or ε is stated for.")] = (
        "replace-one"
    )

    def __post_init__(self) -> None:
        check(self)

    def stored(self) -> dict[str, Any]:
        """The request as plain data, from which its result can be worked out again."""
        given = {each.name: getattr(self, each.name) for each in fields(SamplingRequest)}
        return {name: value for name, value in given.items() if value is not None}

    def comparison(self) -> Comparison:
        """Every bound, and the best of them."""
        from dpcalc.last_iterate.sampling import continuous, finite

        if self.epsilon_mech is not None:
            names = ("lipschitz", "strong_convexity", "diameter", "lr", "smoothness", "steps")
            extra = [f"`{name}`" for name in names if getattr(self, name) is not None]
            if extra:
                raise InputError(f"`epsilon_mech` describes the mechanism completely, got {', '.join(extra)} too")
            return finite(epsilon=self.epsilon_mech, count=self.count, delta=self.delta, adjacency=self.adjacency)
        if self.lipschitz is None or (self.strong_convexity is None and self.diameter is None):
            raise InputError(
                "expected `lipschitz=L` with `strong_convexity=m`, `diameter=D` or both, or `epsilon_mech=E`"
            )
        if self.count != 1:
            raise InputError(f"`count` belongs to `epsilon_mech`, got `count={self.count}`")
        return continuous(
            lipschitz=self.lipschitz,
            strong_convexity=self.strong_convexity,
            diameter=self.diameter,
            chain=self._chain(),
            delta=self.delta,
            adjacency=self.adjacency,
        )

    def _chain(self) -> Langevin | None:
        if self.lr is None and self.smoothness is None and self.steps is None:
            return None
        if self.lr is None or self.smoothness is None:
            missing = "`lr=η`" if self.lr is None else "`smoothness=M`"
            raise InputError(
                f"a Langevin chain needs `lr=η` and `smoothness=M` (η < 2/M is checked), {missing} is missing"
            )
        from dpcalc.last_iterate.exponential_mechanism import Langevin

        return Langevin(learning_rate=self.lr, smoothness=self.smoothness, steps=self.steps)
