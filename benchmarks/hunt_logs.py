"""Hunts for false claims of `filter`: random logs, folded or composed a second time by code of its own.

*filter*: norms folded one record at a time in rationals. *columns*: what the filter for (ε_t,δ_t)-DP steps lets run,
enumerated as the worst pairs there are. *sampled*: norms under Poisson sampling; each person's ε, and what the RDP
filter lets run, by a contour integral.
"""

from __future__ import annotations

import csv
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
from hunt import Atoms, Check, gaussian_delta, log_uniform, number, product, two_points


def filter_question(draw: random.Random, folder: Path) -> Check | None:
    """Norms without sampling, folded one record at a time in rationals."""
    people, steps = draw.randint(1, 30), draw.randint(1, 40)
    sigma, budget = draw.choice([1, 2, 4, 10]), Fraction(draw.randint(1, 30), 10)
    sizes, parts = draw.choice([([0, 1, 2, 3, 5, 8], [1, 2, 4, 8]), ([0, 1, 3, 2**30], [1, 8, 2**30, 2**60])])
    norms = [[Fraction(draw.choice(sizes), draw.choice(parts)) for _ in range(people)] for _ in range(steps)]
    path = folder / "log.csv"
    lines = [f"{t},p{i},{float(norm)!r}" for t, row in enumerate(norms) for i, norm in enumerate(row)]
    path.write_text("\n".join(["step,id,norm", *lines]) + "\n")
    arguments = ["filter", str(path), "--filter", "gdp", "--sigma", str(sigma), "--mu", str(float(budget))]
    arguments += ["--delta", "1e-5"]

    def check(result: dict[str, Any]) -> str | None:
        limit = Fraction(number(result["mu"])) ** 2  # equality counts up to rounding, which the μ that is told covers
        if limit > budget**2 * (1 + Fraction(1, 10**9)):
            return f"μ = {result['mu']!r} is beyond the budget {float(budget)}"
        spent, active = [Fraction(0)] * people, []
        for row in norms:
            fits = [spent[i] + (norm / sigma) ** 2 <= limit for i, norm in enumerate(row)]
            spent = [total + (norm / sigma) ** 2 * fit for total, norm, fit in zip(spent, row, fits, strict=True)]
            active.append(sum(fits))
        if result["details"]["active_per_step"] != active:
            return f"active {result['details']['active_per_step']}, not {active}"
        most, told = math.sqrt(max(spent)), result["details"]["spent"][-1]
        return None if abs(told - most) <= 1e-12 * max(most, 1) else f"most spent {told!r}, not {most!r}"

    return arguments, check


def columns_question(draw: random.Random, folder: Path) -> Check | None:
    """Steps with an ε and a δ of their own: those that run must be within the budget as a plain composition too."""
    size, epsilon, delta = (
        log_uniform(draw, 0.05, 1),
        round(log_uniform(draw, 0.3, 5), 4),
        log_uniform(draw, 1e-8, 0.02),
    )
    kinds = [(round(size * draw.uniform(0.3, 2), 4), float(f"{delta * draw.choice([0, 0.01, 0.1, 0.3]):.6g}"))]
    kinds.append((round(size * draw.uniform(0.3, 2), 4), float(f"{delta * draw.uniform(0, 0.2):.6g}")))
    steps = [draw.choice(kinds) for _ in range(draw.randint(2, 14))]
    path = folder / "steps.csv"
    path.write_text("\n".join(["step,epsilon,delta", *(f"{t},{e!r},{d!r}" for t, (e, d) in enumerate(steps))]) + "\n")
    arguments = ["filter", str(path), "--filter", "dp", "--scope", "global", "--epsilon", repr(epsilon)]
    arguments += ["--delta", repr(delta), "--steps-delta", repr(delta * draw.choice([0.2, 0.5, 0.8]))]

    def check(result: dict[str, Any]) -> str | None:
        run: Atoms = {mpmath.mpf(0): (mpmath.mpf(1), mpmath.mpf(1))}
        for ran, (e, d) in zip(result["details"]["active_per_step"], steps, strict=True):
            run = product(run, two_points(mpmath.mpf(e), mpmath.mpf(d))) if ran else run
        lost = sum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in run.values())
        if number(result["epsilon"]) > epsilon or lost > delta:
            return f"δ({epsilon}) of what ran is {float(lost)!r}, more than {delta!r}"
        return None

    return arguments, check


def sampled_question(draw: random.Random, folder: Path) -> Check | None:
    """A few people with two norms each; δ at their ε, and at the budget, by another road."""
    sigma, rate = round(log_uniform(draw, 0.7, 6), 3), round(log_uniform(draw, 1e-3, 0.3), 5)
    delta, steps, people = log_uniform(draw, 1e-10, 1e-3), draw.randint(40, 600), 3
    norms = [[round(draw.uniform(0.05, 1), 3) for _ in range(2)] for _ in range(people)]
    drawn = [[draw.choice(norms[i]) for i in range(people)] for _ in range(steps)]
    path, table = folder / "sampled.csv", folder / "losses.csv"
    rows = [f"{t},p{i},{norm!r}" for t, row in enumerate(drawn) for i, norm in enumerate(row)]
    path.write_text("\n".join(["step,id,norm", *rows]) + "\n")
    budget = round(log_uniform(draw, 0.05, 8), 4)
    arguments = ["filter", str(path), "--filter", "rdp", "--noise-multiplier", str(sigma), "--clip", "1"]
    arguments += ["--sample-rate", str(rate), "--epsilon", str(budget), "--delta", repr(delta)]
    arguments += ["--per-individual", str(table)]

    def check(result: dict[str, Any]) -> str | None:
        if number(result["epsilon"]) > budget:
            return f"ε = {result['epsilon']!r} is beyond the budget {budget}"
        with table.open() as stream:
            told = {row["id"]: row for row in csv.DictReader(line for line in stream if not line.startswith("#"))}
        for i in range(people):
            mine = told[f"p{i}"]
            if int(mine["steps_active"]) != steps:
                continue  # which steps it missed is not told
            parts = [(sigma / norm, rate, count) for norm, count in Counter(row[i] for row in drawn).items()]
            for epsilon in (float(mine["epsilon"]), budget):
                found = [gaussian_delta(parts, epsilon, remove) for remove in (True, False)] if epsilon > 1e-3 else []
                if any(each > delta * (1 + 1e-6) for each in found if not math.isnan(each)):
                    return f"p{i}: δ({epsilon}) is {found}, more than {delta!r}"
        return None

    return arguments, check


QUESTIONS: dict[str, Callable[[random.Random, Path], Check | None]] = {
    "filter": filter_question,
    "columns": columns_question,
    "sampled": sampled_question,
}
