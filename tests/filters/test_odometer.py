"""Odometers: stretches of fixed width, and the loss up to the end of each."""

from __future__ import annotations

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.filters.odometer import Odometer
from dpcalc.filters.rules import unlimited


def tracked(kind: str, values: list[float], width: float) -> Odometer:
    odometer = Odometer(unlimited(kind, quantity="mu" if kind == "gdp" else "rho"), width=width, individuals=1)
    for step, value in enumerate(values, start=1):
        odometer.step(step - 1, np.array([value]))
    return odometer


def test_rdp_stretches_add_up() -> None:
    """Feldman–Zrnic, Algorithm 5: with ρ = 0.4 and Δ = 1, a stretch holds two steps."""
    odometer = tracked("rdp", [0.4] * 5, 1.0)
    assert odometer.stopping_times(0, 5) == [2, 4, 5]
    assert odometer.losses(np.array([1, 2, 3])) == pytest.approx([1, 2, 3])


def test_gdp_stretches_add_up_in_squares() -> None:
    odometer = tracked("gdp", [0.6] * 5, 1.0)
    assert odometer.stopping_times(0, 5) == [2, 4, 5]
    assert odometer.losses(np.array([1, 4])) == pytest.approx([1, 2])


def test_the_loss_never_exceeds_what_the_odometer_says() -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 0.5, (40, 30))
    odometer = Odometer(unlimited("rdp", quantity="rho"), width=0.7, individuals=30)
    for step, row in enumerate(values):
        odometer.step(step - 1, row)
    for record, times in enumerate(odometer.all_stopping_times(39)):
        assert times == odometer.stopping_times(record, 39)
        for count, time in enumerate(times, start=1):
            assert values[: time + 1, record].sum() <= odometer.losses(np.array([count]))[0]


def test_a_single_loss_above_the_width_is_refused() -> None:
    with pytest.raises(InputError, match="at most the odometer's width"):
        tracked("rdp", [0.4, 1.2], 1.0)
