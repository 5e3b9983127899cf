"""T-fold composition of grid distributions by tilted FFT, with every error bounded.

Composed tilted masses are computed up to an absolute error per point (`error`), which covers the rounding of the
forward transform, of the powers and of the inverse transform; and up to wrap-around, which only ever adds mass inside
the window: what truly lies outside is bounded by Chernoff's inequality at another tilt (`below`, `above`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.accounting.discretise import Grid, even_knots
from dpcalc.accounting.pilot import Window
from dpcalc.arrays import Complexes, Floats, Indices

_UNIT = 2.0**-53
_LOG_NEGLIGIBLE = -60.0
_CHEAP = 4  # as many parts as are bounded at several tilts
_LOG_POOR = -25.0
_FEW_POINTS, _MOST_POINTS = 4096, 1 << 22
_UNDERFLOW = 1e-300  # tilted masses below this are not told from 0
_STEEPEST = 4.0  # the steepest tilt over one step
_NEIGHBOURS = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0])
_MANY, _FEW, _LARGEST_TABLE, _TOGETHER = 48, 1_000, 4_000_000, 64


@dataclass(frozen=True)
class Composed:
    """Tilted masses of a composition on a window, and bounds on everything that they leave out.

    The computed masses are within `error` of the circular ones, which exceed the true ones by at most `below` +
    `above` (the tilted probabilities of leaving the window on either side); `beyond` is the untilted probability of
    losses above it. All masses are right up to a factor e^{±log_slack}.
    """

    grid: Grid
    error: float
    below: float
    above: float
    beyond: float
    log_slack: float

    def from_above(self) -> Floats:
        """Tilted masses of the window that no true mass exceeds."""
        return np.maximum(self.grid.masses, 0.0) + self.error

    def from_below(self) -> Floats:
        """Tilted masses of the window that exceed no circular mass: together by `wrapped` more than the true ones."""
        return np.maximum(self.grid.masses - self.error, 0.0)

    @property
    def wrapped(self) -> float:
        """The tilted probability that is outside the window, and may be counted anywhere inside."""
        return self.below + self.above

    def upper(self) -> Grid:
        """As one distribution from above, but for what is below the window (`below`); what is above goes to +∞."""
        masses = self.from_above()
        infinite = min(1.0, self.grid.infinite + self.beyond)
        return replace(self.grid, masses=masses, log_scale=self.grid.log_scale + self.log_slack, infinite=infinite)

    def lower(self) -> Grid:
        """As one distribution from below, without its empty ends."""
        masses = np.maximum(self.from_below() - self.wrapped, 0.0)
        inside = np.flatnonzero(masses > 0)
        first, last = (int(inside[0]), int(inside[-1]) + 1) if inside.size else (0, 1)
        return replace(
            self.grid,
            start=self.grid.start + first,
            masses=masses[first:last],
            log_scale=self.grid.log_scale - self.log_slack,
        )


def fast_length(least: int) -> int:
    """The smallest 2^a · {1, 3, 5, 9, 15} that is at least so long."""
    best = 1 << max(least - 1, 1).bit_length()
    for odd in (3, 5, 9, 15):
        power = -(-least // odd)
        best = min(best, odd << max(power - 1, 0).bit_length())
    return best + best % 2


def fitting_window(parts: Sequence[tuple[Grid, int]], window: Window, log_mass: float) -> Window:
    """The window if the composed grids centre in it; otherwise one that they leave with probability e^log_mass.

    A window comes from a look at the pairs. Their grids end earlier, and far tails can weigh much under a tilt.
    """
    means = [float(grid.masses @ grid.losses) for grid, _ in parts]
    mean = sum(count * at for at, (_, count) in zip(means, parts, strict=True))
    if window.low <= mean <= window.high and np.isfinite(window.high - window.low):
        return window
    variance = sum(
        count * float(grid.masses @ (grid.losses - at) ** 2) for at, (grid, count) in zip(means, parts, strict=True)
    )
    deviation = max(float(np.sqrt(variance)), parts[0][0].step)
    ends = []
    for sign in (-1.0, 1.0):
        tilts = sign * np.geomspace(0.05, 50.0, 12) / deviation
        edges = [(_log_moment(parts, tilt) - log_mass) / tilt for tilt in tilts]
        best = int(np.argmin(sign * np.array(edges)))
        ends.append((float(edges[best]), float(tilts[best])))
    (low, low_tilt), (high, high_tilt) = ends
    return Window(low, low_tilt, high, high_tilt)


def compose_grids(
    parts: Sequence[tuple[Grid, int]], window: Window, *, log_mass: float, log_untilted: float
) -> Composed:
    """The composition of grids of one step and one tilt θ on a window of losses; any window is sound.

    It is stretched, within limits, where more than e^log_mass may be outside, or, untilted, more than e^log_untilted
    above: a few pairs with far tails can weigh more in a long list than in the look that the window comes from, and
    losses far below the step spread on the grid.
    """
    if len(parts) == 1 and parts[0][1] == 1:
        return _alone(parts[0][0])
    step, theta = parts[0][0].step, parts[0][0].theta
    low, high = window.low, window.high
    low_tilt, high_tilt = max(window.low_tilt, -_STEEPEST / step), min(window.high_tilt, _STEEPEST / step)
    log_up, log_down = _log_moment(parts, high_tilt), _log_moment(parts, low_tilt)
    width = max(high - low, _FEW_POINTS * step)
    log_scale = sum(count * grid.log_scale for grid, count in parts)
    offset = sum(count * grid.offset for grid, count in parts)
    needed = max((log_up - log_mass) / high_tilt, (log_up + log_scale - log_untilted) / (high_tilt + theta))
    high = max(high, min(needed, high + width))
    low = min(low, max((log_down - log_mass) / low_tilt, low - width))
    start = int(np.floor(low / step))
    length = min(fast_length(int(np.ceil(high / step)) - start + 2), _MOST_POINTS)
    noise = 6 * _UNIT * np.log2(length) + 4 * _UNIT
    few = _FewFrequencies([grid for grid, _ in parts], length) if len(parts) > _MANY else None
    if few is not None:
        noise = max(noise, _UNIT * (few.longest + 16))
    spectrum = _Spectrum(length, noise)
    log_slack = log_finite = 0.0
    done = 0
    while done < len(parts):
        alive = len(spectrum.log_product)
        together = _TOGETHER if few is not None and few.serves(alive) else 1
        chunk = parts[done : done + together]
        if few is not None and few.serves(alive):
            transforms = few.transforms([grid for grid, _ in chunk], alive)
        else:
            transforms = np.fft.rfft(_fold(chunk[0][0], length))[None, :]
        spectrum.multiply(transforms, np.array([float(count) for _, count in chunk]))
        done += together
    for grid, count in parts:
        log_slack += count * _log_slack(grid)
        log_finite += count * float(np.log1p(-min(grid.infinite, 1 - 1e-16)))
    masses, error = spectrum.inverse(start)
    top = step * (start + length)
    log_above = _log_outside(parts, high_tilt, log_up, top)
    log_below = _log_outside(parts, low_tilt, log_down, step * (start - 1))
    return Composed(
        Grid(step, start, masses, theta, log_scale, -float(np.expm1(log_finite)), offset=offset),
        error,
        float(np.exp(log_below)),
        float(np.exp(log_above)),
        float(np.exp(min(log_scale + log_slack + log_above - theta * top, 0.0))),
        log_slack,
    )


def _alone(grid: Grid) -> Composed:
    """A single run: the grid as it is, and no transform whose noise would hide far tails."""
    points = _points(grid)
    masses = np.zeros(int(points[-1] - points[0]) + 1)
    masses[points - points[0]] = grid.masses
    whole = replace(grid, start=int(points[0]), masses=masses, knots=None)
    return Composed(whole, error=_UNDERFLOW, below=0.0, above=0.0, beyond=0.0, log_slack=_log_slack(grid))


def _log_slack(grid: Grid) -> float:
    """Rounding error of the logs of tilted masses."""
    return 4 * _UNIT * (8 + abs(grid.log_scale) + abs(grid.theta) * float(grid.masses @ np.abs(grid.losses)))


class _Spectrum:
    """A product of transforms at the low frequencies that still matter, with a bound on its error at each.

    A normalised transform is at most one in size, so a frequency at which the product is already negligible stays so
    and is left out, at the cost of that much error.
    """

    def __init__(self, length: int, noise: float) -> None:
        self.length, self.noise = length, noise
        self.log_product = np.zeros(length // 2 + 1, dtype=np.complex128)
        self.log_largest = np.zeros(length // 2 + 1)
        self.sensitivity = np.zeros(length // 2 + 1)

    def multiply(self, transforms: Complexes, counts: Floats) -> None:
        """Multiply by the product of the transforms (rows) to the power of their counts, each given up to `noise`."""
        kept = len(self.log_product)
        size = np.abs(transforms[:, :kept]) + self.noise
        log_size = np.log(size)
        self.log_largest += counts @ log_size
        alive = np.flatnonzero(self.log_largest > _LOG_NEGLIGIBLE)
        kept = int(alive[-1]) + 1 if alive.size else 1
        size, log_size, transforms = size[:, :kept], log_size[:, :kept], transforms[:, :kept]
        per_step = self.noise / size + 4 * _UNIT * (np.pi - log_size)
        self.log_largest = self.log_largest[:kept]
        self.sensitivity = self.sensitivity[:kept] + counts @ per_step
        with np.errstate(divide="ignore", invalid="ignore"):
            self.log_product = self.log_product[:kept] + (counts[:, None] * np.log(transforms)).sum(axis=0)

    def inverse(self, start: int) -> tuple[Floats, float]:
        """The masses with index 0 at `start`, and a bound on the error of each."""
        length, kept = self.length, len(self.log_product)
        turns = (np.arange(kept) * (start % length)) % length / length
        values = np.zeros(length // 2 + 1, dtype=np.complex128)
        with np.errstate(invalid="ignore"):
            values[:kept] = np.exp(self.log_product + 2j * np.pi * turns)
        values[~np.isfinite(values)] = 0.0  # a transform that is exactly zero somewhere
        size = np.exp(np.minimum(self.log_largest, 700.0))
        wrong = 2 * float((size * np.minimum(self.sensitivity, 2.0)).sum()) / length
        wrong += 2 * self.noise * (2 * float(size.sum()) / length) + 2 * float(np.exp(_LOG_NEGLIGIBLE))
        return np.fft.irfft(values, length), wrong


class _FewFrequencies:
    """Transforms at the lowest frequencies as a matrix product, for many grids when few frequencies are left."""

    def __init__(self, grids: Sequence[Grid], length: int) -> None:
        self._length = length
        first = min(grid.start for grid in grids)
        used = np.zeros(max(int(_points(grid)[-1]) for grid in grids) - first + 1, dtype=bool)
        for grid in grids:
            used[_points(grid) - first] = True
        self._knots = first + np.flatnonzero(used)
        self.longest = max(len(grid.masses) for grid in grids)
        self._phases: tuple[Floats, Floats] | None = None

    def serves(self, frequencies: int) -> bool:
        """Whether so many frequencies are few enough."""
        return frequencies <= _FEW and frequencies * len(self._knots) <= _LARGEST_TABLE

    def transforms(self, grids: Sequence[Grid], frequencies: int) -> Complexes:
        """Σ p_j e^{-2πi k j/length} over the grid points j, for the first frequencies k: one row per grid."""
        if self._phases is None:
            index = np.multiply.outer(self._knots, np.arange(frequencies)) % self._length
            angles = (2 * np.pi / self._length) * index
            self._phases = np.cos(angles), -np.sin(angles)
        points = [np.searchsorted(self._knots, _points(grid)) for grid in grids]
        first, last = min(int(at[0]) for at in points), max(int(at[-1]) for at in points) + 1
        masses = np.zeros((len(grids), last - first))
        for row, at, grid in zip(masses, points, grids, strict=True):
            row[at - first] = grid.masses
        real, imaginary = (masses @ table[first:last, :frequencies] for table in self._phases)
        return np.asarray(real + 1j * imaginary)


def _points(grid: Grid) -> Indices:
    return even_knots(grid.start, grid.start + len(grid.masses) - 1) if grid.knots is None else grid.knots


def _fold(grid: Grid, length: int) -> Floats:
    """The masses on a circle of so many points, index 0 at loss 0."""
    if grid.knots is not None:
        return np.asarray(np.bincount(grid.knots % length, weights=grid.masses, minlength=length))
    offset = grid.start % length
    total = offset + len(grid.masses)
    padded = np.zeros(-(-total // length) * length)
    padded[offset:total] = grid.masses
    return np.asarray(padded.reshape(-1, length).sum(axis=0))


def _log_outside(parts: Sequence[tuple[Grid, int]], tilt: float, log_moment: float, edge: float) -> float:
    """Chernoff's bound on the log of the tilted probability beyond an edge; every tilt of the right sign is sound.

    The tilt that was asked for comes from a rough look; where it serves badly and it is cheap, others are tried.
    """
    bound = log_moment - tilt * edge
    if bound > _LOG_POOR and len(parts) <= _CHEAP:
        bound = min(_log_moment(parts, float(at)) - float(at) * edge for at in tilt * _NEIGHBOURS)
    return min(0.0, bound)


def _log_moment(parts: Sequence[tuple[Grid, int]], tilt: float) -> float:
    return sum(count * _log_mean_exp(grid.masses, tilt * grid.losses) for grid, count in parts)


def _log_mean_exp(masses: Floats, exponents: Floats) -> float:
    with np.errstate(divide="ignore"):
        terms = np.log(masses) + exponents
    top = float(terms.max())
    return top + float(np.log(np.exp(terms - top).sum())) if top > -np.inf else -np.inf
