"""The referee on runs under a schedule: shifts of random batches and of cycles, by hand and by closed forms."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flint")

from flint import arb

from dpcalc.cli.main import main
from dpcalc.last_iterate import stochastic
from dpcalc.last_iterate.setting import Setting
from dpcalc.referee import random_batches
from dpcalc.referee.check import checked
from dpcalc.referee.derived import parameter
from dpcalc.referee.entries import NotCheckedError
from dpcalc.referee.runs import Run

ROWS = ((1, 0.5, 3.0), (60, 0.4, 3.0), (120, 0.3, 4.0), (180, 0.2, 6.0))
SGD = "sgd-bound --algorithm sgd --clip 10 --n 400 --batch-size 20 --delta 1e-6 --smoothness 1"
RANDOM = {
    "fixed size": f"{SGD} --strong-convexity 0.2",
    "Poisson": f"{SGD} --strong-convexity 0.2 --adjacency add-remove",
    "projected": f"{SGD} --diameter 0.2 --steps 200",
    "Poisson, projected": f"{SGD} --diameter 0.2 --steps 200 --adjacency add-remove",
}
CYCLES = {
    "full batches": "sgd-bound --algorithm gd --clip 10 --n 400 --smoothness 1 --strong-convexity 0.2 --delta 1e-6",
    "full batches, projected": "sgd-bound --algorithm gd --clip 10 --n 400 --smoothness 1 --diameter 0.01 --delta 1e-6",
    "cycle": "sgd-bound --algorithm cgd --clip 10 --n 80 --batch-size 16 --smoothness 1 --strong-convexity 0.1 "
    "--delta 1e-6",
    "cycle, projected": "sgd-bound --algorithm cgd --clip 10 --n 80 --batch-size 16 --smoothness 1 --diameter 0.5 "
    "--delta 1e-6",
}


@pytest.fixture
def schedule(tmp_path: Path) -> Path:
    return written(tmp_path, ROWS)


def written(folder: Path, rows: Any) -> Path:
    path = folder / "schedule.csv"
    path.write_text("step,lr,sigma\n" + "".join(f"{step},{rate},{sigma}\n" for step, rate, sigma in rows))
    return path


def told(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        main([*words.split(), "-f", "json"])
    return dict(json.loads(capsys.readouterr().out))


def follows(result: dict[str, Any]) -> bool:
    try:
        found = parameter(result)
    except NotCheckedError:
        return False
    return found is None or bool(found[1].most <= found[0] * (1 + 1e-11))


@pytest.mark.parametrize("name", RANDOM)
def test_what_random_batches_of_a_schedule_rest_on_follows(
    name: str, schedule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And less of it does not: the Gaussian, the noise of any entry, a step with least noise, or an overflow."""
    result = told(f"{RANDOM[name]} --schedule {schedule}", capsys)
    assert result["details"]["best"] == "optimal-shifts"
    found = parameter(result)
    assert found is not None
    assert found[0] * (1 - 1e-9) <= found[1].most <= found[0] * (1 + 1e-11)
    entries = result["mechanisms"]
    for place, entry in enumerate(entries):
        cheaper = [{**entry, "noise_multiplier": entry["noise_multiplier"] * 1.005}] if "delta" not in entry else []
        if "delta" in entry:
            cheaper.append({**entry, "delta": entry["delta"] / 2})
        elif entry["noise_multiplier"] == min(each.get("noise_multiplier", math.inf) for each in entries):
            cheaper.append({**entry, "count": entry["count"] - 1})
        for change in cheaper:
            changed = [change if k == place else each for k, each in enumerate(entries)]
            assert not follows({**result, "mechanisms": changed}), change


def test_a_schedule_of_equal_rows_is_a_run_of_constant_steps(schedule: Path) -> None:
    """The closed form of constant steps, from the same list."""
    common = {"algorithm": "sgd", "n": 400, "batch_size": 20, "clip": 10.0, "steps": 90, "smoothness": 1.0}
    common |= {"strong_convexity": 0.2}
    sampling = {"scheme": "fixed-size", "rate": 0.05}
    entries = [
        {"type": "gaussian", "noise_multiplier": 30.0, "count": 1},
        {"type": "gaussian", "noise_multiplier": 2.5, "sampling": sampling, "count": 7},
        {"type": "gaussian", "noise_multiplier": 3.0, "sampling": sampling, "count": 5},
    ]
    rows = [{"step": step, "lr": 0.5, "sigma": 3.0} for step in (1, 40, 85)]
    one = random_batches.parameter(entries, Run.of({**common, "lr": 0.5, "sigma": 3.0}), None)
    other = random_batches.parameter(entries, Run.of({**common, "schedule": rows}), None)
    assert one is not None
    assert other is not None
    assert float(abs(one[1].most / other[1].most - 1)) < 1e-12


def test_the_shifts_of_a_schedule_are_those_of_the_docs_by_hand() -> None:
    """Three steps, the last two shifted: α²(a₁/w₁)² + α′²(a₂/w₂)² at its least over all shifts."""
    rows = [
        {"step": 1, "lr": 1.0, "sigma": 1.0},
        {"step": 2, "lr": 0.5, "sigma": 2.0},
        {"step": 3, "lr": 1.0, "sigma": 3},
    ]
    request = {"algorithm": "sgd", "n": 10, "batch_size": 1, "sensitivity": 1.0, "schedule": rows, "smoothness": 1.2}
    sampling = {"scheme": "fixed-size", "rate": 0.1}
    entries = [{"type": "gaussian", "noise_multiplier": 10.0, "count": 1}]
    entries += [{"type": "gaussian", "noise_multiplier": each, "sampling": sampling, "count": 1} for each in (2.0, 1.5)]
    found = random_batches.parameter(entries, Run.of({**request, "strong_convexity": 0.5}), None)
    second, third = max(1 - 0.25, abs(1 - 0.6)), max(1 - 0.5, abs(1 - 1.2))  # contractions
    splits = 1 / (1 - (1.5 / 2) ** 2), 1 / (1 - (2 / 3) ** 2)  # α²: the noisier step has the larger multiplier
    wanted = third * second * 1.0  # a distance of ηL/b = 1 after the first step, at the end

    def energy(early: float) -> float:
        late = wanted - third * early
        return splits[0] * (early / (0.5 * 2)) ** 2 + splits[1] * (late / 3) ** 2

    least = min(energy(wanted / third * k / 10**5) for k in range(10**5 + 1))
    assert found is not None
    assert float(arb(found[1].most).mid()) == pytest.approx(math.sqrt(least), rel=1e-8)


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_under_a_schedule_are_confirmed(name: str, schedule: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a μ that is half a percent less does not follow."""
    result = told(f"{CYCLES[name]} --schedule {schedule}", capsys)
    assert result["details"]["best"] == "shifted-interpolation"
    assert checked(result).verdict == "confirmed"
    less = [{**result["mechanisms"][0], "mu": result["mu"] * 0.995}]
    assert not follows({**result, "mechanisms": less})


def test_the_worst_record_of_a_schedule_may_be_in_the_first_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two batches, the first with a tenth of the noise: μ = 1, and .1 is what the other one's records lose."""
    path = written(tmp_path, ((1, 1, 1), (2, 1, 10)))
    result = told(
        f"sgd-bound --algorithm cgd --sensitivity 1 --n 2 --batch-size 1 --delta 1e-6 --schedule {path}", capsys
    )
    assert result["mu"] == pytest.approx(1)
    assert checked(result).verdict == "confirmed"
    less = told("convert --gdp 0.9 --delta 1e-6", capsys)
    planted = {**result, **{name: less[name] for name in ("mu", "epsilon", "rho", "rdp", "mechanisms")}}
    assert checked({**planted, "epsilon_lower": None}).verdict == "contradicted"


def test_the_best_of_all_starts_is_not_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four steps from D = 1 or from a common start, c = 1, all shifts in tenths: nothing is below what is derived."""
    sigmas = (1.0, 3.0, 2.0, 5.0)
    path = written(tmp_path, ((k + 1, 1, sigma) for k, sigma in enumerate(sigmas)))
    words = f"sgd-bound --algorithm gd --sensitivity 1 --n 1 --smoothness 2 --diameter 1 --delta 1e-6 --schedule {path}"
    result = told(words, capsys)
    best = math.inf
    for start, shifts in product(range(4), product(range(0, 21), repeat=3)):
        distance = 0.0 if start == 0 else 1.0
        energy = 0.0
        for k in range(start, 4):
            distance += 1.0
            shift = distance if k == 3 else min(shifts[k] / 10, distance)
            distance -= shift
            energy += (shift / sigmas[k]) ** 2
        best = min(best, energy)
    found = parameter(result)
    assert found is not None
    derived = float(arb(found[1].most).mid())
    assert 0.97 * math.sqrt(best) < derived <= math.sqrt(best)


@pytest.mark.parametrize("published", ["4.9", "4.10"])
def test_lists_of_the_published_theorems_follow_too(published: str) -> None:
    """One-sided shifts at the same split of fewer shifts are no dearer; a fiftieth of their Gaussian is too little."""
    convexity: dict[str, Any] = {"strong_convexity": 0.05} if published == "4.9" else {"diameter": 0.2}
    setting = Setting(
        algorithm="sgd", dataset_size=400, batch_size=20, steps=200, learning_rate=0.5, sensitivity=20.0, sigma=3.0,
        smoothness=1.0, **convexity,
    )  # fmt: skip
    bound = (stochastic.strongly_convex if published == "4.9" else stochastic.constrained)(setting, 1e-6)
    assert published in bound.theorem
    request = {"algorithm": "sgd", "n": 400, "batch_size": 20, "steps": 200, "lr": 0.5, "clip": 10.0, "sigma": 3.0}
    sampling = {"scheme": "fixed-size", "rate": 0.05}
    entries: list[dict[str, Any]] = [{"type": "gaussian", "noise_multiplier": 1 / bound.mu, "count": 1}]
    entries += [
        {"type": "gaussian", "noise_multiplier": 1 / part.mu, "sampling": sampling, "count": part.count}
        for part in bound.subsampled
    ]
    run = Run.of({**request, "smoothness": 1.0, **convexity})
    found = random_batches.parameter(entries, run, None)
    assert found is not None
    assert found[1].most < found[0]
    assert found[1].most > found[0] / 50
