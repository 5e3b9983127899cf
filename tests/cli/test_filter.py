"""`dpcalc filter`: the contract's fields, exit codes and files."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpcalc.conversions import gdp_epsilon, gdp_mu

NORMS = np.random.default_rng(0).random((25, 40))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    np.save(tmp_path / "norms.npy", NORMS)
    return tmp_path / "norms.npy"


def test_the_fields_of_the_contract(dpcalc, log: Path) -> None:
    result = dpcalc("filter", log, "--filter", "gdp", "--sigma", 2, "--mu", 1, "--delta", "1e-5", "-f", "json")
    document, details = result.json, result.json["details"]
    assert result.code == 0
    assert document["mu"] == pytest.approx(1, rel=1e-11)
    assert document["epsilon"] == pytest.approx(4.37717810, abs=5e-8)  # published ε of 1-GDP at δ = 1e-5
    assert (document["guarantee"], document["adjacency"]) == ("certified", "add-remove")
    assert (details["steps"], details["individuals"], details["halt_step"]) == (25, 40, None)
    assert len(details["active_per_step"]) == 25
    assert details["active_per_step"][0] == 40
    assert details["dropped_records"] == 40
    assert len(details["spent"]) == len(details["individual_epsilon"]) == 6
    assert details["spent"][-1] <= document["mu"]
    assert details["individual_epsilon"][-1] <= document["epsilon"]


def test_the_result_feeds_back_to_compose(dpcalc, log: Path, tmp_path: Path) -> None:
    for budget in (["gdp", "--mu", 0.7], ["rdp", "--norm-budget", 2], ["rdp", "--order", 8, "--rho", 0.5]):
        saved = tmp_path / "result.json"
        dpcalc("filter", log, "--sigma", 2, "--delta", "1e-5", "-f", "json", "-o", saved, "--filter", *budget)
        again = dpcalc("compose", saved, "--delta", "1e-5", "-f", "json").json
        assert again["epsilon"] == pytest.approx(json.loads(saved.read_text())["epsilon"], rel=1e-9)


def test_limits_are_checked_against_the_budget_and_not_what_was_spent(dpcalc, log: Path) -> None:
    command = ["filter", log, "--filter", "gdp", "--sigma", 2000, "--epsilon", 1, "--delta", "1e-5"]
    assert dpcalc(*command, "--max-epsilon", 1).code == 0
    assert dpcalc(*command, "--max-epsilon", 0.9).code == 1


def test_norms_above_the_clip_are_clipped_and_counted(dpcalc, log: Path) -> None:
    command = ["filter", log, "--filter", "gdp", "--noise-multiplier", 4, "--clip", 0.5, "--norm-budget", 25 * 0.25]
    result = dpcalc(*command, "-f", "json")
    assert result.json["details"]["dropped_records"] == 0
    assert any(line.startswith(f"{(NORMS > 0.5).sum()} norms above the clip") for line in result.json["warnings"])


def test_the_gdp_filter_refuses_sampling_and_says_why(dpcalc, log: Path) -> None:
    result = dpcalc("filter", log, "--filter", "gdp", "--sigma", 2, "--mu", 1, "--sample-rate", 0.01)
    assert result.code == 2
    assert "without sampling" in result.err


def test_the_rdp_filter_under_sampling_is_certified_and_its_individual_epsilon_is_not(dpcalc, log: Path) -> None:
    options = ["--noise-multiplier", 1, "--clip", 1, "--sample-rate", 0.05, "--epsilon", 0.8, "--delta", "1e-5"]
    document = dpcalc("filter", log, "--filter", "rdp", *options, "-f", "json").json
    assert document["guarantee"] == "certified"
    assert document["epsilon"] <= 0.8
    assert document["mechanisms"][0]["type"] == "rdp"
    assert document["details"]["individual_epsilon_kind"] == "after-the-fact"
    assert "neither exact nor a bound" in document["details"]["individual_epsilon_reason"]
    assert document["details"]["individual_epsilon"][-1] <= 0.8 * 1.01
    assert document["details"]["fitted_mu"]["kind"] == "approximate"


def test_a_global_list_halts_at_its_step(dpcalc) -> None:
    lines = "step,mu\n" + "".join(f"{step},0.01\n" for step in range(1, 601))
    options = ["--filter", "gdp", "--scope", "global", "--epsilon", 0.8157, "--delta", "1e-5", "-f", "json"]
    document = dpcalc("filter", "-", *options, stdin=lines).json
    assert document["details"]["halt_step"] == 496
    assert sum(document["details"]["active_per_step"]) == 495
    bare = dpcalc("filter", "-", *options, stdin="0.01\n" * 600).json
    assert bare["details"]["halt_step"] == 495


def test_a_global_run_goes_on_after_a_refusal(dpcalc) -> None:
    options = ["--filter", "gdp", "--scope", "global", "--mu", 1]
    log = "step,mu\n" + "".join(f"{step},{mu}\n" for step, mu in enumerate([0.6, 0.9, 0.1, 0.79, 0.8], start=1))
    details = dpcalc("filter", "-", *options, "-f", "json", stdin=log).json["details"]
    assert details["active_per_step"] == [1, 0, 1, 1, 0]
    assert details["halt_step"] == 2
    assert "leave out step 2 and 1 more: 3 of 5 steps fit μ = 1" in dpcalc("filter", "-", *options, stdin=log).out
    lines = log.splitlines(keepends=True)
    for count, words in (
        (2, "the only step fits μ = 1"),
        (3, "stop before step 2: 1 of 2 steps fit μ = 1"),
        (4, "leave out step 2: 2 of 3 steps fit μ = 1"),
    ):
        assert words in dpcalc("filter", "-", *options, stdin="".join(lines[:count])).out


@pytest.mark.parametrize("options", [["--mu", 1.45], ["--epsilon", 6.75, "--delta", "1e-5"], ["--norm-budget", 8.41]])
def test_a_finished_run_is_held_against_its_budget(dpcalc, log: Path, options: list[object]) -> None:
    command = ["filter", log, "--filter", "gdp", "--sigma", 2, *options, "--finished"]
    norms = np.load(log)
    spent = np.sqrt((norms**2).sum(axis=0)) / 2
    budget = 1.45 if "--epsilon" not in options else gdp_mu(6.75, 1e-5)
    over = int((spent > budget).sum())
    assert 0 < over < 40
    result = dpcalc(*command)
    assert result.code == 1
    assert f"NO: {over} of 40 records took part beyond " in result.out
    document = dpcalc(*command, "-f", "json").json
    assert document["epsilon"] is None
    assert document["mu"] is None
    assert document["details"]["beyond_budget"] == over
    assert document["details"]["within"] is False
    assert document["details"]["dropped_records"] == 0
    assert document["details"]["active_per_step"] == [40] * 25
    assert document["details"]["spent"][-1] == pytest.approx(spent.max(), rel=1e-12)


def test_a_finished_run_that_kept_its_budget_has_it_as_a_guarantee(dpcalc, log: Path, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    options = ["--filter", "gdp", "--sigma", 2, "--mu", 3, "--delta", "1e-5", "--finished", "--per-individual", people]
    result = dpcalc("filter", log, *options)
    assert result.code == 0
    assert "yes: all 40 records stayed within μ = 3 (the most: μ = " in result.out
    document = dpcalc("filter", log, *options, "-f", "json").json
    assert document["mu"] == pytest.approx(3, rel=1e-11)
    assert document["details"]["within"] is True
    assert any("no log can show that" in line for line in document["assumptions"])
    assert people.read_text().splitlines()[1] == "id,steps_active,spent,epsilon,within_budget"


def test_equality_is_within_the_budget_of_a_finished_run(dpcalc, tmp_path: Path) -> None:
    path = tmp_path / "log.npy"
    np.save(path, np.full((30, 2), 0.1))
    command = ["filter", path, "--filter", "gdp", "--sigma", 1, "--finished", "--norm-budget"]
    assert dpcalc(*command, 0.3).code == 0
    assert dpcalc(*command, 0.2999999).code == 1


def test_without_a_budget_a_finished_run_is_an_audit(dpcalc, log: Path) -> None:
    command = ["filter", log, "--filter", "gdp", "--sigma", 2, "--delta", "1e-5", "--finished"]
    result = dpcalc(*command)
    assert result.code == 0
    assert "there is no budget to hold it against" in result.out
    document = dpcalc(*command, "-f", "json").json
    assert document["epsilon"] is None
    assert document["details"]["within"] is None
    assert document["details"]["individual_epsilon"][-1] > 0
    assert dpcalc("filter", log, "--filter", "gdp", "--sigma", 2).code == 2


def test_a_finished_list_of_epsilons(dpcalc) -> None:
    options = ["--filter", "dp", "--scope", "global", "--epsilon", 1, "--delta", "1e-6", "--finished"]
    assert dpcalc("filter", "-", *options, stdin="0.1\n" * 10).code == 0
    over = dpcalc("filter", "-", *options, stdin="0.1\n" * 11)
    assert over.code == 1
    assert "NO: the run went beyond ε = 1 at δ = 1e-6 (the most: Σε = 1.1" in over.out


def test_an_odometer_without_a_budget_says_so(dpcalc) -> None:
    options = ["--filter", "gdp", "--scope", "global", "--odometer", 0.5, "--delta", "1e-5"]
    log = "step,mu\n" + "".join(f"{step},0.3\n" for step in range(1, 8))
    result = dpcalc("filter", "-", *options, stdin=log)
    assert "budget" not in result.out.replace("no budget", "").replace("the budget was fixed", "")
    # Rounded up, with what a stretch may pass its width by.
    assert re.search(r"the loss up to step 7 is at most μ = 1 \+ \de-13 \(stretches of 0.5, no budget\)", result.out)
    for words in ("stretch", "ends at step", "loss up to there (μ)", "ε at δ = 1e-5"):
        assert words in result.out
    document = dpcalc("filter", "-", *options, "-f", "json", stdin=log).json
    assert document["details"]["odometer"]["stopping_times"] == [2, 4, 6, 7]
    assert document["details"]["odometer"]["loss"] == pytest.approx([0.5, math.sqrt(0.5), math.sqrt(0.75), 1])
    assert document["details"]["odometer"]["epsilon"][-1] == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-9)
    assert "C.5" in document["theorem"]


def test_what_is_proved_stands_beside_what_is_read_off(dpcalc, log: Path) -> None:
    options = ["--filter", "gdp", "--sigma", 2, "--mu", 1, "--delta", "1e-5", "--anytime", 0.2, "--odometer", 0.9]
    details = dpcalc("filter", log, *options, "-f", "json").json["details"]
    assert details["individual_epsilon_kind"] == "after-the-fact"
    proved = {line["by"]: line for line in details["proved"]}
    assert set(proved) == {"budget", "odometer", "anytime"}
    assert proved["budget"]["epsilon"] == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-9)
    assert all(a > b for a, b in zip(proved["anytime"]["epsilon"], details["individual_epsilon"], strict=True))
    result = dpcalc("filter", log, *options)
    assert "at all times  own ε from" in result.out
    assert "own ε: after the fact, neither exact nor a bound" in result.out


def test_the_natural_pld_filter_is_refused_by_name(dpcalc, log: Path) -> None:
    refused = dpcalc("filter", log, "--filter", "pld", "--sigma", 2, "--epsilon", 1, "--delta", "1e-5")
    assert refused.code == 2
    assert "unsound: curves cross" in refused.err


def test_the_dp_filter_takes_epsilons(dpcalc) -> None:
    options = ["--filter", "dp", "--scope", "global", "--epsilon", 1, "--delta", "1e-6", "-f", "json"]
    document = dpcalc("filter", "-", *options, stdin="epsilon\n" + "0.01\n" * 600).json
    # ½Σε² ≤ B*, and the closed form of Theorem 4.9 gives B* ≥ 0.0174689, so at least 349 steps; the best B* gives 487.
    assert sum(document["details"]["active_per_step"]) >= 487
    assert document["epsilon"] <= 1


def test_an_odometer_beside_a_filter_never_tells_more_than_the_budget(dpcalc) -> None:
    log = "step,mu\n" + "".join(f"{step},0.3\n" for step in range(1, 8))
    options = ["--filter", "gdp", "--scope", "global", "--odometer", 0.5, "--mu", 0.7]
    found = dpcalc("filter", "-", *options, "-f", "json", stdin=log).json["details"]["odometer"]
    assert found["stopping_times"] == [2, 4, 5]
    # √m of the width, and at most 0.7: 5 · 0.3² = 0.45 is below 0.49, which is below 3 · 0.5².
    assert found["loss"] == pytest.approx([0.5, 0.7, 0.7])
    shown = dpcalc("filter", "-", *options, stdin=log).out
    assert "stop before step 6: 5 of 7 steps fit μ = 0.7" in shown
    assert re.search(r"0.5 \+ \de-13$", shown, re.MULTILINE)


def test_an_odometer_of_renyi_losses_tells_no_mu(dpcalc, tmp_path: Path) -> None:
    """Eight steps of norm 1 under σ = 2 are Σ ½(1/2)² = 1-zCDP, and √2-GDP."""
    np.save(tmp_path / "log.npy", np.ones((8, 1)))
    options = ["--filter", "rdp", "--sigma", 2, "--odometer", 0.5]
    result = dpcalc("filter", tmp_path / "log.npy", *options)
    assert re.match(r"nobody's loss is above ρ = 1 \+ \de-13 \(stretches of 0.5, no budget\)", result.out)
    found = dpcalc("filter", tmp_path / "log.npy", *options, "-f", "json").json["details"]["odometer"]
    assert found["unit"] == "zCDP rho"
    assert found["largest_loss"] == pytest.approx(1)
    refused = dpcalc("filter", tmp_path / "log.npy", "--filter", "rdp", "--sigma", 2, "--odometer", 0.1)
    assert "at most the odometer's width 0.1, got 0.125" in refused.err


def test_an_odometer_tells_its_stopping_times(dpcalc) -> None:
    options = ["--filter", "rdp", "--scope", "global", "--order", 2, "--odometer", 1, "-f", "json"]
    document = dpcalc("filter", "-", *options, stdin="step,rho\n1,.4\n2,.4\n3,.4\n4,.4\n5,.4\n").json
    assert document["details"]["odometer"]["stopping_times"] == [2, 4, 5]
    assert document["details"]["odometer"]["loss"] == pytest.approx([1, 2, 3])
    assert document["epsilon"] is None


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_the_per_individual_file_says_that_it_is_sensitive(dpcalc, log: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    options = ["--filter", "gdp", "--sigma", 2, "--mu", 1, "--delta", "1e-5", "--per-individual", path]
    result = dpcalc("filter", log, *options)
    assert "SENSITIVE" in result.err
    if name.endswith("csv"):
        mark, header, *rows = path.read_text().splitlines()
        assert "SENSITIVE" in mark
        assert header == "id,steps_active,spent,epsilon"
        assert [row.split(",")[0] for row in rows] == [str(i) for i in range(40)]
    else:
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
        assert b"SENSITIVE" in table.schema.metadata[b"sensitivity"]
        assert table.num_rows == 40


def test_groups_have_their_own_counts(dpcalc, log: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups.csv"
    groups.write_text("id,group\n" + "".join(f"{i},{'odd' if i % 2 else 'even'}\n" for i in range(40)))
    options = ["--filter", "gdp", "--sigma", 2, "--mu", 1, "--delta", "1e-5", "--groups", groups]
    details = dpcalc("filter", log, *options, "-f", "json").json["details"]
    both = np.array([details["groups"][name]["active_per_step"] for name in ("even", "odd")])
    assert both.sum(axis=0).tolist() == details["active_per_step"]
    assert "Subgroups" in dpcalc("filter", log, *options).out
    groups.write_text("id,group\n0,a\n")
    refused = dpcalc("filter", log, *options)
    assert refused.code == 2
    assert "individual 1 is in no group" in refused.err


def test_a_state_gives_the_same_answer_twice(dpcalc, log: Path, tmp_path: Path) -> None:
    command = ["filter", log, "--filter", "gdp", "--sigma", 2, "--mu", 1, "-f", "json"]
    plain = dpcalc(*command).json
    first = dpcalc(*command, "--state", tmp_path / "state")
    second = dpcalc(*command, "--state", tmp_path / "state")
    assert plain == first.json == second.json
    assert "25 steps had been counted" in second.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--filter", "gdp", "--sigma", 2], "exactly one budget"),
        (["--filter", "gdp", "--mu", 1], "--sigma"),
        (["--filter", "gdp", "--noise-multiplier", 2, "--mu", 1], "--clip"),
        (["--filter", "gdp", "--sigma", 2, "--epsilon", 1], "--delta"),
        (["--filter", "gdp", "--sigma", "nan", "--mu", 1], "expected a number"),
        (["--filter", "gdp", "--sigma", 2, "--mu", -1], "number in"),
        (["--filter", "rdp", "--sigma", 2, "--rho", 1], "--order"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--scope", "global"], "one parameter for each step"),
        (["--filter", "dp", "--mu", 1], "--epsilon with --delta"),
        (["--filter", "dp", "--sigma", 2, "--epsilon", 1, "--delta", "1e-5"], "belongs to norms"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--scheduler", "tcp://localhost:1"], "--engine dask"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--steps-delta", "1e-6"], "a part of --delta"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--delta", "1e-5", "--steps-delta", "1e-6"], "no column delta"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--anytime", 1], "--delta"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--mode", "clip", "--finished"], "in hindsight"),
        (["--filter", "gdp", "--sigma", "1e200", "--mu", 1], "other units"),
        (["--filter", "rdp", "--sigma", "1e-200", "--norm-budget", "1e300"], "other units"),
        (["--filter", "gdp", "--sigma", 2, "--mu", 1, "--engine", "dask"], "not arrays"),
        (["--filter", "nothing"], "gdp"),
    ],
)
def test_contradictions_end_with_two(dpcalc, log: Path, options: list[object], words: str) -> None:
    result = dpcalc("filter", log, *options)
    assert result.code == 2
    assert words in result.err


def test_a_missing_file_ends_with_two(dpcalc) -> None:
    result = dpcalc("filter", "nowhere.npy", "--filter", "gdp", "--sigma", 1, "--mu", 1)
    assert result.code == 2
    assert "nowhere.npy" in result.err
