"""No record moves a released sum by more than its clip, rounding included, in any mode, however the data is made."""

from dataclasses import replace

import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.errors import CertificationError, InputError
from dpcalc.training.clipping import FixedClip, OnlineClip, moved
from dpcalc.training.data import Dataset
from dpcalc.training.loop import Trainer
from dpcalc.training.models import MODELS, build
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.settings import Settings
from dpcalc.training.sums import SlotSums

# Finite, and far beyond what a record may hold and still count.
HUGE = np.float32(3e38)


class _Silent:
    """Noise that adds none, keeps what it was given, and takes its other random choices from a seed."""

    description = "none"

    def __init__(self, seed=0):
        self._generator = np.random.default_rng(seed)
        self.released = []

    def add(self, sums, *, deviation, sensitivity):
        self.released.append((sums.copy(), deviation, sensitivity))
        return sums

    def uniforms(self, count):
        return self._generator.random(count)

    def state(self):
        return None

    def restore(self, state):
        pass


def _dataset(x, y, classes=None):
    x, y = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.int64)
    classes = int(y.max()) + 1 if classes is None else classes
    return Dataset(name="attack", x_train=x, y_train=y, x_test=x[:0], y_test=y[:0], classes=classes)


def _without(data, gone):
    """The same file with one line blank: a record that counts as empty."""
    x = data.x_train.copy()
    x[gone] = HUGE
    return replace(data, x_train=x)


def _trainer_of(settings, data, parameters=None, **options):
    """A trainer whose noise is silent, at given parameters."""
    trainer = Trainer(Plan(settings=settings, records=len(data), delta=1e-5, **options), data)
    trainer.noise = _Silent()
    if parameters is not None:
        trainer.parameters = np.asarray(parameters, dtype=np.float32)
    return trainer


def _movements(settings, data, gone, parameters=None, steps=1, **options):
    """How far each release moves, in sensitivities, if one record becomes empty; each step starts from equal states."""
    one, other = (_trainer_of(settings, each, parameters, **options) for each in (data, _without(data, gone)))
    for _ in range(steps):
        other.parameters, other.step = one.parameters.copy(), one.step
        other.clipping.restore(one.clipping.state())
        one.advance()
        other.advance()
    pairs = zip(one.noise.released, other.noise.released, strict=True)
    return [float(np.linalg.norm(a - b)) / limit for (a, _, limit), (b, _, _) in pairs]


def _drifting(weights, count, power):
    """Logistic records whose single-precision sum runs off once it reaches 2^power, and the clip that is just above.

    2^(power+1) signals of 1/2 fill the mantissa; then come pairs of opposite signals just above and just below half a
    unit in the last place of sums beyond 2^power, which are whole units below it.
    """
    kernels = np.asarray(weights, dtype=float).reshape(-1, 2)
    slope, offset = kernels[:-1, 1] - kernels[:-1, 0], kernels[-1, 1] - kernels[-1, 0]

    def at(chance):
        return (np.log(chance / (1 - chance)) - offset) * slope / (slope @ slope)

    fill, half = 2 ** (power + 1), 2.0 ** (power - 24)
    x, y = np.empty((count, len(slope))), np.zeros(count, dtype=int)
    x[:fill], x[fill::2], x[fill + 1 :: 2] = at(0.5), at(1.01 * half), at(1 - 0.99 * half)
    y[fill + 1 :: 2] = 1
    return _dataset(x, y, 2), 0.50005 * float(np.sqrt(2 * (1 + at(0.5) @ at(0.5))))


def _kinked(parameters, features, hidden, count, generator):
    """Equal records whose first hidden unit is 0 up to the last bits, and whose other units are off."""
    w = np.asarray(parameters[: features * hidden], dtype=np.float32).reshape(features, hidden).astype(float)
    b = np.asarray(parameters[features * hidden : features * hidden + hidden], dtype=float)
    inverse, target = np.linalg.pinv(w.T), np.append(-b[0], np.full(hidden - 1, -45.0))
    x = (inverse @ target + 30 * generator.standard_normal(features)).astype(np.float32)
    x -= (inverse @ (w.T @ x - target)).astype(np.float32)
    for j in generator.integers(0, features, 3):
        x[j] -= np.float32((x.astype(float) @ w[:, 0] + b[0]) / w[j, 0])
    return _dataset(np.repeat(x[None], count, axis=0), np.ones(count), 2)


LOGISTIC = Settings(model="logistic", algorithm="gd", steps=4, noise_multiplier=3.0, seed=1)
MODES = {
    "gd": {},
    "gd, quantile": {"clipping": "quantile"},
    "gd, online": {"clipping": "online"},
    "gd, gdp filter": {"filter": "gdp", "extra_steps": 2},
    "gd, clip mode": {"filter": "gdp", "filter_mode": "clip", "extra_steps": 2},
    "gd, rdp filter, online": {"filter": "rdp", "clipping": "online"},
    "cgd": {"algorithm": "cgd", "batch_size": 70},
    "cgd, rdp filter": {"algorithm": "cgd", "batch_size": 70, "filter": "rdp"},
    "sgd": {"algorithm": "sgd", "batch_size": 70},
    "sgd, online": {"algorithm": "sgd", "batch_size": 70, "clipping": "online"},
    "sgd, rdp filter": {"algorithm": "sgd", "batch_size": 70, "filter": "rdp"},
    "sgd, fixed size": {"algorithm": "sgd", "batch_size": 70, "adjacency": "replace-one"},
}


def _in_all_modes(**fixed):
    return [pytest.param(replace(LOGISTIC, **(fixed | MODES[name])), id=name) for name in MODES]


@pytest.mark.parametrize(("count", "power"), [(61_000, 14), (40_000, 13), (64, 4)])
def test_data_that_makes_a_single_precision_sum_drift(count, power):
    start = _trainer_of(LOGISTIC, _dataset(np.eye(4), [0, 1, 0, 1])).parameters
    data, clip = _drifting(start, count, power)
    for changes in ({}, {"clipping": "online"}, {"clipping": "quantile"}):
        moved = _movements(replace(LOGISTIC, clip=clip, **changes), data, 0, start)
        assert max(moved) <= 1


def test_many_random_records_without_any_attack():
    generator = np.random.default_rng(2)
    x = generator.standard_normal((250_000, 1))
    data = _dataset(x, x[:, 0] + 0.5 * generator.standard_normal(len(x)) > 0)
    for gone in (0, 1234, 249_999):
        assert max(_movements(replace(LOGISTIC, clip=0.3), data, gone)) <= 1


@pytest.mark.parametrize("count", [10, 209, 512])
def test_records_at_the_kink_of_a_rectifier(count, backend):
    settings = replace(LOGISTIC, model="mlp", hidden=(8,), backend=backend)
    generator = np.random.default_rng(count)
    start = _trainer_of(settings, _dataset(np.zeros((4, 600)), [0, 1, 0, 1])).parameters
    for _ in range(3):
        data = _kinked(start, 600, 8, count, generator)
        assert max(_movements(settings, data, count - 1, start)) <= 1


@pytest.mark.parametrize("settings", _in_all_modes(clip=0.7))
def test_random_records_in_every_mode(settings, backend):
    generator = np.random.default_rng(5)
    data = _dataset(3 * generator.standard_normal((300, 6)), generator.integers(0, 3, 300))
    # Replacing a record by an empty one moves the sum by one clip, and by another one by two.
    assert max(_movements(replace(settings, backend=backend), data, 11, steps=6)) <= 1


@pytest.mark.parametrize("size", [3e25, 3e38, 1e17, 1e19])
@pytest.mark.parametrize("clip", [0.01, 1e-4, 1e-6])
@pytest.mark.parametrize(("features", "classes"), [(784, 10), (4, 2)])
def test_enormous_features_and_tiny_clips(size, clip, features, classes):
    generator = np.random.default_rng(7)
    x = generator.random((130, features))
    x[5] = size * generator.choice([-1, 1], features)
    x[6] = size / 1e3 * generator.standard_normal(features).clip(-1, 1)
    data = _dataset(x, generator.integers(0, classes, 130), classes)
    for gone in (5, 6, 7):
        for changes in ({}, {"clipping": "online"}, {"filter": "gdp", "filter_mode": "clip"}):
            assert max(_movements(replace(LOGISTIC, clip=clip, **changes), data, gone)) <= 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clipping", ["fixed", "online"])
def test_every_model_and_every_layer(model, clipping, backend):
    generator = np.random.default_rng(8)
    x = generator.random((20, 256))
    x[3], x[4] = 1e6 * generator.standard_normal(256), 1e15
    data = _dataset(x, generator.integers(0, 3, 20), 3)
    settings = replace(LOGISTIC, model=model, clip=1e-3, clipping=clipping, hidden=(9, 5), backend=backend)
    for gone in (3, 4, 5):
        assert max(_movements(settings, data, gone, steps=2)) <= 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [3e25, HUGE])
def test_a_record_that_overflows_is_an_empty_slot_and_the_run_goes_on(model, size, backend):
    generator = np.random.default_rng(9)
    x = generator.random((20, 256))
    x[3] = size
    data = _dataset(x, generator.integers(0, 3, 20), 3)
    trainer = _trainer_of(replace(LOGISTIC, model=model, filter="gdp", backend=backend), data)
    sums = SlotSums(trainer.model, 20)
    seats = np.where(np.arange(20) == 3, -1, np.arange(20))
    ones = lambda norms, _, __: np.ones((1, len(norms)))  # noqa: E731
    records = data.x_train, data.y_train
    found = sums.run(trainer.parameters, *records, slice(0, 20), ones)
    empty = sums.run(trainer.parameters, *records, seats, ones)
    assert np.array_equal(found.sums, empty.sums)
    assert found.norms[3] == 0
    for _ in range(3):
        trainer.advance()
    assert trainer.filter.totals[0, 3] == 0
    # An autoencoder's last layer saturates before it overflows, which is no gradient either.
    assert trainer.history.active == [20 if model == "autoencoder" else 19] * 3


@pytest.mark.parametrize("settings", _in_all_modes(clip=0.4, extra_steps=None))
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_what_is_released_is_what_was_charged(settings, model, monkeypatch):
    """Each record's weighted norm is within its cost, and the released sum is Σ of the weighted gradients."""
    generator = np.random.default_rng(10)
    data = _dataset(generator.standard_normal((300, 6)) * generator.lognormal(0, 2, (300, 1)), np.arange(300) % 3)
    settings = replace(settings, model=model, hidden=(5,), lr=0.1, extra_steps=8 if settings.filter != "none" else None)
    trainer = _trainer_of(settings, data)
    seen = _watched(trainer, monkeypatch)
    for _ in range(trainer.total_steps):
        before = None if trainer.filter is None else trainer.filter.totals.copy()
        parameters, clip, asked = trainer.parameters.copy(), trainer.clipping.clip, len(trainer.noise.released)
        trainer.advance()
        (seats, norms, weights) = seen.pop()
        records = np.arange(300)[seats] if isinstance(seats, slice) else seats
        gradients = np.zeros((len(norms), trainer.model.size))
        for slot, record in enumerate(records):
            if record >= 0 and weights[:, slot].any():
                one = slice(record, record + 1)
                gradients[slot] = trainer.model.plain_sum(parameters, data.x_train[one], data.y_train[one])
        released = [sums for sums, _, _ in trainer.noise.released[asked:]][: len(weights)]
        assert np.array(released) == pytest.approx(weights @ gradients, rel=1e-4, abs=1e-5 * clip)
        moved = weights[0] * norms
        assert (moved <= clip / (1 + trainer.clipping.margin)).all()
        if before is not None:
            _is_within_costs(trainer, moved[: len(records)], records, trainer.filter.totals - before, clip)


def _is_within_costs(trainer, moved, records, costs, clip):
    """A record that moves the sum by v, and by the margin, is charged at least what v costs."""
    due = np.where(moved > 0, moved + trainer.clipping.margin * clip / (1 + trainer.clipping.margin), 0.0)
    if trainer.settings.clipping == "fixed":
        assert (trainer.plan.rule.costs(due) <= costs[:, records] * (1 + 1e-9)).all()
    else:
        share = due / clip / (trainer.clipping.noise_multiplier / trainer.settings.noise_multiplier)
        assert (share**2 <= costs[0, records] * (1 + 1e-9)).all()


def _watched(trainer, monkeypatch):
    """Who sat where, every slot's norm, and the weights, for each step."""
    seen, run = [], trainer.sums.run

    def watched(parameters, x, y, seats, weigh, **options):
        parts = []

        def noting(norms, present, slots):
            parts.append(weigh(norms, present, slots))
            return parts[-1]

        found = run(parameters, x, y, seats, noting, **options)
        seen.append((seats, found.norms, np.concatenate(parts, axis=1)))
        return found

    monkeypatch.setattr(trainer.sums, "run", watched)
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_extreme_records_move_a_sum_by_no_more_than_they_are_charged(seed):
    """Sizes over forty decades, records that differ in their last bits, inputs just below 2⁶⁰, clips of any size."""
    generator = np.random.default_rng(seed)
    count, features = int(generator.choice([2, 64, 65, 200])), int(generator.choice([1, 2, 5]))
    network = build(str(generator.choice(["logistic", "mlp"])), features=features, classes=2, hidden=(3,))
    sums = SlotSums(network, count)
    clip = generator.choice([FixedClip, OnlineClip])(10.0 ** generator.uniform(-12, 3), 1.0, margin=sums.margin)
    parameters = network.initial(generator.random) * np.float32(10 ** generator.uniform(-3, 2))
    wide = generator.standard_normal((count, features)) * 10.0 ** generator.uniform(-20, 18, (count, 1))
    x = [
        wide,
        wide[:1] * (1 + 2.0**-23 * generator.integers(-2, 3, (count, 1))),
        generator.choice([2.0**59.9, -(2.0**59.9), 1e-30, 1.0], (count, features)),
    ][seed % 3].astype(np.float32)
    y = generator.integers(0, 2, count)

    def weigh(norms, present, _):
        return clip.weights(norms) * present

    whole = sums.run(parameters, x, y, slice(0, count), weigh, queries=clip.queries)
    for gone in range(0, count, 13):
        seats = np.where(np.arange(count) == gone, -1, np.arange(count))
        rest = sums.run(parameters, x, y, seats, weigh, queries=clip.queries)
        distances = np.linalg.norm(whole.sums - rest.sums, axis=1)
        assert distances[0] <= moved(whole.norms[[gone]], clip=clip.clip, beyond=clip.beyond)[0]
        assert distances[1:].max(initial=0.0) <= 1


def test_nobody_attains_a_whole_clip_so_nothing_is_claimed_from_below():
    generator = np.random.default_rng(6)
    data = _dataset(generator.standard_normal((300, 6)) * 50, generator.integers(0, 3, 300))
    steps, noise, clip = 3, 20.0, 0.01
    settings = replace(LOGISTIC, steps=steps, noise_multiplier=noise, clip=clip)
    furthest = max(max(_movements(settings, data, gone, steps=steps)) for gone in (0, 99, 299))
    assert 0.999 < furthest < 0.9996  # gradients are brought to less than the clip, and rounding of others' adds little
    found = account(Plan(settings=settings, records=300, delta=1e-5), classes=3).guarantee
    assert found.epsilon > float(conversions.gdp_epsilon(furthest * steps**0.5 / noise, 1e-5)) * (1 + 1e-4)
    assert (found.epsilon_lower, found.mu_kind) == (None, "upper")


@pytest.mark.parametrize("settings", _in_all_modes(clip=0.7))
def test_no_run_has_a_lower_bound(settings):
    found = account(Plan(settings=settings, records=300, delta=1e-5), classes=3).guarantee
    assert (found.status, found.epsilon_lower, found.delta_lower) == ("certified", None, None)
    assert found.mu_kind in ("upper", None)


def test_a_filter_that_cannot_be_charged_raises(monkeypatch):
    data = _dataset(np.random.default_rng(0).random((50, 3)), np.arange(50) % 2)
    trainer = _trainer_of(replace(LOGISTIC, filter="gdp"), data)
    monkeypatch.setattr(trainer.batches.__class__, "draw", lambda *_: np.arange(50))
    with pytest.raises(CertificationError, match="place in the file"):
        trainer.advance()


@pytest.mark.parametrize("clip", [1e-13, 1e13])
def test_clips_for_which_nothing_is_proved_are_refused(clip):
    with pytest.raises(InputError, match="clip: expected a number in"):
        replace(LOGISTIC, clip=clip)


def test_blank_lines_of_the_tests_are_really_empty():
    data = _dataset(np.random.default_rng(0).random((30, 5)), np.arange(30) % 2)
    trainer = _trainer_of(LOGISTIC, _without(data, 4))
    trainer.advance()
    assert trainer.history.active == [29]


@pytest.mark.parametrize(
    "shaped",
    [
        {"clipping": "per-layer", "loss": "huber", "model": "mlp", "hidden": (8, 4)},
        {"clipping": "per-layer", "model": "mlp", "hidden": (8,), "layer_shares": (1.0, 30.0)},
        {"clipping": "per-layer", "model": "mlp", "hidden": (8,), "filter": "gdp", "filter_mode": "clip"},
        {
            "clipping": "per-layer",
            "model": "mlp",
            "hidden": (8,),
            "algorithm": "sgd",
            "filter": "rdp",
            "batch_size": 90,
        },
        {"model": "linear", "loss": "squared", "diameter": 0.5},
        {"model": "linear", "loss": "smoothed-hinge", "algorithm": "sgd", "batch_size": 90},
        {"model": "linear", "loss": "logistic", "clip": 1e-12},
    ],
    ids=str,
)
def test_other_losses_clips_by_layer_and_projections_keep_the_clip(shaped):
    generator = np.random.default_rng(4)
    scales = generator.lognormal(0, 9, (300, 1))
    data = _dataset(generator.standard_normal((300, 6)) * scales, generator.integers(0, 3, 300), 3)
    settings = replace(LOGISTIC, **({"clip": 0.3, "lr": 0.1} | shaped))
    furthest = [max(_movements(settings, data, gone, steps=3)) for gone in (0, 77, int(scales.argmax()))]
    assert max(furthest) <= 1
    assert max(furthest) >= 0.9  # some record is clipped, and moves the sum by all of its clip
