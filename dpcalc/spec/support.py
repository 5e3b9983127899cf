"""What is supported: every type of entry under every sampler and adjacency, by asking the code that would run.

python -m dpcalc.spec.support > docs/support-matrix.md
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.compose import Accountant, compose
from dpcalc.errors import DpcalcError
from dpcalc.guarantee import ADJACENCIES, Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.spec.entries import read_entry
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.sampling import SCHEMES
from dpcalc.spec.types import ENTRY_TYPES

ACCOUNTANTS: tuple[Accountant, ...] = ("gdp", "rdp", "pld", "clt")
_COUNT = 100
_SAMPLING = {"none": "", "truncated-poisson": ",sampling=truncated-poisson,rate=0.1,dataset_size=100,largest_batch=30"}


@dataclass(frozen=True)
class Support:
    """One combination: which accountants take it and on which theorem, or why it is refused."""

    entry: str
    sampling: str
    adjacency: Adjacency
    accountants: tuple[str, ...]
    reason: str

    @property
    def refused(self) -> bool:
        return not self.accountants


def combinations() -> Iterator[tuple[str, str, Adjacency]]:
    """Every type, sampler and adjacency: an entry without its sampler, the sampler, the adjacency."""
    for word, kind in ENTRY_TYPES.items():
        for example in kind.examples:
            for scheme in ("none", *SCHEMES):
                for adjacency in ADJACENCIES:
                    yield f"{word},{example}", scheme, adjacency


def example_of(scheme: str) -> str:
    """A sampler, as written after a mechanism."""
    return _SAMPLING.get(scheme, f",sampling={scheme},rate=0.1")


@functools.cache
def supported(entry: str, scheme: str, adjacency: Adjacency) -> Support:
    """What is supported of one combination."""
    node = parse_inline(entry + example_of(scheme))
    try:
        mechanism = read_entry(node, adjacency).mechanism
        mechanism.pairs()
    except DpcalcError as error:
        reason = str(error).removeprefix(f"{node.source}: ")
        return Support(entry, scheme, adjacency, (), reason)
    found = tuple(_accountants(mechanism))
    return Support(entry, scheme, adjacency, found, mechanism.theorem())


def _accountants(mechanism: Mechanism) -> Iterator[str]:
    if mechanism.gdp() is not None:
        yield "gdp (exact)" if mechanism.gdp_is_exact() else "gdp (upper)"
    if math.isfinite(float(mechanism.rdp(np.array([2.0]))[0])):
        yield "rdp"
    yield "pld"
    try:
        compose([(mechanism, _COUNT)], delta=1e-5, accountant="clt")
    except DpcalcError:
        return
    yield "clt (approximate)"


def support_matrix() -> str:
    """The support matrix as a Markdown page."""
    lines = [
        "# What is supported",
        "",
        "Generated from the code by `python -m dpcalc.spec.support > docs/support-matrix.md`; a test compares the two.",
        "Each row was built as `dpcalc compose` would build it. A refusal is an error (exit code 2) with the reason.",
        "`auto` uses the tightest certified accountant of those listed. Declared (ε,δ) and RDP entries mix with all",
        "others through pairs that dominate every mechanism of that description.",
    ]
    previous = ""
    for row in (supported(*each) for each in combinations()):
        if row.entry != previous:
            lines += ["", f"## `{row.entry}`", "", "| sampling | adjacency | accountants | theorem, or why not |"]
            lines += ["|---|---|---|---|"]
            previous = row.entry
        accountants = "refused" if row.refused else ", ".join(row.accountants)
        lines.append(f"| {row.sampling} | {row.adjacency} | {accountants} | {row.reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(support_matrix())
