"""The types an entry may have. Each is one line of a registry: its keys, and the mechanism they describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.spec.fields import Reader


@dataclass(frozen=True)
class EntryType:
    """What `type: NAME` means: the keys of its own, and how they make a mechanism under an adjacency.

    `moves`: the noise is relative to how far a record moves a query, which has a meaning under both adjacencies;
    what is stated as a guarantee holds only for the adjacency it was stated for. `is_run`: it has steps or epochs.
    """

    keys: tuple[str, ...]
    build: Callable[[Reader, Adjacency], Mechanism]
    moves: bool = False
    is_run: bool = False


def _gaussian(entry: Reader, adjacency: Adjacency) -> Mechanism:
    if entry.form(("noise_multiplier",), ("sigma", "sensitivity")) == 0:
        multiplier = entry.number("noise_multiplier")
    else:
        multiplier = _ratio(entry, "sigma")
    return Gaussian(noise_multiplier=multiplier, adjacency=adjacency)


def _ratio(entry: Reader, key: str) -> float:
    """Noise relative to the sensitivity, which must be stated: there is no natural one."""
    ratio = entry.number(key) / entry.number("sensitivity")
    if not 0 < ratio < math.inf:
        entry.values[key].fail(f"{key} / sensitivity is {ratio:g}, beyond what can be computed with")
    return ratio


def _laplace(entry: Reader, adjacency: Adjacency) -> Mechanism:
    _ratio(entry, "scale")
    return Laplace(scale=entry.number("scale"), sensitivity=entry.number("sensitivity"), adjacency=adjacency)


def _dp_sgd(entry: Reader, adjacency: Adjacency) -> Mechanism:
    """Noise relative to the clip norm: replacing a record moves a sum of clipped gradients by twice the clip."""
    run = Gaussian(noise_multiplier=entry.number("noise_multiplier"), adjacency="add-remove")
    return run if adjacency == "add-remove" else run.as_replace_one()


ENTRY_TYPES: Mapping[str, EntryType] = {
    "gaussian": EntryType(("noise_multiplier", "sigma", "sensitivity"), _gaussian, moves=True),
    "laplace": EntryType(("scale", "sensitivity"), _laplace, moves=True),
    "dp-sgd": EntryType(("noise_multiplier", "epochs", "steps"), _dp_sgd, moves=True, is_run=True),
}
