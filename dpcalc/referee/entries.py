"""From the `mechanisms` of a result to laws, read from its JSON and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flint import arb

from dpcalc.referee import bounded_range, laws, samplers, sums
from dpcalc.referee.bases import Base, base_of, zcdp_runs
from dpcalc.referee.compose import reach, several
from dpcalc.referee.laws import Law


class NotCheckedError(Exception):
    """Why a result is beyond the referee."""


@dataclass(frozen=True)
class Release:
    """`dominating` is at least as bad as the mechanism; `attained` is what some data and mechanism of it reach.

    Either may be unknown. `mu` and `attained_mu` are given where the first or the second is a Gaussian. An `example` of
    what is attained contradicts upper bounds, and says little about lower ones. `last` is what is attained where this
    release, all `count` of it, comes after the outcomes of all others are known.
    """

    dominating: Law | None
    attained: Law | None
    count: int
    mu: arb | None = None
    attained_mu: arb | None = None
    example: bool = False
    last: Law | None = None


@dataclass(frozen=True)
class Effort:
    """About which δ and Rényi order is asked, and how many points a grid of likelihood ratios has, about."""

    delta: float = 1e-6
    order: float = 10.0
    points: int = 2_048


def releases(entry: Mapping[str, Any], adjacency: str, effort: Effort | None = None) -> list[Release]:
    """One entry of a result's `mechanisms`: a release, or a few of different kinds."""
    count, kind = int(entry.get("count", 1)), str(entry.get("type"))
    if kind == "histogram" and not entry.get("sampling"):
        cells = count * int(entry["cells"])
        return releases({**entry, "type": "discrete-gaussian", "count": cells}, adjacency)
    if kind == "exponential" and count <= bounded_range.MOST_RUNS and _scheme(entry) in ("none", "cyclic"):
        return [_chosen(arb(float(entry["epsilon"])), count, (effort or Effort()).order)]
    if kind == "zcdp" and count > 1 and _scheme(entry) in ("none", "cyclic"):
        return [_unsampled(zcdp_runs(arb(float(entry["rho"])), count), arb(1), 1, 0.0)]
    base = base_of(entry)
    if base is None:
        raise NotCheckedError(f"nothing is known here of a mechanism of type {kind}")
    sampling, scheme = entry.get("sampling") or {}, _scheme(entry)
    if scheme == "random-allocation":
        return _allocated(base, sampling, adjacency, count, effort or Effort())
    if scheme == "truncated-poisson":
        return [_truncated(base, sampling, adjacency, count, effort or Effort())]
    sample = _SAMPLERS.get((scheme, adjacency))
    if sample is None or (base.law is None and scheme not in ("none", "cyclic", "shuffled")):
        raise NotCheckedError(f"{scheme} sampling of {kind} under {adjacency}")
    return [sample(base, arb(float(sampling.get("rate", 1.0))), count, (effort or Effort()).delta)]


def _chosen(epsilon: arb, count: int, order: float) -> Release:
    """Exponential mechanisms, the data of each of which may be chosen by all that came before."""
    fixed = Law(atoms=tuple(several(bounded_range.fixed(epsilon, order).atoms, count)))
    if count == 1:
        envelope = laws.bounded_range(epsilon)
        return Release(envelope, fixed, 1, last=envelope)
    return Release(bounded_range.adaptive(epsilon, count), fixed, 1, last=bounded_range.steered(epsilon, count))


def _scheme(entry: Mapping[str, Any]) -> str:
    return str((entry.get("sampling") or {"scheme": "none"}).get("scheme"))


def _allocated(base: Base, sampling: Mapping[str, Any], adjacency: str, count: int, effort: Effort) -> list[Release]:
    """k of t steps: all of them, or blocks of ⌊t/k⌋ and ⌈t/k⌉ of which each has one."""
    steps, selected = int(sampling["steps"]), int(sampling.get("selected", 1))
    if selected == steps:
        if adjacency == "replace-one":
            return [Release(*_replaced(base, "random allocation"), count * steps)]
        return [Release(base.law, base.attained, count * steps, base.mu, base.attained_mu)]
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
        means = sums.mean_of(base.law, length, effort.delta / (count * selected), effort.points)
        if means is None:
            raise NotCheckedError("likelihood ratios of more than e^300")
        above, below = means
        if adjacency == "replace-one":
            above = _chained(above, effort.delta / (count * selected))
        attained = below if selected == 1 and base.attained is base.law else None
        found.append(Release(above, attained, count * copies))
    return found


def _replaced(base: Base, what: str) -> tuple[Law, Law | None]:
    """What dominates replacing a record, and what is attained."""
    other = None if base.replaced is None else base.replaced()
    if other is None or other.law is None:
        raise NotCheckedError(f"{what} of what no conversion to replacing a record is known for")
    return other.law, other.attained


def _truncated(base: Base, sampling: Mapping[str, Any], adjacency: str, count: int, effort: Effort) -> Release:
    """Added to a batch with room, or in the place of another record.

    Where the others contribute nothing it is sampled at the rate at which it stays, E min(M, B)/n for M ~ Bin(n, q).
    """
    rate, largest = arb(float(sampling["rate"])), int(sampling["largest_batch"])
    size = int(sampling["dataset_size"])
    fewer, more = (samplers.overflow(trials, rate, largest) for trials in (size - 1, size))
    other, _ = _replaced(base, "truncated Poisson batches")
    assert base.law is not None
    replaced, added = laws.mixed(other, rate * largest / (largest + 1)), laws.mixed(base.law, rate)
    whole = samplers.blended(added, replaced, (1 - fewer, more))
    stays = rate * (1 - samplers.overflow(size - 1, rate, largest - 1)) + largest * more / size
    attained = _SAMPLERS["poisson", adjacency](base, stays, count, effort.delta).attained
    return Release(whole if adjacency == "add-remove" else _chained(whole, effort.delta / count), attained, count)


def _unsampled(base: Base, _: arb, count: int, __: float) -> Release:
    return Release(base.law, base.attained, count, base.mu, base.attained_mu, base.example)


def _shuffled(base: Base, _: arb, count: int, __: float) -> Release:
    return Release(base.law, None, count)


def _mixed(laws_of: tuple[Law | None, Law | None], rate: arb) -> tuple[Law, Law | None]:
    """The same on a batch that holds the record with this probability; an example of what is attained says little."""
    law, attained = laws_of
    assert law is not None
    mixture = laws.mixed(law, rate)
    return mixture, mixture if attained is law else None


def _poisson(base: Base, rate: arb, count: int, _: float) -> Release:
    """Of what is described by a curve, an example that is sampled is one too."""
    if base.example and base.law is not None and base.attained is not None:
        return Release(laws.mixed(base.law, rate), laws.mixed(base.attained, rate), count, example=True)
    return Release(*_mixed((base.law, base.attained), rate), count)


def _replaced_poisson(base: Base, rate: arb, count: int, delta: float) -> Release:
    """A record becomes its opposite, noise being on a line; otherwise replacing is removing and adding.

    What it reaches where it is removed it reaches where it is replaced by one that adds nothing.
    """
    if base.turned is not None and rate < 1:
        replaced = base.turned(rate)
        return Release(replaced, replaced, count)
    mixture, attained = _mixed((base.law, base.attained), rate)
    return Release(_chained(mixture, delta / count), attained, count)


def _fixed_size(base: Base, rate: arb, count: int, _: float) -> Release:
    """Several steps attain the one-sided mixture; a single one attains both sides of it."""
    mixture, attained = _mixed((base.law, base.attained), rate)
    whole = laws.symmetrised(mixture)
    return Release(whole, attained and (whole if count == 1 else mixture), count)


def _fixed_size_added(base: Base, rate: arb, count: int, _: float) -> Release:
    """A batch with the record becomes one without it by replacing it."""
    return Release(*_mixed(_replaced(base, "fixed-size sampling under add-remove"), rate), count)


_CHAIN, _FAR = 1201, 1e-4  # points of the grid of a group of two, and what of δ may lie beyond it


def _chained(law: Law, delta: float) -> Law:
    """The ends of a removal and an addition, on losses up to the sum of any two that matter."""
    step = 2 * max(abs(end) for end in reach(law, arb(_FAR * delta))) / (_CHAIN // 2)
    losses = [arb(step) * (k - _CHAIN // 2) for k in range(_CHAIN)]
    return laws.group_of_two(law, laws.exchanged(law), losses)


_SAMPLERS: Mapping[tuple[str, str], Callable[[Base, arb, int, float], Release]] = {
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
