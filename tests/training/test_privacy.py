"""What a run costs: the papers' numbers, the notions they are stated in, and the noise for a budget."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.errors import InputError
from dpcalc.report import rounded_up
from dpcalc.training import session
from dpcalc.training.last_iterate import last_iterate_bounds
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, account_search, calibrated, epsilon_so_far
from dpcalc.training.settings import Settings

MNIST = 60_000
GD = Settings(model="cnn-small", algorithm="gd", clip=10.0)
BOK = Settings(
    model="logistic",
    algorithm="cgd",
    adjacency="replace-one",
    batch_size=1500,
    lr=0.05,
    clip=5.0,
    noise_multiplier=3.0,
    regularization=0.002,
    feature_clip=8.0,
)


def _plan(settings, **options):
    return Plan(settings=settings, records=MNIST, delta=1e-5, **options)


def _account(settings, *, classes=10, steps=None, **options):
    return account(_plan(settings, **options), classes=classes, steps=steps)


def _epsilon(settings, **options):
    return _account(settings, **options).guarantee.epsilon


def test_full_batch_gdp_of_koskela_et_al():
    found = _account(replace(GD, steps=420, noise_multiplier=100.0)).guarantee
    assert found.epsilon == pytest.approx(0.7451, abs=5e-5)
    assert found.mu == pytest.approx(420**0.5 / 100)
    assert (found.status, found.adjacency) == ("certified", "add-remove")


def test_the_rdp_filter_of_koskela_et_al():
    settings = replace(GD, steps=420, noise_multiplier=100.0, filter="rdp")
    assert _epsilon(settings) == pytest.approx(0.8156, abs=1e-4)


def test_a_gdp_filter_costs_what_its_plan_costs_however_long_it_goes_on():
    plain = replace(GD, steps=112, noise_multiplier=170.0)
    filtered = replace(plain, filter="gdp", extra_steps=1000)
    assert _epsilon(filtered) == pytest.approx(_epsilon(plain), rel=1e-9)


def _last_iterate(found):
    """The best of the bounds that are listed beside the composition."""
    return min(found.bounds[1:], key=lambda bound: bound["epsilon"])


@pytest.mark.parametrize(("epochs", "mu", "epsilon"), [(50, 0.992, 4.339), (100, 1.235, 5.601), (200, 1.593, 7.579)])
def test_last_iterate_bounds_of_bok_et_al_are_listed(epochs, mu, epsilon):
    found = _last_iterate(_account(replace(BOK, epochs=epochs)))
    assert found["epsilon"] == pytest.approx(epsilon, abs=2e-3)
    assert found["mu"] == pytest.approx(mu, abs=1e-3)
    assert found["adjacency"] == "replace-one"


@pytest.mark.parametrize(("epochs", "epsilon"), [(50, 30.51), (100, 49.88), (200, 83.83)])
def test_composition_of_bok_et_al_is_listed_beside(epochs, epsilon):
    bounds = _account(replace(BOK, epochs=epochs)).bounds
    listed = {bound["name"]: bound for bound in bounds}
    assert listed["composition"]["epsilon"] == pytest.approx(epsilon, abs=6e-3)
    assert listed["composition"]["guarantee"] == "certified"


def test_a_bound_that_is_not_proved_is_listed_and_decides_nothing():
    """A clipped multi-class gradient is not the gradient of a convex loss, which the theorem needs."""
    found = _account(replace(BOK, epochs=40))
    assert _last_iterate(found)["guarantee"] == "approximate"
    assert _last_iterate(found)["epsilon"] < 0.2 * found.guarantee.epsilon
    assert found.guarantee.status == "certified"
    assert found.guarantee.mu == pytest.approx(2 * 40**0.5 / 3)
    assert any("not proved" in line for line in found.guarantee.warnings)


def test_noise_is_calibrated_to_what_is_certified():
    plan = _plan(replace(BOK, epochs=30))
    found = calibrated([plan], epsilon=3.0)
    # One Gaussian an epoch under replace-one: 2√30/z-GDP, which is (3, 1e-5)-DP for z from here on.
    mu = 2 * 30**0.5 / found
    assert conversions.gdp_epsilon(mu, 1e-5) <= 3.0
    assert conversions.gdp_epsilon(mu * 1.0025, 1e-5) > 3.0


def test_bounds_that_decide_nothing_are_not_worked_out_again_and_again_for_noise(monkeypatch):
    def unasked(*_):
        raise AssertionError("a bound that is not certified")

    monkeypatch.setattr("dpcalc.training.last_iterate._evaluated", unasked)
    assert calibrated([_plan(replace(BOK, epochs=3))], epsilon=3.0) > 0


@pytest.mark.parametrize("changes", [{"clip": 11.5}, {"classes": 2}])
def test_where_the_theorem_applies_only_the_rounding_of_its_steps_is_not_proved(changes):
    classes = changes.get("classes", 10)
    found = _account(replace(BOK, epochs=50, clip=changes.get("clip", 5.0)), classes=classes)
    assert _last_iterate(found)["guarantee"] == "numerical"
    assert _last_iterate(found)["epsilon"] < found.bounds[0]["epsilon"] == found.guarantee.epsilon
    assert found.guarantee.status == "certified"
    assert any("single precision" in line for line in found.guarantee.warnings)


def test_a_clip_within_the_margin_of_the_largest_gradient_may_act():
    largest = (2 * (8.0**2 + 1)) ** 0.5
    assert _last_iterate(_account(replace(BOK, clip=1.001 * largest)))["guarantee"] == "numerical"
    assert _last_iterate(_account(replace(BOK, clip=1.0001 * largest)))["guarantee"] == "approximate"


def test_under_add_remove_the_composition_wins_and_the_bound_is_only_listed():
    found = _account(replace(BOK, epochs=50, adjacency="add-remove"))
    assert found.guarantee.adjacency == "add-remove"
    assert found.guarantee.mu == pytest.approx(50**0.5 / 3)
    replaced, removed = ([b for b in found.bounds[1:] if b["adjacency"] == a] for a in ("replace-one", "add-remove"))
    # A removed record moves a sum half as far as a replaced one: half the μ, and not certified either.
    assert [b["mu"] / 2 for b in replaced] == pytest.approx([b["mu"] for b in removed])
    assert {b["guarantee"] for b in removed} == {"approximate"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"feature_clip": None}, "a clip of the features"),
        ({"lr": 0.07}, "2/M"),
        ({"momentum": 0.5}, "plain descent"),
        ({"batch_size": 1700}, "divide"),
        ({"clipping": "online"}, "fixed clip"),
    ],
)
def test_a_missing_condition_is_named_and_composition_holds(changes, reason):
    found = _account(replace(BOK, epochs=50, **changes))
    assert any(reason in line for line in found.guarantee.warnings)
    assert [bound["name"] for bound in found.bounds] == ["composition"]


def test_sgd_composition_of_bok_et_al():
    found = _account(replace(BOK, algorithm="sgd", epochs=50))
    listed = {bound["name"]: bound["epsilon"] for bound in found.bounds}
    assert listed["composition"] == pytest.approx(4.438, abs=6e-3)


def test_replace_one_doubles_the_sensitivity():
    settings = replace(GD, steps=100, noise_multiplier=50.0)
    one, other = (replace(settings, adjacency=each) for each in ("add-remove", "replace-one"))
    found = [_account(each).guarantee.mu for each in (one, other)]
    assert found[1] == pytest.approx(2 * found[0])


def test_an_unfinished_epoch_counts_as_a_whole_one():
    found = _account(replace(BOK, adjacency="add-remove", epochs=10.0, steps=41)).guarantee
    assert found.mu == pytest.approx(2**0.5 / 3)


def test_several_runs_share_one_budget():
    settings = replace(GD, steps=100, noise_multiplier=50.0)
    assert _account(settings, runs=9).guarantee.mu == pytest.approx(3 * 100**0.5 / 50)
    filtered = replace(settings, filter="gdp")
    assert _account(filtered, runs=9).guarantee.mu == pytest.approx(3 * 100**0.5 / 50)


def test_a_search_pays_for_every_run():
    runs = [replace(GD, steps=100, noise_multiplier=50.0, lr=lr) for lr in (0.1, 0.2, 0.4, 0.8)]
    assert account_search([_plan(each, runs=4) for each in runs]).guarantee.mu == pytest.approx(2 * 100**0.5 / 50)


@pytest.mark.parametrize(
    "settings",
    [
        replace(GD, steps=112),
        replace(GD, steps=112, filter="gdp"),
        Settings(algorithm="sgd", batch_size=600, epochs=2),
        Settings(algorithm="sgd", batch_size=600, epochs=2, filter="rdp"),
        replace(BOK, epochs=20),
    ],
)
@pytest.mark.parametrize("runs", [1, 9])
def test_calibrated_noise_keeps_the_budget_and_a_thousandth_less_does_not(settings, runs):
    found = calibrated([_plan(settings, runs=runs)], epsilon=2.0)
    assert _epsilon(replace(settings, noise_multiplier=found), runs=runs) <= 2.0
    assert _epsilon(replace(settings, noise_multiplier=found / 1.0025), runs=runs) > 2.0


def test_a_filter_under_sampling_costs_about_what_plain_sampling_does():
    plain = Settings(algorithm="sgd", batch_size=512, epochs=10, noise_multiplier=1.0)
    assert _epsilon(plain) < _epsilon(replace(plain, filter="rdp")) < 1.25 * _epsilon(plain)


def test_a_calibrated_search_keeps_the_budget():
    grid = [Settings(algorithm="sgd", batch_size=600, epochs=1, lr=lr) for lr in (0.1, 1.0, 3.0)]
    found = calibrated([_plan(each, runs=3) for each in grid], epsilon=1.0)
    total = account_search([_plan(replace(each, noise_multiplier=found), runs=3) for each in grid])
    assert 0.99 <= total.guarantee.epsilon <= 1.0


def test_a_filtered_search_needs_one_budget():
    grid = [replace(GD, steps=steps, filter="gdp") for steps in (10, 20)]
    with pytest.raises(InputError, match="same budget"):
        account_search([_plan(each, runs=2) for each in grid])


@pytest.mark.parametrize("sizes", [(6000, 60), (60, 6000)])
def test_a_filtered_search_pays_for_the_looks_of_every_run(sizes):
    """Smaller batches are more steps, and more counts of who ran out: the first run's alone are not enough."""
    each = Settings(
        model="logistic", algorithm="cgd", epochs=3, noise_multiplier=50.0, filter="gdp",
        stop_below=0.2, stop_by="gaussian", look_noise=1e-4,
    )  # fmt: skip
    grid = [_plan(replace(each, batch_size=size), runs=2) for size in sizes]
    # Three epochs are three Gaussians a run; a third of 3·10 and 3·1000 steps more, and a count after each of them.
    looks = (10 + 1000) / (2 * 1e-4 * MNIST) ** 2
    assert account_search(grid).guarantee.mu == pytest.approx((2 * 3 / 50**2 + looks) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("settings", [replace(GD, steps=100), replace(BOK, adjacency="add-remove", steps=100 * 40)])
def test_other_runs_of_a_budget_may_be_over_when_one_of_them_begins(settings):
    """100 Gaussians a run (a cyclic epoch is one of them): in the third of three runs 200 are spent already."""
    settings = replace(settings, noise_multiplier=50.0, regularization=0.0)
    one = settings.steps // 100
    for taken in (1, 40, 100):
        mu = (200 + taken) ** 0.5 / 50
        assert _account(settings, runs=3, steps=taken * one).guarantee.mu == pytest.approx(mu, rel=1e-9)
        expected = float(conversions.gdp_epsilon(mu, 1e-5))
        assert epsilon_so_far(_plan(settings, runs=3), np.inf)(taken * one) >= expected


def test_the_running_line_of_a_search_shows_what_all_of_it_costs():
    guarantee, shown = _account(replace(GD, steps=100, noise_multiplier=50.0), runs=9).guarantee, []
    observe = session._observer(None, guarantee, lambda notes: shown.extend(notes()))
    history = SimpleNamespace(active=[7], losses=[0.5])
    observe(SimpleNamespace(history=history, step=1, total_steps=100))
    assert shown[1] == f"ε ≤ {rounded_up(guarantee.epsilon)}"


def test_epsilon_so_far_grows_to_an_upper_bound_of_the_whole():
    settings = Settings(algorithm="sgd", batch_size=600, epochs=2, noise_multiplier=1.5)
    so_far = epsilon_so_far(_plan(settings), np.inf)
    values = [so_far(step) for step in (1, 10, 100, 200)]
    assert values == sorted(values)
    assert values[-1] >= _epsilon(settings)


def test_a_clipped_step_with_ten_classes_can_expand():
    """Why: with the settings of Bok et al., two runs on equal data can move apart, so no c < 1 holds for all data."""
    generator = np.random.default_rng(0)
    largest, squared = 0.0, 8.0**2 + 1
    for _ in range(4000):
        scores = 4 * generator.standard_normal(10)
        odds = np.exp(scores - scores.max())
        chances = odds / odds.sum()
        residual = chances - np.eye(10)[generator.integers(10)]
        length = np.linalg.norm(residual)
        if length * squared**0.5 <= 5:
            continue
        hessian = np.diag(chances) - np.outer(chances, chances)
        across = np.eye(10) - np.outer(residual, residual) / length**2
        derivative = 5 / (length * squared**0.5) * across @ hessian * squared
        largest = max(largest, np.linalg.norm(np.eye(10) - 0.05 * (derivative + 0.002 * np.eye(10)), 2))
    assert largest > 1.01


def test_the_last_iterates_of_several_runs_are_composed():
    """Cyclic batches are μ-GDP each: four runs are 2μ-GDP, whatever the steps of one."""
    found = [last_iterate_bounds(_plan(replace(BOK, epochs=20), runs=k), classes=10, steps=None) for k in (1, 4)]
    one, four = ([each.guarantee.mu for each in bounds.guarantees] for bounds in found)
    assert one
    assert four == pytest.approx([2 * mu for mu in one], rel=1e-6)
