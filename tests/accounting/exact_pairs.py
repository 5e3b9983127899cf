"""Discrete pairs in rationals, and everything about them by enumeration: nothing of the engine is used."""

from fractions import Fraction
from math import log

import numpy as np

from dpcalc.pairs.points import PointPair


class ExactPair:
    """Finitely many outputs with rational P- and Q-mass; some may have no mass under one of them (loss ±∞)."""

    def __init__(self, p, q):
        self.p, self.q = [Fraction(x) for x in p], [Fraction(x) for x in q]

    def mixed(self, rate):
        rate = Fraction(rate)
        return ExactPair([(1 - rate) * b + rate * a for a, b in zip(self.p, self.q, strict=True)], self.q)

    def times(self, other):
        """Both outputs together."""
        return ExactPair([a * c for a in self.p for c in other.p], [b * d for b in self.q for d in other.q]).gathered()

    def power(self, count):
        result = self
        for _ in range(count - 1):
            result = result.times(self)
        return result

    def mean(self, count):
        """One of `count` steps, chosen uniformly, runs under P: X is the mean of the ratios (Q-masses at X).

        What Q never gives tells which step it was: its P-mass stays what it is.
        """
        total = {Fraction(0): Fraction(1)}
        single = [(a / b, b) for a, b in zip(self.p, self.q, strict=True) if b]
        for _ in range(count):
            grown = {}
            for x, v in total.items():
                for y, w in single:
                    grown[x + y] = grown.get(x + y, Fraction(0)) + v * w
            total = grown
        infinite = sum((a for a, b in zip(self.p, self.q, strict=True) if not b), Fraction(0))
        p = [x / count * w for x, w in total.items()]
        return ExactPair([*p, infinite], [*total.values(), Fraction(0)])

    def gathered(self):
        """Outputs with the same ratio put together: the same pair for every test."""
        merged = {}
        for a, b in zip(self.p, self.q, strict=True):
            key = a / b if b else None
            x, y = merged.get(key, (Fraction(0), Fraction(0)))
            merged[key] = x + a, y + b
        return ExactPair(*zip(*merged.values(), strict=True))

    def delta(self, epsilon, direction):
        """sup over events of P - e^ε Q, or with the roles exchanged; e^ε as the double that it is."""
        t = Fraction(float(np.exp(epsilon)))
        sides = (self.p, self.q) if direction == "remove" else (self.q, self.p)
        return sum((max(a - t * b, Fraction(0)) for a, b in zip(*sides, strict=True)), Fraction(0))

    def pair(self):
        """As the engine is given it."""
        pairs = sorted(zip(self.p, self.q, strict=True), key=lambda ab: float(ab[0] / ab[1]) if ab[1] else np.inf)
        finite = [(a, b) for a, b in pairs if a and b]
        losses = np.array([_log(a / b) for a, b in finite])
        return PointPair(
            losses,
            np.array([float(a) for a, _ in finite]),
            np.array([float(b) for _, b in finite]),
            float(sum((a for a, b in pairs if not b), Fraction(0))),
            float(sum((b for a, b in pairs if not a), Fraction(0))),
        )


def _log(ratio):
    return float(np.log1p(float(ratio - 1))) if abs(ratio - 1) < Fraction(1, 2) else log(ratio)


def random_pair(rng, outputs=4, *, ends=True):
    """Random masses with denominators that doubles hold exactly, and perhaps atoms at ±∞."""
    p, q = ([int(x) + 1 for x in rng.integers(0, 1 << 12, outputs)] for _ in range(2))
    if ends and rng.random() < 0.5:
        p[0] = 0
    if ends and rng.random() < 0.5:
        q[-1] = 0
    return ExactPair(_dyadic(p), _dyadic(q))


def _dyadic(weights):
    """Multiples of 2^-30 that add up to 1."""
    total, unit = sum(weights), 1 << 30
    whole = [w * unit // total for w in weights]
    whole[int(np.argmax(weights))] += unit - sum(whole)
    return [Fraction(w, unit) for w in whole]
