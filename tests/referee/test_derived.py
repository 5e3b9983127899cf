"""The referee on what sgd-bound and exp-mech derive: confirmed, and contradicted if changed."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flint")

from flint import arb

from dpcalc.cli.main import main
from dpcalc.referee.check import checked
from dpcalc.referee.derived import parameter
from dpcalc.referee.entries import NotCheckedError

GD = "sgd-bound --algorithm gd --sensitivity 3 --n 20 --sigma 0.4 --lr 0.3 --delta 1e-6"
CGD = "sgd-bound --algorithm cgd --sensitivity 3 --n 60 --batch-size 20 --sigma 0.4 --lr 0.3 --delta 1e-6"
SGD = "sgd-bound --algorithm sgd --clip 10 --n 400 --batch-size 20 --sigma 3 --lr 0.5 --steps 200 --delta 1e-6"
RUNS = {
    "any loss": f"{GD} --steps 30",
    "strongly convex": f"{GD} --steps 30 --strong-convexity 0.2 --smoothness 2",
    "projected": f"{GD} --steps 300 --smoothness 2 --diameter 0.7",
    "projected, strongly convex": f"{GD} --steps 300 --smoothness 2 --strong-convexity 0.1 --diameter 0.7",
    "cyclic": f"{CGD} --epochs 40 --strong-convexity 0.2 --smoothness 2",
    "cyclic, projected": f"{CGD} --epochs 300 --smoothness 2 --diameter 0.7",
    "cyclic, clipped": "sgd-bound --algorithm cgd --clip 2 --noise-multiplier 7 --n 60 --batch-size 20 --lr 0.3 "
    "--epochs 4 --delta 1e-6",
    "cyclic, clipped, added": "sgd-bound --algorithm cgd --clip 2 --noise-multiplier 7 --n 60 --batch-size 20 --lr 0.3 "
    "--epochs 4 --delta 1e-6 --adjacency add-remove",
    "exact": "exp-mech --lipschitz 1.3 --strong-convexity 2.5 --delta 1e-6",
    "stationary chain": "exp-mech --lipschitz 1.3 --strong-convexity 2.5 --lr 0.1 --smoothness 6 --delta 1e-6",
    "chain": "exp-mech --lipschitz 1.3 --strong-convexity 2.5 --lr 0.1 --smoothness 6 --steps 9 --delta 1e-6",
    "few choices": "exp-mech --epsilon-mech 0.7 --count 3 --delta 1e-6",
    "bounded": "exp-mech --lipschitz 0.2 --diameter 1 --delta 1e-6",
}
RANDOM = {
    "any loss": SGD,
    "projected": f"{SGD} --smoothness 1 --diameter 0.2",
    "both": f"{SGD} --strong-convexity 0.02 --smoothness 1 --diameter 0.2",
    "Poisson, any loss": f"{SGD} --adjacency add-remove",
    "Poisson, strongly convex": f"{SGD} --adjacency add-remove --strong-convexity 0.2 --smoothness 1",
    "Poisson, projected": f"{SGD} --adjacency add-remove --smoothness 1 --diameter 0.2",
}
EXACT = (
    "any loss",
    "strongly convex",
    "cyclic",
    "cyclic, clipped",
    "cyclic, clipped, added",
    "exact",
    "stationary chain",
    "chain",
)


def told(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        main([*words.split(), "-f", "json"])
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("name", RUNS)
def test_what_was_derived_is_confirmed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(told(RUNS[name], capsys), 0.5).verdict == "confirmed"


@pytest.mark.parametrize("name", EXACT)
def test_a_smaller_parameter_is_contradicted_however_consistent(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """μ and the ε that it would give, both a hundredth less."""
    result = told(RUNS[name], capsys)
    less = told(f"convert --gdp {result['mu'] * 0.99!r} --delta 1e-6", capsys)
    planted = {**result, "mu": less["mu"], "epsilon": less["epsilon"], "epsilon_lower": None}
    planted["mechanisms"] = [{**result["mechanisms"][0], "mu": less["mu"]}]
    assert checked(planted).verdict == "contradicted"


def follows(result: dict[str, Any]) -> bool:
    """Whether what a result rests on follows from its request."""
    try:
        found = parameter(result)
    except NotCheckedError:
        return False
    return found is None or bool(found[1].most <= found[0] * (1 + 1e-11))


@pytest.mark.parametrize("name", RANDOM)
def test_what_random_batches_rest_on_is_confirmed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = told(RANDOM[name], capsys)
    assert result["details"]["best"] == ("composition" if "any loss" in name else "optimal-shifts")
    found = parameter(result)
    if "any loss" in name:
        assert found is None
        return
    assert found is not None
    claimed, derived = found
    assert claimed * (1 - 1e-9) <= derived.most <= claimed * (1 + 1e-11)
    if name == "Poisson, strongly convex":
        assert checked(result, 1.0).verdict == "confirmed"


def test_less_than_random_batches_rest_on_does_not_follow(capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry of the list made a little cheaper, or left out."""
    result = told(RANDOM["Poisson, strongly convex"], capsys)
    gaussian, plain, split, overflow = result["mechanisms"]
    cheaper = [
        [{**gaussian, "noise_multiplier": gaussian["noise_multiplier"] * 1.001}, plain, split, overflow],
        [gaussian, {**plain, "noise_multiplier": plain["noise_multiplier"] * 1.001}, split, overflow],
        [gaussian, plain, {**split, "noise_multiplier": split["noise_multiplier"] * 1.001}, overflow],
        [gaussian, {**plain, "count": plain["count"] - 1}, split, overflow],
        [gaussian, plain, {**split, "count": split["count"] - 1}, overflow],
        [gaussian, plain, split, {**overflow, "delta": overflow["delta"] / 2}],
        [gaussian, {**plain, "sampling": {**plain["sampling"], "rate": 0.0099}}, split, overflow],
        [plain, split, overflow],
        [gaussian, plain, overflow],
    ]
    for mechanisms in cheaper:
        assert not follows({**result, "mechanisms": mechanisms})
    request = {**result["details"]["request"], "strong_convexity": 0.19}
    assert not follows({**result, "details": {**result["details"], "request": request}})
    assert follows(result)


def test_batches_may_be_as_rarely_too_large_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """200 times the chance that 400 − 1 coins of 1/20 show so many heads, in fractions, and a little less."""
    result = told(RANDOM["Poisson, strongly convex"], capsys)
    *others, overflow = result["mechanisms"]
    least = int(result["details"]["largest_batch"])
    chance = sum(Fraction(math.comb(399, k) * 19 ** (399 - k), 20**399) for k in range(least, 400))
    exact = math.nextafter(float(200 * chance / int(overflow.get("count", 1))), 1.0)
    assert follows({**result, "mechanisms": [*others, {**overflow, "delta": exact}]})
    assert not follows({**result, "mechanisms": [*others, {**overflow, "delta": exact * (1 - 1e-9)}]})


def test_a_request_that_does_not_belong_to_the_result_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    result = told(RUNS["strongly convex"], capsys)
    request = {**result["details"]["request"], "steps": 90}
    assert checked({**result, "details": {"request": request}}).verdict == "contradicted"
    assert checked({**result, "details": {}}).verdict == "not-checked"


def test_fewer_choices_than_were_asked_about_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    result = told(RUNS["few choices"], capsys)
    fewer = {**result, "mechanisms": [{**result["mechanisms"][0], "count": 2}]}
    with pytest.raises(NotCheckedError):
        parameter(fewer)
    assert checked({**result, "epsilon": 0.95 * result["epsilon"], "epsilon_lower": None}).verdict == "contradicted"


def test_random_batches_are_held_to_their_noise_rate_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "sgd-bound --algorithm sgd --sensitivity 3 --n 60 --batch-size 20 --sigma 0.4 --lr 0.3 --steps 5 --delta 1e-6"
    )
    result = told(words, capsys)
    assert parameter(result) is None
    for change in ({"noise_multiplier": 9.0}, {"count": 4}, {"sampling": {"scheme": "fixed-size", "rate": 0.1}}):
        with pytest.raises(NotCheckedError):
            parameter({**result, "mechanisms": [{**result["mechanisms"][0], **change}]})


def test_published_parameters() -> None:
    """Bok et al., Tables 7, 9 and 10-12: μ = 1.411, .334 and .764, each a closed form or the best start."""

    def mu(**request: Any) -> float:
        found = parameter(
            {"command": "sgd-bound", "mechanisms": [{"type": "gdp", "mu": 1.0}], "details": {"request": request}}
        )
        assert found is not None
        return float(arb(found[1].most).mid())

    common = {"delta": 1e-5, "smoothness": 1.0}
    steps = mu(algorithm="gd", n=1, sensitivity=0.1, sigma=1.0, lr=0.01, strong_convexity=1.0, steps=1000, **common)
    assert steps == pytest.approx(1.411, abs=5e-4)
    cyclic = mu(
        algorithm="cgd",
        n=10,
        batch_size=1,
        sensitivity=0.2,
        sigma=1.0,
        lr=0.01,
        strong_convexity=1.0,
        epochs=50,
        **common,
    )
    assert cyclic == pytest.approx(0.334, abs=5e-4)
    far = mu(
        algorithm="cgd", n=20, batch_size=1, sensitivity=0.5, sigma=3.0, lr=0.02, diameter=1.0, epochs=140, **common
    )
    assert 0.75 < far <= 0.7645


def test_a_schedule_is_the_convex_minorant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two steps, c = 1/2, by hand: absorb a of the first shift at once and the rest with the second."""
    path = tmp_path / "steps.csv"
    path.write_text("step,lr,sigma\n1,1,1\n2,1,2\n")
    words = f"sgd-bound --algorithm gd --schedule {path} --sensitivity 1 --n 1 --steps 2 --smoothness 1.5 "
    result = told(f"{words} --strong-convexity 0.5 --delta 1e-6", capsys)
    least = min(math.hypot(a, (0.5 * (1 - a) + 1) / 2) for a in (k / 10**5 for k in range(10**5 + 1)))
    found = parameter(result)
    assert found is not None
    assert float(arb(found[1].most).mid()) == pytest.approx(least, rel=1e-8)
    assert checked(result).verdict == "confirmed"
