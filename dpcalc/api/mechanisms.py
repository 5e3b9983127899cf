"""Entries of a spec as values: the same names, ranges and meanings as in YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

# A number, a fraction such as "256/60000", or "solve".
Number = float | str


@dataclass(frozen=True, kw_only=True, repr=False)
class Mechanism:
    """What every entry may have: a name, how often it runs, and how the records of a batch are drawn.

    `sampling` is "poisson", "fixed-size", "cyclic", "shuffled" or "random-allocation", with `rate`, or `batch_size` and
    `dataset_size`, beside it, or a mapping with `scheme` and its keys, as in a spec. One number of all may be the word
    "solve", for `calibrate`.
    """

    type: ClassVar[str]

    name: str | None = None
    count: int | str = 1
    sampling: str | Mapping[str, Any] | None = None
    rate: Number | None = None
    batch_size: int | str | None = None
    dataset_size: int | None = None

    def spec(self) -> dict[str, Any]:
        """The entry as it would stand in a spec."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        kept = {key: _plain(value) for key, value in given.items() if value is not None}
        return {"type": self.type, **kept}

    def __repr__(self) -> str:
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        told = [
            f"{key}={value!r}" for key, value in shown.items() if value is not None and (key, value) != ("count", 1)
        ]
        return f"{type(self).__name__}({', '.join(told)})"


def _plain(value: Any) -> Any:
    """Numbers of other libraries as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(Mechanism):
    """Gaussian noise: `noise_multiplier`, or `sigma` and `sensitivity`."""

    type = "gaussian"
    noise_multiplier: Number | None = None
    sigma: Number | None = None
    sensitivity: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Laplace(Mechanism):
    """Laplace noise: `scale` and the ℓ1 `sensitivity`, or `epsilon`."""

    type = "laplace"
    scale: Number | None = None
    sensitivity: Number | None = None
    epsilon: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteGaussian(Mechanism):
    """Gaussian noise on the integers: `sigma` and a whole `sensitivity`."""

    type = "discrete-gaussian"
    sigma: Number | None = None
    sensitivity: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Histogram(Mechanism):
    """Counts with discrete Gaussian noise of `sigma` in every cell; a record moves at most `cells` of them by 1."""

    type = "histogram"
    sigma: Number | None = None
    cells: int | str | None = None
    sensitivity: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteLaplace(Mechanism):
    """Laplace noise on the integers: `scale` and a whole `sensitivity`."""

    type = "discrete-laplace"
    scale: Number | None = None
    sensitivity: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Exponential(Mechanism):
    """The exponential mechanism, of `epsilon`-bounded range."""

    type = "exponential"
    epsilon: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RandomizedResponse(Mechanism):
    """The worst pair of an `epsilon`-DP mechanism, or k-ary randomised response by `p` and `k`."""

    type = "randomized-response"
    epsilon: Number | None = None
    p: Number | None = None
    k: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Staircase(Mechanism):
    """The least noise of all `epsilon`-DP mechanisms; `gamma` is the length of its first stair, by default the best."""

    type = "staircase"
    epsilon: Number | None = None
    gamma: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DPSGD(Mechanism):
    """A training run; the noise is relative to the clip. `sampling` and `epochs` or `steps` are needed."""

    type = "dp-sgd"
    noise_multiplier: Number | None = None
    epochs: Number | None = None
    steps: int | str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DP(Mechanism):
    """A declared (`epsilon`, `delta`) guarantee."""

    type = "dp"
    epsilon: Number | None = None
    delta: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class GDP(Mechanism):
    """A declared `mu`-GDP guarantee."""

    type = "gdp"
    mu: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ZCDP(Mechanism):
    """A declared `rho`-zCDP guarantee."""

    type = "zcdp"
    rho: Number | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RDP(Mechanism):
    """A declared RDP guarantee: `epsilons` at `orders`."""

    type = "rdp"
    orders: Sequence[float] = ()
    epsilons: Sequence[float] = ()
