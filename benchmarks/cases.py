"""The questions that dpcalc and its peers are asked, as plain data that every environment can read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


def sampled(rate: float, noise_multiplier: float, count: int) -> dict[str, Any]:
    """A Poisson-sampled Gaussian."""
    sampling = {"scheme": "poisson", "rate": rate}
    return {"type": "gaussian", "noise_multiplier": noise_multiplier, "sampling": sampling, "count": count}


@dataclass(frozen=True)
class Case:
    """A list of mechanisms and δ; `exact` is what is known of ε, `bars` the least ratio to each peer's time.

    `equal` is the least ratio to dp-accounting's PLD on a grid so coarse that its ε is as far above the exact one as
    ours, `each` the most milliseconds for a mechanism, `seconds` the most for all. A calibration solves for `unknown`.
    """

    name: str
    mechanisms: list[dict[str, Any]]
    delta: float
    exact: tuple[float, float] | None
    bars: dict[str, float]
    gap: float = 1e-3
    calibrate_epsilon: float | None = None
    unknown: str = "noise_multiplier"
    equal: float | None = None
    each: float | None = None
    seconds: float | None = None
    tolerance: float = 1e-3

    def plain(self) -> dict[str, Any]:
        return asdict(self)


_BOTH = {"dp-accounting PLD": 25.0, "prv-accountant": 25.0}
_EXACT = json.loads((Path(__file__).parents[1] / "tests" / "accounting" / "exact.json").read_text(encoding="utf-8"))


def exact(*parts: tuple[list[Any], int], delta: float) -> tuple[float, float]:
    """The value that tests/accounting/oracle.py computed in mpmath by a contour integral, to ten digits."""
    wanted = [[list(part), count] for part, count in parts]
    (value,) = (float(row["exact"]) for row in _EXACT if row["parts"] == wanted and row.get("delta") == delta)
    return value * (1 - 1e-10), value * (1 + 1e-10)


def different(count: int) -> list[dict[str, Any]]:
    """So many sampled Gaussians, no two alike."""
    return [sampled(0.01, 1 + 2 * i / max(count - 1, 1), 1) for i in range(count)]


MIXED = [
    {"type": "laplace", "scale": 20.0, "sensitivity": 1.0, "count": 100},
    sampled(0.005, 0.9, 2000),
    {"type": "gaussian", "noise_multiplier": 20.0, "count": 10},
]
MNIST = [sampled(256 / 60000, 1.1, 14063)]
_MNIST = exact((["poisson", 1.1, 256 / 60000], 14063), delta=1e-5)
_MIXED = exact((["laplace", 20.0], 100), (["poisson", 0.9, 0.005], 2000), (["gaussian", 20.0], 10), delta=1e-6)
_MILLION = exact((["poisson", 0.8, 0.001], 1_000_000), delta=1e-8)
_LITTLE = exact((["poisson", 0.5, 0.01], 10_000), delta=1e-6)

_PLD, _OPACUS = "dp-accounting PLD", "opacus RDP"

CASES = [
    Case("mnist 14,063 steps", MNIST, 1e-5, _MNIST, _BOTH, equal=15.0),
    Case("a million steps", [sampled(0.001, 0.8, 1_000_000)], 1e-8, _MILLION, _BOTH, equal=15.0),
    Case("little noise", [sampled(0.01, 0.5, 10_000)], 1e-6, _LITTLE, _BOTH),
    Case("mixed release", MIXED, 1e-6, _MIXED, {_PLD: 8.0}, equal=8.0),
    Case("2 different", different(2), 1e-5, None, {}),
    Case("3 different", different(3), 1e-5, None, {}),
    Case("100 different", different(100), 1e-5, None, {}, each=1.5),
    Case("300 different", different(300), 1e-5, None, {}, each=1.5),
    Case("3,000 different", different(3000), 1e-5, None, {_OPACUS: 20.0}),
    Case("10,000 different", different(10_000), 1e-5, None, {}, seconds=6.0),
    *(
        Case(f"calibrate {unknown}", [sampled(0.01, 1.0, 5000)], 1e-5, None, {_PLD: 15.0}, 1e-3, 2.0, unknown)
        for unknown in ("noise_multiplier", "rate", "count")
    ),
]

_STEPS = {
    2: (0.01, 1.0),
    3: (0.01, 1.0),
    4: (0.01, 1.2),
    5: (1e-3, 1.0),
    6: (1e-3, 2.0),
    7: (1e-3, 5.0),
    8: (1e-3, 15.0),
}

TOLERANCES = [
    Case(
        f"10^{power} steps", [sampled(rate, noise, 10**power)], delta, None, {}, gap=1e-6, seconds=10.0, tolerance=1e-6
    )
    for power, (rate, noise) in _STEPS.items()
    for delta in (1e-3, 1e-5, 1e-9, 1e-15, 1e-30, 1e-50)
]
"""Intervals a millionth wide, or a word on what stopped them."""

_NAMES = ("mnist 14,063 steps", "a million steps", "little noise", "3,000 different", "mixed release")

SMALL_DELTAS = [
    Case(f"{case.name}, δ={delta:g}", case.mechanisms, delta, None, {}, gap=1e-2)
    for case in CASES
    if case.name in _NAMES
    for delta in (1e-15, 1e-30, 1e-50)
]
