"""Truncated batches and what is known by its divergences, as laws in balls."""

from __future__ import annotations

from collections.abc import Callable

from flint import arb

from dpcalc.referee.laws import Law, zero


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
