"""From one entry of a result's `mechanisms`, without its sampling, to laws: read from the JSON and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flint import arb, arb_poly, ctx

from dpcalc.referee import divergences, laws, renyi, turned
from dpcalc.referee.laws import Law


@dataclass(frozen=True)
class Base:
    """`law` dominates the mechanism and `attained` is what it reaches on some data, either None where unknown.

    `mu` and `attained_mu` are given where the first or the second is a Gaussian; of mechanisms that are described by a
    curve it is an `example`, and others may be worse. `turned` and `replaced` are asked only
    of what is stated for adding or removing a record: it is sampled at a rate and becomes its opposite, or it is
    replaced by another.
    """

    law: Law | None
    attained: Law | None
    mu: arb | None = None
    attained_mu: arb | None = None
    example: bool = False
    turned: Callable[[arb], Law] | None = None
    replaced: Callable[[], Base] | None = None


def base_of(entry: Mapping[str, Any]) -> Base | None:
    """The laws of an entry; None for a type of which nothing is known here."""
    known = _BASES.get(str(entry.get("type")))
    return None if known is None else known(entry)


def _value(entry: Mapping[str, Any], name: str) -> arb:
    return arb(float(entry[name]))


def _normal(mu: arb) -> Base:
    law = laws.gaussian(mu)
    return Base(law, law, mu, mu, turned=partial(turned.turned_gaussian, mu), replaced=lambda: _normal(2 * mu))


def _gaussian(entry: Mapping[str, Any]) -> Base:
    if "noise_multiplier" in entry:
        return _normal(1 / _value(entry, "noise_multiplier"))
    return _normal(_value(entry, "sensitivity") / _value(entry, "sigma"))


def _laplace(epsilon: arb) -> Base:
    law = laws.laplace(epsilon)
    return Base(law, law, turned=partial(turned.turned_laplace, epsilon), replaced=lambda: _laplace(2 * epsilon))


def _two_links(epsilon: arb) -> Base:
    law = laws.two_links(epsilon)
    return Base(law, law)


def _randomized_response(entry: Mapping[str, Any]) -> Base:
    if "p" in entry:
        law = laws.answers(_value(entry, "p"), int(entry["k"]))
        return Base(law, law)
    return _declared({**entry, "delta": 0.0})


def _declared(entry: Mapping[str, Any]) -> Base:
    """Two links of (ε,δ)-DP are (2ε, (1 + e^ε)δ)-DP, and without δ known exactly."""
    epsilon, delta = _value(entry, "epsilon"), arb(float(entry.get("delta", 0.0)))
    law = laws.two_points(epsilon, delta)
    if delta.is_zero():
        return Base(law, law, replaced=lambda: _two_links(epsilon))
    more = ((1 + epsilon.exp()) * delta).upper().min(arb(1))
    return Base(law, law, replaced=lambda: Base(laws.two_points(2 * epsilon, more), None))


def _exponential(epsilon: arb) -> Base:
    """Scores that move in opposite directions are a randomised response of half the ε; ranges of two links add."""
    reached = laws.two_points(epsilon / 2, arb(0))
    return Base(laws.bounded_range(epsilon), reached, replaced=lambda: _exponential(2 * epsilon))


def _staircase(entry: Mapping[str, Any]) -> Base:
    """What it reaches by replacing is at least what it reaches by removing: the other record may add nothing."""
    epsilon = _value(entry, "epsilon")
    law = laws.staircase(epsilon, _value(entry, "gamma"))
    return Base(law, law, replaced=lambda: Base(laws.two_links(epsilon), law))


def _discrete_laplace(scale: arb, shift: int) -> Base:
    law = laws.discrete_laplace(scale, shift)
    opposite = partial(turned.turned_discrete_laplace, scale, shift)
    return Base(law, law, turned=opposite, replaced=lambda: _discrete_laplace(scale, 2 * shift))


def _discrete_gaussian(sigma: arb, shift: int) -> Base:
    noise = laws.integer_gaussian(sigma, shift, ctx.prec)
    law = laws.discrete(*noise, shift)
    opposite = partial(turned.turned_discrete_gaussian, *noise, shift)
    return Base(law, law, turned=opposite, replaced=lambda: _discrete_gaussian(sigma, 2 * shift))


def _histogram(sigma: arb, cells: int, shift: int) -> Base:
    """A cell has the loss Δ(x + Δ/2)/σ² at x, so that all cells together depend on the sum of their places alone."""
    mass, tail = laws.integer_gaussian(sigma, shift, ctx.prec)
    reach = len(mass) - 1
    together = arb_poly([mass[abs(x)] for x in range(-reach, reach + 1)]) ** cells
    atoms = []
    for index, p in enumerate(together.coeffs()):
        loss = arb(shift) / sigma**2 * (index - cells * reach + arb(cells * shift) / 2)
        atoms.append((loss, p, p * (-loss).exp()))
    # Outcomes with a place that is not kept under P, or is not under Q, are put onto ±∞.
    beyond = cells * 2 * (tail + sum(mass[max(reach - shift, 0) + 1 :], laws.zero()))
    law = Law(atoms=tuple(atoms), p_infinite=beyond, q_infinite=beyond)
    return Base(law, law, replaced=lambda: _histogram(sigma, 2 * cells, shift))


def _zcdp(entry: Mapping[str, Any]) -> Base:
    """The Gaussian of μ = √(2ρ) is one of the mechanisms described; two links are 4ρ-zCDP."""
    return zcdp_runs(_value(entry, "rho"), 1)


def zcdp_runs(rho: arb, count: int) -> Base:
    """So many adaptive ρ-zCDP mechanisms: one of count·ρ-zCDP, and nearly Gaussian where they are many."""
    whole = count * rho
    mu = (2 * whole).sqrt()
    orders = [1 + 0.02 * 1.12**k / math.sqrt(float(whole)) for k in range(60)]
    above = None if count == 1 else divergences.gaussian_above(rho, count)
    law = divergences.law_of(lambda order: order * whole, orders, above)
    return Base(law, laws.gaussian(mu), None, mu, example=True, replaced=lambda: zcdp_runs(4 * rho, count))


def _rdp(entry: Mapping[str, Any]) -> Base:
    bare = {key: value for key, value in entry.items() if key != "sampling"}
    orders = [float(order) for order in entry["orders"]]
    return Base(divergences.law_of(lambda order: renyi.divergence(bare, "add-remove", order), orders), None)


_BASES: Mapping[str, Callable[[Mapping[str, Any]], Base]] = {
    "gaussian": _gaussian,
    "gdp": lambda entry: _normal(_value(entry, "mu")),
    "laplace": lambda entry: _laplace(_value(entry, "sensitivity") / _value(entry, "scale")),
    "discrete-gaussian": lambda entry: _discrete_gaussian(_value(entry, "sigma"), int(entry["sensitivity"])),
    "discrete-laplace": lambda entry: _discrete_laplace(_value(entry, "scale"), int(entry["sensitivity"])),
    "histogram": lambda entry: _histogram(_value(entry, "sigma"), int(entry["cells"]), int(entry["sensitivity"])),
    "randomized-response": _randomized_response,
    "dp": _declared,
    "exponential": lambda entry: _exponential(_value(entry, "epsilon")),
    "staircase": _staircase,
    "zcdp": _zcdp,
    "rdp": _rdp,
}
