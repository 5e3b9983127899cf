"""Counts of norms take the memory that their largest norm needs, and say the same however they grew."""

from __future__ import annotations

import numpy as np

from dpcalc.filters.buckets import Buckets
from dpcalc.filters.counts import NormCounts


def counted(blocks: list[np.ndarray]) -> NormCounts:
    counts = NormCounts(Buckets(sigma=1.0), 0.01, individuals=blocks[0].shape[1])
    for block in blocks:
        counts.add(block)
    return counts


def test_only_buckets_up_to_the_largest_norm_are_kept() -> None:
    small, large = np.random.default_rng(1).uniform(0, 1, (2, 40, 30))
    counts = counted([small])
    assert counts.packed.shape[1] < counts.buckets.width / 2
    large[3, 7], large[4, 8] = 6.5, 1e30
    grown = counted([small, large])
    assert grown.packed.shape[1] == grown.buckets.width
    at_once = counted([np.concatenate([large, small])])
    for one, other in zip(grown.in_buckets(slice(None)), at_once.in_buckets(slice(None)), strict=True):
        assert one.shape == (30, grown.buckets.width)
        assert np.array_equal(one, other)
    assert grown.taken().tolist() == [80] * 30


def test_parts_of_different_reach_are_joined_and_stored() -> None:
    few, many = np.full((40, 3), 0.2), np.full((40, 2), 3.0)
    whole = NormCounts.joined([counted([few]), counted([many])])
    assert whole.taken().tolist() == [40] * 5
    again = NormCounts(whole.buckets, 0.01)
    again.from_arrays(whole.to_arrays())
    again.add(np.full((40, 5), 7.9))
    assert again.taken().tolist() == [80] * 5
    assert np.array_equal(again.in_buckets(slice(0, 3))[0].sum(axis=0)[: whole.packed.shape[1]].max(), 120)
