"""The loop: what a step releases, who takes part, and that a run can be stopped and taken up."""

import os
from dataclasses import replace

import numpy as np
import pytest

from dpcalc.errors import InputError, WriteError
from dpcalc.training.data import synthetic
from dpcalc.training.history import DivergedError
from dpcalc.training.loop import Trainer
from dpcalc.training.noise import SeededNoise
from dpcalc.training.plan import Plan
from dpcalc.training.privacy import account
from dpcalc.training.report import audit
from dpcalc.training.run import configurations, run, search, winner
from dpcalc.training.settings import Settings
from dpcalc.training.wanted import Files

DATA = synthetic(600, 100)
FULL = Settings(model="logistic", algorithm="gd", steps=6, noise_multiplier=20.0, seed=1, clip=2.0, lr=1.0)


def _plan(settings, data=DATA, **options):
    return Plan(settings=settings, records=len(data), **{"delta": 1e-5, **options})


def _run(settings, *, data=DATA, delta=1e-5, runs=1, **options):
    files = options.get("files", Files())
    plan = _plan(settings, data, delta=delta, runs=runs, tracked=files.log is not None)
    return run(plan, data, **options)


def test_one_full_batch_step_is_the_clipped_sum_plus_its_noise():
    settings = replace(FULL, steps=1, lr=0.3, regularization=0.1)
    trainer = Trainer(_plan(settings), DATA)
    start, model = trainer.parameters.astype(np.float64), trainer.model
    each = [
        model.plain_sum(trainer.parameters, DATA.x_train[i : i + 1], DATA.y_train[i : i + 1]) for i in range(len(DATA))
    ]
    clipped = sum(g * min(1, 2.0 / np.linalg.norm(g)) for g in each)
    noise = SeededNoise(1)
    noise.uniforms(model.size - 10)
    noise.uniforms(10)
    noisy = noise.add(clipped, deviation=40.0, sensitivity=2.0) / len(DATA)
    trainer.advance()
    assert trainer.parameters == pytest.approx(start - 0.3 * (noisy + 0.1 * start), abs=1e-5)


def test_cyclic_batches_visit_every_record_once_an_epoch():
    settings = replace(FULL, algorithm="cgd", batch_size=250, epochs=2, steps=None)
    batches = settings.batches(600)
    assert settings.planned_steps(600) == 6
    seen = [np.arange(600)[batches.draw(step, SeededNoise(0))] for step in range(6)]
    assert np.array_equal(np.concatenate(seen[:3]), np.arange(600))
    assert np.array_equal(seen[0], seen[3])


def test_poisson_batches_have_the_right_mean_and_vary():
    batches = replace(FULL, algorithm="sgd", batch_size=60).batches(600)
    sizes = [len(batches.draw(0, noise)) for noise in [SeededNoise(4)] for _ in range(400)]
    assert np.mean(sizes) == pytest.approx(60, abs=1.5)
    assert np.var(sizes) == pytest.approx(600 * 0.1 * 0.9, rel=0.25)


def test_fixed_size_batches_hold_that_many_different_records_evenly():
    batches = replace(FULL, algorithm="sgd", adjacency="replace-one", batch_size=60).batches(600)
    noise = SeededNoise(4)
    drawn = [batches.draw(0, noise) for _ in range(500)]
    assert {len(set(batch)) for batch in drawn} == {60}
    counts = np.bincount(np.concatenate(drawn), minlength=600)
    assert counts.mean() == 50
    assert counts.std() == pytest.approx(np.sqrt(500 * 0.1 * 0.9), rel=0.15)


@pytest.mark.parametrize("algorithm", ["gd", "cgd", "sgd"])
@pytest.mark.parametrize("clipping", ["fixed", "quantile", "online"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam-wosm"])
def test_every_method_runs_and_repeats_from_its_seed(algorithm, clipping, optimizer):
    settings = replace(
        FULL, algorithm=algorithm, clipping=clipping, optimizer=optimizer, batch_size=300, noise_multiplier=3.0
    )
    first, second = _run(settings), _run(settings)
    assert np.array_equal(first.parameters, second.parameters)
    assert len(first.history.active) == len(first.history.clips) == 6


def test_training_learns():
    settings = replace(FULL, algorithm="sgd", batch_size=100, epochs=20, steps=None, noise_multiplier=1.0, clip=1.0)
    assert _run(settings).quality()[1] > 0.6


def test_momentum_is_the_heavy_ball():
    from dpcalc.training.optimizers import Sgd

    rule = Sgd(0.5)
    assert rule.update(np.array([1.0]), rate=0.1, noise_level=0).tolist() == [0.1]
    assert rule.update(np.array([1.0]), rate=0.1, noise_level=0) == pytest.approx([0.15])


def test_the_rate_of_a_step_is_the_one_from_before_its_gradient():
    """Algorithm 1 of Galli et al. moves by ρ_t g̃_t and then makes ρ_{t+1} of g̃_t and g̃_{t−1}."""
    settings = replace(FULL, clipping="online", lr=0.5, steps=4, noise_multiplier=1.0)
    trainer = Trainer(_plan(settings), DATA)
    for _ in range(4):
        before, factor = trainer.parameters.astype(float), trainer.clipping.rate_factor
        trainer.advance()
        moved = before - trainer.parameters
        assert moved == pytest.approx(0.5 * factor * trainer.clipping._gradient, rel=1e-4, abs=1e-6)
        assert factor == 1 or trainer.clipping.rate_factor != factor


def test_adam_without_second_moment_divides_by_the_noise_level():
    from dpcalc.training.optimizers import AdamWosm

    rule = AdamWosm()
    for _ in range(3):
        assert rule.update(np.array([2.0]), rate=1e-3, noise_level=0.5) == pytest.approx([4e-3], rel=1e-6)


def test_a_filter_changes_nothing_before_plain_training_would_stop():
    plain, filtered = _run(FULL), _run(replace(FULL, filter="gdp", extra_steps=0))
    assert np.array_equal(plain.parameters, filtered.parameters)
    assert filtered.history.active == [600] * 6


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("kind", ["gdp", "rdp"])
def test_nobody_spends_more_than_the_budget(kind, mode):
    settings = replace(FULL, filter=kind, filter_mode=mode, extra_steps=30, lr=2.0, clip=3.0)
    trainer = _run(settings)
    totals = trainer.filter.totals[0]
    assert totals.max() <= 6 * 3.0**2 * (1 + 1e-12)
    assert trainer.history.active[6] > trainer.history.active[-1]


def test_clip_mode_spends_the_whole_budget_of_whoever_would_exceed_it():
    trainer = _run(replace(FULL, filter="gdp", filter_mode="clip", extra_steps=200, clip=3.0))
    assert np.allclose(trainer.filter.totals[0], 54, rtol=1e-9)


def test_a_filter_under_sampling_charges_everyone_at_every_step():
    settings = replace(FULL, algorithm="sgd", filter="rdp", batch_size=60, extra_steps=2, noise_multiplier=2.0)
    trainer = _run(settings)
    assert trainer.filter.steps_active.min() > 0
    assert trainer.filter.totals.min() > 0
    assert max(trainer.history.active) < 120


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filter": "gdp", "algorithm": "sgd"}, "subsampled step is not"),
        ({"filter": "gdp", "adjacency": "replace-one"}, "proved for add-remove only"),
        ({"filter": "rdp", "filter_mode": "clip", "algorithm": "sgd"}, "`filter_mode=clip` needs"),
        ({"extra_steps": 3}, "need a filter"),
        ({"filter_mode": "clip"}, "`filter_mode=clip` needs `filter`"),
        ({"lr": float("nan")}, "lr: expected"),
        ({"lr": 0.0}, "lr: expected .* got 0.0"),
        ({"noise_multiplier": 0.0}, "noise_multiplier: expected"),
        ({"clip": -1.0}, "clip: expected"),
        ({"momentum": 1.0}, "momentum: expected"),
        ({"optimizer": "adam-wosm", "momentum": 0.9}, "has its own"),
        ({"batch_size": 0}, "batch_size: expected"),
        ({"model": "transformer"}, "model"),
    ],
)
def test_what_is_wrong_or_not_proved_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        replace(FULL, **changes)


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(InputError, match="600 training records"):
        _run(replace(FULL, algorithm="sgd", batch_size=601))


def test_a_diverging_run_stops_and_says_at_which_step():
    with pytest.raises(DivergedError, match="diverged at step 1:") as caught:
        _run(replace(FULL, lr=1e12))
    assert caught.value.step == 1


def test_a_diverged_run_is_not_resumed(tmp_path):
    files = Files(checkpoint=str(tmp_path / "c.npz"))
    settings = replace(FULL, lr=1e12, seed=None)
    with pytest.raises(DivergedError):
        _run(settings, files=files)
    with pytest.raises(DivergedError):
        _run(settings, files=replace(files, resume=True))


class _Killed(Exception):  # noqa: N818
    pass


def _killed_at(step):
    def observe(trainer):
        if trainer.step == step:
            raise _Killed

    return observe


VARIANTS = [
    FULL,
    replace(FULL, filter="gdp", filter_mode="clip", extra_steps=4, clip=3.0),
    replace(FULL, algorithm="cgd", batch_size=200, momentum=0.9, filter="rdp", extra_steps=4, clip=3.0),
    replace(FULL, algorithm="sgd", batch_size=100, clipping="online", optimizer="adam-wosm", steps=10),
    replace(FULL, optimizer="adam", filter="gdp", extra_steps=4),
    replace(FULL, algorithm="sgd", batch_size=100, clipping="quantile", noise_multiplier=3.0, steps=10),
    replace(FULL, algorithm="sgd", batch_size=60, filter="rdp", noise_multiplier=2.0),
]


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("log", ["log.npy", "log.csv"])
def test_killed_and_resumed_a_seeded_run_ends_bit_for_bit_the_same(tmp_path, monkeypatch, settings, log, backend):
    settings = replace(settings, backend=backend)
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0.0)
    whole = _run(settings, files=Files(log=str(tmp_path / f"whole-{log}")))
    files = Files(log=str(tmp_path / log), checkpoint=str(tmp_path / "c.npz"))
    with pytest.raises(_Killed):
        _run(settings, files=files, observe=_killed_at(3))
    for step in (4, 6):
        with pytest.raises(_Killed):
            _run(settings, files=replace(files, resume=True), observe=_killed_at(step))
    resumed = _run(settings, files=replace(files, resume=True))
    assert np.array_equal(resumed.parameters, whole.parameters)
    assert resumed.history == whole.history
    assert np.array_equal(resumed.filter.totals, whole.filter.totals)
    assert (tmp_path / log).read_bytes() == (tmp_path / f"whole-{log}").read_bytes()


def test_a_finished_run_resumed_runs_no_further_step(tmp_path):
    files = Files(checkpoint=str(tmp_path / "c.npz"))
    settings = replace(FULL, seed=None)
    first = _run(settings, files=files)
    again = _run(settings, files=replace(files, resume=True), observe=_killed_at(7))
    assert np.array_equal(first.parameters, again.parameters)


def test_a_checkpoint_is_not_overwritten_by_a_new_run(tmp_path):
    files = Files(checkpoint=str(tmp_path / "c.npz"))
    _run(FULL, files=files)
    with pytest.raises(InputError, match="give `resume`"):
        _run(FULL, files=files)


def _relabelled():
    labels = DATA.y_train.copy()
    labels[17] = (labels[17] + 1) % 10
    return replace(DATA, y_train=labels)


def test_another_run_is_not_resumed(tmp_path):
    files = Files(checkpoint=str(tmp_path / "c.npz"))
    _run(FULL, files=files)
    with pytest.raises(InputError, match=r"made with clip = 2\.0, not 1\.0"):
        _run(replace(FULL, clip=1.0), files=replace(files, resume=True))
    with pytest.raises(InputError, match="made with data"):
        _run(FULL, data=_relabelled(), files=replace(files, resume=True))


CHANGED = {
    "delta": 1e-6, "runs": 2, "noise_multiplier": 21.0, "clip": 1.5, "adjacency": "replace-one", "steps": 7, "lr": 0.9,
    "filter": "rdp", "filter_mode": "clip", "extra_steps": 3, "clipping": "online", "regularization": 0.1, "seed": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_everything_that_the_account_depends_on_must_be_the_same(tmp_path, name):
    files = Files(checkpoint=str(tmp_path / "c.npz"))
    _run(replace(FULL, filter="gdp"), files=files)
    settings, options = replace(FULL, filter="gdp"), {}
    if name in ("delta", "runs"):
        options = {name: CHANGED[name]}
    elif name == "adjacency":
        settings = replace(FULL, adjacency="replace-one")
    else:
        settings = replace(settings, **{name: CHANGED[name]})
    # A filter is proved under one adjacency alone, so that a run under the other has none.
    field = {"runs": "grid_runs", "adjacency": "(filter|adjacency)"}.get(name, name)
    with pytest.raises(InputError, match=rf"made with {field} = .*, not"):
        _run(settings, files=replace(files, resume=True), **options)


def test_a_filters_orders_and_limits_are_part_of_a_checkpoint(tmp_path):
    settings = replace(FULL, algorithm="sgd", batch_size=60, filter="rdp", noise_multiplier=2.0, steps=2)
    plan = _plan(settings)
    assert plan.as_dict()["filter_orders"] == list(plan.rule.orders)
    assert plan.as_dict()["filter_limits"] == list(plan.rule.limits)
    assert plan.as_dict().keys() > {"slots", "delta", "grid_runs", "adjacency", "noise_multiplier", "clip"}


def test_a_run_derives_its_rule_once(monkeypatch):
    from dpcalc.training import plan as module

    derived = []
    original = module.rdp_rule
    monkeypatch.setattr(module, "rdp_rule", lambda **given: derived.append(given) or original(**given))
    plan = _plan(replace(FULL, filter="rdp"))
    account(plan)
    trainer = run(plan, DATA)
    plan.as_dict()
    audit(plan, "norms.npy")
    assert trainer.filter.rule is plan.rule is plan.budget
    assert len(derived) == 1


def test_the_tail_of_a_log_after_the_checkpoint_is_cut_off(tmp_path, monkeypatch):
    """Without a seed the steps after the checkpoint are drawn anew, so what they wrote before is of no run."""
    monkeypatch.setattr("dpcalc.training.run._BETWEEN_SAVES", 0.0)
    settings = replace(FULL, seed=None, algorithm="cgd", batch_size=200)
    files = Files(log=str(tmp_path / "log.csv"), checkpoint=str(tmp_path / "c.npz"))
    with pytest.raises(_Killed):
        _run(settings, files=files, observe=_killed_at(3))
    with (tmp_path / "log.csv").open("a", encoding="ascii") as log:
        log.write("5,1,0.123456\n" * 4000)
    _run(settings, files=replace(files, resume=True))
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert len(lines) == 1 + 6 * 200
    assert "5,1,0.123456" not in lines
    steps = [int(line.split(",")[0]) for line in lines[1:]]
    assert steps == sorted(steps)


@pytest.mark.parametrize("checkpoint", ["c.npz", None])
@pytest.mark.parametrize("log", ["log.npy", "log.csv"])
def test_logs_and_checkpoints_are_for_their_owner_alone(tmp_path, log, checkpoint):
    kept = {} if checkpoint is None else {"checkpoint": str(tmp_path / checkpoint)}
    _run(FULL, files=Files(log=str(tmp_path / log), **kept))
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "c.npz"
    trainer = _run(replace(FULL, steps=2), files=Files(checkpoint=str(path)))
    before, synced = path.read_bytes(), []
    original = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(handle) or original(handle))

    def full(self, target):
        assert synced, "moved before it was on the disk"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(WriteError, match="no space left"):
        trainer.save(str(path), {})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.npz"]


def test_a_broken_checkpoint_is_an_input_error(tmp_path):
    path = tmp_path / "c.npz"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        _run(FULL, files=Files(checkpoint=str(path), resume=True))


def test_a_search_runs_every_combination_and_keeps_the_best_on_the_test_records():
    trials = configurations(_plan(FULL), {"lr": [1e-4, 1.0], "clip": [0.5, 2.0]})
    found = search(trials, DATA, observe=lambda _: None)
    assert [trial.changes for trial in found] == [
        {"lr": 1e-4, "clip": 0.5}, {"lr": 1e-4, "clip": 2.0}, {"lr": 1.0, "clip": 0.5}, {"lr": 1.0, "clip": 2.0},
    ]  # fmt: skip
    assert winner(found).test_quality == max(trial.test_quality for trial in found)


def test_the_noise_of_the_clips_direction_is_an_option_and_costs_the_same():
    """ν_g = ν/√(1 − (ν/ν_q)²) (Galli et al., Proposition 1), whatever ν_q is."""
    found = []
    for factor in (7.124, 2.0):
        settings = replace(FULL, algorithm="sgd", batch_size=100, clipping="online", steps=3, direction_noise=factor)
        trainer = _run(settings)
        assert trainer.clipping.noise_multiplier == pytest.approx(settings.noise_multiplier / (1 - factor**-2) ** 0.5)
        found.append(account(trainer.plan).guarantee.epsilon)
    assert found[0] == found[1]
