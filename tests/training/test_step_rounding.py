"""Steps as they are computed against exact ones, and the last-iterate bound that counts the difference."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import minimize

from dpcalc.last_iterate.course import with_rounding
from dpcalc.last_iterate.evaluate import bounds_of
from dpcalc.last_iterate.losses import LossName
from dpcalc.last_iterate.setting import Setting
from dpcalc.training import step_rounding
from dpcalc.training.data import Dataset
from dpcalc.training.last_iterate import losses_of, never_acting
from dpcalc.training.loop import Trainer
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, calibrated
from dpcalc.training.settings import Settings
from dpcalc.training.step_rounding import exact_move, wobble

EXACT = np.longdouble
RUN = Settings(
    model="linear", algorithm="gd", steps=1, lr=0.2, noise_multiplier=4, clip=50, regularization=0.05, feature_clip=3,
    diameter=12.0, release="last",
)  # fmt: skip


class _Drawn:
    """Noise that was drawn before, added as the system's is: on its grid."""

    def __init__(self, draws):
        self._draws = draws

    def add(self, sums, *, deviation, sensitivity):
        from dpcalc.training.noise import _on_grid, grid

        width, enlarged = grid(sums.size, deviation=deviation, sensitivity=sensitivity)
        self.used = self._draws * enlarged
        return _on_grid(sums.copy(), width) + _on_grid(self.used.copy(), width)


def _slopes(loss, scores, y):
    """φ′ in extended precision."""
    rows = np.arange(len(y))
    if loss == "cross-entropy":
        tops = np.exp(scores - scores.max(axis=1, keepdims=True))
        signal = tops / tops.sum(axis=1, keepdims=True)
        signal[rows, y] -= 1
        return signal
    two = scores.shape[1] == 2
    u = (scores[:, 1:] - scores[:, :1]) / np.sqrt(EXACT(2)) if two else scores
    signs = np.where(np.arange(scores.shape[1]) == y[:, None], EXACT(1), EXACT(-1))
    signs = (2 * y - 1).astype(EXACT)[:, None] if two else signs
    found = {
        "logistic": lambda: -signs / (1 + np.exp(signs * u)),
        "squared": lambda: u - signs,
        "huber": lambda: np.clip(u - signs, -1, 1),
        "smoothed-hinge": lambda: -signs * np.clip(1 - signs * u, 0, 1),
    }[loss]()
    return np.concatenate([-found, found], axis=1) / np.sqrt(EXACT(2)) if two else found


def _exact_step(settings, data, parameters, noise):
    """Π[θ − η(mean gradient + λθ + noise/b)] in extended precision, of clipped features and gradients."""
    x = np.hstack([data.x_train.astype(EXACT), np.ones((len(data), 1), dtype=EXACT)])
    theta = parameters.astype(EXACT).reshape(x.shape[1], -1)
    signal = _slopes(settings.loss, x @ theta, data.y_train)
    gradient = (x.T @ signal / len(data) + EXACT(settings.regularization) * theta).ravel()
    moved = theta.ravel() - EXACT(settings.rate) * (gradient + noise.astype(EXACT) / len(data))
    radius = EXACT(settings.diameter) / 2 * (1 - EXACT(2) ** -20)
    return moved * min(EXACT(1), radius / np.sqrt(moved @ moved))


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("loss", get_args(LossName))
def test_a_computed_step_is_as_close_to_the_exact_one_as_is_said(loss, classes):
    furthest = 0.0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        settings = replace(RUN, loss=loss, clip=200.0 if loss == "squared" else 50.0, seed=seed)
        x = generator.standard_normal((300, 40)) * generator.lognormal(0, 2, (300, 1))
        data = Dataset(
            name="made", x_train=x.astype(np.float32), y_train=generator.integers(0, classes, 300),
            x_test=x[:0].astype(np.float32), y_test=np.zeros(0, dtype=np.int64), classes=classes,
        )  # fmt: skip
        plan = Plan(settings=settings, records=300, delta=1e-5, features=40)
        trainer = Trainer(plan, data)
        scale = generator.choice([0.1, 1.0, 6.0])
        start = generator.standard_normal(trainer.model.size)
        trainer.parameters = (start * scale / np.linalg.norm(start) * (1 - 1e-6)).astype(np.float32)
        noise = trainer.noise = _Drawn(generator.standard_normal(trainer.model.size))
        before = trainer.parameters.copy()
        trainer.advance()
        exact = _exact_step(settings, trainer.data, before, noise.used)
        allowed = wobble(plan, losses_of(settings, classes)) / 2
        furthest = max(furthest, float(np.sqrt(np.sum((trainer.parameters - exact) ** 2))) / allowed)
    assert 1e-4 < furthest <= 1  # as good as nothing would also pass if nothing were computed


def test_what_comes_out_is_a_function_of_the_exact_sum():
    """Two iterates that a shift of the noise brings together end in the same place, to the last bit."""
    plan = Plan(settings=replace(RUN, regularization=0.0371), records=300, delta=1e-5)
    generator = np.random.default_rng(2)
    move = exact_move(plan, 200)
    one, other = (generator.standard_normal((2, 200)) / 30).astype(np.float32)
    noisy = np.rint(generator.standard_normal(200) * 1e9) * move.width
    kept = [np.rint(each.astype(float) * (1 - move.decay) / move.unit) for each in (one, other)]
    apart = kept[1] - kept[0]
    assert np.array_equal(move(one, noisy), move(other, noisy + apart * move.width))
    plain = one - 0.2 * (noisy / 300 + 0.0371 * one)
    assert move(one, noisy) == pytest.approx(plain, rel=1e-6, abs=1e-6)


def _setting(**changes):
    common = {
        "algorithm": "cgd", "learning_rate": 0.3, "sigma": 0.8, "sensitivity": 2.0, "dataset_size": 40,
        "batch_size": 10, "steps": 12, "strong_convexity": 0.2, "smoothness": 3.0, "diameter": None,
    }  # fmt: skip
    return Setting(**(common | changes))


@pytest.mark.parametrize("diameter", [None, 0.6, 5.0])
@pytest.mark.parametrize("algorithm", ["gd", "cgd"])
def test_without_rounding_it_is_the_optimum_of_before(algorithm, diameter):
    size = {"batch_size": None} if algorithm == "gd" else {}
    setting = _setting(algorithm=algorithm, diameter=diameter, **size)
    best = min(bound.mu for bound in bounds_of(setting, 1e-5) if bound.rho is None and bound.name != "composition")
    assert with_rounding(setting, 0.0, 1e-5).mu == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("diameter", [None, 0.6])
@pytest.mark.parametrize("share", [0.01, 0.4])
def test_it_is_the_optimum_of_the_recursion(diameter, share):
    """z_k = c z_{k−1} + s_k + w − a_k with a_k, z_k ≥ 0 and z_t = 0, by another solver, for the worst record."""
    setting = _setting(steps=8, dataset_size=20, diameter=diameter)
    extra, c, t = share * setting.injection, setting.contraction.factor, 8

    def least(first, tau):
        injected = [extra + setting.injection * ((k % 2) == first) for k in range(tau, t)]
        start = 0.0 if tau == 0 else diameter

        def levels(a):
            z, found = start, []
            for rise, shift in zip(injected, a, strict=True):
                z = c * z + rise - shift
                found.append(z)
            return np.array(found)

        guess = np.array([0.5 * rise for rise in injected])
        limits = [{"type": "eq", "fun": lambda a: levels(a)[-1:]}]
        limits += [{"type": "ineq", "fun": lambda a: levels(a)[:-1]}] if t - tau > 1 else []
        found = minimize(
            lambda a: float(a @ a), guess, jac=lambda a: 2 * a, bounds=[(0, None)] * (t - tau), constraints=limits,
            method="SLSQP", options={"ftol": 1e-12, "maxiter": 300},
        )  # fmt: skip
        assert levels(found.x).min() > -1e-9
        assert abs(levels(found.x)[-1]) < 1e-9
        return found.fun**0.5 / setting.noise

    starts = range(t) if diameter is not None else [0]
    expected = max(min(least(first, tau) for tau in starts) for first in range(2))
    assert with_rounding(setting, extra, 1e-5).mu == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 3, 50])
def test_runs_that_drift_apart_as_far_as_rounding_lets_them_stay_within_it(steps):
    """A quadratic whose two runs are moved apart by 2(e + r) in every step and by s in every epoch: Gaussians."""
    setting, shaken = _setting(steps=steps), 0.07
    left = setting.contraction.factor ** np.arange(steps - 1, -1, -1.0)
    for first in range(min(4, steps)):
        apart = left @ (shaken + setting.injection * (np.arange(steps) % 4 == first))
        assert apart / np.sqrt(left @ left) / setting.noise <= with_rounding(setting, shaken, 1e-5).mu


CERTIFIED = Settings(
    model="logistic", algorithm="cgd", batch_size=500, epochs=30, lr=0.3, clip=3.17, noise_multiplier=8,
    regularization=0.05, feature_clip=2, diameter=8, adjacency="replace-one", release="last",
)  # fmt: skip


def _account(settings, classes=10, features=256):
    return account(Plan(settings=settings, records=10_000, delta=1e-5, features=features), classes=classes)


def test_a_multi_class_run_has_a_certified_bound_if_only_its_last_iterate_is_released():
    found = _account(CERTIFIED)
    composition, *others = found.bounds
    exact = min(row["epsilon"] for row in others if row["guarantee"] == "numerical")
    assert (found.guarantee.status, found.hides) == ("certified", True)
    assert exact < found.guarantee.epsilon < 0.3 * composition["epsilon"]
    assert any("only the parameters of the last step" in line for line in found.guarantee.assumptions)
    shown = _account(replace(CERTIFIED, release="iterates"))
    assert (shown.guarantee.epsilon, shown.hides) == (composition["epsilon"], False)
    assert shown.bounds == found.bounds[:-1]  # other steps are run there, whose last bits are not accounted for


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_random_batches_have_one_too(adjacency):
    """Under add-remove with up to as many records as there are slots, and the chance of more within δ."""
    found = _account(replace(CERTIFIED, algorithm="sgd", adjacency=adjacency, lr=0.1, epochs=100, regularization=0.3))
    numerical, certified = (
        min(row["epsilon"] for row in found.bounds[1:] if row["guarantee"] == kind)
        for kind in ("numerical", "certified")
    )
    assert numerical < certified == found.guarantee.epsilon < found.bounds[0]["epsilon"]
    assert (found.hides, found.guarantee.adjacency) == (True, adjacency)


@pytest.mark.parametrize(
    ("changes", "classes", "features"),
    [
        ({"backend": "torch"}, 10, 256),
        ({"release": "iterates"}, 10, 256),
        ({"noise_multiplier": 1e-9}, 10, 256),  # whole numbers are too large
        ({"diameter": None}, 10, 256),
        ({"clip": 3.0}, 10, 256),  # acts
        ({"sampling": "random-allocation", "algorithm": "sgd", "adjacency": "add-remove"}, 10, 256),
        ({"validate_every": 5}, 10, 256),
        ({"momentum": 0.5}, 10, 256),
        ({}, 0, 256),  # labels that go together
        ({}, 10, None),
    ],
)
def test_where_rounding_is_not_counted_composition_decides(changes, classes, features):
    found = _account(replace(CERTIFIED, **changes), classes, features)
    assert not found.hides
    assert [row["name"] for row in found.bounds if row["guarantee"] == "certified"] == ["composition"]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("algorithm", ["gd", "cgd", "sgd"])
def test_a_clip_that_is_said_never_to_act_leaves_the_largest_gradient_as_it_is(algorithm, tracked):
    """Sums over everybody of whom a few are drawn have a margin of their own, and are clipped lower."""
    plan = Plan(settings=replace(RUN, algorithm=algorithm, batch_size=64), records=400, delta=1e-5, tracked=tracked)
    largest = losses_of(plan.settings, 3).gradient
    plan = replace(plan, settings=replace(plan.settings, clip=largest * never_acting(plan)))
    x, y = np.zeros((400, 4), dtype=np.float32), np.arange(400) % 3
    trainer = Trainer(plan, Dataset(name="made", x_train=x, y_train=y, x_test=x[:0], y_test=y[:0], classes=3))
    assert trainer.clipping.weights(np.array([largest])) == 1


def test_sums_that_are_not_rounded_to_whole_numbers_are_not_certified():
    """The noise's grid is kept up to 2⁵¹ of its widths; twice as far single ones are skipped."""
    plan = Plan(settings=RUN, records=1000, delta=1e-5)
    move = exact_move(plan, 123)
    widths = RUN.diameter / move.unit + 1000 * RUN.clip / move.width
    for halvings in range(40):  # of the noise, and so of its grid; 40 deviations are next to nothing beside the sum
        found = exact_move(plan.with_noise(RUN.noise_multiplier / 2**halvings), 123)
        assert (found is not None) == (widths * 2**halvings < 2.0**51)


def test_several_runs_pay_several_times():
    plan = Plan(settings=CERTIFIED, records=10_000, delta=1e-5, features=256, runs=4)
    one, four = account(replace(plan, runs=1), classes=10).guarantee, account(plan, classes=10).guarantee
    assert four.mu == pytest.approx(2 * one.mu, rel=1e-6)
    assert (four.epsilon_lower, four.status, four.mu_kind) == (None, "certified", "upper")


def test_noise_is_found_for_the_bound_that_decides():
    plan = Plan(settings=CERTIFIED, records=10_000, delta=1e-5, features=256)
    noise = calibrated([plan], epsilon=1.0, classes=10)
    assert 0.99 < account(plan.with_noise(noise), classes=10).guarantee.epsilon <= 1.0
    assert noise < 0.5 * calibrated([replace(plan, features=None)], epsilon=1.0, classes=10)


def test_the_command_measures_nothing_on_the_way_and_is_read_back(dpcalc, tmp_path):
    told = tmp_path / "run.json"
    options = ("--model", "logistic", "--algorithm", "cgd", "--batch-size", 1000, "--epochs", 6, "--lr", 0.3)
    bounded = ("--feature-clip", 2, "--clip", 3.2, "--regularization", 0.05, "--diameter", 8, "--noise-multiplier", 6)
    found = dpcalc(
        "train", *options, *bounded, "--adjacency", "replace-one", "--release", "last", "-f", "json", "-o", told
    )
    assert found.code == 0, found.err
    document = dpcalc("compose", told, "--delta", "1e-5", "-f", "json")
    assert document.code == 0, document.err
    text = told.read_text()
    assert '"measured": []' in text
    told.write_text(text.replace('"features": 256,', '"features": 2,'))
    assert dpcalc("compose", told, "--delta", "1e-5").code == 2


def test_the_rounding_of_tiles_in_double_is_counted(monkeypatch):
    """Scaled up: tiles are added in double, of which each addition may lose a unit."""
    plan = Plan(settings=RUN, records=300, delta=1e-5, features=40)
    losses = losses_of(RUN, 3)
    before = wobble(plan, losses)
    monkeypatch.setattr(step_rounding, "DOUBLE", 1e-6)
    most = max(plan.batches.batch_size, plan.slots)
    assert wobble(plan, losses) - before >= RUN.clip * 1e-6 * most / plan.batches.batch_size
