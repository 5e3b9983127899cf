"""What people have spent on the way through a log: right at every point, few points, the last one always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dpcalc


def spent_so_far(log: object, **options: object) -> list[tuple[int, list[float]]]:
    return list(dpcalc.filter(log, filter="gdp", sigma=1, **options)._told.course)


@pytest.mark.parametrize("steps", [2, 7, 40, 41, 1000])
def test_constant_norms_grow_as_a_root(steps: int) -> None:
    """A norm c at every step is μ = c√t after t of them."""
    norms = np.array([0.01, 0.02, 0.03])
    points = spent_so_far(np.tile(norms, (steps, 1)), mu=9)
    assert points[-1][0] == steps - 1
    assert 1 < len(points) <= 25
    for step, spent in points:
        quantiles = np.quantile(norms * np.sqrt(step + 1), (0, 0.25, 0.5, 0.75, 0.99, 1))
        assert spent == pytest.approx(quantiles, rel=1e-9)


@pytest.mark.parametrize("missing", [(), ((3, 1),), ((1, 0), (99, 2))])
def test_a_long_log_tells_roots_of_sums_of_squares(tmp_path: Path, missing: tuple[tuple[int, int], ...]) -> None:
    """Absent entries are norms of 0."""
    norms = np.random.default_rng(4).random((100, 3))
    rows = [f"{t},{i},{float(norms[t, i])!r}" for t in range(100) for i in range(3) if (t, i) not in missing]
    (tmp_path / "log.csv").write_text("step,id,norm\n" + "\n".join(rows) + "\n")
    for place in missing:
        norms[place] = 0.0
    grown = np.sqrt(np.cumsum(norms**2, axis=0))
    points = spent_so_far(tmp_path / "log.csv", mu=9)
    assert points[-1][0] == 99
    assert 12 < len(points) <= 25
    for step, spent in points:
        quantiles = np.quantile(grown[step], (0, 0.25, 0.5, 0.75, 0.99, 1))
        assert spent == pytest.approx(quantiles, rel=1e-9)


def test_a_whole_run_has_no_records_to_tell_of(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("step,mu\n" + "".join(f"{step},0.1\n" for step in range(9)))
    assert not dpcalc.filter(tmp_path / "log.csv", filter="gdp", scope="global", mu=1)._told.course
