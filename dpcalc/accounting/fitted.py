"""What a composition is in terms of Gaussian privacy: μ-GDP up to a slack, and the regret of saying so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpcalc.accounting.certified.law import Direction
from dpcalc.accounting.closed_forms import composed_mu, is_exactly_gaussian
from dpcalc.accounting.compose import Accountant, Parts, factored, group
from dpcalc.accounting.engines import by_laws, directions_of
from dpcalc.accounting.question import TOLERANCE, Answer, Question
from dpcalc.conversions.fitted import fitted_mu, regret
from dpcalc.conversions.gaussian import gdp_delta, gdp_lower
from dpcalc.errors import CertificationError, InputError

_WITHOUT_A_LAW = ("rdp", "clt")
_OF_MU = 0.1  # of the tolerance: what δ that is off by the tolerance often moves μ by


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One direction: its least μ and where that binds, and how far the common μ is above its curve at most."""

    mu: float
    epsilon: float
    regret: float | None


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """δ(ε) ≤ δ_μ(ε) + slack at every ε ≥ 0, in both directions: a guarantee, of which slacks add under composition.

    `epsilon` is where it binds. `regret` bounds sup (δ_μ(ε) + slack − δ(ε))/(1 + e^ε), by how much the best guess of an
    attacker is overstated at most, over all priors (Kaissis et al. 2024); None where no lower bound is known.
    """

    mu: float
    slack: float
    regret: float | None = None
    epsilon: float | None = None
    directions: Mapping[str, Fit] = field(default_factory=dict)


def fitted(parts: Parts, slack: float, *, accountant: Accountant = "auto", tolerance: float = TOLERANCE) -> Fitted:
    """The least μ that can be vouched for at a slack; a μ that needs none, with slack 0, where that is no larger."""
    if accountant in _WITHOUT_A_LAW:
        raise InputError(f"needs the loss distributions, which `accountant={accountant}` has not", where="slack")
    parts = factored(group(parts))
    known = composed_mu(parts)
    if known is not None and is_exactly_gaussian(parts):
        over = float(gdp_delta(known, 0.0)) - gdp_lower(known, epsilon=0.0)  # at most this, and it falls with ε
        return Fitted(mu=known, slack=0.0, regret=over / 2)
    if known is not None and accountant == "gdp":
        return Fitted(mu=known, slack=0.0)
    try:
        return _by_laws(parts, slack, tolerance, math.inf if known is None else known)
    except (ArithmeticError, ValueError, CertificationError):
        return Fitted(mu=math.inf, slack=slack) if known is None else Fitted(mu=known, slack=0.0)


def _by_laws(parts: Parts, slack: float, tolerance: float, known: float) -> Fitted:
    """Each direction's own μ, the larger of them or the one that is known without slack, and its regret."""
    sides = {direction: _Side(parts, direction, tolerance) for direction in directions_of(parts)}
    beyond = {direction: side.epsilon(slack) for direction, side in sides.items()}
    close = _OF_MU * tolerance
    own = {each: fitted_mu(side.upper, slack, beyond[each], close=close) for each, side in sides.items()}
    mu, epsilon = max(own.values())
    if known <= mu and known < math.inf:
        mu, slack, epsilon = known, 0.0, math.inf
    regrets = {
        direction: regret(side.bounds, mu, slack, beyond[direction])[0] if mu < math.inf and side.is_attained else None
        for direction, side in sides.items()
    }
    told = [each for each in regrets.values() if each is not None]
    return Fitted(
        mu=mu,
        slack=slack,
        regret=max(told) if len(told) == len(sides) else None,
        epsilon=epsilon if epsilon < math.inf else None,
        directions={
            direction if len(sides) > 1 else "both": Fit(mu=least, epsilon=binding, regret=regrets[direction])
            for direction, (least, binding) in own.items()
        },
    )


class _Side:
    """One direction of a composition: certified bounds on its δ at every ε, each worked out once."""

    def __init__(self, parts: Parts, direction: Direction, tolerance: float) -> None:
        self.parts, self.direction, self.tolerance = parts, direction, tolerance
        self.known: dict[float, Answer] = {}

    def epsilon(self, delta: float) -> float:
        """An ε from which on δ is no larger than this."""
        return by_laws(self.parts, Question(delta, None, self.tolerance), self.direction).upper

    def answer(self, epsilon: float) -> Answer:
        if epsilon not in self.known:
            self.known[epsilon] = by_laws(self.parts, Question(None, epsilon, self.tolerance), self.direction)
        return self.known[epsilon]

    def upper(self, epsilon: float) -> float:
        return self.answer(epsilon).upper

    def bounds(self, epsilon: float) -> tuple[float, float]:
        return self.answer(epsilon).lower or 0.0, self.answer(epsilon).upper

    @property
    def is_attained(self) -> bool:
        """Whether anything is known from below."""
        return self.bounds(0.0)[0] > 0
