"""A combination claims as much as its weakest part, and what is not certified has no certified ends."""

from __future__ import annotations

import itertools

import pytest

from dpcalc.evidence import STATUSES, Evidence, weakest_status
from dpcalc.guarantee import Guarantee, Stated


@pytest.mark.parametrize(("one", "other"), list(itertools.product(STATUSES, STATUSES)))
def test_a_combination_is_as_weak_as_its_weakest_part(one, other):
    ranks = {"certified": 0, "numerical": 1, "approximate": 2}
    weakest = max(one, other, key=ranks.__getitem__)
    assert weakest_status([one, other]) == weakest
    assert (Evidence(status=one) + Evidence(status=other)).status == weakest
    stated = Guarantee.of(
        [(Stated(adjacency="add-remove"), 1)], Evidence(status=one, citations=("",)), accountant="gdp"
    )
    assert stated.status == one
    assert stated.as_weak_as(other).status == weakest


@pytest.mark.parametrize("status", ["numerical", "approximate"])
def test_what_is_trusted_less_has_no_certified_ends(status):
    numbers = {"epsilon": 2.0, "delta": 1e-5, "epsilon_lower": 1.9, "delta_lower": 9e-6, "mu": 0.5, "mu_kind": "exact"}
    stated = Stated(adjacency="replace-one")
    certified = Guarantee.of([(stated, 1)], Evidence(citations=("",)), accountant="gdp", **numbers)
    weaker = certified.as_weak_as(status)
    assert (weaker.epsilon_lower, weaker.delta_lower, weaker.mu_kind) == (None, None, "approximate")
    assert certified.as_weak_as("certified") == certified
