"""Results that are read back: recomputed, compared, and refused where they were changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]

COMPOSED = ("compose", "-m", "gaussian,noise_multiplier=3,count=5", "-m", "laplace,scale=7,sensitivity=1")
SGD = (
    "sgd-bound", "--algorithm", "cgd", "--lr", "0.02", "--sigma", "0.03", "--sensitivity", "8", "--n", "5000",
    "--batch-size", "500", "--epochs", "40", "--strong-convexity", "0.01", "--smoothness", "3", "--delta", "1e-6",
)  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "compose": (*COMPOSED, "--delta", "1e-6"),
    "delta": (*COMPOSED, "--epsilon", "1.5"),
    "pure": ("compose", "-m", "laplace,scale=7,sensitivity=1,count=3", "--delta", "0"),
    "sampled": ("compose", "-m", "gaussian,noise_multiplier=1,sampling=poisson,rate=0.02,count=300", "--delta", "1e-6"),
    "rdp": (*COMPOSED, "--delta", "1e-6", "--accountant", "rdp"),
    # declared curves added up, and one read off its own conversion: more than the accountant that is named knows alone
    "added": ("compose", "-m", "rdp,orders=[2,8,64],epsilons=[0.001,0.004,0.032],count=150", "-m",
              "staircase,epsilon=6,sampling=poisson,rate=0.003,count=2", "--delta", "1e-6"),
    "curve": ("compose", "-m", "rdp,orders=[2,8,64],epsilons=[0.1,0.4,3.2]", "--delta", "1e-6"),
    "tight": (*COMPOSED, "--delta", "1e-6", "--tolerance", "1e-5"),
    "clt": ("compose", "-m", "gaussian,noise_multiplier=1,sampling=poisson,rate=0.02,count=300", "--delta", "1e-6",
            "--accountant", "clt"),
    "calibrate": ("calibrate", "-m", "gaussian,noise_multiplier=solve,count=3", "--epsilon", "2", "--delta", "1e-6"),
    "convert": ("convert", "--zcdp", "0.3", "--delta", "1e-6"),
    "sgd-bound": SGD,
    "exp-mech": ("exp-mech", "--lipschitz", "1", "--strong-convexity", "3", "--delta", "1e-6"),
    # ε by one bound, μ by another
    "both": ("exp-mech", "--lipschitz", "0.9", "--diameter", "1.1", "--delta", "1e-6"),
    "finite": ("exp-mech", "--epsilon-mech", "0.3", "--count", "5", "--delta", "1e-6"),
    "chain": ("exp-mech", "--lipschitz", "2", "--strong-convexity", "0.5", "--diameter", "3", "--lr", "0.1",
              "--smoothness", "4", "--steps", "50", "--delta", "1e-6"),
}  # fmt: skip


@pytest.fixture
def made(dpcalc: Run) -> Callable[[str], dict[str, Any]]:
    """The result of a command as a document that may be changed."""

    def make(name: str) -> dict[str, Any]:
        document: dict[str, Any] = copy.deepcopy(dpcalc(*COMMANDS[name], "-f", "json").json)
        return document

    return make


def refused(dpcalc: Run, document: dict[str, Any], field: str) -> None:
    outcome = dpcalc("compose", "-", stdin=json.dumps(document))
    assert outcome.code == 2, outcome.out
    assert field in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_as_it_was_made_is_read(dpcalc: Run, made: Any, name: str) -> None:
    document = made(name)
    outcome = dpcalc("compose", "-", "-f", "json", stdin=json.dumps(document))
    assert outcome.code == 0, outcome.err
    again = outcome.json
    assert again["question"] == document["question"]
    assert again["guarantee"] == document["guarantee"]
    assert set(document["assumptions"]) <= set(again["assumptions"])
    assert set(document["warnings"]) <= set(again["warnings"])
    for key in ("epsilon", "delta") if name != "clt" else ():
        assert again[key] == pytest.approx(document[key], rel=0.15 if name == "rdp" else 3e-3)


@pytest.mark.parametrize("key", ["schema", "command", "guarantee", "adjacency", "mechanisms"])
@pytest.mark.parametrize("name", ["compose", "sgd-bound"])
def test_a_result_that_lacks_what_it_rests_on_is_refused(dpcalc: Run, made: Any, name: str, key: str) -> None:
    document = made(name)
    del document[key]
    refused(dpcalc, document, key)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a dotted path; a callable is given the old one."""
    *blocks, last = (int(word) if word.isdigit() else word for word in path.split("."))
    place: Any = document
    for block in blocks:
        place = place[block]
    place[last] = value(place[last]) if callable(value) else value
    return document


@pytest.mark.parametrize(
    "change",
    [
        ("compose", "epsilon", lambda old: 0.8 * old, "epsilon"),
        ("compose", "epsilon_lower", lambda old: 3 * old, "epsilon_lower"),
        ("compose", "delta", 1e-9, "delta"),
        ("compose", "mu", lambda old: 0.9 * old, "mu"),
        ("compose", "rho", lambda old: 0.9 * old, "rho"),
        ("compose", "rdp.3.epsilon", lambda old: 0.9 * old, "rdp[3]"),
        ("compose", "mechanisms.0.count", 4, "mechanisms"),
        ("compose", "mechanisms.0.noise_multiplier", 5.0, "epsilon"),
        ("compose", "mechanisms.1.scale", 70, "epsilon"),
        ("compose", "mechanisms.0.guarantee", "approximate", "guarantee"),
        ("compose", "command", "convert", "details.advantage"),
        ("compose", "command", "spell", "command"),
        ("delta", "delta", lambda old: 0.5 * old, "delta"),
        ("delta", "epsilon", 3.0, "epsilon"),
        ("pure", "epsilon", lambda old: 0.9 * old, "epsilon"),
        ("sampled", "mechanisms.0.sampling.rate", 0.01, "epsilon"),
        ("clt", "guarantee", "certified", "guarantee"),
        ("calibrate", "epsilon", 1.5, "epsilon"),
        ("calibrate", "mechanisms.0.count", 2, "epsilon"),
        ("convert", "mechanisms.0.rho", 0.1, "epsilon"),
        ("convert", "rho", 0.1, "rho"),
        ("sgd-bound", "mechanisms.0.mu", 0.1, "mechanisms[0].mu"),
        ("sgd-bound", "epsilon", lambda old: 0.5 * old, "epsilon"),
        ("sgd-bound", "command", "compose", "details.mechanisms"),
        ("sgd-bound", "details.request.sigma", 0.3, "mechanisms[0].mu"),
        ("sgd-bound", "adjacency", "add-remove", "adjacency"),
        ("exp-mech", "mechanisms.0.mu", 0.1, "mechanisms[0].mu"),
        ("exp-mech", "adjacency", "add-remove", "adjacency"),
        ("both", "details.request.diameter", 0.2, "mechanisms[0].epsilon"),
    ],
)
def test_a_result_that_was_changed_is_refused_at_the_field(dpcalc: Run, made: Any, change: tuple[Any, ...]) -> None:
    name, path, value, field = change
    refused(dpcalc, changed(made(name), path, value), f": {field}")


FILTERS: dict[str, tuple[str, ...]] = {
    "gdp": ("--filter", "gdp", "--sigma", "2", "--epsilon", "3"),
    "clip": ("--filter", "gdp", "--noise-multiplier", "3", "--clip", "0.8", "--norm-budget", "2", "--mode", "clip"),
    "rdp": ("--filter", "rdp", "--sigma", "2", "--order", "8", "--rho", "0.7"),
    "sampled": ("--filter", "rdp", "--noise-multiplier", "1", "--clip", "1", "--sample-rate", "0.1", "--epsilon", "1"),
    "finished": ("--filter", "gdp", "--sigma", "2", "--mu", "0.9", "--finished"),
    "array": ("--filter", "gdp", "--sigma", "2", "--mu", "0.9"),
    "delta": ("--filter", "dp", "--scope", "global", "--epsilon", "2", "--steps-delta", "4e-7"),
}


@pytest.fixture
def filtered(dpcalc: Run, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """The result of a filter as a document that may be changed."""

    def make(name: str) -> dict[str, Any]:
        log = tmp_path / ("log.npy" if name == "array" else "log.csv")
        log.write_text("step,epsilon,delta\n1,0.1,1e-8\n2,0.3,0\n" if name == "delta" else LOG)
        if name == "array":
            np.save(log, np.array([[1, 0.5], [1, 0.2]], dtype=np.float32))
        found: dict[str, Any] = dpcalc("filter", log, *FILTERS[name], "--delta", "1e-6", "-f", "json").json
        return found

    return make


LOG = "step,id,norm\n1,a,1\n1,b,0.5\n2,a,1\n2,b,0.2\n"


@pytest.mark.parametrize("name", FILTERS)
def test_a_filters_result_is_read_and_worked_out_again(dpcalc: Run, filtered: Any, name: str) -> None:
    document = filtered(name)
    again = dpcalc("compose", "-", "-f", "json", stdin=json.dumps(document))
    assert again.code == 0, again.err
    assert again.json["epsilon"] == pytest.approx(document["epsilon"], rel=1e-3)
    del document["details"]["request"]
    refused(dpcalc, document, "details.request")


@pytest.mark.parametrize(
    "change",
    [
        ("gdp", "mechanisms.0.mu", 0.2, "mechanisms[0].mu"),
        ("gdp", "epsilon", 1.0, "epsilon"),
        ("gdp", "details.request.epsilon", 1.0, "mechanisms[0].mu"),
        ("clip", "details.request.norm_budget", 1.0, "mechanisms[0].mu"),
        ("rdp", "mechanisms.0.rho", 0.01, "mechanisms[0].rho"),
        ("sampled", "mechanisms.0.epsilons", [0.001], "mechanisms[0].epsilons"),
        ("sampled", "details.request.epsilon", 0.1, "mechanisms[0].orders"),
        ("finished", "details.beyond_budget", 1, "mechanisms"),
        ("array", "details.request.log.rounding", 0.1, "mechanisms[0].mu"),
        ("delta", "mechanisms.0.epsilon", 0.5, "mechanisms[0].epsilon"),
        ("delta", "details.request.log.beside", [], "details"),
    ],
)
def test_a_filters_result_that_was_changed_is_refused(dpcalc: Run, filtered: Any, change: tuple[Any, ...]) -> None:
    name, path, value, field = change
    refused(dpcalc, changed(filtered(name), path, value), f": {field}")


TRAINED: dict[str, tuple[str, ...]] = {
    "sgd": ("--noise-multiplier", "2"),
    "uniform": ("--noise-multiplier", "2", "--adjacency", "replace-one"),
    "filter": ("--noise-multiplier", "20", "--filter", "gdp", "--grid-runs", "3"),
    "sampled filter": ("--noise-multiplier", "2", "--filter", "rdp"),
}


@pytest.fixture
def trained(dpcalc: Run) -> Callable[[str], dict[str, Any]]:
    """The result of a short run as a document that may be changed."""

    def make(name: str) -> dict[str, Any]:
        usual = ("train", "--model", "logistic", "--steps", "2", "--delta", "1e-6", "--seed", "1", "-f", "json")
        found: dict[str, Any] = dpcalc(*usual, *TRAINED[name]).json
        return found

    return make


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_is_read_and_worked_out_again(dpcalc: Run, trained: Any, name: str) -> None:
    document = trained(name)
    assert dpcalc("compose", "-", stdin=json.dumps(document)).code == 0
    for path, value in (
        ("details.request.settings.0.noise_multiplier", 90.0),
        ("details.settings.noise_multiplier", 90.0),
        ("details.request.grid_runs", 2),
        ("details.grid_runs", 2),
        ("details.request.settings.0.steps", 1),
        ("details.request.records", 10**6),
    ):
        outcome = dpcalc("compose", "-", stdin=json.dumps(changed(copy.deepcopy(document), path, value)))
        assert outcome.code == 2, path
        assert "details" in outcome.err or "mechanisms" in outcome.err


def test_a_run_that_claims_less_noise_than_its_plan_is_refused(dpcalc: Run, trained: Any) -> None:
    """Numbers and mechanisms of a run with more noise, put into the result of one with less."""
    document = trained("uniform")
    other = dpcalc(
        "train", "--model", "logistic", "--steps", "2", "--delta", "1e-6", "--seed", "1", "--noise-multiplier", "9",
        "--adjacency", "replace-one", "-f", "json",
    ).json  # fmt: skip
    for key in ("epsilon", "epsilon_lower", "epsilon_estimate", "mu", "rho", "rdp", "mechanisms"):
        document[key] = other[key]
    refused(dpcalc, document, "mechanisms[0]")


def test_a_filter_holds_for_added_or_removed_records_alone(dpcalc: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,id,norm\n1,a,1\n1,b,0.5\n2,a,1\n")
    document = dpcalc(
        "filter", log, "--filter", "gdp", "--sigma", "2", "--mu", "0.9", "--delta", "1e-6", "-f", "json"
    ).json
    assert dpcalc("compose", "-", stdin=json.dumps(document)).code == 0
    refused(dpcalc, changed(document, "adjacency", "replace-one"), ": adjacency")


def test_a_dropped_mechanism_is_noticed(dpcalc: Run, made: Any) -> None:
    document = made("compose")
    document["mechanisms"].pop()
    refused(dpcalc, document, "mechanisms")
    document["details"]["mechanisms"].pop()
    refused(dpcalc, document, "epsilon")


def test_numbers_changed_together_do_not_hide_what_the_details_lead_to(dpcalc: Run, made: Any) -> None:
    document = made("sgd-bound")
    weaker = dpcalc("compose", "-m", "gdp,mu=0.2", "--adjacency", "replace-one", "--delta", "1e-6", "-f", "json").json
    for key in ("epsilon", "epsilon_lower", "epsilon_estimate", "mu", "rho", "rdp", "mechanisms"):
        document[key] = weaker[key]
    refused(dpcalc, document, "mechanisms[0].mu")
    del document["details"]["request"]
    refused(dpcalc, document, "details.request")


def test_an_uncertified_result_stays_so_when_it_is_composed_with_others(dpcalc: Run, made: Any, tmp_path: Any) -> None:
    paths = []
    for name in ("clt", "compose"):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(made(name)))
    for order in (paths, paths[::-1]):
        joined = dpcalc("compose", *order, "-f", "json").json
        assert joined["guarantee"] == "approximate"
        assert joined["epsilon_lower"] is None
        assert dpcalc("compose", *order, "--max-epsilon", "1e6").code == 3


def test_a_result_of_another_version_may_have_been_looser(dpcalc: Run, made: Any) -> None:
    document = changed(made("compose"), "version", "0.0.1")
    document["epsilon"] *= 1.5
    assert dpcalc("compose", "-", stdin=json.dumps(document)).code == 0
    document["epsilon"] *= 0.5
    refused(dpcalc, document, "epsilon")


@pytest.mark.parametrize("name", ["sgd-bound", "chain"])
def test_a_bound_on_a_class_has_no_lower_bound_when_it_is_read_back(dpcalc: Run, made, name: str) -> None:
    document = made(name)
    assert document["epsilon_lower"] is None
    again = dpcalc("compose", "-", "-f", "json", stdin=json.dumps(document)).json
    assert (again["epsilon"], again["epsilon_lower"]) == (document["epsilon"], None)
    assert again["mu_kind"] == document["mu_kind"] == "upper"
    beside = dpcalc("compose", "-", "-m", "gdp,mu=1", "--epsilon", "2", "-f", "json", stdin=json.dumps(document)).json
    assert beside["delta_lower"] is None


@pytest.mark.parametrize("name", ["sgd-bound", "chain"])
@pytest.mark.parametrize("change", ["a lower bound", "no question"])
def test_a_lower_bound_that_is_not_found_again_is_not_believed(dpcalc: Run, made, name: str, change: str) -> None:
    document = made(name)
    if change == "a lower bound":
        document |= {"epsilon_lower": 0.99 * document["epsilon"], "mu_kind": "exact"}
    else:
        document |= dict.fromkeys(("question", "epsilon", "delta", "epsilon_estimate"))
    again = dpcalc("compose", "-", "--delta", "1e-7", "-f", "json", stdin=json.dumps(document)).json
    assert (again["epsilon_lower"], again["mu_kind"]) == (None, "upper")


@pytest.mark.parametrize("factor", [1.0001, 0.9999])
def test_mechanisms_that_were_changed_a_little_are_refused(dpcalc: Run, made, factor: float) -> None:
    """ε agrees within its tolerance, but ρ and Rényi divergences are closed forms or integrals to eleven digits."""
    document = made("sampled")
    document["mechanisms"][0]["noise_multiplier"] *= factor
    refused(dpcalc, document, "its mechanisms give")


def test_an_answer_that_a_tighter_interval_contradicts_is_refused(dpcalc: Run) -> None:
    """With a δ of its own there is no μ, ρ or RDP to compare, and ε = 1.3016 was within its tolerance of 1.3017."""
    mixed = ("compose", "-m", "gaussian,noise_multiplier=1,sampling=poisson,rate=0.02,count=40")
    document = dpcalc(*mixed, "-m", "dp,epsilon=0.3,delta=1e-7", "--delta", "1e-5", "-f", "json").json
    assert dpcalc("compose", "-", stdin=json.dumps(document)).code == 0
    document["mechanisms"][1]["epsilon"] *= 1.0006
    refused(dpcalc, document, "epsilon")
