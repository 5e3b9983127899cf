"""`dpcalc verify`: results recomputed by code that shares nothing with the accountants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcalc.asked import Asked, argument, number, option
from dpcalc.errors import InputError, missing
from dpcalc.guarantee import Outcome, Result, Section
from dpcalc.numbers import NON_NEGATIVE, RENYI_ORDER
from dpcalc.terminal.progress import progress

if TYPE_CHECKING:
    from dpcalc.referee.check import Finding

_LARGEST = 10_000_000
_OUTCOMES: dict[str, Outcome] = {"confirmed": "within", "contradicted": "over", "not-checked": "unproved"}

_NO_GUARANTEE = "has no effect: verdicts have no ε of their own"


@dataclass(frozen=True, kw_only=True)
class Verify(Asked):
    """Recompute results in ball arithmetic, and say of each: confirmed, contradicted or not checked.

    Exit code 0 if all are confirmed, 1 if any is contradicted, 3 if any could not be checked. Needs the extra `verify`.
    """

    example: ClassVar[str] = "dpcalc verify --self-test"
    draws: ClassVar[bool] = False

    results: Annotated[
        tuple[str, ...],
        argument(metavar="RESULT…", help="JSON of any dpcalc command; - is standard input.", repeated=True),
    ] = ()
    self_test: Annotated[
        bool, option("--self-test", help="Check what is assumed of this machine: rounding, transforms, functions.")
    ] = False
    seconds: Annotated[float, number("--seconds", help="How long to refine the grids of one result.")] = 60.0
    nightly: Annotated[bool, option("--nightly", help="Up to an hour, and finer grids, for each result.")] = False

    def idle(self) -> Mapping[str, str]:
        """There is no guarantee to hold against limits, and without a result no grid to refine."""
        found = dict.fromkeys((each.name for each in Asked.fields()), _NO_GUARANTEE)
        if not self.results:
            found |= dict.fromkeys(("seconds", "nightly"), "has no effect without a RESULT")
        return found | ({"seconds": "has no effect with `nightly`"} if self.nightly else {})

    def answer(self) -> Result:
        """A verdict on each."""
        try:
            from dpcalc.referee.check import NIGHTLY_POINTS, NIGHTLY_SECONDS, POINTS, Finding, checked
            from dpcalc.referee.platform import tested
        except ImportError:
            raise missing("ball arithmetic needs python-flint", "verify") from None
        for quantity in self.limits.limits():
            raise InputError(_NO_GUARANTEE, where=f"max_{quantity}")
        if not self.results and not self.self_test:
            raise InputError("there is nothing to verify: give `results`, or `self_test`")
        rows: list[tuple[str, Finding]] = []
        if self.self_test:
            for name, holds, words in tested():
                rows.append((name, Finding("confirmed" if holds else "contradicted", words)))
        seconds, points = (NIGHTLY_SECONDS, NIGHTLY_POINTS) if self.nightly else (self.seconds, POINTS)
        for name in self.results:
            document = _read(name)
            with progress(f"Verifying, at most about {seconds:g} s:") as advance:
                advance(0, notes=lambda name=name: (name,))
                rows.append((name, checked(document, seconds, points=points)))
        findings = [finding for _, finding in rows]
        told = [{"result": name, "verdict": each.verdict, "reason": each.reason} for name, each in rows]
        table = tuple((name, each.verdict, each.reason) for name, each in rows)
        return Result(
            command="verify",
            details={"checks": told},
            headline=_headline(findings),
            sections=(Section(title="", columns=("what", "verdict", "why"), rows=table),),
            records=tuple(told),
            goal=_goal(findings),
        )


def _read(name: str) -> dict[str, Any]:
    import json

    from dpcalc.files import read_bytes

    data = read_bytes(name, limit=_LARGEST, what="a result")
    try:
        text = data.decode()
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not the JSON of a dpcalc command", where=name) from None
    if not isinstance(document, dict) or document.get("schema") != "dpcalc/1":
        raise InputError('not the JSON of a dpcalc command ("schema": "dpcalc/1" is missing)', where=name)
    _check_form(document, text, name)
    return document


def _check_form(document: dict[str, Any], text: str, name: str) -> None:
    """Raise at a field that is not what such a field may be; whether it is true is what the referee tells."""
    from dpcalc.spec.claim import stated_number
    from dpcalc.spec.specification import Document, read_adjacency, read_entries_of
    from dpcalc.spec.text import parse

    root = parse(text, name)
    values = root.mapping("a result")
    for key in ("epsilon", "delta", "epsilon_lower", "delta_lower", "mu", "rho"):
        stated_number(values.get(key), NON_NEGATIVE)
    for point in values["rdp"].items("a list") if document.get("rdp") else ():
        row = point.mapping("a point of RDP")
        if None in (stated_number(row.get("order"), RENYI_ORDER), stated_number(row.get("epsilon"), NON_NEGATIVE)):
            point.fail("expected an order and an epsilon")
    if document.get("question") is not None:
        values["question"].mapping("a question")
    if document.get("mechanisms"):
        if "adjacency" not in values:
            root.fail("adjacency is missing from the result")
        adjacency = read_adjacency(values["adjacency"])
        Document(entries=read_entries_of(root), adjacency=adjacency, name=name).read(adjacency)


def _goal(findings: list[Finding]) -> Outcome:
    outcomes = {_OUTCOMES[finding.verdict] for finding in findings}
    return "over" if "over" in outcomes else "unproved" if "unproved" in outcomes else "within"


def _headline(findings: list[Finding]) -> str:
    count = {verdict: sum(f.verdict == verdict for f in findings) for verdict in _OUTCOMES}
    if count["contradicted"]:
        return f"NO: {count['contradicted']} of {len(findings)} contradicted"
    if count["not-checked"]:
        return f"{count['confirmed']} of {len(findings)} confirmed, {count['not-checked']} could not be checked"
    return "confirmed" if len(findings) == 1 else f"all {len(findings)} confirmed"
