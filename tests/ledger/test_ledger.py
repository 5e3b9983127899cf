"""A ledger charges before the run, once per key, all or nothing, and never more than its budget."""

from __future__ import annotations

import numpy as np
import pytest

from dpcalc.conversions import gdp_epsilon, gdp_mu
from dpcalc.errors import IncompatibleError, InputError
from dpcalc.ledger import amounts
from dpcalc.ledger.amounts import spent
from dpcalc.ledger.answers import RefusedError
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.results import logged
from dpcalc.ledger.standing import standing
from dpcalc.ledger.status import status_of
from dpcalc.ledger.terms import part_terms
from dpcalc.ledger.tree import charged
from dpcalc.ledger.units import float_up, subtract
from dpcalc.ledger.verify import verify
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.sampled import PoissonSampled


def entries(ledger: Ledger) -> int:
    return ledger.store.head()[0]


def spent_mu(ledger: Ledger, name: str) -> float:
    return spent(ledger.budget(name), ledger.total(name))["mu"]


def test_a_budget_is_spent_to_the_last_release_and_no_further(new_ledger) -> None:
    ledger = new_ledger(mu=0.5)
    for i in range(25):
        assert ledger.spend("census", Gaussian(noise_multiplier=10), key=f"k{i}").recorded
    with pytest.raises(RefusedError) as refused:
        ledger.spend("census", Gaussian(noise_multiplier=1e6), key="one more")
    assert refused.value.exit_code == 1
    assert entries(ledger) == 26  # the budget itself, and its spends
    assert verify(ledger).exit_code == 0


def test_the_same_key_is_charged_once_and_other_content_is_an_error(new_ledger) -> None:
    ledger = new_ledger(epsilon=2, delta=1e-6)
    first = ledger.spend("census", [(Laplace(scale=10), 2), Gaussian(noise_multiplier=30)], key="counts", by="ann")
    again = ledger.spend("census", [Gaussian(noise_multiplier=30), (Laplace(scale=10), 2)], key="counts", by="bob")
    assert (first.recorded, again.recorded, again.entry) == (True, False, first.entry)
    assert entries(ledger) == 2
    with pytest.raises(InputError, match="other content"):
        ledger.spend("census", [Gaussian(noise_multiplier=30), (Laplace(scale=10), 3)], key="counts")
    new_ledger("other", epsilon=2, delta=1e-6)
    with pytest.raises(InputError, match="other content"):
        ledger.spend("other", [Gaussian(noise_multiplier=30), (Laplace(scale=10), 2)], key="counts")


def test_releases_known_at_low_orders_alone_are_charged_told_and_taken_back(new_ledger) -> None:
    """The order that most steps are compared at is one of which this release says nothing."""
    ledger = new_ledger(epsilon=0.9, delta=1e-9, filter="rdp")
    known = DeclaredRDP(orders=(2.0, 5.0, 24.0), epsilons=(3e-4, 8e-4, 6e-3))
    assert known.rdp(np.array(ledger.budget("census").orders[-1:]))[0] == float("inf")
    assert ledger.spend("census", [(known, 2)], key="few").recorded
    ledger.spend("census", Gaussian(noise_multiplier=80), key="noise")
    shares = [spend.share for spend in status_of(ledger, "census").latest]
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(amounts.level(ledger.budget("census"), ledger.total("census")))
    with pytest.raises(RefusedError):
        ledger.spend("census", DeclaredRDP(orders=(2.0, 5.0), epsilons=(3e-4, 8e-4)), key="too few orders")
    assert ledger.void("few", reason="it never ran")[1]
    assert verify(ledger).exit_code == 0


def test_a_refused_key_may_be_asked_again_for_less(new_ledger) -> None:
    ledger = new_ledger(mu=1.0)
    with pytest.raises(RefusedError):
        ledger.spend("census", DeclaredGDP(mu=1.1), key="k")
    assert ledger.spend("census", DeclaredGDP(mu=0.9), key="k").recorded


def test_a_dry_run_says_the_same_and_writes_nothing(new_ledger) -> None:
    ledger = new_ledger(mu=1.0)
    assert ledger.ask("census", DeclaredGDP(mu=0.9)).accepted
    assert not ledger.ask("census", DeclaredGDP(mu=1.1)).accepted
    assert entries(ledger) == 1


def test_what_is_not_certified_is_refused_with_the_reason(new_ledger) -> None:
    ledger = new_ledger(mu=1.0)
    with pytest.raises(InputError, match=r"approximate.*only what is certified"):
        ledger.spend("census", {"mechanisms": [{"type": "gdp", "mu": 0.1, "guarantee": "approximate"}]})
    assert entries(ledger) == 1


def test_adjacencies_are_converted_by_proof_or_refused(new_ledger) -> None:
    ledger = new_ledger(mu=1.0, adjacency="replace-one")
    ledger.spend("census", Gaussian(noise_multiplier=10), key="moved by a removal and an addition")
    assert spent_mu(ledger, "census") == pytest.approx(0.2, rel=1e-12)
    new_ledger("strict", mu=1.0)
    with pytest.raises(IncompatibleError, match="says nothing about"):
        ledger.spend("strict", Gaussian(noise_multiplier=10, adjacency="replace-one"))


def test_parents_are_charged_all_or_none(new_ledger) -> None:
    ledger = new_ledger("company", mu=1.0)
    new_ledger("sales", mu=0.9, parent="company")
    new_ledger("research", epsilon=4, delta=1e-6, parent="company")
    ledger.spend("sales", DeclaredGDP(mu=0.8), key="a")
    assert spent_mu(ledger, "company") == pytest.approx(0.8, rel=1e-12)
    with pytest.raises(RefusedError) as refused:
        ledger.spend("research", DeclaredGDP(mu=0.7), key="b")
    assert refused.value.answer.refused_by == "company"
    assert not any(ledger.total("research"))
    ledger.spend("research", DeclaredGDP(mu=0.6), key="c")
    assert float_up(ledger.total("company")[0]) == pytest.approx(1.0, rel=1e-9)
    assert verify(ledger).exit_code == 0


def test_a_tree_has_one_unit_and_one_adjacency(new_ledger) -> None:
    new_ledger("company", mu=1.0)
    with pytest.raises(InputError, match="one unit of privacy and one adjacency"):
        new_ledger("homes", mu=1.0, unit="household", parent="company")


def test_parts_of_a_partition_cost_their_parent_the_largest(new_ledger) -> None:
    ledger = new_ledger("land", mu=1.0, parts=["north", "south", "west"])
    for part, mu in (("north", 0.3), ("south", 0.4), ("west", 0.5)):
        ledger.spend(f"land/{part}", DeclaredGDP(mu=mu), key=part)
    assert spent_mu(ledger, "land") == pytest.approx(0.5, rel=1e-12)
    ledger.spend("land", DeclaredGDP(mu=0.6), key="all")
    assert spent_mu(ledger, "land") == pytest.approx(0.61**0.5, rel=1e-12)
    assert verify(ledger).exit_code == 0


def test_under_replace_one_a_record_may_move_or_change_within_its_part(new_ledger) -> None:
    """Spent .3, .4, .5 under add-remove: moving costs √.41, changing within a part up to 2 × .5."""
    ledger = new_ledger("land", mu=1.5, parts=["north", "south", "west"], adjacency="replace-one")
    for part, mu in (("north", 0.3), ("south", 0.4), ("west", 0.5)):
        ledger.spend(f"land/{part}", DeclaredGDP(mu=mu), key=part)
    assert spent_mu(ledger, "land") == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(IncompatibleError, match="state it under add-remove"):
        ledger.spend("land/west", DeclaredGDP(mu=0.1, adjacency="replace-one"))
    assert verify(ledger).exit_code == 0


def test_a_record_that_moves_costs_the_two_largest_parts_where_that_is_more() -> None:
    terms = open_terms("land", rho=1.0, parts=["a", "b", "c"], adjacency="replace-one")
    path = [part_terms(terms, "a"), terms]
    moves, stays = (f"zcdp {adjacency}" for adjacency in ("add-remove", "replace-one"))
    states = {
        "land": {stays: (11,)},
        "land/a": {moves: (3,), stays: (4,)},
        "land/b": {moves: (5,), stays: (6,)},
        "land/c": {moves: (4,), stays: (5,)},
    }
    after = charged(path, states, {moves: (4,), stays: (5,)})
    assert after["land/a"] == {moves: (7,), stays: (9,)}
    assert after["land"][stays] == (11 + (7 + 5) - (5 + 4),)
    assert charged(path, {**states, **after}, {moves: (4,), stays: (5,)}, subtract)["land"][stays] == (11,)


def test_partitions_below_partitions_and_above_other_filters(new_ledger) -> None:
    ledger = new_ledger("company", epsilon=6, delta=1e-5)
    new_ledger("land", mu=1.0, parent="company", parts=["east", "west"])
    new_ledger("city", mu=1.0, parent="land/east", parts=["centre", "rest"])
    run = PoissonSampled(base=Gaussian(noise_multiplier=5), sampling_rate=0.5)
    ledger.spend("city/centre", [(run, 3)], key="1")
    ledger.spend("city/rest", Gaussian(noise_multiplier=4), key="2")
    ledger.spend("land/west", Gaussian(noise_multiplier=3), key="3")
    ledger.spend("company", DeclaredDP(epsilon=0.1, delta=1e-7), key="4")
    measure = ledger.budget("company").measure
    expected = [
        max(a, b, c) + d
        for a, b, c, d in zip(
            measure.cost(((run, 3),)),
            measure.cost(((Gaussian(noise_multiplier=4), 1),)),
            measure.cost(((Gaussian(noise_multiplier=3), 1),)),
            measure.cost(((DeclaredDP(epsilon=0.1, delta=1e-7), 1),)),
            strict=True,
        )
    ]
    assert list(ledger.total("company")) == expected
    assert spent_mu(ledger, "land") == pytest.approx(3**0.5 / 5, rel=1e-9)  # sampled runs have the μ of unsampled ones
    assert verify(ledger).exit_code == 0
    ledger.void("1", reason="the cluster was down all week")
    assert spent_mu(ledger, "land") == pytest.approx(1 / 3, rel=1e-9)
    assert verify(ledger).exit_code == 0


def test_a_void_gives_back_exactly_what_was_charged_and_is_logged(new_ledger) -> None:
    ledger = new_ledger(epsilon=2, delta=1e-6)
    ledger.spend("census", {"mechanisms": [{"type": "rdp", "orders": [8, 36], "epsilons": [0.01, 0.02]}]}, key="a")
    before = ledger.total("census")
    ledger.spend("census", Laplace(scale=5), key="b")
    number, new = ledger.void("b", reason="the machine was never switched on", by="eve")
    assert (number, new, ledger.total("census")) == (4, True, before)
    assert ledger.void("b", reason="again") == (4, False)
    ledger.void("a", reason="neither was the other")
    assert not any(ledger.total("census"))
    with pytest.raises(InputError, match="voided"):
        ledger.spend("census", Laplace(scale=5), key="b")
    with pytest.raises(InputError, match="reason"):
        ledger.void("a", reason=" ")
    assert verify(ledger).exit_code == 0


def test_terms_are_fixed_for_ever(new_ledger) -> None:
    ledger = new_ledger(epsilon=1, delta=1e-6)
    new_ledger(epsilon=1, delta=1e-6)
    assert entries(ledger) == 1
    for other in ({"epsilon": 1.1, "delta": 1e-6}, {"mu": 1.0}, {"epsilon": 1, "delta": 1e-6, "filter": "gdp"}):
        with pytest.raises(InputError, match="for ever"):
            new_ledger(**other)


def test_the_database_refuses_changes_and_deletions(new_ledger, place) -> None:
    from dpcalc.ledger.store import StorageError

    ledger = new_ledger(mu=1.0)
    ledger.spend("census", DeclaredGDP(mu=0.1), key="k")
    for statement in (
        "UPDATE dpcalc_entries SET body = '{}'",
        "DELETE FROM dpcalc_charges",
        "DELETE FROM dpcalc_entries WHERE number = 2",
        "UPDATE dpcalc_ledger SET layout = 0",
    ):
        with pytest.raises(StorageError, match="append-only"):
            ledger.store.run(statement)
    assert verify(ledger).exit_code == 0


def test_a_reserved_block_runs_only_if_it_was_accepted_and_nothing_is_given_back(new_ledger) -> None:
    ledger = new_ledger(mu=1.0)
    with pytest.raises(ZeroDivisionError), ledger.reserve("census", DeclaredGDP(mu=0.8), key="run") as answer:
        assert 1 / (answer.entry - 2)  # a crash in entry 2
    ran = False
    with pytest.raises(RefusedError), ledger.reserve("census", DeclaredGDP(mu=0.8), key="next"):
        ran = True
    assert not ran
    assert spent_mu(ledger, "census") == pytest.approx(0.8, rel=1e-12)


def test_a_reserved_block_runs_once_for_a_key(new_ledger) -> None:
    """A second run is a second release, whatever the first one came to; the key was charged once."""
    ledger = new_ledger(mu=1.0)
    with ledger.reserve("census", DeclaredGDP(mu=0.1), key="run"):
        pass
    with (
        pytest.raises(InputError, match="may have told something"),
        ledger.reserve("census", DeclaredGDP(mu=0.1), key="run"),
    ):
        pytest.fail("it must not run again")
    assert entries(ledger) == 2


def test_results_guarantees_and_specs_can_be_charged(new_ledger, tmp_path) -> None:
    from dpcalc.accounting.compose import compose

    ledger = new_ledger(mu=1.0)
    guarantee = compose([(Gaussian(noise_multiplier=10), 4)], delta=1e-6)
    ledger.spend("census", guarantee, key="a guarantee")
    (tmp_path / "spec.yaml").write_text("mechanisms: [{type: gaussian, sigma: 20, sensitivity: 2, count: 4}]\n")
    ledger.spend("census", str(tmp_path / "spec.yaml"), key="a file")
    assert float_up(ledger.total("census")[0]) == pytest.approx(0.08, rel=1e-12)
    with pytest.raises(InputError, match="to charge"):
        ledger.spend("census", 0.5)


def test_status_and_log_tell_what_was_spent_by_whom(new_ledger) -> None:
    ledger = new_ledger(epsilon=3, delta=1e-6, filter="gdp")
    ledger.spend("census", [(Gaussian(noise_multiplier=20), 30)], key="a", by="ann")
    ledger.spend("census", [(Gaussian(noise_multiplier=20), 10)], key="b", by="bob")
    ledger.spend("census", [(Gaussian(noise_multiplier=20), 10)], key="c", by="bob")
    ledger.void("c", reason="never ran", by="ann")
    status = standing(ledger, "census")
    level = status.details["level"]
    by = {each["by"]: each["share"] for each in status.details["by"]}
    assert level == pytest.approx(40 / 400 / gdp_mu(3, 1e-6) ** 2, rel=1e-9)
    assert by["ann"] == pytest.approx(level / 2, rel=1e-9)  # thirty less the ten that were voided
    assert status.details["fits"]["largest_count"] == int((gdp_mu(3, 1e-6) ** 2 - 0.1) * 400)
    assert status.details["planned"]["epsilon"] == pytest.approx(gdp_epsilon(0.1**0.5, 1e-6), rel=1e-6)
    assert [record["kind"] for record in logged(ledger, "census").records] == [
        "budget",
        "spend",
        "spend",
        "spend",
        "void",
    ]
    new_ledger("other", mu=1.0)
    assert len(standing(ledger, None).details["budgets"]) == 2
