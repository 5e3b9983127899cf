"""What `exp-mech` is asked, in the words of its command line, checked and answered."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.last_iterate.exponential_mechanism import Langevin
from dpcalc.last_iterate.sampling import Comparison, continuous, finite
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive, expect_probability, expect_whole


@dataclass(frozen=True, kw_only=True)
class SamplingRequest:
    """A choice from a finite set (`epsilon_mech`), or a sample from e^{-F}, exactly or by a chain of step size `lr`."""

    delta: float
    adjacency: Adjacency
    lipschitz: float | None = None
    strong_convexity: float | None = None
    diameter: float | None = None
    lr: float | None = None
    smoothness: float | None = None
    steps: int | None = None
    epsilon_mech: float | None = None
    count: int = 1

    def __post_init__(self) -> None:
        expect_probability("delta", self.delta)
        expect_positive("delta", self.delta)
        expect_adjacency(self.adjacency)
        for name in ("lipschitz", "strong_convexity", "diameter", "lr", "smoothness", "epsilon_mech"):
            value = getattr(self, name)
            if value is not None:
                expect_positive(name, value)
        for name in ("steps", "count"):
            value = getattr(self, name)
            if value is not None:
                expect_whole(name, value)

    def stored(self) -> dict[str, Any]:
        """The request as plain data, from which its result can be worked out again."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in given.items() if value is not None}

    def answer(self) -> Comparison:
        """Every bound, and the best of them."""
        if self.epsilon_mech is not None:
            names = ("lipschitz", "strong_convexity", "diameter", "lr", "smoothness", "steps")
            extra = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]
            if extra:
                raise InputError(f"--epsilon-mech describes the mechanism completely, got {', '.join(extra)} too")
            return finite(epsilon=self.epsilon_mech, count=self.count, delta=self.delta, adjacency=self.adjacency)
        if self.lipschitz is None or (self.strong_convexity is None and self.diameter is None):
            raise InputError(
                "expected --lipschitz L with --strong-convexity m, --diameter D or both, or --epsilon-mech E"
            )
        if self.count != 1:
            raise InputError(f"--count belongs to --epsilon-mech, got --count {self.count}")
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
            missing = "--lr η" if self.lr is None else "--smoothness M"
            raise InputError(
                f"a Langevin chain needs --lr η and --smoothness M (η < 2/M is checked), {missing} is missing"
            )
        return Langevin(learning_rate=self.lr, smoothness=self.smoothness, steps=self.steps)
