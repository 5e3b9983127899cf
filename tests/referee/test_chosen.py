"""Exponential mechanisms among others: what choices by all that came before attain, and claims that forget them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flint")

from flint import arb, ctx

from dpcalc.referee import bounded_range, laws
from dpcalc.referee.check import checked

README_EXAMPLE = Path(__file__).parents[2] / "examples" / "mixed-release.yaml"


@pytest.fixture(autouse=True)
def _digits() -> None:
    ctx.prec = 128


def one_run(size: float, s: float, after: Callable[[float], float]) -> float:
    """The largest mean of X·after(s/X) over t: losses t and t - ε."""
    unit, best = -math.expm1(-size), 0.0
    for k in range(601):
        t = size * k / 600
        q = (math.exp(-t) - math.exp(-size)) / unit
        high, low = math.exp(t), math.exp(t - size)
        best = max(best, q * high * after(s / high) + (1 - q) * low * after(s / low))
    return best


def nothing(s: float) -> float:
    return max(1 - s, 0.0)


def envelope(size: float, s: float) -> float:
    return one_run(size, s, nothing)


def beside_a_gaussian(size: float, mu: float, epsilon: float) -> float:
    """E_P H(s/X) over the outcome of the Gaussian, t being chosen afterwards."""
    total, step = 0.0, 0.02
    for k in range(-400, 401):
        x = step * k
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        total += step * density * envelope(size, math.exp(epsilon - mu * x - mu * mu / 2))
    return total


def claim(
    mechanisms: list[dict[str, Any]], delta: float, *, upper: float = math.inf, lower: float | None = None
) -> Any:
    return {
        "guarantee": "certified",
        "adjacency": "add-remove",
        "epsilon": upper,
        "delta": delta,
        "question": {"delta": delta},
        "epsilon_lower": lower,
        "mechanisms": mechanisms,
    }


def test_a_run_after_the_others_attains_its_envelope() -> None:
    """A bound that a hundredth less or more of δ would need is told from one that is so."""
    entries = [{"type": "exponential", "epsilon": 1.0}, {"type": "gaussian", "noise_multiplier": 2.0}]
    delta = beside_a_gaussian(1.0, 0.5, 1.2)
    assert checked(claim(entries, 1.01 * delta, upper=1.2)).verdict == "confirmed"
    assert checked(claim(entries, 0.99 * delta, upper=1.2)).verdict == "contradicted"
    assert checked(claim(entries, 0.99 * delta, lower=1.2)).verdict == "confirmed"
    assert checked(claim(entries, 1.01 * delta, lower=1.2)).verdict == "contradicted"


@pytest.mark.parametrize("epsilon", [-0.9, -0.2, 0.0, 0.3, 0.8, 1.3])
def test_steered_runs_attain_what_the_best_choices_do(epsilon: float) -> None:
    best = one_run(
        0.8,
        math.exp(epsilon),
        lambda s: (
            max((1 - math.sqrt(s) * math.exp(-0.4)) ** 2 / -math.expm1(-0.8), 0)
            if -0.8 < math.log(s) < 0.8
            else nothing(s)
        ),
    )
    found = laws.profile(bounded_range.steered(arb(0.8), 2), arb(epsilon))
    assert 0.999 * best <= float(found) <= 1.00001 * best


def test_a_polygon_is_nowhere_above_its_tests() -> None:
    tests = [(0.1, 0.01), (0.3, 0.1), (0.31, 0.105), (0.5, 0.3), (0.9, 0.6), (0.9, 0.6), (0.85, 0.7)]
    law = bounded_range.of_tests([(arb(p), arb(q)) for p, q in tests])
    assert float(sum((p for _, p, _ in law.atoms), arb(0))) == pytest.approx(1, abs=1e-30)
    for k in range(-30, 31):
        s = math.exp(0.1 * k)
        most = max(0.0, 1 - s, *(p - s * q for p, q in tests))
        assert float(laws.profile(law, arb(0.1 * k))) == pytest.approx(most, abs=1e-12)


def test_of_two_kinds_one_alone_comes_last() -> None:
    """Two different runs, t of the first fixed: no more than all choices, and a lower bound by them is confirmed."""
    entries = [{"type": "exponential", "epsilon": 1.0}, {"type": "exponential", "epsilon": 0.6}]
    first = bounded_range.fixed(arb(0.6), 8.0).atoms
    attained = sum(float(p) * envelope(1.0, math.exp(1.1 - float(loss))) for loss, p, _ in first)
    most = one_run(0.6, math.exp(1.1), lambda s: envelope(1.0, s))
    assert 0.9 * most < attained <= most
    assert checked(claim(entries, 0.9 * attained, lower=1.1)).verdict == "confirmed"
    assert checked(claim(entries, 0.9 * attained, upper=1.1)).verdict == "contradicted"


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_two_envelopes_are_not_attained_together(side: str) -> None:
    """Between what all choices reach and an eighth more, where both come last, nothing is decided."""
    entries = [{"type": "exponential", "epsilon": 1.0}, {"type": "exponential", "epsilon": 0.6}]
    most = one_run(0.6, math.exp(1.1), lambda s: envelope(1.0, s))
    losses = [0.6 * (k - 99.5) / 100 for k in range(200)]
    density = [math.exp((loss - 0.6) / 2) / 2 / -math.expm1(-0.6) for loss in losses]
    both = sum(0.006 * p * envelope(1.0, math.exp(1.1 - loss)) for loss, p in zip(losses, density, strict=True))
    assert both > 1.1 * most
    bound: dict[str, Any] = {side: 1.1}
    assert checked(claim(entries, 1.05 * most, **bound), 0.2).verdict == "not-checked"


def test_the_release_of_the_readme_is_confirmed_and_less_is_contradicted(
    dpcalc: Callable[..., Any], tmp_path: Path
) -> None:
    """Of one epoch, which takes a fifth of the time of ten."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(README_EXAMPLE.read_text(encoding="utf-8").replace("epochs: 10", "epochs: 1"), encoding="utf-8")
    result = dpcalc("compose", str(spec), "-f", "json").json
    assert checked(result).verdict == "confirmed"
    assert checked({**result, "epsilon": 0.99 * result["epsilon"]}).verdict == "contradicted"
    assert checked({**result, "epsilon_lower": 1.01 * result["epsilon_lower"]}).verdict == "contradicted"
