"""A sampled record that becomes its opposite, as a law in balls: (1−q)R + qP against (1−q)R + qQ.

R is the noise without the record, P and Q that moved as far as one record may, in opposite directions on a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from dpcalc.referee.laws import Atom, Law, normal_above, zero


def turned_gaussian(mu: arb, rate: arb) -> Law:
    """(1−q)N(0) + qN(μ) against (1−q)N(0) + qN(−μ), whose ratio at x grows with x."""
    factor = (1 - rate) / rate * (mu**2 / 2).exp()

    def above(t: arb) -> tuple[arb, arb]:
        x = (t / 2 + (factor * (t / 2).sinh()).asinh()) / mu
        both = (1 - rate) * normal_above(x)
        return both + rate * normal_above(x - mu), both + rate * normal_above(x + mu)

    return Law(above, (arb(1), arb(1)))


def turned_laplace(epsilon: arb, rate: arb) -> Law:
    """(1−q)Lap(0) + qLap(ε) against (1−q)Lap(0) + qLap(−ε): the ratio is constant beyond ±ε."""
    keep, low = 1 - rate, (-epsilon).exp()
    top = ((keep + rate / low) / (keep + rate * low)).log()
    likely, rest = (keep * low + rate) / 2, (keep * low + rate * low**2) / 2

    def beyond(x: arb, centre: arb) -> arb:
        """P(Lap(centre) > x)."""
        y = (centre - x).exp() / 2
        return y if centre - x < 0 else 1 - (x - centre).exp() / 2

    def above(t: arb) -> tuple[arb, arb]:
        if not abs(t) < top:
            return (zero(), zero()) if t > 0 else (1 - likely - rest, 1 - likely - rest)
        size = ((abs(t).exp() * (keep + rate * low) - keep) / rate).log() / 2 + epsilon / 2
        x = size if t > 0 else -size
        middle, far = beyond(x, zero()), beyond(x, epsilon)
        return keep * middle + rate * far - likely, keep * middle + rate * beyond(x, -epsilon) - rest

    return Law(above, (1 - likely - rest, 1 - likely - rest), ((top, likely, rest), (-top, rest, likely)))


def turned_discrete_gaussian(mass: Sequence[arb], tail: arb, shift: int, rate: arb) -> Law:
    """From the masses of the noise at 0, 1, … and what is beyond; places that one of the three lacks are at ±∞."""
    reach = len(mass) - 1
    inside = range(shift - reach, reach - shift + 1)
    atoms = [_atom([mass[abs(x - centre)] for centre in (shift, 0, -shift)], rate) for x in inside]
    outside = 2 * (tail + sum(mass[reach - 2 * shift + 1 :], zero()))  # more than any of the three has there
    return Law(atoms=tuple(atoms), p_infinite=outside, q_infinite=outside)


def turned_discrete_laplace(scale: arb, shift: int, rate: arb) -> Law:
    """From −Δ to Δ, the tails beyond being part of the ends, where the ratio is constant."""
    r = (-1 / scale).exp()
    unit, tail = (1 - r) / (1 + r), 1 / (1 + r)
    atoms = []
    for x in range(-shift, shift + 1):
        end = tail if abs(x) == shift else unit
        atoms.append(_atom([end * r ** abs(x - centre) for centre in (shift, 0, -shift)], rate))
    return Law(atoms=tuple(atoms))


def _atom(masses: Sequence[arb], rate: arb) -> Atom:
    moved, still, opposite = masses
    p, q = (1 - rate) * still + rate * moved, (1 - rate) * still + rate * opposite
    return (p / q).log(), p, q
