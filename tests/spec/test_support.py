"""The published support matrix is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcalc.accounting.compose import compose
from dpcalc.errors import DpcalcError
from dpcalc.guarantee import Adjacency
from dpcalc.spec.entries import read_entry
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.sampling import SCHEMES
from dpcalc.spec.support import combinations, example_of, support_matrix, supported
from dpcalc.spec.types import ENTRY_TYPES

ROOT = Path(__file__).resolve().parents[2]
COMBINATIONS = list(combinations())


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "support-matrix.md").read_text(encoding="utf-8")
    assert page == support_matrix(), "run: python -m dpcalc.spec.support > docs/support-matrix.md"


def test_every_type_sampler_and_adjacency_has_a_row() -> None:
    assert {entry.partition(",")[0] for entry, _, _ in COMBINATIONS} == set(ENTRY_TYPES)
    assert {sampling for _, sampling, _ in COMBINATIONS} == {"none", *SCHEMES}


def test_shuffling_never_claims_amplification() -> None:
    for entry, sampling, adjacency in COMBINATIONS:
        if sampling == "shuffled":
            fixed = supported(entry, "cyclic", adjacency).accountants
            claimed = supported(entry, sampling, adjacency).accountants
            assert claimed == tuple(each.replace("exact", "upper") for each in fixed)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda key: f"{key[0].partition(',')[0]}-{key[1]}-{key[2]}")
def test_a_row_composes_or_is_refused_as_it_says(combination: tuple[str, str, Adjacency]) -> None:
    row = supported(*combination)
    assert row.reason
    node = parse_inline(row.entry + example_of(row.sampling))
    if row.refused:
        with pytest.raises(DpcalcError):
            read_entry(node, row.adjacency).mechanism.pairs()
        return
    entry = read_entry(node, row.adjacency)
    words = [word.partition(" ")[0] for word in row.accountants]
    for accountant in ("gdp", "rdp", "clt"):
        if accountant in words:
            assert compose([(entry.mechanism, 2)], delta=1e-3, accountant=accountant).epsilon is not None
    again = read_entry(parse_inline(_inline(entry.mechanism.spec())), row.adjacency)
    assert again.mechanism == entry.mechanism, "a mechanism's spec reads back as the mechanism"


def _inline(spec: object) -> str:
    import json

    assert isinstance(spec, dict)
    rest = ",".join(f"{key}={json.dumps(value)}" for key, value in spec.items() if key != "type")
    return f"{spec['type']},{rest}"
