"""Limits: passed by what is certified alone, and judged by the numbers that are shown."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dpcalc.evidence import STATUSES, weakest_status
from dpcalc.guarantee import Budget, Guarantee, Result

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]

SAMPLED = "gaussian,noise_multiplier=0.9,sampling=poisson,rate=0.005,count=4000"


def guarantee(**fields: Any) -> Guarantee:
    described = {"adjacency": "add-remove", "status": "certified", "accountant": "pld", "theorem": "a theorem"}
    return Guarantee(**{**described, **fields})


@pytest.mark.parametrize("limit", [("--max-epsilon", "100"), ("--max-mu", "100"), ("--max-rho", "1e9")])
def test_the_central_limit_passes_no_gate(dpcalc: Run, limit: tuple[str, str]) -> None:
    arguments = ("compose", "-m", SAMPLED, "--delta", "1e-6", "--accountant", "clt")
    assert dpcalc(*arguments).code == 0
    outcome = dpcalc(*arguments, *limit, "-f", "json")
    assert outcome.code == 3
    assert outcome.json["budget"]["within"] is False
    assert "approximate, not certified" in outcome.err
    assert "OVER" not in dpcalc(*arguments, *limit).out


@pytest.mark.parametrize("status", ["numerical", "approximate"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("budget", ["epsilon: 50", "mu: 50", "rho: 50"])
def test_an_entry_that_is_not_certified_passes_no_gate(dpcalc: Run, status: str, first: bool, budget: str) -> None:
    entries = ["{type: gaussian, noise_multiplier: 4}", f"{{type: gdp, mu: 0.1, guarantee: {status}}}"]
    listed = ", ".join(entries if first else reversed(entries))
    outcome = dpcalc("compose", "-", "-f", "json", stdin=f"delta: 1e-6\nbudget: {{{budget}}}\nmechanisms: [{listed}]\n")
    assert outcome.code == 3
    assert outcome.json["guarantee"] == status
    assert outcome.json["epsilon_lower"] is None
    assert f"{status}, not certified" in outcome.err


@pytest.mark.parametrize("status", ["numerical", "approximate"])
def test_a_calibration_beside_what_is_not_certified_is_not_certified(dpcalc: Run, status: str) -> None:
    text = f"mechanisms: [{{type: gaussian, noise_multiplier: solve}}, {{type: gdp, mu: 0.2, guarantee: {status}}}]"
    outcome = dpcalc("calibrate", "-", "--epsilon", "2", "--delta", "1e-6", "-f", "json", stdin=text)
    assert outcome.code == 3
    assert outcome.json["guarantee"] == status
    words = dpcalc("calibrate", "-", "--epsilon", "2", "--delta", "1e-6", stdin=text).out.splitlines()[0]
    assert f"NOT SHOWN to be within 2 ({status}, not certified)" in words


@pytest.mark.parametrize(("one", "other"), list(itertools.product(STATUSES, repeat=2)))
def test_a_combination_is_as_weak_as_its_weakest_part(one: Any, other: Any) -> None:
    expected = STATUSES[max(STATUSES.index(one), STATUSES.index(other))]
    assert weakest_status([one, other]) == expected
    assert guarantee(status=one).as_weak_as(other).status == expected


def test_a_certified_lower_bound_above_the_limit_is_over_whatever_the_upper_one_is() -> None:
    numerical = guarantee(status="numerical", epsilon=3.0, delta=1e-6, epsilon_lower=2.9)
    outcomes = {limit: Budget(max_epsilon=limit).judge(numerical)[0].outcome for limit in (2.8, 2.95, 4.0)}
    assert outcomes == {2.8: "over", 2.95: "unproved", 4.0: "unproved"}


def test_a_certified_bound_beside_an_approximate_one_decides() -> None:
    better = guarantee(status="approximate", epsilon=2.0, delta=1e-6)
    sure = guarantee(epsilon=9.0, delta=1e-6)
    outcomes = {limit: Budget(max_epsilon=limit).judge(better, sure)[0].outcome for limit in (2.0, 8.9, 9.0)}
    assert outcomes == {2.0: "over", 8.9: "over", 9.0: "within"}
    from dpcalc.render import render

    result = Result(command="train", guarantee=better, certified=sure, budget=Budget(max_epsilon=2.0))
    assert render(result, "table", quiet=True) == "ε = 2 at δ = 1e-6; certified ε = 9, OVER the limit 2 by 7\n"


@pytest.mark.parametrize(
    ("epsilon", "limit", "code"),
    [("0.1", "0.1", 0), ("3.000000000002", "3", 1), ("2.999999999998", "3", 0), ("7.00001", "7", 1), ("7", "7", 0)],
)
def test_every_stream_shows_one_number_on_the_right_side_of_its_limit(
    dpcalc: Run, epsilon: str, limit: str, code: int
) -> None:
    outcome = dpcalc("convert", "--dp", epsilon, "--delta", "0", "--max-epsilon", limit)
    assert outcome.code == code
    shown = re.match(r"ε = (\S+(?: \+ \S+)?) without any δ.*, (within|OVER) the limit (\S+)", outcome.out)
    assert shown is not None
    told = sum(map(float, shown[1].split(" + ")))
    assert (told > float(limit)) is (code == 1) is (shown[2] == "OVER")
    assert told >= float(epsilon) * (1 - 1e-14)
    if code:
        assert outcome.err == f"over budget: epsilon = {shown[1]} is over its limit {shown[3]}\n"


def test_pure_epsilon_is_exact_and_within_its_own_limit(dpcalc: Run) -> None:
    laplace = "laplace,scale=4,sensitivity=1,count=6"
    outcome = dpcalc("compose", "-m", laplace, "--delta", "0", "--max-epsilon", "1.5", "-f", "json")
    assert outcome.code == 0
    assert outcome.json["epsilon"] == pytest.approx(1.5, rel=1e-14)
    assert outcome.json["epsilon_lower"] == pytest.approx(1.5, rel=1e-9)
    assert outcome.json["question"] == {"delta": 0.0}
    gaussian = dpcalc("compose", "-m", "gaussian,noise_multiplier=3", "--delta", "0", "-f", "json").json
    assert gaussian["epsilon"] == "inf"
    both = dpcalc("compose", "-m", laplace, "-m", "dp,epsilon=0.25", "--delta", "0", "-f", "json").json
    assert both["epsilon"] == pytest.approx(1.75)
    assert [cost["epsilon"] for cost in both["details"]["mechanisms"]] == pytest.approx([1.5, 0.25])


def test_the_advantage_can_be_limited(dpcalc: Run) -> None:
    """μ = 0.4 has the advantage 2Φ(0.2) − 1 = 0.158519."""
    for limit, code in (("0.1586", 0), ("0.1585", 1)):
        assert dpcalc("compose", "-m", "gdp,mu=0.4", "--delta", "1e-6", "--max-advantage", limit).code == code
    spec = "budget: {advantage: 0.15}\ndelta: 1e-6\nmechanisms: [{type: gdp, mu: 0.4}]"
    assert dpcalc("compose", "-", stdin=spec).code == 1


def test_budgets_that_contradict_each_other_are_refused_unless_an_option_decides(dpcalc: Run, tmp_path: Path) -> None:
    paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for path, limit in zip(paths, ("3", "5"), strict=True):
        path.write_text(f"delta: 1e-6\nbudget: {{epsilon: {limit}}}\nmechanisms: [{{type: gdp, mu: 0.3}}]\n")
    for order in (paths, paths[::-1]):
        refused = dpcalc("compose", *order)
        assert refused.code == 2
        assert "conflicting limits on epsilon" in refused.err
        assert "--max-epsilon" in refused.err
        assert dpcalc("compose", *order, "--max-epsilon", "4").code == 0
        assert dpcalc("compose", *order, "--max-epsilon", "1").code == 1


def test_a_budget_stays_with_a_result(dpcalc: Run, tmp_path: Path) -> None:
    saved = tmp_path / "first.json"
    arguments = ("-m", "gdp,mu=0.5", "--delta", "1e-6")
    assert dpcalc("compose", *arguments, "--max-epsilon", "1", "-f", "json", "-o", saved).code == 1
    again = dpcalc("compose", saved, "-f", "json")
    assert again.code == 1
    assert again.json["budget"] == json.loads(saved.read_text())["budget"]
    assert dpcalc("compose", saved, "-m", "gdp,mu=0.01", "--max-epsilon", "4").code == 0


@pytest.mark.parametrize(
    ("outcome", "command"),
    [
        (0, "diff examples/mixed-release.yaml examples/dp-sgd.yaml --delta 1e-6 --max-increase 2"),
        (1, "diff examples/mixed-release.yaml examples/dp-sgd.yaml --delta 1e-6 --max-increase 0.1"),
        (1, "filter examples/filter-norms.csv --filter gdp --sigma 4 --mu 1 --finished"),
        (0, "filter examples/filter-norms.csv --filter gdp --sigma 4 --mu 9 --finished"),
        (1, "convert --gdp 1 --delta 1e-5 --max-epsilon 4"),
        (3, "compose -m gdp,mu=1 --delta 1e-5 --accountant clt --max-epsilon 9"),
    ],
)
def test_annotations_and_test_reports_fail_where_the_command_does(dpcalc, outcome: int, command: str) -> None:
    """A dashboard that reads only the file must not show as passed what the exit code fails."""
    arguments = command.replace("examples/", f"{ROOT / 'examples'}/").split()
    annotated = dpcalc(*arguments, "-f", "github")
    assert annotated.code == outcome
    assert annotated.out.startswith("::error " if outcome else "::notice ")
    suite = ElementTree.fromstring(dpcalc(*arguments, "-f", "junit").out.encode())
    failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    errors = [case for case in suite.iter("testcase") if case.find("error") is not None]
    assert (len(failed), len(errors)) == {0: (0, 0), 1: (1, 0), 3: (0, 1)}[outcome]
    assert (suite.get("failures"), suite.get("errors")) == (str(len(failed)), str(len(errors)))
