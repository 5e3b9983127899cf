"""μ-GDP up to a slack of whole compositions, against exact curves and values from other code."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
from mpmath import mp, mpf

from dpcalc.accounting import fitted as module
from dpcalc.accounting.fitted import fitted
from dpcalc.accounting.question import Answer, Question
from dpcalc.errors import InputError
from dpcalc.mechanisms.base import Mechanism
from dpcalc.spec.sources import read_documents

_FILE = importlib.util.spec_from_file_location("fitted_oracle", Path(__file__).parent / "oracle.py")
assert _FILE is not None
assert _FILE.loader is not None
oracle = importlib.util.module_from_spec(_FILE)
_FILE.loader.exec_module(oracle)
gaussian_delta, randomized_response_delta = oracle.gaussian_delta, oracle.randomized_response_delta


def parts(*lines: str) -> list[tuple[Mechanism, int]]:
    return [(entry.mechanism, entry.count) for d in read_documents((), lines) for entry in d.read("add-remove")]


SAMPLED = "gaussian,noise_multiplier=0.8,sampling=poisson,rate=0.01,count=1000"


@pytest.mark.parametrize(
    ("slack", "mu", "binding", "add", "remove"),
    [
        (1e-5, 0.7167326, 2.833, 0.0257, 0.0252),
        (1e-6, 0.7532658, 3.434, 0.0325, 0.0320),
        (1e-9, 0.8572887, 5.148, 0.0515, 0.0511),
    ],
)
def test_poisson_sampling(slack: float, mu: float, binding: float, add: float, remove: float) -> None:
    """By two contour integrals in mpmath, which agree to 1e-10; the regrets have three digits."""
    found = fitted(parts(SAMPLED), slack)
    assert mu * (1 - 1e-7) <= found.mu <= mu * 1.0003
    assert found.slack == slack
    assert found.epsilon == pytest.approx(binding, abs=0.02)
    assert found.regret == found.directions["add"].regret
    for direction, regret in (("add", add), ("remove", remove)):
        assert regret - 5e-5 <= (found.directions[direction].regret or 0.0) <= regret * 1.01 + 5e-5
    assert found.directions["remove"].mu == found.mu
    assert found.directions["add"].mu < found.mu


def test_tolerance_brings_it_nearer() -> None:
    found = fitted(parts(SAMPLED), 1e-5, tolerance=1e-4)
    assert 0.7167326 * (1 - 1e-7) <= found.mu <= 0.7167326 * 1.00002
    assert 0.02565 <= (found.regret or 0.0) <= 0.02583


@pytest.mark.parametrize(
    ("line", "exact", "end"),
    [
        ("randomized-response,epsilon=0.4,count=7", lambda e: randomized_response_delta(mpf(0.4), 7, e), 2.8),
        ("laplace,epsilon=0.6,count=3", lambda e: oracle.laplace_delta(mpf(0.6), 3, e), 1.8),
    ],
)
@pytest.mark.parametrize("slack", [1e-3, 1e-6])
def test_exact_curves_are_below(line: str, exact, end: float, slack: float) -> None:  # type: ignore[no-untyped-def]
    found = fitted(parts(line), slack)
    assert list(found.directions) == ["both"]
    assert found.regret is not None
    assert found.epsilon is not None
    with mp.workdps(30):
        for k in range(301):
            epsilon = mpf(end) * k / 290
            delta, own = exact(epsilon), gaussian_delta(mpf(found.mu), epsilon)
            assert delta <= own + mpf(slack)
            assert (own + mpf(slack) - delta) / (1 + mp.exp(epsilon)) <= found.regret
        near = [mpf(found.epsilon) + mpf(k) / 500 for k in range(-25, 26) if found.epsilon + k / 500 >= 0]
        assert max(exact(e) - gaussian_delta(mpf(found.mu) * mpf("0.997"), e) for e in near) > slack


def test_a_mu_that_needs_no_slack_is_told_where_it_is_no_larger() -> None:
    found = fitted(parts("gaussian,noise_multiplier=2,count=9"), 1e-5)
    assert (found.mu, found.slack, found.epsilon) == (pytest.approx(1.5, rel=1e-14), 0.0, None)
    assert 0 <= (found.regret or 0.0) < 1e-12
    laplace = fitted(parts("laplace,epsilon=1"), 1e-12)
    assert laplace.mu == pytest.approx(1.03006399762, rel=1e-11)
    assert laplace.slack == 0
    with mp.workdps(30):
        places = [mpf(k) / 500 for k in range(1500)]
        most = max(
            (gaussian_delta(mpf(laplace.mu), e) - max(1 - mp.exp((e - 1) / 2), 0)) / (1 + mp.exp(e)) for e in places
        )
    assert most <= (laplace.regret or 0.0) <= most * mpf("1.01")


def test_accountants_without_a_law() -> None:
    assert fitted(parts("laplace,epsilon=1"), 1e-3, accountant="gdp").regret is None
    for accountant in ("rdp", "clt"):
        with pytest.raises(InputError, match="loss distributions"):
            fitted(parts(SAMPLED), 1e-3, accountant=accountant)  # type: ignore[arg-type]


def test_slack_below_what_is_lost_without_limit() -> None:
    assert fitted(parts("dp,epsilon=1,delta=1e-4"), 0.99e-4).mu == math.inf
    assert fitted(parts("dp,epsilon=1,delta=1e-4"), 1.5e-4).mu < 1.3


def test_no_lower_bound_no_regret() -> None:
    found = fitted(parts("gaussian,noise_multiplier=40,sampling=shuffled,rate=0.1,count=10"), 1e-5)
    assert found.mu < 1
    assert found.regret is None


def test_a_planted_error_of_the_curve_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upper bounds that are 1 % too low make a μ that the exact curve refutes."""
    true = module.by_laws

    def low(parts, question: Question, direction) -> Answer:  # type: ignore[no-untyped-def]
        answer = true(parts, question, direction)
        return Answer("pld", answer.upper * 0.99, answer.lower) if question.delta is None else answer

    monkeypatch.setattr(module, "by_laws", low)
    found = fitted(parts("randomized-response,epsilon=0.4,count=7"), 1e-6)
    with mp.workdps(30):
        excess = [
            randomized_response_delta(mpf(0.4), 7, mpf(k) / 100) - gaussian_delta(mpf(found.mu), mpf(k) / 100)
            for k in range(280)
        ]
    assert max(excess) > 1e-6
