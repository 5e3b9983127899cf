"""Single steps of the accountants in exact arithmetic: each result is on its side of the truth, without slack."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.accounting import closed_forms, engines, implied
from dpcalc.accounting.certified.coarsen import cut
from dpcalc.accounting.certified.compose import _rescaled, product
from dpcalc.accounting.certified.convolve import by_transform
from dpcalc.accounting.certified.law import UPPER, Component, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.accounting.certified.read import Curve, curve
from dpcalc.accounting.compose import compose
from dpcalc.accounting.question import Question
from dpcalc.accounting.renyi import composed_rdp, composed_rho
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredZCDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.pairs.blended import BlendedPair
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def fractions(values: Any) -> list[Fraction]:
    return [Fraction(float(value)) for value in np.asarray(values).ravel()]


# Closed forms


def test_composed_parameters_are_rounded_up() -> None:
    chosen = random.Random(1)
    for _ in range(100):
        rows = [(chosen.uniform(0.3, 9), chosen.randint(1, 500)) for _ in range(chosen.randint(2, 60))]
        gaussians = [(Gaussian(noise_multiplier=sigma), count) for sigma, count in rows]
        exact = mpmath.sqrt(mpmath.fsum(mpf(m.gdp() or 0.0) ** 2 * count for m, count in gaussians))
        assert exact <= mpf(closed_forms.composed_mu(gaussians) or 0.0) <= exact * (1 + mpf("1e-14"))
        declared = [(DeclaredZCDP(rho=rho), count) for rho, count in rows]
        total = sum(count * Fraction(rho) for rho, count in rows)
        assert Fraction(composed_rho(declared) or 0.0) >= total


def test_composed_divergences_are_rounded_up() -> None:
    chosen, orders = random.Random(2), np.array([1.5, 7.0, 33.0])
    for _ in range(40):
        parts = [(Gaussian(noise_multiplier=chosen.uniform(0.5, 9)), chosen.randint(1, 99)) for _ in range(30)]
        singles = [(mechanism.rdp(orders), count) for mechanism, count in parts]
        for k, found in enumerate(composed_rdp(parts)(orders)):
            assert Fraction(float(found)) >= sum(count * Fraction(float(values[k])) for values, count in singles)


def test_basic_composition_below_the_sum_of_losses() -> None:
    chosen = random.Random(3)
    for _ in range(200):
        epsilon, delta, share = chosen.uniform(0.1, 3), chosen.uniform(1e-9, 1e-2), chosen.random()
        found = closed_forms.by_basic_composition(
            [(DeclaredDP(epsilon=epsilon, delta=delta), 1)], Question(None, share * epsilon, 0.1)
        )
        exact = mpf(delta) - mpmath.expm1(mpf(share * epsilon) - mpf(epsilon))
        assert mpf(found.upper) >= exact


def test_the_chance_of_some_failure_is_that_of_independent_ones() -> None:
    chosen = random.Random(8)
    for _ in range(200):
        failures = [(10.0 ** chosen.uniform(-14, -0.1), chosen.randint(1, 40)) for _ in range(chosen.randint(1, 4))]
        kept = math.prod((1 - Fraction(delta)) ** count for delta, count in failures)
        parts = [(DeclaredDP(epsilon=0.25, delta=delta), count) for delta, count in failures]
        found = closed_forms.by_basic_composition(parts, Question(None, 100.0, 0.1)).upper
        assert 1 - kept <= Fraction(found) <= min((1 - kept) * (1 + Fraction(1, 2**48)), Fraction(1))


@pytest.mark.parametrize(
    "written", [("1e-6", "3e-6"), ("7e-6", "5e-6", "3e-6"), ("2e-9", "2e-9", "7e-9"), ("0.1", "0.2")]
)
def test_a_delta_that_is_written_as_the_sum_of_others_is_enough(written) -> None:
    """Doubles next to decimals may add up to an ulp more: ε was infinite then."""
    whole = float(sum(Fraction(delta) for delta in written))
    parts = [(DeclaredDP(epsilon=0.1 * 2**k, delta=float(delta)), 1) for k, delta in enumerate(written)]
    found = compose(parts, delta=whole)
    assert found.epsilon is not None
    assert found.epsilon <= 0.1 * (2 ** len(written) - 1) * (1 + 1e-15)
    assert found.epsilon_lower is not None


def test_sums_are_the_least_doubles_above() -> None:
    chosen = random.Random(4)
    for _ in range(200):
        terms = [(chosen.random(), chosen.randint(1, 99)) for _ in range(3)]
        exact = sum(Fraction(value) * count for value, count in terms)
        found = closed_forms.sum_up(terms)
        assert Fraction(found) >= exact > Fraction(math.nextafter(found, 0.0))


def test_total_variation_is_never_below_the_truth() -> None:
    for mu in np.geomspace(1e-3, 6, 200):
        exact = mpmath.ncdf(mpf(float(mu)) / 2) - mpmath.ncdf(-mpf(float(mu)) / 2)
        assert mpf(closed_forms._total_variation(GaussianPair(float(mu)))) >= exact


class Vague:
    """A pair cut at 0 that errs as much as it says: of P too little, and of Q too much, is below or above."""

    def __init__(self, chosen: random.Random) -> None:
        self.p, self.q = ([Fraction(chosen.random()), Fraction(chosen.random())] for _ in range(2))
        self.p_error, self.q_error = (np.array([chosen.random() * size for _ in range(2)]) for size in (1e-3, 1e-4))
        self.over = chosen.random()

    def excess(self) -> float:
        return self.over

    def cells(self, edges: Any) -> Any:
        assert list(edges) == [0.0]
        return (*(np.array([float(each) for each in side]) for side in (self.p, self.q)), self.p_error, self.q_error)


def test_total_variation_counts_the_errors_of_masses_and_what_is_at_infinity() -> None:
    chosen = random.Random(6)
    for _ in range(300):
        pair: Any = Vague(chosen)
        below, above = pair.p[0] - Fraction(pair.p_error[0]), pair.q[1] - Fraction(pair.q_error[1])
        assert Fraction(closed_forms._total_variation(pair)) >= 1 + Fraction(pair.over) - below - above


def test_total_variation_is_not_less_than_losses_above_0_say() -> None:
    """Masses below 0 that are too large by rounding, as those of profiles once were, must not pass for no loss."""
    pair: Any = Vague(random.Random(3))
    pair.p, pair.q, pair.over = [Fraction(3, 2), Fraction(1, 2)], [Fraction(1), Fraction(1, 4)], 0.0
    assert closed_forms._total_variation(pair) >= 1 / 4


def test_total_variation_of_more_mass_than_there_is_counts_the_errors_of_its_sum() -> None:
    """Points that add up to a little too much, as pairs may: of them that of the losses above 0 is all that counts."""
    generator = np.random.default_rng(4)
    for _ in range(20):
        masses = generator.random(400)
        masses *= (0.75 + 5e-10) / masses.sum()
        losses = np.append(-1.0, np.sort(generator.uniform(40, 80, masses.size)))
        pair = PointPair(losses, np.append(0.25, masses), np.append(1.0, masses * np.exp(-losses[1:])))
        exact = sum(map(Fraction, pair.p[1:].tolist())) - sum(map(Fraction, pair.q[1:].tolist()))
        assert Fraction(closed_forms._total_variation(pair)) >= exact


def test_total_variation_of_a_blend_is_that_of_both_by_their_weights() -> None:
    """Weights of truncated batches add up to more than 1, each being at least the probability of its pair."""
    chosen = random.Random(7)
    for _ in range(100):
        runs = [(chosen.uniform(0.01, 2), chosen.uniform(0.5, 1)) for _ in range(2)]
        (mu, weight), (other, rest) = runs
        found = closed_forms._total_variation(BlendedPair(GaussianPair(mu), GaussianPair(other), weight, rest))
        exact = sum(mpf(weight) * (1 - 2 * mpmath.ncdf(-mpf(mu) / 2)) for mu, weight in runs)
        assert exact <= mpf(found) <= exact + mpf("1e-12")


class Fixed:
    """A mechanism of which only the total variation is asked."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def rough(self) -> Any:
        return self

    def runs(self, count: int) -> Any:
        return (((self, self), count),)


def test_epsilon_zero_is_enough_only_if_the_exact_sum_is(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(5)
    monkeypatch.setattr(closed_forms, "_total_variation", lambda one: one.pair)
    for _ in range(200):
        parts = [(Fixed(chosen.uniform(1e-4, 1e-3)), chosen.choice([3, 7, 11])) for _ in range(9)]
        exact = sum(count * Fraction(one.pair) for one, count in parts)
        below = float(exact)
        below = below if Fraction(below) < exact else math.nextafter(below, 0.0)
        assert not closed_forms.is_zero(parts, Question(below, None, 0.1))


def test_lower_bounds_of_conversions_pay_for_deltas_that_were_rounded_up() -> None:
    """A flat curve, told a little too high: nothing above 0 is known to be too small."""

    class Flat(DeclaredDP):
        def delta_at(self, epsilon: float) -> float:  # noqa: ARG002
            return 0.1 * (1 + 0.9 * implied._ABOVE)

    assert implied._lower(Flat(epsilon=1.0, delta=0.1), 0.1, 0.5, "epsilon") == 0.0
    assert implied._lower(DeclaredDP(epsilon=1.0, delta=0.1), 0.2 * (1 + 0.9 * implied._ABOVE), 0.5, "delta") <= 0.2


# Reading


def random_curve(generator: np.random.Generator, upper: bool, rest: float) -> Curve:
    return Curve(upper, np.sort(generator.uniform(0, 5, 40)), generator.random(40) / 40, rest)


@pytest.mark.parametrize("rest", [0.0, 0.3])
def test_a_curve_is_read_on_its_side(rest: float) -> None:
    generator = np.random.default_rng(6)
    for _ in range(60):
        for upper in (True, False):
            read, epsilon = random_curve(generator, upper, rest), float(generator.uniform(0, 4.9))
            exact = mpf(rest) + mpmath.fsum(
                mpf(float(mass)) * -mpmath.expm1(mpf(epsilon) - mpf(float(loss)))
                for loss, mass in zip(read.losses, read.masses, strict=True)
                if loss > epsilon
            )
            assert (mpf(read.delta(epsilon)) >= exact) if upper else (mpf(read.delta(epsilon)) <= exact)
            back = read.epsilon(float(exact))
            assert back >= epsilon if upper else back <= epsilon
            assert epsilon > 4 or back == pytest.approx(epsilon, rel=1e-9)


def law_of(rows: Any, ledger: Ledger, tilt: float = 0.5, start: int = -2) -> Law:
    return Law(0.37, {0: Component(start, np.asarray(rows))}, ledger, tilt=tilt)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("tilt", [0.5, 7.3])
def test_points_and_weights_are_read_on_their_side(direction: Any, tilt: float) -> None:
    """Stored as wX^τ: P-mass has the power 1 - τ more, Q-mass the power -τ."""
    generator = np.random.default_rng(7)
    for _ in range(30):
        rows = generator.random((3, 9))
        rows[1] *= 10 ** generator.uniform(-200, 0, 9)  # so that names have losses of some hundreds
        law = law_of(rows, Ledger(surely_infinite=0.3, surely_zero=0.2), tilt)
        above, below = (curve(law, direction, upper=upper) for upper in (True, False))
        sign, power = (1, 1 - mpf(tilt)) if direction == "remove" else (-1, -mpf(tilt))
        points = [(-2 + k) * mpf(0.37) for k in range(9)][::sign]
        weights = [mpf(float(w)) for w in rows[0][::sign]]
        for found, mass, point, weight in zip(above.losses, above.masses, points, weights, strict=True):
            assert mpf(float(found)) >= sign * point
            assert mpf(float(mass)) >= weight * mpmath.exp(power * point)
        p, q = (rows[1], rows[2]) if direction == "remove" else (rows[2], rows[1])
        # Lower rows are pX^{τ-1} and qX^τ: the loss of a name is that of its own masses.
        truths = sorted(
            (
                sign * (-2 + k) * mpf(0.37) + mpmath.log(mpf(float(p[k])) / mpf(float(q[k]))),
                mpf(float(p[k])) * mpmath.exp(power * (-2 + k) * mpf(0.37)),
            )
            for k in range(9)
        )
        for found, mass, (loss, truth) in zip(below.losses, below.masses, truths, strict=True):
            assert mpf(float(found)) <= loss
            assert mpf(float(mass)) <= truth
        surely = mpf(0.3) if direction == "remove" else mpf(0.2)
        assert mpf(below.rest) <= -mpmath.expm1(-surely)


def test_errors_in_the_ledger_are_read() -> None:
    rows = np.full((3, 4), 0.1)
    law = law_of(rows, Ledger(slack=0.01))
    bare = law_of(rows, Ledger())
    told, plain = (curve(each, "remove", upper=False) for each in (law, bare))
    assert np.all(told.masses <= plain.masses * 0.99)
    assert np.all(told.losses <= plain.losses - 0.02)
    faint = curve(law_of(np.full((3, 4), 1e-290), Ledger()), "remove", upper=True)
    assert faint.rest >= 4e-290
    assert curve(law_of(np.full((3, 4), 1e-10), Ledger(lost=1e-20)), "remove", upper=False).losses.size == 0


def test_cutting_is_rounded_up() -> None:
    """At tilt 0 weights are Q-masses: on the left w(1 - x/x₁) goes to 0, and wx/x₁ to the first that stays."""
    generator = np.random.default_rng(8)
    for _ in range(60):
        rows = generator.random((3, 9))
        done = cut(law_of(rows, Ledger(), 0.0), 0, 3, 2)
        points = [mpmath.exp((-2 + k) * mpf(0.37)) for k in range(9)]
        weights = [mpf(float(w)) for w in rows[0]]
        kept = done.components[0].rows[0]
        assert mpf(float(kept[0])) >= weights[3] + sum(weights[k] * points[k] / points[3] for k in range(3))
        assert mpf(float(kept[-1])) >= weights[6] + sum(weights[7:])
        assert mpf(done.ledger.zero) >= sum(weights[:3]) - sum(weights[k] * points[k] / points[3] for k in range(3))
        assert mpf(done.ledger.infinite) >= sum(weights[k] * (points[k] - points[6]) for k in (7, 8))


@pytest.mark.parametrize("steps", [1, 2, 50])
def test_errors_of_many_steps_are_paid_for_together(steps: int) -> None:
    """L11: Πα(a - e^ε·b·Πβ/α) for errors relative to the truth, to what was computed, and of both kinds."""
    each = Fraction(1, 5 * steps)
    law = law_of([[0.5, 0.5], [0.2, 0.6], [0.3, 0.1]], Ledger(slack=0.2), 0.0, 0)
    found = curve(law, "remove", upper=False)
    points = [1, Fraction(math.exp(0.37))]
    for computed in range(steps + 1):
        alpha = (1 - each) ** computed / (1 + each) ** (steps - computed)
        beta = (1 + each) ** computed / (1 - each) ** (steps - computed)
        for epsilon in (0.0, 0.5, 1.0, 1.3, 1.5, 1.7):
            names = [
                Fraction(p) * point * alpha - Fraction(math.exp(epsilon)) * Fraction(q) * beta
                for p, q, point in zip((0.2, 0.6), (0.3, 0.1), points, strict=True)
            ]
            assert Fraction(found.delta(epsilon)) <= sum(max(name, 0) for name in names)


# Products


def test_products_that_leave_the_doubles_are_raised() -> None:
    """L10: entries of 1e-400 count as 0 in doubles, above as more than they are; below they are known to be lost."""
    tiny = law_of(np.full((3, 4), 1e-200), Ledger())
    met = product(tiny, tiny)
    assert np.all(met.components[0].rows[UPPER] > 0)
    assert met.ledger.lost > 0
    summed = sum(Fraction(1e-200) ** 2 for _ in range(4))
    assert all(value * Fraction(2) ** met.scale >= summed for value in fractions(met.components[0].rows[UPPER]))


def test_rows_that_are_scaled_down_are_raised() -> None:
    rows = np.full((3, 4), 1e-300)
    rows[:, 0] = 2.0**100
    done = _rescaled(law_of(rows, Ledger()))
    assert done.scale > 90
    scaled = fractions(done.components[0].rows[UPPER])
    assert all(value * 2**done.scale >= weight for value, weight in zip(scaled, fractions(rows[UPPER]), strict=True))
    assert Fraction(done.ledger.lost) * 2**done.scale >= Fraction(1e-300)
    small = _rescaled(law_of(rows * 1e-100, Ledger(lost=1e-290)))
    assert Fraction(small.ledger.lost) >= Fraction(1e-290) / Fraction(2) ** small.scale


def test_what_entries_lost_is_multiplied_by_all_that_they_meet() -> None:
    """L10: an entry that lost x meets no more than the other law's total, from both sides."""
    chosen = random.Random(15)
    for _ in range(50):
        (one, other), totals = (chosen.choices([0.0, 2.0**-9, 2.0**-4], k=2) for _ in range(2))
        together = Ledger(lost=one).then(Ledger(lost=other), (totals[0], totals[1])).lost
        assert together >= one * totals[1] + other * totals[0]
        assert Ledger(lost=one).plus(lost=other).lost >= one + other


# Engines


def test_what_some_step_surely_reveals_is_rounded_down() -> None:
    """1 - Π(1 - p)ⁿ in exact arithmetic, for steps that reveal little and often."""
    chosen = random.Random(14)

    class Revealing:
        def __init__(self, mass: float) -> None:
            self.mass = mass

        def surely_infinite(self) -> tuple[float, float]:
            return self.mass, self.mass

    for _ in range(100):
        pairs: Any = [(Revealing(chosen.uniform(1e-6, 1e-3)), chosen.randint(1, 99)) for _ in range(12)]
        exact = 1 - math.prod((1 - Fraction(one.mass)) ** count for one, count in pairs)
        assert Fraction(engines._surely_infinite((pairs, ("remove", "add")))) <= exact


# Transforms


def test_products_by_transforms_are_on_their_sides() -> None:
    """Rows above and below the exact product of rows, entry by entry."""
    generator = np.random.default_rng(13)
    a, b = (generator.random((3, 300)) * np.exp(-generator.uniform(0, 12, (3, 300))) for _ in range(2))
    a[:, 64:128] = 0.0  # a whole block of nothing
    found = by_transform(a, b, 64, 1)
    for row in (0, 2, 1):
        x, y = fractions(a[row]), fractions(b[row])
        for k in (0, 17, 200, 598):
            exact = sum(x[i] * y[k - i] for i in range(max(0, k - 299), min(k, 299) + 1))
            assert (Fraction(float(found[row, k])) <= exact) if row == 1 else (Fraction(float(found[row, k])) >= exact)
