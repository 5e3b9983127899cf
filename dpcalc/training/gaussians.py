"""Standard Gaussians from cryptographic bits, fast: the ziggurat method on whole arrays.

The bits are those of OpenSSL's generator, which Python carries: AES-256 in counter mode (CTR_DRBG of NIST SP 800-90A),
seeded from the operating system's entropy, and anew in a forked process. Its key changes with every request, so that
what is in memory later does not tell what was drawn before; `renew` gives it fresh entropy, so that what was in memory
earlier does not tell what is drawn next. Processors compute AES themselves: a draw takes 1.5 ns of bits, where SHAKE128
takes 16 and the operating system's own generator 26.

The method is exact for exact uniforms (Marsaglia and Tsang, 2000; in the form of Doornik, 2005, with layer and position
from disjoint bits): 256 layers of equal area cover the density, about 99 % of the draws fall inside their layer at
once, and the others are decided by the density itself.
"""

from __future__ import annotations

import math
import os
import ssl

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats

# Draws made together: as many as stay in the processor's cache.
_BLOCK = 16_384
_LAYERS = 256
_TAIL = 3.6541528853610088
# What every layer covers: the rectangle up to the tail, and the tail.
_AREA = _TAIL * math.exp(-0.5 * _TAIL**2) + math.sqrt(math.pi / 2) * math.erfc(_TAIL / math.sqrt(2))


def _layer_edges() -> Floats:
    """x_0 > x_1 = tail start > … > x_256 = 0, so that every layer has the same area."""
    edges = np.empty(_LAYERS + 1)
    edges[0], edges[1], edges[_LAYERS] = _AREA / np.exp(-0.5 * _TAIL**2), _TAIL, 0.0
    for layer in range(2, _LAYERS):
        edges[layer] = np.sqrt(-2 * np.log(_AREA / edges[layer - 1] + np.exp(-0.5 * edges[layer - 1] ** 2)))
    return edges


_EDGES = _layer_edges()
# A position is an odd multiple of 2⁻⁵³ of its layer's width.
_OUTER, _INNER = 2.0**-52 * _EDGES[:-1], _EDGES[1:]
_HEIGHTS = np.exp(-0.5 * _EDGES**2)


def renew() -> None:
    """Seed the generator again, with 256 bits of the operating system's entropy."""
    ssl.RAND_add(os.urandom(32), 32.0)


def system_bits(count: int) -> NDArray[np.uint64]:
    """Random 64-bit words."""
    return np.frombuffer(ssl.RAND_bytes(8 * count), dtype=np.uint64)


def system_uniforms(count: int) -> Floats:
    """Numbers uniform on [0, 1): multiples of 2⁻⁵³."""
    return (system_bits(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def system_gaussians(count: int) -> Floats:
    """Independent standard Gaussians."""
    draws, layers, unsure = np.empty(count), np.empty(count, dtype=np.uint8), np.empty(count, dtype=bool)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        _propose(draws[part], layers[part], unsure[part])
    where = np.flatnonzero(unsure)
    if where.size:
        draws[where] = _decided(draws[where], layers[where].astype(np.intp))
    return draws


def _propose(draws: Floats, layers: NDArray[np.uint8], unsure: NDArray[np.bool_]) -> None:
    """Fill in points of random layers, and whether they lie where not all of the layer is under the density."""
    bits = system_bits(draws.size)
    layer = (bits & np.uint64(_LAYERS - 1)).view(np.int64)
    layers[:] = layer
    draws[:] = bits.view(np.int64) >> 11
    draws += 0.5
    draws *= _OUTER.take(layer)
    np.greater_equal(np.abs(draws), _INNER.take(layer), out=unsure)


def _decided(draws: Floats, layers: NDArray[np.intp]) -> Floats:
    """The draws that fell outside the sure part of their layer: from the tail, under the density, or drawn again."""
    tail = layers == 0
    result = draws.copy()
    result[tail] = np.copysign(_tail_draws(int(tail.sum())), draws[tail])
    wedge = np.flatnonzero(~tail)
    upper, lower = _HEIGHTS[layers[wedge] + 1], _HEIGHTS[layers[wedge]]
    heights = lower + system_uniforms(wedge.size) * (upper - lower)
    again = wedge[heights >= np.exp(-0.5 * draws[wedge] ** 2)]
    if again.size:
        result[again] = system_gaussians(again.size)
    return result


def _tail_draws(count: int) -> Floats:
    """|x| beyond the last layer, by Marsaglia's (1964) exponential rejection."""
    if count == 0:
        return np.empty(0)
    steps = -np.log(1 - system_uniforms(2 * count).reshape(2, count))
    beyond = steps[0] / _TAIL
    refused = np.flatnonzero(2 * steps[1] < beyond**2)
    draws: Floats = _TAIL + beyond
    if refused.size:
        draws[refused] = _tail_draws(refused.size)
    return draws
