"""What a person asks for, in the words of the command line, turned into a checked setting."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dpcalc.errors import InputError
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Algorithm, Setting
from dpcalc.numbers import steps_of_epochs


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run as it is asked for: constant or on a schedule, its length in steps or in epochs.

    Gradients have the sensitivity L, or are clipped at C, which gives L = 2C. The noise is σ on the average, bσ/C (the
    noise multiplier of the trainer: its σ on the sum is zC), or bσ/L.
    """

    algorithm: Algorithm
    n: int
    delta: float
    sensitivity: float | None = None
    clip: float | None = None
    lr: float | None = None
    sigma: float | None = None
    noise_multiplier: float | None = None
    noise_over_sensitivity: float | None = None
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
            sensitivity=self.replace_one_sensitivity,
            dataset_size=self.n,
            steps=self._steps(),
            batch_size=self.batch_size,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            diameter=self.diameter,
        )

    @property
    def replace_one_sensitivity(self) -> float:
        """L: as it is given, or twice the clip."""
        if self.clip is not None and self.sensitivity is None:
            return 2 * self.clip
        if self.sensitivity is None or self.clip is not None:
            found = "neither" if self.sensitivity is None else "both"
            raise InputError(f"exactly one of --sensitivity L and --clip C (L = 2C) is needed, got {found}")
        return self.sensitivity

    @property
    def noises(self) -> dict[str, float | None]:
        """The ways to state the noise, by the name of their option."""
        return {
            "--sigma": self.sigma,
            "--noise-multiplier": self.noise_multiplier,
            "--noise-over-sensitivity": self.noise_over_sensitivity,
        }

    def _rate_and_noise(self) -> tuple[float, float]:
        if self.schedule is not None:
            given = {"--lr": self.lr, **self.noises}
            extra = [name for name, value in given.items() if value is not None]
            if extra:
                raise InputError(
                    f"the schedule already sets the step size and the noise, got {' and '.join(extra)} too"
                )
            return self._extremes_of_schedule(self.schedule)
        if self.lr is None:
            raise InputError("a step size is needed: --lr η, or --schedule FILE")
        return self.lr, self._sigma()

    def _sigma(self) -> float:
        given = [name for name, value in self.noises.items() if value is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise InputError(f"exactly one of {', '.join(self.noises)} is needed, got {found}")
        batch = self.batch_size or self.n
        if self.noise_multiplier is not None:
            if self.clip is None:
                raise InputError(
                    "a noise multiplier is relative to a clip: give --clip C too (σ on the sum is zC, and L = 2C), "
                    "or --noise-over-sensitivity for bσ/L"
                )
            return self.noise_multiplier * self.clip / batch
        if self.noise_over_sensitivity is not None:
            return self.noise_over_sensitivity * self.replace_one_sensitivity / batch
        assert self.sigma is not None
        return self.sigma

    def _extremes_of_schedule(self, schedule: Schedule) -> tuple[float, float]:
        used = schedule.starts <= self._steps()
        return float(schedule.learning_rates[used].max()), float(schedule.sigmas[used].min())

    def _steps(self) -> int:
        if self.steps is not None and self.epochs is not None:
            raise InputError(f"give --steps or --epochs, not both, got {self.steps} and {self.epochs:g}")
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            whole = self.algorithm == "gd" or not self.batch_size
            return steps_of_epochs(self.epochs, self.n, self.n if whole else self.batch_size or self.n)
        if self.schedule is not None:
            return self.schedule.last_step
        raise InputError("the length of the run is needed: --steps t or --epochs E")
