"""The commands, one file each: a question as a frozen record, and its answer. This table is all that others know.

A name with a space is a sub-command. Entry points in the group `dpcalc.commands` add lines from other packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpcalc.asked import Asked

ENTRY_POINTS = "dpcalc.commands"


class Line(NamedTuple):
    """Where a command is (nowhere for a group of them), and what it is for in a few words."""

    home: str
    words: str


COMMANDS = {
    "compose": Line("compose:Compose", "ε of a list of mechanisms, certified from above and below"),
    "calibrate": Line("calibrate:Calibrate", "the noise, rate or count that keeps a list within a budget"),
    "convert": Line("convert:Convert", "the same guarantee as (ε,δ), μ-GDP, RDP, zCDP or attack risk"),
    "filter": Line("filter:Filter", "did an adaptive run keep its budget, and what did each person lose"),
    "queries": Line("queries:Queries", "sums over people, asked one by one, under a budget for each"),
    "sgd-bound": Line("sgd_bound:SgdBound", "ε when only the last iterate of a convex run is released"),
    "exp-mech": Line("exp_mech:ExpMech", "ε of the exponential mechanism and of Langevin sampling"),
    "train": Line("train:Train", "train a model privately and say what it cost"),
    "verify": Line("verify:Verify", "recompute results by code that shares nothing with the engine"),
    "report": Line("report:Report", "one page about a release or a ledger, or words to publish"),
    "diff": Line("diff:Diff", "what changed between two releases, by entry and in ε"),
    "ledger": Line("", "budgets that last: charge releases before they run, audit them"),
    "ledger init": Line("ledger:Init", "fix a budget for ever: its limit, whom it protects, its filter"),
    "ledger spend": Line("ledger:Spend", "charge releases before they run: accepted, or refused"),
    "ledger status": Line("ledger:Status", "what is spent and left, what still fits, how long it lasts"),
    "ledger log": Line("ledger:Log", "every entry, oldest first: budgets, spends and voids"),
    "ledger verify": Line("ledger:Verify", "check the chain, all totals and decisions, and every cost"),
    "ledger void": Line("ledger:Void", "take back a spend that provably never touched the data"),
    "ledger import": Line("ledger:Import", "take in an export: all of it or nothing"),
    "ledger export": Line("ledger:Export", "write a ledger as JSON Lines: a backup, a copy for an auditor"),
}


def question(name: str) -> type[Asked]:
    """The record of a command, imported when it is asked for; `package.module:Record` where it is not one of ours."""
    module, _, record = COMMANDS[name].home.partition(":")
    found: type[Asked] = getattr(import_module(module if "." in module else f"{__name__}.{module}"), record)
    return found


def plugged_in() -> dict[str, Line]:
    """The commands that other installed packages add, with a line for every group of them."""
    from importlib.metadata import entry_points

    found: dict[str, Line] = {}
    for each in entry_points(group=ENTRY_POINTS):
        words = f"by {each.dist.name}" if each.dist else "by another package"
        group, _, _ = each.name.rpartition(" ")
        if group:
            found.setdefault(group, Line("", words))
        found[each.name] = Line(each.value, words)
    return found
