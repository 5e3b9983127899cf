"""Every lemma broken on purpose: an error of a size that its entry of the ledger pays for, with and without the entry.

What is charged for stands; what is not, the referee contradicts, by code that shares nothing with the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flint")

from flint import arb, ctx

from dpcalc.accounting.certified import coarsen, compose, convolve, discretise, read
from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, UPPER, Component, Law
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.sums.allocated import lower_pair, upper_pair
from dpcalc.pairs.sums.law import SumLaw
from dpcalc.pairs.sums.terms import terms
from dpcalc.referee import check, laws
from dpcalc.referee.check import checked
from dpcalc.referee.compose import Bounds, down, exactly, on_grid, up

DELTA = 1e-5
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 2.0}
RATE = 0.2
SAMPLED = {**GAUSSIAN, "sampling": {"scheme": "poisson", "rate": RATE}}


def claim(entry: dict[str, Any], *, upper: float | None = None, lower: float | None = None) -> dict[str, Any]:
    return {
        "schema": "dpcalc/1",
        "guarantee": "certified",
        "adjacency": "add-remove",
        "epsilon": "inf" if upper is None else upper,
        "delta": DELTA,
        "question": {"delta": DELTA},
        "epsilon_lower": lower,
        "mechanisms": [entry],
    }


def steps(count: int, *, step: float = 0.01, short: int = 10**9) -> Law:
    """So many Gaussian steps of σ = 2, on one grid."""
    base = discretise.discretised([GaussianPair(0.5)], step, ((-int(6 / step), int(6 / step)),))
    law = base
    for _ in range(count - 1):
        law = compose.product(law, base, short=short)
    return law


def changed(law: Law, change: Callable[[np.ndarray], np.ndarray], rows: tuple[int, ...]) -> Law:
    """Some rows of a law replaced."""
    components = {}
    for k, part in law.components.items():
        new = part.rows.copy()
        for row in rows:
            new[row] = change(part.rows[row])
        components[k] = Component(part.start, new)
    return replace(law, components=components)


def upper(law: Law) -> float:
    return max(read.curve(law, way, upper=True).epsilon(DELTA) for way in ("remove", "add"))


def lower(law: Law) -> float:
    return max(read.curve(law, way, upper=False).epsilon(DELTA) for way in ("remove", "add"))


def verdict_on_upper(law: Law, count: int) -> str:
    return checked(claim({**GAUSSIAN, "count": count}, upper=upper(law))).verdict


def verdict_on_lower(law: Law, count: int) -> str:
    return checked(claim({**GAUSSIAN, "count": count}, lower=lower(law))).verdict


def test_the_stages_as_they_are_stand() -> None:
    assert verdict_on_upper(steps(4), 4) == "confirmed"
    assert verdict_on_lower(steps(4), 4) == "confirmed"


def test_rounding_that_is_not_charged_is_found() -> None:
    """L10, `relative`: weights that were rounded down by a twentieth."""
    law = changed(steps(4), lambda row: 0.95 * row, (UPPER,))
    assert verdict_on_upper(replace(law, ledger=law.ledger.plus(relative=0.05)), 4) == "confirmed"
    assert verdict_on_upper(law, 4) == "contradicted"


def test_points_that_are_off_are_found() -> None:
    """L9, `shift`: weights that belong a hundredth further out."""
    law = steps(4)
    moved = replace(
        law, components={k: Component(p.start - 1, p.rows * math.exp(0.005)) for k, p in law.components.items()}
    )
    charged = replace(moved, ledger=replace(moved.ledger, shift=moved.ledger.shift + 0.011))
    for direction in ("remove",):
        honest = read.curve(charged, direction, upper=True).epsilon(DELTA)
        false = read.curve(moved, direction, upper=True).epsilon(DELTA)
        assert checked(claim({**GAUSSIAN, "count": 4}, upper=honest)).verdict == "confirmed"
        assert checked(claim({**GAUSSIAN, "count": 4}, upper=false)).verdict == "contradicted"


def test_errors_of_masses_below_are_found() -> None:
    """L9, `slack`: P-masses that are a twentieth too large, and Q-masses too small."""
    law = changed(changed(steps(4), lambda row: 1.05 * row, (P_LOWER,)), lambda row: 0.95 * row, (Q_LOWER,))
    assert verdict_on_lower(replace(law, ledger=replace(law.ledger, slack=0.06)), 4) == "confirmed"
    assert verdict_on_lower(law, 4) == "contradicted"


def test_what_was_cut_off_is_found() -> None:
    """L8, `infinite` and `zero`: the tails that decide at δ."""
    law = steps(4)
    cut = coarsen.cut(law, 0, law.components[0].size // 2 - 150, law.components[0].size // 2 - 150)
    assert upper(cut) == math.inf
    forgotten = replace(cut, ledger=replace(cut.ledger, infinite=0.0, zero=0.0))
    assert verdict_on_upper(forgotten, 4) == "contradicted"


def test_underflow_that_is_not_charged_is_found() -> None:
    """L10, `lost`: entries below a threshold are lost, as if it were the smallest number of the machine."""
    law = steps(4)
    least = 2e-4 * float(law.components[0].rows[UPPER].max())
    forgotten = changed(law, lambda row: np.where(row < least, 0.0, row), (UPPER,))
    raised = changed(law, lambda row: np.maximum(row, least), (UPPER,))
    assert verdict_on_upper(raised, 4) == "confirmed"
    assert verdict_on_upper(forgotten, 4) == "contradicted"
    below = changed(law, lambda row: np.where(row < least, 0.0, row), (Q_LOWER,))
    known = replace(below, ledger=replace(below.ledger, lost=least * 2.0**-53))
    assert verdict_on_lower(known, 4) == "confirmed"
    faint = changed(law, lambda row: row * np.where(row < least, 0.5, 1.0), (Q_LOWER,))
    assert verdict_on_lower(faint, 4) == "contradicted"


def test_transforms_that_err_more_than_is_charged_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transforms in half of the digits, charged as such or as if they had all of them."""
    exact = np.fft.rfft

    def coarse(rows: np.ndarray, length: int) -> np.ndarray:
        found = exact(rows, length)
        return found * (1 - 2e-4)

    monkeypatch.setattr(convolve.np.fft, "rfft", coarse)
    assert verdict_on_upper(steps(6, short=0), 6) == "contradicted"
    monkeypatch.setattr(convolve, "TRANSFORM", convolve.TRANSFORM * 1e12)
    charged = upper(steps(6, short=0))
    assert charged == math.inf or checked(claim({**GAUSSIAN, "count": 6}, upper=charged)).verdict == "confirmed"


def test_cells_that_are_gathered_instead_of_spread_are_found() -> None:
    """L2: coarse cells put onto their own means above, which is what L3 does below."""
    p, q = (masses[1:-1] for masses in GaussianPair(0.5).masses(np.arange(-6.0, 6.1, 0.4)))
    base = discretise.discretised([PointPair(np.log(p / q), p, q)], 0.01, ((-600, 600),))
    gathered = base
    for _ in range(3):
        gathered = compose.product(gathered, base)
    assert verdict_on_upper(steps(4), 4) == "confirmed"
    assert verdict_on_upper(gathered, 4) == "contradicted"


def test_cells_that_are_spread_instead_of_gathered_are_found() -> None:
    """L3: the weights above, taken for masses below."""
    law = steps(4, step=0.25)
    spread = replace(
        law,
        components={k: Component(p.start, np.stack([p.rows[UPPER]] * 3)) for k, p in law.components.items()},
    )
    assert verdict_on_lower(law, 4) == "confirmed"
    assert verdict_on_lower(spread, 4) == "contradicted"


def test_bounds_that_are_read_the_wrong_way_round_are_found() -> None:
    """L11."""
    law = steps(4, step=0.1)
    assert checked(claim({**GAUSSIAN, "count": 4}, upper=lower(law))).verdict == "contradicted"
    assert checked(claim({**GAUSSIAN, "count": 4}, lower=upper(law))).verdict == "contradicted"


def test_a_step_that_is_left_out_is_found() -> None:
    """L4."""
    assert verdict_on_upper(steps(4), 5) == "contradicted"


def test_sampling_at_another_rate_is_found() -> None:
    """L5: split in the unsampled ratio, but at a rate that is a fiftieth too small."""
    honest, false = (
        upper(discretise.discretised([GaussianPair(0.5).mixed(rate)], 0.002, ((-800, 1500),)))
        for rate in (RATE, 0.98 * RATE)
    )
    assert checked(claim({**SAMPLED, "count": 1}, upper=honest)).verdict == "confirmed"
    assert checked(claim({**SAMPLED, "count": 1}, upper=false)).verdict == "contradicted"


# Sums -----------------------------------------------------------------------------------------------------------------

ALLOCATED = {**GAUSSIAN, "sampling": {"scheme": "random-allocation", "steps": 8}, "count": 1}


def mean_of_eight() -> SumLaw:
    law = terms(GaussianPair(0.5), 2.0**-7, ((0, 2048),))
    for _ in range(3):
        law = law.plus(law)
    return law


def epsilon_above(law: SumLaw) -> float:
    """Where δ of the points falls to δ, for removing (which is the worse direction here)."""
    pair = upper_pair(law)
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        delta = pair.p_infinite + float((pair.q * np.maximum(np.exp(pair.losses) - math.exp(middle), 0)).sum())
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


def epsilon_below(law: SumLaw) -> float:
    pair = lower_pair(law)
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        delta = float(np.maximum(pair.p - math.exp(middle) * pair.q, 0).sum())
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return low


def test_sums_as_they_are_stand() -> None:
    law = mean_of_eight()
    found = checked(claim(ALLOCATED, upper=epsilon_above(law), lower=epsilon_below(law)))
    assert found.verdict == "confirmed"


@pytest.mark.parametrize("field", ["infinite", "relative", "masses"])
def test_an_entry_of_the_ledger_of_sums_that_is_forgotten_is_found(field: str) -> None:
    """L6, L8, L10: the tail taken off, weights rounded down, and P-masses from Q-masses that are too large."""
    law = mean_of_eight()
    part = law.parts[0]
    if field == "infinite":
        cut = law.without_right(0, part.size - 900)
        assert epsilon_above(replace(cut, infinite=0.0)) < epsilon_above(law) < epsilon_above(cut)
        false = claim(ALLOCATED, upper=epsilon_above(replace(cut, infinite=0.0)))
    elif field == "relative":
        rows = part.rows * np.array([[0.9], [1.0], [1.0]])
        false = claim(ALLOCATED, upper=epsilon_above(replace(law, parts={0: replace(part, rows=rows)})))
    else:
        rows = part.rows * np.array([[1.0], [1.1], [1.0]])
        false = claim(ALLOCATED, lower=epsilon_below(replace(law, parts={0: replace(part, rows=rows)})))
    assert checked(false).verdict == "contradicted"


def test_allocation_taken_for_poisson_sampling_is_found() -> None:
    """The same rate of 1/8 in 8 steps is another number, for removing and for adding."""
    from dpcalc.accounting.compose import compose as composed
    from dpcalc.mechanisms.gaussian import Gaussian
    from dpcalc.mechanisms.sampled import PoissonSampled

    poisson = composed([(PoissonSampled(base=Gaussian(noise_multiplier=2.0), sampling_rate=1 / 8), 8)], delta=DELTA)
    honest = epsilon_above(mean_of_eight())
    assert poisson.epsilon_lower > 1.02 * honest
    assert checked(claim(ALLOCATED, lower=poisson.epsilon_lower)).verdict == "contradicted"


def test_the_ends_of_a_ball_are_rounded_outwards() -> None:
    for k in range(1, 200):
        ball = arb(k) / 7
        assert arb(down(ball)) < ball < arb(up(ball))


def outside(found: Bounds, exact: arb) -> bool:
    """Whether both bounds are doubles and the truth lies strictly between them."""
    doubles = isinstance(found.upper, float) and isinstance(found.lower, float)
    return doubles and bool(arb(found.lower) < exact < arb(found.upper))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 0.7])
def test_bounds_of_either_direction_are_doubles_around_the_truth(
    turned: bool, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P = (6, 1)/7 and Q = (3, 4)/7, or the other way round: δ is that of one direction, (4 − e^ε)/7."""
    monkeypatch.setattr(ctx, "prec", 128)
    masses = [(arb(6) / 7, arb(3) / 7), (arb(1) / 7, arb(4) / 7)]
    atoms = [((q, p) if turned else (p, q)) for p, q in masses]
    law = laws.Law(atoms=tuple(((p / q).log(), p, q) for p, q in atoms))
    exact = (arb(4) - arb(epsilon).exp()) / 7
    assert outside(exactly([(law, 1)], arb(epsilon)), exact)
    found = on_grid([(law, 1)], 2.0**-10, 1e-6).delta(arb(epsilon))
    assert outside(found, exact)
    assert found.upper - found.lower < 1e-2


def test_bounds_of_gaussians_are_doubles_around_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctx, "prec", 128)
    for mu in (0.3, 1.0, 2.5):
        for epsilon in (0.1, 1.0):
            found = check._gaussian_bounds([(arb(mu), 1)], check.Claim("upper", epsilon, 0.1))
            half, ratio = arb(mu) / 2, arb(epsilon) / arb(mu)
            below, above = ((-(x / arb(2).sqrt())).erfc() / 2 for x in (half - ratio, -half - ratio))
            assert found is not None
            assert outside(found, below - arb(epsilon).exp() * above)
