"""The bounds that hold when step sizes and noise change along the run.

Theorem C.3 holds with a Lipschitz constant, a sensitivity and a noise of its own at every step, so full and cyclic
batches keep their best shifts; random batches keep composition and the one-sided shifts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dpcalc.arrays import Floats, Indices
from dpcalc.last_iterate.bound import COMPOSITION, OPTIMAL_SHIFTS, SHIFTED, Bound, Subsampled
from dpcalc.last_iterate.choice import SHARES, estimate, grid, log_moments, widened
from dpcalc.last_iterate.contraction import ROUND_UP, contractions
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.shifts import best_start, least_energy
from dpcalc.last_iterate.stochastic import composition_theorem, one_sided

_MOST_LEVELS = 10  # different noise levels that random batches are composed of; more are rounded to the safe side
_MOST_ROUNDED = 20_000_000  # steps times places in the cycle that are gone through one by one
_LOUDEST = 1e150  # the most noise, relative to that of the last step, that is made use of: its square is still a number


@dataclass(frozen=True, kw_only=True, eq=False)
class _Course:
    """Per step k, weighed by what is left of it at the end, A_k = c_{k+1}⋯c_t, in units that cannot overflow.

    `rises` are A_k s_k in units of the largest s, `distances` are A_k D in the same (None without a constraint),
    `widths` are (A_k w_k)² in units of the last w². The last width is 1 and slopes only rise, so what underflows on the
    way to 10⁻³⁰⁸ is that much less than the energy, and is paid for by any rounding.
    """

    rises: Floats
    widths: Floats
    distances: Floats | None
    unit: float


def _course(setting: Setting, rates: Floats, sigmas: Floats) -> _Course:
    factors = contractions(rates, setting.strong_convexity or 0.0, setting.step_smoothness)
    left = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
    injections, noises = rates * setting.sensitivity / setting.batch, rates * sigmas
    largest, last = float(injections.max()), float(noises[-1])
    with np.errstate(over="ignore", under="ignore"):
        widths = (left * np.minimum(noises / last, _LOUDEST)) ** 2
    return _Course(
        rises=left * (injections / largest),
        widths=widths,
        distances=None if setting.diameter is None else left * (setting.diameter / largest),
        unit=largest / last,
    )


def _rounding(steps: int) -> float:
    """The factor that keeps a μ above its exact value: every rise has at most t + 4 roundings, every width 3t + 6."""
    return 1 + (4 * steps + 32) * 2.0**-53


def bounds(setting: Setting, schedule: Schedule, delta: float) -> list[Bound]:
    """Every bound that holds for the schedule; `setting` carries its largest η and smallest σ."""
    rates, sigmas = schedule.at_every_step(setting.steps)
    if setting.algorithm == "sgd" and setting.batch < setting.dataset_size:
        return _stochastic(setting, rates, sigmas, delta)
    found = [_composition(setting, sigmas)]
    if setting.is_convex:
        found.append(_best_shifts(setting, _course(setting, rates, sigmas)))
    return found


def _composition(setting: Setting, sigmas: Floats) -> Bound:
    """√Σ(L/(bσ_k))² over the uses of the worst record, for any loss."""
    mus = setting.sensitivity / (setting.batch * sigmas)
    largest = float(mus.max())  # in units of which no square overflows
    squares = (mus / largest) ** 2
    by_record = np.append(squares, np.zeros(-squares.size % setting.batches)).reshape(-1, setting.batches)
    theorem = "Bok et al. 2024, Theorem 4.1" if setting.batches == 1 else "Bok et al. 2024, Theorem 4.4"
    return Bound(
        name=COMPOSITION,
        theorem=f"{theorem}, step by step",
        conditions=("any loss",),
        mu=math.sqrt(float(by_record.sum(axis=0).max())) * largest * _rounding(setting.steps),
    )


def _conditions(setting: Setting) -> tuple[str, ...]:
    kind = "m-strongly convex" if setting.strong_convexity else "convex"
    projected = () if setting.diameter is None else ("projection onto a convex set of diameter D",)
    return (kind, "M-smooth", "every η ≤ 2/M", *projected)


def _best_shifts(setting: Setting, course: _Course) -> Bound:
    length = setting.batches
    widths, late_widths = _between_uses(course.widths, length)
    found = []
    for first in range(min(length, setting.steps)):  # the record is used at step first + 1, first + 1 + l, …
        rises = course.rises[first::length]
        intervals = np.s_[: rises.size, first]
        energy, tau = math.inf, first
        if course.distances is not None:
            distances = course.distances[first::length]
            energy, start = best_start(widths[intervals], rises, late_widths[intervals], distances)
            tau = first + start * length + 1
        # From the first use on: nothing has been injected before. No less than everything spread over all the noise.
        if float(rises.sum()) ** 2 < energy * float(widths[intervals].sum()):
            energy, tau = min((energy, tau), (least_energy(widths[intervals], rises), first))
        found.append((energy, tau))
    energy, tau = max(found)
    return Bound(
        name=SHIFTED,
        theorem="Bok et al. 2024, Theorem C.3: its optimum over all shifts, step by step",
        conditions=_conditions(setting),
        mu=math.sqrt(energy) * course.unit * _rounding(setting.steps),
        tau=tau,
    )


def with_rounding(setting: Setting, wobble: float, delta: float) -> Bound | None:
    """The best shifts where every step injects `wobble` more, whether it uses the record or not; for constant steps.

    Theorem C.3 at its optimum, or one-sided shifts for random batches, whose choices δ guides; None for runs that would
    take too long.
    """
    steps, length = setting.steps, setting.batches
    if setting.algorithm == "sgd" and setting.batch < setting.dataset_size:
        bound = one_sided(setting, delta, wobble)
        return replace(
            bound, theorem="one-sided shifted interpolation, with the rounding of every step (docs/train.md)"
        )
    if steps * length > _MOST_ROUNDED:
        return None
    constant = np.ones(steps)
    course = _course(setting, constant * setting.learning_rate, constant * setting.sigma)
    always, nothing = course.rises * (wobble / setting.injection), np.zeros(steps)
    energies = []
    for first in range(min(length, steps)):
        rises = always.copy()
        rises[first::length] += course.rises[first::length]
        energy = least_energy(course.widths, rises)
        if course.distances is not None:
            energy = min(energy, best_start(course.widths, rises, nothing, course.distances)[0])
        energies.append(energy)
    return Bound(
        name=OPTIMAL_SHIFTS,
        theorem="Bok et al. 2024, Theorem C.3: its optimum, with the rounding of every step (docs/train.md)",
        conditions=_conditions(setting),
        mu=math.sqrt(max(energies)) * course.unit * _rounding(steps + 8),
    )


def _between_uses(widths: Floats, length: int) -> tuple[Floats, Floats]:
    """Σ of the widths from each use to before the next, and without the step of the use itself: uses × records."""
    cycles = np.append(widths, np.zeros(-widths.size % length)).reshape(-1, length)
    here_on = np.cumsum(cycles[:, ::-1], axis=1)[:, ::-1]
    before = np.pad(np.cumsum(cycles, axis=1)[1:, :-1], ((0, 1), (1, 0)))  # of the following cycle
    return here_on + before, np.pad(here_on[:, 1:], ((0, 0), (0, 1))) + before


def _stochastic(setting: Setting, rates: Floats, sigmas: Floats, delta: float) -> list[Bound]:
    """Composition, and one-sided shifts over all unrolled steps, at the best τ and split."""
    steps = setting.steps
    levels, which = _levels(setting.sensitivity / (setting.batch * sigmas))
    unrolled = np.array(grid(1, steps, 120))
    newest_first = which[::-1]
    stretches = [newest_first[a:b] for a, b in pairwise([0, *unrolled.tolist()])]
    counts = np.cumsum([np.bincount(stretch, minlength=levels.size) for stretch in stretches], axis=0)
    composed = Bound(
        name=COMPOSITION,
        theorem=f"{composition_theorem(setting)}, step by step",
        conditions=("any loss",),
        subsampled=_parts(levels, counts[-1]),
    )
    if not setting.is_convex:
        return [composed]
    reach = _reach(_course(setting, rates, sigmas), steps - unrolled)
    best: tuple[float, int, float] = (math.inf, 0, float(SHARES[0]))
    for share in SHARES.tolist():
        moments = np.array([log_moments(float(mu) / math.sqrt(share), setting.sampling_rate) for mu in levels])
        scores = estimate(widened(reach, share), counts @ moments, delta)
        index = int(np.argmin(scores))
        best = min(best, (float(scores[index]), index, share))
    _, index, share = best
    gaussian = float(widened(reach[index], share)) * _rounding(steps)
    if not math.isfinite(gaussian):
        return [composed]
    shifted = Bound(
        name=OPTIMAL_SHIFTS,
        theorem="after Bok et al. 2024, Theorem 4.10: one-sided shifts, step by step (docs/sgd-bound.md)",
        conditions=_conditions(setting),
        mu=gaussian,
        subsampled=_parts(levels / math.sqrt(share), counts[index]),
        tau=steps - int(unrolled[index]),
    )
    return [composed, shifted]


def _parts(levels: Floats, counts: Floats) -> tuple[Subsampled, ...]:
    pairs = zip(levels.tolist(), counts.tolist(), strict=True)
    return tuple(Subsampled(mu=mu, count=int(count)) for mu, count in pairs if count)


def _reach(course: _Course, tau: Indices) -> Floats:
    """√Σ(a_k/w_k)² when the distance at τ is shifted away over all later steps."""
    distance = np.append(0.0, np.cumsum(course.rises))[tau]
    if course.distances is not None:
        # A_0 D is never the smaller one: at τ = 0 both runs are in the same place.
        distance = np.minimum(distance, np.append(np.inf, course.distances)[tau])
    noise = np.cumsum(course.widths[::-1])[::-1][tau]
    return np.asarray(distance / np.sqrt(noise) * course.unit)


def _levels(mus: Floats) -> tuple[Floats, Indices]:
    """The different μ, largest first merged upwards until there are few, and which one each step has."""
    levels, which = np.unique(mus, return_inverse=True)
    if levels.size > _MOST_LEVELS:
        grid = np.geomspace(levels[0], levels[-1], _MOST_LEVELS)
        place = np.minimum(np.searchsorted(grid, levels, side="left"), _MOST_LEVELS - 1)
        return grid * ROUND_UP, place[which]
    return levels * ROUND_UP, which
