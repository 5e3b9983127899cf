"""What a person asks for, in the words of the command line, turned into a checked setting."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpcalc.errors import InputError
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Algorithm, Setting


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run as it is asked for: noise as σ or as z = bσ/L, length as steps or as epochs, constant or on a schedule."""

    algorithm: Algorithm
    sensitivity: float
    n: int
    delta: float
    lr: float | None = None
    sigma: float | None = None
    noise_multiplier: float | None = None
    batch_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    strong_convexity: float | None = None
    smoothness: float | None = None
    diameter: float | None = None
    schedule: Schedule | None = None

    def stored(self) -> dict[str, Any]:
        """The request as plain data, from which its result can be worked out again."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.schedule is not None:
            columns = (self.schedule.starts, self.schedule.learning_rates, self.schedule.sigmas)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            given["schedule"] = [{"step": int(step), "lr": rate, "sigma": sigma} for step, rate, sigma in rows]
        return {name: value for name, value in given.items() if value is not None}

    def setting(self) -> Setting:
        """The checked setting; on a schedule, its largest step size and smallest noise."""
        learning_rate, sigma = self._rate_and_noise()
        return Setting(
            algorithm=self.algorithm,
            learning_rate=learning_rate,
            sigma=sigma,
            sensitivity=self.sensitivity,
            dataset_size=self.n,
            steps=self._steps(),
            batch_size=self.batch_size,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            diameter=self.diameter,
        )

    def _rate_and_noise(self) -> tuple[float, float]:
        if self.schedule is not None:
            given = {"--lr": self.lr, "--sigma": self.sigma, "--noise-multiplier": self.noise_multiplier}
            extra = [name for name, value in given.items() if value is not None]
            if extra:
                raise InputError(
                    f"the schedule already sets the step size and the noise, got {' and '.join(extra)} too"
                )
            return self._extremes_of_schedule(self.schedule)
        if self.lr is None:
            raise InputError("a step size is needed: --lr η, or --schedule FILE")
        if (self.sigma is None) == (self.noise_multiplier is None):
            found = "neither" if self.sigma is None else "both"
            raise InputError(f"exactly one of --sigma σ and --noise-multiplier z is needed (z = bσ/L), got {found}")
        if self.sigma is not None:
            return self.lr, self.sigma
        assert self.noise_multiplier is not None
        return self.lr, self.noise_multiplier * self.sensitivity / (self.batch_size or self.n)

    def _extremes_of_schedule(self, schedule: Schedule) -> tuple[float, float]:
        used = schedule.starts <= self._steps()
        return float(schedule.learning_rates[used].max()), float(schedule.sigmas[used].min())

    def _steps(self) -> int:
        if self.steps is not None and self.epochs is not None:
            raise InputError(f"give --steps or --epochs, not both, got {self.steps} and {self.epochs:g}")
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            batches = 1 if self.algorithm == "gd" or not self.batch_size else Fraction(self.n, self.batch_size)
            return math.ceil(Fraction(self.epochs).limit_denominator(10**9) * batches)
        if self.schedule is not None:
            return self.schedule.last_step
        raise InputError("the length of the run is needed: --steps t or --epochs E")
