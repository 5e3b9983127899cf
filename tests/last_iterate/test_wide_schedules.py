"""Schedules as wide as they come, against the optimum of Theorem C.3 in exact arithmetic: never below it, and tight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpcalc.last_iterate import course, cyclic, gradient_descent, shifts
from dpcalc.last_iterate.contraction import Contraction, contractions
from dpcalc.last_iterate.schedule import Schedule
from dpcalc.last_iterate.setting import Setting


@dataclass(frozen=True, kw_only=True)
class Run:
    """Steps of η_k and σ_k as exact numbers; the record is used in steps first, first + batches, … (from 0)."""

    rates: Sequence[float]
    sigmas: Sequence[float]
    strong_convexity: float
    smoothness: float
    sensitivity: float
    batch_size: int = 1
    batches: int = 1
    diameter: float | None = None

    @property
    def injection(self) -> Fraction:
        """L/b."""
        return Fraction(self.sensitivity) / self.batch_size

    def contraction(self, rate: float) -> Fraction:
        """max(|1 - ηm|, |1 - ηM|)."""
        eta = Fraction(rate)
        return max(abs(1 - eta * Fraction(self.strong_convexity)), abs(1 - eta * Fraction(self.smoothness)))

    def energy(self) -> Fraction:
        """μ² of the worst record at the best start and shifts."""
        return max(self._energy_of(first) for first in range(min(self.batches, len(self.rates))))

    def _energy_of(self, first: int) -> Fraction:
        steps = len(self.rates)
        factors = [self.contraction(rate) for rate in self.rates]
        noises = [(Fraction(rate) * Fraction(sigma)) ** 2 for rate, sigma in zip(self.rates, self.sigmas, strict=True)]
        used = [
            Fraction(rate) * self.injection if k % self.batches == first else 0 for k, rate in enumerate(self.rates)
        ]
        starts = [(0, Fraction(0))]
        if self.diameter is not None:
            starts += [(tau, Fraction(self.diameter)) for tau in range(1, steps)]
        left = [Fraction(1)]
        for factor in reversed(factors[1:]):
            left.insert(0, left[0] * factor)
        weighed = [a * s for a, s in zip(left, used, strict=True)]
        widths = [a * a * w for a, w in zip(left, noises, strict=True)]
        energies = [taut_string(widths[t:], _rises(weighed[t:], left[t - 1] * z if t else z)) for t, z in starts]
        return min(energy for energy in energies if energy is not None)


def _rises(weighed: Sequence[Fraction], initial: Fraction) -> list[Fraction]:
    return [initial + weighed[0], *weighed[1:]]


def taut_string(widths: Sequence[Fraction], rises: Sequence[Fraction]) -> Fraction | None:
    """Σ (ΔB)²/ΔU from (0, 0) to the end below the injected sums: from each corner the segment of least slope.

    None where there is something to shift and no noise to hide it in.
    """
    energy, place = Fraction(0), 0
    while place < len(widths):
        width = rise = Fraction(0)
        least: tuple[Fraction, Fraction, int] | None = None
        for k in range(place, len(widths)):
            width, rise = width + widths[k], rise + rises[k]
            if width > 0 and (least is None or rise <= least[0] * width):  # of equal slopes the furthest
                least = (rise / width, rise, k + 1)
        if least is None:
            return None if rise else energy
        energy, place = energy + least[0] * least[1], least[2]
    return energy


def root(energy: Fraction) -> float:
    """√ of an exact number, to the nearest float or so."""
    scale = 1 << 400
    return math.isqrt(energy.numerator * scale**2 // energy.denominator) / scale if energy else 0.0


def random_run(rng: np.random.Generator, longest: int) -> Run:
    """Noise over 16 decades or two, step sizes up to 2/M, losses from linear to one curvature, with or without D."""
    steps, decades = int(rng.integers(1, longest)), rng.choice([1, 8])
    strong_convexity = float(rng.choice([0.0, 1.0, rng.uniform(0, 1), 10 ** rng.uniform(-9, 0)]))
    rates = np.where(rng.random(steps) < 0.3, 10 ** rng.uniform(-6, 0, steps), rng.uniform(0.001, 2, steps))
    rates[rng.random(steps) < 0.15] = 2.0
    rates[rng.random(steps) < 0.1] = 1.0
    if strong_convexity:
        rates = np.minimum(rates, np.nextafter(2, 0))
    return Run(
        rates=rates.tolist(),
        sigmas=(10 ** rng.uniform(-decades, decades, steps)).tolist(),
        strong_convexity=strong_convexity,
        smoothness=1.0,
        sensitivity=float(10 ** rng.uniform(-2, 2)),
        batch_size=int(rng.integers(1, 4)),
        batches=int(rng.choice([1, 1, 2, 3, 5])),
        diameter=None if rng.random() < 0.4 else float(10 ** rng.uniform(-4, 4)),
    )


def bound(run: Run, algorithm: str = "cgd") -> float:
    setting = Setting(
        algorithm=algorithm,
        learning_rate=max(run.rates),
        sigma=min(run.sigmas),
        sensitivity=run.sensitivity,
        dataset_size=run.batch_size * run.batches,
        batch_size=run.batch_size,
        steps=len(run.rates),
        strong_convexity=run.strong_convexity,
        smoothness=run.smoothness,
        diameter=run.diameter,
    )
    plan = Schedule(
        starts=np.arange(1.0, len(run.rates) + 1), learning_rates=np.array(run.rates), sigmas=np.array(run.sigmas)
    )
    return course.bounds(setting, plan, 1e-5)[-1].mu


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_the_optimum_and_never_below_it(seed) -> None:
    rng = np.random.default_rng(seed)
    for longest in (*[4] * 8, *[14] * 12, 40):
        run = random_run(rng, longest)
        algorithm = str(rng.choice(["gd", "cgd", "sgd"])) if run.batches == 1 else "cgd"
        energy, mu = run.energy(), bound(run, algorithm)
        assert Fraction(mu) ** 2 >= energy
        assert mu <= root(energy) * (1 + 1e-12)


def test_roundings_that_all_go_the_wrong_way_are_paid_for() -> None:
    """Each small width is six tenths of an ulp of the sum so far, so that every addition rounds up."""
    steps = 3000
    rates = np.append(1.0, np.full(steps - 1, 1e-3))  # the record of the first step is the worst off
    sigmas = np.append(np.full(steps - 1, math.sqrt(0.6 * 2.0**-52)), 1.0) / rates
    run = Run(
        rates=rates.tolist(),
        sigmas=sigmas.tolist(),
        strong_convexity=0.0,
        smoothness=1.0,
        sensitivity=2.0,
        batches=steps,
    )
    noise = sum((Fraction(rate) * Fraction(sigma)) ** 2 for rate, sigma in zip(run.rates, run.sigmas, strict=True))
    mu = bound(run)
    assert Fraction(mu) ** 2 * noise >= 4
    assert mu <= 2 / math.sqrt(noise) * (1 + 4e-12)


@pytest.mark.parametrize("contracting", [0.0, 0.9999999])
def test_what_cannot_be_represented_is_rounded_up(contracting) -> None:
    """Noise beyond 10¹⁵⁴ times the last one, whose square is no number; steps that keep 10⁻⁷ of the distance."""
    steps = 30
    sigmas = np.full(steps, 0.3)
    sigmas[[0, steps // 2, -2]] = 1e180
    run = Run(
        rates=[1.0] * steps,
        sigmas=sigmas.tolist(),
        strong_convexity=contracting,
        smoothness=1.0,
        sensitivity=2.0,
        batches=2,
        diameter=5.0,
    )
    mu = bound(run)
    assert Fraction(mu) ** 2 >= run.energy()
    assert mu <= root(run.energy()) * (1 + 1e-12)
    loud_last = replace(run, sigmas=[*run.sigmas[:-1], 1e-180], batches=3, diameter=None)
    assert 2e180 <= bound(loud_last) < 2e180 * (1 + 1e-12)


def test_a_quiet_last_step_pays_for_itself_however_loud_the_others_are() -> None:
    for loud in (1e3, 1e9, 1e15, 1e30, 1e100):
        run = Run(
            rates=[0.7] * 4,
            sigmas=[loud, 2.5, loud, 2.5],
            strong_convexity=0.0,
            smoothness=1.0,
            sensitivity=3.0,
        )
        # The two loud steps hide their own uses; each quiet one has its own to pay for, the second alone.
        assert bound(run) >= 3 / 2.5
        assert bound(run) == pytest.approx(root(run.energy()), rel=1e-12)


def test_the_slope_of_a_step_that_is_forgotten_goes_to_the_next() -> None:
    """c = 0 in the middle (η = 1/m = 1/M): all that came before is gone, whatever its noise was."""
    steps = {"strong_convexity": 2.0, "smoothness": 2.0, "sensitivity": 1.0}
    for early in (1e-8, 1.0, 1e8):
        run = Run(rates=[0.3, 0.4, 0.5, 0.3], sigmas=[early, 1.0, 4.0, 3.0], **steps)
        forgotten = Run(rates=[0.5, 0.3], sigmas=[4.0, 3.0], **steps)
        assert run.energy() == forgotten.energy()
        assert bound(run) == pytest.approx(bound(forgotten), rel=1e-12)


def test_every_start_is_tried() -> None:
    """Slopes that rise at every use: no two intervals pool, and the floors of all starts are far too low."""
    rng = np.random.default_rng(7)
    for _ in range(30):
        count = int(rng.integers(3, 25))
        widths, rises = 10 ** rng.uniform(-6, 0, count), np.cumsum(rng.exponential(size=count))
        rises *= widths
        late, distances = widths * rng.uniform(0, 1, count), rises * 10 ** rng.uniform(-2, 3, count)
        found, start = shifts.best_start(widths, rises, late, distances)
        energies = [
            taut_string(
                [Fraction(late[i]), *map(Fraction, widths[i + 1 :])],
                [Fraction(distances[i]), *map(Fraction, rises[i + 1 :])],
            )
            for i in range(count)
        ]
        assert found >= min(energies)
        assert found <= float(min(energies)) * (1 + 1e-9)
        assert energies[start] == pytest.approx(min(energies), rel=1e-9)


def test_any_cut_into_blocks_gives_an_upper_bound(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 12))
        widths, rises = 10 ** rng.uniform(-4, 4, count), 10 ** rng.uniform(-4, 4, count)
        cut = np.unique(np.append(0, rng.integers(0, count, 3)))
        monkeypatch.setattr(shifts, "_blocks", lambda _widths, _rises, cut=cut: cut)
        exact = taut_string([Fraction(w) for w in widths], [Fraction(r) for r in rises])
        assert shifts.least_energy(widths, rises) >= exact


def test_long_runs_are_pooled_one_by_one_after_a_few_rounds() -> None:
    """A staircase of staircases: falling runs appear again after every round of merging."""
    rng = np.random.default_rng(11)
    slopes = np.abs(np.cumsum(rng.normal(size=300)) + 40)
    widths = rng.uniform(0.1, 1, 300)
    exact = taut_string([Fraction(w) for w in widths], [Fraction(r) for r in slopes * widths])
    found = shifts.least_energy(widths, slopes * widths)
    assert exact <= found <= float(exact) * (1 + 1e-12)


def test_contractions_are_never_below_the_exact_ones() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        m, smoothness = float(rng.uniform(0, 1)), float(rng.uniform(1, 3))
        rates = np.minimum(rng.uniform(0, 2, 20), 1 - 10 ** rng.uniform(-16, 0, 20) * 0.5) * (2 / smoothness)
        rates = rates[[Fraction(rate) * Fraction(smoothness) <= 2 for rate in rates]]
        for rate, many in zip(rates.tolist(), contractions(rates, m, smoothness).tolist(), strict=True):
            exact = max(abs(1 - Fraction(rate) * Fraction(m)), abs(1 - Fraction(rate) * Fraction(smoothness)))
            one = Contraction.of_gradient_step(learning_rate=rate, strong_convexity=m, smoothness=smoothness)
            assert one.gap <= 1 - exact
            assert many >= exact
            assert float(1 - exact) * (1 - 1e-15) <= one.gap
            assert many <= float(exact) + 2e-15


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("share", [0.3, 1.0, 1.5, 1.9, 1.999])
@pytest.mark.parametrize("diameter", [None, 0.7])
def test_a_constant_schedule_is_a_constant_run_up_to_two_over_m(batches, share, diameter) -> None:
    """Beyond 2/(M+m) it is |1 - ηM| that a step contracts by."""
    setting = Setting(
        algorithm="cgd",
        learning_rate=share / 3,
        sigma=0.8,
        sensitivity=2.0,
        dataset_size=batches,
        batch_size=1,
        steps=12 * batches,
        strong_convexity=1.1,
        smoothness=3.0,
        diameter=diameter,
    )
    plan = Schedule(starts=np.ones(1), learning_rates=np.array([share / 3]), sigmas=np.array([0.8]))
    scheduled = min(each.mu for each in course.bounds(setting, plan, 1e-5))
    module = cyclic if batches > 1 else gradient_descent
    constant = min(each.mu for each in module.bounds(setting) if each.rho is None)
    assert scheduled == pytest.approx(constant, rel=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_no_quadratic_run_of_any_curvature_exceeds_the_bound(seed) -> None:
    """Curvature m, M or between, step sizes up to 2/M, records of either sign at every use: iterates are Gaussian."""
    rng = np.random.default_rng(seed)
    run = replace(random_run(rng, 30), diameter=None)
    mu = bound(run)
    for curvature in (run.strong_convexity, run.smoothness, rng.uniform(run.strong_convexity, run.smoothness)):
        for record in range(min(run.batches, len(run.rates))):
            mean = variance = 0.0
            for k, (rate, sigma) in enumerate(zip(run.rates, run.sigmas, strict=True)):
                factor = 1 - rate * curvature
                used = rate * float(run.injection) if k % run.batches == record else 0.0
                # A neighbour may differ in either direction at every step: away from where the runs are already.
                mean = factor * mean + (used if factor * mean >= 0 else -used)
                variance = factor**2 * variance + (rate * sigma) ** 2
            assert abs(mean) <= mu * np.sqrt(variance) * (1 + 1e-9)


def test_the_bound_grows_with_the_distance_and_is_that_of_no_constraint_in_the_end() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        run = replace(random_run(rng, 15), diameter=None)
        mus = [bound(replace(run, diameter=diameter)) for diameter in (1e-6, 1e-2, 1.0, 1e3, 1e12)]
        assert all(a <= b * (1 + 1e-11) for a, b in pairwise([*mus, bound(run)]))
