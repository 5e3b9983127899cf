"""Several choices of bounded range, each made after the outcome of the last: the worst of them as a law in balls.

A run has the losses t and t − ε, t in [0, ε], u = e^{−t} and Q(t) = (u − e^{−ε})/(1 − e^{−ε}) (Dong, Durfee, Rogers
2020). H_k(s) is the largest mean of X·H_{k−1}(s/X) over t, on a grid whose steps divide ε.
"""

from __future__ import annotations

import math

from flint import arb

from dpcalc.referee.laws import Law, of_profile

MOST_RUNS = 24
_STEPS, _POINTS = 28, 320  # from 0 to ε, at least, and of all runs


def adaptive(epsilon: arb, count: int) -> Law:
    """A law that dominates `count` runs."""
    steps = max(_STEPS, _POINTS // count)
    step = epsilon / steps
    heights: list[arb] = [arb(0)]
    for k in range(1, count + 1):
        heights = _after_one_more(heights, k * steps, steps, step)
    reach = len(heights) - 1
    places = range(-reach, reach + 1)
    return of_profile([step * j for j in places], [_at(heights, j, step) for j in places])


def steered(epsilon: arb, count: int, delta: float) -> Law:
    """What an adversary attains who aims at a loss about where δ is; the law of whatever is chosen is exact."""
    steps = max(_STEPS, 2 * _POINTS // count)
    size = float(epsilon.mid())
    step, reach = size / steps, count * steps
    hit = [math.expm1(k * step - size) / math.expm1(-size) for k in range(steps + 1)]
    value = [-math.expm1(step * min(place, 0)) for place in range(-reach - steps, reach + steps + 1)]
    choices: list[list[int]] = []
    for _ in range(count):
        best = []
        for at in range(steps, 2 * reach + steps + 1):
            means = [hit[k] * value[at - k] + (1 - hit[k]) * value[at - k + steps] for k in range(steps + 1)]
            best.append(max(range(steps + 1), key=means.__getitem__))
        inner = [
            hit[k] * value[at - k] + (1 - hit[k]) * value[at - k + steps]
            for at, k in zip(range(steps, 2 * reach + steps + 1), best, strict=True)
        ]
        value = [*(1.0,) * steps, *inner, *(0.0,) * steps]
        choices.append(best)
    target = max((place for place in range(reach) if value[place + reach + steps] > delta), default=0)
    return _followed(epsilon, steps, target, choices[::-1])


def _followed(epsilon: arb, steps: int, target: int, choices: list[list[int]]) -> Law:
    """The masses of every loss, in steps, that choices by what is still missing lead to."""
    low, unit = (-epsilon).exp(), 1 - (-epsilon).exp()
    masses = {0: (arb(1), arb(1))}
    reach = len(choices) * steps
    for choice in choices:
        after: dict[int, tuple[arb, arb]] = {}
        for at, (p, q) in masses.items():
            k = choice[min(max(target - at, -reach), reach) + reach]
            u = (-epsilon * k / steps).exp()
            likely = (u - low) / unit
            for place, factor, chance in ((at + k, 1 / u, likely), (at + k - steps, low / u, 1 - likely)):
                first, second = after.get(place, (arb(0), arb(0)))
                after[place] = first + p * chance * factor, second + q * chance
        masses = after
    return Law(atoms=tuple((epsilon * at / steps, p, q) for at, (p, q) in sorted(masses.items()) if p > 0 and q > 0))


def _at(heights: list[arb], place: int, step: arb) -> arb:
    """H at s = e^{place·step}; below 1 it is 1 − s + s·H(1/s), and beyond the last 0."""
    known = heights[abs(place)] if abs(place) < len(heights) else arb(0)
    if place >= 0:
        return known
    s = (step * place).exp()
    return 1 - s + s * known


def _after_one_more(before: list[arb], last: int, steps: int, step: arb) -> list[arb]:
    """Chords of the convex X ↦ X·H(s/X) between neighbouring t; their mean is Au + B/u + C, B ≤ 0, and is above the
    larger of its ends by at most |B|(Δu)²/(4u³).
    """
    known = {place: _at(before, place, step) for place in range(-steps, last + steps + 1)}
    low, unit = (-step * steps).exp(), 1 - (-step * steps).exp()
    u = [(-step * k).exp() for k in range(steps + 1)]
    found = []
    for place in range(last + 1):
        high = [known[place - k] / u[k] for k in range(steps + 1)]
        less = [known[place - k + steps] * low / u[k] for k in range(steps + 1)]
        means = [((u[k] - low) * high[k] + (1 - u[k]) * less[k]) / unit for k in range(steps + 1)]
        best = arb(0)
        for k in range(steps):
            run = 1 / u[k + 1] - 1 / u[k]
            bend = ((high[k + 1] - high[k]) - (less[k + 1] - less[k]) / low) / run
            bulge = bend.max(arb(0)) * low / unit * (u[k] - u[k + 1]) ** 2 / (4 * u[k + 1] ** 3)
            best = best.max(means[k].max(means[k + 1]) + bulge)
        found.append(arb(best.upper()).min(arb(1)))
    return found
