"""Several choices of bounded range, each made after the outcome of the last: the worst of them as a law in balls.

A run has the losses t and t − ε, t in [0, ε], u = e^{−t} and Q(t) = (u − e^{−ε})/(1 − e^{−ε}) (Dong, Durfee, Rogers
2020). H_k(s) is the largest mean of X·H_{k−1}(s/X) over t, on a grid whose steps divide ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from flint import arb

from dpcalc.referee.laws import Law, of_profile

_Masses = tuple[arb, arb]  # P-mass, Q-mass

MOST_RUNS = 24
_STEPS, _POINTS = 28, 320  # from 0 to ε, at least, and of all runs
_CHOICES = 400  # values of t that a fixed one is chosen from


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


def fixed(epsilon: arb, order: float) -> Law:
    """One run whose t was chosen beforehand, about the worst for E e^{order·loss}; every t is attained."""
    size = float(epsilon.mid())

    def log_moment(k: int) -> float:
        t = size * k / _CHOICES
        hit = math.expm1(t - size) / math.expm1(-size)
        return math.log(hit + (1 - hit) * math.exp(-order * size)) + order * t

    k = max(range(1, _CHOICES), key=log_moment)
    loss = epsilon * k / _CHOICES
    high, low = _chances(epsilon, k, _CHOICES)
    return Law(atoms=((loss, *high), (loss - epsilon, *low)))


def steered(epsilon: arb, count: int) -> Law:
    """What adversaries attain who choose t by what is left of a target, which may depend on all that came before.

    Whether the loss passes it is a test of some P- and Q-probability; that of any choices is exact. From the last run
    back, by steps that are left; outside the grid a test is over, passed below it and failed above.
    """
    steps = max(_STEPS, 2 * _POINTS // count)
    reach, step = count * steps, float(epsilon.mid()) / steps
    hit = [math.expm1(k * step - steps * step) / math.expm1(-steps * step) for k in range(steps + 1)]
    chances = [_chances(epsilon, k, steps) for k in range(steps + 1)]
    value = [-math.expm1(step * min(place, 0)) for place in range(-reach, reach + 1)]
    tests = [(arb(place < 0), arb(place < 0)) for place in range(-reach, reach + 1)]
    for _ in range(count):
        padded = [*value[:1] * steps, *value, *value[-1:] * steps]
        around = [*((arb(1), arb(1)),) * steps, *tests, *((arb(0), arb(0)),) * steps]
        value, tests = [], []
        for at in range(steps, 2 * reach + steps + 1):
            means = [hit[k] * padded[at - k] + (1 - hit[k]) * padded[at - k + steps] for k in range(steps + 1)]
            k = max(range(steps + 1), key=means.__getitem__)
            value.append(means[k])
            tests.append(_mean(chances[k], around[at - k], around[at - k + steps]))
    return of_tests(tests[::-1])


def _chances(epsilon: arb, k: int, steps: int) -> tuple[_Masses, _Masses]:
    """P- and Q-probability of the losses t and t - ε, t = kε/steps."""
    low, u = (-epsilon).exp(), (-epsilon * k / steps).exp()
    likely = (u - low) / (1 - low)
    return (likely / u, likely), ((1 - likely) * low / u, 1 - likely)


def _mean(chances: tuple[_Masses, _Masses], high: _Masses, low: _Masses) -> _Masses:
    (p, q), (r, s) = chances
    return p * high[0] + r * low[0], q * high[1] + s * low[1]


def of_tests(tests: Sequence[_Masses]) -> Law:
    """The law of the polygon through tests of these P- and Q-probabilities, the rarest first, from none to all.

    Whoever may choose a test by what came before attains H(s) ≥ p - sq at every s, for every corner that is kept.
    """
    kept: list[_Masses] = [(arb(0), arb(0))]
    for p, q in (*(test for test in tests if all(mass < 1 for mass in test)), (arb(1), arb(1))):
        if not (p > kept[-1][0] and q > kept[-1][1]):
            continue
        while len(kept) > 1:
            (r, s), (v, w) = kept[-2:]
            if (v - r) * (q - w) > (p - v) * (w - s):  # it turns right there, surely
                break
            kept.pop()
        kept.append((p, q))
    sides = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(kept)]
    return Law(atoms=tuple(((p / q).log(), p, q) for p, q in sides))


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
