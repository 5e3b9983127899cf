"""Convolutions of non-negative rows: by sums where they are short, by blocks of zero-padded FFTs where they are long.

Sums of products err relative to each entry (L10). A transform errs relative to its whole block: that is added to the
upper weights and to one of the lower law's masses and taken off the other, after which they bound one direction alone.
"""

from __future__ import annotations

import math

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, Component, Direction
from dpcalc.arrays import Floats
from dpcalc.rounding import SMALLEST_NORMAL, TRANSFORM, UNIT

SHORT = 320
"""Up to so many points in the shorter component, sums are used."""

_BLOCK, _SMALLEST_BLOCK = 512, 64
_MOST_BLOCKS = 8
_STEEPEST = 6.0  # log X over a block: beyond, its larger end would drown the smaller one in errors


def convolved(
    a: Component, b: Component, steepness: float, *, short: int = SHORT, worse: Direction = "remove"
) -> tuple[Component, bool]:
    """All rows of one component with those of another, and whether that took no transform.

    `steepness` is how fast, from point to point, weights may turn into mass: the step times the tilt, or more.
    """
    block = _block(max(a.size, b.size), steepness)
    if takes_sums(a.size, b.size, steepness, short=short):
        return Component(a.start + b.start, _by_sums(a.rows, b.rows)), True
    below = P_LOWER if worse == "remove" else Q_LOWER
    return Component(a.start + b.start, by_transform(a.rows, b.rows, block, below)), False


def takes_sums(first: int, second: int, steepness: float, *, short: int = SHORT) -> bool:
    """Whether rows of these sizes are convolved by sums: the shorter ones are short, or blocks would be too steep."""
    block = _block(max(first, second), steepness)
    return min(first, second) <= max(short, block // 4) or block < _SMALLEST_BLOCK


def _block(size: int, steepness: float) -> int:
    """A power of two: some blocks for rows of this size, none of which is steep."""
    block = max(_BLOCK, 1 << (-(-size // _MOST_BLOCKS) - 1).bit_length())
    return min(block, 1 << max(int(math.log2(_STEEPEST / steepness)), 0))


def _by_sums(a: Floats, b: Floats) -> Floats:
    if a.ndim == 2:
        return np.array([np.convolve(x, y) for x, y in zip(a, b, strict=True)])
    if a.shape[-1] > b.shape[-1]:
        a, b = b, a
    n = b.shape[-1]
    out = np.zeros((*a.shape[:-1], a.shape[-1] + n - 1))
    for i in range(a.shape[-1]):
        out[..., i : i + n] += a[..., i : i + 1] * b
    return out


def by_transform(a: Floats, b: Floats, block: int, below: int) -> Floats:
    """Convolved rows with the transforms' errors on the safe side: off row `below`, onto the others.

    Blocks keep the errors small where the rows are. An FFT product of x and y errs by at most
    (3 · TRANSFORM · log₂N + 3)·u·‖x‖₂‖y‖₁ in any entry, since ‖fft x · fft y‖₂ ≤ √N·‖x‖₂·‖y‖₁.
    """
    size = a.shape[-1] + b.shape[-1] - 1
    x, y = _blocks(a, block), _blocks(b, block)
    fx, fy = np.fft.rfft(x, 2 * block), np.fft.rfft(y, 2 * block)
    unit = (3 * TRANSFORM * math.log2(2 * block) + 3 + x.shape[-2]) * UNIT
    top = np.maximum(x.max(axis=-1, keepdims=True), SMALLEST_NORMAL)  # squares of small weights leave the doubles
    norms, sums = unit * top[..., 0] * np.sqrt(np.square(x / top).sum(axis=-1)), y.sum(axis=-1)
    many = x.shape[-2] + y.shape[-2] - 1
    transforms = np.zeros((*a.shape[:-1], many, block + 1), dtype=np.complex128)
    errors = np.zeros((*a.shape[:-1], many))
    for i in range(x.shape[-2]):
        transforms[..., i : i + y.shape[-2], :] += fx[..., i : i + 1, :] * fy
        errors[..., i : i + y.shape[-2]] += norms[..., i : i + 1] * sums
    pieces = np.fft.irfft(transforms, 2 * block)
    errors[..., below, :] *= -1
    pieces += 1.001 * errors[..., None]
    out = np.zeros((*a.shape[:-1], many + 1, block))
    out[..., :-1, :] = pieces[..., :block]
    out[..., 1:, :] += pieces[..., block:]
    flat = out.reshape(*a.shape[:-1], (many + 1) * block)[..., :size]
    return np.maximum(flat, 0.0)


def _blocks(rows: Floats, block: int) -> Floats:
    count = -(-rows.shape[-1] // block)
    padded = np.zeros((*rows.shape[:-1], count * block))
    padded[..., : rows.shape[-1]] = rows
    return padded.reshape(*rows.shape[:-1], count, block)
