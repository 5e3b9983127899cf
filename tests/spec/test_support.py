"""The published support matrix is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcalc.accounting.compose import compose
from dpcalc.errors import DpcalcError
from dpcalc.spec.entries import read_entry
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.sampling import SCHEMES
from dpcalc.spec.support import Support, example_of, support, support_matrix
from dpcalc.spec.types import ENTRY_TYPES

ROOT = Path(__file__).resolve().parents[2]
ROWS = list(support())


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "support-matrix.md").read_text(encoding="utf-8")
    assert page == support_matrix(), "run: python -m dpcalc.spec.support > docs/support-matrix.md"


def test_every_type_sampler_and_adjacency_has_a_row() -> None:
    assert {row.entry.partition(",")[0] for row in ROWS} == set(ENTRY_TYPES)
    assert {row.sampling for row in ROWS} == {"none", *SCHEMES}
    assert all(row.reason for row in ROWS)


def test_shuffling_never_claims_amplification() -> None:
    by_key = {(row.entry, row.sampling, row.adjacency): row for row in ROWS}
    for (entry, sampling, adjacency), row in by_key.items():
        if sampling == "shuffled":
            fixed = by_key[entry, "cyclic", adjacency].accountants
            assert row.accountants == tuple(each.replace("exact", "upper") for each in fixed)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.entry.partition(',')[0]}-{row.sampling}-{row.adjacency}")
def test_a_row_composes_or_is_refused_as_it_says(row: Support) -> None:
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
