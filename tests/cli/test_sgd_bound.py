"""`dpcalc sgd-bound`: the contract's fields, units that cannot be confused, sweeps, targets and refusals."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

LOGISTIC = (
    *("--lr", "0.05", "--sensitivity", "10", "--n", "60000", "--batch-size", "1500"),
    *("--strong-convexity", "0.002", "--smoothness", "32.504", "--delta", "1e-5"),
)
CGD = ("sgd-bound", "--algorithm", "cgd", *LOGISTIC)
SGD = ("sgd-bound", "--algorithm", "sgd", *LOGISTIC)
GD = ("sgd-bound", "--algorithm", "gd", "--lr", "0.1", "--sensitivity", "1", "--n", "10", "--delta", "1e-5")


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


@pytest.mark.parametrize(
    ("epochs", "published"),
    [(50, (0.992, 4.339, 5.82, 30.51)), (100, (1.235, 5.601, 7.61, 49.88)), (200, (1.593, 7.579, 9.88, 83.83))],
)
def test_published_numbers_of_logistic_regression(dpcalc, epochs, published) -> None:
    mu, epsilon, rdp, composition = published
    document = dpcalc(*CGD, "--sigma", "0.01", "--epochs", epochs, "-f", "json").json
    assert document["mu"] == pytest.approx(mu, abs=6e-4)
    assert document["epsilon"] == pytest.approx(epsilon, abs=6e-4)
    assert (document["adjacency"], document["guarantee"], document["mu_kind"]) == ("replace-one", "certified", "upper")
    details = document["details"]
    assert details["contraction"] == pytest.approx(0.9999)
    assert details["tau"] == 0
    bounds = {bound["name"]: bound for bound in details["bounds"]}
    assert bounds["shifted-interpolation"]["theorem"] == "Bok et al., Theorem 4.5"
    assert bounds["rdp"]["epsilon"] == pytest.approx(rdp, abs=6e-3)
    assert bounds["composition"]["epsilon"] == pytest.approx(composition, abs=6e-3)
    assert document["epsilon"] == min(bound["epsilon"] for bound in details["bounds"])


@pytest.mark.parametrize(("epochs", "epsilon", "mu"), [(50, 4.438, 1.03), (100, 6.654, 1.45), (200, 10.113, 2.05)])
def test_random_batches_are_certified_and_the_central_limit_is_labelled(dpcalc, epochs, epsilon, mu) -> None:
    document = dpcalc(*SGD, "--sigma", "0.01", "--epochs", epochs, "-f", "json").json
    assert document["guarantee"] == "certified"
    assert document["epsilon_lower"] <= document["epsilon"]
    assert document["epsilon"] == pytest.approx(epsilon, abs=6e-4)
    assert document["details"]["clt"]["guarantee"] == "approximate"
    assert document["details"]["clt"]["mu"] == pytest.approx(mu, abs=6e-3)


def test_full_batches_on_strongly_convex_losses_are_exact(dpcalc) -> None:
    document = dpcalc(
        *GD, "--sigma", "1", "--steps", "100", "--strong-convexity", "1", "--smoothness", "4", "-f", "json"
    ).json
    power = 0.9**100
    assert document["mu"] == pytest.approx(math.sqrt((1 - power) / (1 + power) * 1.9 / 0.1) * 0.1, rel=1e-9)
    assert document["mu_kind"] == "exact"
    assert document["epsilon_lower"] == pytest.approx(document["epsilon"], rel=1e-9)


def test_sigma_and_noise_multiplier_are_two_names_for_one_thing(dpcalc) -> None:
    by_sigma = dpcalc(*CGD, "--sigma", "0.01", "--epochs", 50, "-f", "json").json
    by_multiplier = dpcalc(*CGD, "--noise-multiplier", "1.5", "--epochs", 50, "-f", "json").json
    assert by_sigma["epsilon"] == pytest.approx(by_multiplier["epsilon"], rel=1e-12)
    assert by_sigma["details"]["noise_multiplier"] == pytest.approx(1.5)
    assert any("average" in line for line in by_sigma["assumptions"])
    assert any("twice a clipping norm" in line for line in by_sigma["assumptions"])


@pytest.mark.parametrize("command", [CGD, SGD])
def test_the_result_feeds_compose(dpcalc, tmp_path, command) -> None:
    file = tmp_path / "run.json"
    first = dpcalc(*command, "--sigma", "0.01", "--epochs", 50, "-f", "json")
    file.write_text(first.out, encoding="utf-8")
    again = dpcalc("compose", file, "--delta", "1e-5", "-f", "json").json
    assert again["adjacency"] == "replace-one"
    assert again["epsilon"] == pytest.approx(first.json["epsilon"], rel=2e-3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--sigma", "0.01", "--epochs", "5", "--lr", "0.0625"), "2/M"),
        (("--sigma", "0.01", "--epochs", "5", "--strong-convexity", "40"), "m ≤ M"),
        (("--sigma", "0.01", "--epochs", "5", "--batch-size", "1501"), "divide n"),
        (("--sigma", "0.01", "--steps", "0"), "--steps"),
        (("--sigma", "0.01", "--steps", "1.5"), "--steps"),
        (("--sigma", "nan", "--steps", "1"), "--sigma"),
        (("--sigma", "inf", "--steps", "1"), "--sigma"),
        (("--sigma", "0.01"), "--steps t or --epochs E"),
        (("--sigma", "0.01", "--steps", "4", "--epochs", "1"), "not both"),
        (("--epochs", "5"), "--sigma σ and --noise-multiplier z"),
        (("--sigma", "1", "--noise-multiplier", "1", "--epochs", "5"), "not both"),
        (("--sigma", "solve", "--epochs", "5"), "--target-epsilon"),
        (("--sigma", "1", "--epochs", "5", "--target-epsilon", "3"), "--target-epsilon"),
        (("--sigma", "1", "--epochs", "5", "--plot", "x.png"), "--sweep"),
        (("--sigma", "1", "--sweep", "epochs=3"), None),
        (("--sigma", "1", "--sweep", "colour=3"), "--sweep"),
        (("--sigma", "1", "--epochs", "5", "--delta", "2"), "--delta"),
        (("--schedule", "missing.csv"), "missing.csv"),
    ],
)
def test_what_is_wrong_is_named(dpcalc, arguments, named) -> None:
    result = dpcalc(*settled(*CGD, *arguments))
    if named is None:
        assert result.code == 0
        return
    assert result.code == 2
    assert named in result.err
    assert len(result.err.strip().splitlines()) <= 2


def test_no_convexity_information_is_refused(dpcalc) -> None:
    result = dpcalc(*GD, "--sigma", "1", "--steps", "10")
    assert (result.code, result.out) == (2, "")
    assert "no convexity information" in result.err


def test_the_step_size_condition_cannot_be_skipped(dpcalc) -> None:
    result = dpcalc(*GD, "--sigma", "1", "--steps", "10", "--strong-convexity", "1")
    assert result.code == 2
    assert "--smoothness" in result.err


def test_over_budget_is_exit_1_and_still_prints(dpcalc) -> None:
    result = dpcalc(*CGD, "--sigma", "0.01", "--epochs", "50", "--max-epsilon", "4", "-f", "json")
    assert result.code == 1
    assert result.json["budget"]["within"] is False


def test_a_sweep_has_one_row_per_value_in_every_format(dpcalc) -> None:
    sweep = (*CGD, "--sigma", "0.01", "--sweep", "epochs=50:200:50")
    rows = list(csv.DictReader(io.StringIO(dpcalc(*sweep, "-f", "csv").out)))
    assert [float(row["epochs"]) for row in rows] == [50, 100, 150, 200]
    assert float(rows[0]["epsilon"]) == pytest.approx(4.339, abs=6e-4)
    assert float(rows[3]["epsilon_composition"]) == pytest.approx(83.83, abs=6e-3)
    document = dpcalc(*sweep, "-f", "json").json
    assert [row["epochs"] for row in document["details"]["sweep"]] == [50, 100, 150, 200]
    assert document["epsilon"] == pytest.approx(7.579, abs=6e-4)  # the largest, so that a limit holds for all
    assert dpcalc(*sweep, "-f", "markdown").out.count("shifted-interpolation") >= 4
    assert "4.340" in dpcalc(*sweep).out


def test_a_sweep_can_be_drawn(dpcalc, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    for name, start in (("sweep.png", b"\x89PNG"), ("sweep.svg", b"<?xml")):
        file = tmp_path / name
        assert dpcalc(*CGD, "--sigma", "0.01", "--sweep", "epochs=50:200:50", "--plot", file).code == 0
        assert file.read_bytes().startswith(start)
    refused = dpcalc(*CGD, "--sigma", "0.01", "--sweep", "epochs=50:200:50", "--plot", tmp_path / "sweep.txt")
    assert (refused.code, "--plot" in refused.err) == (2, True)


def test_targets(dpcalc) -> None:
    longest = dpcalc(*CGD, "--sigma", "0.01", "--target-epsilon", "5", "-f", "json").json
    assert longest["epsilon"] <= 5
    assert longest["details"]["solution"] == longest["details"]["steps"]
    least = dpcalc(*CGD, "--sigma", "solve", "--epochs", "100", "--target-epsilon", "5", "-f", "json").json
    assert least["epsilon"] <= 5
    assert 0.01 < least["details"]["solution"] < 0.012


def test_a_schedule_replaces_step_size_and_noise(dpcalc, tmp_path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("step,lr,sigma\n1,0.05,0.01\n2000,0.05,0.01\n", encoding="utf-8")
    without_rate = tuple(word for pair in zip(CGD[3::2], CGD[4::2], strict=True) if pair[0] != "--lr" for word in pair)
    command = (*CGD[:3], *without_rate)
    scheduled = dpcalc(*command, "--schedule", file, "-f", "json").json
    assert scheduled["details"]["steps"] == 2000
    assert scheduled["epsilon"] == pytest.approx(4.339, abs=6e-4)
    both = dpcalc(*CGD, "--schedule", file)
    assert (both.code, "--lr" in both.err) == (2, True)
    piped = dpcalc(*command, "--schedule", "-", "-f", "json", stdin=file.read_text(encoding="utf-8"))
    assert piped.json["epsilon"] == scheduled["epsilon"]


def test_a_million_random_batches(dpcalc) -> None:
    document = dpcalc(
        *("sgd-bound", "--algorithm", "sgd", "--lr", "0.2", "--sigma", "3", "--sensitivity", "50", "--n", "10000"),
        *(
            "--batch-size",
            "100",
            "--steps",
            "1e6",
            "--diameter",
            "1",
            "--smoothness",
            "1",
            "--delta",
            "1e-5",
            "-f",
            "json",
        ),
    ).json
    names = {bound["name"]: bound["epsilon"] for bound in document["details"]["bounds"]}
    assert names["optimal-shifts"] == document["epsilon"] < names["shifted-interpolation"] < names["composition"]
    assert json.dumps(document["mechanisms"])
