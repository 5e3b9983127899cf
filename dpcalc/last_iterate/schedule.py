"""Step sizes and noise that change along the run: reading them, and the bounds that still hold.

Theorem C.3 holds with a Lipschitz constant, a sensitivity and a noise of its own at every step, so full and cyclic
batches keep their best shifts; random batches keep composition and the one-sided shifts.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.last_iterate.bound import COMPOSITION, OPTIMAL_SHIFTS, SHIFTED, Bound, Subsampled
from dpcalc.last_iterate.choice import SHARES, estimate, grid, log_moments
from dpcalc.last_iterate.contraction import ROUND_UP
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.shifts import least_energy

COLUMNS = ("step", "lr", "sigma")
_MOST_LEVELS = 10  # different noise levels that random batches are composed of; more are rounded to the safe side
_STARTS_TRIED = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """η and σ that hold from each of `starts` (counted from step 1) until the next."""

    starts: Floats
    learning_rates: Floats
    sigmas: Floats

    @property
    def last_step(self) -> int:
        """The last step that is named."""
        return int(self.starts[-1])

    def at_every_step(self, steps: int) -> tuple[Floats, Floats]:
        """η and σ of steps 1 … t."""
        row = np.searchsorted(self.starts, np.arange(1, steps + 1), side="right") - 1
        return self.learning_rates[row], self.sigmas[row]


def read_schedule(text: str, *, name: str) -> Schedule:
    """The schedule in a CSV with the columns step, lr and sigma; errors name the file and the line."""
    header, _, body = text.partition("\n")
    columns = [column.strip() for column in header.split(",")]
    if sorted(columns) != sorted(COLUMNS):
        raise InputError(f"expected the columns {', '.join(COLUMNS)}, got {header.strip()!r}", where=f"{name}:1")
    if not body.strip():
        raise InputError("expected at least one row, got none", where=f"{name}:2")
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        table = _read_slowly(body, len(columns), name)
    if table.shape[1] != len(columns):
        raise InputError(f"expected {len(columns)} numbers in a row, got {table.shape[1]}", where=f"{name}:2")
    values = {column: table[:, index] for index, column in enumerate(columns)}
    _check_rows(values, name)
    return Schedule(starts=values["step"], learning_rates=values["lr"], sigmas=values["sigma"])


def _read_slowly(body: str, width: int, name: str) -> Floats:
    rows = []
    for number, line in enumerate(body.splitlines(), start=2):
        if not line.strip():
            continue
        try:
            rows.append([float(cell) for cell in line.split(",")])
        except ValueError:
            raise InputError(f"expected {width} numbers, got {line.strip()!r}", where=f"{name}:{number}") from None
        if len(rows[-1]) != width:
            raise InputError(f"expected {width} numbers, got {line.strip()!r}", where=f"{name}:{number}")
    return np.array(rows)


def _check_rows(values: dict[str, Floats], name: str) -> None:
    steps = values["step"]
    for column in ("lr", "sigma"):
        wrong = np.flatnonzero(~(np.isfinite(values[column]) & (values[column] > 0)))
        if wrong.size:
            row = int(wrong[0])
            raise InputError(f"expected {column} > 0, got {values[column][row]:g}", where=f"{name}:{row + 2}: {column}")
    if steps[0] != 1:
        raise InputError(f"expected the first row to be step 1, got {steps[0]:g}", where=f"{name}:2: step")
    wrong = np.flatnonzero(~((steps == np.floor(steps)) & (np.diff(steps, prepend=0) > 0) & np.isfinite(steps)))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(f"expected growing whole steps, got {steps[row]:g}", where=f"{name}:{row + 2}: step")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Course:
    """Per step: what is left of it at the end (A_k), the injection s_k if the record is used, the noise w_k."""

    left: Floats
    injections: Floats
    noises: Floats
    initial: float  # A_0, what is left of a distance at the start

    @cached_property
    def capacity_after(self) -> Floats:
        """Σ (A_j w_j)² over the steps after k, for k = 0 … t."""
        return np.append(np.cumsum(((self.left * self.noises) ** 2)[::-1])[::-1], 0.0)

    @property
    def left_before(self) -> Floats:
        """A_{k-1} for each step k."""
        return np.concatenate(([self.initial], self.left[:-1]))


def _course(setting: Setting, rates: Floats, sigmas: Floats) -> _Course:
    m, M = setting.strong_convexity or 0.0, setting.smoothness
    assert M is not None
    gaps = np.clip(np.minimum(rates * m, 2 - rates * M - 2.0**-50), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        logs = np.log1p(-gaps)
    after = np.cumsum(logs[::-1])[::-1]
    left = np.exp(np.append(after[1:], 0.0))
    return _Course(
        left=left,
        injections=rates * setting.sensitivity / setting.batch,
        noises=rates * sigmas,
        initial=math.exp(after[0]),
    )


def bounds(setting: Setting, schedule: Schedule, delta: float) -> list[Bound]:
    """Every bound that holds for the schedule; `setting` carries its largest η and smallest σ."""
    rates, sigmas = schedule.at_every_step(setting.steps)
    course = _course(setting, rates, sigmas)
    if setting.algorithm == "sgd" and setting.batch < setting.dataset_size:
        return _stochastic(setting, course, sigmas, delta)
    step_mus = (setting.sensitivity / (setting.batch * sigmas)) ** 2
    length = setting.batches
    padded = np.append(step_mus, np.zeros(-len(step_mus) % length)).reshape(-1, length)
    composed = math.sqrt(float(padded.sum(axis=0).max())) * _rounding(setting.steps)
    theorem = "Bok et al., Theorem 4.1" if length == 1 else "Bok et al., Theorem 4.4"
    found = [
        Bound(
            name=COMPOSITION, theorem=f"{theorem}, step by step", conditions=("any loss",), mu=composed, constant=False
        )
    ]
    energy, tau = max(_energy_of_record(setting, course, first) for first in range(length))
    conditions = ["convex" if setting.strong_convexity in (None, 0) else "m-strongly convex", "M-smooth"]
    conditions.append("every η ≤ 2/M")
    if setting.diameter is not None:
        conditions.append("projection onto a convex set of diameter D")
    found.append(
        Bound(
            name=SHIFTED,
            theorem="Bok et al., Theorem C.3 at its optimum over all shifts, step by step",
            conditions=tuple(conditions),
            mu=math.sqrt(energy) * _rounding(setting.steps),
            tau=tau,
            constant=False,
        )
    )
    return found


def _rounding(steps: int) -> float:
    """Sums over so many steps, each rounded: the factor that keeps a bound above its exact value."""
    return ROUND_UP * (1 + 4 * steps * 2.0**-53)


def _energy_of_record(setting: Setting, course: _Course, first: int) -> tuple[float, int]:
    """Least energy over shifts and starts for the record whose batch comes at step first + 1, first + 1 + l, …"""
    uses = np.arange(first, setting.steps, setting.batches)
    if uses.size == 0:
        return 0.0, 0
    points = np.append(uses, setting.steps)  # only just before a use can the shifts run out of distance
    amounts = course.left[uses] * course.injections[uses]
    later = course.capacity_after
    best = (math.inf, 0)
    if setting.diameter is not None:
        distances = course.left[uses] * setting.diameter
        for index, least in _promising_starts(course, uses, amounts, distances):
            start = int(uses[index]) + 1
            if start < setting.steps and least < best[0]:
                obstacles = distances[index] + np.concatenate(([0.0], np.cumsum(amounts[index + 1 :])))
                best = min(best, (least_energy(later[start] - later[points[index + 1 :]], obstacles), start))
    start = int(uses[0])  # nothing has been injected before
    injected = np.cumsum(amounts)
    if injected[-1] ** 2 / later[start] < best[0]:
        best = min(best, (least_energy(later[start] - later[points[1:]], injected), start))
    return best


def _promising_starts(course: _Course, uses: Any, amounts: Floats, distances: Floats) -> list[tuple[int, float]]:
    """Uses right after which to start from D, best first, each with an energy that it cannot go below.

    Guessed in two ways that forget the order of the injections: one spreads everything over all the noise that is left,
    which is the least that is possible, the other keeps the last use apart.
    """
    later, last = course.capacity_after, int(uses[-1])
    remaining = np.append(np.cumsum(amounts[:0:-1])[::-1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (distances + remaining) ** 2 / later[uses + 1]
        apart = (distances + remaining - amounts[-1]) ** 2 / (later[uses + 1] - later[last])
        apart += amounts[-1] ** 2 / later[last]
    guesses = [np.where(np.isnan(guess) | (guess < 0), np.inf, guess) for guess in (spread, apart)]
    count = min(_STARTS_TRIED, uses.size)
    ranked = [np.argpartition(guess, count - 1)[:count] for guess in guesses]
    chosen = {*ranked[0].tolist(), *ranked[1].tolist(), max(uses.size - 2, 0)}
    return sorted(
        ((index, float(guesses[0][index]) * (1 - 1e-9)) for index in chosen), key=lambda each: guesses[1][each[0]]
    )


def _stochastic(setting: Setting, course: _Course, sigmas: Floats, delta: float) -> list[Bound]:
    """Composition, and one-sided shifts over all unrolled steps, at the best τ and split."""
    steps, rate = setting.steps, setting.sampling_rate
    levels, which = _levels(setting.sensitivity / (setting.batch * sigmas))
    unrolled = np.array(grid(1, steps, 120))
    newest_first = which[::-1]
    stretches = [newest_first[a:b] for a, b in pairwise([0, *unrolled.tolist()])]
    counts = np.cumsum([np.bincount(stretch, minlength=levels.size) for stretch in stretches], axis=0)
    everything = tuple(
        Subsampled(mu=float(mu), count=int(count)) for mu, count in zip(levels, counts[-1], strict=True) if count
    )
    found = [
        Bound(
            name=COMPOSITION,
            theorem="Bok et al., Theorem 4.8, step by step",
            conditions=("any loss",),
            subsampled=everything,
        )
    ]
    reach = _reach(setting, course, unrolled)
    best: tuple[float, int, float] = (math.inf, 0, 0.0)
    for share in SHARES[::2].tolist():
        moments = np.array([log_moments(float(mu) / math.sqrt(share), rate) for mu in levels])
        scores = estimate(reach / math.sqrt(1 - share), counts @ moments, delta)
        index = int(np.argmin(scores))
        best = min(best, (float(scores[index]), index, share))
    _, index, share = best
    remaining = int(unrolled[index])
    shifted = tuple(
        Subsampled(mu=float(mu) / math.sqrt(share) * ROUND_UP, count=int(count))
        for mu, count in zip(levels, counts[index], strict=True)
        if count
    )
    gaussian = float(reach[index]) / math.sqrt(1 - share) * _rounding(steps)
    if math.isfinite(gaussian):
        found.append(
            Bound(
                name=OPTIMAL_SHIFTS,
                theorem="one-sided shifted interpolation (docs/sgd-bound.md), step by step",
                conditions=("convex", "M-smooth", "every η ≤ 2/M"),
                mu=gaussian,
                subsampled=shifted,
                tau=steps - remaining,
            )
        )
    return found


def _reach(setting: Setting, course: _Course, unrolled: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """√Σ(a_k/w_k)² when the distance at τ is shifted away over the last r steps."""
    steps = setting.steps
    injected = np.concatenate(([0.0], np.cumsum(course.left * course.injections)))  # as left at the end
    distance = injected[steps - unrolled]
    if setting.diameter is not None:
        distance = np.minimum(distance, np.append(course.left_before, 1.0)[steps - unrolled] * setting.diameter)
    return np.asarray(distance / np.sqrt(course.capacity_after[steps - unrolled]))


def _levels(mus: Floats) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """The different μ, largest first merged upwards until there are few, and which one each step has."""
    levels, which = np.unique(mus, return_inverse=True)
    if levels.size > _MOST_LEVELS:
        grid = np.geomspace(levels[0], levels[-1] * ROUND_UP, _MOST_LEVELS)
        place = np.minimum(np.searchsorted(grid, levels, side="left"), _MOST_LEVELS - 1)
        return grid * ROUND_UP, place[which]
    return levels * ROUND_UP, which
