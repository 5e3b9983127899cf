"""Private looks that steer a run: what they cost, what they move by, and what they decide."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcalc.errors import InputError
from dpcalc.training.data import Dataset
from dpcalc.training.iterates import look
from dpcalc.training.looks import Looking, Looks, discrete_laplace
from dpcalc.training.loop import Trainer
from dpcalc.training.noise import SeededNoise, SystemNoise
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, calibrated
from dpcalc.training.run import Files, run
from dpcalc.training.settings import Settings

GENERATOR = np.random.default_rng(8)
CENTRES = GENERATOR.standard_normal((3, 6))
Y = GENERATOR.integers(0, 3, 400)
X = (CENTRES[Y] + 0.7 * GENERATOR.standard_normal((400, 6))).astype(np.float32)
DATA = Dataset(name="drawn", x_train=X[:300], y_train=Y[:300], x_test=X[300:], y_test=Y[300:], classes=3)
PLAIN = Settings(model="logistic", algorithm="gd", steps=20, noise_multiplier=30.0, lr=1.0, seed=1)
FILTERED = replace(PLAIN, filter="gdp", extra_steps=21, clip=3.0)


def _plan(settings):
    return Plan(settings=settings, records=len(DATA), delta=1e-5)


def _gdp(settings):
    return account(_plan(settings)).guarantee.mu


def test_a_look_at_the_accuracy_costs_a_gaussian_of_half_a_record():
    """μ² adds up: each of 7 looks is (½ / (0.02 · 300))²."""
    looked = replace(PLAIN, keep_best=7, look_noise=0.02)
    assert _gdp(looked) ** 2 == pytest.approx(_gdp(PLAIN) ** 2 + 7 * (0.5 / 6) ** 2, rel=1e-9)
    replaced = replace(looked, adjacency="replace-one")
    # Replacing a record moves a count of ±½ by 1, and the gradients by two clips.
    assert _gdp(replaced) ** 2 == pytest.approx(4 * 20 / 900 + 7 / 36, rel=1e-9)


@pytest.mark.parametrize(
    ("stop_by", "cost"), [("gaussian", 21 * (0.5 / 3) ** 2), ("continual", 5 / 9)], ids=["gaussian", "continual"]
)
def test_watching_costs_what_its_counts_cost(stop_by, cost):
    """21 counts of ±½; or a tree of five levels (16 ≤ 21 < 32), on each of which a record adds at most 1."""
    watched = replace(FILTERED, stop_below=0.5, stop_by=stop_by, look_noise=0.01)
    assert _gdp(watched) ** 2 == pytest.approx(_gdp(FILTERED) ** 2 + cost, rel=1e-9)


def test_counting_costs_no_less_than_its_levels_to_the_last_digit():
    """On each of the ⌊log₂T⌋ + 1 levels a record is worth 1/deviation, squared: no root may round that down."""
    for watched, deviation in itertools.product((2, 5, 21, 100, 1000), (0.7, 3.0, 17.1, 600.0)):
        releases = Looks(deviation=deviation, watched=watched).releases()
        charged = sum(count / Fraction(each.noise_multiplier) ** 2 for each, count in releases)
        assert charged >= (math.floor(math.log2(watched)) + 1) / Fraction(deviation) ** 2


def test_every_run_of_a_grid_pays_for_its_looks():
    """μ² of 3 runs under a filter, each with its own looks."""
    settings = replace(FILTERED, keep_best=4, look_noise=0.02)
    one, three = (account(replace(_plan(settings), runs=runs)).guarantee.mu for runs in (1, 3))
    assert three**2 == pytest.approx(3 * one**2, rel=1e-9)


def test_above_threshold_costs_two_laplace_comparisons_however_long_it_watches():
    looks = Looks(deviation=100.0, watched=1000, stop_by="above-threshold")
    ((mechanism, count),) = looks.releases()
    assert count == 1
    assert mechanism.epsilon == pytest.approx(2 / round(100 / math.sqrt(2)))


def test_the_noise_for_a_budget_pays_for_the_looks_too():
    settings = replace(FILTERED, keep_best=4, look_noise=0.05, stop_below=0.3, stop_by="above-threshold")
    noise = calibrated([_plan(settings)], epsilon=1.0)
    assert account(_plan(settings).with_noise(noise)).guarantee.epsilon <= 1.0
    assert noise > calibrated([_plan(FILTERED)], epsilon=1.0)


@pytest.mark.parametrize("source", [SeededNoise(4), SystemNoise()], ids=["seeded", "system"])
def test_discrete_laplace_has_its_probabilities(source):
    draws = np.array([discrete_laplace(3, source.below) for _ in range(6000)])
    values = np.arange(-8, 9)
    weights = np.exp(-np.abs(values) / 3.0)
    chances = weights * math.tanh(1 / 6)  # Σ exp(−|x|/s) = coth(1/(2s))
    inside = np.array([(draws == value).sum() for value in values])
    beyond = len(draws) - inside.sum()
    found, expected = np.append(inside, beyond), np.append(chances, 1 - chances.sum()) * len(draws)
    assert stats.chisquare(found, expected).pvalue > 1e-6


class _Silent:
    """Noise that adds none and remembers what it was given."""

    def __init__(self):
        self.released = []

    def add(self, sums, *, deviation, sensitivity):
        self.released.append((float(sums[0]), deviation, sensitivity))
        return sums

    def below(self, limit):  # noqa: ARG002
        raise AssertionError("no random whole number is needed")


def test_a_counting_tree_sums_to_the_count_and_a_record_is_in_one_node_of_each_length():
    generator = np.random.default_rng(2)
    for watched in (1, 2, 7, 8, 21, 64):
        looks = Looks(deviation=5.0, watched=watched)
        leaves = generator.integers(0, 4, watched)
        for changed in range(watched):
            one, other = _Silent(), _Silent()
            seen, seen_other = Looking(), Looking()
            more = leaves + (np.arange(watched) == changed)
            for step in range(watched):
                shared = {"most": math.inf, "looks": looks}
                seen.watch(step, int(leaves[: step + 1].sum()), 300, noise=one, **shared)
                seen_other.watch(step, int(more[: step + 1].sum()), 300, noise=other, **shared)
            assert seen.counts == [float(count) for count in np.cumsum(leaves)]
            moved = np.array([b[0] - a[0] for a, b in zip(one.released, other.released, strict=True)])
            assert set(moved) <= {0.0, 1.0}
            assert (moved**2).sum() <= watched.bit_length()


def test_the_best_iterate_is_kept_and_the_answers_are_noisy():
    settings = replace(PLAIN, keep_best=5, look_every=3, look_noise=0.001)
    trainer = Trainer(_plan(settings), DATA)
    seen = {}
    while not trainer.finished:
        trainer.advance()
        seen[trainer.step] = trainer.parameters.copy()
        look(trainer)
    assert [step for step, _ in trainer.looking.answers] == [8, 11, 14, 17, 20]
    best = max(trainer.looking.answers, key=lambda answer: answer[1])[0]
    assert np.array_equal(trainer.parameters, seen[best])
    for step, share in trainer.looking.answers:
        right = trainer.model.quality(seen[step], DATA.x_train, DATA.y_train)
        assert 0 < abs(share - right) < 0.006


@pytest.mark.parametrize("stop_by", ["gaussian", "continual", "above-threshold"])
def test_a_filtered_run_stops_when_too_few_have_budget_left(stop_by):
    settings = replace(FILTERED, clip=0.2, extra_steps=40, stop_below=0.6, stop_by=stop_by, look_noise=0.005)
    trainer = run(_plan(settings), DATA)
    assert trainer.looking.stopped == trainer.step < trainer.total_steps
    assert trainer.filter.lost.sum() > 0.4 * 300 - 20
    best = run(_plan(replace(settings, keep_best=3, look_every=20)), DATA).looking
    assert [step for step, _ in best.answers] == [20, best.stopped]
    assert run(_plan(replace(settings, stop_below=0.001)), DATA).looking.stopped is None or stop_by != "gaussian"


def test_right_records_are_those_of_the_outputs_whatever_the_batches():
    for settings in (PLAIN, replace(PLAIN, algorithm="sgd", batch_size=40, noise_multiplier=2.0)):
        trainer = Trainer(_plan(settings), DATA)
        scores = trainer.model.outputs(trainer.parameters, DATA.x_train)
        found = trainer.sums.right(trainer.parameters, DATA.x_train, DATA.y_train)
        assert np.array_equal(found, scores.argmax(axis=1) == DATA.y_train)


@pytest.mark.parametrize("stop_by", ["continual", "above-threshold"])
def test_a_run_with_looks_is_resumed_bit_for_bit(tmp_path, monkeypatch, stop_by, backend):
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0)
    changes = {"keep_best": 4, "look_every": 5, "stop_below": 0.05, "stop_by": stop_by, "backend": backend}
    plan = _plan(replace(FILTERED, **changes))
    whole = run(plan, DATA)
    files = Files(checkpoint=str(tmp_path / "run.ckpt"))
    for step in (22, 26, 33):

        def killed(trainer, at=step):
            if trainer.step == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(plan, DATA, files=files, observe=killed)
        files = replace(files, resume=True)
    again = run(plan, DATA, files=files)
    assert np.array_equal(again.parameters, whole.parameters)
    assert again.looking == whole.looking


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="do not fit"):
        _plan(replace(PLAIN, keep_best=9, look_every=3))
    with pytest.raises(InputError, match="`stop_below` needs"):
        replace(PLAIN, stop_below=0.5)
    with pytest.raises(InputError, match="autoencoder"):
        replace(PLAIN, model="autoencoder", keep_best=2)


def test_the_command_tells_what_was_looked_at(dpcalc):
    asked = ("--filter", "gdp", "--steps", 30, "--clip", 4, "--keep-best", 3, "--stop-below", 0.2, "--seed", 1)
    document = dpcalc("train", *asked, "-f", "json").json
    looks = document["details"]["looks"]
    assert [answer["step"] for answer in looks["answers"]] == [30, 35, 40]
    assert document["guarantee"] == "certified"
    assert document["epsilon"] <= 3
    shown = dpcalc("train", *asked).out
    assert "best of" in shown
    assert "stopped" in shown


def test_validation_keeps_the_best_iterate_on_public_records_and_costs_nothing():
    settings = replace(PLAIN, validate_every=3)
    trainer = run(_plan(settings), DATA)
    steps = [step for step, _ in trainer.looking.answers]
    assert steps == [3, 6, 9, 12, 15, 18, 20]
    best = max(merit for _, merit in trainer.looking.answers)
    assert trainer.model.quality(trainer.parameters, DATA.x_test, DATA.y_test) == best
    assert _gdp(settings) == _gdp(PLAIN)
    with pytest.raises(InputError, match="there are none"):
        run(_plan(settings), replace(DATA, x_test=X[:0], y_test=Y[:0]))
    with pytest.raises(InputError, match="not both"):
        replace(settings, keep_best=2)
