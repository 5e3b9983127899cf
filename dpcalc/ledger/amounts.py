"""What is spent and left of a budget, told in its own terms: rounded up and down, for people and not for decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Bools, Floats
from dpcalc.filters.mixture import Mixture
from dpcalc.ledger.measure import WIDER
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import Vector, add, as_typed, float_down, float_up, root_up, units_up
from dpcalc.rounding import up

# Up to here an ε is looked for that would cover what was spent or asked.
_MOST_EPSILON = 1e6


def level(terms: Terms, total: Vector) -> float:
    """The part of the budget that is spent, rounded up: 1/s if s times as much, and no more, would just fit."""
    if not any(total):
        return 0.0
    if terms.measure.kind != "rdp":
        return min(float_up(math.ceil(Fraction(total[0] << 100, max(terms.limit, 1)))), 1.0)
    most = 2.0
    while most < 1e15 and terms.fits(_scaled(total, most)):
        most *= 2
    return 1 / _last_passing(lambda factors: terms.fit_each([_scaled(total, f) for f in factors]), most / 2, most)


def spent(terms: Terms, total: Vector) -> dict[str, float]:
    """What the sums so far amount to, rounded up; the guarantee is the whole budget, whatever was spent of it."""
    kind = terms.measure.kind
    if kind == "zcdp":
        return {"rho": float_up(total[0])}
    if kind == "gdp":
        mu = root_up(total[0])
        if terms.mu is not None:
            return {"mu": mu}
        if terms.rho is not None:
            return {"rho": float_up(-(-total[0] // 2)), "mu": mu}
        assert terms.delta is not None
        return {
            "epsilon": float(conversions.gdp_epsilon(mu, terms.delta)) if mu else 0.0,
            "delta": terms.delta,
            "mu": mu,
        }
    return _renyi_spent(terms, total)


def _renyi_spent(terms: Terms, total: Vector) -> dict[str, float]:
    """The least ε at which this rule would have let it pass: by basic composition alone, or by the mixture."""
    assert terms.epsilon is not None
    *divergences, failure, loss = total
    if not any(total):
        return {"epsilon": 0.0, "delta": 0.0}
    basic, own, rule = float_up(loss), float_up(failure), terms.mixture
    totals = np.array([float_up(r) for r in divergences])

    def passes(epsilons: Floats) -> Bools:
        """The rule for ε is that for a larger one, with all sums larger by the difference."""
        more = float(epsilons.max()) - epsilons
        larger = Mixture(float(epsilons.max()), rule.delta, rule.orders, rule.weights)
        return larger.allows_each(totals[:, None] + more, basic + more)

    high = terms.epsilon
    while not passes(np.array([high]))[0]:
        high *= 2
        if high > _MOST_EPSILON:
            return {"epsilon": math.inf, "delta": 1.0}
    high = _last_passing(passes, high, 0.0)
    if basic <= high * (1 + 1e-3):  # hardly more, and at no cost in δ
        return {"epsilon": basic, "delta": own}
    return {"epsilon": high, "delta": min(1.0, up(rule.delta + own, 1))}


def remaining(terms: Terms, total: Vector) -> dict[str, float]:
    """What one more release may cost, rounded down: of a Gaussian for GDP, of ε-DP with a δ of its own for RDP."""
    kind = terms.measure.kind
    if kind == "rdp":
        return _renyi_remaining(terms, total)
    left = math.floor(max(terms.limit - total[0], 0) / WIDER)
    if kind == "zcdp":
        return {"rho": min(float_down(left), terms.rho or math.inf)}
    mu = float_down(math.isqrt(left << 100))
    if terms.mu is not None:
        return {"mu": min(mu, terms.mu)}
    if terms.rho is not None:
        return {"rho": min(float_down(left // 2), terms.rho), "mu": mu}
    assert terms.epsilon is not None
    assert terms.delta is not None
    epsilon = conversions.gdp_lower(mu, delta=terms.delta) if mu else 0.0
    return {"epsilon": min(epsilon, terms.epsilon), "delta": terms.delta, "mu": mu}


def _renyi_remaining(terms: Terms, total: Vector) -> dict[str, float]:
    assert terms.epsilon is not None
    assert terms.step_delta is not None
    orders = np.array(terms.orders)

    def fit(epsilons: Floats) -> Bools:
        costs = [conversions.pure_dp_rdp(float(epsilon), orders) for epsilon in epsilons]
        steps = [
            (*map(units_up, map(float, c)), 0, units_up(as_typed(e))) for c, e in zip(costs, epsilons, strict=True)
        ]
        return terms.fit_each([add(total, step) for step in steps])

    low = terms.epsilon if fit(np.array([terms.epsilon]))[0] else _last_passing(fit, 0.0, terms.epsilon)
    return {"epsilon": low, "delta": min(float_down(max(terms.most_failure - total[-2], 0)), terms.step_delta)}


def _scaled(total: Vector, factor: float) -> Vector:
    return tuple(math.ceil(value * Fraction(factor)) for value in total)


def _last_passing(passes: Callable[[Floats], Bools], good: float, bad: float) -> float:
    """A value that passes, as near to one that does not as five digits tell; in between it changes once."""
    for _ in range(4):
        grid = np.linspace(good, bad, 19)[1:-1]
        known = passes(grid)
        first = int(np.argmin(known)) if not known.all() else len(grid)
        good, bad = (float(grid[first - 1]) if first else good), (float(grid[first]) if first < len(grid) else bad)
    return good
