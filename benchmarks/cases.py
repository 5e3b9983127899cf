"""The questions that dpcalc and its peers are asked, as plain data that every environment can read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


def sampled(rate: float, noise_multiplier: float, count: int) -> dict[str, Any]:
    """A Poisson-sampled Gaussian."""
    sampling = {"scheme": "poisson", "rate": rate}
    return {"type": "gaussian", "noise_multiplier": noise_multiplier, "sampling": sampling, "count": count}


@dataclass(frozen=True)
class Case:
    """A list of mechanisms and δ; `exact` is what is known of ε, `bars` the least ratio to each peer's time."""

    name: str
    mechanisms: list[dict[str, Any]]
    delta: float
    exact: tuple[float, float] | None
    bars: dict[str, float]
    gap: float = 1e-3
    calibrate_epsilon: float | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


_BOTH = {"dp-accounting PLD": 10.0, "prv-accountant": 10.0}

MANY = [sampled(0.01, 1 + 2 * i / 2999, 1) for i in range(3000)]
MIXED = [
    {"type": "laplace", "scale": 20.0, "sensitivity": 1.0, "count": 100},
    sampled(0.005, 0.9, 2000),
    {"type": "gaussian", "noise_multiplier": 20.0, "count": 10},
]

_LISTS: dict[str, tuple[list[dict[str, Any]], float, tuple[float, float] | None, dict[str, float]]] = {
    "mnist 14,063 steps": ([sampled(256 / 60000, 1.1, 14063)], 1e-5, (2.38168973, 2.38168974), _BOTH),
    "a million steps": ([sampled(0.001, 0.8, 1_000_000)], 1e-8, (12.421925, 12.421935), _BOTH),
    "little noise": ([sampled(0.01, 0.5, 10_000)], 1e-6, (47.517005, 47.517015), _BOTH),
    "3,000 different": (MANY, 1e-5, None, {"dp-accounting RDP": 10.0}),
    "mixed release": (MIXED, 1e-6, (2.944, 2.9542), {"dp-accounting PLD": 5.0}),
}

CASES = [Case(name, mechanisms, delta, exact, bars) for name, (mechanisms, delta, exact, bars) in _LISTS.items()]
CASES.append(
    Case(
        "calibrate σ",
        [sampled(0.01, 1.0, 5000)],
        1e-5,
        None,
        {"dp-accounting PLD": 10.0},
        calibrate_epsilon=2.0,
    )
)

SMALL_DELTAS = [
    Case(f"{name}, δ={delta:g}", mechanisms, delta, None, {}, gap=1e-2)
    for name, (mechanisms, _, _, _) in _LISTS.items()
    for delta in (1e-15, 1e-30, 1e-50)
]
