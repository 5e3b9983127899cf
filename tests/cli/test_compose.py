"""`dpcalc compose` from the outside: its numbers, its round trips, and how it meets bad input."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcalc.conversions import gdp_epsilon

Run = Callable[..., Any]

GAUSSIAN = "gaussian,noise_multiplier=2"
MNIST = "gaussian,noise_multiplier=1.1,sampling=poisson,rate=256/60000,count=14063"


def test_gaussians_have_the_published_epsilon(dpcalc: Run) -> None:
    """Koskela et al.: σ = 100, 420 steps, δ = 1e-5 is ε = 0.7451 by GDP."""
    result = dpcalc("compose", "-m", "gaussian,noise_multiplier=100,count=420", "--delta", "1e-5", "-f", "json").json
    assert result["epsilon"] == pytest.approx(0.7451, abs=5e-5)
    assert result["mu"] == pytest.approx(math.sqrt(420) / 100, rel=1e-12)
    assert result["mu_kind"] == "exact"
    assert result["guarantee"] == "certified"
    assert result["epsilon_lower"] == pytest.approx(result["epsilon"], rel=1e-9)


def test_poisson_sampled_training_is_certified_around_its_exact_epsilon(dpcalc: Run) -> None:
    result = dpcalc("compose", "-m", MNIST, "--delta", "1e-5", "-f", "json").json
    assert result["epsilon_lower"] <= 2.38168973 <= result["epsilon"]
    assert result["epsilon"] - result["epsilon_lower"] <= 1e-3 * result["epsilon"]


def test_delta_at_epsilon_is_above_the_exact_one(dpcalc: Run) -> None:
    """At ε = 2.5 the exact δ is 4.328259281e-6 (the remove direction is the worse)."""
    result = dpcalc("compose", "-m", MNIST, "--epsilon", "2.5", "-f", "json").json
    assert result["epsilon"] == 2.5
    assert 4.328259281e-6 * (1 - 1e-9) <= result["delta"] <= 4.328259281e-6 * 1.02


def test_the_table_shows_each_mechanism_its_share_and_the_limiting_one(dpcalc: Run) -> None:
    shown = dpcalc("compose", "-m", GAUSSIAN, "-m", "gaussian,noise_multiplier=9,name=small", "--delta", "1e-5")
    assert shown.code == 0
    assert re.search(r"gaussian +gaussian +1 +1\.994 +95 %", shown.out)  # (1/2)² of (1/2)² + (1/9)²
    assert re.search(r"small +gaussian .* 5 %", shown.out)


def test_shares_of_gaussians_are_those_of_their_squared_mu(dpcalc: Run) -> None:
    first, second = "gaussian,noise_multiplier=2,count=3", "gaussian,noise_multiplier=1"
    result = dpcalc("compose", "-m", first, "-m", second, "--delta", "1e-5", "-f", "json").json
    shares = [cost["share"] for cost in result["details"]["mechanisms"]]
    assert shares == pytest.approx([0.75 / 1.75, 1 / 1.75])
    alone = dpcalc("compose", "-m", second, "--delta", "1e-5", "-f", "json").json
    assert result["details"]["mechanisms"][1]["epsilon"] == pytest.approx(alone["epsilon"], rel=1e-9)


def test_a_long_list_is_broken_down_in_one_go(dpcalc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes are asked as a whole; own ε are above the closed form of a Gaussian that is sampled always."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("dpcalc.pairs.gaussian.SampledGaussian.two_sided_rdp", never)
    noises = [3 + k / 7 for k in range(17)]
    entries = [f"gaussian,noise_multiplier={noise!r},sampling=poisson,rate=0.999999" for noise in noises]
    listed = [word for entry in (*entries, entries[0]) for word in ("-m", entry)]
    costs = dpcalc("compose", *listed, "--delta", "1e-5", "-f", "json").json["details"]["mechanisms"]
    assert costs[0] == costs[-1]
    squares = [noise**-2 for noise in (*noises, noises[0])]
    assert [cost["share"] for cost in costs] == pytest.approx([square / sum(squares) for square in squares], rel=1e-4)
    for noise, cost in zip(noises, costs, strict=False):
        exact = gdp_epsilon(1 / noise, 1e-5)
        assert exact * (1 - 1e-4) <= cost["epsilon"] <= 1.5 * exact


def test_a_budget_in_the_spec_has_the_effect_of_the_option(dpcalc: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("delta: 1e-5\nbudget: {epsilon: 1}\nmechanisms: [{type: gaussian, noise_multiplier: 2}]\n")
    outcome = dpcalc("compose", spec, "-f", "json")
    assert outcome.code == 1
    assert outcome.json["budget"] == {"within": False, "max_epsilon": 1.0}
    assert dpcalc("compose", spec, "--max-epsilon", "5").code == 0
    assert dpcalc("compose", "-m", GAUSSIAN, "--delta", "1e-5", "--max-epsilon", "1").code == 1


def test_standard_input_is_a_spec(dpcalc: Run) -> None:
    text = "delta: 1e-5\nmechanisms:\n- {type: gaussian, noise_multiplier: 2}\n"
    piped = dpcalc("compose", "-", "-f", "json", stdin=text).json
    inline = dpcalc("compose", "-m", GAUSSIAN, "--delta", "1e-5", "-f", "json").json
    assert piped["epsilon"] == inline["epsilon"]


def test_the_option_wins_over_the_delta_of_the_spec(dpcalc: Run) -> None:
    text = "delta: 1e-5\nmechanisms:\n- {type: gaussian, noise_multiplier: 2}\n"
    assert dpcalc("compose", "-", "--delta", "1e-7", "-f", "json", stdin=text).json["delta"] == 1e-7


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_result_fed_back_gives_the_same_guarantee(dpcalc: Run, tmp_path: Path, adjacency: str) -> None:
    listed = [
        "gaussian,noise_multiplier=8,count=3,name=größe",
        "laplace,scale=10,sensitivity=2,count=2",
        "gaussian,noise_multiplier=2,sampling=poisson,rate=0.1,count=20",
        "dp-sgd,noise_multiplier=4,sampling=fixed-size,batch_size=10,dataset_size=100,epochs=1",
        "dp-sgd,noise_multiplier=4,sampling=cyclic,epochs=2",
    ]
    flags = [part for mechanism in listed for part in ("-m", mechanism)]
    first = tmp_path / "first.json"
    dpcalc("compose", *flags, "--delta", "1e-5", "--adjacency", adjacency, "-f", "json", "-o", first)
    before = json.loads(first.read_text(encoding="utf-8"))
    after = dpcalc("compose", first, "-f", "json").json
    for key in ("epsilon", "epsilon_lower", "delta", "mu", "rho", "rdp", "adjacency", "guarantee", "mechanisms"):
        assert after[key] == before[key], key


def test_composing_the_results_of_two_halves_gives_the_whole(dpcalc: Run, tmp_path: Path) -> None:
    halves = ["gaussian,noise_multiplier=2,sampling=poisson,rate=0.1,count=20", "laplace,scale=5,sensitivity=1,count=2"]
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for half, path in zip(halves, paths, strict=True):
        dpcalc("compose", "-m", half, "--delta", "1e-5", "-f", "json", "-o", path)
    whole = dpcalc("compose", "-m", halves[0], "-m", halves[1], "--delta", "1e-5", "-f", "json").json
    joined = dpcalc("compose", *paths, "-f", "json").json
    assert joined["epsilon"] == whole["epsilon"]
    assert joined["epsilon_lower"] == whole["epsilon_lower"]


def test_results_under_different_adjacencies_meet_under_replace_one(dpcalc: Run, tmp_path: Path) -> None:
    paths = []
    for adjacency in ("add-remove", "replace-one"):
        paths.append(tmp_path / f"{adjacency}.json")
        dpcalc("compose", "-m", GAUSSIAN, "--delta", "1e-5", "--adjacency", adjacency, "-f", "json", "-o", paths[-1])
    joined = dpcalc("compose", *paths, "-f", "json").json
    assert joined["adjacency"] == "replace-one"
    assert joined["mu"] == pytest.approx(math.hypot(1.0, 0.5), rel=1e-9)


def test_shuffled_batches_warn_and_show_the_poisson_figure(dpcalc: Run) -> None:
    run = "dp-sgd,noise_multiplier=2,batch_size=100,dataset_size=10000,epochs=2,sampling="
    shuffled = dpcalc("compose", "-m", f"{run}shuffled", "--delta", "1e-5", "-f", "json").json
    cyclic = dpcalc("compose", "-m", f"{run}cyclic", "--delta", "1e-5", "-f", "json").json
    poisson = dpcalc("compose", "-m", f"{run}poisson", "--delta", "1e-5", "-f", "json").json
    assert shuffled["epsilon"] == cyclic["epsilon"]
    assert shuffled["details"]["if_poisson_sampled"]["epsilon"] == poisson["epsilon"] < shuffled["epsilon"]
    assert any("must not be reported" in line for line in shuffled["warnings"])


def test_many_different_entries_are_accounted_for_in_seconds(dpcalc: Run) -> None:
    lines = [f"- {{type: gaussian, noise_multiplier: {1 + i / 500}, name: n{i}}}" for i in range(500)]
    start = time.process_time()
    result = dpcalc("compose", "-", "--delta", "1e-5", "-f", "json", stdin="mechanisms:\n" + "\n".join(lines)).json
    assert time.process_time() - start < 10
    assert result["mu"] == pytest.approx(math.sqrt(math.fsum((1 + i / 500) ** -2 for i in range(500))), rel=1e-9)
    assert math.fsum(cost["share"] for cost in result["details"]["mechanisms"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to account for"),
        (("-m", GAUSSIAN), "at which δ?"),
        (("-m", GAUSSIAN, "--delta", "1e-5", "--epsilon", "1"), "give one of them"),
        (("-m", GAUSSIAN, "--delta", "-0.1"), "--delta"),
        (("-m", GAUSSIAN, "--delta", "nan"), "--delta"),
        (("-m", GAUSSIAN, "--epsilon", "-1"), "--epsilon"),
        (("-m", GAUSSIAN, "--delta", "1e-5", "--tolerance", "0"), "--tolerance"),
        (("-m", GAUSSIAN, "--delta", "1e-5", "--accountant", "magic"), "--accountant"),
        (("-m", GAUSSIAN, "--delta", "1e-5", "--adjacency", "near"), "--adjacency"),
        (("-m", "gausian,noise_multiplier=2", "--delta", "1e-5"), "did you mean gaussian?"),
        (("nowhere.yaml", "--delta", "1e-5"), "nowhere.yaml: cannot be read (no such file"),
        ((".", "--delta", "1e-5"), "cannot be read (is a directory"),
        (("-", "-", "--delta", "1e-5"), "only once"),
        (("a\0b", "--delta", "1e-5"), "cannot be read"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_two(dpcalc: Run, arguments: tuple[str, ...], message: str) -> None:
    outcome = dpcalc("compose", *arguments, stdin="")
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 2


@pytest.mark.parametrize("mechanism", ["gaussian,noise_multiplier=1e-299", "gaussian,noise_multiplier=1e-160,count=9"])
def test_noise_too_small_to_compute_with_is_never_called_private(dpcalc: Run, mechanism: str) -> None:
    assert dpcalc("compose", "-m", mechanism, "--delta", "1e-5", "-f", "json").json["epsilon"] == "inf"
    assert dpcalc("compose", "-m", mechanism, "--epsilon", "1", "-f", "json").json["delta"] == 1
    assert dpcalc("compose", "-m", mechanism, "--delta", "1e-5", "--max-epsilon", "1e300").code == 1


def test_specs_that_state_different_deltas_need_the_option(dpcalc: Run, tmp_path: Path) -> None:
    paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for path, delta in zip(paths, ("1e-5", "1e-6"), strict=True):
        path.write_text(f"delta: {delta}\nmechanisms: [{{type: gaussian, noise_multiplier: 2}}]\n")
    outcome = dpcalc("compose", *paths)
    assert "different deltas" in outcome.err
    _, flag, told = outcome.err.rpartition("--delta")
    for command in ("compose", "report"):
        assert dpcalc(command, *paths, flag, told.strip()).code == 0
    assert dpcalc("compose", *paths, "--delta", "1e-5").code == 0


def test_a_hundred_megabytes_are_refused_within_seconds(dpcalc: Run, tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.write(b"mechanisms:\n")
        line = b"  - {type: gaussian, noise_multiplier: 2}\n"
        for _ in range(100):
            stream.write(line * (1_000_000 // len(line)))
    start = time.process_time()
    outcome = dpcalc("compose", path, "--delta", "1e-5")
    assert time.process_time() - start < 3
    assert outcome.code == 2
    assert "larger than the 10 MB" in outcome.err


def test_windows_line_ends_and_unicode_names_are_read(dpcalc: Run, tmp_path: Path) -> None:
    path = tmp_path / "spécial 数.yaml"
    path.write_bytes(
        "\ufeffdelta: 1e-5\r\nmechanisms:\r\n- {type: gaussian, noise_multiplier: 2, name: 数}\r\n".encode()
    )
    assert dpcalc("compose", path, "-f", "json").json["details"]["mechanisms"][0]["name"] == "数"
    path.write_bytes(b"delta: 1e-5\r\nmechanisms:\r\n- {type: gaussian,\r\n   noise_multiplier: x}\r\n")
    assert "数.yaml:4: mechanisms[0].noise_multiplier" in dpcalc("compose", path).err


def texts() -> st.SearchStrategy[str]:
    """Entries with whatever in place of a value."""
    junk = st.one_of(st.text(max_size=8), st.floats().map(str), st.sampled_from(["{", "[", "&a", "*a", "!!x", "'"]))
    keys = st.sampled_from(["type", "noise_multiplier", "count", "sampling", "rate", "name", "sigma", "<<"])
    line = st.builds("{}: {}".format, keys, junk)
    return st.lists(line, max_size=5).map(lambda lines: "mechanisms:\n- {" + ", ".join(lines) + "}\n")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts())
def test_no_spec_leads_to_anything_but_an_answer_or_a_refusal(dpcalc: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    outcome = dpcalc("compose", path, "--delta", "1e-5")
    assert outcome.code in (0, 2), outcome.err
    assert "internal error" not in outcome.err


def entries() -> st.SearchStrategy[str]:
    """Inline entries that are valid, and quick to account for."""
    noise = st.floats(1.0, 50.0)
    count = st.integers(1, 30)
    return st.one_of(
        st.builds("gaussian,noise_multiplier={},count={}".format, noise, count),
        st.builds("laplace,scale={},sensitivity=1,count={}".format, noise, count),
        st.builds("gaussian,noise_multiplier={},sampling=poisson,rate=0.05,count={}".format, noise, count),
    )


def composed(dpcalc: Run, listed: list[str], *more: str) -> dict[str, Any]:
    flags = [part for mechanism in listed for part in ("-m", mechanism)]
    result: dict[str, Any] = dpcalc("compose", *flags, "--delta", "1e-5", "-f", "json", *more).json
    return result


PROPERTIES = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTIES
@given(listed=st.lists(entries(), min_size=1, max_size=3), added=entries())
def test_bounds_are_in_order_and_one_more_mechanism_never_costs_less(
    dpcalc: Run, listed: list[str], added: str
) -> None:
    fewer, more = composed(dpcalc, listed), composed(dpcalc, [*listed, added])
    for result in (fewer, more):
        assert result["epsilon_lower"] <= result["epsilon_estimate"] <= result["epsilon"]
    assert more["epsilon"] >= fewer["epsilon_lower"]


@PROPERTIES
@given(listed=st.lists(entries(), min_size=2, max_size=3), data=st.data())
def test_the_order_of_a_list_does_not_matter(dpcalc: Run, listed: list[str], data: st.DataObject) -> None:
    mixed = data.draw(st.permutations(listed))
    one, other = composed(dpcalc, listed), composed(dpcalc, list(mixed))
    assert one["epsilon"] == pytest.approx(other["epsilon"], rel=2e-3)
    assert one["epsilon_lower"] <= other["epsilon"] * (1 + 1e-12)


@PROPERTIES
@given(mechanism=st.floats(1.0, 50.0).map("laplace,scale={},sensitivity=1".format), count=st.integers(2, 5))
def test_listing_a_mechanism_equals_counting_it(dpcalc: Run, mechanism: str, count: int) -> None:
    listed, counted = composed(dpcalc, [mechanism] * count), composed(dpcalc, [f"{mechanism},count={count}"])
    assert listed["epsilon"] == counted["epsilon"]


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["dp-sgd.yaml", "mixed-release.yaml"])
def test_the_example_specs_are_within_their_budgets(dpcalc: Run, name: str) -> None:
    outcome = dpcalc("compose", ROOT / "examples" / name, "-f", "json")
    assert outcome.code == 0
    assert outcome.json["guarantee"] == "certified"


def shell(command: str, folder: Path) -> int:
    """Run a line as a shell would, with this interpreter's dpcalc."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, check=False, timeout=600
    ).returncode


def test_the_shell_lines_of_the_page_run_one_after_the_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page = (ROOT / "docs" / "compose.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    for line in "".join(blocks).splitlines():
        assert shell(line, tmp_path) == 0, line


def test_the_budget_check_fails_over_its_budget() -> None:
    assert shell("sh examples/budget-check.sh examples/mixed-release.yaml 0.5", ROOT) == 1
    assert shell("sh examples/budget-check.sh examples/nowhere.yaml 3", ROOT) == 2


def test_included_files_are_composed_relative_to_the_one_that_names_them(dpcalc: Run, tmp_path: Path) -> None:
    inner = tmp_path / "parts"
    inner.mkdir()
    (inner / "one.yaml").write_text("mechanisms: [{type: gdp, mu: 0.3}]\n")
    (inner / "two.yaml").write_text("include: [one.yaml]\nmechanisms: [{type: gdp, mu: 0.4}]\n")
    top = tmp_path / "top.yaml"
    top.write_text("delta: 1e-6\ninclude: [parts/two.yaml]\nmechanisms: [{type: gdp, mu: 1.2}]\n")
    assert dpcalc("compose", top, "-f", "json").json["mu"] == pytest.approx(1.3)
    top.write_text("delta: 1e-6\ninclude: [parts/two.yaml, parts/one.yaml]\n")
    assert dpcalc("compose", top, "-f", "json").json["mu"] == pytest.approx(math.sqrt(0.34))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("include: [a.yaml]\n", "a.yaml:1: include[0]: includes itself"),
        ("include: [b.yaml]\n", "b.yaml: cannot be read"),
        ("include: a.yaml\n", "expected a list of files"),
        ("include: []\n", "mechanisms is missing"),
        ("include: [[x]]\n", "expected the path of a spec"),
    ],
)
def test_a_wrong_include_is_told_where(dpcalc: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    outcome = dpcalc("compose", tmp_path / "a.yaml", "--delta", "1e-6")
    assert outcome.code == 2
    assert message in outcome.err


def test_several_deltas_are_a_curve_of_certified_points(dpcalc: Run) -> None:
    """ε of 1-GDP at δ = 1e-3, 1e-5: 3.13867, 4.37718 (published)."""
    arguments = ("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "--delta", "1e-3")
    result = dpcalc(*arguments, "-f", "json").json
    assert result["question"] == {"delta": 1e-5}
    assert [point["delta"] for point in result["curve"]] == [1e-3, 1e-5]
    assert [point["epsilon"] for point in result["curve"]] == pytest.approx([3.13867, 4.37718], rel=1e-5)
    assert "curve" in dpcalc("compose", "-m", "gdp,mu=1", "--epsilon", "1", "--curve").err
    drawn = dpcalc("compose", "-m", "gdp,mu=1", "--delta", "1e-5", "--curve", "-f", "json").json["curve"]
    assert len(drawn) == 7
    assert [point["epsilon"] for point in drawn] == sorted(point["epsilon"] for point in drawn)


def test_a_question_for_delta_has_a_lower_bound(dpcalc: Run) -> None:
    result = dpcalc("compose", "-m", MNIST, "--epsilon", "2.5", "-f", "json").json
    assert result["question"] == {"epsilon": 2.5}
    assert result["delta_lower"] <= 4.328259281e-6 <= result["delta"]
    assert result["epsilon_lower"] is None


def test_the_advantage_is_the_delta_at_epsilon_0_whatever_was_asked(dpcalc: Run) -> None:
    run = ("-m", "dp-sgd,noise_multiplier=1.1,batch_size=256,dataset_size=60000,epochs=60,sampling=poisson")
    document = dpcalc("compose", *run, "--epsilon", "0", "-f", "json").json
    assert document["delta_lower"] <= document["risk"]["advantage"] <= document["delta"]
    asked_otherwise = dpcalc("compose", *run, "--delta", "1e-5", "-f", "json").json["risk"]
    assert document["delta_lower"] <= asked_otherwise["advantage"] <= 1.005 * document["delta"]
    for rate, value in document["risk"]["tpr_at_fpr"].items():
        assert value == pytest.approx(asked_otherwise["tpr_at_fpr"][rate], rel=5e-3)


def test_a_mu_that_says_nothing_about_a_delta_is_left_out(dpcalc: Run) -> None:
    run = ("compose", "-m", "dp-sgd,noise_multiplier=1.1,batch_size=256,dataset_size=60000,epochs=60,sampling=poisson")
    assert "same as" not in dpcalc(*run, "--epsilon", "1").out
    assert "0.5-GDP; 0.125-zCDP" in dpcalc("compose", "-m", "gaussian,noise_multiplier=2", "--epsilon", "0.1").out


def test_the_words_of_others_are_understood_well_enough_to_help(dpcalc: Run) -> None:
    for wrong, right in (("sample_rate=0.1", "rate"), ("sampling_probability=0.1", "rate"), ("stddev=2", "sigma")):
        outcome = dpcalc("compose", "-m", f"gaussian,noise_multiplier=1,{wrong}", "--delta", "1e-6")
        assert f"did you mean {right}?" in outcome.err
    run = dpcalc("compose", "-m", "dp-sgd,noise_multiplier=1,batch_size=9,dataset_size=99,epochs=6", "--delta", "1e-6")
    assert "sampling is missing" in run.err


def test_a_wrong_key_is_told_in_its_own_line(dpcalc: Run) -> None:
    outcome = dpcalc("compose", "-", stdin="delta: 1e-6\nmechanism:\n  - {type: gdp, mu: 1}\n")
    assert "standard input:2: mechanism: no such key" in outcome.err
    assert "did you mean mechanisms?" in outcome.err


def test_laplace_noise_may_be_stated_by_its_epsilon(dpcalc: Run) -> None:
    stated = dpcalc("compose", "-m", "laplace,epsilon=0.25,count=3", "--delta", "1e-6", "-f", "json").json
    scaled = dpcalc("compose", "-m", "laplace,scale=8,sensitivity=2,count=3", "--delta", "1e-6", "-f", "json").json
    assert stated["epsilon"] == pytest.approx(scaled["epsilon"], rel=1e-9)
    mixed = dpcalc("compose", "-m", "laplace,epsilon=0.25,scale=8", "--delta", "1e-6")
    assert "do not go together" in mixed.err


def test_several_files_have_a_subtotal_each(dpcalc: Run, tmp_path: Path) -> None:
    for name, mu in (("one", 0.5), ("two", 1)):
        (tmp_path / f"{name}.yaml").write_text(f"delta: 1e-5\nmechanisms: [{{type: gdp, mu: {mu}}}]\n")
    shown = dpcalc("compose", tmp_path / "one.yaml", tmp_path / "two.yaml").out
    assert re.search(r"one\.yaml +1 +1\.994", shown)  # published ε of ½-GDP and of 1-GDP at δ = 1e-5
    assert re.search(r"two\.yaml +1 +4\.378", shown)


def test_slack_gives_one_mu_with_its_regret_and_changes_nothing_else(dpcalc: Run) -> None:
    """Exactly 0.7532658 at slack 1e-6, and a regret of 0.0325 (contour integrals)."""
    asked = ("compose", "-m", "gaussian,noise_multiplier=0.8,sampling=poisson,rate=0.01,count=1000", "--delta", "1e-5")
    shown = dpcalc(*asked, "--slack", "1e-6")
    assert re.search(r"fitted +0\.753\d-GDP up to slack 1e-6 \(binding at ε = 3\.4\d+\); regret ≤ 0\.032\d", shown.out)
    plain = dpcalc(*asked, "-f", "json", "--max-mu", "1")
    fitted = dpcalc(*asked, "-f", "json", "--max-mu", "1", "--slack", "1e-6")
    assert plain.code == fitted.code == 1  # the limit is on μ without slack, 39.5
    whole = fitted.json
    told = whole["details"].pop("fitted")
    assert whole == plain.json
    assert 0.7532657 <= told["mu"] <= 0.7535
    assert (told["slack"], told["guarantee"]) == (1e-6, "certified")
    assert told["directions"]["add"]["mu"] < told["directions"]["remove"]["mu"] == told["mu"]


def test_slack_that_nothing_fits(dpcalc: Run) -> None:
    asked = ("compose", "-m", "dp,epsilon=1,delta=1e-3", "--delta", "1e-2", "--slack", "1e-5")
    assert "no μ-GDP is known up to slack 1e-5" in dpcalc(*asked).out
    assert dpcalc(*asked, "-f", "json").json["details"]["fitted"]["mu"] == "inf"
    refused = dpcalc("compose", "-m", GAUSSIAN, "--delta", "1e-5", "--slack", "1e-5", "--accountant", "rdp")
    assert refused.code == 2
    assert "--slack: needs the loss distributions" in refused.err
    weaker = ("compose", "-m", "laplace,epsilon=0.3,count=9,guarantee=numerical", "--delta", "1e-5", "--slack", "1e-4")
    assert "(numerical)" in dpcalc(*weaker).out
