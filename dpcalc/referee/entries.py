"""From the `mechanisms` of a result to laws, read from its JSON and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from dpcalc.referee import bounded_range, laws, renyi, samplers, turned
from dpcalc.referee.laws import Law


class NotCheckedError(Exception):
    """Why a result is beyond the referee."""


@dataclass(frozen=True)
class Release:
    """`dominating` is at least as bad as the mechanism; `attained` is what some data and mechanism of it reach.

    Either may be unknown. `mu` and `attained_mu` are given where the first or the second is a Gaussian.
    """

    dominating: Law | None
    attained: Law | None
    count: int
    mu: arb | None = None
    attained_mu: arb | None = None


@dataclass(frozen=True)
class _Base:
    law: Law | None
    attained: Law | None
    mu: arb | None = None
    attained_mu: arb | None = None
    turned: Callable[[arb], Law] | None = None  # sampled at a rate, and replaced by its opposite


@dataclass(frozen=True)
class Effort:
    """About which δ is asked, and how many points a grid of likelihood ratios may have."""

    delta: float = 1e-6
    points: int = 60_000


def releases(entry: Mapping[str, Any], adjacency: str, effort: Effort | None = None) -> list[Release]:
    """One entry of a result's `mechanisms`: a release, or a few of different kinds."""
    count, kind = int(entry.get("count", 1)), str(entry.get("type"))
    if kind == "histogram" and not entry.get("sampling"):
        cells = count * int(entry["cells"])
        return releases({**entry, "type": "discrete-gaussian", "count": cells}, adjacency)
    if kind == "exponential" and 1 < count <= bounded_range.MOST_RUNS and _scheme(entry) in ("none", "cyclic"):
        epsilon = _value(entry, "epsilon")
        delta = (effort or Effort()).delta
        return [Release(bounded_range.adaptive(epsilon, count), bounded_range.steered(epsilon, count, delta), 1)]
    if kind not in _BASES:
        raise NotCheckedError(f"nothing is known here of a mechanism of type {kind}")
    base = _BASES[kind](entry)
    sampling, scheme = entry.get("sampling") or {}, _scheme(entry)
    if scheme == "random-allocation":
        return _allocated(base, sampling, adjacency, count, effort or Effort())
    if scheme == "truncated-poisson":
        return [_truncated(base, sampling, adjacency, count)]
    sample = _SAMPLERS.get((scheme, adjacency))
    if sample is None or (base.law is None and scheme not in ("none", "cyclic", "shuffled")):
        raise NotCheckedError(f"{scheme} sampling of {kind} under {adjacency}")
    return [sample(base, arb(float(sampling.get("rate", 1.0))), count)]


def _scheme(entry: Mapping[str, Any]) -> str:
    return str((entry.get("sampling") or {"scheme": "none"}).get("scheme"))


def _allocated(base: _Base, sampling: Mapping[str, Any], adjacency: str, count: int, effort: Effort) -> list[Release]:
    """k of t steps: all of them, or blocks of ⌊t/k⌋ and ⌈t/k⌉ of which each has one."""
    steps, selected = int(sampling["steps"]), int(sampling.get("selected", 1))
    if selected == steps:
        law, attained = (base.law, base.attained) if adjacency == "add-remove" else (None, None)
        return [Release(law, attained, count * steps, *((base.mu, base.attained_mu) if law else (None, None)))]
    if base.law is None:
        raise NotCheckedError("random allocation of what is known by its divergences alone")
    size, larger = divmod(steps, selected)
    found = []
    for length, copies in ((size, selected - larger), (size + 1, larger)):
        if copies == 0:
            continue
        if length == 1:
            found.append(Release(base.law, None, count * copies))
            continue
        means = samplers.mean_of(base.law, length, effort.delta / (count * selected), effort.points)
        if means is None:
            raise NotCheckedError("likelihood ratios that reach too far for a uniform grid, but for the nightly size")
        above, below = means
        if adjacency == "replace-one":
            above = laws.group_of_two(above, laws.exchanged(above), _chain_losses())
        attained = below if selected == 1 and base.attained is base.law else None
        found.append(Release(above, attained, count * copies))
    return found


def _truncated(base: _Base, sampling: Mapping[str, Any], adjacency: str, count: int) -> Release:
    """Added to a batch with room, or in the place of another record: twice the sensitivity."""
    if base.mu is None or base.law is None or adjacency != "add-remove":
        raise NotCheckedError("truncated Poisson batches of anything but Gaussians under add-remove")
    rate, largest = arb(float(sampling["rate"])), int(sampling["largest_batch"])
    size = int(sampling["dataset_size"])
    fewer, more = (samplers.overflow(trials, rate, largest) for trials in (size - 1, size))
    replaced = laws.mixed(laws.gaussian(2 * base.mu), rate * largest / (largest + 1))
    added = laws.mixed(base.law, rate)
    return Release(samplers.blended(added, replaced, (1 - fewer, more)), None, count)


def _unsampled(base: _Base, _: arb, count: int) -> Release:
    return Release(base.law, base.attained, count, base.mu, base.attained_mu)


def _shuffled(base: _Base, _: arb, count: int) -> Release:
    return Release(base.law, None, count)


def _poisson(base: _Base, rate: arb, count: int) -> Release:
    assert base.law is not None
    mixture = laws.mixed(base.law, rate)
    return Release(mixture, mixture if base.attained is base.law else None, count)


def _replaced_poisson(base: _Base, rate: arb, count: int) -> Release:
    """A record becomes its opposite, noise being on a line; otherwise replacing is removing and adding."""
    assert base.law is not None
    if base.turned is not None and rate < 1:
        replaced = base.turned(rate)
        return Release(replaced, replaced, count)
    mixture = laws.mixed(base.law, rate)
    return Release(laws.group_of_two(mixture, laws.exchanged(mixture), _chain_losses()), None, count)


def _fixed_size(base: _Base, rate: arb, count: int) -> Release:
    """Several steps attain the one-sided mixture; a single one attains both sides of it."""
    assert base.law is not None
    mixture = laws.mixed(base.law, rate)
    whole = laws.symmetrised(mixture)
    attained = whole if count == 1 else mixture
    return Release(whole, attained if base.attained is base.law else None, count)


def _fixed_size_added(base: _Base, rate: arb, count: int) -> Release:
    """A batch with the record becomes one without it by replacing it: twice the sensitivity at worst."""
    if base.mu is None or base.law is None:
        raise NotCheckedError("fixed-size sampling under add-remove of anything but Gaussians")
    return Release(laws.mixed(laws.gaussian(2 * base.mu), rate), laws.mixed(base.law, rate), count)


_CHAIN, _CHAIN_STEP = 401, arb(1) / 16  # the grid of a group of two


def _chain_losses() -> list[arb]:
    return [_CHAIN_STEP * (k - _CHAIN // 2) for k in range(_CHAIN)]


_SAMPLERS: Mapping[tuple[str, str], Callable[[_Base, arb, int], Release]] = {
    ("none", "add-remove"): _unsampled,
    ("none", "replace-one"): _unsampled,
    ("cyclic", "add-remove"): _unsampled,
    ("cyclic", "replace-one"): _unsampled,
    ("shuffled", "add-remove"): _shuffled,
    ("shuffled", "replace-one"): _shuffled,
    ("poisson", "add-remove"): _poisson,
    ("poisson", "replace-one"): _replaced_poisson,
    ("fixed-size", "replace-one"): _fixed_size,
    ("fixed-size", "add-remove"): _fixed_size_added,
}


def _value(entry: Mapping[str, Any], name: str) -> arb:
    return arb(float(entry[name]))


def _exactly(law: Law, mu: arb | None = None, turned: Callable[[arb], Law] | None = None) -> _Base:
    return _Base(law, law, mu, mu, turned)


def _normal(mu: arb) -> _Base:
    return _exactly(laws.gaussian(mu), mu, lambda rate: turned.turned_gaussian(mu, rate))


def _laplace(entry: Mapping[str, Any]) -> _Base:
    epsilon = _value(entry, "sensitivity") / _value(entry, "scale")
    return _exactly(laws.laplace(epsilon), None, lambda rate: turned.turned_laplace(epsilon, rate))


def _gaussian(entry: Mapping[str, Any]) -> _Base:
    if "noise_multiplier" in entry:
        mu = 1 / _value(entry, "noise_multiplier")
    else:
        mu = _value(entry, "sensitivity") / _value(entry, "sigma")
    return _normal(mu)


def _randomized_response(entry: Mapping[str, Any]) -> _Base:
    if "p" in entry:
        return _exactly(laws.answers(_value(entry, "p"), int(entry["k"])))
    return _exactly(laws.two_points(_value(entry, "epsilon"), arb(0)))


def _exponential(entry: Mapping[str, Any]) -> _Base:
    """Scores that move in opposite directions are a randomised response of half the ε."""
    epsilon = _value(entry, "epsilon")
    return _Base(laws.bounded_range(epsilon), laws.two_points(epsilon / 2, arb(0)))


def _discrete_laplace(entry: Mapping[str, Any]) -> _Base:
    scale, shift = _value(entry, "scale"), int(entry["sensitivity"])
    law = laws.discrete_laplace(scale, shift)
    return _exactly(law, None, lambda rate: turned.turned_discrete_laplace(scale, shift, rate))


def _discrete_gaussian(entry: Mapping[str, Any]) -> _Base:
    shift = int(entry["sensitivity"])
    noise = laws.integer_gaussian(_value(entry, "sigma"), shift, ctx.prec)
    law = laws.discrete(*noise, shift)
    return _exactly(law, None, lambda rate: turned.turned_discrete_gaussian(*noise, shift, rate))


def _zcdp(entry: Mapping[str, Any]) -> _Base:
    """The Gaussian of μ = √(2ρ) is one of the mechanisms described."""
    mu = (2 * _value(entry, "rho")).sqrt()
    return _Base(_of_divergences(entry), laws.gaussian(mu), None, mu)


def _of_divergences(entry: Mapping[str, Any]) -> Law:
    """A law with every δ(ε) that the divergences allow, at losses from very small to very large ones."""
    sizes = [arb("0.001") * arb("1.08") ** k for k in range(145)]
    losses = [*(-size for size in reversed(sizes)), arb(0), *sizes]
    bare = {key: value for key, value in entry.items() if key != "sampling"}
    heights = samplers.heights(lambda order: renyi.divergence(bare, "add-remove", order), losses)
    return laws.of_profile(losses, heights)


_BASES: Mapping[str, Callable[[Mapping[str, Any]], _Base]] = {
    "gaussian": _gaussian,
    "gdp": lambda entry: _normal(_value(entry, "mu")),
    "laplace": _laplace,
    "discrete-gaussian": _discrete_gaussian,
    "discrete-laplace": _discrete_laplace,
    "randomized-response": _randomized_response,
    "dp": lambda entry: _exactly(laws.two_points(_value(entry, "epsilon"), arb(float(entry.get("delta", 0.0))))),
    "exponential": _exponential,
    "staircase": lambda entry: _exactly(laws.staircase(_value(entry, "epsilon"), _value(entry, "gamma"))),
    "zcdp": _zcdp,
    "rdp": lambda entry: _Base(_of_divergences(entry), None),
}
