"""One release as a law: where its privacy loss L = log dP/dQ is, under P and under Q, in balls.

A law has a continuous part, known by its masses above a loss, and atoms. Sampling, exchanging P and Q and symmetrising
map laws to laws; a law made from a profile δ(ε) dominates every mechanism with that profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from flint import arb

Atom = tuple[arb, arb, arb]  # loss, P-mass, Q-mass


def zero() -> arb:
    return arb(0)


@dataclass(frozen=True)
class Law:
    """`above(t)`: P- and Q-mass of the continuous part above the loss t, each a ball; None if there is no such part.

    `total` is the mass of that part; `p_infinite` is P(L = ∞), `q_infinite` is Q(L = −∞).
    """

    above: Callable[[arb], tuple[arb, arb]] | None = None
    total: tuple[arb, arb] = field(default_factory=lambda: (zero(), zero()))
    atoms: tuple[Atom, ...] = ()
    p_infinite: arb = field(default_factory=zero)
    q_infinite: arb = field(default_factory=zero)


def normal_above(x: arb) -> arb:
    """P(N(0,1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def gaussian(mu: arb) -> Law:
    """N(μ, 1) against N(0, 1)."""

    def above(t: arb) -> tuple[arb, arb]:
        return normal_above(t / mu - mu / 2), normal_above(t / mu + mu / 2)

    return Law(above, (arb(1), arb(1)))


def laplace(epsilon: arb) -> Law:
    """Laplace noise against itself moved by ε scales: flat ends at ±ε, exponential between."""
    rest = 1 - (1 + (-epsilon).exp()) / 2

    def above(t: arb) -> tuple[arb, arb]:
        inner = t.max(-epsilon).min(epsilon)
        p = (1 - ((inner - epsilon) / 2).exp() / 2) - arb(1) / 2
        q = ((-epsilon - inner) / 2).exp() / 2 - (-epsilon).exp() / 2
        return p, q

    half, far = arb(1) / 2, (-epsilon).exp() / 2
    return Law(above, (rest, rest), ((epsilon, half, far), (-epsilon, far, half)))


def two_points(epsilon: arb, delta: arb) -> Law:
    """The worst (ε,δ)-DP mechanism."""
    likely = (1 - delta) / (1 + (-epsilon).exp())
    rest = 1 - delta - likely
    return Law(atoms=((epsilon, likely, rest), (-epsilon, rest, likely)), p_infinite=delta, q_infinite=delta)


def two_links(epsilon: arb) -> Law:
    """The ends of a chain of two ε-DP links, as bad as they can be: g(g(α)), g the least Q-mass of an event."""
    far = (-epsilon).exp()
    likely = 1 / (1 + far)
    rest, same = far**2 * likely, far * (1 - far) * likely
    return Law(atoms=((2 * epsilon, likely, rest), (zero(), same, same), (-2 * epsilon, rest, likely)))


def answers(p: arb, k: int) -> Law:
    """k-ary randomised response."""
    other = (1 - p) / (k - 1)
    loss = (p / other).log()
    atoms: list[Atom] = [(loss, p, other), (-loss, other, p)]
    if k > 2:
        atoms.append((zero(), (k - 2) * other, (k - 2) * other))
    return Law(atoms=tuple(atoms))


def staircase(epsilon: arb, gamma: arb) -> Law:
    """A density that falls by e^{-ε} at γ, 1 + γ, …, against itself moved by 1, whose losses are -ε, 0 and ε."""
    fall = (-epsilon).exp()
    top = (1 - fall) / (2 * (gamma + fall * (1 - gamma)))
    short = gamma.min(1 - gamma)
    more = arb(1) / 2 + top * short  # all below 0, and the start of [0, 1] while one of the two is on its first stair
    same = top * (1 - 2 * short) * (fall if gamma < arb(1) / 2 else 1)
    less = 1 - more - same
    atoms: list[Atom] = [(epsilon, more, less), (zero(), same, same), (-epsilon, less, more)]
    return Law(atoms=tuple(atoms))


def bounded_range(epsilon: arb) -> Law:
    """The envelope of all two-point laws of range ε: density ½e^{(l−ε)/2}/(1−e^{−ε}) on [−ε, ε] under P."""
    unit = 1 - (-epsilon).exp()

    def above(t: arb) -> tuple[arb, arb]:
        inner = t.max(-epsilon).min(epsilon)
        short = 1 - ((inner - epsilon) / 2).exp()
        return short / unit, short * ((-inner - epsilon) / 2).exp() / unit

    return Law(above, above(-epsilon))


def discrete(mass: Sequence[arb], tail: arb, shift: int) -> Law:
    """Noise on the integers, mass[|x|] at x, against itself moved by `shift`; `tail` is the mass on each side beyond.

    Points further out are put onto ±∞, so that their masses are kept.
    """
    reach = len(mass) - 1
    atoms: list[Atom] = []
    only_p = tail
    for x in range(-reach, reach + 1):
        moved = x - shift
        if abs(moved) > reach:
            only_p += mass[abs(x)]
            continue
        p, q = mass[abs(x)], mass[abs(moved)]
        atoms.append(((p / q).log(), p, q))
    return Law(atoms=tuple(atoms), p_infinite=only_p, q_infinite=only_p)


def integer_gaussian(sigma: arb, shift: int, bits: int) -> tuple[list[arb], arb]:
    """Masses at 0, 1, … and what lies beyond the last on one side, from e^{−x²/2σ²} and its sum."""
    reach = int(float(sigma.upper()) * (1.4 * bits) ** 0.5) + shift + 2
    values = [(-(arb(x) ** 2) / (2 * sigma**2)).exp() for x in range(reach + 2)]
    tail = (values[-1] / (1 - (-arb(reach + 1) / sigma**2).exp())).union(arb(0))
    norm = values[0] + 2 * (sum(values[1:-1], zero()) + tail)
    return [value / norm for value in values[:-1]], tail / norm


def discrete_laplace(scale: arb, shift: int) -> Law:
    """Everything beyond the two centres has the largest loss: shift + 1 atoms."""
    r = (-1 / scale).exp()
    unit, tail = (1 - r) / (1 + r), 1 / (1 + r)
    atoms: list[Atom] = [(shift / scale, tail, tail * r**shift), (-shift / scale, tail * r**shift, tail)]
    atoms += [((shift - 2 * k) / scale, unit * r**k, unit * r ** (shift - k)) for k in range(1, shift)]
    return Law(atoms=tuple(atoms))


def mixed(law: Law, rate: arb) -> Law:
    """((1−q)Q + qP, Q): Poisson sampling at rate q."""
    keep = 1 - rate
    base = law.above

    def above(t: arb) -> tuple[arb, arb]:
        assert base is not None
        ratio = (t.exp() - keep) / rate
        if ratio.upper() <= 0:
            p, q = law.total
        elif ratio.lower() > 0:
            p, q = base(ratio.log())
        else:
            high = base(arb(ratio.upper()).log())
            p, q = high[0].union(law.total[0]), high[1].union(law.total[1])
        return keep * q + rate * p, q

    atoms = [((keep + rate * loss.exp()).log(), keep * q + rate * p, q) for loss, p, q in law.atoms]
    if not law.q_infinite.is_zero():
        if keep.is_zero():
            return Law(above if base else None, law.total, tuple(atoms), law.p_infinite, law.q_infinite)
        atoms.append((keep.log(), keep * law.q_infinite, law.q_infinite))
    total = (keep * law.total[1] + rate * law.total[0], law.total[1])
    return Law(above if base else None, total, tuple(atoms), rate * law.p_infinite, zero())


def symmetrised(law: Law) -> Law:
    """Losses above 0 as they are, below 0 mirrored, and an atom at 0: C_p of Bok et al., Proposition D.4."""
    base = law.above
    positive = [(loss, p, q) for loss, p, q in law.atoms if loss > 0]
    p_up, q_up = base(zero()) if base else (zero(), zero())

    def above(t: arb) -> tuple[arb, arb]:
        assert base is not None
        if t.lower() >= 0:
            return base(t)
        if t.upper() <= 0:
            p, q = base(-t)
            return p_up + q_up - q, q_up + p_up - p
        raise ArithmeticError("a cell edge that may be on either side of 0")

    p_atoms = sum((p for _, p, _ in positive), zero()) + law.p_infinite
    q_atoms = sum((q for _, _, q in positive), zero())
    centre = 1 - p_up - q_up - p_atoms - q_atoms
    atoms = (*positive, *((-loss, q, p) for loss, p, q in positive), (zero(), centre, centre))
    return Law(above if base else None, (p_up + q_up, p_up + q_up), atoms, law.p_infinite, law.p_infinite)


def exchanged(law: Law) -> Law:
    """(Q, P)."""
    base = law.above

    def above(t: arb) -> tuple[arb, arb]:
        assert base is not None
        p, q = base(-t)
        return law.total[1] - q, law.total[0] - p

    atoms = tuple((-loss, q, p) for loss, p, q in law.atoms)
    return Law(above if base else None, law.total[::-1], atoms, law.q_infinite, law.p_infinite)


def profile(law: Law, t: arb) -> arb:
    """H(e^t) = P(L > t) − e^t Q(L > t), a ball."""
    p, q = law.above(t) if law.above else (zero(), zero())
    total = p - t.exp() * q + law.p_infinite
    for loss, mass, other in law.atoms:
        part = mass - t.exp() * other
        total += part.max(zero()) if not (loss < t) else zero()
    return total


def of_profile(losses: Sequence[arb], heights: Sequence[arb]) -> Law:
    """A law that dominates whatever has H(e^{l_j}) ≤ v_j at increasing l_j: chords between any of the knots will do."""
    t = [zero(), *(loss.exp() for loss in losses)]
    v = [arb(1), *(height.upper().min(arb(1)).max(1 - x) for height, x in zip(heights, t[1:], strict=True))]
    kept: list[int] = []
    for i in range(len(t)):
        while len(kept) > 1:
            j, k = kept[-1], kept[-2]
            if (v[j] - v[k]) * (t[i] - t[j]) < (v[i] - v[j]) * (t[j] - t[k]):
                break
            kept.pop()
        kept.append(i)
    slopes = [(v[b] - v[a]) / (t[b] - t[a]) for a, b in pairwise(kept)] + [zero()]
    atoms: list[Atom] = []
    for index, (before, after) in zip(kept[1:], pairwise(slopes), strict=True):
        q = (after - before).max(zero())
        atoms.append((losses[index - 1], q * t[index], q))
    missing = 1 - sum((q for _, _, q in atoms), zero())
    return Law(atoms=tuple(atoms), p_infinite=v[kept[-1]], q_infinite=missing.max(zero()))


def profiles(law: Law, losses: Sequence[arb]) -> list[arb]:
    """`profile` at many losses, the least first: atoms that are surely larger are added up once."""
    atoms = sorted(law.atoms, key=lambda atom: atom[0].upper())
    p_larger, q_larger, near = zero(), zero(), list[Atom]()
    found = []
    for t in reversed(losses):
        while atoms and not atoms[-1][0] < t:
            near.append(atoms.pop())
        for _, p, q in (atom for atom in near if atom[0] > t):
            p_larger, q_larger = p_larger + p, q_larger + q
        near = [atom for atom in near if not atom[0] > t]
        factor = t.exp()
        beside = sum(((p - factor * q).max(zero()) for _, p, q in near), zero())
        found.append(profile(replace(law, atoms=()), t) + p_larger - factor * q_larger + beside)
    return found[::-1]


def _heights(law: Law, losses: Sequence[arb]) -> list[arb]:
    """H at e^l, below 1 also by that of the other direction, which is less where a law has more than its masses."""
    below = [loss for loss in losses if loss < 0]
    turned = profiles(exchanged(law), [-loss for loss in reversed(below)])[::-1]
    found = profiles(law, losses)
    for k, (loss, other) in enumerate(zip(below, turned, strict=True)):
        found[k] = found[k].min(1 - loss.exp() + loss.exp() * other)
    return found


def group_of_two(first: Law, second: Law, losses: Sequence[arb]) -> Law:
    """The ends of a chain of three data sets: δ(a + b) ≤ δ₁(a) + e^a δ₂(b), the best split over a grid of step h."""
    count = len(losses)
    one, two = _heights(first, losses), _heights(second, losses)
    middle, stride = count // 2, max(1, count // 80)  # losses[middle] = 0

    def split(k: int, i: int) -> arb:
        j = k + middle - i
        return (one[i] + losses[i].exp() * two[j]).upper().min((two[i] + losses[i].exp() * one[j]).upper())

    heights = []
    for k in range(count):
        first_place, last_place = max(0, k + middle - count + 1), min(count - 1, k + middle)
        coarse = {i: split(k, i) for i in range(first_place, last_place + 1, stride)}
        near = min(coarse, key=lambda i: float(coarse[i]))
        fine = range(max(first_place, near - stride), min(last_place, near + stride) + 1)
        heights.append(min((split(k, i) for i in fine), key=float))
    return of_profile(losses, heights)
