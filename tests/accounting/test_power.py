"""*Power*, the product of many copies in one transform, under any hints at all and with errors planted in it."""

import importlib.util
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcalc.accounting.certified import compose, discretise, power, read
from dpcalc.accounting.certified.power import Orders, Window, good_size, powered
from dpcalc.conversions import gdp_delta
from dpcalc.pairs.gaussian import GaussianPair

_SPEC = importlib.util.spec_from_file_location("certified_tests", Path(__file__).with_name("test_certified.py"))
certified = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(certified)
COIN, DIRECTIONS, STEP = certified.COIN, certified.DIRECTIONS, certified.STEP
random_pair, random_spans, random_trim = certified.random_pair, certified.random_spans, certified.random_trim


def random_window(rng, reach, step):
    """A window of any place and size, sensible or not, and orders of any size."""
    size = int(rng.choice([8, 40, int(2 * reach / step) + 8, int(6 * reach / step) + 8]))
    first = int(rng.integers(-size, size // 2 + 1))
    orders = [Orders(*(float(10 ** rng.uniform(-1.5, 1.5) / reach) for _ in range(2))) for _ in range(3)]
    return Window(first, size, *orders[: int(rng.integers(2, 4))])


def random_power(rng, pairs, counts, reach):
    """A composition with every hint random: grids, tilt, moves, window, orders of moments, and the worse direction."""
    step, tilt = 10 ** rng.uniform(-2.5, -0.5) * reach, float(rng.choice([0.5, 0.0, 1.0, rng.uniform(-3, 3)]))
    laws = []
    for pair, count in zip(pairs, counts, strict=True):
        law = random_trim(rng, discretise.discretised([pair], step, random_spans(rng, step, reach), tilt))
        if not law.components:
            return None
        laws.append((law, count))
    window, worse = random_window(rng, reach * math.sqrt(sum(counts)), step), str(rng.choice(DIRECTIONS))
    try:
        return powered(laws, window, worse=worse)
    except OverflowError:  # a refusal is no bound
        return None


@pytest.mark.parametrize("seed", range(80))
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
    law = random_power(rng, pairs, counts, float(rng.choice([1.0, 4.0, 12.0])))
    if law is not None:
        certified.assert_bracketed(law, whole.delta, [0.0, *rng.uniform(0, 6, 4)])


@pytest.mark.parametrize("seed", range(60))
def test_random_hints_never_make_a_false_bound_of_gaussians(seed):
    """Lists whose μ² add up, up to thousands of copies."""
    rng = np.random.default_rng(1000 + seed)
    mus = [float(1 / rng.uniform(0.15, 3)) for _ in range(int(rng.integers(1, 3)))]
    counts = [int(rng.choice([1, 2, 7, 60, 3000])) for _ in mus]
    mus = [m / math.sqrt(count) for m, count in zip(mus, counts, strict=True)]
    mu = math.sqrt(sum(count * m * m for m, count in zip(mus, counts, strict=True)))
    law = random_power(rng, [GaussianPair(m) for m in mus], counts, max(mus) * float(rng.uniform(3, 9)))
    if law is None:
        return
    for direction in DIRECTIONS:
        below, above = (read.curve(law, direction, upper=upper) for upper in (False, True))
        for epsilon in [0.0, mu, *rng.uniform(0, 3 * mu * (mu + 2), 3)]:
            delta = float(gdp_delta(mu, epsilon))
            assert below.delta(epsilon) <= delta * (1 + 1e-11)
            assert above.delta(epsilon) >= delta * (1 - 1e-11)


def sensible(law, count, worse="remove", wrapped=(8.0, 8.0)):
    """A power of a coin on a window that holds all of it."""
    return powered([(law, count)], Window(-32, 64, Orders(20.0, 20.0), Orders(*wrapped)), worse=worse)


def test_a_power_is_the_product_of_its_factors():
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    summed = base
    for _ in range(4):
        summed = compose.product(summed, base)
    for worse in DIRECTIONS:
        found = sensible(base, 5, worse)
        for epsilon in (0.1, 1.0, 2.5, 4.0):
            for upper in (False, True):
                by_sums, by_power = (read.curve(law, worse, upper=upper).delta(epsilon) for law in (summed, found))
                assert by_power == pytest.approx(by_sums, rel=1e-9)
        certified.assert_bracketed(found, COIN.power(5).delta, [0.0, 0.5, 2.0, 4.0])


def test_a_batch_is_the_product_of_its_laws():
    rng = np.random.default_rng(7)
    exacts = [random_pair(rng, 3, ends=False) for _ in range(5)]
    whole = exacts[0]
    for exact in exacts[1:]:
        whole = whole.times(exact)
    law = discretise.discretised([exact.pair() for exact in exacts], 0.05, ((-80, 80), (-200, 200)))
    for worse in DIRECTIONS:
        found = powered([(law, 1)], Window(-2000, 4000, Orders(1.0, 1.0), Orders(1.0, 1.0)), worse=worse)
        assert found.count == 5
        certified.assert_bracketed(found, whole.delta, [0.0, 0.5, 1.5, 4.0])
        assert read.curve(found, worse, upper=False).delta(0.1) > 0


def test_lower_rows_bound_one_direction_only():
    law = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    for worse, other in (DIRECTIONS, DIRECTIONS[::-1]):
        found = sensible(law, 4, worse)
        assert found.lower == {worse}
        assert read.curve(found, other, upper=False).delta(0.1) == 0


# Each term of lemmas T and W, made necessary by an error of its size --------------------------------------------------


def test_what_wraps_around_is_taken_off(monkeypatch):
    """A window that ends where the law does not: losses far below would appear as losses far above."""
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    exact, short = COIN.power(6), Window(4, 40, Orders(2.0, 2.0), Orders(2.0, 2.0))
    epsilons = [0.3, 1.5 * STEP, 3.5 * STEP, 5.5 * STEP, 8.5 * STEP]
    certified.assert_bracketed(powered([(base, 6)], short, worse="remove"), exact.delta, epsilons)
    monkeypatch.setattr(power, "_wrapped", lambda *_: 0.0)
    bare = read.curve(powered([(base, 6)], short, worse="remove"), "remove", upper=False)
    assert any(Fraction(bare.delta(epsilon)) > exact.delta(epsilon, "remove") for epsilon in epsilons)


def test_what_lies_outside_the_window_is_charged(monkeypatch):
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    exact, short = COIN.power(6), Window(-30, 40, Orders(2.0, 2.0), Orders(2.0, 2.0))
    law = powered([(base, 6)], short, worse="remove")
    assert law.ledger.infinite > 0
    assert law.ledger.zero > 0
    certified.assert_bracketed(law, exact.delta, [1.5 * STEP, 1.9 * STEP, 5.5 * STEP])
    monkeypatch.setattr(power, "_with_outside", lambda law, *_: law)
    bare = read.curve(powered([(base, 6)], short, worse="remove"), "remove", upper=True)
    assert any(Fraction(bare.delta(epsilon)) < exact.delta(epsilon, "remove") for epsilon in (1.5 * STEP, 1.9 * STEP))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("place", ["rfft", "irfft"])
def test_the_error_of_transforms_is_paid_for(monkeypatch, place, sign):
    """Noise as large as the constant says, planted in a transform: brackets hold, and need the constant."""
    base = discretise.discretised([COIN.pair()], STEP / 64, ((-256, 256),))
    exact, size = COIN.power(3), 1e-7
    window = Window(-1024, 2048, Orders(8.0, 8.0), Orders(8.0, 8.0))
    real = getattr(np.fft, place)

    def noisy(values, *length):
        return (1 + sign * size) * real(values, *length)

    monkeypatch.setattr(power.np.fft, place, noisy)
    epsilons = [0.1, 1.0, 2.0, 3.1]
    monkeypatch.setattr(power, "_GROWN", math.inf)
    monkeypatch.setattr(power, "TRANSFORM", size / (math.log2(2048) * 2.0**-53))
    for worse in DIRECTIONS:
        law = powered([(base, 3)], window, worse=worse)
        for epsilon in epsilons:
            assert Fraction(read.curve(law, worse, upper=True).delta(epsilon)) >= exact.delta(epsilon, worse)
            assert Fraction(read.curve(law, worse, upper=False).delta(epsilon)) <= exact.delta(epsilon, worse)
    monkeypatch.setattr(power, "TRANSFORM", 0.0)
    law = powered([(base, 3)], window, worse="remove")
    bare = [Fraction(read.curve(law, "remove", upper=sign < 0).delta(epsilon)) for epsilon in epsilons]
    assert any(
        sign * (found - exact.delta(epsilon, "remove")) > 0 for found, epsilon in zip(bare, epsilons, strict=True)
    )


def test_frequencies_that_are_left_out_are_paid_for(monkeypatch):
    """Far more of them than ever are: brackets hold, and need what is charged."""
    mu, copies = 0.1, 100
    base = discretise.discretised([GaussianPair(mu)], 0.01, ((-120, 120),))
    window = Window(-1000, 2000, Orders(3.0, 3.0), Orders(3.0, 3.0))
    monkeypatch.setattr(power, "_UNHEARD", 1e-4)
    epsilons = [float(epsilon) for epsilon in np.linspace(0.5, 3.5, 40)]
    exact = [float(gdp_delta(mu * math.sqrt(copies), epsilon)) for epsilon in epsilons]

    def brackets():
        law = powered([(base, copies)], window, worse="remove")
        low, high = (read.curve(law, "remove", upper=upper) for upper in (False, True))
        return [
            low.delta(epsilon) <= delta <= high.delta(epsilon) for epsilon, delta in zip(epsilons, exact, strict=True)
        ]

    assert all(brackets())
    kept = power._audible
    monkeypatch.setattr(power, "_audible", lambda *asked: (kept(*asked)[0], 0.0))
    assert not all(brackets())


def test_weights_below_the_errors_of_transforms_are_bounded_by_moments():
    """Twenty standard deviations out, where doubles know nothing of a Gaussian but its moments."""
    base = discretise.discretised([GaussianPair(0.1)], 0.01, ((-120, 120),))
    window = Window(-1000, 2000, Orders(3.0, 3.0), Orders(3.0, 3.0))
    bare = powered([(base, 100)], window, worse="remove")
    law = powered([(base, 100)], replace(window, faint=Orders(8.0, 8.0)), worse="remove")
    far = law.losses(0) > 9
    assert bare.components[0].rows[0][far][:-1].min() > 1e-17
    assert law.components[0].rows[0][far][:-1].max() < 1e-17
    for epsilon in (0.5, 2.0, 5.0, 7.0):
        delta = float(gdp_delta(1.0, epsilon))
        low, high = (read.curve(law, "remove", upper=upper).delta(epsilon) for upper in (False, True))
        assert low <= delta <= high <= read.curve(bare, "remove", upper=True).delta(epsilon)


def test_weights_below_the_range_of_doubles_do_not_vanish():
    """In a steep scale what is likely may be a weight of e^-800; as 0 it would leave δ(20) at 1e-7, which is 1."""
    base = discretise.discretised([GaussianPair(1.0)], 0.1, ((-400, 400),), 5.0)
    window = Window(-1000, 16384, Orders(3.0, 3.0), Orders(1.0, 1.0), faint=Orders(0.5, 3.9))
    law = powered([(base, 200)], window, worse="remove")
    for epsilon in (0.0, 20.0, 100.0, 200.0):
        assert read.curve(law, "remove", upper=True).delta(epsilon) >= float(gdp_delta(math.sqrt(200), epsilon))


def test_rows_that_reach_over_several_windows_are_folded():
    """A window of a third of a single step: what is outside is charged, and what wraps around above is no harm."""
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-64, 64),))
    window = Window(-8, 40, Orders(2.0, 2.0), Orders(2.0, 2.0))
    law = powered([(base, 3)], window, worse="remove")
    assert law.components[0].size == 40 < base.components[0].size
    certified.assert_bracketed(law, COIN.power(3).delta, [0.0, 0.5, STEP, 2.5 * STEP])


def test_the_ledger_of_copies_adds_up():
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    errors = {"infinite": 1e-6, "zero": 2e-6, "relative": 1e-9, "slack": 2e-9, "shift": 3e-9}
    charged = replace(base, ledger=replace(base.ledger, **errors))
    window = Window(-400, 800, Orders(0.6, 0.6), Orders(1.0, 1.0))
    found = powered([(charged, 100)], window, worse="remove").ledger
    assert found.infinite >= 100e-6 * (1 - 1e-15)
    assert found.zero >= 200e-6
    assert found.relative >= 100e-9
    assert found.slack >= 200e-9
    assert found.shift >= 300e-9


def test_so_many_copies_that_errors_could_add_up_are_refused():
    base = discretise.discretised([COIN.pair()], STEP / 4, ((-16, 16),))
    with pytest.raises(OverflowError):
        sensible(base, 10**14)


def test_sizes_are_those_whose_transforms_are_within_the_bound():
    for points in (1, 7, 8, 9, 17, 1000, 16385, 20481, 24577, 10**6):
        size = good_size(points)
        assert points <= size <= max(1.34 * points, 16)
        assert size >= 16
        odd = size // (size & -size)
        assert odd in (1, 3, 5)
