"""A record's norms under Poisson sampling, kept as integer counts in buckets: whatever they come to is never less.

One step is P = (1−q)N(0,1) + qN(m,1) against Q = N(0,1) with m = norm/σ. H_m(t) = sup(P − tQ) is q times a
Black–Scholes call of volatility m and strike (t−1+q)/q (1−t for t ≤ 1−q). Its second derivative in m over its first is
d₁d₂/m ≥ −m/4, so for every t it is convex in s(m) = 2Φ(m/2) − 1. Between neighbouring edges a ≤ m ≤ b, with
s(m) = (1−w)s(a) + w·s(b),

    H_m ≤ (1−w)H_a + w·H_b:

a step is dominated, in both directions at once, by a public coin between the steps of the two edges. Edge 0 is "nothing
happens", edge ∞ "P is told apart whenever the record is drawn". H rises with m, so norms and w may be rounded up: a
bucket holds the number of its steps and Σw in units of 1/256, the same in whatever order and blocks the log comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats, Indices
from dpcalc.errors import InputError

UNIT = 256
WIDEST = 8.0  # edges end here; what is beyond lies between this one and ∞
# Edges are 3 % apart for small m and closer where ε rises steeply with m, 14 octaves down from the largest.
_SPACING, _BEND, _BENT_TO, _SPAN = 0.03, 6.0, 4.0, 2.0**-14
# Counts mean something only on the edges that they were counted on: a state tells which.
LAYOUT = (UNIT, WIDEST, _SPACING, _BEND, _BENT_TO, _SPAN)
_ROUNDED_BITS = 12  # of a float32: what is left tells norms apart to 0.05 %
_ABOVE = 1 + 2.0**-50


def distance(m: Floats) -> Floats:
    """s(m) = 2Φ(m/2) − 1: the total variation distance of N(m,1) from N(0,1)."""
    from scipy.special import erf

    return np.asarray(erf(m / math.sqrt(8)))


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Where the edges are for norms up to `clip` (any, without one) under noise `sigma`.

    `tolerance` is how far a stored norm may be below the true one, relatively.
    """

    sigma: float
    clip: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise InputError(f"expected sigma in (0, inf), got {self.sigma}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"expected a clip in (0, inf), got {self.clip}")

    @cached_property
    def edges(self) -> Floats:
        """m on the upper edge of each bucket, rising; the last is ∞ where norms may pass WIDEST."""
        ratio = math.inf if self.clip is None else self.clip * (1 + self.tolerance) / self.sigma * _ABOVE
        found = [min(max(ratio, 1e-150), WIDEST)]
        while found[-1] > _SPAN * found[0]:
            found.append(found[-1] * math.exp(-_SPACING / (1 + _BEND * min(found[-1], _BENT_TO))))
        return np.array([*found[::-1], *([math.inf] if ratio > WIDEST else [])])

    @property
    def width(self) -> int:
        """How many buckets there are."""
        return int(self.edges.size)

    def place(self, norms: Floats) -> tuple[Indices, Indices]:
        """The bucket of each norm, and its w in units of 1/256, rounded up."""
        from scipy.special import erf, erfc

        if not np.all(norms >= 0):
            raise InputError("expected norms in [0, inf), got a negative or missing one")
        if self.clip is not None:
            norms = np.minimum(norms, self.clip)
        with np.errstate(over="ignore"):
            m = norms * (1 + self.tolerance) / self.sigma * _ABOVE
        m = np.where((norms > 0) & (m == 0), np.nextafter(0.0, 1.0), m)
        bucket = np.minimum(np.searchsorted(self.edges, m, side="left"), self.width - 1)
        below, above = np.concatenate([[0.0], self.edges])[bucket], self.edges[bucket]
        with np.errstate(under="ignore"):
            # Beyond m = 2.5 by 1 − s: s itself would be a difference of numbers near 1.
            low = [erf(np.minimum(x, 3.0) / math.sqrt(8)) for x in (below, m, above)]
            high = [-erfc(np.maximum(x, 2.0) / math.sqrt(8)) for x in (below, m, above)]
        near, far, whole = (np.where(above < 2.5, a, b) for a, b in zip(low, high, strict=True))
        share = (far - near) / np.maximum(whole - near, np.finfo(float).tiny)
        share = np.where(m >= above, 1.0, np.clip(share, 0.0, 1.0))
        units = np.where(m > 0, np.ceil(np.minimum(UNIT * share + 1e-9, UNIT)), 0)
        return bucket.astype(np.int64), units.astype(np.int64)

    def codes(self, norms: NDArray[np.floating]) -> NDArray[np.int32]:
        """The row of `table` for each norm, rounded up. Norms must be in [0, ∞)."""
        single = norms.astype(np.float32)
        if norms.dtype != np.float32:
            np.nextafter(single, np.float32(np.inf), out=single, where=single < norms)
        positive = single > 0
        codes = single.view(np.int32)
        codes += np.int32(2**_ROUNDED_BITS - 1)
        codes >>= _ROUNDED_BITS
        codes -= np.int32(self._first - 1)
        np.minimum(codes, self._last - self._first + 1, out=codes)
        return np.maximum(codes, positive, out=codes)  # only 0 is nothing

    @cached_property
    def ends(self) -> Floats:
        """The largest norm of each code; the first is 0."""
        found = (np.arange(self._first, self._last + 1, dtype=np.int32) << _ROUNDED_BITS).view(np.float32)
        ends = np.concatenate([[0.0], found.astype(np.float64)])
        # The last code also stands for every norm above it.
        ends[-1] = math.inf if self.clip is None else max(ends[-1], self.clip)
        return ends

    @cached_property
    def table(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The bucket of each code, and its w."""
        bucket, units = self.place(self.ends)
        return bucket.astype(np.int32), units

    @cached_property
    def _first(self) -> int:
        return max(1, _code(float(self.edges[0]) * self.sigma / (2 * UNIT)))

    @cached_property
    def _last(self) -> int:
        return max(self._first, _code(min(self.clip or math.inf, 6 * WIDEST * self.sigma)) + 1)


def _code(norm: float) -> int:
    with np.errstate(over="ignore"):
        bits = int(np.float32(min(norm, 3e38)).view(np.int32))
    return bits >> _ROUNDED_BITS
