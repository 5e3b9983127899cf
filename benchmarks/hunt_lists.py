"""Hunts for false bounds of mixed lists: every pair whose ratio is known, sampled or not, few steps, both adjacencies.

*mixed*: Gaussians, Laplace, discrete noise, randomised responses, declared (ε,δ), μ and ρ, in one list, Poisson-sampled
at rates from 1e-4 to 0.9999 or not at all, δ from 1e-12 to 0.5, ε or δ asked for. *solved*: the same with one number to
be found. The truth is enclosed from both sides on one grid of losses h·j. With P- and Q-mass of every cell, sums of the
cells' numbers are a map of the outputs, which can only make runs more alike: Σ(a − e^ε b)₊ ≤ δ(ε). Moved to both ends
of its cell, with P- and Q-mass kept, an outcome only spreads: what that comes to is at least δ(ε).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hunt import Check, asked, log_uniform, number
from scipy.special import ndtr

Cells = tuple[Any, Any]  # P- and Q-mass of loss in (jh, (j+1)h], first cell at -size
_SLACK = 1e-9
_LARGEST = 30_000  # points of a run


def _differences(tail: Callable[[Any], Any], x: Any) -> Any:
    """Masses between neighbouring x of a symmetric law with this upper tail, on the side where nothing cancels."""
    low, high = x[:-1], x[1:]
    return np.where(low > 0, tail(low) - tail(high), tail(-high) - tail(-low))


@dataclass(frozen=True)
class Step:
    """One mechanism as the command line writes it, and how likely each cell of a grid of its losses is."""

    text: str
    count: int
    rate: float
    reach: float
    attained: bool
    of: Callable[[Any], tuple[Any, Any]]  # the unsampled pair: P and Q up to each log ratio's cell

    def cells(self, width: float) -> tuple[Cells, Cells]:
        """Remove and add."""
        size = math.ceil(self.reach / width) + 2
        edges = width * np.arange(-size, size + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.maximum(np.expm1(edges) / self.rate, -1.0)
            ratio = edges if self.rate == 1 else np.log1p(inner)
        p, q = self.of(ratio)
        p = self.rate * p + (1 - self.rate) * q
        return (p, q), (q[::-1].copy(), p[::-1].copy())


def _upper_tail(x: Any) -> Any:
    return ndtr(-x)


def _gaussian(mu: float) -> Callable[[Any], tuple[Any, Any]]:
    def of(ratio: Any) -> tuple[Any, Any]:
        x = ratio / mu
        return _differences(_upper_tail, x - mu / 2), _differences(_upper_tail, x + mu / 2)

    return of


def _laplace(epsilon: float) -> Callable[[Any], tuple[Any, Any]]:
    def of(ratio: Any) -> tuple[Any, Any]:
        r = np.clip(ratio, -epsilon, epsilon)
        p = np.diff(np.where(ratio >= epsilon, 1.0, np.where(ratio < -epsilon, 0.0, np.exp((r - epsilon) / 2) / 2)))
        above = np.where(ratio >= epsilon, 0.0, np.where(ratio < -epsilon, 1.0, np.exp(-(r + epsilon) / 2) / 2))
        return p, -np.diff(above)

    return of


def _points(losses: list[float], p: list[float], q: list[float]) -> Callable[[Any], tuple[Any, Any]]:
    def of(ratio: Any) -> tuple[Any, Any]:
        place = np.clip(np.searchsorted(ratio, losses, side="left") - 1, 0, ratio.size - 2)
        return tuple(np.bincount(place, masses, minlength=ratio.size - 1) for masses in (p, q))  # type: ignore[return-value]

    return of


def _integer_noise(weight: Callable[[int], float], shift: int, far: int) -> Callable[[Any], tuple[Any, Any]]:
    x = range(-far, far + shift + 1)
    whole = math.fsum(weight(k) for k in range(-far - shift, far + shift + 1))
    kept = [k for k in x if weight(k) > 0 and weight(k - shift) > 0]
    losses = [math.log(weight(k - shift) / weight(k)) for k in kept]
    return _points(losses, [weight(k - shift) / whole for k in kept], [weight(k) / whole for k in kept])


def _step(draw: random.Random, adjacency: str) -> Step | None:
    kind = draw.choice(["gaussian", "gdp", "zcdp", "laplace", "dlap", "dgauss", "rr", "kary", "dp"])
    size, count, infinite = log_uniform(draw, 0.02, 3), draw.choice([1, 1, 2, 3, 7]), 0.0
    if kind in ("gaussian", "gdp", "zcdp"):
        given = float(f"{size if kind == 'gdp' else 1 / size if kind == 'gaussian' else size * size / 2:.6g}")
        mu = given if kind == "gdp" else 1 / given if kind == "gaussian" else math.sqrt(2 * given)
        name = {"gaussian": "gaussian,noise_multiplier", "gdp": "gdp,mu", "zcdp": "zcdp,rho"}[kind]
        text, of, reach = f"{name}={given!r}", _gaussian(mu), mu * (9 + mu / 2)
    elif kind == "laplace":
        scale = float(f"{1 / size:.6g}")
        text, of, reach = f"laplace,scale={scale!r},sensitivity=1", _laplace(1 / scale), 1 / scale
    elif kind in ("dlap", "dgauss"):
        shift, scale = draw.randint(1, 3), round(log_uniform(draw, 0.6, 12), 3)
        if kind == "dlap":
            text = f"discrete-laplace,scale={scale},sensitivity={shift}"
            of, reach = _integer_noise(lambda k: math.exp(-abs(k) / scale), shift, int(45 * scale)), shift / scale
        else:
            text, far = f"discrete-gaussian,sigma={scale},sensitivity={shift}", int(9 * scale) + 2
            of = _integer_noise(lambda k: math.exp(-k * k / (2 * scale * scale)), shift, far)
            reach = shift * (2 * far + shift) / (2 * scale * scale) + 1
    elif kind == "kary":
        if adjacency != "replace-one":
            return None
        k = draw.randint(2, 6)
        p = round(1 / k + (1 - 1 / k) * draw.uniform(0.05, 0.95), 5)
        other = (1 - p) / (k - 1)
        reach = math.log(p / other)
        of = _points([reach, 0.0, -reach], [p, (k - 2) * other, other], [other, (k - 2) * other, p])
        text = f"randomized-response,p={p},k={k}"
    else:
        size = float(f"{size:.6g}")
        infinite = float(f"{log_uniform(draw, 1e-9, 1e-2):.6g}") if kind == "dp" else 0.0
        likely = (1 - infinite) / (1 + math.exp(-size))
        of = _points([size, -size], [likely, 1 - infinite - likely], [1 - infinite - likely, likely])
        text = f"dp,epsilon={size!r},delta={infinite!r}" if kind == "dp" else f"randomized-response,epsilon={size!r}"
        reach = size
    rate = 1.0
    if adjacency == "add-remove" and infinite == 0 and draw.random() < 0.6:
        rate = draw.choice([log_uniform(draw, 1e-4, 0.5), draw.uniform(0.5, 0.999), 0.9999])
        rate = float(f"{rate:.6g}")
        text = f"{text},sampling=poisson,rate={rate!r}"
    return Step(f"{text},count={count}", count, rate, reach + 1e-9, kind != "zcdp", of)


class Enclosed:
    """δ from below and from above, in the worse direction, at any ε."""

    def __init__(self, steps: list[Step]) -> None:
        whole = sum(step.count * step.reach for step in steps)
        self.width = 2 * whole / _LARGEST
        one = np.ones(1)
        self.runs: list[list[Any]] = [[one, one, one, 0, 1.0], [one, one, one, 0, 1.0]]
        for step in steps:
            for run, (p, q) in zip(self.runs, step.cells(self.width), strict=True):
                size = (p.size) // 2
                left = self.width * np.arange(-size, size)
                high = np.clip((p - q * np.exp(left)) / -math.expm1(-self.width), 0.0, p)
                ends = np.append(p - high, 0.0) + np.append(0.0, high)
                for _ in range(step.count):
                    run[0], run[1], run[2] = (np.convolve(a, b) for a, b in zip(run[:3], (p, q, ends), strict=True))
                    run[3] += size
                    run[4] *= p.sum()

    def delta(self, epsilon: float) -> tuple[float, float]:
        found = []
        for p, q, ends, size, kept in self.runs:
            below = np.maximum(p - math.exp(min(epsilon, 700)) * q, 0).sum()
            losses = self.width * (np.arange(ends.size) - size)
            above = (ends * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0)).sum() + max(1 - kept, 0.0)
            found.append((below, above))
        return max(low for low, _ in found), max(high for _, high in found) + 1e-15

    def epsilon(self, delta: float, side: int) -> float:
        """Where that side's δ falls to δ, from outside."""
        low, high = 0.0, self.width * _LARGEST
        if self.delta(0.0)[side] <= delta:
            return 0.0
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle)[side] > delta else (low, middle)
        return high if side else low


def _listed(draw: random.Random) -> tuple[list[str], list[Step], str] | None:
    adjacency = draw.choice(["add-remove", "add-remove", "replace-one"])
    steps = [step for step in (_step(draw, adjacency) for _ in range(draw.choice([1, 1, 2, 3, 4]))) if step]
    if not steps or sum(step.count for step in steps) > 14:
        return None
    return ["--adjacency", adjacency, *(word for step in steps for word in ("-m", step.text))], steps, adjacency


def mixed_question(draw: random.Random) -> Check | None:
    found = _listed(draw)
    if found is None:
        return None
    arguments, steps, _ = found
    attained = all(step.attained for step in steps)
    if draw.random() < 0.3:
        epsilon = float(f"{log_uniform(draw, 1e-3, 1) * sum(s.count * s.reach for s in steps) / 2:.6g}")

        def check_delta(result: dict[str, Any]) -> str | None:
            low, high = Enclosed(steps).delta(epsilon)
            told, least = number(result["delta"]), number(result.get("delta_lower") or 0)
            if told < low * (1 - _SLACK) - 1e-300:
                return f"δ = {told!r} is below {low!r}"
            return f"δ ≥ {least!r} is above {high!r}" if attained and least > high * (1 + _SLACK) else None

        return ["compose", *arguments, "--epsilon", repr(epsilon)], check_delta
    delta = log_uniform(draw, 1e-12, 0.5)

    def check(result: dict[str, Any]) -> str | None:
        truth = Enclosed(steps)
        told, least = number(result["epsilon"]), number(result["epsilon_lower"] or 0)
        low, high = truth.epsilon(delta, 0), truth.epsilon(delta, 1)
        if told < low * (1 - _SLACK):
            return f"ε = {told!r} is below {low!r}"
        beyond = truth.delta(least)[1] < delta * (1 - 1e-6)  # δ(ε) ≤ what is above it < δ: ε is too large a lower bound
        return f"ε ≥ {least!r} is above {high!r}" if attained and least > 0 and beyond else None

    return ["compose", *arguments, "--delta", repr(delta)], check


def solved_question(draw: random.Random) -> Check | None:
    """A Gaussian's noise or a response's ε beside others: within the budget; 0.1 % further the bound is beyond it."""
    found = _listed(draw)
    if found is None or found[2] != "add-remove":
        return None
    arguments, steps, _ = found
    gaussian, count = draw.random() < 0.6, draw.choice([1, 2, 4])
    rate = draw.choice([1.0, float(f"{log_uniform(draw, 1e-3, 0.9):.6g}")])
    sampled = "" if rate == 1 else f",sampling=poisson,rate={rate!r}"
    name = "gaussian,noise_multiplier" if gaussian else "randomized-response,epsilon"
    delta = log_uniform(draw, 1e-9, 0.05)
    alone = Enclosed(steps)  # without a solution: a δ beyond any noise of a step so rare, or below what is at ∞
    own = alone.epsilon(delta, 1)
    if delta > rate / 2 or own > 20 or alone.delta(own)[1] > delta or not all(step.attained for step in steps):
        return None
    epsilon = float(f"{own + log_uniform(draw, 0.05, 2):.6g}")

    def at(value: float) -> Enclosed:
        size = 1 / value if gaussian else value
        likely = 1 / (1 + math.exp(-size))
        of = _gaussian(size) if gaussian else _points([size, -size], [likely, 1 - likely], [1 - likely, likely])
        reach = (size * (9 + size / 2) if gaussian else size) + 1e-9
        return Enclosed([*steps, Step("", count, rate, reach, True, of)])

    def check(result: dict[str, Any]) -> str | None:
        value = number(result["details"]["solution"])
        if at(value).delta(epsilon)[0] > delta * (1 + _SLACK):
            return f"{value!r} is beyond the budget"
        further = value * (1 - 0.001 if gaussian else 1 + 0.001)
        nudged = ["compose", *arguments, "-m", f"{name}={further!r}{sampled},count={count}", "--delta", repr(delta)]
        code, beyond = asked(nudged)
        fine = code == 0 and number(beyond["epsilon"]) > epsilon
        return None if fine else f"0.1 % from {value!r} is within the budget too"

    goal = ["--epsilon", repr(epsilon), "--delta", repr(delta)]
    return ["calibrate", *arguments, "-m", f"{name}=solve{sampled},count={count}", *goal], check


QUESTIONS: dict[str, Callable[..., Check | None]] = {"mixed": mixed_question, "solved": solved_question}
