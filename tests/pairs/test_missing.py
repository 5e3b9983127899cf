"""Mass that a pair lacks is paid for wherever it is read: above, P-mass is a loss of ∞ and Q-mass one of -∞ (L8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from dpcalc.accounting.closed_forms import by_basic_composition, is_zero
from dpcalc.accounting.compose import compose
from dpcalc.accounting.question import Question
from dpcalc.mechanisms.base import Adjacency, Mechanism
from dpcalc.pairs.base import MixturePair, Pair
from dpcalc.pairs.blended import BlendedPair
from dpcalc.pairs.cells import lacking
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.profile import profile
from dpcalc.pairs.symmetrised import symmetrised

LACK = 8e-10
ORDERS = np.array([1.01, 2.0, 30.0])


def coin(p_lack: float = 0.0, q_lack: float = 0.0, loss: float = 0.7) -> PointPair:
    """Randomised response whose likelier outcome lost a little of its mass."""
    likely = 1 / (1 + math.exp(-loss))
    p, q = np.array([1 - likely, likely - p_lack]), np.array([likely - q_lack, 1 - likely])
    return PointPair(np.array([-loss, loss]), p, q)


@dataclass(frozen=True, kw_only=True)
class Forgetful(Mechanism):
    """A coin that somebody wrote down with too few digits."""

    type: ClassVar[str] = "forgetful"
    lack: float = LACK
    adjacency: Adjacency = "add-remove"

    def pairs(self) -> tuple[Pair, Pair]:
        return coin(self.lack, self.lack), coin(self.lack, self.lack).reversed()

    def spec(self) -> dict[str, object]:
        return {"type": self.type}


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_moments_pay(rate: float) -> None:
    """Of P against Q all orders are infinite without P-mass; of Q against P only where nothing is mixed in."""
    for pair in (coin(p_lack=LACK).mixed(rate), MixturePair(coin(p_lack=LACK), 0.3)):
        assert np.all(np.isinf(pair.rdp(ORDERS)))
    assert np.all(np.isinf(coin(q_lack=LACK).reversed().rdp(ORDERS)))
    assert np.all(np.isinf(coin(p_lack=LACK).rdp(ORDERS)))
    whole, sampled = MixturePair(coin(), 0.3), MixturePair(coin(q_lack=LACK), 0.3)
    # E_P[(Q/P)^α] − 1 over what is missing, at P/Q = 1 − q: more than LACK·f(1 − q), f as in `moments`.
    assert np.all(sampled.reversed().rdp(ORDERS) > whole.reversed().rdp(ORDERS))
    assert np.all(np.isfinite(whole.rdp(ORDERS)))


def test_both_directions_in_one_pay() -> None:
    pair = symmetrised(MixturePair(coin(p_lack=LACK), 0.25))
    edges = np.array([-3.0, 0.0, 3.0])
    p, q = pair.masses(edges)
    assert p[-1] >= 0.25 * LACK
    assert q[0] >= 0.25 * LACK
    assert pair.at_infinity()[0] >= 0.25 * LACK
    assert math.isclose(p.sum(), 1.0, rel_tol=1e-14)


def test_a_blend_pays_its_share() -> None:
    assert BlendedPair(coin(), coin(p_lack=LACK), 0.6, 0.4).failure() >= 0.4 * LACK


@pytest.mark.parametrize("over", [1e-8, 1e-3])
def test_a_blend_pays_its_share_beside_weights_of_more_than_one(over: float) -> None:
    """Masses that add up to 1 and more do not show what one of the two lacks."""

    @dataclass(frozen=True, kw_only=True)
    class Blended(Forgetful):
        def pairs(self) -> tuple[Pair, Pair]:
            pair = BlendedPair(coin(), coin(self.lack, self.lack), 0.6, 0.4 + over)
            return pair, pair.reversed()

    for pair in Blended().pairs():
        assert pair.failure() >= 0.4 * LACK
        assert profile(pair, np.array([40.0]))[0] >= 0.4 * LACK
        assert np.all(np.isinf(pair.rdp(ORDERS)))
    for accountant in ("auto", "rdp", "pld"):
        found = compose([(Blended(), 100)], epsilon=75.0, accountant=accountant)
        assert found.delta is not None
        assert found.delta >= 40 * LACK * (1 - 1e-6)


@pytest.mark.parametrize("count", [1, 100])
def test_basic_composition_pays(count: int) -> None:
    answer = by_basic_composition([(Forgetful(), count)], Question(None, count * 0.75))
    assert count * LACK <= answer.upper <= 1.001 * count * LACK
    assert by_basic_composition([(Forgetful(), count)], Question(0.9 * count * LACK, None)).upper == math.inf


@pytest.mark.parametrize("accountant", ["auto", "rdp", "pld"])
def test_no_accountant_forgets_it(accountant: str) -> None:
    found = compose([(Forgetful(), 100)], epsilon=75.0, accountant=accountant)
    assert found.delta is not None
    assert found.delta >= 100 * LACK * (1 - 1e-6)


def test_rounding_is_not_missing() -> None:
    assert coin().missing() == (0.0, 0.0)
    assert by_basic_composition([(Forgetful(lack=0.0), 10)], Question(None, 7.5)).upper == 0


def test_total_variation_pays_for_what_masses_own_up_to() -> None:
    """δ(0) of P-mass that may be larger and Q-mass that may be smaller by what the cells say."""

    class Doubtful(PointPair):
        def cells(self, edges):  # type: ignore[no-untyped-def]
            return super().cells(edges)._replace(p_error=np.full(2, 1e-6), q_error=np.full(2, 1e-6))

    exact = coin()
    doubtful = Doubtful(exact.losses, exact.p, exact.q)

    @dataclass(frozen=True, kw_only=True)
    class Doubted(Forgetful):
        def pairs(self) -> tuple[Pair, Pair]:
            return doubtful, doubtful

    at_zero = math.tanh(0.35)
    assert not is_zero([(Doubted(), 1)], Question(at_zero + 1.9e-6, None))
    assert is_zero([(Doubted(), 1)], Question(at_zero + 2.1e-6, None))


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_what_is_missing_is_rounded_up(error: float) -> None:
    """Of masses that err upwards by all that they may, in fractions."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        true = rng.random(30) / 40
        told, errors = true * (1 + error), true * error
        exact = 1 - sum(Fraction(float(mass)) for mass in (true if error else told))
        assert Fraction(lacking(told, errors)) >= exact


def test_what_is_infinite_and_what_is_missing_are_added_up() -> None:
    rng = np.random.default_rng(7)
    for _ in range(100):
        p = rng.random(2) / 4
        pair = PointPair(np.array([-0.5, 0.5]), p, np.array([0.6, 0.4]), float(rng.random() / 4))
        assert Fraction(pair.failure()) >= Fraction(pair.at_infinity()[0]) + Fraction(pair.missing()[0])
