"""The μ, ρ and Rényi divergences that a result states: confirmed as they are, contradicted half a percent below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath
import pytest

pytest.importorskip("flint")

from dpcalc.cli.main import main
from dpcalc.referee.check import checked

CASES = {
    "gdp": "convert --gdp 1.2",
    "gaussians": "compose -m gaussian,noise_multiplier=2,count=7 -m gaussian,sigma=3,sensitivity=2 --delta 1e-5",
    "a filter by μ": "filter examples/filter-norms.csv --filter gdp --noise-multiplier 10 --clip 1 --mu 0.4",
    "a filter by ρ": "filter examples/filter-norms.csv --filter rdp --sigma 4 --order 8 --rho 0.5",
}


def told(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        main([*words.split(), "-f", "json"])
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("name", CASES)
def test_what_is_stated_is_confirmed_and_less_is_contradicted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = told(CASES[name], capsys)
    assert checked(result).verdict == "confirmed"
    assert result["rho"] is not None
    for field in ("mu", "rho"):
        if result[field] is not None:
            assert checked({**result, field: 0.995 * result[field]}).verdict == "contradicted", field
    for place in (0, len(result["rdp"]) - 1):
        rows = [dict(row) for row in result["rdp"]]
        rows[place]["epsilon"] *= 0.995
        assert checked({**result, "rdp": rows}).verdict == "contradicted"


def test_divergences_of_laplace_noise_are_those_of_mironov(capsys: pytest.CaptureFixture[str]) -> None:
    """Proposition 6 of Mironov (2017), in 30 digits: so much is confirmed, and a little less contradicted."""
    result = told("compose -m laplace,epsilon=0.5,count=3 --delta 1e-5", capsys)
    with mpmath.workdps(30):
        a, e = mpmath.mpf(4), mpmath.mpf(0.5)
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
        exact = float(3 * mpmath.log(moment) / (a - 1))
    assert checked({**result, "rdp": [{"order": 4, "epsilon": exact * (1 + 1e-10)}]}).verdict == "confirmed"
    assert checked({**result, "rdp": [{"order": 4, "epsilon": exact * (1 - 1e-9)}]}).verdict == "contradicted"


def test_what_may_be_less_than_is_known_here_is_left_open(capsys: pytest.CaptureFixture[str]) -> None:
    """Divergences of an exponential mechanism are at most αε²/8, and those of its ranges are less."""
    result = told("compose -m exponential,epsilon=1 --delta 1e-5", capsys)
    assert checked(result).verdict == "confirmed"
    alone = {**result, "epsilon": None, "delta": None, "mu": None, "rho": None, "epsilon_lower": None}
    assert checked({**alone, "rdp": [{"order": 2, "epsilon": 0.26}]}).verdict == "confirmed"
    assert checked({**alone, "rdp": [{"order": 2, "epsilon": 0.24}]}).verdict == "not-checked"


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("rdp", [{"order": 2, "epsilon": 1.0}, {"order": 3}], "rdp[1]: expected an order and an epsilon"),
        ("rdp", [{"order": 0.5, "epsilon": 1.0}], "rdp[0].order"),
        ("rdp", {"order": 2}, "rdp: expected a list"),
        ("mu", "much", "mu: expected a number"),
        ("rho", -1, "rho: expected"),
    ],
)
def test_what_states_no_number_is_named(
    field: str, value: Any, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = told("convert --gdp 1.2 --delta 1e-5", capsys)
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**result, field: value}))
    with pytest.raises(SystemExit, match="2"):
        main(["verify", str(path)])
    assert place in capsys.readouterr().err
