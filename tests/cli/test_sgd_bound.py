"""`dpcalc sgd-bound`: the contract's fields, units that cannot be confused, sweeps, targets and refusals."""

from __future__ import annotations

import csv
import io
import json
import math
import re

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
    assert bounds["shifted-interpolation"]["theorem"] == "Bok et al. 2024, Theorem 4.5"
    assert bounds["rdp"]["epsilon"] == pytest.approx(rdp, abs=6e-3)
    assert bounds["composition"]["epsilon"] == pytest.approx(composition, abs=6e-3)
    assert document["epsilon"] == min(bound["epsilon"] for bound in details["bounds"])


@pytest.mark.parametrize(("epochs", "epsilon", "mu"), [(50, 4.438, 1.03), (100, 6.654, 1.45), (200, 10.113, 2.05)])
def test_random_batches_are_certified_and_the_central_limit_is_labelled(dpcalc, epochs, epsilon, mu) -> None:
    document = dpcalc(*SGD, "--sigma", "0.01", "--epochs", epochs, "-f", "json").json
    assert document["guarantee"] == "certified"
    assert document["epsilon_lower"] is None  # what composition attains, the last iterate need not
    assert document["epsilon"] == pytest.approx(epsilon, abs=6e-4 + 1e-4 * epsilon)  # an upper bound to 1e-4
    assert document["details"]["clt"]["guarantee"] == "approximate"
    assert document["details"]["clt"]["mu"] == pytest.approx(mu, abs=6e-3)


def test_full_batches_on_strongly_convex_losses_are_exact(dpcalc) -> None:
    document = dpcalc(
        *GD, "--sigma", "1", "--steps", "100", "--strong-convexity", "1", "--smoothness", "4", "-f", "json"
    ).json
    power = 0.9**100
    assert document["mu"] == pytest.approx(math.sqrt((1 - power) / (1 + power) * 1.9 / 0.1) * 0.1, rel=1e-9)
    assert document["mu_kind"] == "exact"
    assert document["epsilon_lower"] is None  # a bound on a class: a run may be far better


def test_a_noise_multiplier_means_what_it_means_in_training(dpcalc) -> None:
    """Bok et al., Table 4: noise 15 = 3·5 on the sum of 1,500 gradients clipped at 5."""
    by_sigma = dpcalc(*CGD, "--sigma", "0.01", "--epochs", 50, "-f", "json").json
    clipped = ("sgd-bound", "--algorithm", "cgd", *without("--sensitivity", LOGISTIC), "--clip", "5", "--epochs", 50)
    by_multiplier = dpcalc(*clipped, "--noise-multiplier", "3", "-f", "json").json
    assert by_multiplier["epsilon"] == pytest.approx(4.339, abs=6e-4)
    assert by_multiplier["epsilon"] == pytest.approx(by_sigma["epsilon"], rel=1e-12)
    relative = dpcalc(*CGD, "--noise-over-sensitivity", "1.5", "--epochs", 50, "-f", "json").json
    assert relative["epsilon"] == pytest.approx(by_sigma["epsilon"], rel=1e-12)
    assert by_sigma["details"]["noise_over_sensitivity"] == pytest.approx(1.5)
    assert by_multiplier["details"]["noise_multiplier"] == pytest.approx(3)
    assert by_multiplier["details"]["sensitivity"] == 10
    assert any("average" in line for line in by_sigma["assumptions"])
    assert any("twice a clipping norm" in line for line in by_sigma["assumptions"])


def without(option: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return tuple(word for pair in pairs if pair[0] != option for word in pair)


@pytest.mark.parametrize("more", [(), ("--sensitivity", "10")])
def test_a_bare_noise_multiplier_is_refused_and_both_ways_out_are_named(dpcalc, more) -> None:
    bare = ("sgd-bound", "--algorithm", "cgd", *without("--sensitivity", LOGISTIC), *more, "--epochs", 50)
    result = dpcalc(*bare, "--noise-multiplier", "3")
    assert (result.code, result.out) == (2, "")
    assert "--clip" in result.err
    assert "--noise-over-sensitivity" in result.err


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (GD, ("the start", "regulariser added after clipping", "averaging", "momentum", "softmax")),
        (CGD, ("the start", "partition", "regulariser added after clipping", "averaging", "momentum")),
        (SGD, ("the start", "independently", "secret")),
    ],
)
def test_what_the_theorems_need_is_said(dpcalc, tmp_path, command, words, scheduled) -> None:
    convex = () if command is not GD else ("--strong-convexity", "1", "--smoothness", "4")
    if scheduled:
        file = tmp_path / "plan.csv"
        file.write_text("step,lr,sigma\n1,0.05,0.01\n900,0.04,0.02\n2000,0.03,0.01\n", encoding="utf-8")
        run = (*command[:3], *without("--lr", command[3:]), "--schedule", file)
    else:
        run = (*command, "--sigma", "0.01", "--steps", "2000")
    text = " ".join(dpcalc(*run, *convex, "-f", "json").json["assumptions"])
    for word in words:
        assert word in text
    assert ("secret" in text) == (command is SGD)
    assert ("partition" in text) == (command is CGD)


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
        (("--epochs", "5"), "--sigma, --noise-multiplier, --noise-over-sensitivity"),
        (("--sigma", "1", "--noise-multiplier", "1", "--epochs", "5"), "--sigma and as --noise-multiplier"),
        (("--sigma", "1", "--clip", "5", "--epochs", "5"), "--sensitivity L and --clip C"),
        (("--sigma", "solve", "--epochs", "5"), "--target-epsilon"),
        (("--sigma", "1", "--epochs", "5", "--target-epsilon", "3"), "--target-epsilon"),
        (("--sigma", "1", "--epochs", "5", "--plot", "x.gif"), "--plot"),
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


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize(("command", "uses"), [(GD, 36), (CGD, 1), (SGD, None)])
def test_without_convexity_information_the_answer_is_composition_and_says_why(
    dpcalc, tmp_path, command, uses, scheduled
) -> None:
    command = (*command[:3], *without("--strong-convexity", without("--smoothness", command[3:])))
    if scheduled:
        file = tmp_path / "plan.csv"
        file.write_text("step,lr,sigma\n1,0.1,0.01\n36,0.2,0.01\n", encoding="utf-8")
        result = dpcalc(*command[:3], *without("--lr", command[3:]), "--schedule", file, "-f", "json")
    else:
        result = dpcalc(*command, "--sigma", "0.01", "--steps", "36", "-f", "json")
    assert result.code == 0
    document = result.json
    assert [bound["name"] for bound in document["details"]["bounds"]] == ["composition"]
    assert any("no convexity information" in warning for warning in document["warnings"])
    assert document["details"]["contraction"] is None
    if uses is not None:
        details = document["details"]
        assert document["mu"] == pytest.approx(math.sqrt(uses) / details["noise_over_sensitivity"], rel=1e-9)


def test_a_step_that_forgets_everything_costs_one_step(dpcalc) -> None:
    """m = M = 1/η, so c = 0 and ε of the run is that of its last step, sampled at 1/10 with L/(bσ) = 2.5."""
    run = ("--sensitivity", "2", "--n", "200", "--batch-size", "20", "--delta", "1e-6", "-f", "json")
    losses = ("--strong-convexity", "4", "--smoothness", "4")
    document = dpcalc(
        *("sgd-bound", "--algorithm", "sgd", "--lr", "0.25", "--sigma", "0.04", "--steps", "70", *losses, *run)
    ).json
    one = "gaussian,noise_multiplier=0.4,sampling=fixed-size,rate=0.1"
    step = dpcalc("compose", "-m", one, "--adjacency", "replace-one", "--delta", "1e-6", "-f", "json").json
    assert step["epsilon_lower"] <= document["epsilon"] <= step["epsilon"] * (1 + 2e-4)


@pytest.mark.parametrize(("rate", "kind"), [("0.4", "exact"), ("0.4000001", "upper")])
@pytest.mark.parametrize("diameter", [(), ("--diameter", "100")])
def test_mu_is_called_exact_only_where_a_quadratic_attains_it(dpcalc, rate, kind, diameter) -> None:
    command = ("sgd-bound", "--algorithm", "gd", "--lr", rate, "--sigma", "1", "--sensitivity", "1", "--n", "10")
    losses = ("--steps", "20", "--strong-convexity", "1", "--smoothness", "4", "--delta", "1e-5")
    document = dpcalc(*command, *losses, *diameter, "-f", "json").json
    assert document["mu_kind"] == ("upper" if diameter else kind)
    assert document["epsilon_lower"] is None


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
    assert dpcalc(*sweep, "-f", "markdown").out.count("last iterate, Rényi") == 1
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


def test_a_sweep_tells_its_best_and_its_worst_first() -> None:
    import dpcalc as api

    setting = {"algorithm": "gd", "lr": 0.1, "sigma": 0.1, "sensitivity": 1, "n": 100, "delta": 1e-5}
    convex = {"strong_convexity": 0.1, "smoothness": 1}
    ends = [api.sgd_bound(**setting, **convex, steps=steps).epsilon for steps in (10, 50)]
    swept = api.sgd_bound(**setting, **convex, sweep="steps=10:50:40")
    first, *rest = str(swept).splitlines()
    assert swept.epsilon == max(ends)
    told = re.fullmatch(r"ε from ([\d.]+) \(steps = 10\) to ([\d.]+) \(steps = 50\) at δ = 1e-5", first)
    assert told is not None
    assert all(epsilon <= float(text) <= 1.001 * epsilon for epsilon, text in zip(ends, told.groups(), strict=True))
    assert rest[1].split("  ")[-3:] == ["every iterate", "last iterate", "last iterate, Rényi"]
