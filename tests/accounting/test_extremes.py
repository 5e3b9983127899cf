"""compose against exact values at the ends of its range.

σ from .1 to 1e5, q from 1e-7 to 1, counts to 1e8, δ from .3 to 1e-60, ε from 1e-6 to 1000.
The exact values in exact.json are written by `python tests/accounting/oracle.py`, which knows nothing of dpcalc.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from mpmath import mpf

from dpcalc.accounting.compose import compose
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "exact.json").read_text(encoding="utf-8"))

# Doubles carry the parameters and the answer; nothing else may be on the wrong side.
ROUNDING = mpf("1e-12")

# What a certified bound may be away from the exact value, relatively.
TIGHT = 1e-2

# Here the bounds are sound and no more.
UPPER_IS_LOOSE = {
    "laplace/10000.0 x100000000 delta=1e-06",
    "poisson/0.1/0.01 x10000 delta=1e-09",
}
LOWER_IS_LOOSE = {
    "poisson/100000.0/1e-07 x100000000 delta=1e-10",
    "poisson/100000.0/0.01 x100000000 delta=1e-05",
    "poisson/100000.0/0.01 x100000000 delta=1e-60",
    "poisson/1.0/1e-07 x100000000 delta=1e-10",
    "poisson/0.1/0.01 x10000 delta=1e-09",
}


def label(row: dict) -> str:
    parts = " + ".join(f"{'/'.join(str(item) for item in part)} x{count}" for part, count in row["parts"])
    question = "delta" if "delta" in row else "epsilon"
    return f"{parts} {question}={row[question]}"


def mechanism(kind: str, first: float, rate: float = 1.0) -> Mechanism:
    if kind == "randomized-response":
        return RandomizedResponse(epsilon=first)
    if kind == "laplace":
        return Laplace(scale=first)
    base = Gaussian(noise_multiplier=first)
    return base if kind == "gaussian" else PoissonSampled(base=base, sampling_rate=rate)


@pytest.fixture(scope="module")
def oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accounting_oracle", HERE / "oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("row", [row for row in ROWS if "delta" in row], ids=label)
def test_epsilon_is_bracketed_at_extreme_parameters(row):
    exact = mpf(row["exact"])
    guarantee = compose([(mechanism(*part), count) for part, count in row["parts"]], delta=row["delta"])
    assert guarantee.status == "certified"
    assert guarantee.epsilon >= exact * (1 - ROUNDING)
    lower = guarantee.epsilon_lower or 0.0
    assert lower <= exact * (1 + ROUNDING)
    assert label(row) in UPPER_IS_LOOSE or guarantee.epsilon <= exact * (1 + TIGHT)
    assert label(row) in LOWER_IS_LOOSE or lower >= exact * (1 - TIGHT)


@pytest.mark.parametrize("row", [row for row in ROWS if "epsilon" in row], ids=label)
def test_delta_is_an_upper_bound_at_extreme_parameters(row):
    exact = mpf(row["exact"])
    guarantee = compose([(mechanism(*part), count) for part, count in row["parts"]], epsilon=row["epsilon"])
    assert guarantee.status == "certified"
    assert guarantee.delta >= exact * (1 - ROUNDING)
    assert label(row) in UPPER_IS_LOOSE or guarantee.delta <= exact * (1 + TIGHT)


def cheap(row: dict) -> bool:
    """The table's rows that take no time to compute again: no contour, and no sum over millions of terms."""
    few = all(count <= 5 or part[0] == "gaussian" for part, count in row["parts"])
    return few and row["method"] in ("closed form", "binomial sum")


@pytest.mark.parametrize("row", [row for row in ROWS if cheap(row)], ids=label)
def test_the_table_is_what_the_closed_forms_give(row, oracle):
    assert oracle.mp.nstr(oracle.exact(*oracle.asked(row))[1], 20) == oracle.mp.nstr(mpf(row["exact"]), 20)


@pytest.mark.parametrize("index", [0, 20])
def test_the_table_is_what_the_contour_integral_gives(index, oracle):
    row = ROWS[index]
    assert row["method"] == "contour"
    assert oracle.mp.nstr(oracle.exact(*oracle.asked(row))[1], 20) == oracle.mp.nstr(mpf(row["exact"]), 20)


def test_the_contour_integral_gives_the_gaussian_closed_form(oracle):
    """A rate of one is a Gaussian, here through the quadrature of the sampled one."""
    sigma, count, delta = mpf(50), 400, mpf("1e-20")
    steps = [(oracle.SampledGaussian(sigma, mpf(1), "remove"), count)]
    mu = oracle.mp.sqrt(count) / sigma
    found = oracle.by_contour(steps, {"delta": delta})
    assert abs(oracle.gaussian_delta(mu, found) / delta - 1) < mpf("1e-18")


def test_the_published_values_are_in_the_table():
    """The three Poisson cases, and the interval that peers give for the mixed list."""
    published = {2.38168973: 5e-9, 12.42193: 5e-6, 47.51701: 5e-6}
    values = [float(row["exact"]) for row in ROWS[:5] if "delta" in row]
    for (value, half_digit), found in zip(published.items(), values, strict=False):
        assert abs(found - value) <= half_digit
    assert 2.944 <= values[3] <= 2.9542
