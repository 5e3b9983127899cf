"""Results that are read back: recomputed from what they list, their own numbers only compared.

A result is a text that anybody may have edited, so nothing in it is believed that can be worked out again. Its
mechanisms, adjacency and assumptions go into what is asked now; a number that they do not bear out is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from dpcalc.errors import CertificationError, InputError
from dpcalc.evidence import STATUSES, Status, weakest_status
from dpcalc.guarantee import Adjacency, Budget, Guarantee
from dpcalc.numbers import NON_NEGATIVE, RENYI_ORDER, Range
from dpcalc.report import plain, rounded_up, written
from dpcalc.spec.claim import Claim, stated_number
from dpcalc.spec.node import Node
from dpcalc.spec.specification import Document, read_adjacency, read_entries_of
from dpcalc.version import __version__

if TYPE_CHECKING:
    from dpcalc.spec.entries import Entry

# Commands whose mechanisms follow from their details: a function from those, as plain data, to the guarantee.
_FROM_DETAILS: Mapping[str, str] = {
    "sgd-bound": "dpcalc.last_iterate.recompute:guarantee_of",
    "exp-mech": "dpcalc.last_iterate.recompute:sampling_guarantee_of",
    "filter": "dpcalc.filters.recompute:guarantee_of",
    "train": "dpcalc.training.recompute:guarantee_of",
    "queries": "dpcalc.training.query_report:guarantee_of",
}

# Commands that compose by the same accountants as a recomputation.
_COMPOSED = ("compose", "calibrate", "report")

# How far two bounds on one number may differ, besides their tolerance, by the same accountants and by others.
_APART = 2e-3
_BY_OTHERS = 0.05
# Numbers that a closed form gives twice.
_SAME = 1e-6

_DEFAULT_TOLERANCE = 1e-3
# Another machine may come out elsewhere within the tolerance: what differs is decided by a tighter interval.
_CLOSELY = 1e-5
_LIMITS = ("max_epsilon", "max_delta", "max_mu", "max_rho", "max_advantage")


def read_result(root: Node) -> Document:
    """The JSON of a dpcalc command as a spec: what it lists, once its claims have been checked."""
    claim = Claim.read(root)
    asked = claim.question()
    document = Document(
        entries=read_entries_of(root, called=None if claim.command == "convert" else claim.command),
        adjacency=read_adjacency(claim.values["adjacency"]),
        budget=_budget(claim),
        status=claim.status,
        assumptions=claim.lines("assumptions"),
        warnings=claim.lines("warnings"),
        name=root.source,
        delta=asked.get("delta"),
        epsilon=asked.get("epsilon"),
        told=root.data(),
    )
    recomputed = _recomputed(claim, document)
    _compare(claim, recomputed)
    if claim.command in _COMPOSED and _differs(claim, recomputed):
        _compare_closely(claim, _recomputed(claim, document, _CLOSELY))
    assumptions = tuple(dict.fromkeys((*document.assumptions, *recomputed.assumptions)))
    return replace(document, assumptions=assumptions, attained=_is_attained(claim, recomputed))


def _is_attained(claim: Claim, recomputed: Guarantee) -> bool:
    """Whether its mechanisms cost as much as they may: a lower bound is told, and is found again."""
    asked = claim.question()
    told = not asked or claim.number("epsilon_lower" if "delta" in asked else "delta_lower") is not None
    return told and recomputed.lower(recomputed.asks) is not None


def _budget(claim: Claim) -> Budget:
    node = claim.values.get("budget")
    if node is None or not isinstance(node.content, dict):
        return Budget()
    node.only_keys(("within", *_LIMITS), "a budget")
    return Budget(**{key: stated_number(value, NON_NEGATIVE) for key, value in node.content.items() if key in _LIMITS})


def _recomputed(claim: Claim, document: Document, tolerance: float | None = None) -> Guarantee:
    """The guarantee that the listed mechanisms give to the question that the result answers, as tightly or more so."""
    assert document.adjacency is not None
    entries = replace(document, status="certified").read(document.adjacency)
    _expect_details(claim, entries)
    accountant = claim.values["accountant"].content if "accountant" in claim.values else "auto"
    statuses = [entry.status for entry in entries]
    _expect_status(claim, weakest_status([*statuses, "approximate" if accountant == "clt" else "certified"]))
    if claim.command in _FROM_DETAILS:
        return _from_details(claim, document)
    stated = claim.number("epsilon" if document.epsilon is None else "delta")
    return _composed(document, entries, str(accountant), tolerance or _tolerance(claim), stated)


def _composed(
    document: Document, entries: list[Entry], accountant: str, tolerance: float, stated: float | None
) -> Guarantee:
    """By the accountant that is named, and by all of them where it says more than is stated or fails."""
    from dpcalc.accounting.compose import ACCOUNTANTS
    from dpcalc.spec.composition import Question, compose_entries

    asked: dict[str, Any] = {"delta": document.delta, "epsilon": document.epsilon, "tolerance": tolerance}
    if document.delta is None and document.epsilon is None:
        asked["epsilon"] = 0.0  # nothing was asked; μ, ρ and RDP can still be compared
    found: Guarantee | None = None
    for choice in dict.fromkeys((accountant if accountant in ACCOUNTANTS else "auto", "auto")):
        try:
            found = compose_entries(entries, Question(accountant=cast(Any, choice), **asked))
        except (InputError, CertificationError) as error:
            failure = error
            continue
        upper = found.upper(found.asks)
        if stated is None or upper is None or stated >= upper * (1 - _SAME):
            break
    if found is None:
        raise failure
    return found


def _tolerance(claim: Claim) -> float:
    node = claim.details().get("tolerance") if claim.command in _COMPOSED else None
    found = None if node is None else stated_number(node, Range(low=1e-6, high=1))
    return _DEFAULT_TOLERANCE if found is None else found


def _from_details(claim: Claim, document: Document) -> Guarantee:
    """The guarantee that the details lead to, whose mechanisms must be the listed ones."""
    module, _, name = _FROM_DETAILS[claim.command].partition(":")
    function: Callable[[Any], Guarantee] = getattr(import_module(module), name)
    details = claim.details()
    try:
        guarantee = function({key: node.data() for key, node in details.items()})
    except (KeyError, TypeError, ValueError, InputError, CertificationError) as error:
        claim.refuse("details", f"does not lead to a guarantee again ({error})")
        raise AssertionError from error
    _expect_status(claim, guarantee.status)
    _expect_adjacency(claim, document, guarantee.adjacency)
    listed = document.entries
    if len(listed) != len(guarantee.mechanisms):
        claim.refuse("mechanisms", f"has {len(listed)} entries where its details lead to {len(guarantee.mechanisms)}")
    for node, expected in zip(listed, guarantee.mechanisms, strict=True):
        _same_entry(node, plain(expected))
    return guarantee


def _expect_status(claim: Claim, implied: Status) -> None:
    if STATUSES.index(claim.status) < STATUSES.index(implied):
        claim.refuse("guarantee", f"says {claim.status}, but what it was computed from is {implied}")


def _expect_adjacency(claim: Claim, document: Document, proved: Adjacency) -> None:
    if document.adjacency != proved:
        claim.refuse("adjacency", f"says {document.adjacency}, but what it was computed by holds under {proved}")


def _same_entry(node: Node, expected: Mapping[str, Any]) -> None:
    """Stop where an entry is not what its details lead to, up to rounding."""
    values = node.mapping("an entry")
    for key, wanted in expected.items():
        place = values.get(key)
        if place is None:
            node.fail(f"{key} is missing; its details lead to {wanted}")
        found = place.data()
        close = isinstance(wanted, (int, float)) and isinstance(found, (int, float)) and _close(found, wanted, _SAME)
        if not close and found != wanted:
            place.fail(f"says {found}, but its details lead to {wanted}")


def _expect_details(claim: Claim, entries: list[Entry]) -> None:
    """Stop where the details are not those of this command, or list other mechanisms."""
    details = claim.details()
    if claim.command not in ("compose", "report"):
        return
    costs = details["mechanisms"].items("a list")
    if len(costs) != len(entries):
        claim.refuse("mechanisms", f"lists {len(entries)} entries, and details.mechanisms {len(costs)}")
    for index, (cost, entry) in enumerate(zip(costs, entries, strict=True)):
        stated = cost.mapping("a mechanism").get("count")
        count = None if stated is None else stated_number(stated, NON_NEGATIVE)
        if count is not None and count != entry.count:
            claim.refuse(
                "mechanisms", f"entry {index} runs {entry.count} times, in details.mechanisms {written(count)}"
            )


def _compare(claim: Claim, recomputed: Guarantee) -> None:
    """Stop at the first number that says less than the recomputation, or that cannot have come from it."""
    asked = claim.question()
    if asked:
        _compare_answer(claim, recomputed, "epsilon" if "delta" in asked else "delta")
    for key in ("mu", "rho"):
        stated, found = claim.number(key), recomputed.upper(key)
        changed = found is not None and stated is not None and _same_version(claim) and found < stated * (1 - _SAME)
        if stated is not None and (changed or found is None or stated < found * (1 - _SAME)):
            claim.refuse(key, f"says {written(stated)}, but its mechanisms give {rounded_up(found)}")
    _compare_rdp(claim, recomputed)


def _compare_answer(claim: Claim, recomputed: Guarantee, key: str) -> None:
    stated, upper, lower = claim.number(key), recomputed.upper(key), recomputed.lower(key)
    if stated is None or upper is None:
        return
    apart = _APART + 2 * _tolerance(claim)
    contradicted = lower is not None and stated < lower * (1 - _SAME)
    if contradicted or stated < upper * (1 - apart):
        claim.refuse(key, f"says {written(stated)}, less than the {rounded_up(upper)} that its mechanisms give")
    largest = apart if claim.command in _COMPOSED else _BY_OTHERS
    if _same_version(claim) and upper < stated * (1 - largest):
        claim.refuse(key, f"says {written(stated)}, but its mechanisms give {rounded_up(upper)}: one was changed")
    stated_lower = claim.number(f"{key}_lower")
    if stated_lower is not None and stated_lower > upper * (1 + _SAME):
        claim.refuse(f"{key}_lower", f"says {written(stated_lower)}, above the {rounded_up(upper)} that holds")


def _differs(claim: Claim, recomputed: Guarantee) -> bool:
    """Whether the answer is less than it comes out now, if only by a part of its tolerance."""
    key = "epsilon" if "delta" in claim.question() else "delta"
    stated, upper = claim.number(key), recomputed.upper(key)
    return stated is not None and upper is not None and stated < upper * (1 - _SAME)


def _compare_closely(claim: Claim, recomputed: Guarantee) -> None:
    """Stop where an answer that is within its tolerance of the recomputed one does not hold for what is listed."""
    key = "epsilon" if "delta" in claim.question() else "delta"
    stated, upper = claim.number(key), recomputed.upper(key)
    if stated is not None and upper is not None and stated < upper * (1 - 2 * _CLOSELY):
        claim.refuse(key, f"says {written(stated)}, less than the {rounded_up(upper)} that its mechanisms give")


def _compare_rdp(claim: Claim, recomputed: Guarantee) -> None:
    known = dict(recomputed.rdp)
    points = claim.values["rdp"].items("a list") if "rdp" in claim.values else []
    for point in points:
        values = point.mapping("a point of RDP")
        order = stated_number(values.get("order"), RENYI_ORDER)
        stated = stated_number(values.get("epsilon"), NON_NEGATIVE)
        if order not in known or stated is None:
            continue
        if stated < known[order] * (1 - _SAME):
            point.fail(f"says {written(stated)}, less than the {rounded_up(known[order])} that its mechanisms give")
        if _same_version(claim) and known[order] < stated * (1 - _SAME):
            point.fail(f"says {written(stated)}, but its mechanisms give {rounded_up(known[order])}: one was changed")


def _same_version(claim: Claim) -> bool:
    """Whether this program made the result, so that its numbers cannot be larger than they come out now either."""
    return "version" in claim.values and claim.values["version"].content == __version__


def _close(one: float, other: float, apart: float) -> bool:
    return abs(one - other) <= apart * max(abs(one), abs(other))
