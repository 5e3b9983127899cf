"""The examples that people start from run, learn, and keep their budget."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "chance"), [("start_text.py", 25), ("start_tabular.py", 55)])
def test_a_starting_point_learns_within_its_budget(name, chance, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--records", "3000", "--epsilon", "2.5", "--seed", "4"])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    told = re.findall(r"([\d.]+) % right, ε = ([\d.]+) at δ = 1e-5 \((\w+)\)", capsys.readouterr().out)
    assert len(told) == 3
    for right, epsilon, status in told:
        assert float(right) > chance + 10
        assert 2 < float(epsilon) <= 2.5
        assert status == "certified"
