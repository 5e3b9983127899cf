"""Whoever changes a ledger behind its back is found out; a copy carries its chain."""

from __future__ import annotations

import json
import sqlite3

import pytest

from dpcalc import DeclaredDP, Gaussian, Laplace, PoissonSampled
from dpcalc.errors import InputError
from dpcalc.ledger import measure
from dpcalc.ledger.chain import SCHEMA, Entry, broken_link, canonical, digest, sealed
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.transfer import exported, imported
from dpcalc.ledger.verify import verify


@pytest.fixture
def spent(tmp_path) -> str:
    """A ledger file with a few entries of every kind."""
    place = str(tmp_path / "team.db")
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("company", epsilon=5, delta=1e-5))
        ledger.add_budget(open_terms("census", epsilon=3, delta=1e-6, parent="company", parts=["a", "b"]))
        ledger.spend("census/a", Laplace(scale=10), key="one", by="ann")
        ledger.spend("census", [(PoissonSampled(base=Gaussian(noise_multiplier=2), sampling_rate=0.1), 5)], key="two")
        ledger.spend("census/b", DeclaredDP(epsilon=0.1, delta=1e-8), key="three", note="with its own δ")
        ledger.void("one", reason="never ran")
    return place


def tampered(place: str, *statements: str) -> list[str]:
    """What verify says after statements that no guard stopped."""
    connection = sqlite3.connect(place)
    for name in ("dpcalc_ledger", "dpcalc_entries", "dpcalc_charges"):
        for action in ("update", "delete"):
            connection.execute(f"DROP TRIGGER {name}_no_{action}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with Ledger.open(place, write=False) as ledger:
        audit = verify(ledger)
    assert sum("guard" in line for line in audit.contradicted) == 6
    assert audit.exit_code == 1
    return [line for line in audit.contradicted if "guard" not in line]


def test_a_clean_ledger_is_confirmed(spent) -> None:
    with Ledger.open(spent, write=False) as ledger:
        audit = verify(ledger)
        assert (audit.exit_code, audit.entries, audit.changed) == (0, 8, [])
        assert verify(ledger, expected_head=audit.head).exit_code == 0
        assert "0123" in verify(ledger, expected_head="0123").contradicted[0]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE dpcalc_entries SET body = replace(body, 'ann', 'bob') WHERE number = 5", "entry 5 was changed"),
        ("UPDATE dpcalc_entries SET body = 'no JSON' WHERE number = 8", "entry 8 was changed"),
        ("UPDATE dpcalc_entries SET body = '[]' WHERE number = 2", "entry 2 was changed"),
        ("DELETE FROM dpcalc_entries WHERE number = 6", "entry 6 is missing"),
        ("UPDATE dpcalc_entries SET who = 'bob' WHERE number = 5", "columns"),
        ("UPDATE dpcalc_entries SET digest = 'x' WHERE number = 6", "digest"),
        ("DELETE FROM dpcalc_charges WHERE entry = 8", "entry 8: its columns"),
        ("UPDATE dpcalc_entries SET hash = 'x' WHERE number = 8", "entry 8 was changed"),
    ],
)
def test_every_kind_of_change_is_found(spent, statement, found) -> None:
    assert any(found in line for line in tampered(spent, statement))


def test_entries_forged_with_a_good_chain_but_a_wrong_sum_are_found(spent) -> None:
    with Ledger.open(spent, write=False) as ledger:
        rows = list(ledger.store.rows())
    last = rows[6].entry  # the spend of census/b, forged to cost nothing and everything after it sealed anew
    content = last.content
    content["cost"] = {account: ["0" for _ in texts] for account, texts in content["cost"].items()}
    forged = sealed(7, last.previous, {key: v for key, v in content.items() if key != "number"})
    following = sealed(8, forged.hash, {k: v for k, v in rows[7].entry.content.items() if k != "number"})
    statements = [
        f"UPDATE dpcalc_entries SET body = '{e.body.replace(chr(39), chr(39) * 2)}', previous = '{e.previous}', "
        f"hash = '{e.hash}' WHERE number = {e.number}"
        for e in (forged, following)
    ]
    lines = tampered(spent, *statements)
    assert any("entry 7: the totals" in line for line in lines)
    assert any("entry 7: was charged 0" in line for line in lines)


def test_verify_says_where_the_engine_of_today_disagrees(spent, monkeypatch) -> None:
    true = measure._divergences
    with Ledger.open(spent, write=False) as ledger:
        measure._cost.cache_clear()
        monkeypatch.setattr(measure, "_divergences", lambda m, orders: tuple(1.01 * v for v in true(m, orders)))
        worse = verify(ledger)
        measure._cost.cache_clear()
        monkeypatch.setattr(measure, "_divergences", lambda m, orders: tuple(0.99 * v for v in true(m, orders)))
        better = verify(ledger)
    measure._cost.cache_clear()
    assert worse.exit_code == 1
    assert {line.split(":")[0] for line in worse.contradicted} == {"entry 5", "entry 6", "entry 7"}
    assert better.exit_code == 0
    assert {line.split(":")[0] for line in better.changed} == {"entry 5", "entry 6", "entry 7"}


def test_an_export_is_the_same_ledger_elsewhere(spent, new_ledger, place) -> None:
    with Ledger.open(spent) as ledger:
        lines = list(exported(ledger))
        total = ledger.total("census")
    target = place if place.startswith("postgresql") else f"{place}.copy"
    assert imported(target, lines, "an export") == 8
    assert imported(target, lines, "an export") == 0
    with Ledger.open(target) as copy:
        assert verify(copy).exit_code == 0
        assert copy.total("census") == total
        assert list(exported(copy)) == lines
        assert not copy.spend(
            "census", [(PoissonSampled(base=Gaussian(noise_multiplier=2), sampling_rate=0.1), 5)], key="two"
        ).recorded
        copy.spend("census", DeclaredDP(epsilon=0.01), key="later")
        longer = list(exported(copy))
    assert imported(spent, longer, "a longer export") == 1
    with pytest.raises(InputError, match="entries that the export does not have"):
        imported(spent, lines, "the old export")


def changed(lines: list[str], number: int, change) -> list[str]:
    line = json.loads(lines[number])
    change(line)
    return [*lines[:number], canonical(line), *lines[number + 1 :]]


def test_an_export_that_was_touched_is_not_taken_in(spent, tmp_path) -> None:
    with Ledger.open(spent) as ledger:
        lines = list(exported(ledger))
    target = tmp_path / "copy.db"
    for broken in (
        lines[:-1],
        [*lines[:5], *lines[6:]],
        changed(lines, 5, lambda line: line.update(body=line["body"].replace("ann", "bob"))),
        changed(lines, 8, lambda line: line.update(hash="0" * 64)),
        changed(lines, 0, lambda line: line.update(ledger="../../etc")),
        ["{}"],
        ["[1, 2"],
        [],
    ):
        with pytest.raises(InputError):
            imported(str(target), broken, "an export")
        assert not target.exists()


def test_a_broken_link_is_named() -> None:
    first = sealed(1, "start", {"kind": "budget"})
    assert broken_link(first, 1, "start") is None
    assert "does not follow" in str(broken_link(first, 1, "elsewhere"))
    assert "numbered 1" in str(broken_link(first, 2, "start"))
    assert "was changed" in str(
        broken_link(Entry(1, first.body.replace("budget", "spend"), "start", first.hash), 1, "start")
    )


@pytest.mark.parametrize(
    "body", ["no JSON", "[]", '{"number":7}', '{"kind":"spend","number":7}', '{"kind":"other","number":7}']
)
def test_an_entry_that_was_forged_to_be_nonsense_is_told_and_not_believed(spent, body) -> None:
    with Ledger.open(spent, write=False) as ledger:
        entry = ledger.store.entry(7)
    forged = digest(f"{SCHEMA}\n{entry.previous}\n{body}")
    lines = tampered(spent, f"UPDATE dpcalc_entries SET body = '{body}', hash = '{forged}' WHERE number = 7")
    assert any(line.startswith("entry 7") for line in lines)


def test_the_log_of_one_budget_has_what_was_charged_to_it(spent) -> None:
    with Ledger.open(spent, write=False) as ledger:
        assert [row.entry.number for row in ledger.store.rows("census/a")] == [3, 5, 8]
        assert len(list(ledger.store.rows("census"))) == 5
        assert len(list(ledger.store.rows())) == 8
