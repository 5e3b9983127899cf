"""compose: published numbers, properties over random mixed lists, and the fields of the guarantee."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.accounting import compose as compose_module
from dpcalc.accounting.compose import compose, upper_epsilon
from dpcalc.accounting.engines import by_laws
from dpcalc.accounting.question import Answer, Question
from dpcalc.accounting.renyi import by_rdp
from dpcalc.accounting.steering import needs
from dpcalc.errors import CertificationError, IncompatibleError, InputError
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.mechanisms.staircase import Staircase


def poisson(noise_multiplier, rate):
    return PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate)


def test_published_gdp_number():
    """Koskela et al.: σ = 100, k = 420, δ = 1e-5 gives 0.7451."""
    guarantee = compose([(Gaussian(noise_multiplier=100), 420)], delta=1e-5)
    assert guarantee.epsilon == pytest.approx(0.7451, abs=5e-5)
    assert guarantee.accountant == "gdp"
    assert guarantee.mu_kind == "exact"
    assert guarantee.epsilon_lower == pytest.approx(guarantee.epsilon, rel=1e-9)
    assert guarantee.epsilon_estimate == pytest.approx(guarantee.epsilon, rel=1e-9)


@pytest.mark.parametrize(("epochs", "published"), [(50, 4.438), (100, 6.654), (200, 10.113)])
def test_published_fixed_size_numbers(epochs, published):
    """Bok et al., Tables 3-4: SGD composition, n = 60000, b = 1500, L/(bσ) = 10/(1500·0.01)."""
    base = Gaussian(noise_multiplier=1.5, adjacency="replace-one")
    guarantee = compose([(FixedSizeSampled(base=base, sampling_rate=1500 / 60000), 40 * epochs)], delta=1e-5)
    assert guarantee.epsilon_lower <= published + 5e-4
    assert guarantee.epsilon >= published - 5e-4
    assert guarantee.epsilon == pytest.approx(published, rel=2e-3)


def test_the_mixed_list_is_where_peers_bracket_it():
    parts = [(Laplace(scale=20), 100), (poisson(0.9, 0.005), 2000), (Gaussian(noise_multiplier=20), 10)]
    guarantee = compose(parts, delta=1e-6)
    assert guarantee.epsilon >= 2.944
    assert guarantee.epsilon_lower <= 2.9542
    assert guarantee.epsilon - guarantee.epsilon_lower <= 1e-3 * guarantee.epsilon


@pytest.mark.parametrize("delta", [1e-15, 1e-30, 1e-50])
def test_tiny_deltas_stay_certified_and_tight(delta):
    guarantee = compose([(poisson(1.1, 256 / 60000), 14063)], delta=delta)
    assert guarantee.status == "certified"
    assert guarantee.epsilon_lower <= guarantee.epsilon_estimate <= guarantee.epsilon
    assert guarantee.epsilon - guarantee.epsilon_lower <= 1e-2 * guarantee.epsilon


def test_tiny_deltas_stay_tight_where_a_few_of_many_mechanisms_decide():
    """The tail is that of the least noise, which few of the mechanisms have."""
    parts = [(poisson(noise_multiplier, 0.01), 1) for noise_multiplier in (1, 1.01, 1.02, *np.linspace(2.9, 3.1, 200))]
    guarantee = compose(parts, delta=1e-20)
    assert guarantee.epsilon - guarantee.epsilon_lower <= 1e-3 * guarantee.epsilon


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([(33.0, 0.0628, 192_004), (5397.0, 0.00172, 47)], 1.45e-13),
        ([(7271.0, 2.5e-5, 22_353), (3.522, 0.02197, 382_955), (18.09, 8.84e-5, 208_868)], 1.34e-33),
        ([(67.3, 0.1264, 12), (162.0, 1.13e-4, 60_845), (30.35, 0.0064, 431)], 1.29e-24),
    ],
)
def test_losses_of_very_different_sizes_stay_tight(parts, delta):
    """Those far below the grid step neither cost an infinite ε above nor pull the lower bound down."""
    guarantee = compose([(poisson(noise, rate), count) for noise, rate, count in parts], delta=delta)
    assert guarantee.epsilon - guarantee.epsilon_lower <= 1e-3 * guarantee.epsilon


@pytest.mark.parametrize(
    ("parts", "delta", "gap"),
    [
        ([(poisson(0.168, 5.2e-7), 15_537)], 8.56e-10, 1e-3),  # a few rare jumps
        ([(poisson(1.888, 1.066e-5), 26_597)], 1.49e-37, 1e-2),  # jumps too rare to matter
        ([(poisson(5.4, 0.0292), 1)], 6.56e-51, 1e-3),  # one step, far out
        ([(PoissonSampled(base=Laplace(scale=34.4), sampling_rate=0.00134), 1)], 1.18e-20, 1e-3),  # bounded losses
        ([(RandomizedResponse(epsilon=0.00558), 1_100_962), (poisson(0.9936, 8.7e-6), 25_266)], 0.00328, 1e-3),  # atoms
    ],
)
def test_rare_jumps_single_steps_and_atoms_stay_tight(parts, delta, gap):
    guarantee = compose(parts, delta=delta)
    assert guarantee.accountant in ("pld", "basic")
    assert guarantee.epsilon - guarantee.epsilon_lower <= gap * guarantee.epsilon


mechanisms = st.one_of(
    st.builds(lambda s: Gaussian(noise_multiplier=s), st.floats(0.5, 50)),
    st.builds(lambda b: Laplace(scale=b), st.floats(0.5, 50)),
    st.builds(poisson, st.floats(0.5, 10), st.floats(1e-4, 0.5)),
    st.builds(lambda e: RandomizedResponse(epsilon=e), st.floats(0.01, 2)),
    st.builds(lambda e: Exponential(epsilon=e), st.floats(0.01, 2)),
    st.builds(lambda e: DeclaredDP(epsilon=e, delta=1e-9), st.floats(0.01, 1)),
    st.builds(lambda b: DiscreteLaplace(scale=b, sensitivity=2), st.floats(1, 20)),
)
lists = st.lists(st.tuples(mechanisms, st.integers(1, 300)), min_size=1, max_size=4)
deltas = st.sampled_from([0.1, 1e-3, 1e-5, 1e-7])


@settings(max_examples=12, deadline=None)
@given(parts=lists, delta=deltas)
def test_lower_estimate_and_upper_are_in_order(parts, delta):
    guarantee = compose(parts, delta=delta)
    assert 0 <= guarantee.epsilon_lower <= guarantee.epsilon
    if guarantee.epsilon_estimate is not None:  # none where the interval is too wide to speak of one
        assert guarantee.epsilon_lower <= guarantee.epsilon_estimate <= guarantee.epsilon


@settings(max_examples=6, deadline=None)
@given(parts=lists, extra=st.tuples(mechanisms, st.integers(1, 100)), delta=deltas)
def test_more_mechanisms_never_lower_epsilon(parts, extra, delta):
    fewer, more = compose(parts, delta=delta), compose([*parts, extra], delta=delta)
    assert more.epsilon >= fewer.epsilon_lower * (1 - 1e-9)


@settings(max_examples=6, deadline=None)
@given(parts=lists, delta=deltas)
def test_listing_equals_counting_and_order_does_not_matter(parts, delta):
    listed = [(mechanism, 1) for mechanism, count in parts for _ in range(min(count, 5))]
    counted = [(mechanism, min(count, 5)) for mechanism, count in parts]
    assert compose(listed, delta=delta).epsilon == compose(counted, delta=delta).epsilon
    backwards = compose(counted[::-1], delta=delta)
    forwards = compose(counted, delta=delta)
    assert backwards.epsilon >= forwards.epsilon_lower * (1 - 1e-12)
    assert forwards.epsilon >= backwards.epsilon_lower * (1 - 1e-12)


@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_less_noise_never_lowers_epsilon(noise):
    quiet, loud = (
        compose([(poisson(noise, 0.01), 500)], delta=1e-6),
        compose([(poisson(noise * 1.2, 0.01), 500)], delta=1e-6),
    )
    assert quiet.epsilon >= loud.epsilon_lower


def test_delta_at_epsilon_answers_the_inverse_question():
    parts = [(poisson(1.1, 256 / 60000), 14063)]
    guarantee = compose(parts, epsilon=2.5)
    assert guarantee.delta == pytest.approx(4.328259281e-6, rel=2e-3)
    assert guarantee.delta >= 4.328259281e-6 * (1 - 1e-9)
    assert guarantee.epsilon == 2.5


def test_every_accountant_is_an_upper_bound_on_the_truth():
    parts = [(poisson(1.0, 0.01), 1000)]
    certain = compose(parts, delta=1e-5).epsilon_lower
    for accountant in ("gdp", "rdp", "pld"):
        assert compose(parts, delta=1e-5, accountant=accountant).epsilon >= certain


def test_rdp_accountant_matches_the_closed_form_of_a_gaussian():
    """Canonne's conversion at the best real order: Koskela et al. report 0.8156."""
    guarantee = compose([(Gaussian(noise_multiplier=100), 420)], delta=1e-5, accountant="rdp")
    assert guarantee.epsilon <= 0.8156 + 5e-5
    assert guarantee.epsilon >= 0.7451


def test_central_limit_is_labelled_approximate():
    guarantee = compose([(poisson(1.0, 0.01), 10_000)], delta=1e-5, accountant="clt")
    assert guarantee.status == "approximate"
    assert guarantee.mu_kind == "approximate"
    assert guarantee.epsilon == pytest.approx(compose([(poisson(1.0, 0.01), 10_000)], delta=1e-5).epsilon, rel=0.1)


def test_declared_guarantees_mix_with_the_others():
    parts = [
        (Gaussian(noise_multiplier=5), 3),
        (DeclaredDP(epsilon=0.1, delta=1e-7), 2),
        (DeclaredZCDP(rho=0.01), 4),
        (DeclaredRDP(orders=(2, 4, 8), epsilons=(0.1, 0.2, 0.4)), 1),
        (DeclaredGDP(mu=0.1), 2),
    ]
    guarantee = compose(parts, delta=1e-5)
    assert math.isfinite(guarantee.epsilon)
    assert guarantee.mu is None
    assert guarantee.rho is None
    assert any("GDP" in warning for warning in guarantee.remarks)


@pytest.mark.parametrize("rho", [0.013, 0.37, 3.0])
def test_a_declared_curve_alone_is_never_worse_than_its_own_conversion(rho):
    """Canonne et al. 2020, Proposition 12, at its best order on a fine grid."""
    for delta in (1e-9, 3e-5):
        orders = [1 + math.exp(k / 400) for k in range(-2000, 3200)]
        known = min(a * rho + math.log1p(-1 / a) - math.log(a * delta) / (a - 1) for a in orders)
        assert compose([(DeclaredZCDP(rho=rho), 1)], delta=delta).epsilon <= known * (1 + 1e-9)


def test_a_delta_below_the_declared_ones_has_no_finite_epsilon():
    assert compose([(DeclaredDP(epsilon=0.1, delta=1e-6), 2)], delta=1e-6).epsilon == math.inf


def test_what_surely_reveals_everything_is_answered_without_composing(monkeypatch):
    """δ(ε) ≥ 1 - Π(1 - δ_i)^n_i at every ε, in exact arithmetic; above it there is something to compose."""
    parts = [(DeclaredDP(epsilon=0.02 * k, delta=k * 2.0**-130), k) for k in range(1, 24)]
    exact = float(1 - math.prod((1 - Fraction(part.delta)) ** count for part, count in parts))
    sampled = [(PoissonSampled(base=part, sampling_rate=0.25), count) for part, count in parts]
    monkeypatch.setattr("dpcalc.accounting.engines.ENGINES", {"none": never})
    for mechanisms, failure in ((parts, exact), (sampled, exact / 4)):
        below = compose(mechanisms, delta=failure * (1 - 1e-12))
        assert (below.epsilon, below.epsilon_lower) == (math.inf, math.inf)
        with pytest.raises(AssertionError):
            compose(mechanisms, delta=failure * (1 + 1e-12))


def never(*_):
    raise AssertionError


def test_no_sharper_bounds_are_tried_where_pure_epsilon_is_the_answer(monkeypatch):
    """A staircase in one of 40 steps: some data reach nearly its ε at a tiny δ, which basic composition knows."""
    tried = []
    kept = needs.sharpened
    monkeypatch.setattr("dpcalc.accounting.engines.sharpened", lambda *args: tried.append(1) or kept(*args))
    guarantee = compose([(RandomlyAllocated(base=Staircase(epsilon=4.0), steps=40), 1)], delta=1e-13)
    assert guarantee.epsilon == 4
    assert guarantee.epsilon_lower >= 4 * (1 - 1e-3)
    assert len(tried) == 2  # from above and from below, once


def test_mixing_adjacencies_is_an_error():
    with pytest.raises(IncompatibleError, match="add-remove and replace-one"):
        compose(
            [(Gaussian(noise_multiplier=1), 1), (Gaussian(noise_multiplier=1, adjacency="replace-one"), 1)], delta=1e-5
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 1.5}, "delta=1.5 in"),
        ({"delta": -1e-9}, "delta=-1e-09 in"),
        ({"epsilon": -1.0}, "epsilon=-1.0 in"),
        ({"epsilon": math.nan}, "epsilon=nan in"),
        ({}, "exactly one"),
        ({"delta": 1e-5, "tolerance": 0.0}, "tolerance"),
        ({"delta": 1e-5, "accountant": "moments"}, "accountant=moments"),
    ],
)
def test_bad_questions_are_errors(arguments, message):
    with pytest.raises(InputError, match=message):
        compose([(Gaussian(noise_multiplier=1), 1)], **arguments)


def test_no_mechanism_is_an_error():
    with pytest.raises(InputError, match="at least one"):
        compose([], delta=1e-5)


def test_poisson_amplification_is_never_claimed_for_shuffling():
    mechanism = OncePerEpoch(base=Gaussian(noise_multiplier=4.0), shuffled=True)
    guarantee = compose([(mechanism, 3)], delta=1e-5)
    assert guarantee.epsilon == pytest.approx(
        compose([(Gaussian(noise_multiplier=4.0), 3)], delta=1e-5).epsilon, rel=1e-9
    )
    assert any("shuffled" in warning for warning in guarantee.warnings)


def test_replace_one_cyclic_has_twice_the_sensitivity():
    mechanism = OncePerEpoch(base=Gaussian(noise_multiplier=4.0)).as_replace_one()
    assert isinstance(mechanism, OncePerEpoch)
    assert mechanism.gdp() == pytest.approx(2 / 4.0)


def test_upper_epsilon_is_what_compose_reports():
    parts = [(poisson(0.9, 0.005), 2000), (Laplace(scale=20), 50)]
    assert upper_epsilon(parts, 1e-6) == pytest.approx(compose(parts, delta=1e-6).epsilon, rel=1e-9)


def test_discrete_gaussian_is_close_to_the_continuous_one_for_large_sigma():
    discrete = compose([(DiscreteGaussian(sigma=50), 20)], delta=1e-6)
    continuous = compose([(Gaussian(noise_multiplier=50), 20)], delta=1e-6)
    assert discrete.epsilon_lower <= continuous.epsilon * (1 + 1e-6)
    assert discrete.epsilon >= continuous.epsilon * (1 - 1e-6)


@pytest.mark.parametrize("count", [1, 100, 10**6])
def test_no_epsilon_is_needed_where_total_variation_is_below_delta(count):
    guarantee = compose([(poisson(1e5, 1e-7), count)], delta=0.01)
    assert guarantee.epsilon == 0
    assert np.isfinite(guarantee.rdp[0][1])


@pytest.mark.parametrize(("epsilons", "asked"), [((0.4, 0.3), 0.7), ((0.1, 0.2), 0.3 - 1e-12), ((0.5, 0.6, 0.1), 1.2)])
def test_a_digit_missing_from_the_sum_of_epsilons_hardly_raises_delta(epsilons, asked):
    """0.4 + 0.3 is above 0.7 in doubles: δ is then Σδ and at most 1 − e^{ε−Σε} more."""
    parts = [(DeclaredDP(epsilon=epsilon, delta=1e-6), 1) for epsilon in epsilons]
    found = compose(parts, epsilon=asked).delta
    assert 1 - (1 - 1e-6) ** len(parts) <= found <= 1e-6 * len(parts) + 1e-11


def test_an_engine_that_overflows_leaves_the_question_to_the_others():
    """δ is above δ(0), a coin's throw of 2·q·(2Φ(1/2σ) − 1) = 9.8e-5, and the risk still has to be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert compose([(poisson(1.6, 2e-4), 2)], epsilon=0.0).delta <= 9.9e-5


@pytest.mark.parametrize("question", [{"delta": 1e-5}, {"epsilon": 0.3}])
def test_an_accountant_below_what_is_certain_stops_the_program(monkeypatch, question):
    """A fault is planted in one of the accountants: its upper bound is a hundredth of the truth."""
    parts = [(poisson(1.1, 0.02), 40)]
    found = compose(parts, **question)
    wrong = (found.epsilon if "delta" in question else found.delta) / 100
    monkeypatch.setattr(compose_module, "by_basic_composition", lambda *_: Answer("basic", wrong, None, None))
    monkeypatch.setattr(compose_module, "_by_laws", lambda parts, question, _known: by_laws(parts, question))
    with pytest.raises(CertificationError, match="is a fault of the program"):
        compose(parts, **question)


def test_rdp_is_asked_only_where_it_may_know_more_than_the_pairs(monkeypatch) -> None:
    """C_p is not attained, but whatever is read off it is no smaller than what the engines say; a declared ρ may be."""
    asked = []
    monkeypatch.setattr(compose_module, "by_rdp", lambda *given: asked.append(given) or by_rdp(*given))
    base = Gaussian(noise_multiplier=1.5, adjacency="replace-one")
    sampled = [(FixedSizeSampled(base=base, sampling_rate=0.02), 200)]
    found = compose(sampled, delta=1e-6)
    assert found.epsilon_lower < 0.999 * found.epsilon
    assert not asked
    assert by_rdp(sampled, Question(1e-6, None)).upper > found.epsilon
    declared = DeclaredZCDP(rho=0.3, adjacency="replace-one")
    compose([(FixedSizeSampled(base=declared, sampling_rate=0.02), 20)], delta=1e-6)
    assert asked
