"""Private gradient descent with an individual filter: records stay in while their own budget lasts.

    python examples/filter_online.py

Fits a line to 2,000 points. Everybody may spend μ = 1. Points that fit well have small gradients and last long after
the worst-case number of steps; the log can be audited with `dpcalc filter`.
"""

from __future__ import annotations

import numpy as np

from dpcalc.conversions import gdp_epsilon
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.rules import gdp_rule

PEOPLE, CLIP, SIGMA, BUDGET, RATE = 2000, 1.0, 12.0, 1.0, 0.5


def main() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(-1, 1, PEOPLE), np.ones(PEOPLE)])
    y = x @ [1.5, -0.5] + rng.laplace(0, 0.15, PEOPLE)
    flow = IndividualFilter(gdp_rule(sigma=SIGMA, clip=CLIP, mu=BUDGET), individuals=PEOPLE)
    weights = np.zeros(2)
    for step in range(1, 401):
        gradients = (x @ weights - y)[:, None] * x
        norms = np.minimum(np.linalg.norm(gradients, axis=1), CLIP)
        gradients *= (norms / np.maximum(np.linalg.norm(gradients, axis=1), 1e-12))[:, None]
        active = flow.step(norms)
        total = gradients[active].sum(axis=0) + rng.normal(0, SIGMA, 2)
        weights -= RATE * total / PEOPLE
        if step in (1, 144, 200, 400):
            print(f"step {step}: {active.sum()} of {PEOPLE} take part, weights {weights.round(3)}")
    print(f"without the filter the budget would be gone after {int((BUDGET * SIGMA / CLIP) ** 2)} steps")
    print(f"the run is {BUDGET:g}-GDP, ε = {gdp_epsilon(BUDGET, 1e-5):.3f} at δ = 1e-5")


if __name__ == "__main__":
    main()
