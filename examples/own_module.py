"""A module of one's own for `dpcalc train --backend torch --model examples/own_module.py:build`.

`build` is told how many numbers a record has and how many classes there are, and returns a module that takes rows of
numbers and gives scores. Group normalisation looks at one record at a time, as everything here must; batch
normalisation and dropout are refused.
"""

from __future__ import annotations

import math

from torch import nn


def build(features: int, classes: int) -> nn.Module:
    """A small convolutional network for square images of one channel, of at least 8 × 8 pixels."""
    side = math.isqrt(features)
    width = (side - 5) // 2 + 1
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 16, 5, stride=2),
        nn.ReLU(),
        nn.GroupNorm(4, 16),
        nn.Flatten(),
        nn.Linear(16 * width * width, classes),
    )
