"""A result in words: sources of one paper together, and nothing that says nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpcalc
from dpcalc.render.words import reference


@pytest.mark.parametrize(
    ("citations", "told"),
    [
        (("A 2020, Theorem 1: says this",), "A 2020, Theorem 1"),
        (("A 2020, Theorem 1: says", "of its own", "A 2020, Theorem 2: that"), "A 2020 (Theorems 1, 2)"),
        (("A 2020, Theorem 1: says", "B 2020, Theorem 2: that"), "A 2020, Theorem 1"),
        (("A 2020, Theorem 1: says", "A 2020, Theorem 1: again"), "A 2020, Theorem 1"),
        (("A 2020, Corollary 1", "A 2020, Theorem 1"), "A 2020, Corollary 1"),
        (("textbook", "textbook, Theorem 2"), "textbook"),
    ],
)
def test_the_theorems_of_the_first_paper_are_told_together(citations: tuple[str, ...], told: str) -> None:
    assert reference(citations) == told


def test_composition_and_sampling_are_both_cited_on_the_screen() -> None:
    run = dpcalc.Gaussian(noise_multiplier=1, sampling="poisson", rate=0.01, count=10)
    *_, last = str(dpcalc.compose(run, delta=1e-5)).splitlines()
    assert last == "  by           Zhu, Dong, Wang 2022 (Theorems 10, 11); -v for the mechanisms"


def test_an_audit_cites_no_theorem() -> None:
    audit = str(dpcalc.filter([[1.0, 1.0]] * 9, filter="gdp", sigma=10, finished=True))
    assert "spent" in audit
    assert "none" not in audit


def test_a_table_of_bounds_has_their_sources_and_no_line_repeats_them() -> None:
    bound = dpcalc.sgd_bound(
        algorithm="gd",
        lr=0.1,
        sigma=0.1,
        sensitivity=1,
        n=100,
        steps=50,
        strong_convexity=0.1,
        smoothness=1,
        delta=1e-5,
    )
    lines = str(bound).splitlines()
    assert any(line.split()[-1:] == ["by"] for line in lines)
    assert not any(line.startswith("  by ") for line in lines)
    assert sum(line.startswith("  neighbours ") for line in lines) == 1
    assert "certified" not in str(bound)


def test_who_takes_part_in_every_step_is_told_so_whatever_steps_are_called() -> None:
    assert "  taking part  2 in every step\n" in str(dpcalc.filter([[1.0, 1.0]] * 9, filter="gdp", sigma=10, mu=1))


def test_an_error_from_python_begins_with_the_field() -> None:
    with pytest.raises(dpcalc.InputError, match=r"^mechanisms\[0\]: sensitivity is missing"):
        dpcalc.compose([dpcalc.Gaussian(sigma=2)], delta=1e-5)


def test_exactly_is_said_of_a_bare_answer_alone() -> None:
    mechanism = dpcalc.exp_mech(lipschitz=1, strong_convexity=4, delta=1e-5)
    assert repr(mechanism).splitlines()[0].endswith("the textbook gives no finite ε (certified, replace-one)")


def test_the_bounds_of_a_run_are_ranked_by_trust_and_told_by_what_they_are_about() -> None:
    losses = {"model": "logistic", "feature_clip": 2, "clip": 3.17, "regularization": 0.05, "diameter": 20}
    method = {"algorithm": "cgd", "lr": 0.3, "epochs": 1, "batch_size": 500, "noise_multiplier": 8}
    run = dpcalc.train(**losses, **method, adjacency="replace-one", release="last")
    lines = str(run).splitlines()
    head = next(place for place, line in enumerate(lines) if line.split()[:1] == ["bound"])
    assert "neighbours" not in lines[head]
    rows = lines[head + 1 :][: lines[head:].index("") - 1]
    trusts = [next(word for word in row.split() if word in ("certified", "numerical", "approximate")) for row in rows]
    assert trusts == sorted(trusts, key=("certified", "numerical", "approximate").index)
    assert all(row.startswith(("  last iterate", "  every iterate")) for row in rows)
    told = re.search(r" (\d+\.\d+)  ", rows[0])
    assert told is not None
    assert run.epsilon <= float(told[1]) <= 1.002 * run.epsilon


def test_a_run_that_is_logged_tells_the_command_that_audits_it(tmp_path: Path) -> None:
    log = tmp_path / "norms.npy"
    run = dpcalc.train(model="logistic", filter="gdp", steps=2, seed=1, log=str(log))
    (told,) = (line for line in str(run).splitlines() if line.startswith("  audit "))
    assert told.split(maxsplit=1)[1] == run.details["audit"]
    assert told.split()[1:4] == ["dpcalc", "filter", str(log)]
