"""`dpcalc train`: what it prints, what it refuses, and that its log audits to the same budgets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

QUICK = ("train", "--model", "logistic", "--algorithm", "gd", "--steps", "5", "--noise-multiplier", "20", "--seed", "1")


def settled(*arguments: object) -> list[object]:
    """The arguments with each option once: one that is given again replaces the one before."""
    kept: dict[object, list[object]] = {}
    for argument in arguments:
        if (isinstance(argument, str) and argument.startswith("--")) or not kept:
            kept[argument] = [argument]
            last = argument
        else:
            kept[last].append(argument)
    return [word for words in kept.values() for word in words]


@pytest.fixture
def archive(tmp_path):
    """A small data set as .npz: three classes of 12 features."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((3, 12))
    y = generator.integers(0, 3, 330)
    x = centres[y] + 0.4 * generator.standard_normal((330, 12))
    path = tmp_path / "data.npz"
    np.savez(path, x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    return str(path)


def test_train_alone_ends_with_accuracy_privacy_theorem_and_assumptions(dpcalc):
    result = dpcalc("train")
    assert result.code == 0
    for wanted in (
        "% of the test records right, with ε = ",
        "at δ = 1e-",
        "attacker",
        "holds if",
        "by  ",
    ):
        assert wanted in result.out
    assert "the system's entropy" in " ".join(result.out.split())  # wherever a line ends


def test_train_alone_learns_within_its_default_budget(dpcalc):
    document = dpcalc("train", "-f", "json").json
    assert document["details"]["test_accuracy"] > 0.9
    assert document["epsilon"] <= 3
    assert document["guarantee"] == "certified"


def test_details_hold_what_the_contract_names(dpcalc, archive):
    document = dpcalc(*QUICK, "--data", archive, "-f", "json").json
    details = document["details"]
    assert details.keys() >= {
        "train_accuracy", "test_accuracy", "steps", "noise_multiplier", "active_per_step", "clip_per_step", "bounds",
    }  # fmt: skip
    assert details["active_per_step"] == [300] * 5
    assert details["clip_per_step"] == [1] * 5
    assert document["mu"] == pytest.approx(5**0.5 / 20)


def test_an_autoencoder_reports_its_error(dpcalc, tmp_path):
    images = np.random.default_rng(0).random((30, 10, 10))
    labels = np.arange(30) % 2
    np.savez(tmp_path / "i.npz", x_train=images[:20], y_train=labels[:20], x_test=images[20:], y_test=labels[20:])
    arguments = (
        "--model",
        "autoencoder",
        "--algorithm",
        "gd",
        "--steps",
        "2",
        "--seed",
        "1",
        "--noise-multiplier",
        "1",
    )
    details = dpcalc("train", *arguments, "--data", tmp_path / "i.npz", "-f", "json").json["details"]
    assert 0 < details["mse"] < 1
    assert details["parameters"] == 48_705


def test_a_seed_is_called_reproducible_and_not_for_release(dpcalc, archive):
    result = dpcalc(*QUICK, "--data", archive)
    assert "reproducible" in result.err
    assert "do not release" in result.err


def test_words_to_publish_tell_of_a_seed(dpcalc, archive, tmp_path):
    """A warning is gone with the screen; what a seeded run rests on is carried by its result."""
    told = tmp_path / "run.json"
    assert dpcalc(*QUICK, "--data", archive, "-f", "json", "-o", told).code == 0
    for command in (("report", told, "--statement", "model-card"), ("compose", told, "--delta", "1e-5")):
        assert "nobody knows the seed" in " ".join(dpcalc(*command).out.split())


def test_what_is_measured_on_private_records_is_called_not_covered(dpcalc, archive):
    result = dpcalc(*QUICK, "--data", archive)
    assert "SENSITIVE: no noise" in result.out
    remarks = dpcalc(*QUICK, "--data", archive, "-f", "json").json["warnings"]
    assert any("not covered by the guarantee" in line for line in remarks)


def test_the_mechanisms_compose_to_the_same_guarantee(dpcalc, archive, tmp_path):
    for arguments in ((), ("--filter", "gdp")):
        path = tmp_path / "train.json"
        dpcalc(*QUICK, *arguments, "--data", archive, "-f", "json", "-o", path)
        document = json.loads(path.read_text())
        again = dpcalc("compose", path, "--delta", "1e-5", "-f", "json").json
        assert again["epsilon"] == pytest.approx(document["epsilon"], rel=1e-9)


AUDITED = [
    (*QUICK, "--filter", "gdp", "--extra-steps", "40", "--clip", "0.5"),
    (*QUICK, "--filter", "gdp", "--filter-mode", "clip", "--extra-steps", "40", "--clip", "0.5"),
    (*QUICK, "--filter", "rdp", "--extra-steps", "40", "--clip", "0.5"),
    QUICK,
    (*QUICK, "--algorithm", "cgd", "--batch-size", "70", "--steps", "30", "--filter", "gdp", "--extra-steps", "20"),
    (*QUICK, "--clipping", "online", "--clip", "0.3"),
    (*QUICK, "--clipping", "quantile", "--clip", "0.3", "--noise-multiplier", "5", "--filter", "gdp"),
]


@pytest.mark.parametrize("arguments", AUDITED)
@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_auditing_the_log_gives_the_same_spent_budget_to_the_last_digit(dpcalc, archive, tmp_path, arguments, ending):
    log = tmp_path / f"log.{ending}"
    trained = dpcalc(*settled(*arguments, "--data", archive, "--log", log), "-f", "json").json
    audit = trained["details"]["audit"].split()
    assert audit[0] == "dpcalc"
    audited = dpcalc(*audit[1:], "-f", "json").json
    assert audited["details"]["spent"] == trained["details"]["spent"]
    if "filter" in " ".join(arguments):
        assert audited["epsilon"] == trained["epsilon"]
        assert audited["details"]["dropped_records"] == trained["details"]["dropped_records"]


@pytest.mark.parametrize("filter_", ["rdp", "none"])
def test_auditing_a_subsampled_log_gives_the_same_spent_budget(dpcalc, archive, tmp_path, filter_):
    log, few = tmp_path / "log.npy", tmp_path / "few.npz"
    with np.load(archive) as data:  # every record's own ε is worked out
        np.savez(few, **{name: values[:16] for name, values in data.items()})
    arguments = ("--model", "logistic", "--algorithm", "sgd", "--batch-size", "4", "--steps", "6", "--seed", "3")
    noise = ("--noise-multiplier", "2", "--filter", filter_, "--data", few)
    trained = dpcalc("train", *arguments, *noise, "--log", log, "-f", "json").json
    audited = dpcalc(*trained["details"]["audit"].split()[1:], "-f", "json").json
    assert audited["details"]["spent"] == trained["details"]["spent"]
    assert filter_ == "none" or audited["epsilon"] == trained["epsilon"]


def test_a_filter_works_as_it_stands(dpcalc):
    document = dpcalc("train", "--filter", "gdp", "--seed", "3", "-f", "json").json
    details = document["details"]
    assert details["settings"]["algorithm"] == "gd"
    assert details["test_accuracy"] >= 0.9
    assert document["epsilon"] <= 3
    assert details["without_filter"]["steps"] == details["planned_steps"] < details["steps"]
    assert details["test_accuracy"] >= details["without_filter"]["test_accuracy"] > 0.9


def test_steps_of_a_filter_that_do_not_help_are_taken_back(dpcalc):
    """At rate 1 nearly everybody has run out soon after the planned steps, and the rest is noise."""
    arguments = ("train", "--algorithm", "gd", "--lr", "1", "--steps", "40", "--seed", "5")
    told = dpcalc(*arguments, "--filter", "gdp", "--extra-steps", "14", "-f", "json").json["details"]
    left = dpcalc(*arguments, "--filter", "gdp", "-f", "json").json["details"]
    assert told["test_accuracy"] < told["without_filter"]["test_accuracy"]
    assert told["kept_step"] is None
    assert left["kept_step"] == 40
    assert left["test_accuracy"] == left["without_filter"]["test_accuracy"]
    assert "did not help" in dpcalc(*arguments, "--filter", "gdp").out


def test_a_filter_that_gains_is_not_stopped_by_its_first_steps(dpcalc):
    """With a clip far above most norms a filter gains, though five steps after the planned ones it is still behind."""
    arguments = ("train", "--filter", "gdp", "--lr", "2.5", "--clip", "4", "--steps", "40", "--seed", "4", "-f", "json")
    first = dpcalc(*arguments, "--extra-steps", "5").json["details"]
    whole = dpcalc(*arguments).json["details"]
    assert first["test_accuracy"] < first["without_filter"]["test_accuracy"]
    assert whole["test_accuracy"] > whole["without_filter"]["test_accuracy"] + 0.01


def test_a_refusal_ends_with_the_command_that_works(dpcalc):
    result = dpcalc("train", "--filter", "gdp", "--algorithm", "sgd")
    assert result.code == 2
    assert result.err.rstrip().endswith("dpcalc train --filter gdp --algorithm gd")


BOUNDED = (
    "train", "--model", "logistic", "--algorithm", "cgd", "--batch-size", "60", "--lr", "0.05", "--clip", "1",
    "--regularization", "0.05", "--feature-clip", "2", "--adjacency", "replace-one", "--epochs", "40", "--seed", "1",
)  # fmt: skip


def test_a_limit_is_checked_and_noise_is_found_by_certified_bounds_only(dpcalc, archive):
    document = dpcalc(*BOUNDED, "--data", archive, "--noise-multiplier", "8", "-f", "json").json
    certified, *others = document["details"]["bounds"]
    assert {bound["guarantee"] for bound in others} == {"approximate"}
    best = min(bound["epsilon"] for bound in others)
    assert best < 0.5 * document["epsilon"] == 0.5 * certified["epsilon"]
    assert document["guarantee"] == "certified"
    limit = ("--max-epsilon", str((best + certified["epsilon"]) / 2))
    assert dpcalc(*BOUNDED, "--data", archive, "--noise-multiplier", "8", *limit).code == 1
    found = dpcalc(*BOUNDED, "--data", archive, "--epsilon", "2", "--max-epsilon", "2", "-f", "json")
    assert found.code == 0
    # 40 passes of one Gaussian each, under replace-one.
    assert found.json["mu"] == pytest.approx(2 * 40**0.5 / found.json["details"]["noise_multiplier"])


@pytest.mark.parametrize("algorithm", ["gd", "cgd", "sgd"])
@pytest.mark.parametrize("size", [3e25, 2e38])
def test_a_record_that_overflows_does_not_stop_the_run(dpcalc, tmp_path, algorithm, size):
    generator = np.random.default_rng(0)
    x, y = generator.random((90, 5)), np.arange(90) % 2
    x[7] = size
    np.savez(tmp_path / "d.npz", x_train=x[:80].astype(np.float32), y_train=y[:80], x_test=x[80:], y_test=y[80:])
    batches = () if algorithm == "gd" else ("--batch-size", "20")
    arguments = ("--algorithm", algorithm, *batches, "--model", "mlp", "--data", tmp_path / "d.npz")
    assert dpcalc("train", "--steps", "6", "--noise-multiplier", "1", *arguments).code == 0


def test_the_chance_that_a_poisson_batch_overflows_is_part_of_delta(dpcalc, archive):
    arguments = ("train", "--data", archive, "--batch-size", "30", "--steps", "40", "--noise-multiplier", "2")
    document = dpcalc(*arguments, "--seed", "1", "--delta", "1e-6", "-f", "json").json
    sampled, overflow = document["mechanisms"]
    assert (overflow["type"], overflow["epsilon"]) == ("dp", 0)
    assert 0 < overflow["delta"] <= 1e-6 / 1000
    alone = f"gaussian,noise_multiplier=2,sampling=poisson,rate=0.1,count={sampled['count']}"
    without = dpcalc("compose", "-m", alone, "--delta", str(1e-6 - overflow["delta"]), "-f", "json").json
    assert document["epsilon"] >= without["epsilon_lower"]
    assert document["mu"] is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [(("--delta", "1e-7"), "delta"), (("--grid-runs", "3"), "grid_runs"), (("--noise-multiplier", "21"), "noise")],
)
def test_a_run_is_resumed_under_its_own_plan_only(dpcalc, archive, tmp_path, changed, field):
    path = tmp_path / "c.npz"
    arguments = (*QUICK, "--data", archive, "--filter", "rdp", "--checkpoint", path)
    assert dpcalc(*arguments, "--grid-runs", "2").code == 0
    kept = ("--resume",) if field == "grid_runs" else ("--resume", "--grid-runs", "2")
    noise = [each for each in arguments if each not in ("--noise-multiplier", "20")] if field == "noise" else arguments
    result = dpcalc(*noise, *kept, *changed)
    assert result.code == 2
    assert f"made with {field}" in result.err
    assert dpcalc(*arguments, "--grid-runs", "2", "--resume").code == 0


def test_an_output_that_is_also_an_input_is_refused(dpcalc, archive, tmp_path):
    result = dpcalc(*QUICK, "--data", archive, "--save", archive)
    assert result.code == 2
    assert "--data" in result.err
    log = tmp_path / "same.npz"
    assert dpcalc(*QUICK, "--data", archive, "--save", log, "--checkpoint", log).code == 2


def test_epsilon_calibrates_the_noise(dpcalc, archive):
    arguments = ("--model", "logistic", "--algorithm", "gd", "--steps", "5", "--seed", "1", "--data", archive)
    document = dpcalc("train", *arguments, "--epsilon", "0.5", "--delta", "1e-6", "-f", "json").json
    assert 0.498 <= document["epsilon"] <= 0.5
    assert document["delta"] == 1e-6


def test_grid_runs_share_the_budget(dpcalc, archive):
    document = dpcalc(*QUICK, "--data", archive, "--grid-runs", "4", "-f", "json").json
    assert document["mu"] == pytest.approx(2 * 5**0.5 / 20)


def test_a_grid_file_runs_the_search_under_one_total_budget(dpcalc, archive, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text("lr: [1e-4, 1]\nclip: [0.5, 2]\n")
    arguments = ("--model", "logistic", "--algorithm", "gd", "--steps", "5", "--seed", "1", "--data", archive)
    document = dpcalc("train", *arguments, "--grid", path, "--epsilon", "2", "-f", "json").json
    details = document["details"]
    assert 1.99 <= document["epsilon"] <= 2
    assert len(details["trials"]) == 4
    assert details["test_accuracy"] == max(trial["test"] for trial in details["trials"])
    assert details["winner"]["lr"] == 1
    assert "winner" in dpcalc("train", *arguments, "--grid", path, "--epsilon", "2").out


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("batch-size: [4, 8]\n", (), "batch-size: has no effect with --algorithm gd"),
        ("hidden: [[3], [4]]\n", (), "hidden: has no effect with --model logistic"),
        ("lr: [0.1, 1]\n", ("--quantile", 0.3), "quantile: has no effect with --clipping fixed"),
        ("hidden: [[3], [4]]\nmodel: [logistic, mlp]\n", (), ""),
        ("clipping: [fixed, quantile]\n", ("--quantile", 0.3), ""),
    ],
)
def test_what_plays_no_part_in_any_run_of_a_grid_is_refused(dpcalc, archive, text, options, message):
    path = Path(archive).with_name("grid.yaml")
    path.write_text(text)
    arguments = ("--model", "logistic", "--algorithm", "gd", "--steps", "2", "--seed", "1", "--noise-multiplier", 5)
    found = dpcalc("train", *arguments, "--data", archive, "--grid", path, *options)
    assert found.code == (2 if message else 0), found.err
    assert message in found.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 0.1\n", "expected a list"),
        ("seed: [1, 2]\n", "cannot search over 'seed'"),
        ("lr: [fast]\n", "expected a number"),
        ("[1, 2]\n", "expected a mapping"),
        ("lr: [1\n", "not YAML"),
        ("lr: [-1]\n", "lr[0]: expected a number"),
    ],
)
def test_a_wrong_grid_is_named(dpcalc, archive, tmp_path, text, message):
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    result = dpcalc(*QUICK, "--data", archive, "--grid", path)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lr", "nan"), "--lr"),
        (("--lr", "0"), "--lr"),
        (("--clip", "-1"), "--clip"),
        (("--batch-size", "0"), "--batch-size"),
        (("--data", "/nowhere"), "no such file"),
        (("--epsilon", "1"), "--noise-multiplier or --epsilon"),
        (("--epochs", "3"), "--epochs or --steps"),
        (("--algorithm", "sgd", "--filter", "gdp"), "covers Gaussian steps"),
        (("--adjacency", "replace-one", "--filter", "gdp"), "add-remove only"),
        (("--resume",), "--checkpoint"),
        (("--log", "norms.txt"), ".npy or .csv"),
        (
            ("--algorithm", "sgd", "--adjacency", "replace-one", "--log", "x.npy", "--batch-size", "9"),
            "nothing to audit",
        ),
        (("--model", "cnn-small", "--data", "archive"), "square images"),
        (("--algorithm", "sgd", "--batch-size", "1000", "--data", "archive"), "300 training records"),
    ],
)
def test_wrong_input_is_two_lines_at_most_and_exit_2(dpcalc, archive, arguments, message):
    result = dpcalc(*settled(*QUICK, *(archive if each == "archive" else each for each in arguments)))
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") <= 2


def test_a_diverging_run_says_at_which_step_and_keeps_the_accounting(dpcalc, archive, tmp_path):
    log = tmp_path / "log.csv"
    result = dpcalc(*QUICK, "--data", archive, "--lr", "1e9", "--log", log)
    assert result.code == 3
    assert "diverged at step 1" in result.err
    assert "ε = " in result.err
    assert log.read_text().count("\n") == 301


def test_over_budget_is_exit_1_with_the_result_printed(dpcalc, archive):
    result = dpcalc(*QUICK, "--data", archive, "--max-epsilon", "0.01")
    assert result.code == 1
    assert "% of the test records right, with ε = " in result.out
    assert "for everyone, OVER the limit" in result.out


def test_the_model_is_saved(dpcalc, archive, tmp_path):
    path = tmp_path / "model.npz"
    assert dpcalc(*QUICK, "--data", archive, "--save", path).code == 0
    with np.load(path, allow_pickle=False) as model:
        assert model["parameters"].shape == (39,)


def test_a_table_needs_test_records_only_for_a_search(dpcalc, tmp_path):
    path, grid = tmp_path / "d.csv", tmp_path / "grid.yaml"
    path.write_text("a,b,label\n" + "".join(f"{i % 5},{i % 7},{i % 2}\n" for i in range(40)))
    grid.write_text("lr: [0.1, 1]\n")
    assert dpcalc(*QUICK, "--data", path, "-f", "json").json["details"]["test_accuracy"] is None
    result = dpcalc(*QUICK, "--data", path, "--grid", grid)
    assert result.code == 2
    assert "--test-data" in result.err
    assert dpcalc(*QUICK, "--data", path, "--grid", grid, "--test-data", path).code == 0


def test_killed_by_the_system_and_resumed_the_parameters_are_the_same(archive, tmp_path):
    """The process is really killed, at whatever point it has reached."""
    command = [sys.executable, "-m", "dpcalc", "train", "--data", archive, "--model", "mlp", "--algorithm", "cgd"]
    command += ["--batch-size", "50", "--steps", "1200", "--noise-multiplier", "9", "--seed", "4", "--filter", "gdp"]
    patched = "import dpcalc.training.run as r; r._BETWEEN_SAVES = 0.02; from dpcalc.cli.main import main; main()"
    killable = [sys.executable, "-c", patched, *command[3:]]
    whole = [*command, "--save", str(tmp_path / "whole.npz")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(whole, check=True, capture_output=True, env=environment, timeout=600)
    saved = tmp_path / "run.npz"
    process = subprocess.Popen(
        [*killable, "--checkpoint", str(saved)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    while not saved.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    resumed = [*killable, "--checkpoint", str(saved), "--resume", "--save", str(tmp_path / "resumed.npz")]
    subprocess.run(resumed, check=True, capture_output=True, env=environment, timeout=600)
    with np.load(tmp_path / "whole.npz") as one, np.load(tmp_path / "resumed.npz") as other:
        assert np.array_equal(one["parameters"], other["parameters"])


def test_a_table_may_come_on_standard_input(dpcalc):
    table = "a,b,label\n" + "".join(f"{i % 5},{i % 7},{i % 2}\n" for i in range(40))
    assert dpcalc(*QUICK, "--data", "-", "-f", "json", stdin=table).json["details"]["data"]["records"] == 40


def test_an_mlp_has_the_widths_asked_for(dpcalc, archive):
    document = dpcalc(*settled(*QUICK, "--data", archive, "--model", "mlp", "--hidden", "7,5"), "-f", "json").json
    assert document["details"]["parameters"] == 12 * 7 + 7 + 7 * 5 + 5 + 5 * 3 + 3


@pytest.mark.parametrize("form", ["csv", "markdown"])
def test_other_formats_hold_the_guarantee(dpcalc, archive, form):
    assert "0.384" in dpcalc(*QUICK, "--data", archive, "-f", form).out


def test_more_steps_than_anybody_can_wait_for_are_refused(dpcalc, tmp_path) -> None:
    (tmp_path / "data.csv").write_text("a,label\n" + "".join(f"{n},{n % 2}\n" for n in range(8)))
    words = ["--model", "logistic", "--data", tmp_path / "data.csv", "--noise-multiplier", 3]
    for number in ("1e300", "1e12"):
        outcome = dpcalc("train", *words, "--algorithm", "cgd", "--batch-size", 4, "--epochs", number)
        assert outcome.code == 2
        assert "at most 10,000,000,000 steps" in outcome.err


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("--model logistic --hidden 3", "--hidden"),
        ("--filter-mode clip", "--filter-mode"),
        ("--quantile 0.4", "--quantile"),
        ("--clip-rate 0.4", "--clip-rate"),
        ("--clipping quantile --lr-rate 0.4", "--lr-rate"),
        ("--direction-noise 3", "--direction-noise"),
        ("--model logistic --activation leaky-relu", "--activation"),
        ("--algorithm gd --batch-size 3", "--batch-size"),
        # Given as it is by itself, it has no more effect.
        ("--quantile 0.5", "--quantile"),
        ("--clip-rate 0.0025", "--clip-rate"),
        ("--filter-mode drop", "--filter-mode"),
        ("--model logistic --activation relu", "--activation"),
        ("--algorithm gd --batch-size 512", "--batch-size"),
        ("--look-noise 0.01", "--look-noise"),
        ("--stop-by gaussian", "--stop-by"),
    ],
)
def test_an_option_without_effect_is_refused(dpcalc, words, flag) -> None:
    outcome = dpcalc("train", *words.split())
    assert outcome.code == 2
    assert f"{flag}: has no effect with" in outcome.err
