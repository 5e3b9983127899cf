"""Standard Gaussians from cryptographic bits, fast: the ziggurat method on whole arrays.

The bits are SHAKE128's output for a key of 256 bits that the operating system draws anew for every call, so no state is
kept that could be guessed or leak. The method is exact for exact uniforms (Marsaglia and Tsang, 2000; in the form of
Doornik, 2005, with layer and position from disjoint bits): 256 layers of equal area cover the density, about 99 % of
the draws fall inside their layer at once, and the others are decided by the density itself.
"""

from __future__ import annotations

import hashlib
import math
import os

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Draws made together: as many as stay in the processor's cache.
_BLOCK = 32_768
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
_INSIDE = _EDGES[1:] / _EDGES[:-1]
_HEIGHTS = np.exp(-0.5 * _EDGES**2)


def system_bits(count: int) -> NDArray[np.uint64]:
    """Random 64-bit words."""
    return np.frombuffer(hashlib.shake_128(os.urandom(32)).digest(8 * count), dtype=np.uint64)


def system_uniforms(count: int) -> Floats:
    """Numbers uniform on [0, 1): multiples of 2⁻⁵³."""
    return (system_bits(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def system_gaussians(count: int) -> Floats:
    """Independent standard Gaussians."""
    draws = np.empty(count)
    for start in range(0, count, _BLOCK):
        part = draws[start : start + _BLOCK]
        part[:] = _block(part.size)
    return draws


def _block(count: int) -> Floats:
    bits = system_bits(count)
    layers = (bits & np.uint64(_LAYERS - 1)).astype(np.intp)
    places = (bits >> np.uint64(11)).view(np.int64).astype(np.float64)
    places *= 2.0**-52
    places -= 1.0 - 2.0**-53
    draws: Floats = places * _EDGES[layers]
    outside = np.flatnonzero(np.abs(places, out=places) >= _INSIDE[layers])
    if outside.size:
        draws[outside] = _decided(draws[outside], layers[outside])
    return draws


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
        result[again] = _block(again.size)
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
