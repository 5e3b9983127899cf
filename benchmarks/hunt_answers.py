"""Hunts for false answers of the other commands, and for adversaries that beat a filter.

*turned*: a sampled record that is replaced by any other on its line, several steps, by products on a grid of losses.
*allocated*: one epoch of two steps under random allocation, by integration over the plane. *converted*: GDP, zCDP and
(ε,δ) at an ε or a δ, groups too. *calibrated*: the value found, put back into closed forms and enumeration.
*adversary*: the best adaptive choice among randomised responses that a filter admits, by dynamic programming. *read*:
results with one value edited, composed again.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from hunt import Check, asked, epsilon_of, judged, log_uniform, mixed, number, product, solved, swapped, two_points

Steps = tuple[int, int]


def _profile(losses: Any, masses: Any, count: int, epsilon: float) -> float:
    """δ(ε) of `count` copies, from losses on the nearest points of a grid: no bound, and nan where it is too coarse."""
    cells = 1 << 17
    width = float(losses.max() - losses.min()) / cells
    if not 0 < width * math.sqrt(count) < 0.02 * epsilon:
        return math.nan
    place = np.rint((losses - losses.min()) / width).astype(int)
    size = 1 << math.ceil(math.log2((cells + 2) * count))
    spread = np.fft.irfft(np.fft.rfft(np.bincount(place, masses, minlength=size)) ** count, size)
    totals = width * np.arange(size) + count * losses.min()
    return float(np.maximum(-np.expm1(np.minimum(epsilon - totals, 0.0)), 0) @ np.maximum(spread, 0))


def turned_question(draw: random.Random) -> Check | None:
    """(1−q)N(0,1) + qN(a,1) against (1−q)N(0,1) + qN(b,1) for any |a|, |b| ≤ 1/σ."""
    sigma, rate = round(log_uniform(draw, 0.5, 6), 3), round(log_uniform(draw, 1e-3, 0.9), 4)
    count, delta = draw.choice([1, 2, 5, 20]), log_uniform(draw, 1e-6, 0.1)
    a, b = draw.uniform(0, 1) / sigma, draw.choice([-1.0, draw.uniform(-1, 1)]) / sigma
    text = f"gaussian,noise_multiplier={sigma},sampling=poisson,rate={rate},count={count}"

    def check(result: dict[str, Any]) -> str | None:
        x = np.linspace(-9 - 1 / sigma, 9 + 1 / sigma, 40_001)
        density = [np.exp(-(x**2) / 2) * (1 - rate + rate * np.exp(m * x - m * m / 2)) for m in (a, b)]
        p, q = (each * (x[1] - x[0]) / math.sqrt(2 * math.pi) for each in density)
        found = _profile(np.log(p / q), p / p.sum(), count, number(result["epsilon"]))
        if found > delta * (1 + 5e-3):
            return f"δ({result['epsilon']!r}) of {a * sigma!r} turned into {b * sigma!r} is {found!r}, not {delta!r}"
        return None

    return ["compose", "--adjacency", "replace-one", "-m", text, "--delta", repr(delta)], check


def allocated_question(draw: random.Random) -> Check | None:
    """The record is in one of two steps: P = (N(e₁) + N(e₂))/2 against N(0), on a grid of the plane."""
    sigma, delta = round(log_uniform(draw, 0.4, 4), 3), log_uniform(draw, 1e-6, 0.1)
    text = f"gaussian,noise_multiplier={sigma},sampling=random-allocation,steps=2"

    def check(result: dict[str, Any]) -> str | None:
        mu = 1 / sigma
        x = np.linspace(-8, 8 + mu, 1601)
        ratio = np.exp(mu * x - mu * mu / 2)
        base = np.exp(-(x**2) / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        q, p_over_q = np.outer(base, base), (ratio[:, None] + ratio[None, :]) / 2

        def at(epsilon: float) -> float:
            t = math.exp(epsilon)
            return float(max((np.maximum(p_over_q - t, 0) * q).sum(), (np.maximum(1 - t * p_over_q, 0) * q).sum()))

        upper, lower = at(number(result["epsilon"])), at(number(result["epsilon_lower"] or 0))
        if upper > delta * (1 + 1e-3):
            return f"δ at the upper bound {result['epsilon']!r} is {upper!r}, more than {delta!r}"
        if number(result["epsilon_lower"] or 0) > 0 and lower < delta * (1 - 1e-3):
            return f"δ at the lower bound {result['epsilon_lower']!r} is {lower!r}, less than {delta!r}"
        return None

    return ["compose", "-m", text, "--delta", repr(delta)], check


def _gaussian_delta(mu: Any, epsilon: Any) -> Any:
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def converted_question(draw: random.Random) -> Check | None:
    """μ-GDP of groups exactly; ρ-zCDP not below its Gaussian, √(2ρ)-GDP."""
    size, group = float(f"{log_uniform(draw, 1e-3, 20):.6g}"), draw.choice([1, 1, 2, 5])
    kind = draw.choice(["gdp", "zcdp"])
    mu = group * (mpmath.mpf(str(size)) if kind == "gdp" else mpmath.sqrt(2 * mpmath.mpf(str(size))))
    delta = log_uniform(draw, 1e-30, 0.3)
    arguments = ["convert", f"--{kind}", repr(size), *(["--group", str(group)] if group > 1 else [])]
    if draw.random() < 0.3:
        epsilon = float(f"{log_uniform(draw, 1e-3, 5) * float(mu):.6g}")
        truth = _gaussian_delta(mu, mpmath.mpf(str(epsilon)))

        def check_delta(result: dict[str, Any]) -> str | None:
            lower = result.get("delta_lower") if kind == "gdp" else None
            told = mpmath.mpf(number(result["delta"]))
            fine = told >= truth * (1 - mpmath.mpf("1e-13")) and (lower is None or lower <= truth * (1 + 1e-13))
            return None if fine else f"δ = {told}, at least {lower}, where it is {truth}"

        return [*arguments, "--epsilon", repr(epsilon)], check_delta
    truth = solved(lambda epsilon: _gaussian_delta(mu, epsilon), delta)

    def check(result: dict[str, Any]) -> str | None:
        if kind == "gdp":
            return judged(result, truth, 1e-13)
        return None if number(result["epsilon"]) >= truth * (1 - 1e-12) else f"{result['epsilon']!r} is below {truth!r}"

    return [*arguments, "--delta", repr(delta)], check


def calibrated_question(draw: random.Random) -> Check | None:
    """Gaussian noise by δ_μ, sampled randomised responses by enumeration: within ε, and no more so after a nudge."""
    epsilon, delta = round(log_uniform(draw, 0.05, 6), 4), log_uniform(draw, 1e-9, 1e-2)
    count = draw.randint(1, 6)
    goal = ["--epsilon", repr(epsilon), "--delta", repr(delta)]
    if draw.random() < 0.5:
        arguments = ["calibrate", "-m", f"gaussian,noise_multiplier=solve,count={count}", *goal]

        def truth(value: Any) -> Any:
            return _gaussian_delta(mpmath.sqrt(count) / value, mpmath.mpf(repr(epsilon))) - delta

        down = -1
    else:
        rate = round(log_uniform(draw, 0.01, 0.9), 4)
        text = f"randomized-response,epsilon=solve,sampling=poisson,rate={rate},count={count}"
        arguments = ["calibrate", "-m", text, *goal]

        def truth(value: Any) -> Any:
            pair = mixed(two_points(value, 0), mpmath.mpf(str(rate)))
            runs = [pair, swapped(pair)]
            for _ in range(count - 1):
                runs = [product(run, each) for run, each in zip(runs, (pair, swapped(pair)), strict=True)]
            return max(epsilon_of(run, mpmath.mpf(delta)) for run in runs) - mpmath.mpf(repr(epsilon))

        down = 1

    def check(result: dict[str, Any]) -> str | None:
        value = mpmath.mpf(number(result["details"]["solution"]))
        if truth(value) > mpmath.mpf("1e-18"):
            return f"{float(value)!r} is beyond the budget by {float(truth(value))!r}"
        beyond = truth(value * (1 + down * mpmath.mpf("0.0011")))
        return None if beyond > 0 else f"0.11 % from {float(value)!r} is within the budget too"

    return arguments, check


def adversary_question(draw: random.Random) -> Check | None:
    """Whoever chooses each step from the losses so far, and stops when it likes, loses at most δ at ε."""
    from dpcalc import GlobalFilter, dp_rule

    sizes = sorted(round(log_uniform(draw, 0.1, 1.2), 3) for _ in range(2))
    epsilon, delta = round(log_uniform(draw, 0.5, 4), 3), log_uniform(draw, 1e-5, 0.05)
    rule = dp_rule(epsilon=epsilon, delta=delta)

    @cache
    def admitted(taken: Steps) -> bool:
        judge = GlobalFilter(rule)
        return sum(taken) <= 14 and all(
            judge.step(size) for size, times in zip(sizes, taken, strict=True) for _ in range(times)
        )

    @cache
    def worst(taken: Steps, ups: Steps) -> float:
        """The largest mean of (1 − e^{ε−L})₊ from here on; `ups` of the steps `taken` lost their ε, the others −ε."""
        loss = sum(size * (2 * up - n) for size, n, up in zip(sizes, taken, ups, strict=True))
        found = max(0.0, -math.expm1(epsilon - loss))
        for kind in (0, 1):
            after: Steps = (taken[0] + (kind == 0), taken[1] + (kind == 1))
            if admitted(after):
                likely = 1 / (1 + math.exp(-sizes[kind]))
                up: Steps = (ups[0] + (kind == 0), ups[1] + (kind == 1))
                found = max(found, likely * worst(after, up) + (1 - likely) * worst(after, ups))
        return found

    def check(_: dict[str, Any]) -> str | None:
        found = worst((0, 0), (0, 0))
        return (
            None
            if found <= delta * (1 + 1e-9)
            else f"steps {sizes}: an adversary has δ({epsilon}) = {found!r} > {delta!r}"
        )

    return ["convert", "--dp", f"{epsilon},{delta!r}", "--delta", repr(delta)], check


_COMMANDS = (
    "compose -m gaussian,noise_multiplier={a},sampling=poisson,rate=0.02,count=40 -m dp,epsilon=0.3,delta=1e-7 "
    "--delta 1e-5",
    "compose -m laplace,scale={a},count=2 -m zcdp,rho=0.02 --delta 1e-6 --adjacency replace-one",
    "convert --gdp {a} --delta 1e-6",
    "convert --rdp 8,{a} --rdp 2,{a} --delta 1e-6",
    "exp-mech --lipschitz {a} --strong-convexity 2 --delta 1e-6",
    "sgd-bound --algorithm gd --lr 0.5 --sigma {a} --sensitivity 1 --n 5 --steps 12 --smoothness 1 "
    "--strong-convexity 0.1 --delta 1e-5",
    "calibrate -m gaussian,noise_multiplier=solve,count=3 --epsilon {a} --delta 1e-5",
    "filter {folder}/read.csv --filter gdp --sigma 4 --mu {a} --delta 1e-5",
)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers and words of a result are."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    elif value is not None:
        yield path


def read_question(draw: random.Random, folder: Path) -> Check | None:
    """A result that was made better than it is must be refused, or come to no less than it did."""
    (folder / "read.csv").write_text("step,id,norm\n1,a,1\n1,b,2\n2,a,1.5\n2,b,0.5\n")
    command = draw.choice(_COMMANDS).format(a=round(log_uniform(draw, 0.3, 4), 3), folder=folder).split()
    code, result = asked(command)
    if code:
        return None
    path = draw.choice(list(_leaves(result)))
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    if isinstance(old, bool):
        inner[path[-1]] = not old
    elif isinstance(old, int | float):
        inner[path[-1]] = draw.choice([old / 2, old * 2, 0, old * 0.999, type(old)(1)])
    elif draw.random() < 0.5:
        del inner[path[-1]]
    else:
        inner[path[-1]] = draw.choice(["", "certified", "add-remove", "replace-one", "compose", "gaussian", "inf"])
    edited = folder / "edited.json"
    edited.write_text(json.dumps(result))
    code, original = asked([*command])
    delta = repr(number(original["delta"]))

    def check(again: dict[str, Any]) -> str | None:
        if "error" in again or again.get("guarantee") != "certified":
            return None
        # Mechanisms that differ by less than the tolerance of the composition are those of another spec, told rightly.
        fine = number(again["epsilon"]) >= number(original["epsilon"]) * (1 - 2e-3)
        # Under which adjacency a notion or a multiplier was declared is not to be had from its numbers.
        moved = command[0] not in ("convert", "calibrate") and again["adjacency"] != original["adjacency"]
        return (
            None
            if fine and not moved
            else f"{path}: {old!r} → ε {again['epsilon']!r} for {original['epsilon']!r}: {command}"
        )

    return ["compose", str(edited), "--delta", delta], check


QUESTIONS: dict[str, Callable[..., Check | None]] = {
    "turned": turned_question,
    "allocated": allocated_question,
    "converted": converted_question,
    "calibrated": calibrated_question,
    "adversary": adversary_question,
}
READ: dict[str, Callable[[random.Random, Path], Check | None]] = {"read": read_question}
