"""What a person asks for, in the words of the command line, turned into a checked setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dpcalc.asked import Algorithm, number, option, parsed, whole
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, PROBABILITY, parse_number, steps_of_epochs
from dpcalc.rounding import times_up

if TYPE_CHECKING:
    from dpcalc.last_iterate.schedule import Schedule
    from dpcalc.last_iterate.setting import Setting
else:  # types that are read at run time, where arrays need not be loaded
    Schedule = Any

Noise = float | Literal["solve"]
Unknown = Literal["sigma", "noise_multiplier", "noise_over_sensitivity"]

NOISES: tuple[Unknown, ...] = ("sigma", "noise_multiplier", "noise_over_sensitivity")

# The part of δ that goes to Poisson batches which are too large.
_OVERFLOW = 1e-3

_RUN = "The run"
_LOSS = "The losses"


def _read_noise(text: str) -> Noise:
    return "solve" if text == "solve" else parse_number(text, POSITIVE)


def _noise(flag: str, help: str) -> Any:
    return parsed(flag, help=f"{help} Or solve.", metavar="NUMBER", parse=_read_noise, panel=_RUN)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run as it is asked for: constant or on a schedule, its length in steps or in epochs.

    Gradients have the sensitivity L, or are clipped at C, which gives L = 2C. The noise is σ on the average, bσ/C (the
    noise multiplier of the trainer: its σ on the sum is zC), or bσ/L; one of them may be the word solve.
    """

    algorithm: Annotated[
        Algorithm,
        option(
            "--algorithm",
            help="gd: all records. cgd: batches in a fixed cycle. sgd: random batches of fixed size.",
            panel=_RUN,
        ),
    ]
    n: Annotated[int | None, whole("--n", help="Number of records n.", panel=_RUN)] = None
    sensitivity: Annotated[
        float | None,
        number(
            "--sensitivity",
            help="L: largest distance between two records' gradients; under add-remove their largest norm.",
            panel=_LOSS,
        ),
    ] = None
    clip: Annotated[
        float | None, number("--clip", help="C: gradients are clipped at this norm, so L = 2C.", panel=_LOSS)
    ] = None
    lr: Annotated[float | None, number("--lr", help="Step size η.", panel=_RUN)] = None
    sigma: Annotated[Noise | None, _noise("--sigma", "σ: noise on the AVERAGE gradient of a batch.")] = None
    noise_multiplier: Annotated[
        Noise | None,
        _noise("--noise-multiplier", "z, with --clip C: the noise on the SUM is zC, as in train; σ = zC/b."),
    ] = None
    noise_over_sensitivity: Annotated[Noise | None, _noise("--noise-over-sensitivity", "bσ/L, instead of σ.")] = None
    batch_size: Annotated[int | None, whole("--batch-size", help="Records b in a batch (cgd, sgd).", panel=_RUN)] = None
    steps: Annotated[int | None, whole("--steps", help="Number of steps t.", panel=_RUN)] = None
    epochs: Annotated[float | None, number("--epochs", help="Number of epochs E, instead of steps.", panel=_RUN)] = None
    strong_convexity: Annotated[
        float | None,
        number(
            "--strong-convexity",
            help="m: every loss is m-strongly convex; 0 if merely convex.",
            allowed=NON_NEGATIVE,
            panel=_LOSS,
        ),
    ] = None
    smoothness: Annotated[float | None, number("--smoothness", help="M: every loss is M-smooth.", panel=_LOSS)] = None
    diameter: Annotated[
        float | None,
        number("--diameter", help="D: iterates are projected onto a convex set of this diameter.", panel=_LOSS),
    ] = None
    adjacency: Annotated[
        Adjacency,
        option("--adjacency", help="Neighbours; add-remove halves L, and sgd is Poisson.", panel=_RUN),
    ] = "replace-one"
    largest_batch: Annotated[
        int | None, whole("--largest-batch", help="Of Poisson batches; so that few are cut.", panel=_RUN)
    ] = None
    delta: Annotated[
        float, number("--delta", help="δ at which to give ε, strictly between 0 and 1.", allowed=PROBABILITY)
    ]
    schedule: Schedule | None = None

    def stored(self) -> dict[str, Any]:
        """The request as plain data, from which its result can be worked out again."""
        given = {each.name: getattr(self, each.name) for each in fields(Request)}
        if self.schedule is not None:
            columns = (self.schedule.starts, self.schedule.learning_rates, self.schedule.sigmas)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            given["schedule"] = [{"step": int(step), "lr": rate, "sigma": sigma} for step, rate, sigma in rows]
        return {name: value for name, value in given.items() if value is not None}

    def setting(self) -> Setting:
        """The checked setting; on a schedule, its largest step size and smallest noise."""
        from dpcalc.last_iterate.setting import Setting

        records = self.records
        learning_rate, sigma = self._rate_and_noise()
        return Setting(
            algorithm=self.algorithm,
            learning_rate=learning_rate,
            sigma=sigma,
            sensitivity=self.gradient_sensitivity,
            dataset_size=records,
            steps=self._steps(),
            batch_size=self.batch_size,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            diameter=self.diameter,
            adjacency=self.adjacency,
            **self._batches(records),
        )

    def _batches(self, records: int) -> dict[str, Any]:
        """The largest Poisson batch, and the chance that some step draws more: a thousandth of δ unless told."""
        size = self.batch_size or records
        if self.algorithm != "sgd" or self.adjacency == "replace-one" or size >= records:
            if self.largest_batch is not None:
                raise InputError("goes with Poisson batches: sgd under add-remove", where="largest_batch")
            return {}
        from dpcalc.mechanisms.truncated import binomial_tail

        steps = self._steps()

        def overflow(most: int) -> float:
            return min(1.0, times_up(binomial_tail(records - 1, size / records, most)[1], steps))

        most = self.largest_batch or _least(lambda most: overflow(most) <= _OVERFLOW * self.delta, size, records)
        if (cut := overflow(most)) >= 1:
            raise InputError(f"almost surely more than {most} records are drawn in some step", where="largest_batch")
        return {"largest_batch": most, "overflow": cut}

    @property
    def records(self) -> int:
        """n, which data may bring if it was not given."""
        if self.n is None:
            raise InputError("is missing: the number of records, or data with a model", where="n")
        return self.n

    @property
    def clips_apart(self) -> int:
        """How many clips apart one record moves a sum: two if it is replaced, one if it is removed."""
        return 2 if self.adjacency == "replace-one" else 1

    @property
    def gradient_sensitivity(self) -> float:
        """L: as it is given, or twice the clip (the clip itself under add-remove)."""
        if self.clip is not None and self.sensitivity is None:
            return self.clips_apart * self.clip
        if self.sensitivity is None or self.clip is not None:
            found = "neither" if self.sensitivity is None else "both"
            raise InputError(f"exactly one of `sensitivity=L` and `clip=C` (L = 2C) is needed, got {found}")
        return self.sensitivity

    @property
    def unknown(self) -> Unknown | None:
        """The noise that is to be solved for."""
        return next((name for name in NOISES if getattr(self, name) == "solve"), None)

    def _given(self, *names: str) -> list[str]:
        """The fields among these that were given."""
        return [f"`{name}`" for name in names if getattr(self, name) is not None]

    def _rate_and_noise(self) -> tuple[float, float]:
        if self.schedule is not None:
            extra = self._given("lr", *NOISES)
            if extra:
                raise InputError(
                    f"the schedule already sets the step size and the noise, got {' and '.join(extra)} too"
                )
            return self._extremes_of_schedule(self.schedule)
        if self.lr is None:
            raise InputError("a step size is needed: `lr=η`, or `schedule=FILE`")
        return self.lr, self._sigma()

    def _sigma(self) -> float:
        given = self._given(*NOISES)
        if len(given) != 1:
            found = " and ".join(given) or "none"
            names = "`sigma`, `noise_multiplier`, `noise_over_sensitivity`"
            raise InputError(f"exactly one of {names} is needed, got {found}")
        noise = next(value for name in NOISES if (value := getattr(self, name)) is not None)
        if noise == "solve":
            raise InputError("solve needs `target_epsilon`, the ε to stay within")
        batch = self.batch_size or self.records
        if self.noise_multiplier is not None:
            if self.clip is None:
                raise InputError(
                    "a noise multiplier is relative to a clip; give `clip=C` too (σ on the sum is zC, and L = 2C), "
                    "or `noise_over_sensitivity` for bσ/L"
                )
            return float(noise * self.clip / batch)
        if self.noise_over_sensitivity is not None:
            return float(noise * self.gradient_sensitivity / batch)
        return float(noise)

    def _extremes_of_schedule(self, schedule: Schedule) -> tuple[float, float]:
        used = schedule.starts <= self._steps()
        return float(schedule.learning_rates[used].max()), float(schedule.sigmas[used].min())

    def _steps(self) -> int:
        if self.steps is not None and self.epochs is not None:
            raise InputError(f"give `steps` or `epochs`, not both, got {self.steps} and {self.epochs:g}")
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            whole = self.algorithm == "gd" or not self.batch_size
            return steps_of_epochs(
                self.epochs, self.records, self.records if whole else self.batch_size or self.records
            )
        if self.schedule is not None:
            return self.schedule.last_step
        raise InputError("the length of the run is needed: `steps=t` or `epochs=E`")


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least whole number in a range for which something holds, that holds for all larger ones and the largest."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
