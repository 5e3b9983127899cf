"""Means of likelihood ratios under any hints at all, against exact enumeration, each direction by itself."""

import contextlib
import importlib.util
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.accounting.convex_order import interval
from dpcalc.accounting.question import Question
from dpcalc.effort import within
from dpcalc.errors import CertificationError
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.pairs.base import Need, Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.sums import law as laws
from dpcalc.pairs.sums import terms as terms_module
from dpcalc.pairs.sums.allocated import AllocatedPair, bounds, lower_pair, mean_law, upper_pair
from dpcalc.pairs.sums.law import P_LOWER, RATIO, Part, SumLaw
from dpcalc.pairs.sums.terms import terms

_SPEC = importlib.util.spec_from_file_location(
    "exact_pairs", Path(__file__).parent.parent / "accounting" / "exact_pairs.py"
)
exact_pairs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(exact_pairs)
ExactPair, random_pair = exact_pairs.ExactPair, exact_pairs.random_pair

DIRECTIONS = ("remove", "add")
COIN = ExactPair([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 2), Fraction(1, 2)])  # ratios on the grid


def delta_above(pair, epsilon, direction):
    """δ of points that bound from above, by L1 alone."""
    t = math.exp(epsilon)
    if direction == "remove":
        return pair.p_infinite + float((pair.q * np.maximum(np.exp(pair.losses + pair.doubt) - t, 0)).sum())
    return pair.q_infinite + float((pair.q * np.maximum(1 - t * np.exp(pair.losses - pair.doubt), 0)).sum())


def delta_below(pair, epsilon, direction):
    """δ of the events that the points name: the detected mass from below, the other from above (L3)."""
    detected, other = (pair.p, pair.q) if direction == "remove" else (pair.q, pair.p)
    return float(np.maximum(detected * (1 - pair.doubt) - math.exp(epsilon) * other * (1 + pair.doubt), 0).sum())


def assert_bracketed(law, exact, epsilons):
    above, below = upper_pair(law), lower_pair(law)
    for direction in DIRECTIONS:
        for epsilon in epsilons:
            truth = float(exact.delta(epsilon, direction))
            assert delta_below(below, epsilon, direction) <= truth * (1 + 1e-12)
            assert delta_above(above, epsilon, direction) >= truth * (1 - 1e-12)


def random_spans(rng, step, reach):
    spans, low, high = [], 0, 0
    for k in range(int(rng.integers(1, 4))):
        s = step * RATIO**k
        middle = int(reach * rng.random() / s)
        low, high = (middle, middle + 1) if k == 0 else (min(low, middle), max(high, middle + 1))
        high = max(high, int(reach * rng.random() / s))
        low = 0 if rng.random() < 0.5 else low
        low, high = low // RATIO * RATIO, -(-high // RATIO) * RATIO
        spans.append((low, high))
        low, high = low // RATIO, high // RATIO
    return tuple(spans)


def random_trim(rng, law):
    for k in list(law.parts):
        if k in law.parts and rng.random() < 0.3:
            size = law.parts[k].size
            law = law.coarsened(k, int(rng.integers(0, size + 1)), int(rng.integers(0, size + 1)))
    for k in list(law.parts):
        size = law.parts[k].size
        if rng.random() < 0.15:
            law = law.without_right(k, int(rng.integers(0, size // 3 + 1)))
        if rng.random() < 0.15:
            law = law.without_left(k, int(rng.integers(0, size // 4 + 1)))
    return law


def random_mean(rng, pair, count, reach):
    """Single terms on random grids, added in random groups, with random moves and cuts."""
    step = 10 ** rng.uniform(-2.5, 0) * reach
    spans = random_spans(rng, step, reach)
    blocks = [terms(pair, step, spans, float(rng.choice([0.0, 0.1])))]
    for _ in range(count - 1):
        blocks.append(blocks[0] if rng.random() < 0.7 else terms(pair, step, random_spans(rng, step, reach)))
    while len(blocks) > 1:
        x, y = blocks.pop(int(rng.integers(0, len(blocks)))), blocks.pop(int(rng.integers(0, len(blocks))))
        blocks.append(random_trim(rng, x.plus(y)))
    return blocks[0]


@pytest.mark.parametrize("seed", range(120))
def test_random_hints_never_make_a_false_bound_of_a_mean(seed):
    """Atoms at 0 and ∞, two to six terms, and every grid, group, move and cut at random."""
    rng = np.random.default_rng(seed)
    exact = random_pair(rng, int(rng.integers(2, 5)))
    count = int(rng.integers(2, 7))
    law = random_mean(rng, exact.pair(), count, float(rng.choice([1.0, 3.0, 30.0])))
    assert_bracketed(law, exact.mean(count), [0.0, *rng.uniform(0, 4, 4)])


@pytest.mark.parametrize("seed", range(30))
def test_epochs_of_means_are_bracketed(seed):
    """One to three epochs through the engine, with random needs: each direction by itself."""
    rng = np.random.default_rng(500 + seed)
    exact = random_pair(rng, int(rng.integers(2, 4)))
    steps, epochs = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    whole = exact.mean(steps).gathered().power(epochs)
    need = Need(
        tuple(10 ** rng.uniform(-1, 2, 2)), tuple(10 ** rng.uniform(-1, 1, 2)), tuple(10 ** rng.uniform(-4, 0, 2)),
        float(epochs), 10 ** rng.uniform(-12, -2),
    )  # fmt: skip
    found = bounds(exact.pair(), steps, need)
    for direction in DIRECTIONS:
        for epsilon in rng.uniform(0, 3, 2):
            truth = float(whole.delta(epsilon, direction))
            question = Question(None, float(epsilon), 0.1)
            with contextlib.suppress(ArithmeticError, ValueError), within(most=2e8):  # no answer is no false one
                assert interval([(found["upper"], epochs)], question, (direction,)).upper >= truth * (1 - 1e-12)
            with contextlib.suppress(ArithmeticError, ValueError), within(most=2e8):
                assert interval([(found["lower"], epochs)], question, (direction,)).lower <= truth * (1 + 1e-12)


# The traps ------------------------------------------------------------------------------------------------------------


def test_masses_of_a_sum_come_from_those_of_one_kind():
    """a = (m·a∗b + n·b∗a)/(m + n) with both from below: b from above would make a too large, and the bound false."""
    law = terms(COIN.pair(), 0.25, ((0, 16),))
    both = law.plus(law)
    p = sum(part.rows[P_LOWER].sum() for part in both.parts.values())
    assert p <= 1 + 1e-12
    raised = SumLaw(
        **{**vars(law), "parts": {k: Part(x.start, x.rows * [[1], [1], [1.1]]) for k, x in law.parts.items()}}
    )
    false = raised.plus(raised)
    assert sum(part.rows[P_LOWER].sum() for part in false.parts.values()) > 1.05


def test_nothing_at_all_is_not_a_point():
    """X = 0 of a sum is infinite loss for adding: a mass of its own, and no point at e^-690."""
    blank = ExactPair([0, 1], [Fraction(1, 2), Fraction(1, 2)])
    law = terms(blank.pair(), 0.5, ((0, 8),))
    above = upper_pair(law.plus(law))
    assert above.q_infinite >= 0.25
    assert np.all(above.losses > -50)
    assert delta_above(above, 600.0, "add") >= 0.25


def test_what_is_taken_off_on_the_left_counts_in_both_directions():
    law = terms(COIN.pair(), 0.25, ((0, 16),))
    twice = law.plus(law)
    cut = twice.without_left(0, twice.parts[0].size // 2)
    assert cut.gone_q > twice.gone_q + 0.2
    assert cut.gone_p > twice.gone_p + 0.2
    assert_bracketed(cut, COIN.mean(2), [0.0, 0.3, 1.0, 5.0])


def test_what_is_taken_off_on_the_right_is_infinite():
    law = terms(COIN.pair(), 0.25, ((0, 16),))
    cut = law.plus(law).without_right(0, 22)
    assert cut.infinite > 0.05
    assert_bracketed(cut, COIN.mean(2), [0.0, 0.3, 1.0, 5.0])


def test_mass_below_the_grid_is_gone_and_missing_mass_is_charged():
    below = terms(COIN.pair(), 0.25, ((4, 16),))
    assert below.gone_q >= 0.5
    missing = PointPair(np.array([0.0]), np.array([0.5]), np.array([0.9]))
    law = terms(missing, 0.25, ((0, 16),))
    assert law.infinite >= 0.5
    assert law.gone_q >= 0.1 * (1 - 1e-12)


@pytest.mark.parametrize("spans", [((8, 16), (0, 4)), ((8, 16), (0, 5)), ((0, 16), (0, 4))])
def test_mass_above_the_grid_stays_on_its_last_point(spans):
    """The coarsest grid may lie to the left of the finer ones alone; its last point is not the last of all."""
    exact = ExactPair(
        [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)], [Fraction(5, 8), Fraction(73, 200), Fraction(1, 100)]
    )
    assert_bracketed(terms(exact.pair(), 0.25, spans), exact, [0.0, 0.3, 1.0, 2.0, 3.0])


def test_masses_of_more_than_one_are_refused():
    with pytest.raises(CertificationError):
        terms(PointPair(np.array([0.0]), np.array([1.5]), np.array([1.0])), 0.25, ((0, 16),))


class _Rounded(Pair):
    """The coin with a little mass moved from one side to the other, which its `cells` own up to, or not."""

    def __init__(self, error, told):
        self.error, self.told = error, told

    def masses(self, edges):
        p, q = (masses.copy() for masses in COIN.pair().masses(edges))
        small, large = np.flatnonzero(p)
        for masses in (p, q):
            masses[small] += self.error * masses[large]
            masses[large] -= self.error * masses[large]
        return p, q

    def cells(self, edges):
        p, q = self.masses(edges)
        told = 1.2 * abs(self.error) if self.told else 0.0
        return Cells(p, q, np.where(p > 0, told, 0.0), np.where(q > 0, told, 0.0))


def test_errors_of_masses_are_paid_for():
    """Above and below, with an error of its size that is told; untold, the claims are false."""
    exact = COIN.mean(3)
    for told in (True, False):
        law = terms(_Rounded(1e-3, told), 0.01, ((0, 400),))
        above = upper_pair(law.plus(law).plus(law))
        assert (delta_above(above, 0.2, "remove") >= float(exact.delta(0.2, "remove"))) is told
        law = terms(_Rounded(-1e-3, told), 0.01, ((0, 400),))
        below = lower_pair(law.plus(law).plus(law))
        assert (delta_below(below, 0.2, "remove") <= float(exact.delta(0.2, "remove"))) is told


class _Speck(Pair):
    """The coin and a cell whose mass rounding hides: its errors alone tell of it."""

    def masses(self, edges):
        return COIN.pair().masses(edges)

    def cells(self, edges):
        p, q = self.masses(edges)
        hidden = np.arange(len(p)) == np.searchsorted(edges, math.log(3.005), side="right")
        return Cells(p, q, np.where(hidden, 0.02, 0.0), np.where(hidden, 0.02, 0.0))


def test_a_speck_that_rounding_hides_is_a_weight():
    """Mass 0.02 at a ratio of about 3 that no cell shows: all of it may be there, so it lies on the cell's ends."""
    law = terms(_Speck(), 0.01, ((0, 400),))
    weight = sum(float(law.parts[0].rows[laws.UPPER][k - law.parts[0].start]) for k in (300, 301))
    assert weight >= 0.02


@pytest.mark.parametrize(("of_p", "of_q"), [(0.0, 0.0), (1e-9, 1e-9), (0.3, 0.3), (1e9, 0.0), (0.0, 1e9)])
def test_weights_of_cells_are_raised_by_their_errors_and_all_their_rounding(of_p, of_q):
    """Against fractions, masses as far off as is told, more than the masses among them; ends near and far apart."""
    rng = np.random.default_rng(12)
    rounded = 1 - Fraction(2, 2**53)  # both weights of a point, and what lies beyond the last, are added
    for _ in range(400):
        z = np.array([rng.random() * 10 ** rng.uniform(-6, 0), 1 + rng.random()])
        off, size = terms_module._off(np.log(z)), rng.random()
        share = rng.uniform(*z) * size
        told = Cells(*np.array([[share], [size], [of_p * share * rng.random()], [of_q * size * rng.random()]]))
        down, up = (Fraction(float(weight[0])) * rounded for weight in terms_module._split(told, z, off))
        low, high = Fraction(z[0]) * (1 - Fraction(off)), Fraction(z[1]) * (1 + Fraction(off))
        p, q, more_p, more_q = (Fraction(float(column[0])) for column in told)
        assert down >= ((q + more_q) * high - max(p - more_p, 0)) / (high - low)
        assert up >= (p + more_p - max(q - more_q, 0) * low) / (high - low)


@pytest.mark.parametrize("field", ["relative", "slack", "shift", "lost", "infinite", "gone_p", "gone_q"])
def test_every_entry_of_the_ledger_is_read(field):
    law = terms(COIN.pair(), 0.25, ((0, 16),))
    more = replace(law, **{field: getattr(law, field) + 0.01})
    if field in ("slack", "lost"):
        worst = [delta_below(lower_pair(each), 0.2, "remove") for each in (law, more)]
        assert worst[1] < worst[0]
    else:
        direction = "add" if field == "gone_q" else "remove"
        worst = [delta_above(upper_pair(each), 0.2, direction) for each in (law, more)]
        assert worst[1] > worst[0]


def test_sums_are_rounded_as_often_as_is_charged():
    """Blocks of inner products against exact sums of rationals."""
    rng = np.random.default_rng(3)
    x, y = rng.random(300), rng.random(200) * 10.0 ** rng.uniform(-9, 0, 200)
    found = laws._convolved(x, y)
    allowed = laws._roundings(200) * 2.0**-53
    for k in range(0, len(found), 37):
        exact = sum(
            (Fraction(float(x[i])) * Fraction(float(y[k - i])) for i in range(300) if 0 <= k - i < 200), Fraction(0)
        )
        assert abs(Fraction(float(found[k])) - exact) <= Fraction(allowed) * exact


def test_underflow_is_charged():
    tiny = Part(0, np.full((3, 4), 1e-200))
    law = SumLaw(0.25, {0: tiny})
    both = law.plus(law)
    assert both.gone_q > 0
    assert both.lost > 0
    assert lower_pair(both).losses.size == 0


def test_one_term_is_the_pair_itself_and_means_lose_nothing_to_grids():
    """1 of 2 by quadrature over the other term: δ(ε) = E(½(Z₁ + Z₂) - e^ε)⁺, each Z lognormal."""
    from scipy.integrate import quad
    from scipy.special import ndtr

    epsilon, mu = 2.0, 1.0

    def above(u):  # E(½z + ½Z - t)⁺ over Z, given z
        t = 2 * math.exp(epsilon) - math.exp(mu * u - mu * mu / 2)
        if t <= 0:
            return 0.5 * (1 - t)
        d = math.log(t) / mu
        return 0.5 * (ndtr(mu / 2 - d) - t * ndtr(-d - mu / 2))

    truth = quad(lambda u: above(u) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi), -12, 14, epsabs=1e-13, limit=400)[
        0
    ]
    need = Need((4.5, 5.6), (3.7, 3.4), (1e-3, 1e-3), 1.0, 1e-12)
    law = mean_law(GaussianPair(mu), 2, need)
    assert delta_below(lower_pair(law), epsilon, "remove") <= truth <= delta_above(upper_pair(law), epsilon, "remove")
    assert delta_above(upper_pair(law), epsilon, "remove") < 1.01 * truth


def test_a_pair_without_a_question_is_a_bound_too():
    pair = AllocatedPair(GaussianPair(1.0), 50)
    edges = np.linspace(-1, 1, 9)
    p, q = pair.masses(edges)
    assert p.sum() + 1e-9 >= 1
    assert q.sum() + 1e-9 >= 1
    assert p.sum() - 1 <= pair.excess()


@pytest.mark.parametrize("failure", [Fraction(1, 50), Fraction(1, 4000)])
def test_what_q_or_p_never_give_is_part_of_the_lower_bound(failure):
    """One of five steps of a mechanism that may fail outright: δ at ε by rationals, both within a thousandth."""
    likely = (1 - failure) * Fraction(7, 10)
    rest = 1 - failure - likely
    exact = exact_pairs.ExactPair([likely, rest, failure, 0], [rest, likely, 0, failure]).mean(5)
    base = DeclaredDP(epsilon=math.log(7 / 3), delta=float(failure))
    for epsilon in (0.05, 0.4):
        truth = float(max(exact.delta(epsilon, direction) for direction in ("remove", "add")))
        found = compose([(RandomlyAllocated(base=base, steps=5), 1)], epsilon=epsilon)
        assert found.delta_lower <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= found.delta
        assert found.delta_lower >= truth * (1 - 1e-3)


def test_errors_of_many_terms_add_up_as_they_do_on_average():
    """Two kinds of cells, errors 1e-12 with probability 1/100 and 1e-15: by exact binomial tails."""
    q = np.array([0.01, 0.99])
    errors = np.array([1e-12, 1e-15])
    assert terms_module._slack(q, q, errors, 1) == 1e-12
    for copies in (10, 2_000, 50_000):
        found = terms_module._slack(q, q, errors, copies)
        assert found <= 1e-12
        most = math.floor(copies * (found - 1e-15) / (1e-12 - 1e-15))  # cells of the first kind that are paid for
        if most < copies:
            logs = [
                math.lgamma(copies + 1)
                - math.lgamma(k + 1)
                - math.lgamma(copies - k + 1)
                + k * math.log(0.01)
                + (copies - k) * math.log(0.99)
                for k in range(most + 1, min(copies, most + 2000) + 1)
            ]
            top = max(logs)
            assert top + math.log(sum(math.exp(each - top) for each in logs)) < math.log(1e-300)
    assert found < 1.5e-13
