"""The stages of a certificate under any hints at all, against exact enumeration and closed forms, each direction."""

import importlib.util
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcalc.accounting.certified import coarsen, compose, convolve, discretise, read
from dpcalc.accounting.certified.law import RATIO, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.conversions import gdp_delta
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Pair
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair

_SPEC = importlib.util.spec_from_file_location("exact_pairs", Path(__file__).with_name("exact_pairs.py"))
exact_pairs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(exact_pairs)
ExactPair, random_pair = exact_pairs.ExactPair, exact_pairs.random_pair

DIRECTIONS = ("remove", "add")


def random_spans(rng, step, reach):
    """Nested index ranges of random sizes on one to four grids, the last of them about as wide as `reach`."""
    grids = int(rng.integers(1, 5))
    while grids > 1 and step * RATIO ** (grids + 1) > 100:
        grids -= 1
    spans, low, high = [], 0, 0
    for k in range(grids):
        s = step * RATIO**k
        wanted = reach * rng.random() if k < grids - 1 else reach * (0.5 + rng.random())
        low = min(low, -int(wanted / s)) // RATIO * RATIO
        high = -(-max(high, int(wanted / s) + 1) // RATIO) * RATIO
        spans.append((low, high))
        low, high = low // RATIO, high // RATIO
    return tuple(spans)


def random_trim(rng, law):
    """Random parts of random grids moved and cut."""
    for k in list(law.components):
        if k in law.components and rng.random() < 0.3:
            size = law.components[k].size
            law = coarsen.coarsened(law, k, int(rng.integers(0, size + 1)), int(rng.integers(0, size + 1)))
    for k in list(law.components):
        if rng.random() < 0.2:
            size = law.components[k].size
            law = coarsen.cut(law, k, int(rng.integers(0, size // 3 + 1)), int(rng.integers(0, size // 3 + 1)))
    return law


def random_law(rng, pairs, counts, reach):
    """A composition with every hint random: grids, tilt, order of products, transforms or not, moves and cuts."""
    step, tilt = 10 ** rng.uniform(-2.5, -0.5) * reach, float(rng.choice([0.5, 0.0, 1.0, rng.uniform(-3, 3)]))
    worse = str(rng.choice(DIRECTIONS))
    hints = {"short": int(rng.choice([0, 10**9])), "worse": worse}
    law = None
    for pair, count in zip(pairs, counts, strict=True):
        base = discretise.discretised([pair], step, random_spans(rng, step, reach), tilt)
        for _ in range(count):
            law = base if law is None else compose.product(law, base, **hints)
            law = random_trim(rng, law) if rng.random() < 0.5 else law
    return law


def assert_bracketed(law, exact, epsilons):
    """δ of each direction between its two curves, with no slack; and ε at that δ."""
    for direction in DIRECTIONS:
        below, above = (read.curve(law, direction, upper=upper) for upper in (False, True))
        for epsilon in epsilons:
            delta = exact(epsilon, direction)
            assert Fraction(below.delta(epsilon)) <= delta
            assert above.delta(epsilon) == math.inf or delta <= Fraction(above.delta(epsilon))
            if 0 < delta < 1:
                assert above.epsilon(float(delta) * (1 - 1e-12)) >= epsilon
                assert below.epsilon(float(delta) * (1 + 1e-12)) <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("seed", range(60))
def test_random_hints_never_make_a_false_bound_of_discrete_pairs(seed):
    """Atoms at 0 and ∞, sampled and not, one to four steps of one or two pairs."""
    rng = np.random.default_rng(seed)
    exacts = [random_pair(rng, int(rng.integers(2, 5))) for _ in range(int(rng.integers(1, 3)))]
    rates = [Fraction(1), Fraction(1, 2), Fraction(1, 64)]
    sampled = [(exact, rates[int(rng.integers(0, 3))]) for exact in exacts]
    counts = [int(rng.integers(1, 3)) for _ in exacts]
    whole = None
    for (exact, rate), count in zip(sampled, counts, strict=True):
        step = exact.mixed(rate).power(count)
        whole = step if whole is None else whole.times(step)
    pairs = [exact.pair().mixed(float(rate)) for exact, rate in sampled]
    law = random_law(rng, pairs, counts, float(rng.choice([1.0, 4.0, 12.0])))
    assert_bracketed(law, whole.delta, [0.0, *rng.uniform(0, 6, 4)])


@pytest.mark.parametrize("seed", range(40))
def test_random_hints_never_make_a_false_bound_of_gaussians(seed):
    """Small σ at q = 1, where points cancel and ε is large; lists whose μ² add up."""
    rng = np.random.default_rng(1000 + seed)
    mus = [float(1 / rng.uniform(0.15, 3)) for _ in range(int(rng.integers(1, 3)))]
    counts = [int(rng.integers(1, 4)) for _ in mus]
    mu = math.sqrt(sum(count * m * m for m, count in zip(mus, counts, strict=True)))
    law = random_law(rng, [GaussianPair(m) for m in mus], counts, max(mus) * float(rng.uniform(3, 12)))

    for direction in DIRECTIONS:
        below, above = (read.curve(law, direction, upper=upper) for upper in (False, True))
        for epsilon in [0.0, mu, *rng.uniform(0, 3 * mu * (mu + 2), 3)]:
            delta = float(gdp_delta(mu, epsilon))
            assert below.delta(epsilon) <= delta * (1 + 1e-11)
            assert above.delta(epsilon) >= delta * (1 - 1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_is_the_product_of_its_laws(seed):
    rng = np.random.default_rng(2000 + seed)
    exacts = [random_pair(rng, 3, ends=False) for _ in range(int(rng.integers(2, 6)))]
    whole = exacts[0]
    for exact in exacts[1:]:
        whole = whole.times(exact)
    law = discretise.discretised([exact.pair() for exact in exacts], 0.05, ((-80, 80), (-200, 200)))
    while law.batch > 1:
        law = random_trim(rng, compose.halved(law, short=int(rng.choice([0, 10**9]))))
    assert_bracketed(compose.single(law), whole.delta, [0.0, 0.5, 1.5, 4.0])


# The traps that earlier versions fell into ---------------------------------------------------------------------------


def test_points_do_not_cancel_at_rate_one():
    """(e^ℓ - 1 + q)/q as 1 + expm1(ℓ)/q is 0 below ℓ = -37 at q = 1: weights of 0, NaN, and ε ≤ 0 came of it."""
    law = discretise.discretised([GaussianPair(1 / 0.208)], 0.5, ((-240, 240),))
    seven = law
    for _ in range(6):
        seven = compose.product(seven, law)
    for direction in DIRECTIONS:
        assert read.curve(seven, direction, upper=True).epsilon(0.0054) >= 112.2


def test_underflow_is_charged():
    """Entries below the normal range are raised, not forgotten: a law of nothing but underflow bounds nothing by 0."""
    law = discretise.discretised([GaussianPair(10.0)], 10.0, ((-60, 60),))
    for _ in range(6):
        law = compose.product(law, law)
    mu = math.sqrt(64) * 10
    assert read.curve(law, "remove", upper=True).epsilon(1e-6) >= mu * mu / 2
    assert law.ledger.lost > 0


def test_mass_at_zero_is_not_a_point():
    """Q-mass at X = 0 is infinite loss for adding: it stands in the ledger and in δ at every ε."""
    pair = ExactPair([0, 1], [Fraction(1, 4), Fraction(3, 4)]).pair()
    law = discretise.discretised([pair], 0.1, ((-40, 40),))
    assert law.ledger.zero >= 0.25
    assert read.curve(law, "add", upper=True).delta(600.0) >= 0.25


def test_lower_rows_after_a_transform_bound_one_direction_only():
    """A⁻ and B⁺ read as adding would be wrong: after a transform the other direction is 0."""
    law = discretise.discretised([GaussianPair(1.0)], 0.01, ((-800, 800),))
    for worse, other in (DIRECTIONS, DIRECTIONS[::-1]):
        twice = compose.product(law, law, short=0, worse=worse)
        assert twice.lower == {worse}
        assert read.curve(twice, worse, upper=False).delta(0.5) > 0
        assert read.curve(twice, other, upper=False).delta(0.5) == 0


def test_a_maximum_does_not_swallow_nan():
    with pytest.raises(ArithmeticError):
        read.worst([1.0, math.nan])
    with pytest.raises(ArithmeticError):
        read.worst([math.nan, 1.0])


def test_nan_certifies_nothing():
    curve = read.Curve(True, np.array([1.0, 2.0]), np.array([math.nan, 0.5]), 0.0)
    assert curve.epsilon(0.1) == math.inf
    assert read.Curve(False, np.array([1.0, 2.0]), np.array([math.nan, 0.5]), 0.0).epsilon(0.1) == 0.0


def test_a_flat_curve_is_not_read_above_its_atom():
    """δ is flat at P(X = ∞): as a lower bound ε needs δ(ε) > δ, not ≥."""
    pair = PointPair(np.array([0.0]), np.array([0.5]), np.array([1.0]), p_infinite=0.5)
    law = discretise.discretised([pair], 0.1, ((-20, 20),))
    assert read.curve(law, "remove", upper=False).epsilon(0.5) == 0.0


# Each entry of the ledger, made necessary by an error of its size -----------------------------------------------------

COIN = ExactPair([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)])
STEP = math.log(3)


def coin_law(pair=None, **changes):
    law = discretise.discretised([pair or COIN.pair()], STEP, ((-4, 4),))
    return Law(**{**vars(law), **changes}) if changes else law


class Lacking(Pair):
    """A coin that forgets a little of its mass."""

    def __init__(self, p_missing, q_missing):
        self.p_missing, self.q_missing = p_missing, q_missing

    def masses(self, edges):
        p, q = COIN.pair().masses(edges)
        return p * (1 - self.p_missing), q * (1 - self.q_missing)


@pytest.mark.parametrize("missing", [3e-10, 2e-4])
def test_missing_mass_is_charged(missing):
    """Above, missing P-mass belongs to ∞ and missing Q-mass to 0; δ far out is what all steps lack."""
    law = discretise.discretised([Lacking(missing, missing)], STEP, ((-4, 4),))
    hundred = law
    for _ in range(6):
        hundred = compose.product(hundred, hundred)
    for direction in DIRECTIONS:
        assert read.curve(hundred, direction, upper=True).delta(300.0) >= 64 * missing * 0.99
        assert read.curve(hundred, direction, upper=False).delta(300.0) == 0


def test_masses_of_more_than_one_are_refused():
    with pytest.raises(CertificationError):
        discretise.discretised([Lacking(-1e-6, 0.0)], STEP, ((-4, 4),))


class Wrong(Pair):
    """A coin whose masses are off by as much as it says."""

    def __init__(self, p_factor, q_factor, said):
        self.factors, self.said = (p_factor, q_factor), said

    def masses(self, edges):
        p, q = COIN.pair().masses(edges)
        return p * self.factors[0], q * self.factors[1]

    def cells(self, edges):
        from dpcalc.pairs.base import Cells

        p, q = self.masses(edges)
        return Cells(p, q, p * self.said, q * self.said)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_errors_of_masses_are_paid_for(signs):
    """`relative`, `shift` and `slack`: cell masses wrong by 1e-9, as the pair says that they may be, eight steps."""
    error = 1e-9
    base = discretise.discretised([Wrong(1 + signs[0] * error, 1 + signs[1] * error, 1.01 * error)], STEP, ((-4, 4),))
    law = base
    for _ in range(7):
        law = compose.product(law, base)
    assert_bracketed(law, COIN.power(8).delta, [0.0, 0.7, 1.3 * STEP, 3.9 * STEP, 6 * STEP - 1e-8])


@pytest.mark.parametrize("error", [1e-4, -1e-4])
def test_the_rounding_of_weights_is_paid_for(error):
    """`relative`: weights off by a factor; with the entry they bracket, without it they would not."""
    base = coin_law()
    parts = {k: type(part)(part.start, part.rows * (1 + error)) for k, part in base.components.items()}
    wrong = Law(**{**vars(base), "components": parts})
    charged = Law(**{**vars(wrong), "ledger": base.ledger.plus(relative=1.01 * abs(error))})
    assert_bracketed(charged, COIN.delta, [0.0, 0.5, 1.0])
    side = error < 0
    bare = read.curve(wrong, "remove", upper=side).delta(0.5)
    assert (Fraction(bare) < COIN.delta(0.5, "remove")) == side


def test_a_shift_of_the_points_is_paid_for():
    """`shift`: points lower than where the weights belong; without the entry δ would be too small."""
    base, error = coin_law(), 1e-4
    moved = Law(**{**vars(base), "step": base.step - error})
    charged = Law(**{**vars(moved), "ledger": Ledger(**{**vars(base.ledger), "shift": 1.01 * error * 4})})
    assert Fraction(read.curve(charged, "remove", upper=True).delta(0.5)) >= COIN.delta(0.5, "remove")
    assert Fraction(read.curve(moved, "remove", upper=True).delta(0.5)) < COIN.delta(0.5, "remove")


def test_the_error_of_transforms_is_paid_for(monkeypatch):
    """Noise as large as the constant says, planted in the inverse transform: brackets hold, and need the constant."""
    base = discretise.discretised([COIN.pair()], STEP / 64, ((-256, 256),))
    exact = COIN.times(COIN)
    real = np.fft.irfft
    size = 1e-7

    def noisy(values, length):
        found = real(values, length)
        signs = np.where(np.arange(found.shape[-1]) % 2, 1, -1)
        return found + size * signs * np.abs(found).max(axis=-1, keepdims=True)

    monkeypatch.setattr(convolve.np.fft, "irfft", noisy)
    epsilons = [0.1, 1.0, 2.0]
    monkeypatch.setattr(convolve, "TRANSFORM", 1e10)
    for worse in DIRECTIONS:
        law = compose.product(base, base, short=0, worse=worse)
        for epsilon in epsilons:
            assert Fraction(read.curve(law, worse, upper=True).delta(epsilon)) >= exact.delta(epsilon, worse)
            assert Fraction(read.curve(law, worse, upper=False).delta(epsilon)) <= exact.delta(epsilon, worse)
    monkeypatch.setattr(convolve, "TRANSFORM", 0.0)
    law = compose.product(base, base, short=0, worse="remove")
    lower = [Fraction(read.curve(law, "remove", upper=False).delta(epsilon)) for epsilon in epsilons]
    assert any(value > exact.delta(epsilon, "remove") for value, epsilon in zip(lower, epsilons, strict=True))


def test_what_is_cut_off_is_charged():
    """Cutting everything above ε leaves δ(ε) on {last point, ∞}: dropping it would certify ε."""
    law = coin_law()
    size = law.components[0].size
    cut = coarsen.cut(law, 0, 0, size - 4)
    assert Fraction(read.curve(cut, "remove", upper=True).delta(0.9)) >= COIN.delta(0.9, "remove")
    assert read.curve(cut, "remove", upper=False).delta(0.9) == 0
    gone = coarsen.cut(law, 0, size, 0)
    for direction in DIRECTIONS:
        assert read.curve(gone, direction, upper=True).delta(5.0) >= 1 - 1e-12


def test_transforms_equal_sums():
    rng = np.random.default_rng(5)
    a, b = rng.random((3, 700)), rng.random((3, 900))
    exact = np.array([np.convolve(x, y) for x, y in zip(a, b, strict=True)])
    for below in (1, 2):
        got = convolve.by_transform(a, b, 512, below)
        for row in range(3):
            assert (got[row] <= exact[row]).all() if row == below else (got[row] >= exact[row]).all()
        assert np.abs(got - exact).max() < 1e-8


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("speck", [3e-18, 4e-17, 2e-15, 1e-12])
def test_a_speck_that_rounding_hides_in_a_cell_is_paid_for(speck, direction):
    """A cell with nearly all its mass at one end, and so little at the other that its mean does not show it."""
    sign = 1 if direction == "remove" else -1
    top, back = 0.37 * sign, -0.3 * sign
    balance = speck * math.expm1(top) / -math.expm1(back)
    losses = np.array([back, 0.0, top])
    q = np.array([balance, 1 - balance - speck, speck])
    order = np.argsort(losses)
    pair = PointPair(losses[order], (q * np.exp(losses))[order], q[order])
    law = discretise.discretised([pair], 0.4, ((-8, 8),))
    detected = speck * math.exp(max(top, 0.0)) if direction == "remove" else speck
    for epsilon in (0.1, 0.2, 0.3):
        exact = detected * -math.expm1(epsilon - 0.37)
        assert read.curve(law, direction, upper=True).delta(epsilon) >= exact * (1 - 1e-12)


def test_every_coarsening_is_charged():
    """Laws five grids apart meet on the coarser one: the finer one is split five times on the way."""
    fine = discretise.discretised([GaussianPair(0.4)], 1e-3, ((-4096, 4096),))
    coarse = discretise.discretised([GaussianPair(0.4)], 1e-3, ((0, 0),) * 5 + ((-8, 8),))
    met = compose.product(fine, coarse)
    charged = met.ledger.relative - fine.ledger.relative - coarse.ledger.relative
    assert charged >= 5 * 2.0**-53 * coarsen.coarsening(1e-3, 0.5)


def test_what_gathered_entries_lost_is_charged():
    """From some grid on more than gradual underflow leaves to spare: 8^k entries, each times X^{1+|τ|} of a step."""
    law = discretise.discretised([GaussianPair(0.4)], 1e-3, ((-4096, 4096),))
    assert law.lost() == law.ledger.lost > 0
    for tilt, coarsest in ((0.5, 17), (30.0, 5)):
        far = replace(law, components={coarsest: law.components[0]}, tilt=tilt)
        each = (1 + tilt) * sum(4 * far.step_of(k) for k in range(coarsest))
        assert far.lost() >= law.ledger.lost * max(1.0, 8.0**coarsest * 2.0**-53 * math.exp(min(each, 600)))
    assert replace(far, components={3: law.components[0]}).lost() == law.ledger.lost


def test_cutting_pays_for_long_sums_of_far_weights():
    law = discretise.discretised([GaussianPair(1.0)], 1e-2, ((-2000, 2000),))
    before = law.components[0].rows[0].copy()
    after = coarsen.cut(law, 0, 1500, 1500)
    losses = law.losses(0)
    exact = sum(
        Fraction(float(w)) * Fraction(math.exp(0.5 * (float(loss) - float(losses[1500]))))
        for w, loss in zip(before[:1501], losses[:1501], strict=True)
    )
    assert Fraction(float(after.components[0].rows[0][0])) >= exact * (1 - Fraction(1, 2**50))


@pytest.mark.parametrize(("delta", "count"), [(Fraction(3, 1000), 1), (Fraction(1, 7), 3), (Fraction(1, 10**9), 5000)])
def test_what_surely_is_infinite_belongs_to_the_lower_bound(delta, count):
    """Far above every finite loss, δ is 1 - (1 - δ₀)ⁿ alone; exact rationals, both directions."""
    half = 1 - float(delta)
    pair = PointPair(
        np.array([-0.5, 0.5]), np.array([0.3, 0.7]) * half, np.array([0.7, 0.3]) * half, 1 - half, 1 - half
    )
    law = discretise.discretised([pair], 0.25, ((-8, 8),))
    composed = law
    for _ in range(count.bit_length() - 1):
        composed = compose.product(composed, composed)
    copies = composed.count
    exact = 1 - (1 - Fraction(1 - half)) ** copies
    for direction in DIRECTIONS:
        found = Fraction(read.curve(composed, direction, upper=False).delta(400.0))
        assert exact * (1 - Fraction(1, 10**11)) <= found <= exact


def test_nothing_surely_infinite_is_left_of_a_sampled_zero():
    """Z = 0 of a sampled step is X = 1 - q, and Z = ∞ keeps its share."""
    pair = PointPair(np.array([0.0]), np.array([0.9]), np.array([0.9]), 0.1, 0.1)
    law = discretise.discretised([pair.mixed(0.25)], 0.25, ((-8, 8),))
    assert read.curve(law, "add", upper=False).delta(3.0) == 0
    assert read.curve(law, "remove", upper=False).delta(3.0) == pytest.approx(0.025, rel=1e-12)
