"""What a refusal says would fit is the most that fits: one more, or a thousandth less noise, is refused."""

from __future__ import annotations

import pytest

from dpcalc.ledger.advice import Room
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.requests import asked
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    """A tree in which something is spent, so that now the budget itself and now its parent refuses."""
    with Ledger.open(str(tmp_path / "team.db"), create=True) as opened:
        opened.add_budget(open_terms("top", epsilon=4, delta=1e-5, filter="rdp"))
        opened.add_budget(open_terms("gdp", epsilon=3, delta=1e-6, filter="gdp", parent="top"))
        opened.add_budget(open_terms("rdp", epsilon=3, delta=1e-6, filter="rdp", parent="top"))
        opened.add_budget(open_terms("zcdp", rho=0.1, parent="top"))
        opened.add_budget(open_terms("wide", epsilon=40, delta=1e-6, filter="rdp", parent="top"))
        opened.spend("rdp", Laplace(scale=10), key="a")
        opened.spend("gdp", Gaussian(noise_multiplier=20), key="b")
        yield opened


POISSON = {"scheme": "poisson", "rate": 0.01}


@pytest.mark.parametrize(
    ("budget", "entry"),
    [
        ("gdp", {"type": "gaussian", "noise_multiplier": 5.0, "count": 300}),
        ("rdp", {"type": "gaussian", "noise_multiplier": 5.0, "count": 300}),
        ("rdp", {"type": "laplace", "scale": 3.0, "sensitivity": 1.0, "count": 300}),
        (
            "rdp",
            {"type": "dp-sgd", "noise_multiplier": 0.8, "steps": 5000, "sampling": POISSON},
        ),
        ("zcdp", {"type": "gaussian", "sigma": 2.0, "sensitivity": 1.0, "count": 30}),
        ("wide", {"type": "gaussian", "noise_multiplier": 1.0, "count": 9}),
        ("rdp", {"type": "dp", "epsilon": 0.3, "count": 20}),
        ("zcdp", {"type": "zcdp", "rho": 0.3}),
        ("gdp", {"type": "gdp", "mu": 2.0}),
    ],
)
def test_what_would_fit_is_the_most_that_fits(ledger, budget, entry) -> None:
    request, room = asked({"mechanisms": [entry]}, "add-remove"), Room(ledger, budget)
    assert not room.fits(request)
    advice = room.advice(request)
    count = advice.largest_count
    assert 0 <= count < advice.asked
    assert count == 0 or room.fits(request, 0, count)
    assert not room.fits(request, 0, count + 1)
    key, value, worse = (
        (advice.noise_key, advice.least_noise, 0.999) if advice.noise_key else (*advice.largest, 1.001)  # type: ignore[misc]
    )
    assert room.fits(request.with_value(0, key, repr(value)))
    assert not room.fits(request.with_value(0, key, repr(value * worse)))
