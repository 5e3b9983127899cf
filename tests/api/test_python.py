"""dpcalc from Python: the same answers as the command line, one type of result, errors that name arguments."""

from __future__ import annotations

import doctest
import json
import math
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcalc
from dpcalc import DPSGD, Gaussian, InputError, Laplace, Result

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]


def test_the_readers_first_line() -> None:
    found = dpcalc.compose(Gaussian(sigma=2, sensitivity=1), delta=1e-5)
    lines = repr(found).splitlines()
    assert lines[0] == "ε = 1.994 at δ = 1e-5, exactly (certified, add-remove)"
    assert lines[1] == "μ = 0.5, ρ = 0.125"
    assert lines[2].startswith("by ")
    assert len(lines) == 3


def test_all_names_are_there_and_help_shows_them() -> None:
    commands = ["compose", "calibrate", "convert", "filter", "sgd_bound", "exp_mech", "train"]
    assert set(commands) <= set(dir(dpcalc))
    assert dir(dpcalc) == sorted(dpcalc.__all__)
    text = pydoc.render_doc(dpcalc, renderer=pydoc.plaintext)
    for name in commands:
        assert f"{name}(" in text
    assert all(getattr(dpcalc, name).__doc__ or name == "__version__" for name in dpcalc.__all__)


def test_importing_is_cheap() -> None:
    program = "import sys, dpcalc; sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'typer', 'rich')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (lambda: dpcalc.convert(gdp=0.7, delta=1e-6), ("convert", "--gdp", "0.7", "--delta", "1e-6")),
        (lambda: dpcalc.convert(rdp=[(8, 0.5), (32, 2)], delta=1e-6),
         ("convert", "--rdp", "8,0.5", "--rdp", "32,2", "--delta", "1e-6")),
        (lambda: dpcalc.convert(dp=(0.5, 1e-7), epsilon=1), ("convert", "--dp", "0.5,1e-7", "--epsilon", "1")),
        (lambda: dpcalc.compose(Gaussian(noise_multiplier=3, count=7), Laplace(scale=9, sensitivity=1), delta=1e-6,
                                max_epsilon=9, prior=0.2),
         ("compose", "-m", "gaussian,noise_multiplier=3,count=7", "-m", "laplace,scale=9,sensitivity=1", "--delta",
          "1e-6", "--max-epsilon", "9", "--prior", "0.2")),
        (lambda: dpcalc.calibrate(Gaussian(noise_multiplier="solve", count=5), tpr=(0.05, 0.01)),
         ("calibrate", "-m", "gaussian,noise_multiplier=solve,count=5", "--tpr", "0.05@0.01")),
        (lambda: dpcalc.exp_mech(lipschitz=1, strong_convexity=3, delta=1e-5),
         ("exp-mech", "--lipschitz", "1", "--strong-convexity", "3", "--delta", "1e-5")),
        (lambda: dpcalc.sgd_bound(algorithm="gd", lr=0.05, sigma=0.02, sensitivity=9, n=50000, steps=40,
                                  strong_convexity=0.01, smoothness=3, delta=1e-6),
         ("sgd-bound", "--algorithm", "gd", "--lr", "0.05", "--sigma", "0.02", "--sensitivity", "9", "--n", "50000",
          "--steps", "40", "--strong-convexity", "0.01", "--smoothness", "3", "--delta", "1e-6")),
        (lambda: dpcalc.filter(ROOT / "examples" / "filter-norms.csv", filter="gdp", sigma=5, mu=0.9, delta=1e-5),
         ("filter", str(ROOT / "examples" / "filter-norms.csv"), "--filter", "gdp", "--sigma", "5", "--mu", "0.9",
          "--delta", "1e-5")),
    ],
)  # fmt: skip
def test_a_function_answers_as_its_command_does(dpcalc: Run, call: Callable[[], Result], arguments: Any) -> None:
    told = call()
    assert isinstance(told, Result)
    ours, theirs = json.loads(json.dumps(told.to_dict())), dpcalc(*arguments, "-f", "json").json
    for document in (ours, theirs):
        document["details"].pop("where", None)  # a place in a list here, in an option there
    assert ours == theirs


def test_training_answers_with_a_result() -> None:
    told = dpcalc.train(model="logistic", epochs=1, seed=3, epsilon=2)
    assert told.command == "train"
    assert told.epsilon <= 2
    assert told.details["steps"] == 20


def test_a_log_may_be_an_array() -> None:
    norms = np.full((16, 3), 0.5)
    norms[:, 2] = 0.1
    told = dpcalc.filter(norms, filter="gdp", sigma=1, mu=1)
    # Σ‖g‖² ≤ μ²σ² = 1 allows 4 steps at 0.5, and all 16 at 0.1.
    assert told.details["active_per_step"] == [3] * 4 + [1] * 12
    assert told.details["dropped_records"] == 2


def test_a_solution_is_in_the_details_and_keeps_its_target() -> None:
    told = dpcalc.calibrate(Gaussian(noise_multiplier="solve", count=4), epsilon=1.3, delta=1e-6)
    again = dpcalc.compose(Gaussian(noise_multiplier=told.details["solution"], count=4), delta=1e-6, max_epsilon=1.3)
    assert again.within is True
    assert again.epsilon == pytest.approx(1.3, rel=2e-3)


def test_results_compose_again() -> None:
    first = dpcalc.convert(gdp=0.6, delta=1e-5)
    both = dpcalc.compose(first, dpcalc.GDP(mu=0.8), delta=1e-5)
    assert both.epsilon == pytest.approx(dpcalc.gdp_epsilon(1.0, 1e-5), rel=1e-3)
    nested = dpcalc.compose([Gaussian(noise_multiplier=2), [Gaussian(noise_multiplier=2)]], delta=1e-5)
    assert nested.mu == pytest.approx(math.sqrt(0.5))
    assert dpcalc.compose({"type": "gdp", "mu": 0.4}, delta=1e-5).mu == pytest.approx(0.4, rel=1e-12)
    whole = {"delta": 1e-5, "mechanisms": [{"type": "gdp", "mu": 0.4}]}
    assert dpcalc.compose(whole).mu == pytest.approx(0.4, rel=1e-12)


def test_a_ledger_takes_entries_and_results(tmp_path: Path) -> None:
    from dpcalc.ledger.opening import open_terms

    with dpcalc.Ledger.open(str(tmp_path / "team.db"), create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        ledger.spend("census", Gaussian(noise_multiplier=4, count=4), key="entries")
        ledger.spend("census", dpcalc.convert(gdp=0.6, delta=1e-5), key="a result")
        with pytest.raises(dpcalc.RefusedError):  # 4/16 + 0.36 + 0.64 > 1
            ledger.spend("census", dpcalc.GDP(mu=0.8), key="too much")


def test_a_result_goes_to_data_and_back(tmp_path: Path) -> None:
    told = dpcalc.compose(DPSGD(noise_multiplier=1.2, rate=0.01, steps=300, sampling="poisson"), delta=1e-5)
    document = told.to_dict()
    assert Result.from_dict(document) == told
    with pytest.raises(InputError, match="epsilon"):
        Result.from_dict(document | {"epsilon": document["epsilon"] / 2})
    with pytest.raises(InputError, match="schema"):
        Result.from_dict({})
    told.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == document
    with pytest.raises(InputError, match="ends in"):
        told.save(tmp_path / "a.txt")


def test_risk_is_worked_out_when_somebody_looks() -> None:
    told = dpcalc.convert(gdp=1, delta=1e-5)
    assert told.risk is not None
    # 2Φ(1/2) − 1
    assert told.risk.advantage == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-9)
    assert "tpr_at_fpr" in told.to_dict()["risk"]


def test_a_notebook_shows_html_with_names_as_text() -> None:
    pytest.importorskip("jinja2")
    shown = dpcalc.compose(dpcalc.GDP(mu=1, name="<i>x"), dpcalc.GDP(mu=1), delta=1e-5)._repr_html_()
    assert shown is not None
    assert "<script" not in shown
    assert "<i>x" not in shown
    assert "&lt;i&gt;x" in shown


def test_a_frame_has_the_total_and_the_entries() -> None:
    pytest.importorskip("pandas")
    frame = dpcalc.compose(dpcalc.GDP(mu=1, name="x"), dpcalc.GDP(mu=2), delta=1e-5).to_frame()
    assert list(frame["name"]) == ["total", "x", "gdp"]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: dpcalc.compose(Gaussian(sigma=2, sensitivity=1), delta=3), "delta: expected a number in"),
        (lambda: dpcalc.compose(Gaussian(sigma=2, sensitivity=1), delta=float("nan")), "delta: expected"),
        (lambda: dpcalc.compose(Gaussian(sigma=2, sensitivity=1), delta=True), "delta: expected a number, got True"),
        (lambda: dpcalc.compose(Gaussian(sigma=2, sensitivity=1)), "delta"),
        (lambda: dpcalc.compose(Gaussian(sigma=-2, sensitivity=1), delta=1e-5), "mechanisms[0].sigma: expected"),
        (lambda: dpcalc.compose(Gaussian(sigma=2), delta=1e-5), "mechanisms[0]: sensitivity is missing"),
        (lambda: dpcalc.compose(5, delta=1e-5), "got int"),
        (lambda: dpcalc.compose(dpcalc.GDP(mu=object()), delta=1e-5), "plain numbers"),  # type: ignore[arg-type]
        (lambda: dpcalc.compose(delta=1e-5), "nothing to account for"),
        (lambda: dpcalc.compose(dpcalc.GDP(mu=1), dleta=1e-5), "did you mean delta?"),
        (lambda: dpcalc.gdp_rule(mu=1.0), "give `sigma`, or `noise_multiplier` with `clip`"),
        (
            lambda: dpcalc.train(filter="gdp", algorithm="sgd"),
            "use `filter=rdp`, or: `train(filter=gdp, algorithm=gd)`",
        ),
        (lambda: dpcalc.compose(dpcalc.GDP(mu=1), delta=1e-5, max_epsilon=-1), "max_epsilon: expected"),
        (lambda: dpcalc.compose(dpcalc.GDP(mu=1), delta=1e-5, adjacency="both"), "adjacency: expected one of"),
        (lambda: dpcalc.convert(gdp=1, zcdp=1), "exactly one of `gdp`, `rdp`, `zcdp` and `dp`"),
        (lambda: dpcalc.filter([[1.0]], filter="gdp", mu=1), "sigma"),
        (lambda: dpcalc.filter([["a"]], filter="gdp", mu=1, sigma=1), "log: expected numbers"),
        (lambda: dpcalc.sgd_bound(algorithm="gd", delta=1e-5), "n: is missing"),
        (lambda: dpcalc.exp_mech(lipschitz=1, delta=1e-5), "strong_convexity"),
        (lambda: dpcalc.train(model="tree"), "model: expected"),
    ],
)
def test_errors_name_arguments_and_never_flags(call: Callable[[], Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert field in str(caught.value)
    assert "--" not in str(caught.value).partition("dpcalc ")[0], "but in a command that can be pasted"


def test_examples_in_docstrings_hold() -> None:
    from dpcalc.api import functions

    for module in (dpcalc, functions):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0


def test_slack_fits_one_mu() -> None:
    fitted = dpcalc.compose(dpcalc.Laplace(epsilon=0.3, count=20), delta=1e-5, slack=1e-5).details["fitted"]
    assert fitted["slack"] == 1e-5
    assert 1.2 < fitted["mu"] < 1.3 < dpcalc.compose(dpcalc.Laplace(epsilon=0.3, count=20), delta=1e-5).mu
    with pytest.raises(dpcalc.InputError, match="slack"):
        dpcalc.compose(dpcalc.Gaussian(sigma=2, sensitivity=1), delta=1e-5, slack=1.5)


def test_releases_are_compared_as_they_are() -> None:
    """Two Gaussians of μ = ½ and μ = ¼, as values, lists and results; the bound of ¼ is the closed form."""
    before, after = (dpcalc.Gaussian(noise_multiplier=noise) for noise in (2, 4))
    compared = dpcalc.diff(before, [after], delta=1e-6)
    assert compared.epsilon == pytest.approx(float(dpcalc.gdp_epsilon(0.25, 1e-6)), rel=1e-9)
    assert compared.details["before"]["epsilon"] == pytest.approx(float(dpcalc.gdp_epsilon(0.5, 1e-6)), rel=1e-9)
    results = [dpcalc.compose(each, delta=1e-6) for each in (before, after)]
    assert dpcalc.diff(*results).details["increase"] == compared.details["increase"]
    with pytest.raises(dpcalc.InputError, match="expected a mechanism, a result, a mapping or a path, got int"):
        dpcalc.diff(before, 3, delta=1e-6)


def test_a_result_is_verified_as_it_is() -> None:
    pytest.importorskip("flint")
    checked = dpcalc.verify(dpcalc.compose(dpcalc.Gaussian(noise_multiplier=2), delta=1e-5))
    assert [each["verdict"] for each in checked.details["checks"]] == ["confirmed"]
