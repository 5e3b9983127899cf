"""Random allocation in the trainer: every record once an epoch, at random, and accounted for as what is run."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.errors import InputError
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.training.data import synthetic
from dpcalc.training.loop import Trainer
from dpcalc.training.noise import SeededNoise
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account, calibrated
from dpcalc.training.run import run
from dpcalc.training.settings import Settings
from dpcalc.training.wanted import Files

DATA = synthetic(600, 100)
SETTINGS = Settings(
    model="logistic", sampling="random-allocation", batch_size=200, epochs=2, noise_multiplier=2.0, seed=1
)


def plan(settings=SETTINGS, **options):
    return Plan(settings=settings, records=len(DATA), **{"delta": 1e-5, **options})


def test_every_record_is_drawn_into_one_step_of_every_epoch():
    trainer = Trainer(plan(), DATA)
    steps = trainer.batches.steps_per_epoch
    assert (steps, plan().planned_steps) == (3, 6)
    epochs = []
    for _ in range(2):
        drawn = []
        for _ in range(steps):
            drawn.append(trainer._drawn())
            trainer.step += 1
        assert np.array_equal(np.sort(np.concatenate(drawn)), np.arange(600))
        epochs.append(trainer.allocation)
    assert not np.array_equal(*epochs)


def test_steps_are_drawn_uniformly_and_by_each_record_alone():
    batches = SETTINGS.batches(600)
    noise = SeededNoise(3)
    drawn = np.array([batches.allocation(noise) for _ in range(300)])
    shares = np.bincount(drawn.ravel(), minlength=3) / drawn.size
    assert shares == pytest.approx([1 / 3] * 3, abs=5 * np.sqrt(2 / 9 / drawn.size))
    together = np.mean(drawn[:, 0] == drawn[:, 1])
    assert together == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / 300))
    sizes = (drawn == 0).sum(axis=1)
    assert sizes.std() == pytest.approx(np.sqrt(600 * 2 / 9), rel=0.25)  # batches of equal size would be shuffling


def test_it_is_accounted_for_as_random_allocation_with_room_in_the_slots():
    found = account(plan()).guarantee
    alone = compose([(RandomlyAllocated(base=Gaussian(noise_multiplier=2.0), steps=3), 2)], delta=1e-5)
    assert found.sampler.startswith("random-allocation")
    assert alone.epsilon_lower <= found.epsilon <= alone.epsilon * (1 + 5e-3)
    batches, slots = plan().batches, plan().slots
    exact = sum(
        (comb(599, k) * Fraction(1, 3) ** k * Fraction(2, 3) ** (599 - k) for k in range(slots, 600)), Fraction(0)
    )
    assert exact <= Fraction(batches.overflow(slots)) <= Fraction(1e-3 * 1e-5 / 6)


def test_a_run_that_was_killed_within_an_epoch_goes_on_with_its_allocation(tmp_path, monkeypatch):
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0.0)

    class KilledError(Exception):
        pass

    def kill(trainer):
        if trainer.step == 4:
            raise KilledError

    files = Files(checkpoint=str(tmp_path / "run.npz"))
    whole = run(plan(), DATA)
    with pytest.raises(KilledError):
        run(plan(), DATA, files=files, observe=kill)
    resumed = run(plan(), DATA, files=replace(files, resume=True))
    assert np.array_equal(resumed.parameters, whole.parameters)
    assert np.array_equal(resumed.allocation, whole.allocation)


def test_noise_is_found_for_a_budget():
    noise = calibrated([plan()], epsilon=1.0)
    assert account(plan(replace(SETTINGS, noise_multiplier=noise))).guarantee.epsilon <= 1.0
    assert account(plan(replace(SETTINGS, noise_multiplier=0.99 * noise))).guarantee.epsilon > 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "gd"},
        {"adjacency": "replace-one"},
        {"filter": "rdp"},
    ],
)
def test_what_is_not_proved_is_refused(changes):
    with pytest.raises(InputError, match="random"):
        replace(SETTINGS, **changes)


def test_epochs_are_whole_and_nothing_is_logged():
    with pytest.raises(InputError, match="`epochs=2`, or `steps=6`"):
        _ = plan(replace(SETTINGS, epochs=1.5)).planned_steps
    with pytest.raises(InputError, match="`steps=6`"):
        _ = plan(replace(SETTINGS, epochs=None, steps=4)).planned_steps
    with pytest.raises(InputError, match="`log`"):
        plan(tracked=True)
