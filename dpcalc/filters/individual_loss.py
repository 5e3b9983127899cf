"""Every record's own ε under Poisson sampling: an upper bound on that of its norms taken as given, by construction.

From the counts of `buckets`, the finite pairs of `edge_losses` and the tables of `transforms`. With one more Gaussian
step of a tiny μ = η, which can only raise δ (Jensen), on Re λ = c > 0

    δ(ε) ≤ (h/2π) Σ_j e^{ΣK(λ_j) + η²λ_j(λ_j+1)/2 − λ_j ε} / (λ_j(λ_j+1)),   λ_j = c + ihj, all integers j:

by Poisson summation the sum is Σ_k e^{ckP}δ(ε+kP) with P = 2π/h, and no term is negative. What is cut off is at most
M(c)·(1/π)∫e^{…−η²y²/2}/y² dy. An ε is accepted only where this sum, the remainders of coins, all rounding errors and
the mass at a loss of ∞ are together at most δ; otherwise Chernoff's bound on the same tables stands.

What c, h, η and the first guess are decides how close the bound is and what it costs, never whether it holds. Near δ(0)
an ε is (δ(0) − δ) over a slope, so that a thousandth of δ is a large part of it: who is found there is asked again with
smaller shares of δ for errors. If norms depend on earlier outputs, such an ε is neither exact nor a bound of what was
lost: it is known after the fact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.errors import InputError
from dpcalc.filters.buckets import distance
from dpcalc.filters.chosen import Chosen, edges_of, parts_of
from dpcalc.filters.contour import Kernel
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.edge_losses import edge_losses
from dpcalc.filters.transforms import Transforms
from dpcalc.rounding import LEAST_DIVISOR

_ABSCISSAS = np.geomspace(1e-3, 1e8, 82)
_COARSE = 0.01  # of ε that errors may cost
_LARGEST_NODES, _LARGEST_WORK = 32_768, 200_000_000
_ENTRIES = 300_000
_ATTEMPTS = 8
_SMALLEST_DELTA = 1e-140


def individual_epsilons(counts: NormCounts, delta: float) -> Floats:
    """An upper bound on the ε at δ of each record's own steps; ∞ where none is known (δ below 1e-140, huge norms)."""
    if not 0 < delta < 1:
        raise InputError(f"expected delta in (0, 1), got {delta}")
    epsilons = np.zeros(counts.individuals)
    with np.errstate(divide="ignore"):
        alike = np.minimum(-np.log1p(-counts.sampling_rate * distance(counts.buckets.edges)), 1e300)
    # δ(0) is at most the probability that a coupling of both runs, step by step, ever parts.
    apart = np.empty(counts.individuals)
    for some in parts_of(np.arange(counts.individuals)):
        apart[some] = -np.expm1(-(counts.on_edges(some)[0] @ alike))
    todo = np.flatnonzero(~(apart * (1 + 1e-12) <= delta))
    if not todo.size:
        return epsilons
    if delta < _SMALLEST_DELTA:
        epsilons[todo] = np.inf
        return epsilons
    epsilons[todo] = np.inf
    steep, share = _lower(epsilons, counts, todo, delta, _USUAL)
    near = todo[(epsilons[todo] > 0) & (steep[todo] * epsilons[todo] < 1)]
    if near.size:
        steep[near], share[near] = (each[near] for each in _lower(epsilons, counts, near, delta, _FINE))
    for care in _FEW:
        coarse = todo[share[todo] > _COARSE * steep[todo] * epsilons[todo]]
        if coarse.size:
            steep[coarse], share[coarse] = (each[coarse] for each in _lower(epsilons, counts, coarse, delta, care))
    return epsilons


@dataclass(frozen=True)
class _Care:
    """Shares of δ: at a loss of ∞, for aliases, for other errors before a contour counts as poor.

    Cells next to 0 are `finest`, the others `relative` to their loss; `noise` is the share of ε for the drop of noise.
    Norms are `rounded` up to edges, or coins that are alone in their bucket are `known`: the remainders of coins may
    cost more after a few steps.
    """

    lost: float
    alias: float
    errors: float
    finest: float
    relative: float = 0.03
    noise: float = 5e-3
    rounded: bool = False
    known: bool = False


_USUAL = _Care(2e-3, 2e-3, 2e-2, 0.05)
_FINE = _Care(2e-6, 2e-6, 4e-6, 0.01, relative=0.012, noise=1e-3, known=True)
_FEW = (_Care(1e-4, 1e-4, 1e-3, 0.02, known=True), _Care(1e-4, 1e-4, 1e-3, 0.02, rounded=True))


def _lower(epsilons: Floats, counts: NormCounts, todo: Indices, delta: float, care: _Care) -> tuple[Floats, Floats]:
    """Lower what is known to what is found with this care; −d log δ/dε there, and the share of errors in δ."""
    places = edges_of(counts, todo)
    lost = care.lost * delta / max(1, counts.steps)
    pairs = edge_losses(counts.buckets.edges[places], counts.sampling_rate, lost, care.finest, care.relative)
    found, steep, share = (
        np.zeros(counts.individuals),
        np.full(counts.individuals, np.inf),
        np.zeros(counts.individuals),
    )
    for remove in (True, False):
        chosen = Chosen(counts, places, rounded=care.rounded, known=care.known)
        search = _Direction(Transforms(pairs, places, remove=remove), chosen, delta, care).search(found, todo, epsilons)
        np.maximum(found, search.best, out=found)
        np.minimum(steep, search.steep, out=steep)
        np.maximum(share, search.share, out=share)
    epsilons[todo] = np.minimum(epsilons[todo], found[todo])
    return steep, share


@dataclass
class _Search:
    """What is known of each record so far: hints, but for `best`, which is proved at every moment."""

    best: Floats
    steep: Floats  # −d log δ / dε at the solution
    guess: Floats
    limit: Floats  # abscissas above it were of no use
    share: Floats  # of δ, for errors


class _Direction:
    """One direction of the pair: solves δ(ε) = δ for groups of records that share a contour."""

    def __init__(self, transforms: Transforms, counts: Chosen, delta: float, care: _Care) -> None:
        self._transforms, self._counts, self._delta, self._care = transforms, counts, delta, care
        self._real = transforms.real(_ABSCISSAS)
        self._left = np.zeros(counts.counts.individuals)

    def search(self, floor: Floats, todo: Indices, known: Floats) -> _Search:
        """This direction's ε, given what is `known` above it; a record whose bound is below its floor costs little."""
        search = self._chernoff(todo)
        chernoff = search.best.copy()
        search.best[todo] = np.minimum(search.best[todo], known[todo])
        search.guess[todo] = np.minimum(search.guess[todo], known[todo])
        todo = todo[chernoff[todo] > floor[todo]]
        self._most_nodes = int(min(_LARGEST_NODES, max(512, _LARGEST_WORK // max(1, todo.size))))
        for attempt in range(_ATTEMPTS):
            todo = todo[np.isfinite(search.best[todo])]
            if not todo.size:
                break
            again = []
            for group in self._groups(todo, search):
                found = self._solve(group, search)
                again.append(_improve(search, (chernoff, floor), group, found, (attempt, self._care.errors)))
            todo = np.concatenate(again)
        return search

    def _chernoff(self, todo: Indices) -> _Search:
        """log δ ≤ ΣK(c) − cε + c·log c − (1+c)·log(1+c) at the best abscissa."""
        size, c = self._left.size, _ABSCISSAS
        search = _Search(np.zeros(size), np.zeros(size), np.zeros(size), np.full(size, np.inf), np.zeros(size))
        logs, remainders = (np.where(np.isinf(a), 1e200, a) for a in (self._real.logs, self._real.remainders))
        for some in parts_of(todo):
            whole, coins = self._counts.on_edges(some)
            left = self._delta - (whole @ self._transforms.infinite) * (1 + 1e-12)
            self._left[some] = left
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                bound = whole @ logs + coins @ remainders - np.log(np.maximum(left, 0.0))[:, None]
                bound = (bound * (1 + 1e-12) - c * np.log1p(1 / c) - np.log1p(c)) / c  # where positive, this pays
            bound = np.where(bound < 1e190, bound, np.inf)
            search.best[some] = np.maximum(bound.min(axis=1), 0.0)
            search.steep[some] = c[bound.argmin(axis=1)]
        search.guess = 0.85 * search.best
        return search

    def _groups(self, todo: Indices, search: _Search) -> list[_Group]:
        """Records with the same abscissa and half-octave of ε."""
        found = []
        for some in parts_of(todo):
            sums = self._counts.on_edges(some)[0] @ np.where(np.isinf(self._real.logs), 1e100, self._real.logs)
            found.append(_abscissa(sums, search.guess[some], self._left[some], search.limit[some], self._care.alias))
        place, period, excess = (np.concatenate(parts) for parts in zip(*found, strict=True))
        octave = np.floor(2 * np.log2(np.maximum(search.guess[todo], LEAST_DIVISOR))).astype(np.int64)
        keys, which = np.unique(np.stack([place, octave]), axis=1, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=keys.shape[1]))
        groups = []
        for (abscissa, half), members in zip(keys.T.tolist(), np.split(order, ends[:-1]), strict=True):
            reach = math.sqrt(2 * (float(excess[members].max()) + 7))
            c, scale = float(_ABSCISSAS[abscissa]), 2.0 ** (half / 2)
            groups.append(_Group(todo[members], c, float(period[members].max()), reach, scale))
        return groups

    def _solve(self, group: _Group, search: _Search) -> _Found:
        """ε of the group on one contour, and what it tells about a better one."""
        who, c = group.records, group.abscissa
        steep, left = max(c, float(search.steep[who].max())), float(self._left[who].min())
        noise = group.noise(self._care.noise, steep, left)
        step = 2 * math.pi / group.period
        noise = max(noise, group.reach / step / self._most_nodes)
        nodes = -(-int(group.reach / noise / step + 2) // 16) * 16
        used = self._counts.used_by(who)
        table = self._transforms.contour(used, c, step, nodes)
        kernel = Kernel.of(c, step, nodes, noise)
        parts = []
        for some in parts_of(who, max(1, _ENTRIES // nodes)):
            top, sums, wrong, vague = self._counts.sums(some, used, table)
            parts.append(kernel.solve(sums, wrong, vague, np.log(self._left[some]) - top, search.best[some]))
        return _Found(*(np.concatenate(part) for part in zip(*parts, strict=True)))


@dataclass(frozen=True)
class _Group:
    """Records that share a contour: its abscissa, period and reach, and about what ε they have."""

    records: Indices
    abscissa: float
    period: float
    reach: float
    scale: float

    def noise(self, share: float, steep: float, left: float) -> float:
        """η: it costs (θ+1)η²/2 in ε with θ the slope of −log δ at the solution."""
        return min(math.sqrt(2 * share * self.scale / (steep + 1)), self.scale / math.sqrt(-2 * math.log(left)))


@dataclass(frozen=True)
class _Found:
    """ε, the slope of −log δ there, and the share of δ that is error terms, of each record of a group."""

    epsilon: Floats
    slope: Floats
    share: Floats

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.epsilon, self.slope, self.share))


def _improve(
    search: _Search, limits: tuple[Floats, Floats], group: _Group, found: _Found, turn: tuple[int, float]
) -> Indices:
    """Take over what a group found; returns who should be tried again, on another contour."""
    who, c, got = group.records, group.abscissa, found.epsilon
    (chernoff, floor), (attempt, errors) = limits, turn
    search.share[who] = np.where(got < search.best[who], found.share, search.share[who])
    search.best[who] = np.minimum(search.best[who], got)
    useless = got > 0.999 * chernoff[who]
    # Error terms too large (a smaller abscissa), more noise than δ's slope allows, or ε much smaller than thought.
    poor = useless | (found.share > np.maximum(errors, 8e-3 * found.slope * got))
    rough = ((found.slope > 1.6 * np.maximum(search.steep[who], c)) & (attempt < 4)) | (got < 0.8 * search.guess[who])
    search.limit[who[poor]] = 0.75 * c
    search.steep[who] = np.clip(found.slope, 0, 3e3 / np.maximum(got, 1e-9))
    search.guess[who] = np.where(useless, 0.7 * search.guess[who], got)
    return who[(got > 1e-5 * chernoff[who]) & (got > floor[who]) & (poor | rough)]


def _abscissa(sums: Floats, guess: Floats, left: Floats, limit: Floats, alias: float) -> tuple[Indices, Floats, Floats]:
    """The abscissa that needs fewest nodes, the period that keeps aliases small, and log(M(c)e^{−cε}/δ)."""
    grid = _ABSCISSAS
    small, period = np.log(alias * left)[:, None], np.full(sums.shape, np.inf)
    near = 0.85 * guess[:, None]
    for k in (1, 2, 3, 5):
        right = (sums[:, k:] - grid[k:] * near - small) / (grid[k:] - grid[:-k])
        np.minimum(period[:, :-k], right, out=period[:, :-k])
    period = np.maximum(period, -small / grid)
    excess = np.maximum(sums - grid * near - np.log(left)[:, None], 0.0)
    allowed = grid < np.maximum(limit, 0.03)[:, None]
    cost = np.where(allowed, period * np.sqrt((grid + 1) * (excess + 7)), np.inf)
    best = np.argmin(cost, axis=1)
    rows = np.arange(best.size)
    return best, period[rows, best], excess[rows, best]
