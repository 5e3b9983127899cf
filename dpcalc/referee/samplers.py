"""Random allocation and truncated batches as laws in balls, on a uniform grid of the likelihood ratio itself.

One of t steps, drawn uniformly, runs under P: X = (Z₁ + … + Z_t)/t. *Above*, every Z is split onto multiples of h with
its P- and Q-mass kept, and the t-th power of the polynomial of weights is the law of the sum; what is not kept is put
onto 0 and ∞. *Below*, names of cells are added: Q-masses b^t and P-masses a·b^{t-1}; what is not kept is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb, arb_poly

from dpcalc.referee.compose import reach
from dpcalc.referee.laws import Atom, Law, zero

_FINE = 16  # points to a standard deviation of Z
_RARE = 1e-3  # of δ, for what leaves the grid


def mean_of(law: Law, steps: int, delta: float, most: int) -> tuple[Law, Law] | None:
    """Laws above and below that of 1 of `steps`; None if the grid would have more than `most` points."""
    low, high = reach(law, arb(_RARE * delta / steps))[0], reach(law, arb(_RARE * delta))[1]
    if high > 300:
        return None
    lowest, highest = math.exp(low), math.exp(high)
    h = 2.0 ** math.floor(math.log2(_deviation(law, lowest, highest) / _FINE))
    while h > lowest and _below_value(law, h) ** steps > _RARE * delta:
        h /= 2  # so that all terms together are hardly ever 0
    first, last = max(math.floor(lowest / h) - 1, 0), math.ceil(highest / h) + 1
    if last - first > most:
        return None
    upper, p, q = _terms(law, arb(h), first, last)
    length = min((last - first) * steps + 1, last - first + _spread(law, steps, h, lowest, highest))
    if length > most:
        return None
    whole, names_q = _power(upper, steps, length), _power(q, steps - 1, length)
    names_p, names_q = (arb_poly((row * names_q).coeffs()[:length]) for row in (p, q))
    return _above(whole, arb(h), first * steps, steps), _below(names_p, names_q)


def _below_value(law: Law, value: float) -> float:
    """About the Q-mass of smaller ratios."""
    loss = arb(value).log()
    continuous = law.total[1] - law.above(loss)[1] if law.above is not None else zero()
    return float((continuous + sum((q for at, _, q in law.atoms if at < loss), zero())).mid())


def _power(base: arb_poly, count: int, length: int) -> arb_poly:
    """The lowest coefficients of a power."""
    whole = base
    for bit in bin(count)[3:]:
        whole = arb_poly((whole * whole).coeffs()[:length])
        if bit == "1":
            whole = arb_poly((whole * base).coeffs()[:length])
    return whole


def _above(weights: arb_poly, h: arb, start: int, steps: int) -> Law:
    atoms: list[Atom] = []
    p_kept = q_kept = zero()
    for index, weight in enumerate(weights.coeffs()):
        place = start + index
        mass = weight.max(zero())
        if place == 0 or not mass > 0:
            continue
        x = h * place / steps
        atoms.append((x.log(), mass * x, mass))
        p_kept, q_kept = p_kept + mass * x, q_kept + mass
    return Law(
        atoms=tuple(atoms), p_infinite=(1 - p_kept).max(zero()).upper(), q_infinite=(1 - q_kept).max(zero()).upper()
    )


def _below(p: arb_poly, q: arb_poly) -> Law:
    atoms: list[Atom] = []
    for a, b in zip(p.coeffs(), q.coeffs(), strict=False):
        if a > 0 and b > 0:
            atoms.append(((a / b).log(), a, b))
    return Law(atoms=tuple(atoms))


def _deviation(law: Law, lowest: float, highest: float) -> float:
    """About the standard deviation of Z under Q, of which nothing depends but how fine the grid is."""
    count = 400
    edges = [lowest + (highest - lowest) * (k / count) ** 3 for k in range(count + 1)]
    total = square = mean = 0.0
    if law.above is not None:
        masses = [float(law.above(arb(max(edge, 1e-300)).log())[1].mid()) for edge in edges]
        for k in range(count):
            weight, z = masses[k] - masses[k + 1], (edges[k] + edges[k + 1]) / 2
            total, mean, square = total + weight, mean + weight * z, square + weight * z * z
    for loss, _, q in law.atoms:
        weight, z = float(q.mid()), math.exp(float(loss.mid()))
        total, mean, square = total + weight, mean + weight * z, square + weight * z * z
    return max(math.sqrt(max(square / total - (mean / total) ** 2, 0.0)), 1e-9)


def _spread(law: Law, steps: int, h: float, lowest: float, highest: float) -> int:
    """Points that the sum of all but one term takes, from its smallest value to many deviations above its mean."""
    deviation = _deviation(law, lowest, highest)
    return math.ceil((steps * (1 - lowest) + 14 * math.sqrt(steps) * deviation) / h) + 16


def _terms(law: Law, h: arb, first: int, last: int) -> tuple[arb_poly, arb_poly, arb_poly]:
    """One Z: weights above on the points first … last, and P- and Q-masses of the cells around them."""
    count = last - first + 1
    upper, p_cells, q_cells = ([zero() for _ in range(count)] for _ in range(3))

    def at(half_steps: int) -> tuple[arb, arb]:
        assert law.above is not None
        return law.total if half_steps <= 0 else law.above((h * half_steps / 2).log())

    if law.above is not None:
        edges = [at(2 * (first + k)) for k in range(count)]
        halves = [at(2 * (first + k) - 1) for k in range(count + 1)]
        for k in range(count - 1):
            masses = edges[k][0] - edges[k + 1][0], edges[k][1] - edges[k + 1][1]
            _split(upper, (k, k + 1), (h * (first + k), h * (first + k + 1)), masses)
        for k in range(count):
            p_cells[k] += halves[k][0] - halves[k + 1][0]
            q_cells[k] += halves[k][1] - halves[k + 1][1]
    for loss, p, q in law.atoms:
        place = loss.exp() / h
        left, right = math.floor(float(place.lower())) - first, math.ceil(float(place.upper())) - first
        if left < 0 or right >= count:
            continue
        right = max(right, left + 1)
        _split(upper, (left, right), (h * (first + left), h * (first + right)), (p, q))
        nearest = round(float(place.mid())) - first
        p_cells[nearest] += p
        q_cells[nearest] += q
    if first == 0:  # an outcome that only Q has is a ratio of 0
        upper[0] += law.q_infinite
        q_cells[0] += law.q_infinite
    return arb_poly(upper), arb_poly(p_cells), arb_poly(q_cells)


def _split(upper: list[arb], ends: tuple[int, int], values: tuple[arb, arb], masses: tuple[arb, arb]) -> None:
    """What lies between two points, on them, P- and Q-mass kept."""
    (low, high), (p, q) = values, masses
    up = (p - q * low) / (high - low)
    upper[ends[0]] += q - up
    upper[ends[1]] += up


def blended(first: Law, second: Law, weights: tuple[arb, arb]) -> Law:
    """One of two laws, drawn alike in both worlds with at most these probabilities; more than 1 in all if unknown."""
    one, two = weights

    def above(t: arb) -> tuple[arb, arb]:
        p = q = zero()
        for law, weight in ((first, one), (second, two)):
            if law.above is not None:
                a, b = law.above(t)
                p, q = p + weight * a, q + weight * b
        return p, q

    atoms = [
        (loss, weight * p, weight * q) for law, weight in ((first, one), (second, two)) for loss, p, q in law.atoms
    ]
    continuous: Callable[[arb], tuple[arb, arb]] | None = above if first.above or second.above else None
    return Law(
        continuous,
        (one * first.total[0] + two * second.total[0], one * first.total[1] + two * second.total[1]),
        tuple(atoms),
        one * first.p_infinite + two * second.p_infinite,
        one * first.q_infinite + two * second.q_infinite,
    )


def overflow(trials: int, rate: arb, least: int) -> arb:
    """P(Bin(trials, rate) ≥ least)."""
    if least > trials:
        return zero()
    if least <= 0:
        return arb(1)
    return arb(rate).beta_lower(least, trials - least + 1, regularized=True)


def heights(divergence: Callable[[arb], arb | None], losses: list[arb]) -> list[arb]:
    """Heights of δ(e^l), at increasing losses, of whatever has these Rényi divergences in both directions.

    δ(ε) ≤ e^{(α-1)(ρ(α)-ε)}(1 - 1/α)^{α-1}/α for every α (Canonne, Kamath, Steinke 2020); below t = 1 it is
    1 - t + t·δ′(1/t), with δ′ of the other direction.
    """
    orders = [arb(1) + arb(2) ** (arb(k) / 3) / 16 for k in range(48)]
    known = [(order, value) for order in orders if (value := divergence(order)) is not None]

    def delta(loss: arb) -> arb:
        best = arb(1)
        for order, value in known:
            log_delta = (order - 1) * (value - loss) + (order - 1) * (1 - 1 / order).log() - order.log()
            best = best.min(log_delta.exp().upper())
        return best

    return [delta(loss) if loss >= 0 else 1 - loss.exp() + loss.exp() * delta(-loss) for loss in losses]
