"""What a person reads: histograms that can be trusted, and how many take part when."""

from __future__ import annotations

import numpy as np
import pytest

from dpcalc.filters.screen import histogram


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.0, 0.0, 0.0]),
        np.full(7, 0.3),
        np.array([0.0, 1e-9, 5.0]),
        np.array([3.0, 3.0 + 1e-13]),
        np.array([1.99999999, 2.0, 7.0, 7.2]),
        np.random.default_rng(1).lognormal(0, 3, 1000),
        np.random.default_rng(2).uniform(4.3, 4.4, 50),
    ],
)
def test_bins_are_never_empty_or_negative_and_hold_everybody_once(values: np.ndarray) -> None:
    bins = histogram(values)
    assert sum(count for *_, count in bins) == values.size
    assert 1 <= len(bins) <= 7
    for low, high, count in bins:
        assert 0 <= low <= high <= values.max()
        assert count > 0
    for low, high, count in bins[:-1]:
        assert count == ((values >= low * (1 - 1e-12)) & (values < high * (1 - 1e-12))).sum()


def test_widths_are_round() -> None:
    assert histogram(np.array([1.3, 1.4, 1.2, 3.2, *[4.3] * 7, 4.375])) == [
        (1.0, 2.0, 3),
        (3.0, 4.0, 1),
        (4.0, 4.375, 8),
    ]
    assert histogram(np.array([])) == []
