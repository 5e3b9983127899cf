"""Whoever changes a ledger behind its back is found out; a copy carries its chain."""

from __future__ import annotations

import json
import sqlite3

import pytest

from dpcalc.errors import InputError
from dpcalc.ledger import measure
from dpcalc.ledger.chain import SCHEMA, Entry, broken_link, canonical, digest, sealed
from dpcalc.ledger.ledger import Ledger
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.terms import part_terms
from dpcalc.ledger.transfer import exported, imported
from dpcalc.ledger.verify import verify
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.sampled import PoissonSampled


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
        assert verify(ledger, expected_head=audit.head[:32]).exit_code == 0
        assert "0123" in verify(ledger, expected_head="0123" * 8).contradicted[0]
        with pytest.raises(InputError, match="hexadecimal"):
            verify(ledger, expected_head="0123")


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
        ("UPDATE dpcalc_entries SET body = replace(body, '0.1', '0.01') WHERE number = 7", "entry 7 was changed"),
        ("DELETE FROM dpcalc_entries WHERE number = 8", "charges of entry 8, which is not there"),
        ("INSERT INTO dpcalc_charges VALUES ('company', 1, 0)", "entry 1: its columns"),
        ("UPDATE dpcalc_entries SET key = 'four' WHERE key = 'three'", "columns"),
        ("UPDATE dpcalc_entries SET voids = 6 WHERE number = 8", "columns"),
        ("UPDATE dpcalc_ledger SET id = '0'", "entry 1 does not follow"),
    ],
)
def test_every_kind_of_change_is_found(spent, statement, found) -> None:
    assert any(found in line for line in tampered(spent, statement))


def test_entries_that_changed_places_are_found(spent) -> None:
    swap = "UPDATE dpcalc_entries SET number = {} WHERE number = {}"
    lines = tampered(spent, swap.format(99, 5), swap.format(5, 6), swap.format(6, 99))
    assert any("entry 5" in line for line in lines)


def test_a_last_entry_taken_away_with_its_charges_is_missed_by_its_hash_alone(spent) -> None:
    with Ledger.open(spent, write=False) as ledger:
        head = verify(ledger).head
    gone = ("DELETE FROM dpcalc_charges WHERE entry = 8", "DELETE FROM dpcalc_entries WHERE number = 8")
    assert tampered(spent, *gone) == []  # what is left is a sound ledger, as it once was
    with Ledger.open(spent, write=False) as ledger:
        assert any(head in line for line in verify(ledger, expected_head=head).contradicted)


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["DROP TRIGGER dpcalc_charges_no_delete"], "dpcalc_charges_no_delete"),
        (
            [
                "DROP TRIGGER dpcalc_entries_no_update",
                "CREATE TRIGGER dpcalc_entries_no_update BEFORE UPDATE ON dpcalc_entries BEGIN SELECT 1; END",
            ],
            "dpcalc_entries_no_update",
        ),
        (
            ["CREATE TRIGGER quiet BEFORE INSERT ON dpcalc_charges BEGIN SELECT RAISE(IGNORE); END"],
            "the trigger quiet is none of ours",
        ),
    ],
)
def test_guards_that_are_gone_or_toothless_are_found(spent, statements, found) -> None:
    connection = sqlite3.connect(spent)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    with Ledger.open(spent, write=False) as ledger:
        (line,) = verify(ledger).contradicted
    assert found in line


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER dpcalc_entries_guard ON dpcalc_entries",
        "ALTER TABLE dpcalc_entries DISABLE TRIGGER dpcalc_entries_guard",
        "CREATE OR REPLACE FUNCTION dpcalc_append_only() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RETURN NEW; END $$",
        "CREATE OR REPLACE TRIGGER dpcalc_entries_guard BEFORE UPDATE ON dpcalc_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION dpcalc_append_only()",
        "CREATE TRIGGER quiet BEFORE DELETE ON dpcalc_entries FOR EACH ROW EXECUTE FUNCTION dpcalc_append_only()",
    ],
)
def test_guards_of_postgres_that_are_gone_or_toothless_are_found(postgres_place, statement) -> None:
    with Ledger.open(postgres_place, create=True) as ledger:
        ledger.add_budget(open_terms("census", mu=1.0))
        assert verify(ledger).contradicted == []
        ledger.store.run(statement)
        assert verify(ledger).exit_code == 1


def forged(lines: list[str], number: int, change) -> list[str]:
    """An export in which an entry was changed and everything from it on sealed anew."""
    head = json.loads(lines[0])
    entries = [json.loads(json.loads(line)["body"]) for line in lines[1:]]
    change(entries[number - 1])
    previous, written = head["ledger"], []
    for i, content in enumerate(entries, start=1):
        entry = sealed(i, previous, {key: v for key, v in content.items() if key != "number"})
        previous = entry.hash
        written.append(canonical({"hash": entry.hash, "body": entry.body}))
    return [canonical({**head, "head": previous}), *written]


def test_an_export_sealed_anew_with_other_numbers_is_not_taken_in(tmp_path) -> None:
    place, copy = str(tmp_path / "team.db"), tmp_path / "copy.db"
    with Ledger.open(place, create=True) as ledger:
        ledger.add_budget(open_terms("land", mu=1.0, parts=["a", "b"]))
        ledger.spend("land/a", Gaussian(noise_multiplier=2), key="k")
        lines = list(exported(ledger))

    def costs_less(content) -> None:
        content["cost"] = {account: ["7"] for account in content["cost"]}
        content["totals"] = {name: {account: ["7"] for account in state} for name, state in content["totals"].items()}

    def third_part(content) -> None:
        content["terms"]["name"] = content["budget"] = "land/c"

    def wider(content) -> None:
        content["terms"]["mu"] = 9.0

    def nonsense(content) -> None:
        content["terms"] = {"name": "land", "filter": "rdp", "adjacency": "add-remove", "unit": "x", "epsilon": 1.0}

    assert imported(str(copy), forged(lines, 4, lambda _: None), "untouched") == 4
    copy.unlink()
    for number, change, found in (
        (4, costs_less, "today's engine says"),
        (2, third_part, "none of the parts"),
        (2, wider, "none of the parts"),
        (1, nonsense, "entry 1"),
    ):
        with pytest.raises(InputError, match=found):
            imported(str(copy), forged(lines, number, change), "an export")
        assert not copy.exists()


def test_parts_are_fixed_with_their_budget(new_ledger) -> None:
    ledger = new_ledger("land", mu=1.0, parts=["a", "b"])
    with pytest.raises(InputError, match="parts are fixed"):
        ledger.add_budget(part_terms(ledger.budget("land"), "c"))
    with pytest.raises(InputError, match="without /"):
        new_ledger("land/c", mu=1.0)


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
